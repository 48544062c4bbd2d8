"""What passes over the quota readings do to circuits: retargeting, seeding, releasing."""

import pytest

from failover.breaker.board import FREE
from modelhotel.core import metrics
from tests.failover.breaker.conftest import DAY, HOUR, MINUTE, SUCCESS, A, B, Bench, charge_429, spent, status

BAD = status(503)
SEEDED = "(account quota)"


def blocked(board, model="m"):
    return board.gate(A, model).state == "blocked"


def pin(board, model="m"):
    return (board.circuit(model) or {}).get("pin_source")


def seen(told):
    return [(event.type, event.metadata["model"], event.metadata["cause"]) for event in told]


def pin_lines(lines):
    return [line for line in lines() if line[1].startswith("circuit-breaker: quota pin")]


OPENED, CLOSED = "circuit_breaker.open", "circuit_breaker.closed"

# --- retargeting --------------------------------------------------------------------------------------------------


def test_a_fresh_reading_lengthens_an_open_circuit_from_its_opening(board, clock, told, lines):
    """circuit-breaker 48"""
    board.say(*[BAD] * 5)
    clock.advance(30)
    told.clear()
    board.advise(4 * HOUR)
    circuit = board.circuit()
    assert (board.wait(), pin(board), board.row()["pin_source"]) == (4 * HOUR + 30, "advisor", "advisor")
    assert (circuit["last_cause"], circuit["last_status"]) == ("quota pin retargeted (advisor)", 503)
    assert told == [], "nothing is published, and nothing seeded beside it"
    text = "circuit-breaker: quota pin retargeted (fresh exhaustion reading)"
    attrs = {"provider_id": A, "cooldown_ms": 14_430_000, "model": "m"}
    assert pin_lines(lines) == [("INFO", text, attrs)]
    assert circuit["consecutive_fails"] == 5 and "failed_probes" not in circuit


def test_a_reading_of_the_reserve_says_so(board):
    board.say(*[BAD] * 5)
    board.advise(HOUR, source="reserve")
    assert pin(board) == "reserve"
    assert board.circuit()["last_cause"] == "quota pin retargeted (reserve)"


@pytest.mark.parametrize("seconds", [10, 30, 2 * HOUR - 1])
def test_a_longer_wait_in_force_is_left_alone(board, seconds):
    """circuit-breaker 48"""
    board.set(pin_probe=0)
    board.say(spent(2 * HOUR))
    board.advise(seconds)
    assert (board.wait(), pin(board)) == (2 * HOUR, "response")


def test_a_claim_that_is_served_hourly_yields_to_a_reading_of_two_hours(board):
    board.say(spent(DAY))
    board.advise(2 * HOUR)
    assert (board.wait(), pin(board)) == (2 * HOUR, "advisor")


def test_only_circuits_inside_their_wait_are_retargeted(board, clock):
    """circuit-breaker 48"""
    board.say(*[BAD] * 5, model="due")
    board.say(*[BAD] * 5, model="asked")
    clock.advance(60)
    board.ask(model="asked")
    board.say(SUCCESS, model="closed")
    before = board.row()["circuits"]
    board.advise(4 * HOUR)
    after = [circuit for circuit in board.row()["circuits"] if circuit["model"] != SEEDED]
    assert after == before


def test_nothing_is_retargeted_or_seeded_with_the_ceiling_off(board):
    board.set(pin_max=0)
    board.say(*[BAD] * 5)
    board.advise(4 * HOUR)
    assert (board.wait(), board.circuit(SEEDED)) == (60, None)


def test_a_retargeted_wait_ends_at_the_ceiling_and_is_spread(board):
    board.drawn = 0.5
    board.say(*[BAD] * 5)
    board.advise(9 * DAY)
    assert board.wait() == 88_560
    board.drawn = 0.9
    board.advise(9 * DAY)
    assert board.wait() == 88_560, "the same reading once more changes nothing"


# --- seeding ------------------------------------------------------------------------------------------------------


def test_a_spent_account_is_dark_before_any_request_was_spent_on_it(board, told, lines):
    """circuit-breaker 49"""
    opens = metrics.of(metrics.CIRCUIT_OPENS, "Aurora", SEEDED, "quota pin seeded (advisor)")
    before = opens._value.get()
    board.advise(12 * HOUR)
    assert blocked(board) and blocked(board, "never asked") and board.gate(A, "m").pinned
    row = board.row()
    assert (row["state"], row["provider_open"], row["quota_pinned"]) == ("open", True, True)
    assert (row["pin_source"], row["open_models"], row["consecutive_fails"]) == ("advisor", [SEEDED], 0)
    [event] = told
    assert event.message == (
        "Provider Aurora circuit breaker: open for model (account quota) (provider skipped): quota pin seeded (advisor)"
    )
    assert event.metadata == {
        "provider_id": A,
        "provider": "Aurora",
        "model": SEEDED,
        "state": "open",
        "cause": "quota pin seeded (advisor)",
        "status": 0,
        "pin_source": "advisor",
        "provider_open": True,
        "consecutive_fails": 0,
        "quota_pinned": True,
        "backed_off": False,
        "failed_probes": 0,
        "cooldown_ms": 43_200_000,
        "next_retry_at": "2026-01-02T00:00:00.000Z",
    }
    [(level, text, attrs)] = pin_lines(lines)
    assert (level, text) == ("WARNING", "circuit-breaker: quota pin seeded (advisor) - exhausted")
    assert list(attrs)[:4] == ["provider", "provider_id", "cause", "status"] and list(attrs)[-1] == "model"
    assert opens._value.get() == before + 1


def test_a_reached_reserve_seeds_in_words_of_its_own(board, told, lines):
    """circuit-breaker 58"""
    board.advise(HOUR, source="reserve")
    assert seen(told) == [(OPENED, SEEDED, "quota pin seeded (reserve)")]
    assert [text for _, text, _ in pin_lines(lines)] == [
        "circuit-breaker: quota pin seeded (reserve) - reserve reached"
    ]
    assert board.row()["pin_source"] == "reserve"


def test_the_recovery_of_the_account_serves_the_next_request_without_a_probe(board, clock, told, lines):
    """circuit-breaker 50"""
    board.advise(12 * HOUR)
    told.clear()
    clock.advance(5 * MINUTE)
    board.advise(None, recovered=[A])
    assert board.row() is None
    assert board.gate(A, "m") is FREE
    cause = "quota pin released (provider no longer exhausted)"
    assert seen(told) == [(CLOSED, SEEDED, cause)]
    [event] = told
    assert event.message == "Provider Aurora circuit breaker: closed for model (account quota)"
    assert event.metadata == {
        "provider_id": A,
        "provider": "Aurora",
        "model": SEEDED,
        "model_id": SEEDED,
        "state": "closed",
        "cause": cause,
        "status": 0,
        "pin_source": "",
        "provider_open": False,
        "consecutive_fails": 0,
        "quota_pinned": False,
        "backed_off": False,
        "failed_probes": 0,
    }
    attrs = {"provider_id": A, "state": "closed", "cooldown_ms": 0, "model": SEEDED}
    assert pin_lines(lines)[-1] == ("INFO", f"circuit-breaker: {cause}", attrs)
    told.clear()
    board.advise(None, recovered=[A])
    assert told == []


def test_a_reading_that_is_of_no_use_any_more_leaves_the_pin_to_its_end(board, clock, told):
    """circuit-breaker 51"""
    board.advise(HOUR)
    told.clear()
    for _ in range(3):
        clock.advance(15 * MINUTE)
        board.advise(None)
        assert blocked(board)
    clock.advance(15 * MINUTE)
    assert board.gate(A, "m") is FREE and told == []
    assert board.row()["state"] == "half-open"
    board.advise(None)
    assert board.row() is None
    assert seen(told) == [(CLOSED, SEEDED, "quota pin elapsed")]


def test_an_account_that_is_still_spent_when_its_pin_ends_is_seeded_again(board, clock, told):
    board.advise(5 * DAY)
    clock.advance(DAY)
    assert board.gate(A, "m") is FREE
    board.advise(4 * DAY)
    assert blocked(board)
    assert seen(told) == [(OPENED, SEEDED, "quota pin seeded (advisor)")] * 2
    assert len(board.row()["circuits"]) == 1


def test_a_seeded_circuit_follows_a_reset_that_moves_away(board, told):
    board.advise(HOUR)
    board.advise(3 * HOUR)
    assert board.wait(SEEDED) == 3 * HOUR
    assert len(told) == 1


def test_the_ceiling_off_ends_a_seeded_circuit_at_once_and_the_next_pass_removes_it(board, told):
    """circuit-breaker 55"""
    board.advise(HOUR)
    board.set(pin_max=0)
    assert board.gate(A, "m") is FREE
    told.clear()
    board.advise(HOUR)
    assert board.row() is None
    assert seen(told) == [(CLOSED, SEEDED, "quota pin elapsed")]


def test_a_longer_cooldown_does_not_stretch_a_seeded_pin(board, clock):
    board.advise(2 * MINUTE)
    board.set(cooldown=HOUR)
    clock.advance(2 * MINUTE)
    assert board.gate(A, "m") is FREE


@pytest.mark.parametrize("account", [True, False])
def test_a_provider_that_is_dark_for_its_account_already_is_not_seeded(board, account):
    board.set(pin_probe=0)
    board.say(spent(DAY, account=account))
    board.advise(HOUR)
    assert (board.circuit(SEEDED) is None) is account


@pytest.mark.parametrize("seconds", [-5, 0, 59, 60])
def test_a_reset_within_the_cooldown_seeds_nothing(board, seconds):
    board.advise(seconds)
    assert board.row() is None


def test_a_disabled_breaker_is_left_untouched_by_the_passes(board):
    board.advise(HOUR)
    board.say(*[BAD] * 5, provider=B)
    board.set(enabled=False)
    board.advise(HOUR, provider=B)
    board.advise(None, recovered=[A])
    board.set(enabled=True)
    assert board.circuit(SEEDED)["pin_source"] == "advisor"
    assert board.wait(provider=B) == 60


def test_a_provider_that_is_gone_is_not_seeded(board):
    board.advise(HOUR, provider="ghost")
    assert "providers" not in board.status({}, True)


def test_a_reset_by_hand_lasts_until_the_next_pass(board, told, lines):
    """circuit-breaker 66, circuit-breaker 67"""
    board.advise(HOUR)
    told.clear()
    [done] = board.reset(A, SEEDED)
    assert (done.model, done.previous) == (SEEDED, "open")
    assert told == [] and board.gate(A, "m") is FREE
    assert board.reset(A, SEEDED) == []
    board.advise(HOUR)
    assert blocked(board)


def test_a_reset_of_pairs_leaves_the_seeded_circuit_and_one_of_the_provider_does_not(board):
    """circuit-breaker 67"""
    board.advise(HOUR)
    board.say(*[BAD] * 5)
    assert [done.model for done in board.reset_pairs([(A, "m"), (A, "other")])] == ["m"]
    assert blocked(board)
    assert [done.model for done in board.reset(A)] == [SEEDED]
    assert board.gate(A, "m") is FREE


def test_reset_all_takes_pinned_and_seeded_ones(board, told):
    """circuit-breaker 68"""
    board.advise(HOUR)
    board.say(spent(DAY), provider=B)
    board.say(SUCCESS, model="m2")
    told.clear()
    assert sorted((done.model, done.previous) for done in board.reset()) == [
        (SEEDED, "open"),
        ("m", "open"),
        ("m2", "closed"),
    ]
    assert told == [] and board.status({}, True) == {"closed": 0, "half_open": 0, "open": 0}


def test_the_seeded_circuit_counts_for_the_capacity_and_is_never_dropped(board, clock):
    """circuit-breaker 61"""
    for n in range(256):
        board.say(SUCCESS, model=f"m{n:03}")
        clock.advance(1)
    board.advise(HOUR)
    models = [circuit["model"] for circuit in board.row()["circuits"]]
    assert len(models) == 256 and "m000" not in models and SEEDED in models
    for n in range(300):
        board.say(SUCCESS, model=f"n{n:03}")
    assert SEEDED in [circuit["model"] for circuit in board.row()["circuits"]]


def test_seeded_openings_are_no_instability(board, clock, told):
    for _ in range(4):
        board.advise(HOUR)
        board.advise(None, recovered=[A])
    assert {event.type for event in told} == {OPENED, CLOSED}
    assert board.asked == []


def test_the_seed_counts_among_the_models_that_sideline_a_provider(board):
    board.advise(HOUR)
    board.say(*[BAD] * 5)
    assert board.row()["open_models"] == [SEEDED, "m"]


# --- release ------------------------------------------------------------------------------------------------------


def test_a_recovery_ends_what_rests_on_the_account_and_keeps_the_claims_of_models(board, clock, told):
    """circuit-breaker 53"""
    board.say(spent(DAY), model="response")
    board.say(spent(DAY, account=True), model="account")
    told.clear()
    board.advise(None, recovered=[A])
    assert (pin(board, "response"), pin(board, "account")) == ("response", None)
    assert (board.wait("account"), board.circuit("account")["state"]) == (60, "open")
    assert told == []


def test_a_release_makes_a_circuit_whose_own_wait_is_over_due_at_once(board, clock, lines):
    board.say(spent(DAY, account=True))
    clock.advance(5 * MINUTE)
    board.advise(None, recovered=[A])
    assert board.circuit()["state"] == "half-open"
    assert pin_lines(lines)[-1][2] == {"provider_id": A, "state": "half-open", "cooldown_ms": 60_000, "model": "m"}
    assert board.ask("probe")
    assert not board.ask("another")


def test_only_the_recovered_provider_is_released(board):
    board.say(spent(DAY, account=True))
    board.advise(None, recovered=[B])
    assert pin(board) == "account"


def test_lost_advice_leaves_all_pins_and_stamps_none(board, clock):
    """circuit-breaker 52"""
    board.advise(DAY)
    board.say(*[BAD] * 5, provider=B)
    board.drop_advice()
    assert pin(board, SEEDED) == "advisor"
    board.reset(A)
    board.say(*[BAD] * 5)
    assert pin(board) is None


def test_without_the_poll_every_pin_goes_once(board, clock, told, lines):
    """circuit-breaker 54"""
    board.advise(DAY)
    board.drop_advice()
    board.say(spent(DAY))
    board.say(spent(DAY, account=True), provider=B)
    board.advise(DAY, provider=B)
    told.clear()
    assert board.release_pins() == 3
    assert (pin(board), pin(board, SEEDED), board.circuit(provider=B).get("pin_source")) == (None, None, None)
    released = "circuit-breaker: quota pin released (quota polling disabled)"
    assert sorted(attrs["model"] for _, text, attrs in pin_lines(lines) if text == released) == [SEEDED, "m", "m"]
    assert seen(told) == [(CLOSED, SEEDED, "quota pin released (quota polling disabled)")]
    assert board.release_pins() == 0
    board.reset()
    board.say(*[charge_429()] * 5)
    assert pin(board) is None, "the advice is gone as well"
    board.say(spent(DAY), model="m2")
    assert pin(board, "m2") == "response", "an answer's own claim needs no poll"


def test_the_streak_survives_the_end_of_the_poll(board):
    board.say(*[charge_429()] * 5)
    board.release_pins()
    [circuit] = board._circuits.of(A)
    assert circuit.opens_429_streak == 1


# --- together -----------------------------------------------------------------------------------------------------


def test_each_pass_and_each_opening_of_a_provider_spreads_anew(clock):
    board = Bench(clock)
    drawn = iter(n / 100 for n in range(100))
    board.chance = lambda: next(drawn)
    board.say(*[BAD] * 5, model="m1")
    board.say(*[BAD] * 5, model="m2")
    board.advise(HOUR)
    assert board.wait("m1") != board.wait("m2")
