"""A signed-in client of the admin API, ports that remember, scans that do not wait.

Modules with models are imported inside the fixtures: pytest may read this file before Django is set up.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from django.http import HttpResponse
from django.test import Client

from modelhotel.core import events
from providers import ports
from providers.keyring import KEYRING
from tests.upstream.server import FakeProvider

if TYPE_CHECKING:
    from tests.providers.sweeping import House

TOKEN = "an-admin-token-of-the-tests"


class Api:
    """``api.post("/providers", {...})`` -> the response; *data* of it is the decoded JSON."""

    def __init__(self) -> None:
        self.client = Client(headers={"Authorization": f"Bearer {TOKEN}"})

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
        raw = {} if body is None else {"data": body, "content_type": "application/json"}
        return getattr(self.client, method)("/api" + path, headers=headers, **raw)

    def get(self, path: str) -> HttpResponse:
        return self.call("get", path)

    def post(self, path: str, body: Any = None) -> HttpResponse:
        return self.call("post", path, body if body is not None else {})

    def put(self, path: str, body: Any) -> HttpResponse:
        return self.call("put", path, body)

    def patch(self, path: str, body: Any) -> HttpResponse:
        return self.call("patch", path, body)

    def delete(self, path: str) -> HttpResponse:
        return self.call("delete", path)

    def provider(self, upstream: FakeProvider | str = "https://api.openai.com/v1", **more: Any) -> dict[str, Any]:
        url = upstream if isinstance(upstream, str) else upstream.url
        body = {"name": "P", "base_url": url, "provider_type": "custom", **more}
        made = self.post("/providers", body)
        assert made.status_code == 201, made.content
        return made.json()


@pytest.fixture
def api(transactional_db: None) -> Api:
    from modelhotel.accounts import admin_token

    admin_token.store(TOKEN)
    return Api()


class Ports:
    """Everything behind the ports of the providers; remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.tokens: dict[str, int] = {}
        self.circuits: dict[str, ports.CircuitHealth] = {}
        self.caps: dict[str, ports.LastCap] = {}
        self.parts: dict[str, Any] = {}
        self.groups_off: list[ports.GroupOff] = []
        self.noted: dict[str, str] = {}
        self.broken = False

    def _note(self, name: str, value: Any = None) -> None:
        self.calls.append((name, value))
        if self.broken:
            raise RuntimeError("a broken port")

    def full_sync(self) -> None:
        self._note("full_sync")

    def sync_models(
        self, model_ids: Collection[str], *, stamp: bool = False, revalidate: bool = False
    ) -> Mapping[str, Any]:
        self._note(("stamped" if stamp else "sync_models") + (" revalidated" if revalidate else ""), list(model_ids))
        return self.parts

    def prune_models(self, ids: Collection[str]) -> None:
        self._note("prune_models", list(ids))

    def with_provider(self, provider_id: str) -> list[dict[str, Any]]:
        return []

    def with_model(self, model_uuid: str) -> list[dict[str, Any]]:
        return []

    def switched_off(self) -> list[ports.GroupOff]:
        return self.groups_off

    def load_note(self, key: str) -> str | None:
        return self.noted.get(key)

    def store_note(self, key: str, value: str) -> None:
        self._note("note", (key, value))
        self.noted[key] = value

    def drop_note(self, key: str) -> None:
        self.noted.pop(key, None)

    def keys_naming_provider(self, provider_id: str) -> list[dict[str, Any]]:
        return []

    def health(self, provider_id: str) -> ports.CircuitHealth:
        return self.circuits.get(provider_id, ports.CircuitHealth())

    def last_cap(self, provider_id: str) -> ports.LastCap | None:
        return self.caps.get(provider_id)

    def forget(self, provider_id: str) -> None:
        self._note("forget", provider_id)

    def forget_provider_in_keys(self, provider_id: str) -> None:
        self._note("keys", provider_id)

    def forget_provider_in_users(self, provider_id: str) -> None:
        self._note("users", provider_id)

    def provider_tokens(self) -> Mapping[str, int]:
        return self.tokens

    def orphan_logs(self, provider_id: str) -> None:
        self._note("logs", provider_id)

    def record_test(self, run: ports.TestRun) -> None:
        self._note("test", run)

    def named(self, name: str) -> list[Any]:
        return [value for called, value in self.calls if called == name]


@pytest.fixture(autouse=True)
def behind(monkeypatch: pytest.MonkeyPatch) -> Ports:
    made = Ports()
    for name in ("groups", "circuits", "keys", "users", "logs", "notes"):
        monkeypatch.setattr(ports, name, made)
    monkeypatch.setattr(ports, "build_chat", ports.plain_chat)
    return made


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long scans would have waited between attempts."""
    from providers.discovery import scan

    asked: list[float] = []

    async def sleep(seconds: float) -> None:
        asked.append(seconds)

    monkeypatch.setattr(scan.SCANNER, "_waits", {"sleep": sleep, "chance": lambda: 0.5})
    return asked


@pytest.fixture(autouse=True)
def _fresh_keyring() -> Iterator[None]:
    KEYRING.reset()
    yield
    KEYRING.reset()


@pytest.fixture
def told() -> list[events.Event]:
    """Every event from now on."""
    seen: list[events.Event] = []
    events.subscribe(seen.append)
    return seen


@pytest.fixture
def house(api: Api, told: list[events.Event]) -> "House":
    """Providers that are swept without waiting."""
    from tests.providers.sweeping import House

    return House(api, told)
