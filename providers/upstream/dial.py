"""From a host name to a connected socket: checked addresses only, happy eyeballs, errors mapped once."""

import asyncio
import errno
import functools
import socket
import ssl
from collections.abc import Sequence

from providers.upstream.interface import Address, FaultKind, UpstreamError

STAGGER = 0.25  # seconds before the next address is tried too (RFC 8305, section 8)


@functools.cache
def tls_context() -> ssl.SSLContext:
    """One context for the process: loading the CA bundle takes tens of milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class SystemResolver:
    """Whatever the resolver of the machine says, unchecked; only for an operator's own proxy, and for tests."""

    async def resolve(self, host: str, port: int) -> list[Address]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as problem:
            raise UpstreamError(FaultKind.DNS, f"{host}: name not resolved") from problem
        return [(int(family), address) for family, _, _, _, address in found]


def interleave(addresses: Sequence[Address]) -> list[Address]:
    """Families take turns, the first one given begins (RFC 8305, section 4)."""
    families: dict[int, list[Address]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    lanes = list(families.values())
    return [lane[i] for i in range(max(map(len, lanes), default=0)) for lane in lanes if i < len(lane)]


async def _connect(address: Address) -> socket.socket:
    sock = socket.socket(address[0], socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, address[1])
    except BaseException:
        sock.close()
        raise
    return sock


async def connect_first(addresses: Sequence[Address]) -> socket.socket:
    """The first address that answers. Raises the OSError of the first one when none does."""
    if len(addresses) == 1:
        return await _connect(addresses[0])
    queue = interleave(addresses)
    running: set[asyncio.Task[socket.socket]] = set()
    failed: list[BaseException] = []
    winner: socket.socket | None = None
    try:
        while winner is None and (queue or running):
            if queue:
                running.add(asyncio.create_task(_connect(queue.pop(0))))
            done, _ = await asyncio.wait(
                running, timeout=STAGGER if queue else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                problem = task.exception()
                if problem is not None:
                    running.discard(task)
                    failed.append(problem)
                elif winner is None:
                    running.discard(task)
                    winner = task.result()
    finally:
        await _drop(running)
    if winner is None:
        raise failed[0]
    return winner


async def _drop(losers: set[asyncio.Task[socket.socket]]) -> None:
    """Cancel, and close what a loser may have opened in the same moment."""
    for task in losers:
        task.cancel()
        task.add_done_callback(_close_result)
    if losers:
        await asyncio.wait(losers)


def _close_result(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def dial_fault(problem: BaseException, where: str, *, handshake: bool) -> tuple[FaultKind, str]:
    """What a failed dial was, and a line for the log. *where* is host and port."""
    if handshake:
        if isinstance(problem, ssl.SSLCertVerificationError):
            return FaultKind.TLS, f"{where}: certificate not trusted: {problem.verify_message}"
        return FaultKind.TLS, f"{where}: TLS handshake failed"
    if isinstance(problem, TimeoutError):
        return FaultKind.DIAL_TIMEOUT, f"{where}: connect timed out"
    if isinstance(problem, ConnectionRefusedError):
        return FaultKind.REFUSED, f"{where}: connection refused"
    code = getattr(problem, "errno", None)
    name = errno.errorcode.get(code, "") if isinstance(code, int) else ""
    return FaultKind.REFUSED, f"{where}: connect failed {name}".rstrip()
