"""Circuits under verdicts, clocks and requests: the cases of circuit-breaker 24 that the board alone decides."""

import pytest

from failover import verdict
from failover.breaker.board import FREE
from failover.breaker.circuit import State
from tests.failover.breaker.conftest import NOOP, SATURATED, SPENT, SUCCESS, A, B, alive, status

BAD = status(503)


def blocked(board, model="m", provider=A):
    return board.gate(provider, model).state == "blocked"


# --- counting -----------------------------------------------------------------------------------------------------


def test_five_failures_in_a_row_open_a_circuit_and_it_is_skipped(board):
    """circuit-breaker 1"""
    board.say(*[BAD] * 4)
    assert board.gate(A, "m") is FREE
    board.say(BAD)
    assert blocked(board)
    assert board.circuit()["consecutive_fails"] == 5
    assert board.circuit()["last_cause"] == "upstream status 503"


def test_a_success_in_between_starts_the_count_anew(board):
    """circuit-breaker 2"""
    board.say(*[BAD] * 4, SUCCESS, *[BAD] * 4)
    assert not blocked(board)


def test_days_between_failures_do_not_matter(board, clock):
    for _ in range(4):
        board.say(BAD)
        clock.advance(4 * 86400)
    assert not blocked(board)
    board.say(BAD)
    assert blocked(board)


def test_an_alive_answer_leaves_the_tally_alone(board):
    """circuit-breaker 3"""
    board.say(*[BAD] * 4, alive(400))
    assert board.circuit()["consecutive_fails"] == 4
    board.say(BAD)
    assert blocked(board)


@pytest.mark.parametrize("code", [404, 499])
def test_a_no_op_neither_counts_nor_forgives(board, code):
    """circuit-breaker 3"""
    board.say(*[BAD] * 4, status(code), BAD)
    assert blocked(board)


def test_bad_requests_of_one_client_do_not_hide_an_outage(board):
    """circuit-breaker 3"""
    board.say(BAD, BAD, alive(422), BAD, BAD, alive(422))
    assert not blocked(board)
    board.say(BAD)
    assert blocked(board)


def test_a_saturated_answer_is_neither_charge_nor_credit(board):
    """part of circuit-breaker 4. The verdict's half."""
    board.say(*[BAD] * 4, SATURATED)
    assert board.circuit()["last_cause"] == "upstream status 429 (saturated)"
    board.say(BAD)
    assert blocked(board)


def test_empty_answers_open_a_circuit(board):
    """circuit-breaker 5"""
    board.say(*[verdict.empty(200)] * 5)
    circuit = board.circuit()
    assert (circuit["state"], circuit["last_status"]) == ("open", 200)
    assert circuit["last_cause"] == "response completed without delivering content"


def test_one_402_opens_at_once_and_a_second_model_darkens_the_provider(board):
    """part of circuit-breaker 14"""
    board.say(status(402))
    assert board.circuit()["last_status"] == 402
    assert board.circuit()["consecutive_fails"] == 5
    assert not board.provider_open(A)
    board.say(status(402), model="m2")
    assert board.provider_open(A)
    assert blocked(board, "never asked")


def test_a_402_is_one_charge_when_exhaustion_may_not_open(board):
    """circuit-breaker 15"""
    board.say(status(402, opens=False))
    assert (board.circuit()["state"], board.circuit()["consecutive_fails"]) == ("closed", 1)


def test_forwarded_rate_limits_never_open(board):
    """circuit-breaker 16"""
    board.say(*[status(429, moves_on=False)] * 10)
    assert board.circuit()["state"] == "closed"


def test_unclassified_rate_limits_are_plain_charges(board):
    """part of circuit-breaker 17"""
    board.say(*[status(429)] * 5)
    assert board.circuit()["state"] == "open"
    assert board.circuit()["last_cause"] == "upstream status 429"


def test_clients_that_hang_up_leave_no_trace(board):
    """circuit-breaker 19"""
    board.say(*[NOOP] * 10)
    assert board.row() is None


def test_raising_the_threshold_closes_nothing(board):
    board.say(*[BAD] * 5)
    board.set(threshold=50)
    assert blocked(board)


def test_model_ids_are_case_sensitive_and_providers_apart(board):
    board.open(model="m")
    assert not blocked(board, "M")
    assert not blocked(board, "m", B)


# --- waiting ------------------------------------------------------------------------------------------------------


def test_the_retry_instant_follows_the_cooldown_setting(board, clock):
    board.open()
    opened = clock.monotonic()
    assert board.gate(A, "m").retry_at == opened + 60
    board.set(cooldown=600)
    assert board.gate(A, "m").retry_at == opened + 600
    clock.advance(100)
    assert blocked(board)
    board.set(cooldown=60)
    assert not blocked(board)


def waits(board, clock, probes):
    """The wait after the open and after each failed probe."""
    seen = []
    for _ in range(probes + 1):
        seen.append(board.circuit()["cooldown_ms"] / 60000)
        clock.advance(seen[-1] * 60)
        board.fail_probe()
    return seen


def test_failing_probes_wait_longer_each_time(board, clock, told):
    """circuit-breaker 35"""
    board.say(*[BAD] * 5)
    assert waits(board, clock, 5) == [1, 2, 4, 8, 15, 15]
    opens = [e.message for e in told if e.type == "circuit_breaker.open"]
    assert opens[0].endswith("upstream status 503")
    assert opens[1].endswith(" (backing off after 1 failed retry, next retry in 2m)")
    assert opens[3].endswith(" (backing off after 3 failed retries, next retry in 8m)")


def test_a_good_probe_forgets_the_backoff(board, clock):
    """circuit-breaker 36"""
    board.open()
    clock.advance(60)
    board.fail_probe()
    clock.advance(120)
    board.ask()
    board.say(SUCCESS, *[BAD] * 5)
    circuit = board.circuit()
    assert circuit["cooldown_ms"] == 60000
    assert "failed_probes" not in circuit
    assert "backed_off" not in circuit


def test_a_week_of_failed_probes_waits_exactly_the_ceiling(board, clock):
    """circuit-breaker 37"""
    board.open()
    for _ in range(2000):
        clock.advance(900)
        board.fail_probe()
    assert board.circuit()["cooldown_ms"] == 900_000
    assert board.circuit()["failed_probes"] == 2000


def test_switching_the_backoff_off_falls_back_to_the_base_and_on_again_counts_everything(board, clock):
    """circuit-breaker 38"""
    board.open()
    waits(board, clock, 4)
    assert board.circuit()["cooldown_ms"] == 900_000
    board.set(backoff_max=0)
    circuit = board.circuit()
    assert (circuit["cooldown_ms"], circuit["failed_probes"]) == (60_000, 5)
    assert "backed_off" not in circuit
    clock.advance(60)
    board.set(backoff_max=0)
    board.fail_probe()
    assert board.circuit()["cooldown_ms"] == 60_000
    board.set(backoff_max=900)
    clock.advance(60)
    board.fail_probe()
    assert (board.circuit()["cooldown_ms"], board.circuit()["failed_probes"]) == (900_000, 7)


def test_a_ceiling_at_the_cooldown_never_backs_off(board, clock):
    """circuit-breaker 39"""
    board.set(backoff_max=60)
    board.open()
    assert waits(board, clock, 3) == [1, 1, 1, 1]
    assert "backed_off" not in board.circuit()


def test_a_longer_cooldown_governs_over_a_backoff(board, clock):
    """circuit-breaker 39"""
    board.open()
    waits(board, clock, 4)
    board.set(cooldown=1200)
    assert board.circuit()["cooldown_ms"] == 1_200_000
    assert "backed_off" not in board.circuit()


# --- probing ------------------------------------------------------------------------------------------------------


@pytest.fixture
def due(board, clock):
    board.open()
    clock.advance(60)
    return board


def test_one_of_twenty_requests_probes_while_the_others_go_elsewhere(due):
    """circuit-breaker 25"""
    assert [due.ask(n) for n in range(20)] == [True] + [False] * 19
    assert due.gate(A, "m").state == "leased"
    due.say(SUCCESS)
    assert due.gate(A, "m") is FREE
    assert due.ask(20)


def test_all_twenty_are_admitted_when_there_is_nobody_else(due):
    """circuit-breaker 25"""
    assert all(due.ask(n, alone=True) for n in range(20))
    due.say(SUCCESS, BAD)
    circuit = due.circuit()
    assert (circuit["state"], circuit["consecutive_fails"]) == ("closed", 1)


@pytest.mark.parametrize("alone", [True, False])
def test_without_a_lease_everyone_probes(due, alone):
    """circuit-breaker 25"""
    due.set(probe_lease=0)
    assert all(due.ask(n, alone=alone) for n in range(20))
    assert due.gate(A, "m") is FREE


def test_after_the_first_failure_the_other_results_change_nothing(due, told):
    """circuit-breaker 26"""
    for n in range(20):
        due.ask(n, alone=True)
    told.clear()
    due.say(BAD, *[SUCCESS] * 5, *[BAD] * 5, *[alive()] * 5, *[SPENT] * 4)
    circuit = due.circuit()
    assert (circuit["state"], circuit["failed_probes"], circuit["cooldown_ms"]) == ("open", 1, 120_000)
    assert circuit["last_cause"] == "upstream status 429 (exhausted)"
    assert len(told) == 1


def test_a_probe_whose_client_hangs_up_gives_the_lease_back(due):
    """circuit-breaker 27"""
    assert due.ask("first")
    due.say(NOOP)
    due.release(A, "m", "first")
    assert due.circuit()["state"] == "half-open"
    assert due.ask("second")


def test_a_probe_that_is_never_contacted_leaves_everything_as_it_was(due):
    """circuit-breaker 23"""
    before = due.circuit()
    assert due.ask("first")
    due.say(verdict.NONE)
    due.release(A, "m", "first")
    assert due.circuit() == before


def test_saturated_and_gone_probes_decide_nothing(due):
    """part of circuit-breaker 28. The verdict's half."""
    due.ask("first")
    due.say(SATURATED)
    due.release(A, "m", "first")
    assert due.circuit()["last_cause"] == "upstream status 429 (saturated)"
    assert due.ask("second")
    due.say(status(404))
    due.release(A, "m", "second")
    circuit = due.circuit()
    assert (circuit["state"], circuit["last_cause"]) == ("half-open", "upstream status 429 (saturated)")
    assert "failed_probes" not in circuit
    assert due.ask("third")
    assert not due.ask("fourth")


def test_a_lost_probe_locks_nobody_out_for_longer_than_its_lease(due, clock):
    """circuit-breaker 28a"""
    assert due.ask("lost")
    clock.advance(14.9)
    assert not due.ask("next")
    clock.advance(0.1)
    assert due.gate(A, "m") is FREE
    assert due.ask("next")
    assert not due.ask("another")


def test_an_alive_probe_closes(due, told):
    """circuit-breaker 29"""
    due.ask()
    told.clear()
    due.say(alive(400))
    assert due.circuit()["state"] == "closed"
    assert [(e.type, e.metadata["cause"], e.metadata["status"]) for e in told] == [
        ("circuit_breaker.closed", "upstream status 400 (alive)", 400)
    ]


@pytest.mark.parametrize("waited", [1, 59, 60, 3600])
def test_a_late_success_does_not_close_an_open_circuit(board, clock, waited):
    """circuit-breaker 30. Whether its wait is over or not: nobody has asked yet."""
    board.open()
    clock.advance(waited)
    board.say(SUCCESS)
    assert board.circuit()["state"] == ("open" if waited < 60 else "half-open")
    assert board.circuit()["last_cause"] == "success"
    assert board.circuit()["consecutive_fails"] == 5


def test_a_direct_request_inside_the_cooldown_is_a_late_result(board, clock):
    """circuit-breaker 31"""
    board.open()
    before = board.gate(A, "m").retry_at
    clock.advance(30)
    for judgement in (SUCCESS, BAD):
        assert board.ask("direct", direct=True, alone=True)
        board.say(judgement)
        board.release(A, "m", "direct")
        assert board.gate(A, "m").retry_at == before


@pytest.mark.parametrize(("judgement", "state", "failed"), [(SUCCESS, "closed", None), (BAD, "open", 1)])
def test_a_direct_request_after_the_cooldown_is_the_probe(due, judgement, state, failed):
    """circuit-breaker 31"""
    assert due.ask("direct", direct=True)
    assert not due.ask("a group request")
    due.say(judgement)
    assert (due.circuit()["state"], due.circuit().get("failed_probes")) == (state, failed)


def test_a_direct_request_is_admitted_beside_the_holder_of_the_lease(due):
    assert due.ask("holder")
    assert due.ask("direct", direct=True)
    due.release(A, "m", "direct")
    assert due.gate(A, "m").state == "leased", "what it never held it cannot give back"


def test_a_circuit_that_opened_during_the_walk_still_admits(board):
    board.open()
    assert board.ask("walker", alone=False)
    assert board.circuit()["state"] == "open"


def test_a_long_stream_that_ends_well_closes_a_half_open_circuit(due):
    due.ask("probe")
    due.say(SUCCESS)
    due.release(A, "m", "probe")
    assert due.state_of(A) is State.CLOSED


def test_taking_the_lease_again_keeps_its_end(due, clock):
    due.ask("first")
    clock.advance(10)
    assert due.ask("first"), "a retry of the same attempt"
    clock.advance(5)
    assert due.ask("second")


def test_switching_the_lease_off_frees_a_held_one(due):
    due.ask("first")
    due.set(probe_lease=0)
    assert due.gate(A, "m") is FREE
    assert due.ask("second")


# --- the provider-wide verdict --------------------------------------------------------------------------------------


def test_two_dark_models_sideline_the_provider(board):
    """circuit-breaker 32"""
    board.open(model="m2")
    assert board.gate(A, "m1") is FREE
    board.open(model="m1")
    assert blocked(board, "m3")
    assert board.row()["provider_open"] is True
    assert board.row()["open_models"] == ["m1", "m2"]


def test_the_verdict_lapses_by_itself(board, clock):
    """circuit-breaker 33"""
    board.open(model="m1")
    clock.advance(20)
    board.open(model="m2")
    first = clock.monotonic() + 40
    assert board.gate(A, "m3").retry_at == first
    clock.advance(39.9)
    assert blocked(board, "m3")
    clock.advance(0.1)
    assert board.gate(A, "m3") is FREE
    assert board.gate(A, "m1") is FREE
    assert blocked(board, "m2")


def test_changing_the_span_takes_effect_over_open_circuits(board):
    """circuit-breaker 34"""
    board.open(model="m1")
    board.open(model="m2")
    board.set(span=3)
    assert not board.provider_open(A)
    assert board.gate(A, "m3") is FREE
    board.set(span=2)
    assert blocked(board, "m3")
    board.set(span=1)
    board.reset(A, "m2")
    assert blocked(board, "m3")


def test_a_due_circuit_is_still_refused_while_others_hold_the_verdict(board, clock):
    board.open(model="m1")
    clock.advance(30)
    board.open(model="m2")
    board.open(model="m3")
    clock.advance(30)
    gate = board.gate(A, "m1")
    assert (gate.state, gate.retry_at) == ("blocked", clock.monotonic() + 30)


def test_an_own_block_tells_its_own_retry_instant(board, clock):
    board.open(model="m1")
    clock.advance(10)
    board.open(model="m2")
    assert board.gate(A, "m2").retry_at == clock.monotonic() + 60


def test_a_provider_without_open_circuits_reads_no_setting(board):
    board.say(*[BAD] * 4)
    board.reads = 0
    for question in (board.gate(A, "m"), board.provider_open(A), board.health(A), board.ask()):
        assert question is not None
    board.release(A, "m", "someone")
    assert board.reads == 0


def test_a_question_reads_the_settings_once_however_many_circuits(board):
    for n in range(50):
        board.open(model=f"m{n}")
    board.reads = 0
    board.gate(A, "other")
    assert board.reads == 1
    board.status({}, True)
    assert board.reads == 2


# --- capacity -------------------------------------------------------------------------------------------------------


def test_the_longest_uncharged_closed_circuit_makes_room(board, clock):
    """circuit-breaker 61"""
    for n in range(256):
        board.say(BAD, model=f"m{n:03}")
        clock.advance(1)
    board.say(alive(), model="m000")
    board.say(BAD, model="new")
    models = [c["model"] for c in board.row()["circuits"]]
    assert len(models) == 256
    assert "m001" not in models
    assert {"m000", "new"} <= set(models)


def test_open_circuits_are_never_dropped(board):
    """circuit-breaker 61"""
    board.set(threshold=1)
    for n in range(257):
        board.say(BAD, model=f"m{n:03}")
    assert len(board.row()["circuits"]) == 257


def test_a_circuit_that_was_only_busy_goes_first_and_ties_go_by_name(board, clock):
    """circuit-breaker 61"""
    for n in range(254):
        board.say(SUCCESS, model=f"m{n:03}")
    clock.advance(100)
    board.say(SATURATED, model="z-busy")
    board.say(SATURATED, model="y-busy")
    seen = []
    for name in ("n1", "n2", "n3"):
        board.say(SUCCESS, model=name)
        seen.append({"y-busy", "z-busy", "m000"} - {c["model"] for c in board.row()["circuits"]})
    assert seen == [{"y-busy"}, {"y-busy", "z-busy"}, {"y-busy", "z-busy", "m000"}]


def test_eviction_is_silent_and_per_provider(board, told, lines):
    for n in range(300):
        board.say(SUCCESS, model=f"m{n}")
        board.say(SUCCESS, model=f"m{n}", provider=B)
    assert len(board.row(A)["circuits"]) == len(board.row(B)["circuits"]) == 256
    assert told == []
    assert lines() == []


# --- forgetting -----------------------------------------------------------------------------------------------------


def test_a_deleted_provider_loses_its_circuits(board):
    board.open()
    board.open(provider=B)
    board.forget(A)
    board.forget(A)
    assert board.row(A) is None
    assert board.gate(A, "m") is FREE
    board.keep_only({A})
    assert board.row(B) is None


def test_results_in_flight_at_a_reset_land_on_a_fresh_circuit(board):
    board.say(*[BAD] * 4)
    board.reset(A)
    board.say(BAD)
    assert board.circuit()["consecutive_fails"] == 1


def test_a_reset_takes_counts_backoff_and_opens_with_it(board, clock, told):
    board.open()
    clock.advance(60)
    board.fail_probe()
    board.reset(A, "m")
    told.clear()
    board.open()
    assert board.circuit()["cooldown_ms"] == 60_000
    assert [e.type for e in told] == ["circuit_breaker.open"]


def test_disabling_the_breaker_keeps_the_circuits(board):
    """circuit-breaker 70"""
    board.open(model="m1")
    board.open(model="m2")
    before = board.gate(A, "m1")
    board.set(enabled=False)
    assert board.status({A: "Aurora", B: "Borealis"}, True) == {"closed": 2, "half_open": 0, "open": 0}
    assert not board.provider_open(A)
    assert not board.health(A).any_open
    board.set(enabled=True)
    assert board.gate(A, "m1") == before
    assert board.provider_open(A)


def test_health_tells_open_from_recovering(board, clock):
    assert (board.health(A).provider_open, board.health(A).any_open, board.health(A).half_open) == (False,) * 3
    board.open(model="m1")
    clock.advance(30)
    board.open(model="m2")
    assert (board.health(A).provider_open, board.health(A).any_open, board.health(A).half_open) == (True, True, False)
    clock.advance(30)
    assert (board.health(A).provider_open, board.health(A).any_open, board.health(A).half_open) == (False, True, True)
    clock.advance(30)
    assert (board.health(A).provider_open, board.health(A).any_open, board.health(A).half_open) == (False, False, True)
