"""The control plane's own calls: discovery, type probes, model tests, quotas.

They run on one event loop in a thread of their own, so that a slow listing never costs the data plane a turn, a scan
goes on when whoever asked for it hangs up, and verbs can stay ordinary functions.
"""

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from providers.upstream import select
from providers.upstream.interface import Client, FaultKind, Request, UpstreamError

T = TypeVar("T")
Header = tuple[bytes, bytes]

MAX_REDIRECTS = 10
#: Never shown to another origin than the one they were meant for.
CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key", b"anthropic-version"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_JOIN_SECONDS = 2.0


class ControlLoop:
    """An event loop in a daemon thread, started at the first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._main, args=(loop,), name="control", daemon=True)
                self._thread.start()
            return self._loop

    @staticmethod
    def _main(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        # Whoever waits for a task in another thread is told, instead of waiting for ever.
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(select.aclose_all())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* there and wait for it here; not from an event loop. Raises what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self._running()).result()

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run *work* there without waiting; cancelling what this gives cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def stop(self) -> None:
        """End the loop and its thread; the next use starts a new one."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_JOIN_SECONDS)


LOOP = ControlLoop()
atexit.register(LOOP.stop)


def apart(work: Callable[[], None]) -> None:
    """Run *work* in a thread of its own that nobody waits for, not even the end of the process."""
    from modelhotel.core.threads import released  # the data plane imports this room before anything of Django's

    threading.Thread(target=released, args=(work,), name="control-apart", daemon=True).start()


def client() -> Client:
    """The control plane's client for the running loop."""
    return select.control_plane()


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. *body* is cut at the limit that was asked for (*cut* says so)."""

    status: int
    headers: tuple[Header, ...]
    body: bytes
    cut: bool = False

    def header(self, name: bytes) -> str:
        return next((value.decode("latin-1") for found, value in self.headers if found == name), "")


async def _once(http: Client, request: Request, deadline: float, limit: int) -> Answer:
    now = asyncio.get_running_loop().time()
    response = await http.send(request, deadline=deadline, header_timeout=max(deadline - now, 0.001))
    try:
        response.deadline(deadline)
        body, cut = await response.read(limit), False
    except UpstreamError as problem:
        if problem.kind is not FaultKind.TOO_LARGE:
            raise
        body, cut = bytes(getattr(problem, "partial", b""))[:limit], True
    finally:
        response.close()
    return Answer(response.status, tuple(response.headers), body, cut)


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def next_hop(request: Request, status: int, location: str) -> Request:
    """The request that a redirect asks for; pure. Raises UpstreamError when it may not be followed.

    Credentials are dropped when the origin changes, whether or not the new one is allow-listed.
    """
    try:
        target = urljoin(request.url, location)
        scheme, host, _ = _origin(target)
    except ValueError:
        scheme = host = target = ""
    if scheme not in ("http", "https") or not host or "@" in urlsplit(target).netloc:
        raise UpstreamError(FaultKind.FORBIDDEN, "refused to follow a redirect to something that is no http address")
    headers = list(request.headers)
    if _origin(target) != _origin(request.url):
        headers = [pair for pair in headers if pair[0].lower() not in CREDENTIALS]
    keep = status in (307, 308) or request.method in ("GET", "HEAD")
    return Request(request.method if keep else "GET", target.split("#")[0], headers, request.body if keep else b"")


async def exchange(
    http: Client,
    method: str,
    url: str,
    headers: Iterable[Header],
    body: bytes = b"",
    *,
    seconds: float,
    limit: int,
) -> Answer:
    """One call of at most *seconds*, its redirects followed. Each hop is dialled through the guard.

    Raises UpstreamError; FORBIDDEN also for a redirect that is refused.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    request = Request(method, url, list(headers), body)
    for _ in range(MAX_REDIRECTS + 1):
        answer = await _once(http, request, deadline, limit)
        location = answer.header(b"location")
        if answer.status not in _REDIRECTS or not location:
            return answer
        request = next_hop(request, answer.status, location)
    raise UpstreamError(FaultKind.FORBIDDEN, f"more than {MAX_REDIRECTS} redirects")
