"""The same interface over httpx: the control plane's client, and the oracle the native one is compared with.

It talks to httpx's transport directly, not to ``httpx.AsyncClient``: no redirects, no cookies, no decoding, no headers
of its own. The pool is httpcore's, so at most 200 connections rest in all, without a limit per host.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from time import perf_counter
from typing import Any

import httpcore
import httpx

from providers.upstream.dial import SystemResolver, dial_fault, tls_context
from providers.upstream.interface import IDLE_SECONDS, IDLE_TOTAL, FaultKind, Request, Resolver, Sift, UpstreamError
from providers.upstream.proxies import Proxies, Proxy
from providers.upstream.target import Target, encode_headers, first, parse

# How httpcore and h11 word an end of the connection where more was due; they have no type of its own for it.
_INTERRUPTED = ("Server disconnected", "peer closed connection", "peer unexpectedly closed connection")


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that is closed when its handshake is cancelled; httpcore closes it on errors only."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        try:
            return await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except asyncio.CancelledError:
            await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Dials only what the resolver lets through, one checked address after the other."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failed: Exception | None = None
        for _, address in await self._resolver.resolve(host, port):
            try:
                return _Stream(await self._inner.connect_tcp(str(address[0]), address[1], timeout, local_address))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as problem:
                failed = failed or problem
        assert failed is not None
        raise failed

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class GuardedTransport(httpx.AsyncHTTPTransport):
    """httpx's transport over a pool with the guarded backend, which its own constructor does not take."""

    def __init__(self, resolver: Resolver, context: ssl.SSLContext, proxy: Proxy | None) -> None:
        way = httpcore.Proxy(f"http://{proxy.host}:{proxy.port}", headers=proxy.headers) if proxy else None
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            proxy=way,
            max_connections=None,
            max_keepalive_connections=IDLE_TOTAL,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=GuardedBackend(resolver),
        )


class _Trace:
    """What httpcore tells on the way: how far the exchange came, and how long the dial took."""

    def __init__(self, header_timeout: float, deadline: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._header_timeout = header_timeout
        self._deadline = deadline
        self.start = perf_counter()
        self.timer: asyncio.Timeout | None = None
        self.handshake = self.written = False
        self.dial_ms = 0.0

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        step = event.split(".", 1)[-1]
        if step.startswith(("connect_tcp", "start_tls")):
            self.handshake = step in ("start_tls.started", "start_tls.failed")
            self.dial_ms = (perf_counter() - self.start) * 1000.0
        elif step == "send_request_headers.started" and not self._to_proxy(info):
            self.written = True
        elif step == "send_request_body.complete" and self.written and self.timer is not None:
            self.timer.reschedule(min(self._deadline, self._loop.time() + self._header_timeout))

    @staticmethod
    def _to_proxy(info: Mapping[str, Any]) -> bool:
        request = info.get("request")
        return request is not None and request.method == b"CONNECT"


def _chain(problem: BaseException) -> Iterable[BaseException]:
    seen: BaseException | None = problem
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _dial_problem(problem: BaseException, name: str, trace: _Trace) -> UpstreamError:
    links = list(_chain(problem))
    tls = next((link for link in links if isinstance(link, ssl.SSLError)), None)
    root = tls or next((link for link in reversed(links) if isinstance(link, OSError)), problem)
    kind, text = dial_fault(root, name, handshake=trace.handshake or tls is not None)
    return UpstreamError(kind, text, dial_ms=trace.dial_ms)


def _fault(problem: Exception, name: str, trace: _Trace) -> UpstreamError:
    """httpx's error as ours. Its own text is never passed on: it may quote what was sent."""
    if isinstance(problem, UpstreamError):
        problem.dial_ms = trace.dial_ms
        return problem
    if isinstance(problem, httpx.ProxyError):
        return UpstreamError(FaultKind.REFUSED, f"proxy refused the way to {name}", dial_ms=trace.dial_ms)
    if not trace.written:
        return _dial_problem(problem, name, trace)
    interrupted = isinstance(problem, httpx.NetworkError) or any(words in str(problem) for words in _INTERRUPTED)
    if interrupted:
        kind, text = FaultKind.RESET, "connection closed by the upstream"
    else:
        kind, text = FaultKind.PROTOCOL, "answer is not HTTP"
    return UpstreamError(kind, f"{name}: {text}", request_written=True, dial_ms=trace.dial_ms)


def _spoil_if_more_came(response: httpx.Response) -> None:
    """Keep a connection with bytes behind its answer out of the pool: httpcore takes them for the next answer."""
    stream: Any = response.stream
    state = stream._httpcore_stream._stream._connection._h11_state
    if state.trailing_data[0]:
        state.send_failed()


class HttpxResponse:
    """See ``interface.Response``."""

    def __init__(
        self, owner: "HttpxClient", response: httpx.Response, name: str, trace: _Trace, deadline: float
    ) -> None:
        self._owner = owner
        self._response = response
        self._name = name
        self._trace = trace
        self._deadline: float | None = deadline
        self._timer: asyncio.Timeout | None = None
        self._body: AsyncIterator[bytes] | None = None
        self._over = False
        self.status = response.status_code
        self.headers = [(key.lower(), value) for key, value in response.headers.raw]
        self.dial_ms = trace.dial_ms

    def header(self, name: bytes) -> bytes | None:
        return first(self.headers, name)

    def deadline(self, when: float | None) -> None:
        self._deadline = when
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(when)

    async def chunk(self, sift: Sift | None = None) -> bytes:
        if self._over:
            return b""
        if self._body is None:
            self._body = aiter(self._response.stream)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout_at(self._deadline) as self._timer:
                while True:
                    data = await anext(self._body, b"")
                    if data:
                        return data
                    break
        except TimeoutError:
            self.close()
            raise UpstreamError(
                FaultKind.BODY_TIMEOUT, f"{self._name}: body not in time", request_written=True
            ) from None
        except httpx.HTTPError as problem:
            self.close()
            broken = _fault(problem, self._name, self._trace)
            broken.dial_ms = 0.0
            raise broken from None
        except BaseException:
            self.close()
            raise
        finally:
            self._timer = None
        self._over = True
        _spoil_if_more_came(self._response)
        await self._response.aclose()
        return b""

    def at_hand(self, limit: int) -> bytes | None:
        return None

    async def read(self, limit: int) -> bytes:
        body = bytearray()
        try:
            while data := await self.chunk():
                body += data
                if len(body) > limit:
                    text = f"{self._name}: body over {limit} bytes"
                    raise UpstreamError(FaultKind.TOO_LARGE, text, request_written=True)
        except UpstreamError as problem:
            del body[limit:]
            problem.partial = bytes(body)
            self.close()
            raise
        return bytes(body)

    def close(self) -> None:
        if not self._over:
            self._over = True
            self._owner.later(self._drop())

    async def _drop(self) -> None:
        with suppress(httpx.HTTPError, RuntimeError):
            if self._body is not None:
                await self._body.aclose()  # type: ignore[attr-defined]
            await self._response.aclose()


class HttpxClient:
    """See ``interface.Client``. Belongs to the event loop of its first request."""

    def __init__(
        self, resolver: Resolver, *, proxies: Proxies | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._resolver = resolver
        self._proxies = proxies or Proxies()
        self._tls = tls
        self._transports: dict[Proxy | None, GuardedTransport] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def _transport(self, target: Target) -> GuardedTransport:
        proxy = self._proxies.of(*target.origin)
        transport = self._transports.get(proxy)
        if transport is None:
            # An operator's own proxy is not a provider: its address is not guarded.
            resolver = self._resolver if proxy is None else SystemResolver()
            transport = self._transports[proxy] = GuardedTransport(resolver, self._tls or tls_context(), proxy)
        return transport

    async def send(self, request: Request, *, deadline: float, header_timeout: float) -> HttpxResponse:
        target = parse(request.url)
        target.opening(request.method)
        encode_headers(request.headers)
        name = f"{target.host}:{target.port}"
        trace = _Trace(header_timeout, deadline)
        try:
            transport = self._transport(target)
            message = self._message(request, target, trace)
            async with asyncio.timeout_at(deadline) as trace.timer:
                response = await transport.handle_async_request(message)
        except TimeoutError:
            kind = FaultKind.HEADER_TIMEOUT if trace.written else FaultKind.DIAL_TIMEOUT
            text = f"{name}: no answer in time" if trace.written else f"{name}: not connected in time"
            raise UpstreamError(kind, text, request_written=trace.written, dial_ms=trace.dial_ms) from None
        except (httpx.HTTPError, UpstreamError) as problem:
            raise _fault(problem, name, trace) from None
        finally:
            trace.timer = None
        return HttpxResponse(self, response, name, trace, deadline)

    @staticmethod
    def _message(request: Request, target: Target, trace: _Trace) -> httpx.Request:
        fixed = [(b"Host", target.authority.encode("ascii")), (b"Accept-Encoding", b"identity")]
        if request.body or request.method not in ("GET", "HEAD"):
            fixed.append((b"Content-Length", b"%d" % len(request.body)))
        url = httpx.URL(f"{target.scheme}://{target.authority}").copy_with(raw_path=target.path.encode("ascii"))
        return httpx.Request(
            request.method,
            url,
            headers=[*fixed, *request.headers],
            stream=httpx.ByteStream(request.body),
            extensions={"trace": trace},
        )

    def later(self, work: Any) -> None:
        """Finish closing in the background; ``aclose`` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        while self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)
        for transport in self._transports.values():
            await transport.aclose()
        self._transports.clear()
