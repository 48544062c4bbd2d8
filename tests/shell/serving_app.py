"""A server of the real kind with an application of the test's own: ``python -m tests.shell.serving_app``.

Prints its address; budgets come as arguments (seconds: streams, drain). ``/v1/slow/<seconds>`` answers late,
``/v1/stream`` sends a chunk every 20 ms until it is interrupted, ``/v1/stuck`` never ends.
"""

import asyncio
import sys

from modelhotel.ops import serving
from modelhotel.ops.asgi_types import Receive, Scope, Send
from modelhotel.ops.front import EventStreams, Front, Lifespan
from modelhotel.ops.health import Health

interrupted = asyncio.Event()


async def data(scope: Scope, receive: Receive, send: Send) -> None:
    path = scope["path"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if path.startswith("/v1/slow/"):
        await asyncio.sleep(float(path.rpartition("/")[2]))
        await send({"type": "http.response.body", "body": b"late"})
    elif path == "/v1/stream":
        while not interrupted.is_set():
            await send({"type": "http.response.body", "body": b"data: chunk\n\n", "more_body": True})
            await asyncio.sleep(0.02)
        await send({"type": "http.response.body", "body": b"data: terminal\n\n"})
    else:
        await send({"type": "http.response.body", "body": b"stuck", "more_body": True})
        try:
            await asyncio.Event().wait()
        finally:
            print("cut", flush=True)


async def events(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b": connected\n\n", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


class Steps:
    """Stands for the lifecycle and prints what it is told, in order."""

    def drain(self) -> None:
        health.draining = True
        print("drain", flush=True)

    def halt(self) -> None:
        print("halt", flush=True)

    def start(self) -> None:
        health.ready = True

    def stop(self) -> None:
        print("stop", flush=True)


health = Health(lambda: None)
steps = Steps()
front = Front(data, EventStreams(events), data, health, Lifespan(steps.start, steps.stop))


def main() -> None:
    serving.STREAMS, serving.DRAIN = float(sys.argv[1]), float(sys.argv[2])
    sock = serving.bind("127.0.0.1", 0, None)
    print(f"Dashboard: {serving.address(sock)}", flush=True)
    server = serving.Server(front, steps, interrupted.set, budget=float(sys.argv[3]))
    serving.run(server, sock)


if __name__ == "__main__":
    main()
