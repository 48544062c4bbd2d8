"""The event bus: facts for dashboards, alerts and other processes.

Publishing never blocks and never raises. Subscribers are plain callables run in the publisher's thread, so they must
only hand the event over (to a loop, a queue). The last :data:`KEEP` events of the last :data:`KEEP_SECONDS` are kept
for replay by ``Last-Event-ID``.
"""

import itertools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

log = logging.getLogger("events")

Severity = Literal["info", "success", "warning", "error"]
KEEP = 500
KEEP_SECONDS = 300.0
_MESSAGE_BYTES = 200


class Event(msgspec.Struct, frozen=True):
    """*id* grows within the installation; *timestamp* is RFC 3339 UTC with milliseconds."""

    id: str
    type: str
    severity: Severity
    source: str
    message: str
    metadata: Mapping[str, object]
    timestamp: str

    def json(self) -> bytes:
        """One line; ``metadata`` left out when empty."""
        data: dict[str, object] = {
            "id": self.id,
            "type": self.type,
            "severity": self.severity,
            "source": self.source,
            "message": self.message,
        }
        if self.metadata:
            data["metadata"] = self.metadata
        data["timestamp"] = self.timestamp
        return msgspec.json.encode(data)


Subscriber = Callable[[Event], None]
#: type, severity, source, message, metadata: the arguments of :func:`publish`.
Description = tuple[str, Severity, str, str, Mapping[str, object]]
#: An event nobody has asked for yet: wall time in seconds, serial number, what describes it, the facts.
_Unsaid = tuple[float, int, Callable[..., Description], tuple[object, ...]]

_node = os.urandom(2).hex()
_serial = itertools.count()
_lock = threading.Lock()
_subscribers: tuple[Subscriber, ...] = ()
_second: tuple[int, str] = (0, "")
_kept: deque[tuple[float, Event | _Unsaid]] = deque(maxlen=KEEP)


def _stamp(now: float) -> str:
    global _second
    # One text per second: two events per request make this a hot path.
    second, text = _second
    if second != int(now):
        second, text = int(now), time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        _second = (second, text)
    return f"{text}.{int(now * 1000) % 1000:03d}Z"


def publish(
    type: str,
    severity: Severity,
    source: str,
    message: str,
    metadata: Mapping[str, object] | None = None,
    *,
    at: float | None = None,
) -> Event:
    """Make an event and hand it to everyone. *at* is the wall time of the fact in seconds (default: now)."""
    event = _made(
        type, severity, source, message, metadata or {}, clock=time.time(), serial=next(_serial) % 1_000_000, at=at
    )
    deliver(event)
    return event


def publish_lazily(describe: Callable[..., Description], *facts: object) -> None:
    """For the hot path: the event that *describe* makes of *facts* is made only when somebody gets to see it.

    *facts* must not change afterwards.
    """
    if _subscribers:
        publish(*describe(*facts))
        return
    # Without the lock: appending is atomic, and so is the copy that ``since`` takes.
    _kept.append((time.monotonic(), (time.time(), next(_serial) % 1_000_000, describe, facts)))


def _said(clock: float, serial: int, describe: Callable[..., Description], facts: tuple[object, ...]) -> Event:
    return _made(*describe(*facts), clock=clock, serial=serial, at=None)


def _made(
    type: str,
    severity: Severity,
    source: str,
    message: str,
    metadata: Mapping[str, object],
    *,
    clock: float,
    serial: int,
    at: float | None,
) -> Event:
    if len(message) * 4 > _MESSAGE_BYTES and type.startswith("request.") and len(message.encode()) > _MESSAGE_BYTES:
        message = message.encode()[:_MESSAGE_BYTES].decode(errors="ignore") + "…"
    stamp = _stamp(clock if at is None else at)
    return Event(f"{int(clock * 1000):013d}-{serial:06d}-{_node}", type, severity, source, message, metadata, stamp)


def deliver(event: Event) -> None:
    """Hand over an event that exists already (one that came from another process)."""
    with _lock:
        _kept.append((time.monotonic(), event))
        receivers = _subscribers
    for receive in receivers:
        try:
            receive(event)
        except Exception:
            log.exception("events: subscriber failed", extra={"attrs": {"type": event.type}})


def subscribe(receive: Subscriber) -> Callable[[], None]:
    """Start receiving; the returned callable ends it (more than once is fine)."""
    global _subscribers
    with _lock:
        _subscribers = (*_subscribers, receive)

    def leave() -> None:
        global _subscribers
        with _lock:
            _subscribers = tuple(s for s in _subscribers if s is not receive)

    return leave


def since(last_id: str) -> list[Event] | None:
    """The kept events after *last_id* in order; None when that id is unknown or too old."""
    oldest = time.monotonic() - KEEP_SECONDS
    events = [event if isinstance(event, Event) else _said(*event) for at, event in tuple(_kept) if at >= oldest]
    for at, event in enumerate(events):
        if event.id == last_id:
            return events[at + 1 :]
    return None


def reset() -> None:
    """Forget subscribers and kept events (tests)."""
    global _subscribers
    with _lock:
        _subscribers = ()
        _kept.clear()
