"""The request log and the counters start empty."""

from dataclasses import replace

import pytest

from failover import breaker
from proxy import walk
from proxy.gone.retirement import Retirement
from proxy.metering import METER
from requestlogs.recorder import RECORDER


@pytest.fixture(autouse=True)
def _clean_counters(monkeypatch: pytest.MonkeyPatch):
    def clean():
        RECORDER._finished.clear()
        RECORDER._running.clear()
        RECORDER._rows.clear()
        METER.reset()
        breaker.reset_board()

    clean()
    # What follows from a refused model runs in a thread of its own, which would outlive the test.
    monkeypatch.setattr(walk, "TOOLS", replace(walk.TOOLS, retirement=Retirement(start=lambda work: None)))
    yield
    clean()
