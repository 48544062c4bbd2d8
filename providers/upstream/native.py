"""The lean HTTP/1.1 client of the data plane: asyncio and httptools, a pool, and as little else as possible."""

import asyncio
import ssl
from time import perf_counter

from providers.upstream.dial import SystemResolver, connect_first, dial_fault, tls_context
from providers.upstream.interface import FaultKind, Request, Resolver, Sift, UpstreamError
from providers.upstream.pool import Lane, Pool
from providers.upstream.proxies import Proxies
from providers.upstream.target import Target, encode_headers, first, parse
from providers.upstream.wire import NEVER, WRITE_HIGH, Connection

TARGETS = 4096  # URLs remembered in parsed form
CLOSE_TURNS = 1000  # turns of the loop that closing may take; a handful is usual
HANDSHAKE_SECONDS = 600.0  # the deadline of the exchange ends a handshake long before


class NativeResponse:
    """See ``interface.Response``."""

    __slots__ = ("_connection", "dial_ms", "headers", "status")

    def __init__(self, connection: Connection, dial_ms: float) -> None:
        self._connection: Connection | None = connection
        self.status: int = connection.status
        self.headers = connection.headers
        self.dial_ms = dial_ms

    def header(self, name: bytes) -> bytes | None:
        return first(self.headers, name)

    def deadline(self, when: float | None) -> None:
        connection = self._connection
        if connection is not None and connection.when != when:
            connection.until(NEVER if when is None else when)

    async def chunk(self, sift: Sift | None = None) -> bytes:
        connection = self._connection
        if connection is None:
            return b""
        connection.sift = sift
        try:
            while True:
                if connection.pieces:
                    connection.sift = None
                    return connection.take()
                if connection.error is not None:
                    raise connection.error
                if connection.ended:
                    self.close()
                    return b""
                await connection.waiting()
        except BaseException:
            self._abandon()
            raise

    def at_hand(self, limit: int) -> bytes | None:
        connection = self._connection
        if connection is None or not connection.ended or connection.buffered > limit or connection.error is not None:
            return None
        body = connection.take() if connection.pieces else b""
        self.close()
        return body

    async def read(self, limit: int) -> bytes:
        connection = self._connection
        if connection is None:
            return b""
        # What was taken as chunks does not count.
        total = connection.limit = limit + connection.size - connection.buffered
        if connection.paused:
            connection.resume()
        try:
            while not connection.ended and connection.size <= total and connection.error is None:
                await connection.waiting()
            pieces = connection.pieces
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            error = connection.error
            if connection.size > total:
                error = connection.fault(FaultKind.TOO_LARGE, f"body over {limit} bytes")
            elif connection.ended:
                error = None
            if error is not None:
                error.partial = body[:limit]
                raise error
        except BaseException:
            self._abandon()
            raise
        self.close()
        return body

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            if connection.waiter is not None and connection.error is None:
                # Another task still waits for a chunk: it is told, not left hanging.
                connection.fail(FaultKind.RESET, "response closed")
            connection.release()

    def _abandon(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drop()


class NativeClient:
    """See ``interface.Client``. Belongs to the event loop of its first request."""

    def __init__(
        self, resolver: Resolver, *, proxies: Proxies | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._resolver = resolver
        self._proxies = proxies or Proxies()
        self._tls = tls
        self._pool = Pool()
        self._lanes: dict[object, Lane] = {}
        self._known: dict[str, tuple[Target, Lane]] = {}

    async def send(self, request: Request, *, deadline: float, header_timeout: float) -> NativeResponse:
        target, lane = self._known.get(request.url) or self._learn(request.url)
        body = request.body
        block = encode_headers(request.headers)
        opening = target.opening(request.method, absolute=lane.absolute)
        if lane.absolute and lane.proxy is not None:
            block += encode_headers(lane.proxy.headers)
        if body or request.method not in ("GET", "HEAD"):
            head = b"%bContent-Length: %d\r\n%b\r\n" % (opening, len(body), block)
        else:
            head = b"%b%b\r\n" % (opening, block)
        dial_ms = 0.0
        connection = self._pool.take(lane)
        if connection is None:
            start = perf_counter()  # a loop's clock may tick in milliseconds
            connection = await self._dial(lane, start, deadline)
            dial_ms = (perf_counter() - start) * 1000.0
        try:
            connection.begin(request.method)
            if len(body) <= WRITE_HIGH:
                connection.transport.write(head + body)
            else:
                connection.until(deadline)
                connection.transport.write(head)
                await connection.upload(body)
            until = connection.loop.time() + header_timeout
            connection.until(until if until < deadline else deadline)
            while not connection.head_done:  # as ``head`` does; each coroutine on the way costs a request something
                if connection.error is not None:
                    raise connection.error
                await connection.waiting()
        except BaseException as problem:
            connection.drop()
            if isinstance(problem, UpstreamError):
                problem.dial_ms = dial_ms
            raise
        connection.until(deadline)
        return NativeResponse(connection, dial_ms)

    def _learn(self, url: str) -> tuple[Target, Lane]:
        target = parse(url)
        proxy = self._proxies.of(*target.origin) if self._proxies.active else None
        key = (target.origin, proxy)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(target.scheme, target.host, target.port, proxy)
        if len(self._known) >= TARGETS:
            self._known.clear()
        self._known[url] = (target, lane)
        return target, lane

    async def _dial(self, lane: Lane, start: float, deadline: float) -> Connection:
        """A new connection, its tunnel and TLS included."""
        try:
            async with asyncio.timeout_at(deadline):
                return await self._open(asyncio.get_running_loop(), lane)
        except TimeoutError:
            problem = UpstreamError(FaultKind.DIAL_TIMEOUT, f"{lane.name}: not connected in time")
        except UpstreamError as fault:
            problem = fault
        problem.dial_ms = (perf_counter() - start) * 1000.0
        problem.request_written = False
        raise problem

    async def _open(self, loop: asyncio.AbstractEventLoop, lane: Lane) -> Connection:
        proxy = lane.proxy
        if proxy is None:
            addresses = await self._resolver.resolve(lane.host, lane.port)
            where = lane.name
        else:
            addresses = await SystemResolver().resolve(proxy.host, proxy.port)
            where = f"proxy {proxy.host}:{proxy.port}"
        try:
            sock = await connect_first(addresses)
        except OSError as problem:
            kind, text = dial_fault(problem, where, handshake=False)
            raise UpstreamError(kind, text) from problem
        connection = Connection(loop, self._pool, lane)
        direct_tls = lane.scheme == "https" and proxy is None
        try:
            await loop.create_connection(
                lambda: connection,
                sock=sock,
                ssl=self._context() if direct_tls else None,
                server_hostname=lane.host if direct_tls else None,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if direct_tls else None,
            )
        except BaseException as problem:
            self._forget(connection)
            sock.close()
            if not isinstance(problem, OSError):
                raise
            kind, text = dial_fault(problem, where, handshake=direct_tls)
            raise UpstreamError(kind, text) from problem
        if lane.scheme == "https" and proxy is not None:
            await self._tunnel(loop, connection, where)
        return connection

    async def _tunnel(self, loop: asyncio.AbstractEventLoop, connection: Connection, where: str) -> None:
        """CONNECT through the proxy, then TLS to the upstream inside the tunnel."""
        lane = connection.lane
        assert lane.proxy is not None
        name = f"[{lane.host}]:{lane.port}" if ":" in lane.host else lane.name
        head = f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n".encode("ascii")
        try:
            connection.begin("CONNECT")
            connection.transport.write(head + encode_headers(lane.proxy.headers) + b"\r\n")
            await connection.head()
            if connection.status >= 300:
                raise UpstreamError(FaultKind.REFUSED, f"{where}: answered CONNECT with {connection.status}")
            transport = await loop.start_tls(
                connection.transport,
                connection,
                self._context(),
                server_hostname=lane.host,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
            if transport is None:
                raise ConnectionResetError
            connection.renew(transport)
        except UpstreamError as problem:
            connection.drop()
            if problem.kind in (FaultKind.RESET, FaultKind.PROTOCOL):
                raise UpstreamError(FaultKind.REFUSED, f"{where}: broke off the CONNECT") from problem
            raise
        except BaseException as problem:
            self._forget(connection)
            if not isinstance(problem, OSError):
                raise
            kind, text = dial_fault(problem, lane.name, handshake=True)
            raise UpstreamError(kind, text) from problem

    def _forget(self, connection: Connection) -> None:
        """Drop what was cancelled while it was being made: such a transport may never tell that it is lost."""
        if connection in self._pool.live:
            connection.drop()
            self._pool.lost(connection)

    def _context(self) -> ssl.SSLContext:
        return self._tls or tls_context()

    async def aclose(self) -> None:
        self._pool.closed = True
        for connection in list(self._pool.live):
            if connection.busy:
                connection.fail(FaultKind.RESET, "client closed")
            else:
                connection.drop()
        for _ in range(CLOSE_TURNS):  # until the loop has told every transport
            if not self._pool.live:
                return
            await asyncio.sleep(0)
