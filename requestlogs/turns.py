"""How readers wait for a writer thread: each asks for a turn that begins after its question, and waits for its end."""

import threading
import time


class Turns:
    """*wake* is what the writer sleeps on. ``wait`` is for readers, ``asked`` and ``done`` are the writer's."""

    def __init__(self) -> None:
        self.wake = threading.Event()
        self._ended = threading.Condition()
        self._asked = self._done = 0

    def wait(self, timeout: float) -> bool:
        """Ask for a turn and wait for one that ends well; False when none did within *timeout* seconds."""
        deadline = time.monotonic() + timeout
        with self._ended:
            self._asked += 1
            ticket = self._asked
            self.wake.set()
            while self._done < ticket:
                if not self._ended.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    return False
        return True

    def asked(self) -> tuple[int, bool]:
        """A turn begins: (what it will have done for, whether somebody waits for it)."""
        with self._ended:
            return self._asked, self._asked > self._done

    def done(self, asked: int) -> None:
        """The turn that began with *asked* ended well."""
        with self._ended:
            self._done = max(self._done, asked)
            self._ended.notify_all()
