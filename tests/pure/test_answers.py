"""The gateway's own error objects."""

import json

import pytest

from proxy import answers


@pytest.mark.parametrize(
    ("status", "type"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "invalid_request_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (413, "invalid_request_error"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (499, "invalid_request_error"),
        (500, "server_error"),
        (502, "server_error"),
        (504, "server_error"),
        (529, "server_error"),
    ],
)
def test_the_type_follows_from_the_status_alone(status, type):
    assert json.loads(answers.envelope(status, "m", "c"))["error"]["type"] == type


def test_an_error_has_exactly_the_four_members_of_openai():
    """part of v1-api 44a"""
    error = json.loads(answers.envelope(404, 'model not found: "x"', "model_not_found", "model"))
    assert error == {
        "error": {
            "message": 'model not found: "x"',
            "type": "not_found_error",
            "param": "model",
            "code": "model_not_found",
        }
    }
    assert json.loads(answers.envelope(500, "m", None))["error"]["code"] is None


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("provider_saturated", 429, "rate_limit_exceeded"),
        ("provider_saturated", 502, "rate_limit_exceeded"),
        ("provider_quota_exhausted", 429, "insufficient_quota"),
        ("provider_not_entitled", 402, "insufficient_quota"),
        ("provider_model_gone", 404, "model_not_found"),
        ("auth", 403, "permission_denied"),
        ("internal", 500, "internal_error"),
        ("internal", 502, "internal"),
        ("internal", 0, "internal"),
        ("provider_error", 401, "provider_error"),
        ("provider_timeout", 502, "provider_timeout"),
        ("failover_timeout", 504, "failover_timeout"),
        ("retry_timeout", 504, "retry_timeout"),
        ("client_disconnect", 499, "client_disconnect"),
        ("provider_bad_request", 502, "provider_bad_request"),
    ],
)
def test_the_code_follows_from_the_error_kind(kind, status, code):
    assert answers.code_of(kind, status) == code


def test_an_error_answer_says_when_to_come_back():
    answer = answers.error(429, "busy", "rate_limit_exceeded", retry_after=7)
    assert answer.headers == ((b"content-type", b"application/json"), (b"retry-after", b"7"))
    assert answers.error(429, "busy", "rate_limit_exceeded").headers == ((b"content-type", b"application/json"),)


def test_the_last_event_of_a_broken_stream_is_one_error_frame():
    frame = answers.stream_error("stream stalled: no data for 30s", "provider_timeout")
    assert frame.startswith(b"data: {") and frame.endswith(b"}\n\n") and frame.count(b"\n") == 2
    assert json.loads(frame[6:]) == {
        "error": {
            "message": "stream stalled: no data for 30s",
            "type": "server_error",
            "param": None,
            "code": "provider_timeout",
        }
    }
