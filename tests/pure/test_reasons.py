"""What an error body says, and what clients and rows get to read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.ratelimit import RateClass, Reading
from proxy import reasons, terminal
from proxy.answers import JSON
from proxy.terminal import Failure


def body(**error: object) -> reasons.ErrorBody:
    return reasons.read(json.dumps({"error": error}).encode())


def test_the_error_object_is_read():
    error = body(message="m", code="c", type="t")
    assert (error.json, error.stated, error.code, error.type, error.message, error.text) == (
        True,
        True,
        "c",
        "t",
        "m",
        "m",
    )


@pytest.mark.parametrize(
    ("raw", "stated", "text"),
    [
        (b'{"error": "boom"}', True, "boom"),
        (b'[{"error": {"message": "google", "code": 400}}]', False, "google"),
        (b'{"message": "plain"}', False, "plain"),
        (b'{"detail": "fastapi"}', False, "fastapi"),
        (b'{"error": {"detail": "inner"}}', True, "inner"),
        (b'{"error": {}}', False, '{"error": {}}'),
        (b'{"error": []}', False, '{"error": []}'),
        (b'{"error": null}', False, '{"error": null}'),
        (b'{"error": " "}', False, '{"error": " "}'),
        (b'{"error": false}', True, '{"error": false}'),
        (b'{"error": 0}', True, '{"error": 0}'),
        (b"<html>no</html>", False, "<html>no</html>"),
        (b"", False, ""),
        (b"\xff\xfe", False, "��"),
        (b"5", False, "5"),
        (b"[]", False, "[]"),
    ],
)
def test_other_forms_are_read_as_far_as_they_go(raw: bytes, stated: bool, text: str):
    error = reasons.read(raw)
    assert (error.stated, error.text) == (stated, text)


@pytest.mark.parametrize(
    "error",
    [
        {"code": "context_length_exceeded"},
        {"type": "exceed_context_size_error"},
        {"message": "This model's maximum context length is 8192 tokens"},
        {"message": "prompt is too long: 212345 tokens > 200000 maximum"},
        {"message": "input exceed context limit"},
        {"message": "request exceeds the context window"},
        {"message": "it Exceeds the available context size"},
        {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8)"},
    ],
)
def test_a_prompt_too_long_is_recognised_under_400_only(error: dict[str, str]):
    """failover-loop 101, part of failover-loop 102"""
    assert reasons.too_long(400, body(**error))
    assert not reasons.too_long(422, body(**error))


@pytest.mark.parametrize("message", ["max_tokens is too large", "input token count is off", "exceeds the maximum"])
def test_other_complaints_about_tokens_are_no_prompt_too_long(message: str):
    assert not reasons.too_long(400, body(message=message))


def kind(status: int, model: str = "z-ai/glm-4.6", **error: object) -> str:
    return reasons.classify(status, body(**error), model)[0]


@pytest.mark.parametrize(
    "error",
    [
        {"code": "model_not_found", "message": "x"},
        {"code": "model_not_supported"},
        {"type": "not_found_error", "message": "model: glm-4.6"},
        {"message": "The model `glm-4.6` does not exist"},
        {"message": "glm-4.6 is no longer available"},
        {"message": "unknown model z-ai/glm-4.6"},
        {"message": "models/glm-4.6 is not found for API version v1beta"},
        {"message": "GLM-4.6-20250101 is not supported"},
        {"message": "glm-4.6-2025-01-01 is not supported"},
    ],
)
def test_a_model_that_is_gone(error: dict[str, str]):
    assert kind(404, **error) == "provider_model_gone"


@pytest.mark.parametrize(
    "error",
    [
        {"message": "The model `glm-4.6` is not supported for this endpoint"},
        {"message": "glm-4.6 is not supported on your plan"},
        {"message": "glm-4.6 is fine. It does not exist elsewhere"},
        {"message": "glm-4.6x does not exist"},
        {"message": "glm-4.6-9 does not exist"},
        {"message": "other-model-7b does not exist"},
        {"message": "glm-4.6 and gpt-4o does not exist"},
        {"message": "parameter does not exist"},
        {"message": "glm-4.6 with a very long explanation of everything around it does not exist"},
        {"type": "not_found_error", "message": "no such route"},
    ],
)
def test_other_complaints_are_no_claim_about_the_model(error: dict[str, str]):
    assert kind(404, **error) == "provider_error"


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (402, "x", "provider_not_entitled"),
        (403, "Insufficient balance", "provider_not_entitled"),
        (429, "You exceeded your current quota", "provider_not_entitled"),
        (400, "unsupported parameter: x", "provider_bad_request"),
        (400, "Invalid JSON request body", "provider_bad_request"),
        (422, "unsupported parameter: x", "provider_error"),
        (400, "max_tokens too large", "provider_error"),
        (500, "boom", "provider_error"),
    ],
)
def test_the_other_kinds(status: int, message: str, expected: str):
    assert kind(status, message=message) == expected


@given(st.binary(max_size=80), st.integers(300, 700), st.text(max_size=12))
def test_no_body_raises(raw: bytes, status: int, model: str):
    error = reasons.read(raw)
    assert reasons.classify(status, error, model)[0].startswith("provider_")
    assert reasons.too_long(status, error) in (True, False)


# -- the row of an exhausted request


@pytest.mark.parametrize(
    ("failure", "contacted", "text"),
    [
        (Failure("client_disconnect"), 2, 'client disconnected during attempt 2 to provider "P"'),
        (Failure("provider_timeout", hint="h"), 3, 'provider "P" did not return a response in time on attempt 2; h'),
        (Failure("failover_timeout"), 3, 'request timed out while waiting on provider "P" (attempt 2)'),
        (Failure("internal", "e"), 1, "internal error on attempt 2: e"),
        (
            Failure("provider_model_gone", "boom"),
            1,
            'provider "P" no longer serves this model (attempt 2); last provider error: boom',
        ),
        (
            Failure("provider_not_entitled"),
            2,
            'all 2 providers failed; last error: provider "P" rejected the request for billing or plan reasons '
            "on attempt 2",
        ),
        (
            Failure("provider_saturated", "slow down"),
            3,
            'all 3 providers busy; last error: provider "P" is busy (rate limited at capacity) on attempt 2; '
            "last provider error: slow down",
        ),
        (Failure("provider_quota_exhausted"), 1, 'provider "P" has spent its usage quota on attempt 2'),
        (Failure("provider_bad_request"), 1, 'provider "P" rejected the request payload on attempt 2'),
        (
            Failure("provider_error", "boom", 503, http=True),
            1,
            'provider "P" returned HTTP 503 on attempt 2; last provider error: boom',
        ),
        (Failure("provider_error", "e"), 2, 'all 2 providers failed; last error: provider "P" failed on attempt 2: e'),
    ],
)
def test_the_message_of_an_exhausted_request(failure: Failure, contacted: int, text: str):
    assert terminal.row_message(failure, "P", 2, contacted) == text


def test_an_earlier_error_is_named_after_a_disconnect():
    text = terminal.row_message(Failure("client_disconnect"), "P", 2, 2, before="scripted 503")
    assert text == 'client disconnected while retrying provider "P" (attempt 2); last provider error: scripted 503'


@pytest.mark.parametrize(
    ("kind", "group", "status", "message"),
    [
        ("failover_timeout", True, 504, "request timed out for model m"),
        ("client_disconnect", True, 499, "client disconnected"),
        ("provider_error", True, 502, "all providers failed for model m"),
        ("provider_timeout", False, 502, "provider request failed for model m"),
        ("internal", False, 502, "provider request failed for model m"),
    ],
)
def test_the_exhaustion_answers(kind: str, group: bool, status: int, message: str):
    answer = terminal.exhaustion(Failure(kind), "m", group=group, busy_429=True)
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["message"], error["code"]) == (status, message, kind)
    assert answer.headers == (JSON,)


@pytest.mark.parametrize(
    ("wait", "busy_429", "status", "header"),
    [
        (0.02, True, 429, "1"),
        (1.0, True, 429, "1"),
        (1.2, True, 429, "2"),
        (None, True, 429, "2"),
        (9, False, 502, None),
    ],
)
def test_a_busy_exhaustion_says_when_to_come_back(wait, busy_429: bool, status: int, header: str | None):
    """v1-api 9.5. A positive wait never becomes a Retry-After of zero."""
    reading = None if wait is None else Reading(RateClass.SATURATED, retry_after=wait)
    for group, message in ((True, "all providers busy for model m"), (False, "provider busy for model m")):
        failure = Failure("provider_saturated", reading=reading)
        answer = terminal.exhaustion(failure, "m", group=group, busy_429=busy_429)
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["message"]) == (status, f"{message}, retry shortly")
        assert error["code"] == "rate_limit_exceeded"
        assert dict(answer.headers).get(b"retry-after") == (header.encode() if header else None)


@pytest.mark.parametrize(("status", "shown"), [(399, 502), (400, 400), (599, 599), (600, 502), (302, 502)])
def test_no_error_travels_under_a_status_that_is_none(status: int, shown: int):
    assert terminal.client_status(status) == shown
