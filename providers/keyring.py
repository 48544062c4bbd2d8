"""Decrypted provider keys, in memory for a limited time.

The cache key is the sealed value itself, so a replaced key can never serve its predecessor. Only success is kept.
A derivation costs milliseconds: it runs in threads of its own, once however many requests wait for it.
"""

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from modelhotel.core import catalogue, crypto, options
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.redact import known_keys
from providers import cache
from providers.cache import ProviderRow, SealedKey

log = logging.getLogger("keycache")

_WORKERS = 2
#: Seconds that an error text waits for the keys that are looked for in it.
_KNOWING = 1.0


def _option_ttl() -> float:
    return options.current()[catalogue.KEY_CACHE_TTL]


def _open(sealed: SealedKey) -> str:
    return crypto.open_sealed(sealed.ciphertext, sealed.nonce, sealed.salt)


def _later(seconds: float, run: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, run)
    timer.daemon = True
    timer.name = "keycache-sweep"
    timer.start()


#: What an operator is told of a key that can not be decrypted.
UNREADABLE = "failed to decrypt API key"


class Keyring:
    """*ttl* gives seconds and is asked at each insert; *later* runs a callable after some seconds (the sweep)."""

    def __init__(
        self,
        clock: Clock = SYSTEM,
        ttl: Callable[[], float] = _option_ttl,
        derive: Callable[[SealedKey], str] = _open,
        later: Callable[[float, Callable[[], None]], None] = _later,
    ) -> None:
        self._clock = clock
        self._read_ttl = ttl
        self._derive = derive
        self._later = later
        self._ttl = 600.0
        self._lock = threading.Lock()
        self._kept: dict[SealedKey, tuple[str, float]] = {}
        self._running: dict[SealedKey, Future[str]] = {}
        self._known: tuple[str, ...] = ()
        self._broken: set[SealedKey] = set()  # not to be tried again only to look for them
        self._made: tuple[object, dict[str, Any]] = (None, {})
        self._sweeping = False
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="keycache")

    def peek(self, row: ProviderRow) -> str | None:
        """The key without waiting: ``""`` for a keyless provider, None when it is not in memory."""
        held = self.held(row)
        return None if held is None else held[0]

    def held(self, row: ProviderRow) -> tuple[str, float] | None:
        """The same with the monotonic instant until which the key may stay in memory."""
        if row.sealed is None:
            return "", math.inf
        kept = self._kept.get(row.sealed)
        return kept if kept is not None and kept[1] > self._clock.monotonic() else None

    def made_for(self, owner: object) -> dict[str, Any]:
        """Where *owner* keeps what it made of keys in memory; empty again once one of them is forgotten or renewed.

        One owner at a time: another one's things go.
        """
        made = self._made
        if made[0] is not owner:
            made = self._made = owner, {}
        return made[1]

    def state(self, row: ProviderRow) -> str:
        """``none`` (keyless), ``damaged`` (no master key opens it), ``unreadable`` (the last try to decrypt it failed)
        or ``ok``; costs no derivation.

        Every enabled provider's key is tried at the start of a process, and any key at its first use.
        """
        if row.sealed is None:
            return "none"
        if crypto.damaged(row.sealed.ciphertext, row.sealed.nonce, row.sealed.salt):
            return "damaged"
        return "unreadable" if row.sealed in self._broken and self.peek(row) is None else "ok"

    async def fetch(self, row: ProviderRow) -> str:
        """The key, derived off the loop when needed. Raises crypto.DecryptError."""
        plain = self.peek(row)
        if plain is not None or row.sealed is None:
            return plain or ""
        # Shielded: one waiter that hangs up must not take the derivation from the others.
        return await asyncio.shield(asyncio.wrap_future(self._start(row.sealed)))

    def wait(self, row: ProviderRow) -> str:
        """``fetch`` for a thread. Raises crypto.DecryptError."""
        plain = self.peek(row)
        if plain is not None or row.sealed is None:
            return plain or ""
        return self._start(row.sealed).result()

    def known(self) -> tuple[str, ...]:
        """Every key in memory, longest first: what error texts are searched for."""
        return self._known

    async def know_all(self) -> None:
        """Derive every key that is not in memory, those of disabled providers too, so that :meth:`known` has them.

        Takes at most ``_KNOWING`` seconds; what takes longer, or can not be decrypted, is not waited for.
        """
        rows = cache.SNAPSHOT.current.providers.values()
        cold = [row.sealed for row in rows if row.sealed is not None and self.peek(row) is None]
        running = [asyncio.wrap_future(self._start(sealed)) for sealed in cold if sealed not in self._broken]
        for future in running:
            future.add_done_callback(_seen)
        if running:
            await asyncio.wait(running, timeout=_KNOWING)

    def warm(self, rows: Iterable[ProviderRow] | None = None) -> list["Future[str]"]:
        """Start deriving the keys of *rows* (default: every enabled provider); a failure is one error line each."""
        chosen = cache.SNAPSHOT.current.providers.values() if rows is None else rows
        started: list[Future[str]] = []
        for row in chosen:
            if row.enabled and row.sealed is not None and self.peek(row) is None:
                future = self._start(row.sealed)
                future.add_done_callback(lambda done, name=row.name: _report(done, name))  # type: ignore[misc]
                started.append(future)
        return started

    def sweep(self) -> None:
        """Forget what has expired."""
        now = self._clock.monotonic()
        with self._lock:
            self._kept = {sealed: kept for sealed, kept in self._kept.items() if kept[1] > now}
            self._known = known_keys(plain for plain, _ in self._kept.values())
            self._made = (None, {})
            self._sweeping = bool(self._kept)
        if self._sweeping:
            self._later(self._ttl, self.sweep)

    def reset(self) -> None:
        """Forget everything (tests, another master key)."""
        with self._lock:
            self._kept, self._running, self._known, self._broken = {}, {}, (), set()
            self._made = (None, {})

    def _start(self, sealed: SealedKey) -> "Future[str]":
        with self._lock:
            running = self._running.get(sealed)
            if running is None:
                running = self._running[sealed] = self._pool.submit(self._work, sealed)
            return running

    def _work(self, sealed: SealedKey) -> str:
        try:
            plain = self._derive(sealed)
            self._keep(sealed, plain)
            return plain
        except Exception:
            self._broken.add(sealed)
            raise
        finally:
            with self._lock:
                self._running.pop(sealed, None)

    def _keep(self, sealed: SealedKey, plain: str) -> None:
        ttl = self._read_ttl()
        if ttl > 0:
            self._ttl = ttl
        with self._lock:
            self._kept[sealed] = (plain, self._clock.monotonic() + self._ttl)
            self._known = known_keys(text for text, _ in self._kept.values())
            self._made = (None, {})
            first, self._sweeping = not self._sweeping, True
        if first:
            self._later(self._ttl, self.sweep)


def _seen(done: "asyncio.Future[str]") -> None:
    if not done.cancelled():
        done.exception()


def _report(done: "Future[str]", name: str) -> None:
    if not done.cancelled() and done.exception() is not None:
        log.error("keycache: decryption failed, possible wrong master key", extra={"attrs": {"provider": name}})


KEYRING = Keyring()
