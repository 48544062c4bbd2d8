"""What the client tests share: the clients on both event loops, a resolver that is told what to say, certificates."""

import asyncio
import datetime
import ipaddress
import os
import ssl
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from providers.upstream.httpx_client import HttpxClient
from providers.upstream.interface import Address, FaultKind, Request, UpstreamError
from providers.upstream.native import NativeClient

CLIENTS = {"native": NativeClient, "httpx": HttpxClient}
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


class FixedResolver:
    """Every name is one of *names* (name -> [(host, port)]), every literal address is itself."""

    def __init__(self, names: dict[str, list[tuple[str, int]]] | None = None) -> None:
        self.names = names or {}
        self.asked: list[tuple[str, int]] = []

    async def resolve(self, host: str, port: int) -> list[Address]:
        self.asked.append((host, port))
        await asyncio.sleep(0)
        if host in self.names:
            found = self.names[host]
            if not found:
                raise UpstreamError(FaultKind.FORBIDDEN, f"refused connection to private/reserved IP for host {host}")
            return [(2, address) for address in found]
        if not host.replace(".", "").isdigit():
            raise UpstreamError(FaultKind.DNS, f"the name {host} does not resolve")
        return [(2, (host, port))]


def run(work: Callable[[], Awaitable[Any]], loop: str = "asyncio") -> Any:
    """Run *work* on a new event loop of that kind, at most 25 s."""

    async def limited() -> Any:
        async with asyncio.timeout(25):
            return await work()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(limited())


def chat(url: str, body: bytes = b'{"model":"m"}', method: str = "POST", **headers: str) -> Request:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request(method, url + "/chat/completions", pairs, body)


async def send(client: Any, request: Request, *, seconds: float = 5.0, header_timeout: float = 5.0) -> Any:
    now = asyncio.get_running_loop().time()
    return await client.send(request, deadline=now + seconds, header_timeout=header_timeout)


async def fetch(client: Any, request: Request, *, limit: int = 1 << 24, **times: float) -> tuple[int, bytes]:
    """Status and whole body."""
    response = await send(client, request, **times)
    return response.status, await response.read(limit)


async def fault(client: Any, request: Request, **times: float) -> UpstreamError:
    """The error that the exchange must end with."""
    try:
        got = await fetch(client, request, **times)
    except UpstreamError as problem:
        return problem
    raise AssertionError(f"no error, but {got}")


async def nothing_runs() -> None:
    """No task is left but this one, at the latest after a second (httpcore's generators are closed by the loop)."""
    for _ in range(200):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(left)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


class CancelAt:
    """Awaitable that runs *work* and cancels the running task at its *step*-th suspension (1-based).

    *late*: not before, but right after what it waits for has come, so that the result is lost on its way. *times*
    how often in a row: the next suspensions, those of the clearing up, are cancelled as well. *act* is done instead
    of cancelling. ``steps`` afterwards: how often it was suspended in all.
    """

    def __init__(
        self,
        work: Awaitable[Any],
        step: int,
        *,
        late: bool = False,
        times: int = 1,
        act: Callable[[], object] | None = None,
    ) -> None:
        self._work = work
        self._steps = range(step, step + times)
        self._late = late
        self._act = act
        self.steps = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._work.__await__()
        try:
            waiting = next(inner)
            while True:
                self.steps += 1
                if self.steps in self._steps:
                    self._cancel(waiting)
                try:
                    got = yield waiting
                except BaseException as problem:
                    waiting = inner.throw(problem)
                else:
                    waiting = inner.send(got)
        except StopIteration as end:
            return end.value

    def _cancel(self, waiting: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        act = self._act or task.cancel
        if self._late and isinstance(waiting, asyncio.Future):
            waiting.add_done_callback(lambda _: act())  # before the task's own callback
        else:
            act()


def certificate(directory: Path, *names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """(server context, client context that trusts it) of a fresh self-signed certificate for *names*."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fake provider")])
    alternatives: list[x509.GeneralName] = [
        x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name) for name in names
    ]
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = directory / "certificate.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret = directory / "key.pem"
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem, secret)
    server.set_alpn_protocols(["http/1.1", "h2"])
    client = ssl.create_default_context(cafile=str(pem))
    client.set_alpn_protocols(["http/1.1"])
    return server, client


class TunnelProxy:
    """A small forward proxy: CONNECT tunnels, absolute-form requests are answered ``via proxy``. Use as ``async with``.

    *seen* holds the head of every request; *refuse* is a status CONNECT is answered with.
    """

    def __init__(self, refuse: int = 0) -> None:
        self.seen: list[str] = []
        self._refuse = refuse
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "TunnelProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.seen.append(head)
            method, target = head.split(" ")[:2]
            if method != "CONNECT":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nvia proxy")
                await reader.read()
            elif self._refuse:
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % self._refuse)
                await reader.read()
            else:
                await self._tunnel(reader, writer, target)
        except (asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> None:
        port = int(target.rsplit(":", 1)[1])
        there, back = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
            sink.close()

        try:
            await asyncio.gather(copy(reader, back), copy(there, writer))
        finally:
            back.close()
