"""The status as JSON members."""

import msgspec

from failover.breaker import view
from failover.breaker.board import Reset
from failover.breaker.circuit import Circuit, State
from failover.breaker.rules import BreakerSettings
from tests.failover.breaker.conftest import SATURATED, SUCCESS, A, B, status

BAD = status(503)


def test_the_whole_answer_of_a_backed_off_circuit(board, clock):
    board.say(*[BAD] * 5)
    for wait in (60, 120, 240):
        clock.advance(wait)
        board.fail_probe()
    circuit = {
        "state": "open",
        "consecutive_fails": 5,
        "opened_at": "2026-01-01T12:07:00.000Z",
        "cooldown_ms": 480_000,
        "next_retry_at": "2026-01-01T12:15:00.000Z",
        "backed_off": True,
        "failed_probes": 3,
    }
    last = {"last_cause": "upstream status 503", "last_status": 503, "last_at": "2026-01-01T12:07:00.000Z"}
    assert board.status({A: "Aurora", B: "Borealis"}, True) == {
        "closed": 1,
        "half_open": 0,
        "open": 1,
        "providers": [
            {
                "provider_id": A,
                "provider_name": "Aurora",
                **circuit,
                "provider_open": False,
                "open_models": ["m"],
                "circuits": [{"model": "m", **circuit, **last}],
            }
        ],
    }
    assert board.status({A: "Aurora", B: "Borealis"}, False) == {"closed": 1, "half_open": 0, "open": 1}


def test_what_is_false_or_zero_is_left_out(board):
    board.say(SUCCESS)
    assert board.row() == {
        "provider_id": A,
        "provider_name": "Aurora",
        "state": "closed",
        "consecutive_fails": 0,
        "provider_open": False,
        "circuits": [
            {
                "model": "m",
                "state": "closed",
                "consecutive_fails": 0,
                "last_cause": "success",
                "last_at": "2026-01-01T12:00:00.000Z",
            }
        ],
    }


def test_a_circuit_that_is_due_reads_half_open_without_a_retry(board, clock):
    board.open()
    clock.advance(60)
    circuit = board.circuit()
    assert circuit["state"] == "half-open"
    assert circuit["opened_at"] == "2026-01-01T12:00:00.000Z"
    assert "next_retry_at" not in circuit
    assert "cooldown_ms" not in circuit
    assert "open_models" not in board.row()
    assert board.status({}, False) == {"closed": 0, "half_open": 1, "open": 0}


def test_one_open_circuit_of_three_counts_the_provider_as_open(board):
    """part of circuit-breaker 64"""
    board.say(SUCCESS, model="m1")
    board.say(BAD, model="m2")
    board.open(model="m3")
    found = board.status({A: "Aurora"}, True)
    assert (found["open"], found["half_open"], found["closed"]) == (1, 0, 0)
    assert found["providers"][0]["provider_open"] is False
    assert [c["model"] for c in found["providers"][0]["circuits"]] == ["m1", "m2", "m3"]


def test_reading_never_moves_a_state(board, clock):
    """part of circuit-breaker 64"""
    board.open()
    clock.advance(61)
    first = board.status({A: "Aurora"}, True)
    for _ in range(100):
        assert board.status({A: "Aurora"}, True) == first
        assert board.gate(A, "m").state == "free"
    board.say(SUCCESS)
    assert board.circuit()["state"] == "half-open", "it was only due: a late result does not close it"


def test_a_member_that_was_never_asked_counts_as_closed(board):
    """circuit-breaker 65"""
    assert board.status({A: "Aurora", B: "Borealis"}, True) == {"closed": 2, "half_open": 0, "open": 0}


def test_providers_outside_all_groups_count_by_their_circuits(board):
    board.open(provider=B)
    assert board.status({A: "Aurora"}, False) == {"closed": 1, "half_open": 0, "open": 1}


def test_providers_are_sorted_by_name_then_id(board, monkeypatch):
    monkeypatch.setattr(board, "name_of", lambda provider_id: provider_id)
    board.say(SUCCESS, provider=B)
    board.say(SUCCESS, provider=A)
    board.say(SUCCESS, provider="c")
    names = {A: "zeta", B: "alpha", "c": "alpha"}
    rows = board.status(names, True)["providers"]
    assert [(r["provider_name"], r["provider_id"]) for r in rows] == [("alpha", B), ("alpha", "c"), ("zeta", A)]


def test_the_row_speaks_for_the_most_degraded_circuit(board, clock):
    def worst():
        return next(c["model"] for c in board.row()["circuits"] if c["consecutive_fails"] == wanted())

    def wanted():
        return board.row()["consecutive_fails"]

    board.say(BAD, model="c")
    board.say(BAD, BAD, model="d")
    assert worst() == "d"
    board.open(model="b")
    assert board.row()["state"] == "open"
    clock.advance(10)
    board.open(model="e")
    assert board.row()["opened_at"] == "2026-01-01T12:00:10.000Z", "the later retry"
    clock.advance(50)
    assert board.row()["state"] == "open"
    assert board.row()["open_models"] == ["e"]
    clock.advance(10)
    assert board.row()["state"] == "half-open"


def test_between_equals_more_failures_then_the_smaller_model_id_win():
    rules = BreakerSettings()
    same = [Circuit(name, consecutive_fails=2) for name in ("c", "a", "b")]
    assert view.most_degraded(same, 0.0, rules).model == "a"
    assert view.most_degraded([*same, Circuit("z", consecutive_fails=3)], 0.0, rules).model == "z"


def test_a_busy_circuit_shows_its_last_verdict(board):
    board.say(SATURATED)
    circuit = board.circuit()
    assert (circuit["state"], circuit["last_status"]) == ("closed", 429)


def test_the_answer_is_plain_json(board, clock):
    board.open()
    text = msgspec.json.encode(board.status({A: "Aurora"}, True))
    assert msgspec.json.decode(text) == board.status({A: "Aurora"}, True)


def test_a_reset_names_what_it_cleared(board, clock, lines, told):
    """circuit-breaker 68"""
    for n in range(5):
        board.say(BAD, model=f"m{n}")
    board.open(model="dark")
    board.open(provider=B)
    clock.advance(59)
    before = len(lines())
    told.clear()
    cleared = board.reset()
    assert told == []
    assert [r.previous for r in cleared] == [State.CLOSED] * 5 + [State.OPEN] * 2
    assert Reset(B, "m", State.OPEN) in cleared
    assert board.status({A: "Aurora"}, True) == {"closed": 1, "half_open": 0, "open": 0}
    found = lines()[before:]
    assert len(found) == 7
    attrs = {"provider_id": A, "cause": "manual reset", "previous_state": "open", "model": "dark"}
    assert ("INFO", "circuit-breaker: manual reset", attrs) in found
    assert list(attrs) == list(next(line[2] for line in found if line[2]["model"] == "dark"))
    assert board.reset() == []


def test_a_reset_of_one_model_keeps_its_siblings(board):
    board.open(model="m1")
    board.say(BAD, BAD, BAD, model="m2")
    assert board.reset(A, "m1") == [Reset(A, "m1", State.OPEN)]
    assert board.reset(A, "m1") == []
    assert board.circuit("m2")["consecutive_fails"] == 3
    assert board.gate(A, "m1").state == "free"


def test_resetting_a_due_circuit_reports_half_open(board, clock):
    board.open()
    clock.advance(60)
    assert board.reset(A) == [Reset(A, "m", State.HALF_OPEN)]
