"""The request log and the counters start empty."""

import pytest

from failover import breaker
from proxy.metering import METER
from requestlogs.recorder import RECORDER


@pytest.fixture(autouse=True)
def _clean_counters():
    def clean():
        RECORDER._finished.clear()
        RECORDER._running.clear()
        RECORDER._rows.clear()
        METER.reset()
        breaker.reset_board()

    clean()
    yield
    clean()
