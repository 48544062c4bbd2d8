"""The quota figures of a scrape. They come from the database, which a scrape does not wait for."""

import logging
import threading
import time
from datetime import UTC, datetime

from modelhotel.core import metrics
from modelhotel.core.metrics import UNKNOWN
from modelhotel.core.threads import released
from modelhotel.ops.gauges import Values
from providers.quota import store, view

log = logging.getLogger("metrics")

#: What reading may take; a scrape without an answer by then goes without these series.
SECONDS = 3.0


def of(readings: list[store.Reading], now: datetime) -> Values:
    """The series of the enabled providers whose last answer was a reading. Pure."""
    used: dict[tuple[str, ...], float] = {}
    resets: dict[tuple[str, ...], float] = {}
    for reading in readings:
        if not reading.enabled or reading.http_status != store.OK:
            continue
        for name, ratio, at in view.measured(reading.provider_type, reading.payload, now):
            labels = (reading.provider_id, reading.name or UNKNOWN, name)
            if ratio is not None:
                used[labels] = ratio
            if at is not None:
                resets[labels] = at
    return {metrics.QUOTA_USED.name: used, metrics.QUOTA_RESETS.name: resets}


class Reader:
    """Reads in a thread of its own, one at a time: what hangs in the database holds up no scrape for longer than
    *seconds*, and not the next one for a second time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running: _Run | None = None

    def read(self) -> Values:
        """Empty when the database did not answer in time, or failed."""
        with self._lock:
            if self._running is None or self._running.done.is_set():
                self._running = _Run()
            run = self._running
        if not run.done.wait(max(run.started + self._seconds - time.monotonic(), 0.0)):
            log.warning("metrics: quota figures left out, the database does not answer")
            return {}
        return run.values


class _Run:
    def __init__(self) -> None:
        self.values: Values = {}
        self.started = time.monotonic()
        self.done = threading.Event()
        threading.Thread(target=self._main, name="quota-metrics", daemon=True).start()

    def _main(self) -> None:
        try:
            self.values = released(lambda: of(store.readings(), datetime.now(UTC)))
        except Exception as problem:
            attrs = {"error": type(problem).__name__}
            log.warning("metrics: quota figures left out", extra={"attrs": attrs})
        finally:
            self.done.set()


READER = Reader()
