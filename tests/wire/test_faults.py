"""First provider broken, second healthy: the outcome at the client, in the row, in the circuit."""

import json

import pytest

from tests.upstream.server import (
    answer,
    cut_after,
    empty_choices,
    first_event_error,
    headers_then_silence,
    silence,
    status,
    stream,
)
from tests.upstream.spoken import PROMPT
from tests.wire.house import GROUP, MODEL, QUICK

REFUSED = "refused"


@pytest.fixture(scope="module", autouse=True)
def _quick(shared_house):
    shared_house.settings(**QUICK)


def break_a(home, fault):
    if fault is REFUSED:
        home.a.refuse()
    else:
        home.a.script(fault)


BOTH = [
    pytest.param(status(500, {"error": {"message": "boom"}}), 500, "provider_error", "charge", id="500"),
    pytest.param(status(401, {"error": {"message": "bad key"}}), 401, "provider_error", "charge", id="401"),
    pytest.param(status(404, {"error": {"message": "nope"}}), 404, "provider_error", "noop", id="404"),
    pytest.param(REFUSED, None, "provider_error", "charge", id="connection refused"),
]


@pytest.mark.parametrize(("fault", "seen", "kind", "word"), BOTH)
@pytest.mark.parametrize("streaming", [False, True])
def test_the_second_provider_answers_and_the_trail_says_why(home, fault, seen, kind, word, streaming):
    """operations 4"""
    break_a(home, fault)
    home.b.script(stream(["from B"]) if streaming else answer("from B"))
    found = home.ask(stream=streaming)
    assert found.status_code == 200 and "from B" in found.text
    assert found.headers["x-modelhotel-provider"] == "Beta"
    assert found.headers["x-modelhotel-attempts"] == "2"
    row = home.row()
    assert (row["provider_name"], row["failover_attempt"], row["status_code"]) == ("Beta", 1, 200)
    assert home.trail() == [(0, "Alpha", seen, kind, word), (1, "Beta", 200, None, "success")]
    assert home.circuit("Alpha")["consecutive_fails"] == (1 if word == "charge" else 0)
    assert home.circuit("Beta")["state"] == "closed"


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        pytest.param(status(500, {"error": {"message": "secret"}}), 500, "the provider failed to serve", id="500"),
        pytest.param(status(401, {"error": {"message": "secret"}}), 401, "the provider failed to serve", id="401"),
        pytest.param(status(404, {"error": {"message": "secret"}}), 404, "the provider failed to serve", id="404"),
        pytest.param(REFUSED, 502, f"provider request failed for model Alpha/{MODEL}", id="connection refused"),
    ],
)
def test_the_last_provider_shows_its_status_in_our_words(home, fault, code, message):
    break_a(home, fault)
    found = home.ask(f"Alpha/{MODEL}")
    assert found.status_code == code
    error = found.json()["error"]
    assert error["message"].startswith(message) and "secret" not in found.text
    assert set(error) == {"message", "type", "param", "code"}
    row = home.row()
    assert (row["status_code"], row["state"], row["error_kind"]) == (code, "failed", "provider_error")


def test_a_silent_provider_is_left_after_the_request_timeout(home):
    home.a.script(silence())
    home.settings(request_timeout="300ms")
    try:
        found = home.ask()
        assert (found.status_code, found.headers["x-modelhotel-provider"]) == (200, "Beta")
        assert home.trail()[0] == (0, "Alpha", None, "failover_timeout", "charge")
    finally:
        home.settings(request_timeout=QUICK["request_timeout"])
    home.a.wait_disconnects(1)


def test_a_silent_stream_is_left_after_the_first_token_timeout(home):
    home.a.script(headers_then_silence())
    home.b.script(stream(["from B"]))
    found = home.ask(stream=True)
    assert "from B" in found.text and found.text.endswith("data: [DONE]\n\n")
    assert home.trail() == [(0, "Alpha", 200, "provider_timeout", "charge"), (1, "Beta", 200, None, "success")]
    assert home.circuit("Alpha")["last_cause"] == "TTFT probe failed"


def test_an_error_as_first_event_moves_on_by_the_status_it_carries(home):
    home.a.script(first_event_error({"message": "overloaded", "code": 503}))
    home.b.script(stream(["from B"]))
    assert "from B" in home.ask(stream=True).text
    assert home.trail()[0] == (0, "Alpha", 503, "provider_error", "charge")


def test_an_error_as_first_event_that_does_not_move_on_is_an_ordinary_answer(home):
    home.a.script(first_event_error({"message": "bad tools", "code": 400}))
    found = home.ask(stream=True)
    assert found.status_code == 400
    assert found.headers["content-type"] == "application/json"
    assert home.b.calls == []


def test_empty_choices_are_no_answer(home):
    home.a.script(empty_choices())
    found = home.ask()
    assert found.json()["choices"][0]["message"]["content"] == "from B"
    assert home.trail()[0] == (0, "Alpha", 200, "provider_error", "charge")
    assert home.circuit("Alpha")["last_cause"] == "response completed without delivering content"


def test_empty_choices_of_the_last_provider_are_a_502(home):
    home.a.script(empty_choices())
    found = home.ask(f"Alpha/{MODEL}")
    assert found.status_code == 502
    assert found.json()["error"]["message"] == "provider returned no choices (provider Alpha, upstream HTTP 200)"
    assert home.row()["attempts"][0]["status"] == 200


def test_a_stream_cut_after_three_chunks_ends_with_one_error_frame_and_no_done(home):
    """part of operations 6"""
    home.a.script(cut_after(3))
    found = home.ask(stream=True)
    assert found.status_code == 200
    frames = [line[6:] for line in found.text.split("\n\n") if line.startswith("data: ")]
    assert "[DONE]" not in found.text
    error = json.loads(frames[-1])["error"]
    assert error["type"] == "server_error" and error["code"] == "provider_error"
    assert len([f for f in frames if '"error"' in f]) == 1
    row = home.row()
    assert (row["state"], row["status_code"], row["error_kind"]) == ("failed", 0, "provider_error")
    assert home.trail() == [(0, "Alpha", 200, "provider_error", "charge")]
    assert home.circuit("Alpha")["last_cause"] == "response failed after headers"
    assert home.b.calls == []


def test_a_body_that_is_no_json_at_all_is_not_shown_to_anyone(home):
    home.a.script(status(200, b"<html>prompt of somebody</html>"))
    assert home.ask().headers["x-modelhotel-provider"] == "Beta"
    found = home.ask(f"Alpha/{MODEL}")
    assert found.status_code == 502
    assert "somebody" not in found.text and "somebody" not in json.dumps(home.row())


def test_five_of_twenty_five_calls_reach_a_dead_provider_then_one_probe_then_it_is_back(home):
    """circuit-breaker 1"""
    home.settings(circuit_breaker_cooldown="1s")
    try:
        home.a.script(status(500))
        for _ in range(25):
            assert home.ask().status_code == 200
        assert len(home.a.calls) == 5
        assert len(home.b.calls) == 25
        assert home.circuit("Alpha")["state"] == "open"
        assert home.trail()[0] == (-1, "Alpha", None, None, "skipped")
        home.a.script(answer("from A"))
        wait_until_probe_is_due(home)
        assert home.ask().headers["x-modelhotel-provider"] == "Alpha"
        assert len(home.a.calls) == 6
        assert home.circuit("Alpha")["state"] == "closed"
    finally:
        home.admin("DELETE", "/api/settings", json={"keys": ["circuit_breaker_cooldown"]})


def wait_until_probe_is_due(home):
    import time

    deadline = time.monotonic() + 15
    while home.circuit("Alpha")["state"] == "open":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_group_without_a_candidate_says_when_to_come_back(home):
    home.a.script(status(500))
    home.b.script(status(500))
    home.settings(server_error_retry_enabled="false")
    for _ in range(5):
        assert home.ask(GROUP).status_code == 500
    home.settings(server_error_retry_enabled="true")
    found = home.ask(GROUP)
    assert found.status_code == 429
    assert 1 <= int(found.headers["retry-after"]) <= 60
    assert found.json()["error"]["message"] == (
        f"no available provider for {GROUP}: Alpha/{MODEL}: circuit breaker open; Beta/{MODEL}: circuit breaker open"
    )
    row = home.row()
    assert [one["attempt"] for one in row["attempts"]] == [-1, -1]
    assert row["error_kind"] == "provider_saturated"


CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("message", "fails"),
    [
        pytest.param({"tool_calls": [CALL]}, 0, id="tool calls"),
        pytest.param({"reasoning": "because"}, 0, id="reasoning"),
        pytest.param({"images": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}, 0, id="images"),
        pytest.param({"bookkeeping": "x"}, 1, id="an unknown member"),
    ],
)
def test_an_answer_without_text_is_judged_by_what_else_it_carries(home, message, fails):
    """circuit-breaker 7"""
    usage = {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}
    home.a.script(answer(None, usage=usage, **message))
    assert home.ask().headers["x-modelhotel-provider"] == "Alpha"
    assert home.circuit("Alpha")["consecutive_fails"] == fails
    assert home.trail() == [(0, "Alpha", 200, None, "charge" if fails else "success")]


def test_headers_of_an_answer_that_is_still_coming_are_no_verdict(home):
    """circuit-breaker 9"""
    home.a.script(status(500), stream(["a", "b", "c", "d"], delay=0.1))
    home.ask()
    before = home.circuit("Alpha")
    body = {"model": GROUP, "messages": [{"role": "user", "content": PROMPT}], "stream": True}
    with home.http.stream("POST", "/v1/chat/completions", json=body) as found:
        assert found.status_code == 200
        assert home.circuit("Alpha") == before
        found.read()
    assert home.circuit("Alpha")["consecutive_fails"] == 0
