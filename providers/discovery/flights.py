"""One scan per provider at a time, and answers in the order they come."""

import queue
import threading
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, TypeVar

from providers import control

T = TypeVar("T")


class Landing(Generic[T]):
    """Where the result of a claimed scan is put."""

    result: T | None = None


class Flights(Generic[T]):
    """The scans that run: whoever asks for a running one waits for its result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, Future[T]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def claim(self, provider_id: str) -> tuple["Future[T]", bool]:
        """The running scan of this provider, or a new one that the caller has to land."""
        with self._lock:
            running = self._running.get(provider_id)
            if running is not None:
                return running, False
            fresh: Future[T] = Future()
            self._running[provider_id] = fresh
            return fresh, True

    @contextmanager
    def landing(self, provider_id: str) -> "Iterator[Landing[T]]":
        """End a claimed scan whatever happens, so that nobody waits for ever and the next one can start.

        An error of the body reaches those who wait, not the caller.
        """
        landing: Landing[T] = Landing()
        problem: BaseException | None = None
        try:
            yield landing
        except Exception as raised:
            problem = raised
        finally:
            with self._lock:
                flight = self._running.pop(provider_id)
            if problem is not None or landing.result is None:
                flight.set_exception(problem or RuntimeError("the scan gave no result"))
            else:
                flight.set_result(landing.result)


class Claims(Generic[T]):
    """The scans of several providers: *own* are to be landed by whoever claimed them, *others* run already."""

    def __init__(self, flights: Flights[T], provider_ids: Iterable[str]) -> None:
        self._flights = flights
        self.own: dict[str, Future[T]] = {}
        self.others: dict[str, Future[T]] = {}
        for provider_id in provider_ids:
            flight, mine = flights.claim(provider_id)
            (self.own if mine else self.others)[provider_id] = flight

    def __enter__(self) -> "Claims[T]":
        return self

    def __exit__(self, *problem: object) -> None:
        """What was not landed can be scanned again."""
        for provider_id in list(self.own):
            with self.landing(provider_id):
                pass

    def landing(self, provider_id: str) -> "AbstractContextManager[Landing[T]]":
        """:meth:`Flights.landing`; the result, rows and all, is kept here no longer."""
        del self.own[provider_id]
        return self._flights.landing(provider_id)


class Inbox(Generic[T]):
    """Coroutines on the control loop whose answers one thread takes as they come. Only :meth:`cancel` is for others."""

    def __init__(self) -> None:
        self._done: queue.SimpleQueue[tuple[str, Future[T]]] = queue.SimpleQueue()
        self._open: dict[str, Future[T]] = {}
        self._cancelled = False

    def ask(self, name: str, work: Coroutine[Any, Any, T]) -> None:
        """Start *work*, which must not raise, under a *name* that is not open."""
        future: Future[T] = Future()
        if self._cancelled:
            work.close()
            future.cancel()
        else:
            future = control.LOOP.start(work)
        self._open[name] = future
        # A callback, not the end of the coroutine: one that is cancelled before its first step never gets there.
        future.add_done_callback(lambda done: self._done.put((name, done)))
        if self._cancelled:
            future.cancel()

    @property
    def waiting(self) -> bool:
        return bool(self._open)

    def take(self) -> tuple[str, T | None]:
        """The next answer and whose it is; None: it was cut off. Blocks."""
        name, done = self._done.get()
        del self._open[name]
        return name, None if done.cancelled() else done.result()

    def cancel(self) -> None:
        """Cut off what is asked, now and later. From any thread."""
        self._cancelled = True
        for future in list(self._open.values()):
            future.cancel()
