"""Providers that give no usable HTTP answer: retries on the spot, timeouts, malformed answers."""

import pytest

from providers.upstream import select
from providers.upstream.interface import FaultKind, Request, Response, UpstreamError
from proxy import chat_attempt, refusals, walk
from proxy.tools import Tools
from tests.proxy.walk.stage import Stage
from tests.upstream.server import (
    FakeProvider,
    Unreachable,
    answer,
    half_json,
    headers_then_silence,
    html,
    raw,
    reply,
    reset,
    silence,
    status,
    wrong_length,
)


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    return stage


class Failing:
    """A client whose first sends fail in a given way; what follows goes to the real one."""

    def __init__(self, *faults: UpstreamError) -> None:
        self.faults = list(faults)
        self.sends = 0
        self.real = select.data_plane()

    async def send(self, request: Request, *, deadline: float, header_timeout: float) -> Response:
        self.sends += 1
        if self.faults:
            raise self.faults.pop(0)
        return await self.real.send(request, deadline=deadline, header_timeout=header_timeout)

    async def aclose(self) -> None:
        return None


def through(monkeypatch: pytest.MonkeyPatch, client: Failing) -> None:
    tools = walk.TOOLS
    monkeypatch.setattr(walk, "TOOLS", Tools(tools.sleep, tools.chance, lambda: client))


async def test_a_refused_connection_is_tried_three_times_and_charged_once(ab: Stage, provider_a: FakeProvider):
    """failover-loop 10, circuit-breaker 21"""
    provider_a.refuse()
    got = await ab.ask()
    assert got.status == 200
    assert ab.trail == [(0, "A", None, "provider_error", "charge"), (1, "B", 200, None, "success")]
    assert ab.fails("A") == 1 and ab.cause("A") == ("upstream request failed", 0)
    # two transport retries, then the backoff before B
    assert ab.waits == [pytest.approx(0.15), pytest.approx(0.25), pytest.approx(0.15)]


async def test_a_name_that_resolves_at_the_third_try_leaves_no_trace(ab: Stage, monkeypatch: pytest.MonkeyPatch):
    """failover-loop 11"""
    lost = [UpstreamError(FaultKind.DNS, "a.test: not found") for _ in range(2)]
    client = Failing(*lost)
    through(monkeypatch, client)
    assert (await ab.ask()).status == 200
    assert client.sends == 3 and ab.fails("A") == 0
    assert ab.trail == [(0, "A", 200, None, "success")] and ab.row.failover_attempt == 0


@pytest.mark.parametrize("resets", [1, 2])
async def test_a_reset_after_the_request_was_written_is_tried_again(resets: int, ab: Stage, provider_a: FakeProvider):
    """failover-loop 12, circuit-breaker 21"""
    provider_a.script(*[reset()] * resets, answer("from A"))
    assert (await ab.ask()).status == 200
    assert len(provider_a.calls) == resets + 1 and ab.trail == [(0, "A", 200, None, "success")]
    assert ab.fails("A") == 0


async def test_three_resets_are_one_charge(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 21"""
    provider_a.script(reset())
    assert (await ab.ask()).status == 200
    assert len(provider_a.calls) == 3 and ab.fails("A") == 1
    assert ab.trail == [(0, "A", None, "provider_error", "charge"), (1, "B", 200, None, "success")]


@pytest.mark.parametrize(
    "fault",
    [
        UpstreamError(FaultKind.PROTOCOL, "x", request_written=True),
        UpstreamError(FaultKind.DIAL_TIMEOUT, "x"),
        UpstreamError(FaultKind.HEADER_TIMEOUT, "x", request_written=True),
    ],
)
async def test_timeouts_and_protocol_errors_are_not_tried_again(
    fault: UpstreamError, ab: Stage, monkeypatch: pytest.MonkeyPatch
):
    """failover-loop 13, failover-loop 14"""
    client = Failing(fault)
    through(monkeypatch, client)
    assert (await ab.ask()).status == 200
    assert client.sends == 2 and ab.fails("A") == 1


async def test_a_forbidden_address_is_treated_like_a_failed_lookup(ab: Stage, monkeypatch: pytest.MonkeyPatch):
    client = Failing(*(UpstreamError(FaultKind.FORBIDDEN, "x") for _ in range(3)))
    through(monkeypatch, client)
    assert (await ab.ask()).status == 200
    assert client.sends == 4 and ab.fails("A") == 1


async def test_a_malformed_status_line_moves_on_with_one_charge(ab: Stage, provider_a: FakeProvider):
    """failover-loop 13"""
    provider_a.script(raw(b"NONSENSE\r\n\r\n"))
    assert (await ab.ask()).status == 200
    assert len(provider_a.calls) == 1 and ab.fails("A") == 1
    assert ab.trail == [(0, "A", None, "provider_error", "charge"), (1, "B", 200, None, "success")]


async def test_a_dial_that_times_out_moves_on_with_one_charge(stage: Stage, provider_b: FakeProvider):
    """failover-loop 14"""
    with Unreachable() as hole:
        stage.member("A", hole.url)
        stage.member("B", provider_b.url)
        stage.set(request_timeout="300ms")
        assert (await stage.ask()).status == 200
    assert stage.trail[0] == (0, "A", None, "failover_timeout", "charge") and stage.fails("A") == 1
    assert stage.waits == [pytest.approx(0.15)], "only the pause before B"


async def test_a_direct_request_never_goes_elsewhere(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """failover-loop 15"""
    provider_a.refuse()
    got = await ab.ask("A/m")
    assert got.said == (502, "provider request failed for model A/m")
    assert got.error["code"] == "provider_error" and not provider_b.calls
    assert ab.row.provider_id is None and ab.row.resolved_model_id is None
    assert ab.row.error_message is not None and ab.row.error_message.startswith('provider "A" failed on attempt 1: ')


async def test_a_silent_provider_is_left_at_its_deadline(ab: Stage, provider_a: FakeProvider):
    """failover-loop 16, circuit-breaker 20"""
    ab.set(request_timeout="300ms")
    provider_a.script(silence())
    assert (await ab.ask()).status == 200
    assert ab.trail[0] == (0, "A", None, "failover_timeout", "charge")
    assert ab.row.attempts is not None and 290 <= ab.row.attempts[0]["duration_ms"] < 5_000
    provider_a.wait_disconnects(1)


async def test_after_the_overall_deadline_nobody_is_asked_any_more(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 17"""
    ab.set(request_timeout="250ms")
    provider_a.script(silence())
    provider_b.script(silence())
    with FakeProvider() as provider_c:
        ab.member("C", provider_c.url)
        got = await ab.ask()
        assert not provider_c.calls
    assert got.said == (504, "request timed out for model hotel/g")
    assert got.error["code"] == "failover_timeout"
    assert (ab.row.error_kind, ab.row.status_code) == ("failover_timeout", 504)
    assert [ab.fails(name) for name in "ABC"] == [1, 1, 0]


async def test_everyone_unreachable_is_one_exhaustion_answer(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.refuse()
    provider_b.refuse()
    got = await ab.ask()
    assert got.said == (502, "all providers failed for model hotel/g")
    assert ab.row.error_message is not None
    assert ab.row.error_message.startswith('all 2 providers failed; last error: provider "B" failed on attempt 2: ')
    assert ab.row.provider_id is None and ab.row.failover_attempt == 1


# -- bodies of a 2xx that break off


async def test_a_complete_document_before_a_broken_connection_is_an_answer(ab: Stage, provider_a: FakeProvider):
    """failover-loop 70"""
    provider_a.script(wrong_length(50, "whole"))
    got = await ab.ask()
    assert got.json["choices"][0]["message"]["content"] == "whole"
    assert ab.trail == [(0, "A", 200, None, "success")]


async def test_half_a_document_moves_on_and_is_charged(ab: Stage, provider_a: FakeProvider):
    provider_a.script(half_json())
    assert (await ab.ask()).status == 200
    assert ab.trail[0] == (0, "A", 200, "provider_error", "charge")


async def test_a_body_that_breaks_off_as_the_last_word(ab: Stage, provider_a: FakeProvider):
    provider_a.script(reply(200, b'{"id":"x","choices":[{"mess', length=500))
    got = await ab.ask("A/m")
    assert got.said == (502, "the provider stopped sending its response (provider A, upstream HTTP 200)")
    assert ab.fails("A") == 1


async def test_a_body_that_goes_silent_is_a_provider_timeout(ab: Stage, provider_a: FakeProvider):
    ab.set(request_timeout="250ms")
    provider_a.script(headers_then_silence(stream=False))
    assert (await ab.ask()).status == 200
    assert ab.trail[0] == (0, "A", 200, "provider_timeout", "charge")
    got = await ab.ask("A/m")
    assert got.said == (502, "provider request failed for model A/m") and got.error["code"] == "provider_timeout"


async def test_an_html_page_under_200_moves_on_and_is_a_502_as_the_last_word(ab: Stage, provider_a: FakeProvider):
    """failover-loop 69, v1-api 69"""
    provider_a.script(html())
    assert (await ab.ask()).status == 200
    assert ab.trail[0] == (0, "A", 200, "provider_error", "charge")
    got = await ab.ask("A/m")
    assert got.said == (
        502,
        "the provider returned a response the gateway could not decode (provider A, upstream HTTP 200)",
    )
    assert (
        ab.row.error_message is not None
        and "html" in ab.row.error_message
        and "Bad gateway" not in ab.row.error_message
    )


async def test_an_answer_over_the_limit_is_nobody_elses(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    """failover-loop 71"""
    monkeypatch.setattr(chat_attempt, "ANSWER_CAP", 4096)
    provider_a.script(answer("x" * 5000))
    got = await ab.ask()
    reason = "the provider returned a response larger than the gateway will read (provider A, upstream HTTP 200)"
    assert got.said == (502, reason) and got.error["code"] == "provider_bad_request"
    assert not provider_b.calls and ab.trail == [(0, "A", 200, "provider_bad_request", None)]


async def test_an_error_whose_body_never_ends_does_not_hold_the_walk(
    ab: Stage, provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(refusals, "ERROR_SECONDS", 0.05)
    provider_a.script(reply(500, b"{", length=500, close=False), status(500))
    assert (await ab.ask()).status == 200


# -- answers without content


async def test_empty_choices_move_on_with_one_charge(
    ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture
):
    """failover-loop 66, v1-api 69a"""
    provider_a.script(reply(200, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}}))
    assert (await ab.ask()).status == 200
    assert ab.trail == [(0, "A", 200, "provider_error", "charge"), (1, "B", 200, None, "success")]
    assert ab.fails("A") == 1
    assert ab.row.tokens_prompt == 7 + 3 and ab.charged == 7 + 8
    assert "proxy: upstream answered with no choices" in caplog.text


async def test_five_empty_answers_open_the_circuit(ab: Stage, provider_a: FakeProvider):
    """failover-loop 67, circuit-breaker 5"""
    provider_a.script(reply(200, {"choices": []}))
    for _ in range(5):
        got = await ab.ask("A/m")
        assert got.said == (502, "provider returned no choices (provider A, upstream HTTP 200)")
    assert ab.state("A") == "open" and len(provider_a.calls) == 5


async def test_choices_without_anything_and_without_a_reason_are_no_answer(ab: Stage, provider_a: FakeProvider):
    provider_a.script(reply(200, {"choices": [{"index": 0, "message": {"role": "assistant", "content": ""}}]}))
    got = await ab.ask("A/m")
    assert got.said == (502, "provider returned no content (provider A, upstream HTTP 200)")


async def test_without_5xx_in_the_list_an_empty_answer_is_the_last_word(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 67a"""
    ab.set(failover_retry_on_statuses="429")
    provider_a.script(reply(200, {"choices": []}))
    got = await ab.ask()
    assert got.said == (502, "provider returned no choices (provider A, upstream HTTP 200)")
    assert not provider_b.calls and ab.fails("A") == 1
    provider_a.script(reply(200, b'{"choices":[{"mess', length=500))
    assert (await ab.ask()).status == 200


@pytest.mark.parametrize(
    ("reason", "breaker"), [("stop", "charge"), ("content_filter", "success"), ("length", "success")]
)
async def test_a_bare_end_is_served_and_judged_by_its_reason(
    reason: str, breaker: str, ab: Stage, provider_a: FakeProvider
):
    """failover-loop 68, circuit-breaker 6"""
    usage = {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}
    body = {
        "usage": usage,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": reason}],
    }
    provider_a.script(reply(200, body))
    got = await ab.ask()
    assert got.status == 200 and got.json["choices"][0]["finish_reason"] == reason
    assert ab.trail == [(0, "A", 200, None, breaker)] and ab.fails("A") == (breaker == "charge")
