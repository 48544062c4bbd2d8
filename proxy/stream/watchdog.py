"""When a committed stream has been silent for too long (failover-loop 11.2). Pure; times are those of one clock."""

PATIENT_AFTER = 50
"""Chunks after which the window is longer (failover-loop 2)."""
PATIENCE = 3
"""Times the window then; also how long, in windows, a line may arrive at any rate."""
QUANTUM = 4 * 1024
"""Bytes of an unfinished line that count as activity."""
RATE_FLOOR = 64 * 1024
"""Bytes per second that a line which takes long must keep up on average."""


class Watchdog:
    """*window* is the silence allowed, in seconds; 0 = any.

    Activity is a finished line of any kind, and every QUANTUM bytes of a line still arriving as long as it is fast
    enough. One deadline is moved; nothing runs.
    """

    __slots__ = ("_active", "_base", "_counted", "_line_began", "_lines")

    def __init__(self, window: float, now: float, lines: int, pending: int) -> None:
        self._base = window
        self._lines = lines
        self._counted = pending  # bytes of the unfinished line that were activity
        self._active = self._line_began = now

    def window(self, chunks: int) -> float:
        """The silence allowed after *chunks* chunks."""
        return self._base * PATIENCE if chunks > PATIENT_AFTER else self._base

    def deadline(self, now: float, lines: int, pending: int, chunks: int) -> float:
        """The moment at which the stream has stalled, unless something arrives before.

        *lines* finished so far, *pending* bytes of the line that has begun, *chunks* seen so far.
        """
        if self._base <= 0:
            return float("inf")
        if lines != self._lines:
            self._lines, self._counted = lines, pending
            self._active = self._line_began = now
        elif pending - self._counted >= QUANTUM and self._fast_enough(now, pending):
            self._active, self._counted = now, pending
        return self._active + self.window(chunks)

    def _fast_enough(self, now: float, pending: int) -> bool:
        taken = now - self._line_began
        return taken < PATIENCE * self._base or pending >= RATE_FLOOR * taken
