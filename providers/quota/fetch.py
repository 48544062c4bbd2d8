"""Asking providers for their quotas: a time limit each, and a small breaker that has nothing to do with circuits."""

import asyncio
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import as_completed
from dataclasses import replace
from typing import Any

from modelhotel.core import crypto
from modelhotel.core.clock import SYSTEM, Clock
from providers import control, sanitize
from providers.cache import ProviderRow
from providers.discovery.http import DiscoveryHttp
from providers.keyring import KEYRING, UNREADABLE
from providers.kinds.base import Header, Http, ListingError, QuotaReader
from providers.quota import shapes
from providers.quota.shapes import Paths
from providers.quota.store import KEY_REFUSED, NO_QUOTA, OK, Asked, Fetched, asked

log = logging.getLogger("quota")

#: One provider's whole fetch, repetitions included.
SECONDS = 30.0
#: Of one answer, which is stored in part; the longest known are of a few KiB.
LIMIT_BYTES = 1024 * 1024
#: Failed fetches in a row after which a provider is left alone for so long; then one is tried.
FAILURES, REST = 5, 300.0


#: A provider by its id, with what it is asked by: another key or address starts with a clean slate.
Account = tuple[str, Asked]


class Fuse:
    """Which accounts are left alone. Instants are monotonic."""

    def __init__(self) -> None:
        self._failed: dict[Account, tuple[int, float]] = {}

    def burnt(self, account: Account, now: float) -> bool:
        count, last = self._failed.get(account, (0, 0.0))
        return count >= FAILURES and now < last + REST

    def note(self, account: Account, failed: bool, now: float) -> None:
        if failed:
            self._failed[account] = self._failed.get(account, (0, 0.0))[0] + 1, now
        else:
            self._failed.pop(account, None)


class Seen:
    """Passes calls on, and notes which shape each answer had."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.shapes: list[Paths] = []

    async def get(self, url: str, headers: Iterable[Header]) -> Any:
        return self._noted(await self._http.get(url, headers))

    async def post(self, url: str, headers: Iterable[Header], body: Any) -> Any:
        return self._noted(await self._http.post(url, headers, body))

    def _noted(self, answer: Any) -> Any:
        self.shapes.append(shapes.paths(answer))
        return answer


class Fetcher:
    """*sleep* and *chance* serve the waits between attempts. Its state is touched on the control loop only."""

    def __init__(
        self,
        clock: Clock = SYSTEM,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._fuse = Fuse()
        self._refused: set[Account] = set()
        self._running: dict[Account, asyncio.Task[Fetched]] = {}
        self._halted = threading.Event()

    def each(self, rows: Iterable[ProviderRow]) -> Iterator[tuple[ProviderRow, Fetched]]:
        """Ask all of them at once; what they say in the order in which it comes, so that a slow one delays nobody but
        itself. Those left alone are missing. For any thread but the control loop's."""
        running = {control.LOOP.start(self.one(row)): row for row in rows}
        for done in as_completed(running):
            if (fetched := done.result()) is not None:
                yield running[done], fetched

    async def one(self, row: ProviderRow) -> Fetched | None:
        """Ask *row*, whose kind has a reader. None: it failed too often of late, or the process ends. Never raises.

        Who asks while another does is given the same answer, but not its shape: that counts once for each fetch. Who
        stops waiting does not end the call.
        """
        reader, account = row.kind.quota, (row.id, asked(row))
        if reader is None or self._halted.is_set() or self._fuse.burnt(account, self._clock.monotonic()):
            return None
        shared = self._running.get(account)
        if shared is None:
            task = self._running[account] = asyncio.create_task(self._one(row, reader))
            task.add_done_callback(lambda done: self._running.pop(account, None))
        try:
            return replace(await asyncio.shield(shared), shape=()) if shared else await asyncio.shield(task)
        except asyncio.CancelledError:
            if not self._halted.is_set():
                raise
            return None

    def resume(self) -> None:
        self._halted.clear()

    def halt(self) -> None:
        """Nobody is asked any more, and whoever waits is told at once; held against no provider. From any thread."""
        self._halted.set()
        if self._running:
            control.LOOP.start(self._cut())

    async def _cut(self) -> None:
        for task in list(self._running.values()):
            task.cancel()

    async def _one(self, row: ProviderRow, reader: QuotaReader) -> Fetched:
        fetched, account = replace(await self._ask(row, reader), account=asked(row)), (row.id, asked(row))
        self._fuse.note(account, bool(fetched.error), self._clock.monotonic())
        if fetched.error:
            log.warning("quota: poll fetch failed", extra={"attrs": {"error": fetched.error, "provider": row.name}})
        elif fetched.status != KEY_REFUSED:
            self._refused.discard(account)
        elif account not in self._refused:
            self._refused.add(account)
            log.warning("quota: provider refused its key", extra={"attrs": {"provider": row.name}})
        return fetched

    async def _ask(self, row: ProviderRow, reader: QuotaReader) -> Fetched:
        key = ""
        try:
            async with asyncio.timeout(SECONDS):
                key = await KEYRING.fetch(row)
                client = control.client()
                http = DiscoveryHttp(client, (key,), self._sleep, self._chance, scope="quota", limit=LIMIT_BYTES)
                payload = await reader.read(seen := Seen(http), row.base_url, key)
        except ListingError as problem:
            if problem.status in (401, 403):
                return Fetched(status=KEY_REFUSED)
            return Fetched(error=sanitize.clean(str(problem), sanitize.DISCOVERY_CHARACTERS, (key,)))
        except TimeoutError:
            return Fetched(error=f"no answer within {SECONDS:.0f} s")
        except crypto.DecryptError:
            return Fetched(error=UNREADABLE)
        except Exception as problem:
            log.exception("quota: payload not understood", extra={"attrs": {"provider": row.name}})
            return Fetched(error=f"the answer was not understood ({type(problem).__name__})")
        if payload is None:
            return Fetched(status=NO_QUOTA)
        return Fetched(payload, OK, shape=shapes.together(seen.shapes, reader.fleeting))


#: Of this process: whoever asks knows who is left alone, and whose key was warned about.
FETCHER = Fetcher()
