"""The test of a connection, before a provider is stored and after; and what leans on a provider."""

from typing import Any

import pytest

from modelhotel import wiring
from providers.models import Model, Provider
from proxy.models import VirtualKey
from tests.providers.conftest import Api, Ports
from tests.upstream.server import FakeProvider, status

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
KEY = "sk-secret-0123456789"


def test_a_draft_is_tried_with_its_key_and_nothing_is_stored(api: Api):
    with FakeProvider(models=["b", "a"]) as upstream:
        found = api.post("/providers/test", {"base_url": upstream.url, "api_key": KEY}).json()
        assert (found["success"], found["models"], found["listed"]) == (True, 2, ["b", "a"])
        assert found["provider_type"] == "openai" and found["base_url"] == upstream.url and found["duration_ms"] > 0
        assert upstream.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert not Provider.objects.exists() and not Model.objects.exists()


def test_what_is_wrong_is_told_at_once_and_without_the_key(api: Api):
    with FakeProvider(models=["a"]) as upstream:
        upstream.route("GET", "/v1/models", status(401, f"no such key: {KEY}"))
        found = api.post("/providers/test", {"base_url": upstream.url, "api_key": KEY})
        assert found.json()["success"] is False and found.json()["error"].startswith("HTTP 401")
        assert KEY not in found.content.decode()
        upstream.route("GET", "/v1/models", status(503))
        again = api.post("/providers/test", {"base_url": upstream.url, "api_key": KEY}).json()
        assert again["error"].startswith("HTTP 503") and len(upstream.requests) == 2


def test_an_empty_listing_and_a_closed_door_are_failures(api: Api):
    with FakeProvider(models=[]) as upstream:
        found = api.post("/providers/test", {"base_url": upstream.url, "provider_type": "custom"}).json()
        assert (found["success"], found["error"]) == (False, "provider returned no models")
        upstream.refuse()
        found = api.post("/providers/test", {"base_url": upstream.url, "provider_type": "custom"}).json()
        assert found["success"] is False and found["error"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "base_url is required"),
        ({"base_url": "nonsense", "api_key": "k"}, "base_url must be an http or https URL with a host"),
        ({"base_url": "https://api.openai.com/v1"}, "api_key is required for this provider type"),
        ({"base_url": "https://api.openai.com/v1", "provider_type": "x"}, "unknown provider_type"),
        ({"base_url": "https://x.example/v1", "api_key": "a\nb"}, "api_key must not contain control characters"),
        ({"base_url": "https://x.example/" + "a" * 500, "api_key": "k"}, "base_url must be less than 500 characters"),
        ({"provider_id": "7"}, "invalid provider ID"),
        ({"base_url": 7}, "invalid request body"),
    ],
    ids=["nothing", "no-url", "no-key", "type", "key", "long", "id", "shape"],
)
def test_a_draft_is_refused_as_its_create_would_be(api: Api, body: dict[str, Any], text: str):
    refused = api.post("/providers/test", body)
    assert refused.status_code == 400
    assert text in refused.content.decode()


def test_a_private_address_is_not_called(api: Api, settings: Any):
    refused = api.post("/providers/test", {"base_url": "https://10.0.0.5/v1", "api_key": "k"})
    assert refused.status_code == 400 and "ALLOWED_PROVIDER_HOSTS" in refused.json()["error"]


def test_a_stored_provider_lends_its_key(api: Api):
    with FakeProvider(models=["a"]) as upstream:
        made = api.provider(upstream, api_key=KEY)
        assert api.post(f"/providers/{made['id']}/test").json()["success"] is True
        assert upstream.requests[-1].headers["authorization"] == f"Bearer {KEY}"
        api.post("/providers/test", {"provider_id": made["id"], "api_key": ""})
        assert "authorization" not in upstream.requests[-1].headers
        api.post("/providers/test", {"provider_id": made["id"], "api_key": "sk-other"})
        assert upstream.requests[-1].headers["authorization"] == "Bearer sk-other"
        assert Provider.objects.get().last_model_fetch_at is None and not Model.objects.exists()
    assert api.post("/providers/00000000-0000-4000-8000-000000000000/test").status_code == 404


def test_a_self_hosted_server_must_answer_as_one(api: Api):
    with FakeProvider(models=["a"]) as upstream:
        refused = api.post("/providers/test", {"base_url": upstream.url, "provider_type": "ollama"})
        assert refused.status_code == 400 and refused.json()["code"] == "provider_type_unconfirmed"


def test_what_leans_on_a_provider_and_on_a_model_is_told(api: Api, behind: Ports):
    wiring._providers()
    with FakeProvider(models=["glm", "own"]) as a, FakeProvider(models=["glm"]) as b:
        one, two = (api.provider(upstream, name=name) for name, upstream in (("A", a), ("B", b)))
        for made in (one, two):
            api.post(f"/providers/{made['id']}/discover")
        VirtualKey.objects.create(name="mine", key_hash="1", key_preview="1", allowed_providers=[one["id"]])
        VirtualKey.objects.create(name="free", key_hash="2", key_preview="2", allowed_providers=None)
        assert api.get(f"/providers/{one['id']}/dependents").json() == {
            "models": 2,
            "enabled_models": 2,
            "groups": [{"display_model": "glm", "entries": 1, "remaining": 1}],
            "virtual_keys": [{"name": "mine", "only": True}],
        }
        models = {row.model_id: row.pk for row in Model.objects.filter(provider_id=one["id"])}
        leaning = {name: api.get(f"/models/{pk}/dependents").json()["groups"] for name, pk in models.items()}
        assert leaning == {"glm": [{"display_model": "glm", "entries": 1, "remaining": 1}], "own": []}
        row = Model.objects.get(provider_id=two["id"])
        api.patch(f"/models/{row.pk}", {"enabled": False})
        groups = api.get(f"/providers/{one['id']}/dependents").json()["groups"]
        assert groups == [] or groups[0]["remaining"] == 0


def test_one_model_is_read_by_its_id(api: Api):
    with FakeProvider(models=["a"]) as upstream:
        made = api.provider(upstream)
        api.post(f"/providers/{made['id']}/discover")
    row = Model.objects.get()
    assert api.get(f"/models/{row.pk}").json()["model_id"] == "a"
    assert api.get("/models/7").status_code == 400
    assert api.get("/models/00000000-0000-4000-8000-000000000000").status_code == 404


def test_the_list_leaves_the_totals_out_when_asked(api: Api, behind: Ports):
    made = api.provider()
    behind.tokens = {made["id"]: 7}
    assert api.get("/providers?totals=false").json()[0]["total_tokens"] is None
    assert api.get("/providers").json()[0]["total_tokens"] == 7
