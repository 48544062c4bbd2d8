"""A stored key that can not be decrypted: what each place says that needs it (providers 4.4)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from modelhotel.core import crypto
from providers import cache
from providers.keyring import KEYRING
from providers.kinds import registry
from providers.models import Model, Provider
from providers.quota.fetch import Fetcher
from tests.providers.conftest import Api
from tests.proxy import world
from tests.proxy.asgi import chat
from tests.upstream.server import FakeProvider

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

KEY = "sk-abcdef12"


def another_master_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crypto, "_master", b"another master key, of another start")


def _stored(**columns: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: Provider.objects.update(**columns) and None


def flipped_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in Provider.objects.all():
        sealed = bytes(row.encrypted_key or b"")
        Provider.objects.filter(pk=row.pk).update(encrypted_key=bytes([sealed[0] ^ 1]) + sealed[1:])


BROKEN = {
    "another master key": another_master_key,
    "a flipped byte": flipped_byte,
    "a short nonce": _stored(key_nonce=b"n" * 11),
    "an empty salt": _stored(key_salt=b""),
    "no nonce": _stored(key_nonce=None),
    "no salt": _stored(key_salt=None),
}
#: Those that no master key opens; the others may be the fault of the one in use.
DAMAGED = {"a short nonce", "an empty salt", "no nonce", "no salt"}


class House:
    """Providers A and B with the model m in group g, whose keys were readable when they were made."""

    state = ""

    def __init__(self, api: Api, upstream: FakeProvider, kind: str = "custom") -> None:
        self.api, self.up = api, upstream
        self.rows = [api.provider(upstream, name=name, api_key=KEY, provider_type=kind) for name in ("A", "B")]
        for row in self.rows:
            KEYRING.wait(cache.SNAPSHOT.current.providers[row["id"]])  # the warm-up after the create is through
        self.models = [world.model(row, "m") for row in Provider.objects.order_by("name")]
        world.group("g", *self.models)
        self.key = world.key()

    def lose(self, how: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
        how(monkeypatch)
        KEYRING.reset()
        world.ready()
        self.up.forget()

    @property
    def a(self) -> str:
        found: str = self.rows[0]["id"]
        return found

    def ask(self, model: str) -> tuple[int, str]:
        answer = chat(self.key, {"model": model, "messages": [{"role": "user", "content": "hi"}]})
        return answer.status, answer.json["error"]["message"]


@pytest.fixture(params=BROKEN)
def house(request, api: Api, provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> House:
    made = House(api, provider_a)
    made.lose(BROKEN[request.param], monkeypatch)
    made.state = "damaged" if request.param in DAMAGED else "unreadable"
    return made


def test_requests_name_the_cause_and_charge_nobody(house: House):
    """part of providers 24"""
    assert house.ask("hotel/g") == (502, "all 2 candidate(s) failed key decryption (wrong master key?)")
    assert house.ask("m") == (502, "all 2 candidate(s) failed key decryption (wrong master key?)")
    assert house.ask("A/m") == (502, "failed to decrypt the key of provider A (wrong master key?)")
    from failover import breaker

    assert not list(breaker.board()._circuits.providers()) and not house.up.requests


def test_scans_and_tests_fail_without_a_call(house: House):
    answer = house.api.post(f"/providers/{house.a}/discover")
    assert (answer.status_code, answer.content.decode()) == (500, "failed to discover models for provider A")
    assert Provider.objects.get(pk=house.a).last_model_fetch_error == "failed to decrypt API key"
    answer = house.api.post(f"/models/{house.models[0].pk}/test")
    assert (answer.status_code, answer.content.decode()) == (500, "failed to decrypt API key")
    assert not house.up.requests


def test_the_api_goes_on_and_says_which_keys_can_not_be_read(house: House):
    """part of providers 24"""
    untried = "damaged" if house.state == "damaged" else "ok"
    assert [row["key_state"] for row in house.api.get("/providers").json()] == [untried, untried]
    for started in KEYRING.warm():
        started.exception()
    rows = house.api.get("/providers").json()
    assert [(row["key_state"], row["masked_key"]) for row in rows] == [(house.state, "sk...12")] * 2
    assert house.api.get(f"/providers/{house.a}").json()["key_state"] == house.state
    again = house.api.put(f"/providers/{house.a}", {"api_key": KEY})
    assert (again.status_code, again.json()["key_state"]) == (200, "ok")
    KEYRING.wait(cache.SNAPSHOT.current.providers[house.a])
    assert chat(house.key, {"model": "hotel/g", "messages": []}).status == 200
    assert [call.headers["authorization"] for call in house.up.calls] == [f"Bearer {KEY}"]


def test_the_warm_up_writes_one_line_for_each_provider(house: House, caplog: pytest.LogCaptureFixture):
    for started in KEYRING.warm():
        started.exception()
    told = [r for r in caplog.records if r.name == "keycache"]
    assert {r.message for r in told} == {"keycache: decryption failed, possible wrong master key"}
    assert sorted(r.attrs["provider"] for r in told) == ["A", "B"] and {r.levelno for r in told} == {logging.ERROR}


def test_a_quota_that_can_not_be_asked_for_is_a_failure_of_that_provider(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    made = api.provider("https://openrouter.ai/api/v1", provider_type="openrouter", api_key=KEY)
    KEYRING.wait(cache.SNAPSHOT.current.providers[made["id"]])
    assert registry.get("openrouter").quota is not None
    another_master_key(monkeypatch)
    KEYRING.reset()
    fetched = asyncio.run(Fetcher().one(cache.SNAPSHOT.current.providers[made["id"]]))
    assert fetched is not None and fetched.error == "failed to decrypt API key"


def test_the_probe_of_an_edit_runs_without_the_key(api: Api, monkeypatch: pytest.MonkeyPatch):
    with FakeProvider(face="ollama") as upstream, FakeProvider(face="ollama") as moved:
        made = api.provider(upstream, provider_type="ollama", api_key=KEY)
        KEYRING.wait(cache.SNAPSHOT.current.providers[made["id"]])
        another_master_key(monkeypatch)
        KEYRING.reset()
        assert api.put(f"/providers/{made['id']}", {"base_url": moved.url}).status_code == 200
        assert moved.requests and not any("authorization" in call.headers for call in moved.requests)


def test_a_keyless_provider_has_no_key_to_be_read(api: Api, provider_a: FakeProvider):
    assert api.provider(provider_a)["key_state"] == "none"
    assert Model.objects.count() == 0
