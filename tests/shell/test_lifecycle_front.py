"""The front: which plane a request goes to, what a draining process answers, how big a body may be."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from modelhotel.core.clock import ManualClock
from modelhotel.ops.asgi_types import Message, Receive, Scope, Send
from modelhotel.ops.front import BodyLimit, EventStreams, Front, Lifespan, idle
from modelhotel.ops.health import Health


class Call:
    """One request as a server would bring it; *body* arrives in the given parts."""

    def __init__(
        self,
        path: str,
        method: str = "GET",
        headers: Sequence[tuple[bytes, bytes]] = (),
        body: Sequence[bytes] = (b"",),
    ) -> None:
        self.scope: Scope = {"type": "http", "path": path, "method": method, "headers": list(headers)}
        self.sent: list[Message] = []
        self.read = 0
        self.gone = asyncio.Event()
        self._parts = list(body)

    async def receive(self) -> Message:
        if self._parts:
            self.read += 1
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def text(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def complete(self) -> bool:
        return bool(self.sent) and not self.sent[-1].get("more_body", False)

    def header(self, name: bytes) -> bytes | None:
        return dict(self.sent[0]["headers"]).get(name)


def says(word: bytes) -> Any:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": word})

    return app


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b": connected\n\n", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


def front(data: Any = None, control: Any = None) -> Front:
    health = Health(lambda: None, ManualClock())
    health.ready = True
    return Front(
        data=data or says(b"data"),
        events=EventStreams(stream),
        control=control or says(b"control"),
        health=health,
        lifespan=Lifespan(lambda: None, lambda: None),
        headers=lambda scope: ((b"x-safe", b"1"),),
    )


async def ask(app: Any, call: Call) -> Call:
    await asyncio.wait_for(app(call.scope, call.receive, call.send), 5)
    return call


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/v1", b"data"),
        ("/v1/chat/completions", b"data"),
        ("/v1/../api", b"data"),
        ("/v1x", b"control"),
        ("/", b"control"),
        ("/api/eventsx", b"control"),
        ("/api/events//", b"control"),
        ("/healthx", b"control"),
        ("/health", b"OK"),
        ("/healthz", b"OK"),
    ],
)
async def test_a_path_goes_to_its_plane(path: str, answer: bytes):
    assert (await ask(front(), Call(path))).text == answer


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("HEAD", 200), ("POST", 405), ("OPTIONS", 405)])
async def test_health_takes_get_and_head(method: str, status: int):
    call = await ask(front(), Call("/health", method))
    assert (call.status, call.header(b"x-safe")) == (status, b"1")


async def test_a_draining_process_refuses_new_requests_and_says_so_in_the_shape_of_their_plane():
    """operations 76."""
    app = front()
    app.health.draining = app.refusing = True
    data = await ask(app, Call("/v1/chat/completions", "POST"))
    assert data.status == 503
    assert data.text == b'{"error":{"message":"DRAINING","type":"server_error","param":null,"code":null}}'
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        messages = await ask(app, Call(path, "POST"))
        assert messages.status == 503
        assert messages.text == b'{"type":"error","error":{"type":"overloaded_error","message":"DRAINING"}}'
    for path in ("/api/providers", "/api/events", "/"):
        call = await ask(app, Call(path))
        assert (call.status, call.text, call.header(b"connection")) == (503, b"DRAINING", b"close")
        assert call.header(b"content-type") == b"text/plain; charset=utf-8"
    as_json = await ask(app, Call("/api/providers", headers=[(b"accept", b"text/html, application/json")]))
    assert (as_json.status, as_json.text) == (503, b'{"error":"DRAINING"}')
    assert (await ask(app, Call("/health"))).text == b"DRAINING"
    assert (await ask(app, Call("/healthz"))).status == 200


async def test_requests_in_flight_are_counted_until_they_end_however_they_end():
    release = asyncio.Event()

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await release.wait()
        raise RuntimeError("broken application")

    app = front(data=waits)
    tasks = [asyncio.create_task(ask(app, Call("/v1/x"))) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(app.running) == 3
    assert not await idle(lambda: len(app.running), 0.04, asyncio.sleep)
    tasks[0].cancel()
    release.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError, RuntimeError, RuntimeError]
    assert not app.running
    assert await idle(lambda: len(app.running), 0.04, asyncio.sleep)


async def test_event_streams_end_properly_when_the_process_stops():
    """operations 51."""
    app = front()
    calls = [Call("/api/events" + "/" * (number % 2)) for number in range(50)]
    tasks = [asyncio.create_task(ask(app, call)) for call in calls]
    while len(app.events) < 50:
        await asyncio.sleep(0)
    assert not app.running, "event streams must not hold up the drain"
    app.events.end_all()
    await asyncio.gather(*tasks)
    assert all(call.complete and call.text == b": connected\n\n" for call in calls)
    assert len(app.events) == 0


async def test_an_event_stream_whose_client_leaves_ends_without_another_word():
    app = front()
    call = Call("/api/events")
    task = asyncio.create_task(ask(app, call))
    while not call.sent:
        await asyncio.sleep(0)
    call.gone.set()
    await task
    assert len(call.sent) == 2


async def test_a_websocket_is_closed():
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await front()({"type": "websocket", "path": "/"}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


async def reads_all(scope: Scope, receive: Receive, send: Send) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message["body"])
        more = message["more_body"]
    await says(str(size).encode())(scope, receive, send)


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ([(b"content-length", b"10")], [b"x" * 10], 200),
        ([], [b"x" * 6, b"x" * 4], 200),
        ([(b"content-length", b"11")], [b"x" * 11], 413),
        ([], [b"x" * 6, b"x" * 5], 413),
        ([(b"content-length", b"3")], [b"x" * 6, b"x" * 5], 413),
        ([(b"content-length", b"1e3")], [b"x" * 11], 413),
    ],
)
async def test_a_body_has_a_limit_whether_announced_or_not(headers: Any, body: list[bytes], status: int):
    call = await ask(BodyLimit(reads_all, 10), Call("/api/x", "POST", headers, body))
    assert (call.status, call.complete) == (status, True)
    if status == 413:
        assert (call.text, call.header(b"connection")) == (b"request body too large", b"close")


async def test_an_announced_body_that_is_too_large_never_reaches_the_application():
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("reached")

    call = await ask(BodyLimit(never, 10), Call("/api/x", "POST", [(b"content-length", b"99")], [b"x" * 99]))
    assert call.status == 413


async def test_a_refusal_of_the_front_has_the_headers_and_the_shape_that_the_caller_is_used_to():
    def echo(scope: Scope) -> Sequence[tuple[bytes, bytes]]:
        return [(b"access-control-allow-origin", dict(scope["headers"])[b"origin"])]

    sent = [(b"origin", b"https://app.example"), (b"accept", b"application/json")]
    call = await ask(BodyLimit(reads_all, 10, echo), Call("/api/x", "POST", sent, [b"x" * 11]))
    assert (call.status, call.text) == (413, b'{"error":"request body too large"}')
    assert call.header(b"content-type") == b"application/json"
    assert call.header(b"content-length") == str(len(call.text)).encode()
    assert call.header(b"access-control-allow-origin") == b"https://app.example"
    page = await ask(BodyLimit(reads_all, 10, echo), Call("/login/", "POST", sent, [b"x" * 11]))
    assert page.text == b"request body too large"


async def test_the_rest_of_a_refused_body_is_read_so_that_the_sender_gets_the_answer():
    call = await ask(BodyLimit(reads_all, 10), Call("/api/x", "POST", body=[b"x" * 8] * 9))
    assert (call.status, call.read) == (413, 9)


async def test_a_start_that_fails_is_told_to_the_server():
    def broken() -> None:
        raise RuntimeError("no database")

    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    await Lifespan(broken, lambda: None)(receive, send)
    assert [message["type"] for message in sent] == ["lifespan.startup.failed", "lifespan.shutdown.complete"]
    assert sent[0]["message"] == "no database"


async def test_what_the_loop_holds_is_closed_before_the_process_stops():
    order: list[str] = []

    async def close() -> None:
        order.append("close")

    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        order.append(message["type"])

    await Lifespan(lambda: order.append("start"), lambda: order.append("stop"), close)(receive, send)
    assert order == ["start", "lifespan.startup.complete", "close", "stop", "lifespan.shutdown.complete"]


@pytest.mark.parametrize("path", ["/p", "/p/", "/p/openai/files", "/p/openai"])
async def test_the_providers_own_endpoints_belong_to_the_data_plane(path: str):
    found = front()
    assert (await ask(found, Call(path))).text == b"data"
    assert (await ask(found, Call("/providers/"))).text == b"control"
    found.refusing = True
    refused = await ask(found, Call(path))
    assert refused.status == 503
    assert path == "/p" or json.loads(refused.text)["error"]["type"] == "server_error"


async def test_a_websocket_is_closed_whatever_it_asks_for():
    call = Call("/p/openai/realtime")
    call.scope["type"] = "websocket"
    await ask(front(), call)
    assert call.sent == [{"type": "websocket.close", "code": 1000}]
