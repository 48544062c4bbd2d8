"""A provider's 429 on its way through the walk: moved on from, waited out, charged, counted, noted, answered."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from prometheus_client import REGISTRY

from failover.caps import CAPS
from modelhotel.core.clock import rfc3339
from requestlogs import counting
from tests.proxy.walk.stage import Stage
from tests.proxy.walk.test_disconnects import leave_when
from tests.proxy.walk.test_order import lines
from tests.upstream.server import FakeProvider, answer, first_event_error, status, stream

A = "00000000-0000-4000-8000-000000000065"
BUSY = "too many concurrent requests"
SPENT = "insufficient_quota"
RESETS = "the provider's usage quota is exhausted; retry after it resets"


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    """A scripted, B healthy."""
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    return stage


def limited(words: str = "", **headers: str) -> Any:
    """A 429; *headers* with underscores for hyphens."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return status(429, {"error": {"message": words}}, headers=given)


def counted(kind: str, provider: str = "A", model: str = "m") -> float:
    labels = {"provider": provider, "model": model, "class": kind}
    return REGISTRY.get_sample_value("modelhotel_upstream_rate_limit_total", labels) or 0.0


@pytest.fixture
def added() -> Callable[[], dict[str, float]]:
    """How many 429s of A/m were counted since, by class."""
    kinds = ("saturated", "exhausted", "unknown")
    before = {kind: counted(kind) for kind in kinds}
    return lambda: {kind: more for kind in kinds if (more := counted(kind) - before[kind])}


def first(stage: Stage) -> dict[str, Any]:
    """The first element of the trail."""
    assert stage.row.attempts is not None
    return stage.row.attempts[0]


# -- what each class does to the circuit


async def test_a_busy_provider_is_left_for_the_next_and_not_charged(
    ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture, added
):
    """part of failover-loop 38, failover-loop 26a"""
    caplog.set_level(logging.INFO)
    provider_a.script(limited(BUSY, retry_after="3"))
    assert (await ab.ask()).status == 200
    assert ab.trail == [(0, "A", 429, "provider_saturated", "noop"), (1, "B", 200, None, "success")]
    assert first(ab)["phrase"] == "too many concurrent" and first(ab)["detail"] == BUSY
    assert (ab.state("A"), ab.fails("A")) == ("closed", 0)
    assert ab.cause("A") == ("upstream status 429 (saturated)", 429)
    ((_, triggered),) = lines(caplog, "proxy: failover triggered")
    assert triggered == {
        "attempt": 1,
        "provider": "A",
        "provider_id": A,
        "status": 429,
        "rate_limit_class": "saturated",
    }
    ((_, said),) = lines(caplog, "proxy: 429 classified saturated, circuit breaker not charged")
    assert said == {"retry_after": "3s", "provider": "A", "provider_id": A, "model": "m"}
    assert added() == {"saturated": 1}


@pytest.mark.parametrize(
    ("words", "phrase", "kind"),
    [
        (SPENT, SPENT, "provider_not_entitled"),
        ("Insufficient balance or no resource package", "no resource package", "provider_not_entitled"),
        ("session usage limit", "session usage limit", "provider_quota_exhausted"),
    ],
)
async def test_a_spent_quota_opens_the_circuit_on_one_answer(
    words: str, phrase: str, kind: str, ab: Stage, provider_a: FakeProvider, caplog, added
):
    """part of failover-loop 39, part of failover-loop 40, part of circuit-breaker 10"""
    caplog.set_level(logging.INFO)
    provider_a.script(limited(words))
    assert (await ab.ask()).status == 200
    assert ab.trail[0] == (0, "A", 429, kind, "charge") and first(ab)["phrase"] == phrase
    assert ab.state("A") == "open" and ab.cause("A") == ("upstream status 429 (exhausted)", 429)
    assert any("(exhausted)" in message for message in caplog.messages)
    ((_, triggered),) = lines(caplog, "proxy: failover triggered")
    assert triggered["rate_limit_class"] == "exhausted"
    assert added() == {"exhausted": 1}


async def test_a_spent_quota_is_an_ordinary_charge_where_it_may_not_open(ab: Stage, provider_a: FakeProvider):
    """part of circuit-breaker 13"""
    ab.set(circuit_breaker_open_on_exhaustion="false")
    provider_a.script(limited(SPENT))
    for fails in range(1, 6):
        assert ab.state("A") == "closed"
        await ab.ask()
        assert ab.fails("A") == fails
    assert ab.state("A") == "open"
    assert ab.cause("A") == ("upstream status 429 (exhausted, not opened by setting)", 429)


async def test_an_unreadable_429_is_a_charge(ab: Stage, provider_a: FakeProvider, added):
    provider_a.script(limited("go away"))
    assert (await ab.ask()).status == 200
    assert ab.trail[0] == (0, "A", 429, "provider_error", "charge") and "phrase" not in first(ab)
    assert ab.cause("A") == ("upstream status 429 (unrecognised)", 429) and ab.fails("A") == 1
    assert added() == {"unknown": 1}


@pytest.mark.parametrize(("seconds", "busy"), [(10, True), (60, True), (61, False)])
async def test_an_unreadable_429_of_a_circuit_that_just_served_is_busy(
    seconds: float, busy: bool, ab: Stage, provider_a: FakeProvider
):
    """failover-loop 49, circuit-breaker 18"""
    provider_a.script(answer("fine"), limited("go away"))
    await ab.ask()
    ab.clock.advance(seconds)
    await ab.ask()
    found = ("provider_saturated", "noop") if busy else ("provider_error", "charge")
    assert ab.trail[0][3:] == found and ab.fails("A") == (not busy)


async def test_only_a_delivered_answer_speaks_for_an_unreadable_429(ab: Stage, provider_a: FakeProvider):
    """failover-loop 49, circuit-breaker 18. An alive 400, another model, the setting at zero, the breaker off."""
    provider_a.script(status(400), limited("go away"))
    await ab.ask()
    await ab.ask()
    assert ab.trail[0] == (0, "A", 429, "provider_error", "charge")
    provider_a.script(answer("fine"))
    await ab.ask()
    ab.member("A", provider_a.url, model="other")
    provider_a.script(limited("go away"), model="other")
    assert (await ab.ask("A/other")).status == 429
    assert ab.trail[0][4] == "charge"
    provider_a.script(limited("go away"))
    ab.set(rate_limit_recent_success_window="0s")
    await ab.ask()
    assert ab.trail[0][4] == "charge"
    provider_a.script(answer("fine"), limited("go away"))
    await ab.ask()
    ab.set(rate_limit_recent_success_window="60s", circuit_breaker_enabled="false")
    await ab.ask()
    assert ab.trail[0] == (0, "A", 429, "provider_error", "disabled")


async def test_without_classification_every_429_is_a_plain_charge(ab: Stage, provider_a: FakeProvider, added):
    """failover-loop 53, part of circuit-breaker 17"""
    ab.set(rate_limit_classify_enabled="false")
    provider_a.script(limited(BUSY), limited(SPENT))
    for fails in range(1, 6):
        assert ab.state("A") == "closed"
        await ab.ask()
        assert ab.trail[0][4] == "charge" and "phrase" not in first(ab)
        assert ab.fails("A") == fails
    assert ab.state("A") == "open" and ab.cause("A") == ("upstream status 429", 429)
    assert CAPS.last(A) is None and ab.limits == {} and added() == {"unknown": 5}


@pytest.mark.parametrize("kinds", [(503, 503, 503, 503)])
async def test_a_busy_429_between_charges_is_neither_charge_nor_credit(kinds, ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 4"""
    provider_a.script(*[status(code) for code in kinds], limited(BUSY), status(503))
    for _ in range(5):
        await ab.ask()
    assert ab.fails("A") == 4
    await ab.ask()
    assert ab.state("A") == "open"


async def test_a_busy_probe_leaves_the_circuit_half_open(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 28. The next request probes again, a 404 changes nothing either."""
    ab.set(circuit_breaker_threshold="1")
    provider_a.script(status(503), limited(BUSY), status(404), limited(BUSY), answer("back"))
    await ab.ask()
    ab.clock.advance(61)
    for code, cause in ((429, "upstream status 429 (saturated)"), (404, "upstream status 429 (saturated)")):
        await ab.ask()
        assert ab.trail[0][2] == code and ab.trail[0][4] == "noop"
        assert ab.state("A") == "half-open" and ab.cause("A") == (cause, 429)
    await ab.ask()
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "back"
    assert ab.state("A") == "closed" and ab.fails("A") == 0


# -- counted and noted, whether or not it moves on


async def test_a_429_that_may_not_move_on_is_counted_and_noted_and_nothing_else(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, added
):
    """failover-loop 54"""
    ab.set(failover_on_rate_limit="false")
    provider_a.script(limited("session usage limit", retry_after="9"))
    began = datetime.now(UTC)
    got = await ab.ask()
    assert (got.status, got.json) == (429, {"error": {"message": "session usage limit"}})
    assert got.header("retry-after") == "9"
    assert ab.trail == [(0, "A", 429, "provider_error", "alive")] and "phrase" not in first(ab)
    assert not provider_b.calls and ab.waits == []
    assert added() == {"exhausted": 1}
    note = CAPS.last(A)
    assert note is not None and (note.phrase, note.model, note.entitled) == ("session usage limit", "m", False)
    assert began <= note.at <= datetime.now(UTC) and rfc3339(note.at)
    provider_a.script(limited(SPENT))
    await ab.ask()
    assert ab.trail[0] == (0, "A", 429, "provider_not_entitled", "alive")
    assert (note := CAPS.last(A)) is not None and (note.phrase, note.entitled) == (SPENT, True)
    provider_a.script(answer("fine"), limited("go away"), limited(BUSY))
    for _ in range(3):
        await ab.ask()
    assert CAPS.last(A) == note and added() == {"exhausted": 2, "unknown": 1, "saturated": 1}


async def test_a_note_without_a_phrase_is_a_wait_that_was_stated(ab: Stage, provider_a: FakeProvider):
    provider_a.script(limited("later", retry_after="3600"))
    await ab.ask()
    note = CAPS.last(A)
    assert note is not None and (note.phrase, note.entitled) == ("", False)


# -- the last candidate's wait


async def test_the_only_candidate_is_waited_for_and_asked_again(
    ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture
):
    """failover-loop 55"""
    caplog.set_level(logging.INFO)
    provider_a.script(limited(BUSY, retry_after="1"), answer("at last"))
    got = await ab.ask("A/m")
    assert got.status == 200 and ab.waits == [1.0]
    assert ab.trail == [(0, "A", 429, "provider_saturated", "noop"), (1, "A", 200, None, "success")]
    assert lines(caplog, "proxy: last candidate", "proxy: waiting out") == [
        (
            "proxy: last candidate saturated, waiting to retry it once",
            {"provider": "A", "provider_id": A, "retry_after": "1s", "attempt": 1},
        ),
        ("proxy: waiting out provider saturation before final retry", {"model": "A/m", "provider": "A", "wait": "1s"}),
    ]


async def test_a_provider_that_stays_busy_is_asked_twice(ab: Stage, provider_a: FakeProvider):
    """failover-loop 56"""
    provider_a.script(limited(BUSY, retry_after="1"))
    got = await ab.ask("A/m")
    assert got.said == (429, "the provider is at capacity; retry shortly (provider A, upstream HTTP 429)")
    assert got.header("retry-after") == "1" and got.error["code"] == "rate_limit_exceeded"
    assert len(provider_a.calls) == 2 and ab.fails("A") == 0
    assert ab.row.error_kind == "provider_saturated" and ab.row.error_message == BUSY


async def test_a_wait_that_does_not_fit_is_answered_at_once(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog: pytest.LogCaptureFixture
):
    """failover-loop 57"""
    caplog.set_level(logging.INFO)
    ab.set(request_timeout="10s")
    provider_a.script(status(503))
    provider_b.script(limited(BUSY, retry_after="60"))
    got = await ab.ask()
    assert got.said == (429, "all providers busy for model hotel/g, retry shortly")
    assert got.header("retry-after") == "60" and got.error["code"] == "rate_limit_exceeded"
    assert len(provider_b.calls) == 1 and ab.waits == [pytest.approx(0.15)]
    assert (ab.row.error_kind, ab.row.provider_id, ab.row.status_code) == ("provider_saturated", None, 429)
    assert ab.row.error_message == (
        'all 2 providers busy; last error: provider "B" is busy (rate limited at capacity) on attempt 2; '
        f"last provider error: {BUSY}"
    )
    assert counting.exhausted(ab.row) == "all_busy"
    ((_, said),) = lines(caplog, "proxy: no time budget left for saturation retry")
    assert said["model"] == "hotel/g" and said["retry_after"] == "1m" and str(said["remaining"]).endswith("s")


async def test_a_direct_request_without_time_to_wait_says_that_its_provider_is_busy(
    ab: Stage, provider_a: FakeProvider
):
    """v1-api 9.5"""
    ab.set(request_timeout="10s")
    provider_a.script(limited(BUSY, retry_after="60"))
    got = await ab.ask("A/m")
    assert got.said == (429, "provider busy for model A/m, retry shortly") and got.header("retry-after") == "60"


async def test_a_group_whose_last_word_is_busy_answers_as_a_group(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """README decision 41."""
    provider_a.script(limited("overloaded"))
    provider_b.script(limited("overloaded", retry_after="0.3"))
    got = await ab.ask()
    assert got.said == (429, "all providers busy for model hotel/g, retry shortly")
    assert got.header("retry-after") == "1" and len(provider_b.calls) == 2
    assert ab.row.error_kind == "provider_saturated" and ab.row.provider_id is None
    assert [place[0] for place in ab.trail] == [0, 1, 2]


async def test_a_busy_group_is_a_502_where_the_setting_says_so(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(failover_exhaustion_status_429="false")
    provider_a.script(limited(BUSY))
    provider_b.script(limited(BUSY))
    got = await ab.ask()
    assert got.said == (502, "all providers busy for model hotel/g, retry shortly")
    assert got.header("retry-after") is None and ab.row.error_kind == "provider_saturated"


async def test_a_group_whose_last_word_is_a_spent_quota_says_so(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """v1-api 9.4"""
    provider_a.script(limited(BUSY))
    provider_b.script(limited("weekly usage limit"))
    got = await ab.ask()
    assert got.said == (429, f"{RESETS} (provider B, upstream HTTP 429)")
    assert got.error["code"] == "insufficient_quota"
    assert got.header("retry-after") is None and len(provider_b.calls) == 1
    assert ab.row.error_kind == "provider_quota_exhausted"


async def test_a_5xx_and_a_busy_429_chain(ab: Stage, provider_a: FakeProvider):
    provider_a.script(status(503), limited(BUSY, retry_after="2"), answer("at last"))
    assert (await ab.ask("A/m")).status == 200
    assert ab.waits == [pytest.approx(0.75), 2.0]
    assert [element[2] for element in ab.trail] == [503, 429, 200]
    provider_a.script(limited(BUSY, retry_after="2"), status(503))
    got = await ab.ask("A/m")
    assert got.status == 503 and len(ab.trail) == 3
    assert ab.waits[2:] == [2.0, pytest.approx(0.75)]


async def test_leaving_during_the_wait_means_no_retry(ab: Stage, provider_a: FakeProvider, caplog):
    caplog.set_level(logging.INFO)
    provider_a.script(limited(BUSY))
    ab.hold = asyncio.Event()
    await leave_when(ab, lambda _: ab.holding.wait(), model="A/m")
    assert (ab.row.status_code, ab.row.error_kind) == (499, "client_disconnect")
    assert len(provider_a.calls) == 1 and ab.trail == [(0, "A", 429, "provider_saturated", "noop")]
    assert "proxy: client disconnected while waiting out saturation" in caplog.messages


async def test_embeddings_wait_for_a_busy_provider_too(ab: Stage, provider_a: FakeProvider):
    provider_a.script(limited(BUSY, retry_after="1"))
    got = await ab.embed("A/m")
    assert got.status == 429 and got.header("retry-after") == "1"
    assert len(provider_a.calls) == 2 and ab.waits == [1.0]


@pytest.mark.parametrize(("value", "wait"), [("1.5", 2.0), ("0", 2.0), ("-5", 2.0), ("soon", 2.0)])
async def test_a_wait_of_nothing_is_no_tight_loop(value: str, wait: float, ab: Stage, provider_a: FakeProvider):
    """part of failover-loop 104"""
    provider_a.script(limited(BUSY, retry_after=value))
    await ab.ask("A/m")
    assert ab.waits == [wait] and len(provider_a.calls) == 2


@pytest.mark.parametrize(
    ("value", "kind", "state", "dark"),
    [
        ("0", "unknown", "closed", 0.0),
        ("-5", "unknown", "closed", 0.0),
        ("soon", "unknown", "closed", 0.0),
        ("1.5", "saturated", "closed", 0.0),
        ("99999999", "exhausted", "open", 3600.0),
    ],
)
async def test_what_a_retry_after_without_words_does_to_the_circuit(
    value: str, kind: str, state: str, dark: float, ab: Stage, provider_a: FakeProvider, added
):
    """part of failover-loop 104. The longest is cut to the ceiling of the pins and probed once an hour."""
    provider_a.script(limited(retry_after=value))
    assert (await ab.ask()).status == 200 and ab.waits == [pytest.approx(0.15)]
    assert added() == {kind: 1} and ab.state("A") == state
    assert ab.fails("A") == {"unknown": 1, "saturated": 0, "exhausted": 5}[kind]
    if dark:
        ab.clock.advance(dark - 1)
        assert ab.board.gate(A, "m").state == "blocked"
        ab.clock.advance(dark * 0.05 + 2)
        assert ab.board.gate(A, "m").state == "free"


async def test_a_date_is_waited_for_and_one_that_has_passed_states_nothing(ab: Stage, provider_a: FakeProvider):
    """failover-loop 104"""

    def at(seconds: float) -> str:
        return format_datetime(datetime.fromtimestamp(time.time() + seconds, UTC), usegmt=True)

    provider_a.script(limited(retry_after=at(3)), answer("at last"))
    assert (await ab.ask("A/m")).status == 200
    assert len(ab.waits) == 1 and 1.0 < ab.waits[0] <= 3.0
    provider_a.script(limited(retry_after=at(-60)))
    ab.clock.advance(61)
    assert (await ab.ask("A/m")).status == 429
    assert ab.trail == [(0, "A", 429, "provider_error", "charge")] and len(ab.waits) == 1


# -- carried by a stream


async def test_a_busy_error_in_the_first_event_is_as_a_busy_429(ab: Stage, provider_a: FakeProvider, added):
    """failover-loop 75"""
    carried = {"code": 429, "message": BUSY}
    provider_a.script(first_event_error(carried), stream(["hello"]))
    got = await ab.ask(stream=True)
    assert got.status == 200 and ab.trail[0] == (0, "A", 429, "provider_saturated", "noop")
    assert first(ab)["phrase"] == "too many concurrent" and ab.fails("A") == 0 and added() == {"saturated": 1}
    provider_a.script(first_event_error(carried), stream(["hello"]))
    assert (await ab.ask("A/m", stream=True)).status == 200
    assert [element[2] for element in ab.trail] == [429, 200] and ab.waits == [pytest.approx(0.15), 2.0]


async def test_a_boom_in_the_first_event_as_the_last_word_is_json(ab: Stage, provider_a: FakeProvider):
    """failover-loop 75"""
    provider_a.script(first_event_error({"message": "boom"}))
    got = await ab.ask("A/m", stream=True)
    assert got.status == 502 and got.error["type"] == "server_error"
    assert got.header("content-type") == "application/json"


# -- in place


async def test_a_short_wait_in_place_keeps_the_candidate(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog: pytest.LogCaptureFixture
):
    """failover-loop 105"""
    caplog.set_level(logging.INFO)
    provider_a.script(limited(retry_after="2"), answer("from A"))
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from B"
    ab.set(rate_limit_wait_in_place="3s")
    ab.waits.clear()
    provider_a.script(limited(retry_after="2"), answer("from A"))
    provider_b.forget()
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from A"
    assert ab.waits == [2.0] and not provider_b.calls
    assert ab.trail == [(0, "A", 429, "provider_saturated", "noop"), (1, "A", 200, None, "success")]
    ((_, said),) = lines(caplog, "proxy: waiting in place for a rate limit")
    assert said == {"provider": "A", "provider_id": A, "wait": "2s", "attempt": 1}
    provider_a.script(limited(retry_after="4"), answer("from A"))
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from B"


async def test_a_second_429_after_a_wait_in_place_moves_on(ab: Stage, provider_a: FakeProvider):
    """failover-loop 105"""
    ab.set(rate_limit_wait_in_place="3s", failover_max_attempts="1")
    provider_a.script(limited(retry_after="2"))
    assert (await ab.ask()).status == 200
    assert [element[:3] for element in ab.trail] == [(0, "A", 429), (1, "A", 429), (2, "B", 200)]
    assert ab.waits == [2.0, pytest.approx(0.15)]


async def test_without_classification_a_wait_in_place_goes_by_the_header(ab: Stage, provider_a: FakeProvider):
    ab.set(rate_limit_wait_in_place="3s", rate_limit_classify_enabled="false")
    provider_a.script(limited(retry_after="2"), answer("from A"))
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from A"
    assert ab.trail == [(0, "A", 429, "provider_error", "charge"), (1, "A", 200, None, "success")]


async def test_a_5xx_is_repeated_in_place(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog):
    """failover-loop 106"""
    caplog.set_level(logging.INFO)
    ab.set(server_error_retry_in_place="true")
    provider_a.script(status(500), answer("from A"))
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from A"
    assert ab.waits == [pytest.approx(0.15)] and not provider_b.calls
    assert ab.trail == [(0, "A", 500, "provider_error", "charge"), (1, "A", 200, None, "success")]
    ((_, said),) = lines(caplog, "proxy: retrying a server error in place")
    assert said == {"provider": "A", "provider_id": A, "status": 500, "attempt": 1}
    provider_a.script(status(500))
    assert (await ab.ask()).status == 200
    assert [element[:3] for element in ab.trail] == [(0, "A", 500), (1, "A", 500), (2, "B", 200)]


async def test_a_single_candidate_is_asked_at_most_twice_for_a_5xx(ab: Stage, provider_a: FakeProvider):
    """failover-loop 106"""
    ab.set(server_error_retry_in_place="true")
    provider_a.script(status(500))
    assert (await ab.ask("A/m")).status == 500
    assert len(provider_a.calls) == 2 and ab.waits == [pytest.approx(0.15)]


async def test_a_522_is_not_repeated_in_place(stage: Stage, provider_a: FakeProvider):
    """failover-loop 9a"""
    stage.set(server_error_retry_in_place="true")
    stage.member("A", provider_a.url, model="m1")
    stage.member("A", provider_a.url, model="m2")
    provider_a.script(status(522), model="m1")
    assert (await stage.ask()).status == 200
    assert [call.model for call in provider_a.calls] == ["m1", "m2"]
    assert (stage.fails("A", "m1"), stage.fails("A", "m2")) == (1, 0)


async def test_leaving_during_a_wait_in_place_ends_the_request(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(rate_limit_wait_in_place="3s")
    provider_a.script(limited(retry_after="2"))
    ab.hold = asyncio.Event()
    await leave_when(ab, lambda _: ab.holding.wait())
    assert ab.row.status_code == 499 and len(provider_a.calls) == 1 and not provider_b.calls


# -- what kind of error it is


@pytest.mark.parametrize(
    ("words", "headers", "kind", "reason"),
    [
        ("usage limit reached", {}, "provider_quota_exhausted", RESETS),
        ("", {"retry_after": "600"}, "provider_quota_exhausted", RESETS),
        (SPENT, {}, "provider_not_entitled", "the provider rejected this request for billing or plan reasons"),
        ("go away", {}, "provider_error", "the provider failed to serve this request"),
        ("model m does not exist, slow down", {}, "provider_model_gone", "the provider no longer serves this model"),
    ],
)
async def test_the_kind_and_the_reason_follow_from_the_class(words, headers, kind, reason, ab, provider_a):
    provider_a.script(limited(words, **headers))
    got = await ab.ask("A/m")
    assert got.said == (429, f"{reason} (provider A, upstream HTTP 429)")
    assert ab.row.error_kind == kind == ab.trail[0][3]
