"""Which answers earn a candidate a second question, and when (failover-loop 6.2, 6.4)."""

import pytest

from failover.ratelimit import RateClass, Reading
from modelhotel.core import options
from proxy import policy
from proxy.repeats import Repeat, Repeats, Why
from proxy.terminal import Failure

ROOM = 100.0


def rules(**stored):
    return policy.of(options.REGISTRY.values(stored, {}))


def half():
    return 0.5


def saturated(wait, stated=None):
    reading = Reading(RateClass.SATURATED, retry_after=wait, stated=wait if stated is None else stated)
    return Failure("provider_saturated", status=429, http=True, reading=reading)


def unknown(stated=0.0):
    return Failure("provider_error", status=429, http=True, reading=Reading(RateClass.UNKNOWN, stated=stated))


def exhausted():
    return Failure("provider_quota_exhausted", status=429, http=True, reading=Reading(RateClass.EXHAUSTED, pin_hint=3))


def error(status, **more):
    return Failure("provider_error", status=status, http=True, **more)


def first(failure, last=True, room=ROOM, **stored):
    return Repeats().next(failure, rules(**stored), last=last, room=room, chance=half)


def test_the_last_candidate_waits_for_a_slot_as_long_as_it_was_told():
    assert first(saturated(7.0)) == Repeat(Why.BUSY, 7.0)
    assert first(saturated(2.0, stated=0)) == Repeat(Why.BUSY, 2.0)
    assert first(saturated(2.0, stated=0), rate_limit_saturation_max_wait="1s") == Repeat(Why.BUSY, 1.0)


def test_a_wait_that_does_not_fit_is_not_begun():
    """part of failover-loop 57"""
    assert first(saturated(60.0), room=20.0) == Repeat(Why.NO_TIME, 60.0)
    assert first(saturated(20.0), room=20.0) == Repeat(Why.NO_TIME, 20.0)
    assert first(saturated(19.9), room=20.0) == Repeat(Why.BUSY, 19.9)


@pytest.mark.parametrize(
    "failure",
    [
        exhausted(),
        unknown(),
        unknown(stated=2.0),
        error(501),
        error(522),
        error(401),
        error(503, moves_on=False),
        Failure("provider_error", status=503, http=False),  # carried by the first event of a stream
        Failure("provider_timeout"),
    ],
)
def test_nothing_else_is_repeated_by_default(failure):
    assert first(failure) is None


@pytest.mark.parametrize("failure", [saturated(1.0), error(503)])
def test_a_candidate_with_others_behind_it_is_not_asked_twice_by_default(failure):
    assert first(failure, last=False) is None


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_the_last_candidate_repeats_a_transient_5xx_while_there_is_room(status):
    assert first(error(status)) == Repeat(Why.SERVER_ERROR, 0.75)
    assert first(error(status), room=1.1) == Repeat(Why.SERVER_ERROR, 0.75)
    assert first(error(status), room=1.0) is None
    assert first(error(status), server_error_retry_enabled="false") is None


def test_each_kind_is_repeated_once_and_the_kinds_chain():
    left, given = Repeats(), rules()

    def next_(failure):
        found = left.next(failure, given, last=True, room=ROOM, chance=half)
        return found.why if found else None

    assert [next_(one) for one in (error(503), saturated(1), error(503), saturated(1))] == [
        Why.SERVER_ERROR,
        Why.BUSY,
        None,
        None,
    ]


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    ("failure", "wait"),
    [
        (saturated(2.0), 2.0),
        (saturated(3.0), 3.0),
        (unknown(stated=2.0), 2.0),  # while classification is off
        (saturated(0.02), 0.02),
    ],
)
def test_a_short_stated_wait_is_waited_out_in_place_where_the_setting_says_so(failure, wait, last):
    """part of failover-loop 105"""
    assert first(failure, last=last, rate_limit_wait_in_place="3s") == Repeat(Why.BUSY_IN_PLACE, wait)


@pytest.mark.parametrize("failure", [saturated(4.0), saturated(2.0, stated=0), unknown(), exhausted()])
def test_a_longer_or_unstated_wait_is_not(failure):
    """part of failover-loop 105"""
    assert first(failure, last=False, rate_limit_wait_in_place="3s") is None


def test_a_wait_in_place_that_does_not_fit_is_not_begun():
    assert first(saturated(2.0), last=False, room=2.0, rate_limit_wait_in_place="3s") is None
    assert first(saturated(2.0), room=2.0, rate_limit_wait_in_place="3s") == Repeat(Why.NO_TIME, 2.0)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_5xx_is_repeated_in_place_where_the_setting_says_so(status, last):
    """part of failover-loop 106"""
    given = {"server_error_retry_in_place": "true", "server_error_retry_enabled": "false"}
    assert first(error(status), last=last, **given) == Repeat(Why.SERVER_ERROR_IN_PLACE, pytest.approx(0.15))
    assert first(error(status), last=last, room=0.15, **given) is None


def test_a_504_or_a_522_is_not_repeated_in_place():
    given = {"server_error_retry_in_place": "true"}
    assert first(error(504), last=False, **given) is None
    assert first(error(504), **given) == Repeat(Why.SERVER_ERROR, 0.75)
    assert first(error(522), **given) is None


def test_in_place_is_the_last_candidates_one_shot():
    """part of failover-loop 106"""
    left, given = Repeats(), rules(server_error_retry_in_place="true", rate_limit_wait_in_place="3s")
    found = [left.next(one, given, last=True, room=ROOM, chance=half) for one in (error(500), error(500), saturated(1))]
    assert [one.why if one else None for one in found] == [Why.SERVER_ERROR_IN_PLACE, None, Why.BUSY_IN_PLACE]
    assert left.next(saturated(1), given, last=True, room=ROOM, chance=half) is None
