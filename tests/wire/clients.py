"""One body for both clients of an SDK: ``both`` gives the synchronous one as it is, and the asynchronous one as if it
were synchronous, its calls awaited by an event loop in a thread of its own. And ``frames``, of clients without an SDK.
"""

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import openai
import pydantic
import pytest

KINDS = ["sync", "async"]
#: Of a test whose matter is not the client's.
one_client = pytest.mark.parametrize("client", KINDS[:1], indirect=True)
#: Every endpoint, and where it arrives at a provider that is asked for responses in chat.
ARRIVES = {
    "chat/completions": "/v1/chat/completions",
    "responses": "/v1/chat/completions",
    "embeddings": "/v1/embeddings",
    "rerank": "/v1/rerank",
    "images/generations": "/v1/images/generations",
    "images/edits": "/v1/images/edits",
    "images/variations": "/v1/images/variations",
    "audio/speech": "/v1/audio/speech",
    "audio/transcriptions": "/v1/audio/transcriptions",
    "audio/translations": "/v1/audio/translations",
}
SECONDS = 20.0  # no single call takes longer
_END = object()


class Driven:
    """An asynchronous client, or what came of one: ``await``, ``async for`` and ``async with`` are done within."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target, self._loop = target, loop

    def _run(self, call: Callable[[], Any]) -> Any:
        async def work() -> Any:
            found = call()
            return await found if inspect.isawaitable(found) else found

        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return self._shown(future.result(SECONDS))
        finally:
            future.cancel()

    def _shown(self, found: Any) -> Any:
        """Data as it is; what has anything asynchronous about it driven as well."""
        of_sdk = type(found).__module__.partition(".")[0] in ("openai", "anthropic")
        part = of_sdk and not isinstance(found, pydantic.BaseModel | BaseException)
        return Driven(found, self._loop) if part or callable(found) or hasattr(found, "__aiter__") else found

    def __getattr__(self, name: str) -> Any:
        return self._shown(getattr(self._target, name))

    def __call__(self, *args: Any, **members: Any) -> Any:
        return self._run(lambda: self._target(*args, **members))

    def __iter__(self) -> Iterator[Any]:
        steps = aiter(self._target)
        while (found := self._run(lambda: anext(steps, _END))) is not _END:
            yield found

    def __enter__(self) -> Any:
        return self._run(self._target.__aenter__)

    def __exit__(self, *exc: Any) -> Any:
        return self._run(lambda: self._target.__aexit__(*exc))


@contextmanager
def driven(client: Any) -> Iterator[Any]:
    """*client*, an asynchronous one, from synchronous code; closed in the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="driven", daemon=True)
    thread.start()
    found = Driven(client, loop)
    try:
        yield found
    finally:
        found.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()


@contextmanager
def both(
    url: str, key: str, sync: Callable[..., Any] = openai.OpenAI, other: Callable[..., Any] = openai.AsyncOpenAI
) -> Iterator[dict[str, Any]]:
    """The clients by KINDS, of OpenAI's SDK unless told."""
    asked: dict[str, Any] = {"base_url": url, "api_key": key, "max_retries": 0, "timeout": 15.0}
    with closing(sync(**asked)) as plain, driven(other(**asked)) as awaited:
        yield dict(zip(KINDS, (plain, awaited), strict=True))


def frames(body: str) -> list[tuple[str, dict[str, Any]]]:
    """(event, data) of each frame; comments are left out, ``[DONE]`` is ``{}``."""
    found = []
    for part in body.split("\n\n"):
        lines = [line.partition(": ") for line in part.split("\n") if line and not line.startswith(":")]
        fields = {name: value for name, _, value in lines}
        if "data" in fields:
            found.append((fields.get("event", ""), {} if fields["data"] == "[DONE]" else json.loads(fields["data"])))
    return found
