"""Events and log lines: exact members, exact sentences, told once and never at the cost of a verdict."""

import logging

import pytest

from failover import verdict
from failover.breaker import report
from modelhotel.core import events
from tests.failover.breaker.conftest import SATURATED, SUCCESS, A, B, alive, status

BAD = status(503)


def test_the_open_event_has_exactly_these_members(board, told):
    """circuit-breaker 1"""
    board.say(*[BAD] * 5)
    [event] = told
    assert (event.type, event.severity, event.source) == ("circuit_breaker.open", "warning", "failover")
    assert event.message == "Provider Aurora circuit breaker: open for model m: upstream status 503"
    assert event.metadata == {
        "provider_id": A,
        "provider": "Aurora",
        "model": "m",
        "model_id": "m",
        "state": "open",
        "cause": "upstream status 503",
        "status": 503,
        "pin_source": "",
        "provider_open": False,
        "consecutive_fails": 5,
        "quota_pinned": False,
        "backed_off": False,
        "failed_probes": 0,
        "cooldown_ms": 60000,
    }


def test_the_closed_event_has_exactly_these_members(board, clock, told):
    board.open()
    clock.advance(60)
    board.ask()
    told.clear()
    board.say(SUCCESS)
    [event] = told
    assert (event.type, event.severity, event.source) == ("circuit_breaker.closed", "success", "failover")
    assert event.message == "Provider Aurora circuit breaker: closed for model m"
    assert event.metadata == {
        "provider_id": A,
        "provider": "Aurora",
        "model": "m",
        "model_id": "m",
        "state": "closed",
        "cause": "success",
        "status": 0,
        "pin_source": "",
        "provider_open": False,
        "consecutive_fails": 0,
        "quota_pinned": False,
        "backed_off": False,
        "failed_probes": 0,
    }


def test_the_open_that_darkens_a_provider_speaks_for_the_provider(board, told):
    """part of circuit-breaker 63. The first open is about a model, what comes after it about the provider."""
    for model in ("m1", "m2", "m3"):
        board.say(*[BAD] * 5, model=model)
    assert ["model_id" in e.metadata for e in told] == [True, False, False]
    assert [e.metadata["provider_open"] for e in told] == [False, True, True]
    assert told[1].message == (
        "Provider Aurora circuit breaker: open for model m2 (provider skipped): upstream status 503"
    )


def test_openings_short_of_the_span_speak_for_their_models(board, told):
    """part of circuit-breaker 63. Each has a subject of its own, so none silences another."""
    board.set(span=5)
    for model in ("m1", "m2"):
        board.say(*[BAD] * 5, model=model)
    assert [(e.metadata["model_id"], e.metadata["provider_open"]) for e in told] == [("m1", False), ("m2", False)]


def test_a_closed_event_always_names_its_model(board, clock, told):
    board.open(model="m1")
    clock.advance(60)
    for model in ("m2", "m3"):
        board.open(model=model)
    board.ask(model="m1")
    told.clear()
    board.say(SUCCESS, model="m1")
    [event] = told
    assert (event.metadata["model_id"], event.metadata["provider_open"]) == ("m1", True)
    assert event.message == "Provider Aurora circuit breaker: closed for model m1"


def test_a_backed_off_open_says_when_it_will_be_tried_again(board, clock, told):
    """operations 42"""
    board.open()
    clock.advance(60)
    board.fail_probe()
    again = told[-1]
    assert (again.type, again.metadata["failed_probes"], again.metadata["backed_off"]) == (
        "circuit_breaker.open",
        1,
        True,
    )
    assert again.metadata["next_retry_at"] == "2026-01-01T12:03:00.000Z", "two minutes later, not the cooldown's one"
    for wait in (120, 240):
        clock.advance(wait)
        board.fail_probe()
    event = told[-1]
    assert event.metadata["next_retry_at"] == "2026-01-01T12:15:00.000Z"
    assert (event.metadata["cooldown_ms"], event.metadata["failed_probes"]) == (480_000, 3)
    assert event.metadata["backed_off"] is True
    assert event.timestamp == "2026-01-01T12:07:00.000Z", "the instant of the transition"
    assert event.message == (
        "Provider Aurora circuit breaker: open for model m: upstream status 503"
        " (backing off after 3 failed retries, next retry in 8m)"
    )


def test_the_third_open_of_a_day_is_reported_once(board, clock, told, lines):
    """circuit-breaker 62"""
    opens = []
    for _ in range(10):
        board.open()
        opens.append([e for e in told if e.type == "circuit_breaker.unstable"])
        told.clear()
        clock.advance(3600)
        board.ask()
        board.say(SUCCESS)
    assert [len(found) for found in opens] == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    [event] = opens[2]
    assert (event.severity, event.source) == ("warning", "failover")
    assert event.message == "m on Aurora opened its circuit 3 times in 24h"
    assert event.metadata == {
        "provider_id": A,
        "provider": "Aurora",
        "model": "m",
        "model_id": "m",
        "opens": 3,
        "window": "24h",
    }
    attrs = {"provider": "Aurora", "provider_id": A, "opens": 3, "window": "24h", "model": "m"}
    assert [line for line in lines() if "keeps" in line[1]] == [
        ("WARNING", "circuit-breaker: model keeps reopening its circuit", attrs)
    ]


def test_a_new_window_counts_from_one(board, clock, told):
    """circuit-breaker 62"""
    for hours in (0, 10, 25, 26, 27):
        clock.advance(max(0, hours * 3600 - (clock.monotonic() - 1000)))
        board.open()
        clock.advance(60)
        board.ask()
        board.say(SUCCESS)
    unstable = [e for e in told if e.type == "circuit_breaker.unstable"]
    assert [e.metadata["opens"] for e in unstable] == [3]
    assert unstable[0].timestamp.startswith("2026-01-02T15:")


def test_an_outage_and_its_recovery_leave_five_lines(board, clock, lines, told):
    """circuit-breaker 68b, for the log"""
    board.say(*[status(502)] * 5)
    clock.advance(60)
    board.fail_probe(verdict.probe_failed(200))
    clock.advance(120)
    board.ask()
    board.say(SUCCESS)
    keys = (
        *("provider", "provider_id", "cause", "status", "consecutive_failures", "cooldown_ms"),
        *("quota_pinned", "backed_off", "failed_probes", "model"),
    )
    found = [line for line in lines() if line[1].startswith("circuit-breaker: ")]
    assert all(tuple(attrs) == keys for _, _, attrs in found)
    short = [(level, text, *(attrs[k] for k in keys[2:9])) for level, text, attrs in found]
    state = "circuit-breaker: model state="
    down, cut = ("upstream status 502", 502), ("TTFT probe failed", 200)
    assert short == [
        ("WARNING", f"{state}closed→open", *down, 5, 60_000, False, False, 0),
        ("INFO", f"{state}open→half-open (cooldown elapsed)", *down, 5, 60_000, False, False, 0),
        ("WARNING", f"{state}half-open→open (probe failed)", *cut, 5, 120_000, False, True, 1),
        ("INFO", f"{state}open→half-open (cooldown elapsed)", *cut, 5, 120_000, False, True, 1),
        ("INFO", f"{state}half-open→closed (probe succeeded)", "success", 0, 0, 0, False, False, 0),
    ]
    assert {(attrs["provider"], attrs["provider_id"], attrs["model"]) for *_, attrs in found} == {("Aurora", A, "m")}
    assert [e.type for e in told] == ["circuit_breaker.open"] * 2 + ["circuit_breaker.closed"]


def test_exhaustion_is_named_in_the_lines(board, clock, lines):
    board.open()
    clock.advance(60)
    board.fail_probe(status(402))
    texts = [text for _, text, _ in lines() if "→open" in text]
    assert texts == [
        "circuit-breaker: model state=closed→open (exhausted)",
        "circuit-breaker: model state=half-open→open (probe drew exhaustion)",
    ]


def test_every_charge_leaves_a_line_of_the_proxy(board, lines):
    board.say(status(429), status(402), SUCCESS, alive(), SATURATED, verdict.NONE)
    who = {"provider": "Aurora", "provider_id": A, "model": "m"}
    assert [line for line in lines() if line[1].startswith("proxy: ")] == [
        (
            "WARNING",
            "proxy: recording circuit breaker failure",
            {"reason": "upstream status 429", "status": 429, **who},
        ),
        (
            "WARNING",
            "proxy: recording circuit breaker exhaustion",
            {"reason": "upstream status 402 (exhausted)", "status": 402, "pin_hint_ms": 7_776_000_000, **who},
        ),
    ]


def test_probing_leasing_and_late_results_publish_nothing(board, clock, told):
    """operations 41"""
    board.open()
    told.clear()
    board.say(BAD, SUCCESS, alive(), SATURATED)
    clock.advance(60)
    board.ask()
    board.say(SATURATED)
    board.release(A, "m", "someone")
    board.reset()
    assert told == []


def test_a_provider_that_loses_its_name_is_told_by_its_id(board, told, monkeypatch):
    board.say(*[BAD] * 4)
    monkeypatch.setattr(board, "name_of", lambda provider_id: "")
    board.say(BAD)
    assert told[0].metadata["provider"] == A


def test_a_late_result_of_a_deleted_provider_brings_nothing_back(board, told):
    board.say(*[BAD] * 5, provider="ghost")
    assert told == [] and "providers" not in board.status({}, True)


@pytest.mark.parametrize("broken", ["events", "log", "both"])
def test_a_failing_listener_changes_no_verdict(board, monkeypatch, broken, caplog):
    def fail(*arguments, **options):
        raise RuntimeError("the listener is broken")

    if broken != "log":
        monkeypatch.setattr(events, "publish", fail)
    if broken != "events":
        for logger in (report.log, report.proxy_log):
            for method in ("log", "warning", "info", "exception"):
                monkeypatch.setattr(logger, method, fail)
    board.say(*[BAD] * 5)
    assert board.gate(A, "m").state == "blocked"
    assert len(board.reset(A)) == 1
    if broken == "events":
        assert [r for r in caplog.records if r.levelno == logging.ERROR and "report failed" in r.getMessage()]


def test_a_subscriber_may_ask_the_board(board):
    """Nothing is told under the lock: a listener that asks back must not wait for itself."""
    seen = []
    events.subscribe(lambda event: seen.append((board.gate(A, "m").state, board.row()["state"], board.gate(B, "m"))))
    board.say(*[BAD] * 5)
    assert [found[:2] for found in seen] == [("blocked", "open")]
