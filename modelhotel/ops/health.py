"""Whether this process may take traffic, and whether it lives (operations.md 13)."""

import asyncio
import logging
import threading
from collections.abc import Callable

from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.ops import database

#: A database that answers later than this does not answer.
PING_SECONDS = 1.0
#: How long a verdict is reused.
CACHE_SECONDS = 2.0
OK, DEGRADED, DRAINING = "OK", "DEGRADED", "DRAINING"
log = logging.getLogger("health")


class Pinger:
    """Asks the database on a connection and a thread of its own, so that a hanging one holds up nobody else."""

    def __init__(self) -> None:
        self._connection = database.apart("health")

    def __call__(self) -> None:
        """Raises what the database raises."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except Exception:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()


class Health:
    """*ping* is blocking and raises when the database does not answer."""

    def __init__(self, ping: Callable[[], None] | None = None, clock: Clock = SYSTEM) -> None:
        self._ping = ping
        self._clock = clock
        self._until = 0.0
        self._verdict = True
        self._asking: asyncio.Task[bool] | None = None
        self._busy = threading.Lock()
        self.ready = False
        self.draining = False

    async def readiness(self) -> str:
        if self.draining:
            return DRAINING
        if not self.ready:
            return DEGRADED
        if self._clock.monotonic() >= self._until:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.get_running_loop().create_task(self._ask())
            await asyncio.shield(self._asking)
        return OK if self._verdict else DEGRADED

    async def _ask(self) -> bool:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[bool] = loop.create_future()
        verdicts: list[bool] = []

        def settle() -> None:
            # The timer finds a verdict that came in time while the loop itself was late.
            if not answered.done():
                answered.set_result(bool(verdicts and verdicts[0]))

        def ask() -> None:
            try:
                if self._ping is None:
                    self._ping = Pinger()
                self._ping()
                verdicts.append(True)
            except Exception as problem:
                log.debug("health: ping failed", extra={"attrs": {"reason": type(problem).__name__}})
                verdicts.append(False)
            finally:
                self._busy.release()
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle)

        # A ping that hangs keeps its thread; no second one is started beside it.
        if self._busy.acquire(blocking=False):
            threading.Thread(target=ask, name="health", daemon=True).start()
            timer = loop.call_later(PING_SECONDS, settle)
            verdict = await answered
            timer.cancel()
        else:
            verdict = False
        if verdict != self._verdict:
            if verdict:
                log.info("health: the database answers again")
            else:
                log.error("health: the database does not answer")
        self._verdict = verdict
        self._until = self._clock.monotonic() + CACHE_SECONDS
        return verdict
