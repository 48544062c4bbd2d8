"""The watcher: a thread that looks twice a second whether something was written elsewhere.

It is what makes an edit by a management command, or by another node whose message got lost, effective here.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from django.db import DatabaseError, InterfaceError, connection

#: Seconds between two looks; an edit must be in force everywhere within a second.
EVERY = 0.5
WARN_EVERY = 60.0
log = logging.getLogger("watch")


class Watcher:
    """Calls every one of *looks* (they read the database) every EVERY seconds until stopped."""

    def __init__(self, looks: Sequence[Callable[[], object]], every: float = EVERY) -> None:
        self._looks = looks
        self._every = every
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._warned = float("-inf")

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            for look in self._looks:
                self.look(look)
        connection.close()

    def look(self, look: Callable[[], object]) -> None:
        """One look; a failure is warned about once a minute and costs nothing else."""
        try:
            look()
        except Exception as problem:
            if isinstance(problem, DatabaseError | InterfaceError):
                connection.close()  # else a connection that broke stays broken in this thread
            if time.monotonic() - self._warned >= WARN_EVERY:
                self._warned = time.monotonic()
                reason = {"attrs": {"reason": type(problem).__name__}}
                log.warning("watch: the database can not be looked at", extra=reason)
