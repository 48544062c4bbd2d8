"""The in-flight windows of this process, and who waits for a slot in one (failover-loop 8).

:func:`windows` is the one of this process. The event loop alone takes and gives back slots, and between two of its
awaits nothing comes in between, so none of this holds a lock. Other threads may read :meth:`Windows.limits` and
:meth:`Windows.running` and drop providers.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from failover.window import Learning, Window
from modelhotel.core import catalogue, options
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.options import Options
from providers import cache
from providers.cache import ProviderRow

log = logging.getLogger("proxy")

#: Seconds after which a provider that other processes have filled is looked at again.
ASK_AGAIN = 1.0


class Waiter:
    """One request that waits; *woken* is set when a slot may be free, or the wait over."""

    __slots__ = ("providers", "woken")

    def __init__(self, providers: Sequence[ProviderRow]) -> None:
        self.providers = providers
        self.woken = asyncio.Event()


class Claims(Protocol):
    """Slots under operators' ceilings, counted over all processes (README decision 28). Asked by the event loop, so an
    answer takes 50 ms at most.
    """

    def claim(self, provider_id: str, held: int, ceiling: int) -> bool | None:
        """One more slot beside the *held* ones of this process; None = nobody can tell, each counts for itself."""

    def give_back(self, provider_id: str, held: int) -> None:
        """A slot was freed, *held* are left."""


class Windows:
    """*learning* is asked at the moment of each decision."""

    #: Where ceilings are shared between processes.
    claims: Claims | None = None

    def __init__(self, clock: Clock, learning: Callable[[], Learning]) -> None:
        self._clock = clock
        self._learning = learning
        self._loop: asyncio.AbstractEventLoop | None = None
        self._windows: dict[str, Window] = {}
        # In the order they came; empty almost always, and then nothing is looked up in it.
        self._waiting: dict[Window, dict[Waiter, None]] = {}

    # -- slots

    def take(self, provider: ProviderRow, learned: bool) -> Window | None:
        """A slot with *provider*, to be given back to :meth:`release` once; None when it is full.

        *learned*: False where the request was begun with the learner off, for which only the operator's ceiling holds.
        """
        window = self._windows.get(provider.id)
        if window is None:
            window = self._windows[provider.id] = Window(provider_id=provider.id)
        elif window.limit:
            self._review(window)
        if not window.enter(provider.max_in_flight, learned):
            return None
        if self.claims is None or provider.max_in_flight is None:
            return window
        return self._claimed(window, self.claims, provider.max_in_flight)

    def _claimed(self, window: Window, claims: Claims, ceiling: int) -> Window | None:
        """*window*, if all processes together are below the ceiling; else its slot is given back."""
        granted = claims.claim(window.provider_id, window.claimed, ceiling)
        if granted is None:
            return window
        if granted:
            window.claimed += 1
            return window
        window.leave()
        self._loop = asyncio.get_running_loop()
        if window.shut_until <= self._clock.monotonic():
            # Where nobody tells of a slot that was freed elsewhere, it is found by asking again.
            self._loop.call_later(ASK_AGAIN, self.freed, window.provider_id)
        window.shut_until = self._clock.monotonic() + ASK_AGAIN
        return None

    def freed(self, provider_id: str) -> None:
        """Another process may have given a slot back."""
        window = self._windows.get(provider_id)
        if window is not None:
            window.shut_until = 0.0
            if self._waiting:
                self._wake(window)

    def room(self, provider: ProviderRow, learned: bool) -> bool:
        """Whether :meth:`take` would give a slot now."""
        window = self._windows.get(provider.id)
        if window is None:
            return True
        self._review(window)
        if window.shut_until and window.shut_until > self._clock.monotonic():
            return False
        return window.room(provider.max_in_flight, learned=learned)

    def release(self, window: Window, clean: bool | None) -> None:
        """Give a slot back. *clean*: a 2xx that was read to its end as an answer; None says nothing of the provider."""
        window.leave()
        if window.claimed > window.inflight and self.claims is not None:
            window.claimed -= 1
            self.claims.give_back(window.provider_id, window.claimed)
        if window.limit and clean is not None:
            window.learn(clean, self._clock.monotonic(), self._learning())
        if self._waiting:
            self._wake(window)

    # -- what answers say

    def cut(self, provider_id: str, wait: float) -> None:
        """A request was refused as one too many, whose slot was given back; *wait* in seconds, as it was asked for."""
        window = self._windows.get(provider_id)
        if window is None:
            return
        window.cut(self._clock.monotonic(), wait)
        attrs = {"provider_id": provider_id, "limit": window.limit, "inflight": window.inflight}
        log.info("proxy: in-flight allowance cut on saturated 429", extra={"attrs": attrs})

    def cap(self, provider_id: str) -> None:
        """An answer said that nothing is left beside what runs now."""
        window = self._windows.get(provider_id)
        if window is None:
            return
        before = window.limit
        window.cap(self._clock.monotonic())
        if window.limit != before:
            attrs = {"provider_id": provider_id, "limit": window.limit, "inflight": window.inflight}
            log.info("proxy: in-flight allowance capped by remaining=0 header", extra={"attrs": attrs})

    # -- waiting

    @contextmanager
    def waiting(self, providers: Sequence[ProviderRow]) -> Iterator[Waiter]:
        """Wait for *providers*: each slot that frees wakes the one who waits longest.

        Whoever was woken looks for room again before it waits on: a request that came meanwhile may have taken it.
        """
        waiter = Waiter(providers)
        windows = [self._windows.setdefault(p.id, Window(provider_id=p.id)) for p in providers]
        for window in windows:
            self._waiting.setdefault(window, {})[waiter] = None
        try:
            yield waiter
        finally:
            for window in windows:
                queue = self._waiting.get(window, {})
                queue.pop(waiter, None)
                if not queue:
                    self._waiting.pop(window, None)
            # It may leave a slot behind that it was woken for, or room for more than one.
            for provider, window in zip(providers, windows, strict=True):
                if self._waiting and window.room(provider.max_in_flight):
                    self._wake(window)

    def _wake(self, window: Window) -> None:
        for waiter in self._waiting.get(window, ()):
            if not waiter.woken.is_set():
                waiter.woken.set()
                return

    def _review(self, window: Window) -> None:
        if window.review(self._clock.monotonic(), self._learning()) and self._waiting:
            self._wake(window)

    # -- from any thread

    def heard(self, provider_id: str) -> None:
        """Another process gave a slot back; of interest only where one was refused here."""
        loop, window = self._loop, self._windows.get(provider_id)
        if loop is not None and window is not None and window.shut_until and not loop.is_closed():
            loop.call_soon_threadsafe(self.freed, provider_id)

    def limits(self) -> dict[str, int]:
        """The learned limit of every provider that has one."""
        now, rules = self._clock.monotonic(), self._learning()
        learned = {pid: window.allowance(now, rules) for pid, window in self._windows.copy().items()}
        return {pid: limit for pid, limit in learned.items() if limit}

    def running(self) -> dict[str, int]:
        """The requests that are with each provider now."""
        return {pid: window.inflight for pid, window in self._windows.copy().items()}

    def forget(self, provider_id: str) -> None:
        """The provider is deleted; what is still with it gives its slots back to nobody."""
        self._windows.pop(provider_id, None)

    def keep_only(self, provider_ids: Collection[str]) -> None:
        """Forget every provider that is not among *provider_ids*."""
        for provider_id in self._windows.copy():
            if provider_id not in provider_ids:
                self.forget(provider_id)


def of_options(values: Options) -> Learning:
    return Learning(
        values[catalogue.INFLIGHT_LIMITER_ENABLED],
        values[catalogue.INFLIGHT_GROW_AFTER],
        values[catalogue.INFLIGHT_FORGET_AFTER],
    )


_learning = options.derived(of_options)
_windows = Windows(SYSTEM, lambda: _learning(options.current()))


def windows() -> Windows:
    return _windows


def _follow_catalogue(known: cache.Catalogue) -> None:
    # Also catches what ends late for a deleted provider, and deletions made by another process.
    _windows.keep_only(known.providers.keys())


cache.SNAPSHOT.listeners.append(_follow_catalogue)
