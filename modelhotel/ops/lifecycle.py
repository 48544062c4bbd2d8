"""The life of one serving process: background work in order, readiness last; the way down in reverse."""

import gc
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import connections

from modelhotel.core import logqueue, snapshots
from modelhotel.core.environment import Environment
from modelhotel.ops import database
from modelhotel.ops.health import Health
from modelhotel.ops.nodes import Membership
from modelhotel.ops.startup import Console, prepare, stdout

#: Set by the supervisor in its workers: how many there are. Such a process finds the node prepared.
WORKERS = "MODELHOTEL_WORKERS"
#: Allocations before a collection, per generation. A request leaves no cycles behind, so looking rarely is enough.
GC_THRESHOLDS = (20_000, 50, 50)
#: Seconds that the last words to the database may take.
GOODBYE = 3.0
log = logging.getLogger("lifecycle")


@dataclass(frozen=True, slots=True)
class Service:
    """A piece of background work. *halt* ends its own activity early in a stop, *stop* ends it for good."""

    name: str
    start: Callable[[], object]
    stop: Callable[[], object]
    halt: Callable[[], object] | None = None


def _settle_memory() -> None:
    """What the start has built lives as long as the process: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class Lifecycle:
    """*services* makes the background work, in the order of its start, given the membership (None in a worker)."""

    def __init__(
        self,
        env: Environment,
        health: Health,
        services: Callable[[Membership | None], Sequence[Service]],
    ) -> None:
        self._env = env
        self._health = health
        self._make = services
        self._services: Sequence[Service] = ()
        self._lock = threading.Lock()
        self._started = False
        self.processes = int(os.environ.get(WORKERS, "0"))
        self.membership: Membership | None = None

    @property
    def draining(self) -> bool:
        return self._health.draining

    def prepare(self, console: Console | None = None) -> None:
        """The start sequence, unless the supervisor has done it. Raises StartRefused."""
        if not self.processes and self.membership is None:
            self.membership = prepare(self._env, console or Console(stdout))

    def start(self) -> None:
        """Blocking. Raises StartRefused."""
        with self._lock:
            if self._started:
                return
            self.prepare()
            database.use_pool(self._env, self.processes or 1)
            snapshots.refresh_all()
            self._services = self._make(self.membership)
            for service in self._services:
                service.start()
            logqueue.straighten()
            _settle_memory()
            self._started = self._health.ready = True
        log.info("lifecycle: ready")

    def drain(self) -> None:
        """Readiness turns negative. Touches nothing else, so a signal handler may call it."""
        self._health.draining = True

    def halt(self) -> None:
        """Background loops stop; what records the running requests goes on."""
        for service in reversed(self._services):
            if service.halt is not None:
                self._end(service, service.halt)

    def stop(self) -> None:
        """Everything ends, in the reverse order of the start. Blocking; a second call does nothing."""
        with self._lock:
            if not self._started:
                return
            self._started, self._health.ready = False, False
            self.drain()
            for service in reversed(self._services):
                self._end(service, service.stop)
            self._within(GOODBYE, "lease", self._leave)
            self._within(GOODBYE, "pool", database.close_pool)
        log.info("lifecycle: stopped")

    @staticmethod
    def _end(service: Service, end: Callable[[], object]) -> None:
        try:
            end()
        except Exception:
            log.exception("lifecycle: %s did not end well", service.name)

    def _leave(self) -> None:
        try:
            if self.membership is not None:
                self.membership.leave()
        except Exception as problem:  # without the database the row runs out by itself
            log.warning("lifecycle: lease not given back", extra={"attrs": {"reason": type(problem).__name__}})
        finally:
            connections.close_all()

    @staticmethod
    def _within(seconds: float, what: str, end: Callable[[], object]) -> None:
        """A database that is frozen would keep the process until its budget is used up."""
        thread = threading.Thread(target=end, name=what, daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            log.warning("lifecycle: the database does not answer", extra={"attrs": {"left_open": what}})
