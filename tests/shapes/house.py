"""The stage with one vendor on it: ``house``, for tests that have a ``vendor``."""

from collections.abc import Iterator
from typing import Any

import pytest

from providers.kinds.openai import OpenAI
from tests.proxy.asgi import Answer
from tests.proxy.walk.stage import Stage
from tests.shapes.table import Row, Vendor
from tests.upstream.server import FakeProvider

KEY = "sk-vendor-key-0001"
USER = [{"role": "user", "content": "hi"}]
#: What a client of each dialect sends, and where.
ASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/chat/completions", {"messages": USER}),
    "messages": ("/messages", {"max_tokens": 1000, "messages": USER}),
    "responses": ("/responses", {"input": "hi"}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeProvider]:
    with FakeProvider() as made:
        yield made


@pytest.fixture
def upstream(server: FakeProvider) -> FakeProvider:
    server.forget()
    return server


class House:
    """The stage with one vendor on it."""

    def __init__(self, stage: Stage, upstream: FakeProvider, vendor: Vendor) -> None:
        self.stage, self.vendor, self.upstream = stage, vendor, upstream
        stage.member("V", upstream.origin + vendor.base, kind=vendor.kind, model=vendor.model, key=KEY)

    async def ask(self, dialect: str, *, stream: bool = False, **more: Any) -> Answer:
        path, body = ASKS[dialect]
        if stream:
            more["stream"] = True
        return await self.stage.say(path, "V/" + self.vendor.model, **body, **more)

    @property
    def row(self) -> Row:
        row = self.stage.row
        return Row(
            row.tokens_prompt,
            row.tokens_completion,
            row.tokens_completion_reasoning,
            row.tokens_prompt_cache_hit,
            row.tokens_prompt_cache_miss,
        )


@pytest.fixture
def house(stage: Stage, upstream: FakeProvider, vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> House:
    if vendor.native == "responses":  # the loopback server stands for api.openai.com
        monkeypatch.setattr(OpenAI, "native_responses", lambda self, base_url: base_url == upstream.url)
    return House(stage, upstream, vendor)
