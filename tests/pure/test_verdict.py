"""Every row of the outcome table (circuit-breaker 3, failover-loop 5.2 and 14) that this gateway judges today."""

import pytest

from failover import verdict
from failover.ratelimit import RateClass, Reading
from failover.verdict import Judgement, Verdict

C, X, A, N, S = Verdict.CHARGE, Verdict.EXHAUSTED, Verdict.ALIVE, Verdict.NOOP, Verdict.SUCCESS


def of(status, moves_on=True, opens=True):
    found = verdict.of_status(status, moves_on=moves_on, open_on_exhaustion=opens)
    return found.verdict, found.cause, found.status, found.trail


MOVED_ON = [
    *[(status, C, f"upstream status {status}", "charge") for status in (500, 501, 502, 503, 504, 505, 522, 524, 529)],
    (600, C, "upstream status 600", "charge"),
    (999, C, "upstream status 999", "charge"),
    (401, C, "upstream status 401", "charge"),
    (403, C, "upstream status 403", "charge"),
    (429, C, "upstream status 429", "charge"),
    (402, X, "upstream status 402 (exhausted)", "charge"),
    (404, N, "", "noop"),
    (499, N, "", "noop"),
    # These move on by a phrase, by a replaced status list, or because the prompt is too long.
    *[(s, A, f"upstream status {s} (alive)", "alive") for s in (400, 405, 408, 409, 410, 413, 415, 418, 422, 451)],
]


@pytest.mark.parametrize(("status", "wanted", "cause", "trail"), MOVED_ON)
def test_an_answer_that_may_fail_over_is_judged_by_its_status(status, wanted, cause, trail):
    assert of(status) == (wanted, cause, 0 if wanted is N else status, trail)


STAYS = (300, 302, 304, 400, 401, 402, 403, 404, 405, 407, 408, 409, 413, 415, 422, 429, 451, 499, 500, 503, 529)


@pytest.mark.parametrize("status", STAYS)
@pytest.mark.parametrize("opens", [True, False])
def test_what_does_not_fail_over_is_alive(status, opens):
    """circuit-breaker 16. A 429 with failover on rate limits off, a status taken out of the list, a 400."""
    assert of(status, moves_on=False, opens=opens) == (A, f"upstream status {status} (alive)", status, "alive")


def test_a_402_is_an_ordinary_charge_when_exhaustion_may_not_open():
    """circuit-breaker 15"""
    cause = "upstream status 402 (payment required, not opened by setting)"
    assert of(402, opens=False) == (C, cause, 402, "charge")


def test_a_402_claims_ninety_days_and_nothing_else_claims_anything():
    hints = {s: verdict.of_status(s, moves_on=True, open_on_exhaustion=True).pin_hint for s, *_ in MOVED_ON}
    assert {status: hint for status, hint in hints.items() if hint} == {402: 2160 * 3600.0}
    assert verdict.of_status(402, moves_on=True, open_on_exhaustion=False).pin_hint == 0


@pytest.mark.parametrize("opens", [True, False])
@pytest.mark.parametrize("status", [s for s, *_ in MOVED_ON if s != 402])
def test_the_exhaustion_setting_concerns_no_other_status(status, opens):
    assert of(status, opens=opens) == of(status)


@pytest.mark.parametrize(
    ("judgement", "row"),
    [
        (verdict.TRANSPORT, (C, "upstream request failed", 0, "charge")),
        (verdict.probe_failed(200), (C, "TTFT probe failed", 200, "charge")),
        (verdict.stalled(200), (C, "stream stalled", 200, "charge")),
        (verdict.broken(206), (C, "response failed after headers", 206, "charge")),
        (verdict.empty(200), (C, "response completed without delivering content", 200, "charge")),
        (verdict.undecodable(201), (C, "upstream body could not be translated", 201, "charge")),
        (verdict.success(200), (S, "success", 0, "success")),
        (verdict.NONE, (N, "", 0, "")),
    ],
)
def test_outcomes_without_an_error_status(judgement, row):
    assert (judgement.verdict, judgement.cause, judgement.status, judgement.trail) == row


@pytest.mark.parametrize(
    ("carried", "moves_on", "row"),
    [
        (529, True, (C, "upstream status 529", 529, "charge")),
        (429, True, (C, "upstream status 429", 429, "charge")),
        (402, True, (X, "upstream status 402 (exhausted)", 402, "charge")),
        (404, True, (N, "", 0, "noop")),
        (400, False, (A, "upstream status 400 (alive)", 400, "alive")),
        (None, True, (C, "upstream status 502", 502, "charge")),
    ],
)
def test_an_error_in_the_first_event_is_judged_by_the_status_it_carries(carried, moves_on, row):
    found = verdict.of_status(carried or verdict.FIRST_EVENT_STATUS, moves_on=moves_on, open_on_exhaustion=True)
    assert (found.verdict, found.cause, found.status, found.trail) == row


@pytest.mark.parametrize(
    ("silence", "stall", "charged"),
    [(3, 30, False), (29.9, 30, False), (30, 30, True), (31, 30, True), (31, 60, False), (29, 0, False), (31, 0, True)],
)
def test_a_client_that_leaves_after_long_silence_tells_on_the_provider(silence, stall, charged):
    """circuit-breaker 19. The floor is the stall timeout, thirty seconds where that is off."""
    found = verdict.client_left_early(silence, stall, 200)
    assert found == (verdict.probe_failed(200) if charged else verdict.NONE)


HINT = 2 * 3600.0


@pytest.mark.parametrize(
    ("reading", "opens", "wanted"),
    [
        (
            Reading(RateClass.SATURATED, "slow down", retry_after=3.0),
            True,
            Judgement(Verdict.SATURATED, "upstream status 429 (saturated)", 429, "noop", retry_after=3.0),
        ),
        (
            Reading(RateClass.EXHAUSTED, "weekly usage limit", pin_hint=HINT),
            True,
            Judgement(X, "upstream status 429 (exhausted)", 429, "charge", HINT, rate_limited=True),
        ),
        (
            Reading(RateClass.EXHAUSTED, "insufficient_quota", pin_hint=HINT, entitled=True, account=True),
            True,
            Judgement(X, "upstream status 429 (exhausted)", 429, "charge", HINT, account=True, rate_limited=True),
        ),
        (
            Reading(RateClass.EXHAUSTED, "insufficient_quota", pin_hint=HINT, entitled=True, account=True),
            False,
            Judgement(C, "upstream status 429 (exhausted, not opened by setting)", 429, "charge", rate_limited=True),
        ),
        (
            Reading(RateClass.UNKNOWN),
            True,
            Judgement(C, "upstream status 429 (unrecognised)", 429, "charge", rate_limited=True),
        ),
        (None, True, Judgement(C, "upstream status 429", 429, "charge")),
    ],
)
def test_a_429_is_judged_by_what_it_said(reading, opens, wanted):
    """part of circuit-breaker 10 to 13, part of circuit-breaker 17, part of failover-loop 39 to 40"""
    assert verdict.of_status(429, moves_on=True, open_on_exhaustion=opens, reading=reading) == wanted
    if reading is None or reading.kind is not RateClass.EXHAUSTED:
        assert verdict.of_status(429, moves_on=True, open_on_exhaustion=not opens, reading=reading) == wanted


@pytest.mark.parametrize("kind", RateClass)
def test_a_429_that_may_not_move_on_is_alive_whatever_it_said(kind):
    """circuit-breaker 16"""
    found = verdict.of_status(429, moves_on=False, open_on_exhaustion=True, reading=Reading(kind))
    assert found == Judgement(A, "upstream status 429 (alive)", 429, "alive")
