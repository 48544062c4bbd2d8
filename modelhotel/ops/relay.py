"""Messages between processes over Redis: events, and which tables changed.

Sending never blocks: messages wait in a bounded queue and two threads talk to Redis. Redis is only a helper here.
While it is away processes find changes by their own look at the versions, and what could not be sent is dropped.

Only who tells of changed tables waits, until every process that got the message has read them: an edit is in force
everywhere before it is answered. One that hangs is waited for :data:`PATIENCE`; it finds the change by itself.
"""

import itertools
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

import msgspec
import redis
from django.db import close_old_connections

from modelhotel.core import events

#: Messages that wait for Redis; the oldest go first.
QUEUE = 10_000
#: A message older than this is not worth sending any more (seconds).
STALE = 10.0
#: How long a change of tables waits for the others to be in force there (seconds).
PATIENCE = 1.0
#: One warning per this many seconds while Redis is away.
WARN_EVERY = 60.0
_RETRY = 0.5
_TIMEOUT = 2.0
#: The listener asks whether Redis is alive when nothing came for this long.
_IDLE = 5.0
log = logging.getLogger("relay")


class Message(msgspec.Struct, array_like=True):
    sender: str
    topic: str
    body: msgspec.Raw


class _Wait:
    """For those who got one message. They may answer before it is known how many they are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._others: int | None = None
        self._answered = 0
        self._over = threading.Event()

    def sent(self, others: int) -> None:
        with self._lock:
            self._others = others
            self._look()

    def answered(self) -> None:
        with self._lock:
            self._answered += 1
            self._look()

    def _look(self) -> None:
        if self._others is not None and self._answered >= self._others:
            self._over.set()

    def until_all(self, seconds: float) -> bool:
        return self._over.wait(seconds)


class Relay:
    """*behind* re-reads what may have been missed; it runs after every (re)connect, in the listener's thread."""

    def __init__(self, url: str, channel: str, behind: Callable[[], object]) -> None:
        self._url = url
        self._channel = channel
        self._behind = behind
        self._me = secrets.token_hex(8)
        self._queue: deque[tuple[float, bytes, _Wait | None]] = deque(maxlen=QUEUE)
        self._waits: dict[int, _Wait] = {}
        self._numbers = itertools.count()
        self._wake = threading.Event()
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._warned = float("-inf")
        self._lost = False
        self._on_connect: list[Callable[[], None]] = []
        self._inbound: events.Event | None = None
        self._leave: Callable[[], None] = lambda: None
        self._handlers: dict[str, Callable[[msgspec.Raw], None]] = {
            "event": self._event,
            "tables": self._tables,
            "read": self._read,
        }
        self.connected = threading.Event()

    # -- sending ------------------------------------------------------------------------------------------------------

    def send(self, topic: str, body: object) -> None:
        """To every other process. Never blocks, never raises for Redis' sake."""
        self._send(topic, body, None)

    def _send(self, topic: str, body: object, wait: _Wait | None) -> None:
        message = Message(self._me, topic, msgspec.Raw(msgspec.json.encode(body)))
        self._queue.append((time.monotonic(), msgspec.json.encode(message), wait))
        self._wake.set()

    def announce(self, tables: Iterable[str]) -> None:
        """Tell of changed *tables*, and wait until they are in force in the others; not for long, not without Redis."""
        number, wait = next(self._numbers), _Wait()
        self._waits[number] = wait
        try:
            self._send("tables", [self._me, number, list(tables)], wait)
            # A change made while a message is handled would wait for answers that nobody reads.
            if self.connected.is_set() and threading.current_thread() not in self._threads:
                wait.until_all(PATIENCE)
        finally:
            del self._waits[number]

    def on(self, topic: str, handle: Callable[[msgspec.Raw], None]) -> None:
        """*handle* is called in the listener's thread for what other processes send under *topic*."""
        self._handlers[topic] = handle

    def on_connect(self, work: Callable[[], None]) -> None:
        """*work* is called in the listener's thread after every (re)connect: messages may have been missed."""
        self._on_connect.append(work)

    def _forward(self, event: events.Event) -> None:
        # Identity, not the thread: a handler in the listener's thread may publish an event of its own.
        if event is not self._inbound:
            self.send("event", event)

    # -- receiving ----------------------------------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        try:
            message = msgspec.json.decode(data, type=Message)
            if message.sender != self._me and message.topic in self._handlers:
                self._handlers[message.topic](message.body)
        except Exception:
            log.exception("relay: message not understood")

    def _event(self, body: msgspec.Raw) -> None:
        self._inbound = msgspec.json.decode(body, type=events.Event)
        try:
            events.deliver(self._inbound)
        finally:
            self._inbound = None

    def _tables(self, body: msgspec.Raw) -> None:
        # Versions tell what is behind; the watcher may have seen it already.
        if self._revalidate():
            told_by, number, _ = msgspec.json.decode(body)
            self.send("read", [told_by, number])

    def _read(self, body: msgspec.Raw) -> None:
        told_by, number = msgspec.json.decode(body)
        wait = self._waits.get(number) if told_by == self._me else None
        if wait is not None:
            wait.answered()

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._leave = events.subscribe(self._forward)
        for work in (self._listen, self._send_all):
            thread = threading.Thread(target=work, name=f"relay{work.__name__}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Sends what waits (briefly), then ends both threads."""
        self._leave()
        self._stopping = True
        self._wake.set()
        for thread in self._threads:
            thread.join(_TIMEOUT + 1.0)

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(
            self._url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT, health_check_interval=0
        )

    def _away(self, problem: Exception) -> None:
        now = time.monotonic()
        if not self._stopping and now - self._warned >= WARN_EVERY:
            self._warned, self._lost = now, True
            log.warning(
                "relay: Redis does not answer, other processes see changes late",
                extra={"attrs": {"reason": type(problem).__name__, "waiting": len(self._queue)}},
            )

    def _listen(self) -> None:
        while not self._stopping:
            client = self._client()
            try:
                with client.pubsub() as pubsub:  # type: ignore[no-untyped-call]
                    pubsub.subscribe(self._channel)
                    self._listen_until_lost(pubsub)
            except (redis.RedisError, OSError) as problem:
                self.connected.clear()
                self._away(problem)
                self._pause(_RETRY)
            finally:
                client.close()
                close_old_connections()

    def _listen_until_lost(self, pubsub: "redis.client.PubSub") -> None:
        heard = time.monotonic()
        while not self._stopping:
            message = pubsub.get_message(timeout=_RETRY)
            if message is None:
                if time.monotonic() - heard > 2 * _IDLE:
                    raise redis.TimeoutError("no answer to a ping")
                if time.monotonic() - heard > _IDLE:
                    pubsub.ping()
                continue
            heard = time.monotonic()
            if message["type"] == "subscribe":
                if self._lost:
                    log.info("relay: Redis answers again")
                    self._lost = False
                self.connected.set()
                for work in self._on_connect:
                    work()
                self._revalidate()
            elif message["type"] == "message":
                self._receive(message["data"])
                close_old_connections()

    def _revalidate(self) -> bool:
        try:
            self._behind()
            return True
        except Exception as problem:  # the watcher repeats it within a second
            log.warning("relay: not revalidated", extra={"attrs": {"reason": type(problem).__name__}})
            return False

    def _send_all(self) -> None:
        client = self._client()
        while True:
            self._wake.wait(1.0)
            self._wake.clear()
            while self._queue:
                born, data, wait = self._queue[0]
                if time.monotonic() - born <= STALE:
                    try:
                        got = client.publish(self._channel, data)
                        if wait is not None:
                            wait.sent(got - 1)  # this process listens too
                    except (redis.RedisError, OSError) as problem:
                        self._away(problem)
                        if self._stopping:
                            break
                        self._pause(_RETRY)
                        continue
                # Only this thread takes from the left, but a full queue drops there too.
                if self._queue and self._queue[0][1] is data:
                    self._queue.popleft()
            if self._stopping:
                client.close()
                return

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._stopping and time.monotonic() < end:
            time.sleep(0.05)
