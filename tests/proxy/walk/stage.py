"""A stage for playbooks of the walk: the whole ``/v1`` application over real sockets, everything else in memory.

    stage.member("A", provider_a.url, key="sk-...")     # in the order to be tried
    answer = await stage.ask()                          # hotel/g, or model="A/m", stream=True, ...
    assert stage.trail == [...]; stage.row is the draft of the last finished request

Waits between contacts are recorded in ``stage.waits`` and take no time; chance is always 0.5.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from failover import breaker, table
from failover import windows as learning
from failover.breaker.board import Board
from failover.breaker.rules import of_options
from failover.caps import CAPS
from failover.window import Window
from failover.windows import Windows
from modelhotel.core import options, redact
from modelhotel.core.clock import ManualClock
from providers import cache
from providers.cache import Catalogue, ModelRow, ProviderRow, SealedKey
from providers.keyring import KEYRING
from providers.kinds import registry
from providers.upstream import select
from proxy import exchange, keys, walk
from proxy.gone.retirement import Retirement
from proxy.keys import KeyRow, KeyTable
from proxy.metering import METER
from proxy.tools import Tools
from requestlogs.draft import Draft
from requestlogs.recorder import RECORDER
from tests.proxy.asgi import Answer, Client, client

KEY = "sk-0123456789abcdef0123456789abcdef"
CHANCE = 0.5


#: (name, text), or (name, (file name, bytes, content type)).
Field = tuple[str, str | tuple[str, bytes, str]]


def _part(value: str | tuple[str, bytes, str]) -> tuple[None, str] | tuple[str, bytes, str]:
    return (None, value) if isinstance(value, str) else value


class Stage:
    """See the module's docstring."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self._providers: dict[str, ProviderRow] = {}
        self._models: dict[str, ModelRow] = {}
        self._order: list[str] = []
        self._toggles: dict[str, bool] = {}
        self._stored: dict[str, str] = {}
        self.waits: list[float] = []
        self.hold: asyncio.Event | None = None  # waits last until it is set
        self.holding = asyncio.Event()
        self.clock = ManualClock(mono=time.monotonic())  # resolution reads the real one
        self.board = Board(self.clock, lambda: of_options(options.current()), self._name_of)
        self.windows = Windows(self.clock, lambda: learning.of_options(options.current()))
        self.strip_reasoning = False
        self.recovery: str | None = None  # the group's property, from the next member or setting on
        monkeypatch.setattr(breaker, "_board", self.board)
        monkeypatch.setattr(learning, "_windows", self.windows)
        monkeypatch.setattr(exchange, "WATCH_AFTER", 0.0)
        #: What follows from refusals of a model by name: run by the test that is about it.
        self.followed: list[Callable[[], None]] = []
        self.retirement = Retirement(self.clock, start=self.followed.append)
        tools = Tools(sleep=self._sleep, chance=lambda: CHANCE, retirement=self.retirement)
        monkeypatch.setattr(walk, "TOOLS", tools)
        KEYRING.reset()
        CAPS.keep_only(())

    def _name_of(self, provider_id: str) -> str:
        row = self._providers.get(provider_id)
        return row.name if row else ""

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.holding.set()
        if self.hold is not None:
            await self.hold.wait()

    # -- who is there

    def member(
        self,
        name: str,
        url: str,
        *,
        model: str = "m",
        key: str = "",
        window: int | None = None,
        kind: str = "custom",
        grouped: bool = True,
        on: bool = True,
        broken_key: bool = False,
        slow_call: float | None = None,
        most: int | None = None,
        inputs: tuple[str, ...] = (),
        outputs: tuple[str, ...] = (),
    ) -> None:
        """A provider with one model (or one model more of it), at the end of the group.

        *on*: the entry's toggle; *broken_key*: there is a key, and it can not be decrypted; *most*: its
        ceiling of requests at once; *inputs* and *outputs*: the model's modalities.
        """
        number = len(self._models) + 1
        provider_id = f"00000000-0000-4000-8000-{ord(name[0]):012d}"
        sealed = SealedKey(b"broken", b"", b"") if broken_key else None
        if key:
            sealed = SealedKey(key.encode(), b"", b"")
            KEYRING._kept[sealed] = (key, time.monotonic() + 600)
            KEYRING._known = redact.known_keys(plain for plain, _ in KEYRING._kept.values())
        self._providers[provider_id] = ProviderRow(
            provider_id,
            name,
            name,
            url,
            registry.get(kind),
            True,
            sealed,
            float(number),
            False,
            most,
            slow_call=slow_call,
        )
        row = SimpleNamespace(
            id=f"00000000-0000-4000-9000-{number:012d}", provider_id=provider_id, model_id=model, context_length=window
        )
        self._models[row.id] = replace(_model(row), input_modalities=inputs, output_modalities=outputs)
        if grouped:
            self._order.append(row.id)
            self._toggles[row.id] = on
        self._install()

    def price(self, name: str, dollars: float | None, *, search: float | None = None) -> None:
        """What a million prompt tokens of this provider's models cost, and a thousand searches."""
        for uid, row in self._models.items():
            if self._providers[row.provider_id].name == name:
                self._models[uid] = replace(row, input_price_per_million=dollars, search_price_per_thousand=search)
        self._install()

    def set(self, **values: str) -> None:
        """Runtime settings, as text."""
        self._stored |= values
        self._install()

    def _install(self) -> None:
        providers, models = self._providers, self._models
        by_id: dict[str, tuple[ModelRow, ...]] = {}
        for row in models.values():
            by_id[row.model_id] = (*by_id.get(row.model_id, ()), row)
        catalogue = Catalogue(
            providers,
            {p.name: p for p in providers.values()},
            {p.routing_name: p for p in providers.values()},
            models,
            {(m.provider_id, m.model_id): m for m in models.values()},
            by_id,
        )
        group = SimpleNamespace(
            display_model="g",
            display_name="",
            priority_order=self._order,
            entry_enabled=self._toggles,
            group_enabled=True,
            midstream_recovery=self.recovery,
        )
        cache.SNAPSHOT.current = catalogue
        table.SNAPSHOT.current = table.join(catalogue, [("00000000-0000-4000-a000-000000000001", group)])
        hashed = keys.hash_of(KEY.encode())
        row = KeyRow("00000000-0000-4000-b000-000000000001", "app", hashed, None, self.strip_reasoning, None, False)
        keys.SNAPSHOT.current = KeyTable({hashed: row}, ready=True)
        options.SNAPSHOT.current = options.REGISTRY.values(self._stored, options.environ)

    # -- requests

    def client(self, model: str = "hotel/g", *, prompt: str = "hi", stream: bool = False, **more: Any) -> Client:
        body = {"model": model, "messages": [{"role": "user", "content": prompt}], **more}
        if stream:
            body["stream"] = True
        return client("POST", "/v1/chat/completions", key=KEY, json=body)

    async def ask(self, model: str = "hotel/g", **given: Any) -> Answer:
        return await self.client(model, **given).run()

    async def say(self, path: str, model: str = "hotel/g", **given: Any) -> Answer:
        """A request in another dialect: *path* behind ``/v1``, *given* the members of its body."""
        return await client("POST", "/v1" + path, key=KEY, json={"model": model, **given}).run()

    async def embed(self, model: str = "hotel/g", *, given: Any = "hi", **more: Any) -> Answer:
        """``POST /v1/embeddings`` with *given* as its input."""
        return await self.embedding_client(model, given=given, **more).run()

    def embedding_client(self, model: str = "hotel/g", *, given: Any = "hi", **more: Any) -> Client:
        return client("POST", "/v1/embeddings", key=KEY, json={"model": model, "input": given, **more})

    async def post(self, path: str, model: str = "hotel/g", **members: Any) -> Answer:
        """A JSON request to any endpoint."""
        return await self.poster(path, model, **members).run()

    def poster(self, path: str, model: str = "hotel/g", **members: Any) -> Client:
        return client("POST", path, key=KEY, json={"model": model, **members})

    async def upload(self, path: str, *fields: Field, model: str | None = "hotel/g") -> Answer:
        """A form: *model* first, then *fields*."""
        given: list[Field] = [*([("model", model)] if model is not None else []), *fields]
        made = httpx.Request("POST", "http://h/", files=[(name, _part(value)) for name, value in given])
        kind = [("content-type", made.headers["content-type"])]
        return await client("POST", path, key=KEY, body=made.read(), headers=kind).run()

    # -- what became of them

    @property
    def rows(self) -> list[Draft]:
        return list(RECORDER._finished)

    @property
    def row(self) -> Draft:
        """The draft of the last finished request."""
        return self.rows[-1]

    @property
    def row_in_flight(self) -> Draft:
        """The draft of the only request that still runs."""
        (draft,) = RECORDER._running.values()
        return draft

    @property
    def trail(self) -> list[tuple[Any, ...]]:
        """(attempt, provider, status, error kind, breaker) of every element."""
        return [
            (e["attempt"], e["provider"], e.get("status"), e.get("error_kind"), e.get("breaker"))
            for e in self.row.attempts or []
        ]

    def fails(self, name: str, model: str = "m") -> int:
        """Consecutive charges of a circuit."""
        circuit = self.board._circuits.find(f"00000000-0000-4000-8000-{ord(name[0]):012d}", model)
        return circuit.consecutive_fails if circuit is not None else 0

    def served(self, name: str, model: str = "m") -> bool:
        """Whether a circuit knows of an answer that was served."""
        circuit = self.board._circuits.find(f"00000000-0000-4000-8000-{ord(name[0]):012d}", model)
        return circuit is not None and circuit.last_success is not None

    def cause(self, name: str, model: str = "m") -> tuple[str, int]:
        """Phrase and status of the last verdict a circuit noted."""
        circuit = self.board._circuits.find(f"00000000-0000-4000-8000-{ord(name[0]):012d}", model)
        return ("", 0) if circuit is None else (circuit.last_cause, circuit.last_status)

    def state(self, name: str) -> str:
        return str(self.board.state_of(f"00000000-0000-4000-8000-{ord(name[0]):012d}"))

    @property
    def running(self) -> dict[str, int]:
        """Slots that are taken, by provider name; those with none left out."""
        return {self._name_of(pid): count for pid, count in self.windows.running().items() if count}

    @property
    def limits(self) -> dict[str, int]:
        """Learned in-flight limits by provider name."""
        return {self._name_of(pid): limit for pid, limit in self.windows.limits().items()}

    def fill(self, name: str) -> Window:
        """Take a slot with a provider, as another request would."""
        slot = self.windows.take(next(row for row in self._providers.values() if row.name == name), True)
        assert slot is not None
        return slot

    @property
    def charged(self) -> int:
        """Tokens charged to the key so far."""
        METER._collect()
        return sum(spent.tokens for spent in METER._keys.values())


_EMPTY = ModelRow("", "", "", True, "", "", "", "", "", {}, (), (), None, None, None, None, None, 0.0)


def _model(row: Any) -> ModelRow:
    return replace(
        _EMPTY, id=row.id, provider_id=row.provider_id, model_id=row.model_id, context_length=row.context_length
    )


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    made = Stage(monkeypatch)
    yield made
    await select.aclose_all()
    KEYRING.reset()
