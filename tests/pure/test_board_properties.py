"""Whatever happened before, a probe is never locked out for good, and never shared while its lease runs."""

from datetime import timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from failover import verdict
from failover.breaker.board import Board
from failover.breaker.circuit import ACCOUNT, State
from failover.breaker.pins import Advice, Source
from failover.breaker.rules import BreakerSettings
from failover.verdict import Judgement, Verdict
from modelhotel.core import events
from modelhotel.core.clock import ManualClock

MODELS, HOLDERS = ("m1", "m2", "m3"), ("a", "b", "c", "d")
#: The longest wait of all is that of a spent quota: the ceiling of the pins and their spread.
LEASE, LONGEST = 15.0, 86_400.0 * 1.05
SPAN = 2

SPENT = verdict.of_status(402, moves_on=True, open_on_exhaustion=True)
VERDICTS = st.sampled_from(
    [
        verdict.TRANSPORT,
        SPENT,
        Judgement(Verdict.EXHAUSTED, "upstream status 429 (exhausted)", 429, "charge", 7200.0, True, True),
        Judgement(Verdict.CHARGE, "upstream status 429 (unrecognised)", 429, "charge", rate_limited=True),
        verdict.success(),
        verdict.of_status(400, moves_on=False, open_on_exhaustion=True),
        Judgement(Verdict.SATURATED, "upstream status 429 (saturated)", 429),
        verdict.NONE,
    ]
)
MODEL, HOLDER = st.sampled_from(MODELS), st.sampled_from(HOLDERS)
HAPPENING = st.one_of(
    st.tuples(st.just("admit"), MODEL, HOLDER, st.booleans(), st.booleans()),
    st.tuples(st.just("release"), MODEL, HOLDER),
    st.tuples(st.just("record"), MODEL, VERDICTS),
    st.tuples(st.just("record"), MODEL, st.just(verdict.TRANSPORT)),
    st.tuples(st.just("advance"), st.sampled_from([0.1, 14.9, 15.0, 60.0, 119.0, 900.0, 3700.0])),
    st.tuples(st.just("reset"), MODEL),
    st.tuples(st.just("pass"), st.sampled_from([None, -60, 30, 7200, 400_000]), st.booleans()),
    st.tuples(st.just("blind")),
)


class Walk:
    """A board, and what the callers know about who was let in."""

    def __init__(self):
        self.clock = ManualClock()
        self.board = Board(self.clock, lambda: BreakerSettings(threshold=2, span=SPAN), lambda pid: pid, lambda: 0.99)

    def happen(self, what, *args):
        if what == "advance":
            self.clock.advance(*args)
        elif what == "admit":
            model, holder, alone, direct = args
            return self.board.admit("p", model, holder, alone=alone, direct=direct)
        elif what == "release":
            self.board.release("p", *args)
        elif what == "record":
            self.board.record("p", *args)
        elif what == "pass":
            self.read(*args)
        elif what == "blind":
            self.board.release_pins()
        else:
            self.board.reset("p", *args)

    def read(self, seconds, recovered):
        """A pass over the readings: spent for so many more seconds, else perhaps affirmatively not spent."""
        if seconds is None:
            self.board.take_advice({}, ["p"] if recovered else [])
            return
        source = Source.RESERVE if recovered else Source.ADVISOR
        self.board.take_advice({"p": Advice(self.clock.now() + timedelta(seconds=seconds), source)}, [])


@settings(max_examples=150, deadline=None)
@given(st.lists(HAPPENING, max_size=60))
def test_every_circuit_can_be_asked_again_once_its_wait_and_a_lease_have_passed(happenings):
    walk = Walk()
    for happening in happenings:
        walk.happen(*happening)
    walk.clock.advance(LONGEST + LEASE)
    walk.happen("pass", None, False)
    for model in MODELS:
        assert walk.board.gate("p", model).state == "free"
        assert walk.board.admit("p", model, "newcomer", alone=False)
        walk.board.record("p", model, verdict.success())
    assert walk.board.state_of("p") is State.CLOSED
    assert not walk.board.provider_open("p")


@settings(max_examples=150, deadline=None)
@given(st.lists(HAPPENING, max_size=60))
def test_a_lease_that_ends_lets_the_next_one_in_at_once(happenings):
    walk = Walk()
    for happening in happenings:
        walk.happen(*happening)
    walk.happen("pass", None, False)
    walk.happen("record", "m1", SPENT)  # whatever it was, it is open now
    walk.clock.advance(LONGEST + LEASE)
    assert walk.board.admit("p", "m1", "first", alone=False)
    assert not walk.board.admit("p", "m1", "second", alone=False)
    walk.board.release("p", "m1", "second")
    assert walk.board.gate("p", "m1").state == "leased"
    walk.board.release("p", "m1", "first")
    assert walk.board.admit("p", "m1", "third", alone=False)


@settings(max_examples=150, deadline=None)
@given(st.lists(HAPPENING, max_size=60))
def test_asking_and_reading_never_make_a_request_wait_or_fail(happenings):
    """Alone or direct is always admitted; a blocked pair always tells when it is over; the status adds up."""
    walk = Walk()
    for happening in happenings:
        answer = walk.happen(*happening)
        if happening[0] == "admit" and (happening[3] or happening[4]):
            assert answer is True
        for model in MODELS:
            gate = walk.board.gate("p", model)
            assert (gate.state == "blocked") == (gate.retry_at is not None)
            assert gate.retry_at is None or walk.clock.monotonic() < gate.retry_at
        counts = walk.board.status({"p": "p", "q": "q"}, True)
        for row in counts.pop("providers", []):
            assert walk.board.provider_open("p") == row["provider_open"] == skipped(row)
        assert sum(counts.values()) == 2


def skipped(row):
    """The provider-wide verdict, computed anew from what the status tells of each circuit."""
    dark = [circuit for circuit in row["circuits"] if circuit["state"] == "open"]
    return len(dark) >= SPAN or any(c.get("pin_source") in ("account", "advisor", "reserve") for c in dark)


@settings(max_examples=100, deadline=None)
@given(st.lists(HAPPENING, max_size=60))
def test_openings_and_closings_alternate(happenings):
    told = []
    leave = events.subscribe(told.append)
    walk = Walk()
    for happening in happenings:
        if happening[0] != "reset":
            walk.happen(*happening)
    leave()
    for model in (*MODELS, ACCOUNT):
        moves = [e.metadata for e in told if e.metadata["model"] == model and e.type != "circuit_breaker.unstable"]
        for before, after in pairwise(moves):
            assert (before["state"], after["state"]) != ("closed", "closed")
            if (before["state"], after["state"]) == ("open", "open"):
                assert after["failed_probes"] - before["failed_probes"] in (0, 1)
        assert not moves or moves[0]["state"] == "open"
