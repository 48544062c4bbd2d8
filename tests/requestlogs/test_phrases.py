"""The daily line about wordings that providers no longer use."""

import logging
from datetime import timedelta

import pytest

from modelhotel.core.clock import SYSTEM, ManualClock
from requestlogs import phrases
from requestlogs.models import RequestLog

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
KNOWN = ("slow down", "overloaded", "insufficient_quota")


@pytest.fixture
def wall():
    return ManualClock(SYSTEM.now())


def row(wall, days, *matched):
    attempts = [{"attempt": n, "provider": "A", "phrase": phrase} for n, phrase in enumerate(matched)]
    RequestLog.objects.create(
        created_at=wall.now() - timedelta(days=days),
        request_hash="a" * 16,
        state="completed",
        endpoint_type="chat",
        model_id="m",
        attempts=[*attempts, {"attempt": len(attempts), "provider": "B"}] if matched else None,
    )


def test_what_matched_nothing_in_ninety_days_is_named_in_one_line(wall, caplog):
    """failover-loop 7.3"""
    caplog.set_level(logging.INFO, "phrases")
    row(wall, 91, "overloaded")
    row(wall, 89, "slow down")
    row(wall, 1)
    phrases.report(KNOWN, wall)
    (line,) = caplog.records
    assert (line.name, line.levelname) == ("phrases", "INFO")
    assert line.attrs == {"phrases": ["overloaded", "insufficient_quota"]}


def test_a_log_that_is_younger_says_nothing(wall, caplog):
    caplog.set_level(logging.INFO, "phrases")
    row(wall, 89, "slow down")
    phrases.report(KNOWN, wall)
    assert not caplog.records


def test_nothing_is_said_while_everything_is_still_in_use(wall, caplog):
    caplog.set_level(logging.INFO, "phrases")
    row(wall, 91)
    row(wall, 2, *KNOWN)
    phrases.report(KNOWN, wall)
    assert not caplog.records
