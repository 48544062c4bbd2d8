"""``/api/providers``: create, edit, delete, list."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connections
from django.test import Client
from django.utils import timezone

from modelhotel.core import crypto, environment, events
from modelhotel.core.actor import ADMIN
from modelhotel.core.environment import read
from modelhotel.core.faults import Refusal
from providers import cache, ports, verbs
from providers.keyring import KEYRING
from providers.kinds import registry
from providers.models import Model, Provider
from tests.providers.conftest import Api, Ports
from tests.providers.vendors import guarded
from tests.upstream.server import FakeProvider, reply, silence, status

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
OPENAI = "https://api.openai.com/v1"


def text(response: Any) -> str:
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8", response.headers
    return response.content.decode()


def use(monkeypatch: pytest.MonkeyPatch, **raw: str) -> None:
    made = read({name.upper(): value for name, value in raw.items()})
    monkeypatch.setattr(environment, "current", lambda: made)


# ---------------------------------------------------------------- create


def test_a_provider_is_created(api: Api, told: list[events.Event]):
    """providers 1"""
    made = api.post("/providers", {"name": " My Prov ", "base_url": OPENAI, "api_key": "sk-abcdef12"})
    assert made.status_code == 201
    body = made.json()
    expected = {
        "name": "My Prov",
        "base_url": OPENAI,
        "provider_type": "openai",
        "masked_key": "sk...12",
        "enabled": True,
        "autodiscovery_enabled": True,
        "quota_reserve_percent": 0,
        "max_in_flight": None,
        "inflight_limit": None,
        "last_cap": None,
        "health": "healthy",
        "health_reason": "",
        "model_count": 0,
        "total_tokens": 0,
        "last_checked_at": None,
        "scheduled_disable_on": None,
        "inventory_stale": False,
        "circuit_breaker_slow_call_threshold": None,
    }
    assert {name: body[name] for name in expected} == expected
    assert b"abcdef" not in made.content and not {"encrypted_key", "key_nonce", "key_salt"} & set(body)
    row = Provider.objects.get()
    assert crypto.open_sealed(bytes(row.encrypted_key), bytes(row.key_nonce), bytes(row.key_salt)) == "sk-abcdef12"
    assert cache.SNAPSHOT.current.provider("My-Prov").id == body["id"]
    assert [(e.type, e.metadata) for e in told] == [
        ("config.changed", {"kind": "provider", "id": body["id"], "action": "created", "actor": "admin"})
    ]
    assert api.get(f"/providers/{body['id']}").json() == body
    assert api.get("/providers").json() == [body]


def test_names_collide_in_their_routing_form(api: Api):
    """providers 2, routing 9"""
    first, second = api.provider(name="a b"), api.provider(name="x")
    clash = api.post("/providers", {"name": "a-b", "base_url": OPENAI, "provider_type": "custom"})
    assert (clash.status_code, text(clash)) == (
        409,
        "a provider with this name already exists (names must differ in more than spaces and hyphens)",
    )
    same = api.post("/providers", {"name": "a b", "base_url": OPENAI, "provider_type": "custom"})
    assert (same.status_code, text(same)) == (409, "a provider with this name already exists")
    assert api.put(f"/providers/{first['id']}", {"name": "a-b"}).status_code == 200
    assert api.put(f"/providers/{second['id']}", {"name": "a-b"}).status_code == 409
    assert api.put(f"/providers/{second['id']}", {"name": "A-b"}).status_code == 200


@pytest.mark.parametrize("spelling", ["twin name", "twin-name"])
def test_of_two_creates_at_once_one_wins(api: Api, monkeypatch: pytest.MonkeyPatch, spelling: str):
    """providers 2. Both pass the check before either is stored, so the index decides."""
    monkeypatch.setattr(verbs, "_check_name", lambda name, own: None)
    start, outcomes = threading.Barrier(2), []

    def create(name: str) -> None:
        try:
            start.wait(5)
            verbs.create(verbs.ProviderData(name, OPENAI, "custom"), ADMIN)
            outcomes.append(201)
        except Refusal as problem:
            outcomes.append(problem.status)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=create, args=(name,)) for name in ("twin name", spelling)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(outcomes) == [201, 409]
    assert Provider.objects.count() == 1


@pytest.mark.parametrize("name", ["a\u200bb", "a\nb", "a\u00a0b", "x" * 101, "   ", "a/b", ""])
def test_bad_names_are_refused(api: Api, name: str):
    """providers 3, routing 9"""
    refused = api.post("/providers", {"name": name, "base_url": OPENAI})
    assert (refused.status_code, text(refused)) == (400, "invalid name")


def test_the_name_hotel_is_reserved(api: Api):
    """providers 3"""
    refused = api.post("/providers", {"name": "Hotel", "base_url": OPENAI})
    assert (refused.status_code, text(refused)) == (400, 'name "hotel" is reserved')


@pytest.mark.parametrize("method", ["get", "delete", "put"])
def test_ids_are_checked_before_they_are_looked_up(api: Api, method: str):
    """providers 4"""
    body = {"name": "x"} if method == "put" else None
    bad = api.call(method, "/providers/not-a-uuid", body)
    assert (bad.status_code, text(bad)) == (400, "invalid provider ID")
    gone = api.call(method, "/providers/0d9e0b9e-1111-4222-8333-444455556666", body)
    assert (gone.status_code, text(gone)) == (404, "provider not found")


@pytest.mark.parametrize(
    "body",
    [
        {"name": 5},
        [],
        "{",
        '"x"',
        "null",
        b"\xff\xfe",
        {"name": None},
        {"base_url": 1},
        {"provider_type": 1},
        {"api_key": ["k"]},
        {"max_in_flight": "4"},
        {"max_in_flight": 4.0},
        {"max_in_flight": True},
        {"quota_reserve_percent": "10"},
        '{"name": "\\ud800"}',
    ],
)
def test_a_body_of_another_shape_is_one_error(api: Api, body: Any):
    """providers 5"""
    if isinstance(body, dict):
        body = {"name": "a", "base_url": OPENAI, "provider_type": "custom"} | body
    refused = api.post("/providers", body)
    assert (refused.status_code, text(refused)) == (400, "invalid request body")
    assert Provider.objects.count() == 0


def test_an_error_is_json_where_json_is_accepted(api: Api):
    refused = api.call("get", "/providers/not-a-uuid", None, Accept="application/json")
    assert refused.json() == {"error": "invalid provider ID"}


def test_a_type_must_be_known_and_most_need_a_key(api: Api):
    """providers 6"""
    unknown = api.post("/providers", {"name": "v", "base_url": OPENAI, "provider_type": "vllm"})
    assert (unknown.status_code, text(unknown)) == (400, "unknown provider_type")
    keyless = api.provider(name="k")
    assert (keyless["masked_key"], keyless["provider_type"]) == ("N/A", "custom")
    refused = api.post("/providers", {"name": "o", "base_url": OPENAI, "provider_type": "openai"})
    assert (refused.status_code, text(refused)) == (400, "api_key is required for this provider type")


def test_checks_run_in_their_order(api: Api):
    steps = [
        ({"name": "", "base_url": "", "provider_type": "?"}, "invalid name"),
        ({"name": "n", "base_url": "  ", "provider_type": "?"}, "base_url is required"),
        ({"base_url": "ftp://" + "x" * 500, "provider_type": "?"}, "unknown provider_type"),
        ({"provider_type": "openai"}, "base_url must be less than 500 characters"),
        ({"base_url": "ftp://x", "max_in_flight": 0}, "api_key is required for this provider type"),
        ({"api_key": "k" * 501}, "api_key must be less than 500 characters"),
        ({"api_key": "k\ny"}, "api_key must not contain control characters"),
        ({"api_key": "sk-1"}, "max_in_flight must be between 1 and 10000"),
        (
            {"max_in_flight": 1, "quota_reserve_percent": 15},
            "quota_reserve_percent must be 0 or a multiple of 10 up to 90",
        ),
        ({"quota_reserve_percent": 0}, "base_url must be an http or https URL with a host"),
        ({"base_url": OPENAI, "name": "taken"}, "a provider with this name already exists"),
    ]
    api.provider(name="taken")
    body: dict[str, Any] = {}
    for change, problem in steps:
        body |= change
        refused = api.post("/providers", body)
        shown = refused.json()["error"] if refused.headers["Content-Type"] == "application/json" else text(refused)
        assert shown == problem
    assert api.post("/providers", body | {"name": "free"}).status_code == 201


def test_the_type_follows_the_host_when_none_is_named(api: Api, monkeypatch: pytest.MonkeyPatch):
    """providers 7"""
    use(monkeypatch, allow_http_providers="true", allowed_provider_hosts="192.168.1.5,opencode.test")
    found = {}
    for number, url in enumerate(
        ("https://my.deepseek.com/x", "http://192.168.1.5:11434", "https://openrouter.ai/api/v1")
    ):
        made = api.post("/providers", {"name": f"n{number}", "base_url": url, "api_key": "k"})
        found[url] = made.json()["provider_type"]
    assert list(found.values()) == ["deepseek", "openai", "openrouter"]


def test_a_broken_database_check_does_not_block_a_create(api: Api, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise DatabaseError("down")

    monkeypatch.setattr(verbs, "_name_conflict", broken)
    assert api.post("/providers", {"name": "n", "base_url": OPENAI, "provider_type": "custom"}).status_code == 201


def test_a_failing_encryption_stores_nothing(api: Api, monkeypatch: pytest.MonkeyPatch):
    made = api.provider()
    monkeypatch.setattr(crypto, "_master", None)
    refused = api.post("/providers", {"name": "n", "base_url": OPENAI, "api_key": "sk-1234567"})
    assert (refused.status_code, text(refused)) == (500, 'failed to encrypt API key for provider "n"')
    refused = api.put(f"/providers/{made['id']}", {"api_key": "sk-1234567"})
    assert (refused.status_code, text(refused)) == (500, "failed to encrypt API key")
    assert Provider.objects.count() == 1


def test_a_failing_write_is_a_short_error(api: Api, monkeypatch: pytest.MonkeyPatch):
    made = api.provider()

    def broken(self: Provider, **_: object) -> None:
        raise DatabaseError("down")

    monkeypatch.setattr(Provider, "save", broken)
    monkeypatch.setattr(Provider, "delete", broken)
    refused = api.post("/providers", {"name": "n", "base_url": OPENAI, "provider_type": "custom"})
    assert (refused.status_code, text(refused)) == (500, 'failed to create provider "n"')
    refused = api.put(f"/providers/{made['id']}", {"enabled": False})
    assert (refused.status_code, text(refused)) == (500, f"failed to update provider {made['id']}")
    refused = api.delete(f"/providers/{made['id']}")
    assert (refused.status_code, text(refused)) == (500, f"failed to delete provider {made['id']}")


# ---------------------------------------------------------------- self-hosted servers


def test_a_self_hosted_server_must_be_what_it_is_said_to_be(api: Api):
    """providers 9"""
    with FakeProvider(face="lmstudio") as lmstudio, FakeProvider() as plain, FakeProvider(face="koboldcpp") as kobold:
        kobold.route("GET", "/api/extra/version", reply(200, {"result": "KoboldCpp", "version": "1.9"}))

        def refused(upstream: FakeProvider) -> dict[str, Any]:
            made = api.post("/providers", {"name": "o", "base_url": upstream.origin, "provider_type": "ollama"})
            assert made.status_code == 400
            return made.json()

        assert refused(lmstudio) == {
            "code": "provider_type_mismatch",
            "error": "the server at this address reports lmstudio, not ollama",
            "expected": "ollama",
            "detected": "lmstudio",
        }
        assert refused(plain) == {
            "code": "provider_type_unconfirmed",
            "error": "the server at this address did not answer as ollama",
            "expected": "ollama",
        }
        assert refused(kobold)["detected_version"] == "1.9"
        plain.refuse()
        assert refused(plain) == {
            "code": "provider_unreachable",
            "error": "could not reach a server at this address",
            "expected": "ollama",
        }


@pytest.mark.parametrize(("face", "path"), [("ollama", "/api/tags"), ("lmstudio", "/api/v0/models")])
def test_a_self_hosted_server_that_answers_is_stored_with_v1(api: Api, face: str, path: str):
    """providers 8"""
    with FakeProvider(face=face) as upstream:
        made = api.provider(upstream.origin + "/", provider_type=face, api_key="sk-probe1")
        assert made["base_url"] == upstream.origin + "/v1"
        probed = {request.path: request.headers.get("authorization") for request in upstream.requests}
        assert probed[path] == "Bearer sk-probe1"


def test_the_probe_carries_the_key(api: Api):
    """providers 10"""
    body = {"name": "k", "provider_type": "koboldcpp"}
    with FakeProvider() as upstream:
        version = reply(200, {"result": "KoboldCpp", "version": "1.99", "protected": True})
        upstream.route("GET", "/api/extra/version", guarded("authorization", "Bearer sk-secret1", version))
        for path in ("/api/v0/models", "/api/tags"):
            upstream.route("GET", path, status(401))
        without = api.post("/providers", body | {"base_url": upstream.origin})
        assert without.json()["code"] == "provider_type_unconfirmed"
        made = api.post("/providers", body | {"base_url": upstream.origin, "api_key": "sk-secret1"})
    assert made.status_code == 201 and made.json()["base_url"] == upstream.url


def test_one_server_is_added_once(api: Api):
    """providers 11"""
    with FakeProvider(face="lmstudio") as upstream:
        api.provider(upstream.url, name="first", provider_type="lmstudio")
        shout = upstream.url.replace("http", "HTTP") + "/"
        again = api.post("/providers", {"name": "second", "base_url": shout, "provider_type": "lmstudio"})
    assert again.status_code == 409
    assert again.json() == {
        "code": "provider_duplicate_address",
        "error": "a provider for this address already exists: first",
        "existing": "first",
    }
    for name in ("one", "two"):
        api.provider(name=name, provider_type="openai", api_key=f"sk-{name}-12345")


def test_a_rename_does_not_ask_the_server(api: Api):
    """providers 12"""
    with FakeProvider(face="ollama") as upstream:
        made = api.provider(upstream.url, provider_type="ollama")
        upstream.refuse()
        assert api.put(f"/providers/{made['id']}", {"name": "x"}).status_code == 200
        same = api.put(f"/providers/{made['id']}", {"base_url": upstream.origin, "provider_type": "ollama"})
        assert (same.status_code, same.json()["base_url"]) == (200, upstream.url)


def test_a_type_is_not_changed_to_what_the_server_is_not(api: Api):
    """providers 13"""
    with FakeProvider() as upstream:
        made = api.provider(upstream)
        refused = api.put(f"/providers/{made['id']}", {"provider_type": "ollama"})
        assert (refused.status_code, refused.json()["code"]) == (400, "provider_type_unconfirmed")
    assert api.get(f"/providers/{made['id']}").json() == made


def test_a_probe_of_a_row_under_another_master_key_goes_without_key(api: Api):
    with FakeProvider(face="ollama") as upstream:
        made = api.provider(upstream.url, api_key="sk-abcdef12")
        Provider.objects.update(key_salt=b"s" * 32)
        assert api.put(f"/providers/{made['id']}", {"provider_type": "ollama"}).status_code == 200
        assert {request.headers.get("authorization") for request in upstream.requests} == {None}


# ---------------------------------------------------------------- edit


def test_three_state_fields_are_kept_cleared_and_set(api: Api):
    """providers 14"""
    made = api.provider(max_in_flight=4)
    path = f"/providers/{made['id']}"
    assert api.put(path, {"name": "x"}).json()["max_in_flight"] == 4
    assert api.put(path, {"max_in_flight": None}).json()["max_in_flight"] is None
    for bad, problem in (
        (0, "max_in_flight must be between 1 and 10000"),
        (-1, "max_in_flight must be between 1 and 10000"),
        (10001, "max_in_flight must be between 1 and 10000"),
        ("4", "invalid request body"),
    ):
        refused = api.put(path, {"max_in_flight": bad})
        assert (refused.status_code, text(refused)) == (400, problem)
    for value, code in ((15, 400), (100, 400), (-10, 400), (90, 200), (0, 200)):
        assert api.put(path, {"quota_reserve_percent": value}).status_code == code


def test_the_ceiling_reaches_the_hot_path_and_the_learned_limit_the_answers(api: Api, monkeypatch: pytest.MonkeyPatch):
    made = api.provider(max_in_flight=4)
    path = f"/providers/{made['id']}"
    assert cache.SNAPSHOT.current.providers[made["id"]].max_in_flight == 4
    monkeypatch.setattr(ports, "inflight_limits", lambda: {made["id"]: 3})
    assert api.get(path).json()["inflight_limit"] == 3
    assert api.get("/providers").json()[0]["inflight_limit"] == 3
    assert api.put(path, {"max_in_flight": None}).json()["inflight_limit"] == 3
    assert cache.SNAPSHOT.current.providers[made["id"]].max_in_flight is None


def test_the_slow_call_threshold_of_a_provider(api: Api):
    path = f"/providers/{api.provider()['id']}"
    field = "circuit_breaker_slow_call_threshold"
    for value, stored in (("90s", "1m30s"), ("0s", "0s"), (None, None)):
        assert api.put(path, {field: value}).json()[field] == stored
    assert api.put(path, {field: "-5s"}).status_code == 400


def test_a_day_to_switch_off_on(api: Api):
    """part of providers 15. All but the day itself."""
    made = api.provider()
    path, today = f"/providers/{made['id']}", timezone.now().astimezone().date()
    assert api.put(path, {"scheduled_disable_on": today.isoformat()}).json()["scheduled_disable_on"] == str(today)
    refused = api.put(path, {"scheduled_disable_on": (today - timedelta(days=1)).isoformat()})
    assert (refused.status_code, text(refused)) == (400, "scheduled_disable_on must not be in the past")
    refused = api.put(path, {"scheduled_disable_on": "2026-02-30"})
    assert (refused.status_code, text(refused)) == (400, "invalid scheduled_disable_on")
    # Switching off by hand clears the date, in the same statement.
    assert api.put(path, {"enabled": False}).json()["scheduled_disable_on"] is None


def test_a_key_is_replaced_removed_and_trimmed(api: Api):
    """providers 16"""
    custom, openai = api.provider(api_key="sk-abcdef12"), api.provider(name="o", provider_type="openai", api_key="sk-1")
    path = f"/providers/{custom['id']}"
    before = bytes(Provider.objects.get(pk=custom["id"]).encrypted_key)
    assert api.put(path, {"api_key": "abcd"}).json()["masked_key"] == "***"
    assert bytes(Provider.objects.get(pk=custom["id"]).encrypted_key) != before
    assert api.put(path, {"api_key": " sk-abcdef12\r\n"}).json()["masked_key"] == "sk...12"
    assert KEYRING.wait(cache.SNAPSHOT.current.providers[custom["id"]]) == "sk-abcdef12"
    for key in ("sk-abc\ndef", "sk-abc\tdef"):
        refused = api.put(path, {"api_key": key})
        assert (refused.status_code, text(refused)) == (400, "api_key must not contain control characters")
    refused = api.put(path, {"api_key": "k" * 501})
    assert (refused.status_code, text(refused)) == (400, "api_key must be at most 500 characters")
    for key in ("", "  "):
        refused = api.put(f"/providers/{openai['id']}", {"api_key": key})
        assert (refused.status_code, text(refused)) == (400, "api_key is required for this provider type")
    assert api.put(path, {"api_key": ""}).json()["masked_key"] == "N/A"
    assert cache.SNAPSHOT.current.providers[custom["id"]].sealed is None
    refused = api.put(path, {"provider_type": "openai"})
    assert (refused.status_code, text(refused)) == (400, "api_key is required for this provider type")
    assert api.put(path, {"provider_type": "openai", "api_key": "sk-new-123456"}).status_code == 200


def test_a_replaced_key_is_the_one_of_the_next_request(api: Api):
    """providers 23"""
    made = api.provider(api_key="sk-first-123")
    assert KEYRING.wait(cache.SNAPSHOT.current.providers[made["id"]]) == "sk-first-123"
    api.put(f"/providers/{made['id']}", {"api_key": "sk-second-123"})
    assert KEYRING.wait(cache.SNAPSHOT.current.providers[made["id"]]) == "sk-second-123"


@pytest.mark.parametrize("url", ["", "   ", "https://" + "x" * 500])
def test_an_edit_needs_an_address_of_some_length(api: Api, url: str):
    refused = api.put(f"/providers/{api.provider()['id']}", {"base_url": url})
    assert (refused.status_code, text(refused)) == (400, "invalid base URL")


def test_an_address_is_checked_again_when_the_list_was_narrowed(api: Api, monkeypatch: pytest.MonkeyPatch):
    with FakeProvider() as upstream:
        made = api.provider(upstream)
        use(monkeypatch, allow_http_providers="true", allowed_provider_hosts="elsewhere.test")
        path = f"/providers/{made['id']}"
        refused = api.put(path, {"provider_type": "custom"})
        assert (refused.status_code, refused.json()["code"]) == (400, "provider_url_rejected")
        assert "ALLOWED_PROVIDER_HOSTS" in refused.json()["error"]
        assert api.put(path, {"name": "still editable"}).status_code == 200


def test_a_lan_server_is_refused_with_the_variables_to_set(api: Api, monkeypatch: pytest.MonkeyPatch):
    """providers 72, providers 73"""
    use(monkeypatch)
    body = {"name": "n", "base_url": "http://192.168.1.50:11434", "provider_type": "ollama"}
    refused = api.post("/providers", body)
    assert text(refused) == "base_url must use HTTPS (set ALLOW_HTTP_PROVIDERS=true for HTTP)"
    use(monkeypatch, allow_http_providers="true")
    refused = api.post("/providers", body)
    assert refused.json()["code"] == "provider_url_rejected"
    assert "add to ALLOWED_PROVIDER_HOSTS to permit" in refused.json()["error"]


def test_switching_a_provider_syncs_the_groups_and_keeps_its_models(api: Api, behind: Ports):
    """providers 18. What the providers do of it."""
    made = api.provider()
    Model.objects.create(
        provider_id=made["id"], model_id="m", price_customized=True, input_price_per_million=3.0, display_name="Mine"
    )
    before = list(Model.objects.values())
    for enabled in (False, True):
        behind.calls.clear()
        assert api.put(f"/providers/{made['id']}", {"enabled": enabled}).json()["enabled"] is enabled
        assert behind.calls == [("full_sync", None)]
        assert cache.SNAPSHOT.current.providers[made["id"]].enabled is enabled
    behind.calls.clear()
    api.put(f"/providers/{made['id']}", {"enabled": True, "name": "same"})
    assert behind.calls == []
    assert list(Model.objects.values()) == before


def test_a_failing_group_sync_does_not_fail_the_change(api: Api, behind: Ports):
    made = api.provider()
    behind.broken = True
    assert api.put(f"/providers/{made['id']}", {"enabled": False}).status_code == 200
    assert behind.named("full_sync") == [None]


def test_a_rename_is_effective_before_the_answer(api: Api):
    """providers 19. The table that requests are resolved by."""
    made = api.provider(name="My Prov")
    assert cache.SNAPSHOT.current.provider("My-Prov") is not None
    api.put(f"/providers/{made['id']}", {"name": "Main"})
    assert cache.SNAPSHOT.current.provider("My-Prov") is None
    assert cache.SNAPSHOT.current.provider("Main").id == made["id"]


# ---------------------------------------------------------------- delete and list


def test_a_deleted_provider_is_forgotten_everywhere(api: Api, behind: Ports, told: list[events.Event]):
    """part of providers 17. The order of what the other rooms are asked."""
    made = api.provider()
    Model.objects.create(provider_id=made["id"], model_id="m")
    behind.calls.clear()
    told.clear()
    assert api.delete(f"/providers/{made['id']}").status_code == 204
    assert [name for name, _ in behind.calls] == ["keys", "users", "logs", "forget", "full_sync"]
    assert {value for _, value in behind.calls} == {made["id"], None}
    assert Model.objects.count() == 0 and cache.SNAPSHOT.current.providers == {}
    assert [(e.type, e.metadata["action"]) for e in told] == [("config.changed", "deleted")]
    gone = api.delete(f"/providers/{made['id']}")
    assert (gone.status_code, text(gone)) == (404, "provider not found")


def test_the_list_is_newest_first_with_counts(api: Api, behind: Ports):
    first, second = api.provider(name="first"), api.provider(name="second")
    for number in range(3):
        Model.objects.create(provider_id=first["id"], model_id=f"m{number}", enabled=number > 0)
    behind.tokens[first["id"]] = 1234
    behind.circuits[second["id"]] = ports.CircuitHealth(provider_open=True)
    listed = api.get("/providers").json()
    assert [row["name"] for row in listed] == ["second", "first"]
    assert [(row["model_count"], row["total_tokens"]) for row in listed] == [(0, 0), (3, 1234)]
    assert [row["health"] for row in listed] == ["circuit_open", "healthy"]
    Provider.objects.filter(pk=first["id"]).update(masked_key=None, encrypted_key=b"x", key_nonce=b"y", key_salt=b"z")
    assert api.get(f"/providers/{first['id']}").json()["masked_key"] == "***"


def test_a_wrong_master_key_leaves_the_list_alone(api: Api, monkeypatch: pytest.MonkeyPatch):
    """providers 24. The list, and the key that is entered again."""
    made = api.provider(api_key="sk-abcdef12")
    KEYRING.wait(cache.SNAPSHOT.current.providers[made["id"]])  # the warm-up after the create is through
    monkeypatch.setattr(crypto, "_master", b"another master key, of another start")
    KEYRING.reset()
    assert api.get("/providers").json()[0]["masked_key"] == "sk...12"
    with pytest.raises(crypto.DecryptError):
        KEYRING.wait(cache.SNAPSHOT.current.providers[made["id"]])
    assert api.put(f"/providers/{made['id']}", {"api_key": "sk-abcdef12"}).status_code == 200
    assert KEYRING.wait(cache.SNAPSHOT.current.providers[made["id"]]) == "sk-abcdef12"


def test_only_administrators_change_and_strangers_see_nothing(api: Api):
    made = api.provider()
    stranger = Client()
    for method, path in (
        ("get", "/providers"),
        ("get", f"/providers/{made['id']}"),
        ("delete", f"/providers/{made['id']}"),
    ):
        assert getattr(stranger, method)("/api" + path).status_code == 401
    assert Provider.objects.count() == 1


def test_every_kind_can_be_created_on_its_default_address(api: Api, monkeypatch: pytest.MonkeyPatch):
    use(monkeypatch)
    for kind in registry.KINDS.values():
        if kind.default_base_url:
            made = api.provider(kind.default_base_url, name=kind.label, provider_type=kind.type, api_key="sk-123456")
            assert made["base_url"] == kind.default_base_url


def test_a_silent_server_is_unreachable_after_a_while(api: Api, monkeypatch: pytest.MonkeyPatch):
    """providers 9. Nothing answers: three questions of limited time."""
    monkeypatch.setattr("providers.probe.SECONDS", 0.2)
    with FakeProvider(face="ollama") as upstream:
        for path in ("/api/extra/version", "/api/v0/models", "/api/tags"):
            upstream.route("GET", path, silence())
        refused = api.post("/providers", {"name": "o", "base_url": upstream.url, "provider_type": "ollama"})
        assert refused.json()["code"] == "provider_unreachable"
        assert len(upstream.requests) == 3
