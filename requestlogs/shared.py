"""Answers that several readers share for a few seconds, made once however many ask at the same time."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Slot(Generic[T]):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.until = float("-inf")
        self.value: T | None = None


class Shared(Generic[T]):
    """*seconds* an answer is good for; of *size* keys the ones used last are kept. *monotonic* is for tests."""

    def __init__(self, seconds: float, size: int = 200, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._size, self._monotonic = seconds, size, monotonic
        self._lock = threading.Lock()
        self._slots: OrderedDict[Hashable, _Slot[T]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The answer under *key*, from *make* where none is good any more. Raises what *make* raises."""
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > self._size:
                self._slots.popitem(last=False)
        with slot.lock:
            if slot.value is None or self._monotonic() >= slot.until:
                slot.value = make()
                slot.until = self._monotonic() + self._seconds
            return slot.value

    def forget(self) -> None:
        with self._lock:
            self._slots.clear()
