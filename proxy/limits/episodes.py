"""Throttling told once per episode: when somebody starts being refused, and when it is over (v1-api 4.2)."""

import logging
from collections.abc import Mapping

from modelhotel.core import durations

log = logging.getLogger("limits")


class Episode:
    """Of one identity; *who* is what the lines say of it. Times are monotonic seconds."""

    __slots__ = ("refused", "since", "who")

    def __init__(self, who: Mapping[str, str]) -> None:
        self.who = who
        self.refused = 0
        self.since = 0.0

    def refuse(self, now: float) -> None:
        self.refused += 1
        if self.refused == 1:
            self.since = now
            log.warning("limits: throttling", extra={"attrs": {**self.who}})

    def end(self, now: float) -> None:
        """Served without delay, or forgotten."""
        if self.refused:
            told = {"refused": self.refused, "duration": durations.short(max(round(now - self.since), 1))}
            log.info("limits: throttling ended", extra={"attrs": {**self.who, **told}})
            self.refused = 0
