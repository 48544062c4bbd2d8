"""Quota pins of single circuits: what stamps one, how long it is served, what it does to probes and to the provider."""

import pytest

from failover import verdict
from failover.breaker.board import FREE, Gate
from failover.verdict import Judgement, Verdict
from tests.failover.breaker.conftest import DAY, HOUR, MINUTE, SUCCESS, A, B, charge_429, spent, status

BAD = status(503)
NOT_OPENED = "upstream status 429 (exhausted, not opened by setting)"


def blocked(board, model="m"):
    return board.gate(A, model).state == "blocked"


def pin(board, model="m"):
    """Source of the pin as the status shows it, None without one; both members come together or not at all."""
    circuit = board.circuit(model)
    assert circuit.get("quota_pinned", False) == ("pin_source" in circuit)
    return circuit.get("pin_source")


def reopened(board, clock, judgement):
    """The probe that is due meets *judgement*."""
    clock.advance(board.wait())
    board.fail_probe(judgement)


# --- stamping -----------------------------------------------------------------------------------------------------


def test_one_exhausted_answer_without_a_hint_opens_without_a_pin(board, lines):
    """circuit-breaker 10"""
    board.say(spent())
    assert (board.wait(), pin(board)) == (60, None)
    assert "circuit-breaker: model state=closed→open (exhausted)" in [text for _, text, _ in lines()]


@pytest.mark.parametrize(("drawn", "served"), [(0.0, HOUR), (0.5, HOUR * 1.025), (0.999999, HOUR * 1.05)])
def test_a_claimed_window_is_served_an_hour_at_a_time(board, clock, drawn, served):
    """circuit-breaker 11"""
    board.drawn = drawn
    board.say(spent(2 * HOUR))
    [circuit] = board._circuits.of(A)
    assert 2 * HOUR <= circuit.pin.seconds <= 2 * HOUR * 1.05
    assert pin(board) == "response"
    assert board.wait() == pytest.approx(served, abs=0.01)
    assert 60 * MINUTE <= board.wait() <= 63 * MINUTE
    assert board.gate(A, "sibling") is FREE
    clock.advance(board.wait())
    assert board.circuit()["state"] == "half-open"


def test_a_refused_account_darkens_every_model_after_one_answer(board, told):
    """circuit-breaker 12"""
    board.say(spent(90 * DAY, account=True))
    assert pin(board) == "account"
    assert board.provider_open(A) and blocked(board, "sibling") and blocked(board, "never asked")
    [event] = told
    assert event.message == (
        "Provider Aurora circuit breaker: open for model m (provider skipped): upstream status 429 (exhausted)"
    )
    assert "model_id" not in event.metadata
    assert event.metadata["pin_source"] == "account"
    assert event.metadata["quota_pinned"] is True


def test_where_exhaustion_may_not_open_it_is_an_ordinary_charge(board):
    """circuit-breaker 13"""
    refused = Judgement(Verdict.CHARGE, NOT_OPENED, 429, "charge", rate_limited=True)
    board.say(*[refused] * 4)
    assert board.gate(A, "m") is FREE
    board.say(refused)
    circuit = board.circuit()
    assert (circuit["state"], circuit["last_cause"], pin(board)) == ("open", NOT_OPENED, None)
    [kept] = board._circuits.of(A)
    assert kept.opens_429_streak == 1


@pytest.mark.parametrize("drawn", [0.0, 0.999999])
def test_a_402_waits_a_day_an_hour_at_a_time_and_two_of_them_darken_the_provider(board, drawn):
    """circuit-breaker 14"""
    board.drawn = drawn
    board.say(status(402))
    circuit = board.circuit()
    assert (circuit["state"], circuit["last_status"], pin(board)) == ("open", 402, "response")
    assert HOUR <= board.wait() <= 1.05 * HOUR
    [kept] = board._circuits.of(A)
    assert DAY <= kept.pin.seconds <= 1.05 * DAY
    assert board.gate(A, "m2") is FREE
    board.say(status(402), model="m2")
    assert blocked(board, "m3")


def test_pinned_circuits_never_share_a_retry_instant(clock):
    from tests.failover.breaker.conftest import Bench

    board = Bench(clock)
    board.chance = iter([0.1, 0.2, 0.3, 0.4]).__next__
    board.say(status(402), model="m1")
    board.say(status(402), model="m2")
    first, second = board._circuits.of(A)
    assert first.pin.seconds != second.pin.seconds
    assert board.wait("m1") != board.wait("m2")


def test_a_far_reset_waits_a_day_and_says_that_it_comes_back_then(board, told):
    """circuit-breaker 45"""
    board.drawn = 0.5
    board.advise(5 * DAY, provider=B)
    board.say(*[BAD] * 5, provider=B)
    event = [e for e in told if e.metadata["model"] == "m"][-1]
    assert DAY <= event.metadata["cooldown_ms"] / 1000 <= 1.05 * DAY
    retry = board.circuit(provider=B)["next_retry_at"]
    assert event.metadata["next_retry_at"] == retry == "2026-01-02T12:36:00.000Z"


def test_a_reset_before_the_cooldown_is_over_pins_nothing(board):
    """circuit-breaker 46"""
    board.advise(30)
    board.say(*[BAD] * 5)
    assert (board.wait(), pin(board)) == (60, None)


def test_a_reading_beats_a_claim_even_a_longer_one(board):
    """circuit-breaker 47"""
    board.advise(2 * HOUR)
    board.reset(A)
    board.say(spent(20 * HOUR))
    assert (board.wait(), pin(board)) == (2 * HOUR, "advisor")


def test_a_deadline_that_has_passed_counts_as_none(board, clock):
    board.advise(2 * HOUR)
    board.reset(A)
    clock.advance(3 * HOUR)
    board.say(spent(20 * HOUR))
    assert (board.wait(), pin(board)) == (HOUR, "response")


@pytest.mark.parametrize("judgement", [BAD, charge_429()])
def test_a_reading_pins_whatever_opens_the_circuit(board, judgement):
    board.advise(2 * HOUR, source="reserve")
    board.reset(A)
    board.say(*[judgement] * 5)
    assert (board.wait(), pin(board)) == (2 * HOUR, "reserve")


def test_every_open_decides_anew(board, clock):
    """A probe that fails for another reason ends the pin that an earlier answer claimed."""
    board.say(spent(2 * HOUR))
    reopened(board, clock, BAD)
    assert (board.wait(), pin(board), board.circuit()["failed_probes"]) == (120, None, 1)


# --- pins and backoff ---------------------------------------------------------------------------------------------


def backed_off(board, clock, probes, **rules):
    """An open circuit that *probes* failed probes in a row have left behind."""
    board.set(**rules)
    board.say(*[BAD] * 5)
    for _ in range(probes):
        reopened(board, clock, BAD)


def test_a_pin_is_stamped_only_where_it_is_longer_than_the_backoff(board, clock, told):
    """circuit-breaker 42"""
    backed_off(board, clock, 4, backoff_max=HOUR)
    clock.advance(board.wait())
    board.advise(10 * MINUTE)
    board.reset(A, "(account quota)")
    board.fail_probe(BAD)
    assert (board.wait(), pin(board)) == (32 * MINUTE, None)
    clock.advance(board.wait())
    board.advise(3 * HOUR)
    board.reset(A, "(account quota)")
    told.clear()
    board.fail_probe(BAD)
    circuit = board.circuit()
    assert (board.wait(), pin(board), circuit["backed_off"]) == (3 * HOUR, "advisor", True)
    assert told[-1].message.endswith(": upstream status 503")
    assert told[-1].metadata["backed_off"] is True


def test_a_low_ceiling_shortens_no_backoff(board, clock):
    """circuit-breaker 43. Neither at the open nor by retargeting."""
    backed_off(board, clock, 5, backoff_max=HOUR, pin_max=10 * MINUTE)
    board.advise(5 * HOUR)
    assert (board.wait(), pin(board)) == (32 * MINUTE, None)
    clock.advance(board.wait())
    board.set(backoff_max=32 * MINUTE)
    board.fail_probe(BAD)
    assert (board.wait(), pin(board)) == (32 * MINUTE, None)


def test_a_release_falls_back_to_the_backoff(board, clock, told, lines):
    """circuit-breaker 44"""
    backed_off(board, clock, 2)
    clock.advance(board.wait())
    board.advise(3 * HOUR)
    board.fail_probe(BAD)
    before = board.circuit()["opened_at"]
    assert pin(board) == "advisor"
    told.clear()
    board.advise(None, recovered=[A])
    circuit = board.circuit()
    assert (board.wait(), pin(board), circuit["state"], circuit["opened_at"]) == (480, None, "open", before)
    assert [event.metadata["model"] for event in told] == ["(account quota)"], "none about m"
    release = "circuit-breaker: quota pin released (provider no longer exhausted)"
    released = [line for line in lines() if line[1] == release and line[2]["model"] == "m"]
    assert released == [("INFO", release, {"provider_id": A, "state": "open", "cooldown_ms": 480_000, "model": "m"})]
    assert circuit["last_cause"] == "quota pin released (provider no longer exhausted)"
    assert circuit["last_status"] == 503, "the status behind it is still that of the last answer"


# --- escalation ---------------------------------------------------------------------------------------------------


def opens(board, clock, *judgements):
    """Each of them opens the circuit; a good probe comes never, so the failed probes add up."""
    board.say(*[judgements[0]] * 5)
    for judgement in judgements[1:]:
        reopened(board, clock, judgement)


def kept(board):
    return next(c for c in board._circuits.of(A) if c.model == "m")


R429 = charge_429()


def test_the_third_429_in_a_row_may_back_off_to_the_ceiling_of_the_pins(board, clock):
    """circuit-breaker 40"""
    opens(board, clock, BAD, BAD, BAD, BAD, BAD, R429, R429)
    assert (kept(board).opens_429_streak, board.wait()) == (2, 15 * MINUTE)
    reopened(board, clock, R429)
    assert (kept(board).opens_429_streak, board.wait()) == (3, 128 * MINUTE)
    for _ in range(10):
        reopened(board, clock, R429)
        assert kept(board).opens_429_streak <= 14
    assert board.wait() <= DAY


@pytest.mark.parametrize(
    ("causes", "streak"),
    [
        ((R429, BAD, R429, R429), 2),
        ((R429, status(402), R429), 1),
        ((R429, verdict.probe_failed(200)), 0),
        ((R429, spent(), R429), 3),
    ],
    ids=["another failure between", "a 402 between", "a broken stream at the end", "exhausted counts"],
)
def test_only_429s_in_a_row_escalate(board, clock, causes, streak):
    """circuit-breaker 40"""
    opens(board, clock, *causes)
    assert kept(board).opens_429_streak == streak


def test_a_streak_is_one_of_a_day(board, clock):
    opens(board, clock, R429, R429)
    clock.advance(DAY)
    board.fail_probe(R429)
    assert kept(board).opens_429_streak == 1


def test_nothing_escalates_without_a_backoff(board, clock):
    board.set(backoff_max=0)
    opens(board, clock, *[R429] * 8)
    assert board.wait() == 60


def test_a_recovered_quota_ends_the_streak_of_a_circuit_without_a_pin(board, clock):
    """circuit-breaker 41"""
    opens(board, clock, R429, R429, R429)
    assert (kept(board).opens_429_streak, pin(board)) == (3, None)
    board.advise(None, recovered=[A])
    assert kept(board).opens_429_streak == 0


def test_a_good_probe_clears_pin_and_streak(board, clock, told):
    opens(board, clock, R429, spent(HOUR))
    clock.advance(board.wait())
    assert board.ask()
    board.say(SUCCESS)
    assert (kept(board).opens_429_streak, kept(board).pin) == (0, None)
    assert told[-1].metadata["pin_source"] == ""
    assert told[-1].metadata["quota_pinned"] is False


# --- probes of a claim --------------------------------------------------------------------------------------------


def test_the_same_refusal_again_is_no_failed_probe(board, clock, lines):
    """circuit-breaker 56"""
    board.say(spent(5 * HOUR))
    reopened(board, clock, spent(4 * HOUR))
    assert (board.wait(), pin(board)) == (HOUR, "response")
    assert "failed_probes" not in board.circuit()
    assert "circuit-breaker: model state=half-open→open (probe drew exhaustion)" in [text for _, text, _ in lines()]
    reopened(board, clock, BAD)
    assert (board.circuit()["failed_probes"], board.wait()) == (1, 120)


def test_under_a_measured_pin_a_refused_probe_is_a_failed_one(board, clock):
    board.advise(HOUR)
    board.reset(A)
    board.say(*[BAD] * 5)
    reopened(board, clock, spent())
    assert board.circuit()["failed_probes"] == 1


def test_where_pinning_is_off_a_refused_probe_is_a_failed_one(board, clock):
    board.say(spent(5 * HOUR))
    board.set(pin_max=0)
    clock.advance(60)
    board.fail_probe(spent(5 * HOUR))
    assert board.circuit()["failed_probes"] == 1


def test_without_an_interval_a_claim_is_waited_out(board):
    """circuit-breaker 57"""
    board.set(pin_probe=0)
    board.say(spent(DAY))
    assert board.wait() >= DAY


def test_a_claim_shorter_than_the_interval_runs_its_own_length(board):
    """circuit-breaker 57"""
    board.say(spent(10 * MINUTE))
    assert board.wait() == 10 * MINUTE


def test_measured_pins_ignore_the_interval(board):
    board.advise(5 * HOUR)
    board.reset(A)
    board.say(*[BAD] * 5)
    board.set(pin_probe=60)
    assert board.wait() == 5 * HOUR


def test_while_the_refused_account_is_probed_its_siblings_are_served_again(board, clock):
    board.say(spent(DAY, account=True))
    assert blocked(board, "sibling")
    clock.advance(HOUR)
    assert board.gate(A, "sibling") is FREE
    board.say(spent(DAY, account=True), model="sibling")
    assert blocked(board, "third")


# --- a longer claim while open ------------------------------------------------------------------------------------


def test_of_two_refusals_in_flight_the_longer_wait_governs(board, clock, told, lines):
    """circuit-breaker 47a"""
    board.say(spent(90))
    clock.advance(10)
    told.clear()
    board.say(spent(30))
    assert board.wait() == 90
    board.say(spent(600))
    assert (board.wait(), pin(board), told) == (610, "response", [])
    assert "failed_probes" not in board.circuit()
    replaced = [line for line in lines() if "pin replaced" in line[1]]
    text = "circuit-breaker: quota pin replaced (longer claim)"
    assert replaced == [("INFO", text, {"provider_id": A, "cooldown_ms": 610_000, "model": "m"})]
    board.say(spent(30))
    assert board.wait() == 610


def test_a_claim_changes_no_measured_pin(board, clock):
    """circuit-breaker 47a"""
    board.advise(HOUR)
    board.reset(A)
    board.say(*[BAD] * 5)
    board.say(spent(20 * HOUR, account=True))
    assert (board.wait(), pin(board)) == (HOUR, "advisor")


def test_a_late_402_makes_an_unpinned_circuit_wait_for_its_payment(board):
    board.say(*[BAD] * 5)
    assert board.wait() == 60
    board.say(status(402))
    assert (board.wait(), pin(board)) == (HOUR, "response")


def test_a_longer_claim_of_the_account_speaks_for_it(board):
    board.say(spent(90))
    board.say(spent(600, account=True))
    assert pin(board) == "account"
    assert blocked(board, "sibling")


@pytest.mark.parametrize("hint", [0, 5000])
def test_a_claim_on_a_circuit_that_is_due_changes_nothing(board, clock, hint):
    board.say(spent(90))
    clock.advance(90)
    board.say(spent(hint))
    assert board.circuit()["state"] == "half-open"


def test_a_longer_claim_never_brings_the_next_probe_forward(board):
    board.drawn = 0.9
    board.say(spent(5 * HOUR))
    before = board.wait()
    board.drawn = 0.0
    board.say(spent(20 * HOUR))
    assert board.wait() == before


def test_a_longer_claim_ends_at_the_ceiling(board, clock):
    board.set(pin_probe=0)
    board.say(spent(HOUR))
    clock.advance(60)
    board.say(spent(90 * DAY))
    assert board.wait() == DAY


# --- the ceiling and the gate -------------------------------------------------------------------------------------


def test_switched_off_pins_stop_governing_and_come_back_with_the_ceiling(board, clock):
    """circuit-breaker 55"""
    board.say(spent(5 * HOUR, account=True))
    clock.advance(120)
    assert board.provider_open(A)
    board.set(pin_max=0)
    assert not board.provider_open(A)
    assert (board.circuit()["state"], pin(board)) == ("half-open", None)
    assert board.gate(A, "m") is FREE
    board.set(pin_max=DAY)
    assert (board.circuit()["state"], pin(board)) == ("open", "account")


def test_with_the_ceiling_off_nothing_is_stamped(board):
    board.set(pin_max=0)
    board.advise(DAY)
    board.say(spent(5 * HOUR))
    board.set(pin_max=DAY)
    assert (board.wait(), pin(board)) == (60, None)


def test_the_gate_tells_whether_everything_in_the_way_is_pinned(board, clock):
    board.say(spent(2 * HOUR), model="m1")
    assert board.gate(A, "m1") == Gate("blocked", clock.monotonic() + HOUR, True)
    board.say(*[BAD] * 5, model="m2")
    assert board.gate(A, "m2") == Gate("blocked", clock.monotonic() + 60, False)
    assert board.gate(A, "m3") == Gate("blocked", clock.monotonic() + 60, False), "one of the two is not pinned"
    board.say(spent(90), model="m2")
    assert board.gate(A, "m3") == Gate("blocked", clock.monotonic() + 90, True)


def test_an_own_pin_is_told_even_where_the_provider_is_skipped_for_something_else(board, clock):
    board.say(*[BAD] * 5, model="m1")
    board.say(spent(2 * HOUR), model="m2")
    assert board.gate(A, "m2").pinned is True
    assert board.gate(A, "m1").pinned is False


def test_an_opening_asks_for_a_reading_of_the_provider(board, clock):
    board.say(*[BAD] * 5)
    assert board.asked == [A]
    board.say(BAD, spent(DAY))
    assert board.asked == [A]
    clock.advance(board.wait())
    board.fail_probe(BAD)
    assert board.asked == [A, A]
    board.advise(DAY)
    assert board.asked == [A, A], "a seeded opening asks for nothing"


# --- what people see ----------------------------------------------------------------------------------------------


def test_the_whole_status_of_a_pinned_provider(board, clock):
    """circuit-breaker 64, operations 43"""
    board.say(spent(90 * DAY, account=True))
    board.say(*[BAD] * 5, model="m2")
    board.say(SUCCESS, model="m3")
    row = board.row()
    assert (row["state"], row["quota_pinned"], row["pin_source"]) == ("open", True, "account")
    assert row["next_retry_at"] == board.circuit()["next_retry_at"] == "2026-01-01T13:00:00.000Z"
    assert row["provider_open"] is True
    assert row["open_models"] == ["m", "m2"]
    assert board.status({}, False) == {"closed": 0, "half_open": 0, "open": 1}
    clock.advance(30)
    board.say(*[BAD] * 5, model="m4")
    clock.advance(40)
    assert board.row()["open_models"] == ["m", "m4"]


def test_the_row_is_pinned_by_any_blocking_circuit_and_by_no_other(board, clock):
    board.say(spent(90), model="m1")
    clock.advance(60)
    board.say(*[BAD] * 5, model="m2")
    row = board.row()
    assert (row["quota_pinned"], row.get("pin_source")) == (True, None), "the most degraded waits without a pin"
    clock.advance(30)
    row = board.row()
    assert "quota_pinned" not in row, "m1 is due"
    assert board.circuit("m1")["pin_source"] == "response"
