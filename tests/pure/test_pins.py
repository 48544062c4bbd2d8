"""The arithmetic of quota pins, and what holds for every circuit however its pin came about."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.breaker import circuit as waits
from failover.breaker import pinning, pins
from failover.breaker import state as machine
from failover.breaker.circuit import Circuit, Moment, State
from failover.breaker.pins import Advice, Evidence, Pin, Source
from failover.breaker.rules import BreakerSettings, of_options
from failover.verdict import Judgement, Verdict
from modelhotel.core.options import REGISTRY

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR, DAY = 3600.0, 86_400.0
RULES = BreakerSettings()


def at(seconds):
    return Moment(1000.0 + seconds, START + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("pin", "rules", "served"),
    [
        (None, RULES, 0),
        (Pin(2 * HOUR, Source.ADVISOR), RULES, 2 * HOUR),
        (Pin(2 * HOUR, Source.RESERVE), RULES, 2 * HOUR),
        (Pin(2 * HOUR, Source.RESPONSE), RULES, HOUR),
        (Pin(2 * HOUR, Source.ACCOUNT, 0.5), RULES, HOUR * 1.025),
        (Pin(600, Source.RESPONSE, 0.5), RULES, 600),
        (Pin(2 * HOUR, Source.RESPONSE), BreakerSettings(pin_probe=0), 2 * HOUR),
        (Pin(2 * HOUR, Source.ADVISOR), BreakerSettings(pin_max=0), 0),
        (Pin(2 * HOUR, Source.RESPONSE), BreakerSettings(pin_max=0, pin_probe=0), 0),
        (Pin(2 * HOUR, Source.ADVISOR), BreakerSettings(pin_max=60), 2 * HOUR),
    ],
)
def test_how_long_a_pin_is_served(pin, rules, served):
    assert pins.wait(pin, rules) == pytest.approx(served)


def test_who_speaks_for_the_account():
    speaking = {source for source in Source if pins.speaks_for_account(Pin(60, source), RULES)}
    assert speaking == {Source.ADVISOR, Source.RESERVE, Source.ACCOUNT}
    assert not pins.speaks_for_account(None, RULES)
    off = BreakerSettings(pin_max=0)
    assert not any(pins.speaks_for_account(Pin(60, source), off) for source in Source)
    assert {source for source in Source if pins.waits_on_claim(Pin(60, source), RULES)} == {
        Source.ACCOUNT,
        Source.RESPONSE,
    }


@pytest.mark.parametrize(
    ("backoff", "pin", "wait"),
    [
        (0, None, waits.Wait(60)),
        (120, None, waits.Wait(120, True, backing_off=True)),
        (0, Pin(300, Source.ADVISOR), waits.Wait(300, False, True, "advisor")),
        (120, Pin(300, Source.ADVISOR), waits.Wait(300, True, True, "advisor")),
        (480, Pin(300, Source.RESERVE), waits.Wait(480, True, True, "reserve", True)),
        (300, Pin(300, Source.ACCOUNT), waits.Wait(300, True, True, "account", True)),
        (0, Pin(30, Source.RESPONSE), waits.Wait(60, False, True, "response")),
    ],
)
def test_the_longest_wait_governs_and_both_claims_may_be_in_force(backoff, pin, wait):
    assert waits.wait_of(Circuit("m", backoff=backoff, pin=pin), RULES) == wait


SECONDS = st.one_of(st.just(0.0), st.floats(0.1, 4e6))
DRAWN = st.floats(0, 1, exclude_max=True)
SETTINGS = st.builds(
    BreakerSettings,
    threshold=st.integers(1, 3),
    cooldown=st.floats(1, 1200),
    backoff_max=st.sampled_from([0.0, 60.0, 900.0, 7200.0]),
    pin_max=st.sampled_from([0.0, 600.0, DAY, 30 * DAY]),
    pin_probe=st.sampled_from([0.0, 600.0, HOUR]),
)
ADVICE = st.none() | st.builds(
    Advice,
    st.integers(-3600, 3_000_000).map(lambda s: START + timedelta(seconds=s)),
    st.sampled_from([Source.ADVISOR, Source.RESERVE]),
)
EVIDENCE = st.builds(Evidence, st.booleans(), SECONDS, st.booleans(), ADVICE, DRAWN, DRAWN)
VERDICT = st.sampled_from([Verdict.CHARGE, Verdict.EXHAUSTED])


@given(EVIDENCE, st.floats(0, 1e5), SETTINGS)
def test_a_stamped_pin_is_longer_than_the_wait_without_it_and_within_the_ceiling(evidence, unpinned, rules):
    pin = pins.at_open(evidence, START, unpinned, rules)
    if pin is None:
        return
    assert unpinned < pin.seconds <= rules.pin_max * 1.05
    measured = pins.remaining(evidence.advice, START)
    claim = measured or evidence.hint
    assert min(claim, rules.pin_max) <= pin.seconds <= min(claim, rules.pin_max) * 1.05
    assert (pin.source in pins.MEASURED) == (measured > 0)


STEP = st.one_of(
    st.tuples(st.just("verdict"), VERDICT, EVIDENCE),
    st.tuples(st.just("probe")),
    st.tuples(st.just("reading"), st.integers(-60, 500_000), DRAWN),
    st.tuples(st.just("recovered")),
    st.tuples(st.just("wait"), st.floats(0, 100_000)),
    st.tuples(st.just("settings"), SETTINGS),
)


@given(SETTINGS, st.lists(STEP, max_size=25))
def test_while_a_circuit_stays_open_only_a_release_or_a_setting_shortens_its_wait(rules, steps):
    """And a closed circuit has no pin, whatever happened before."""
    circuit, seconds = Circuit("m"), 0.0
    for name, *given_ in steps:
        before, opened = waits.retry_at(circuit, rules), circuit.opened_at
        if name == "verdict":
            judgement = Judgement(given_[0], "phrase", 429, pin_hint=given_[1].hint)
            machine.land(circuit, judgement, at(seconds), rules, given_[1])
        elif name == "probe":
            machine.ask(circuit, at(seconds), rules)
        elif name == "reading":
            advice = Advice(at(seconds + given_[0]).wall, Source.ADVISOR)
            pinning.retarget(circuit, advice, at(seconds), rules, given_[1])
        elif name == "recovered" and pinning.note_recovery(circuit):
            pinning.release(circuit, pinning.Cause.RECOVERED, at(seconds))
            before = None
        elif name == "wait":
            seconds += given_[0]
        elif name == "settings":
            rules, before = given_[0], None
        after = waits.retry_at(circuit, rules)
        if before is not None and after is not None and circuit.opened_at == opened:
            assert after >= before
        if circuit.state is State.CLOSED:
            assert circuit.pin is None
        else:
            plain, _ = waits.unpinned(circuit, rules)
            assert waits.wait_of(circuit, rules).seconds >= plain


@given(SETTINGS, st.lists(st.tuples(VERDICT, EVIDENCE), min_size=1, max_size=12))
def test_no_pin_outlives_its_ceiling(rules, refusals):
    """Once the longest possible wait has passed, the next request is let in."""
    circuit, seconds = Circuit("m"), 0.0
    longest = max(rules.cooldown, rules.backoff_max, rules.pin_max) * 1.05
    for kind, evidence in refusals:
        machine.land(circuit, Judgement(kind, "phrase", 429), at(seconds), rules, evidence)
        seconds += longest + 1
        assert not waits.blocking(circuit, at(seconds).mono, rules)
        machine.ask(circuit, at(seconds), rules)
        assert circuit.state is not State.OPEN


@pytest.mark.parametrize(
    ("stored", "ceiling", "probe"),
    [
        ({}, DAY, HOUR),
        ({"circuit_breaker_quota_pin_max": "0s", "circuit_breaker_pin_probe_interval": "0s"}, 0, 0),
        ({"circuit_breaker_quota_pin_max": "168h", "circuit_breaker_pin_probe_interval": "5m"}, 7 * DAY, 300),
    ],
    ids=["circuit-breaker 55: an absent key means a day, not off", "a stored zero is off", "stored values"],
)
def test_the_settings_of_pins(stored, ceiling, probe):
    rules = of_options(REGISTRY.values(stored, {}))
    assert (rules.pin_max, rules.pin_probe) == (ceiling, probe)
