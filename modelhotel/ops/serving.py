"""uvicorn as ``manage.py serve`` runs it: a stop that drains, exit code 0, and a second signal that ends at once."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from types import FrameType
from typing import Protocol

import uvicorn

from modelhotel.ops.front import Front, idle
from modelhotel.ops.protocol import Connection

#: Budgets of a stop in seconds (operations.md 13).
DRAIN = 10.0
STREAMS = 8.0
#: Everything after the drain: joining background work, audit, app log.
BUDGET = 65.0
SECOND_SIGNAL = 130
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
log = logging.getLogger("serve")


def bind(host: str, port: int, uds: str | None) -> socket.socket:
    """Bound, not yet listening: an address in use is known before anything is started. Raises OSError."""
    if uds:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(uds)
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(uds)
        return unix
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, proto, _, address = found[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def address(sock: socket.socket) -> str:
    """What to type into a browser; a wildcard address is shown as this machine's own."""
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}"


class Life(Protocol):
    """What a stop does to the process besides its requests (``ops/lifecycle.py``)."""

    def drain(self) -> None:
        """Readiness turns negative; called by the signal handler."""

    def halt(self) -> None:
        """Background loops stop. Blocking."""


class Server(uvicorn.Server):
    """*interrupt_streams* gives streams that are still open their terminal frame."""

    def __init__(
        self, front: Front, lifecycle: Life, interrupt_streams: Callable[[], object], budget: float = BUDGET
    ) -> None:
        super().__init__(
            uvicorn.Config(
                front,
                loop="uvloop",
                http=Connection,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=1,
                timeout_keep_alive=75,
            )
        )
        self._front = front
        self._lifecycle = lifecycle
        self._interrupt = interrupt_streams
        self._budget = budget

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        # uvicorn raises the signal again after the shutdown, which turns a clean stop into exit code 143.
        previous = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(SECOND_SIGNAL)
        self._lifecycle.drain()
        self.should_exit = True
        # Whatever hangs after this (a thread that never ends, a query), the process does not outlive its budget.
        last = threading.Timer(self._budget, os._exit, (1,))
        last.daemon = True
        last.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._drain()
        await super().shutdown(sockets)

    async def _drain(self) -> None:
        """New requests are answered 503 while the running ones end; then what is left is cut, streams properly."""
        front = self._front
        log.info("serve: stopping", extra={"attrs": {"requests": len(front.running), "streams": len(front.events)}})
        await asyncio.to_thread(self._lifecycle.halt)
        front.events.end_all()
        front.refusing = True
        if await idle(lambda: len(front.running), STREAMS, asyncio.sleep):
            return
        self._interrupt()
        if await idle(lambda: len(front.running), DRAIN - STREAMS, asyncio.sleep):
            return
        log.warning("serve: requests cut off", extra={"attrs": {"requests": len(front.running)}})
        for task in list(front.running):
            task.cancel()


def run(server: Server, sock: socket.socket) -> None:
    """Serve until a signal; returns after a clean stop. Raises SystemExit when the start fails."""
    sys.stdout.flush()
    server.run(sockets=[sock])
