"""Provider changes with the real rooms behind the ports: groups, keys, accounts, the request log, circuits."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.utils import timezone

from failover import breaker
from failover.caps import CAPS
from failover.models import FailoverGroup
from modelhotel import wiring
from modelhotel.models import User
from providers import ports
from providers.models import Model
from providers.ports import LastCap
from providers.quota import store
from providers.quota.store import Fetched
from proxy.models import VirtualKey
from requestlogs.models import RequestLog
from tests.providers.conftest import Api, Ports
from tests.upstream.server import FakeProvider, reply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


@pytest.fixture
def pair(api: Api, behind: Ports) -> Any:
    """Two providers that list the same model, scanned; the ports are the product's own."""
    wiring._providers()  # the fixture *behind* puts back what was there before it
    with FakeProvider(models=["glm-4.6"]) as a, FakeProvider(models=["glm-4.6"]) as b:
        made = [api.provider(upstream, name=name) for name, upstream in (("A", a), ("B", b))]
        for one in made:
            assert api.post(f"/providers/{one['id']}/discover").status_code == 200
        yield made


def groups() -> dict[str, list[str]]:
    return dict(FailoverGroup.objects.values_list("display_model", "priority_order"))


def test_a_disabled_provider_comes_back_as_it_was(api: Api, pair: Any):
    """providers 18, routing 31"""
    first, _ = pair
    row = Model.objects.get(provider_id=first["id"])
    api.patch(f"/models/{row.pk}", {"input_price_per_million": 3.0, "display_name": "Mine"})
    before, models = groups(), list(Model.objects.order_by("pk").values())
    assert [len(order) for order in before.values()] == [2]
    api.put(f"/providers/{first['id']}", {"enabled": False})
    assert groups() == {}
    api.put(f"/providers/{first['id']}", {"enabled": True})
    assert {name: sorted(order) for name, order in groups().items()} == {n: sorted(o) for n, o in before.items()}
    assert list(Model.objects.order_by("pk").values()) == models


def test_a_deleted_provider_leaves_no_trace_but_its_history(api: Api, pair: Any):
    """part of providers 17"""
    first, second = pair
    lists = {"only": [first["id"]], "both": [first["id"], second["id"]], "free": None}
    for name, allowed in lists.items():
        VirtualKey.objects.create(name=name, key_hash=name, key_preview=name, allowed_providers=allowed)
        User.objects.create(username=name, allowed_providers=allowed)
    RequestLog.objects.create(
        request_hash="0" * 16,
        created_at=timezone.now(),
        state="completed",
        endpoint_type="chat",
        model_id="A/glm-4.6",
        provider_id=uuid.UUID(first["id"]),
        tokens_prompt=3,
        tokens_completion=4,
    )
    assert api.get(f"/providers/{first['id']}").json()["total_tokens"] == 7
    assert api.delete(f"/providers/{first['id']}").status_code == 204
    expected = {"only": [], "both": [second["id"]], "free": None}
    assert dict(VirtualKey.objects.values_list("name", "allowed_providers")) == expected
    assert dict(User.objects.filter(username__in=lists).values_list("username", "allowed_providers")) == expected
    assert RequestLog.objects.get().provider_id is None
    assert set(Model.objects.values_list("provider__name", flat=True)) == {"B"}
    assert groups() == {}
    assert api.delete(f"/providers/{first['id']}").status_code == 404


def test_a_deleted_model_leaves_its_group(api: Api, pair: Any):
    row = Model.objects.get(provider_id=pair[0]["id"])
    assert len(groups()) == 1
    assert api.post("/models/bulk-delete", {"ids": [str(row.pk)]}).json() == {"requested": 1, "deleted": 1}
    assert groups() == {}


def test_the_last_spent_429_stands_on_its_provider_until_that_is_deleted(api: Api, pair: Any):
    """part of failover-loop 57a"""
    first, second = pair
    at = datetime(2026, 10, 1, 14, 51, 0, 400_000, tzinfo=UTC)
    CAPS.note(first["id"], LastCap("session usage limit", "gpt-oss:120b", at, entitled=False))
    note = {"phrase": "session usage limit", "model": "gpt-oss:120b", "at": "2026-10-01T14:51:00Z", "entitled": False}
    assert {row["id"]: row["last_cap"] for row in api.get("/providers").json()} == {
        first["id"]: note,
        second["id"]: None,
    }
    CAPS.note(first["id"], LastCap("insufficient balance", "other", at, entitled=True))
    assert api.get(f"/providers/{first['id']}").json()["last_cap"]["entitled"] is True
    assert api.delete(f"/providers/{first['id']}").status_code == 204
    assert CAPS.last(first["id"]) is None


def test_a_model_test_is_translated_like_traffic(api: Api, behind: Ports):
    wiring._providers()
    ports.configure(logs=behind)
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    with FakeProvider() as upstream:
        upstream.route("POST", "/v1/messages", reply(200, message))
        made = api.provider(upstream.origin, provider_type="anthropic-messages", api_key="sk-ant-0001")
        row = Model.objects.create(provider_id=made["id"], model_id="claude")
        tested = api.post(f"/models/{row.pk}/test").json()
        upstream.route("POST", "/v1/messages", reply(200, {"object": "list"}))
        odd = api.post(f"/models/{row.pk}/test").json()
        sent = upstream.requests[0]
    assert (tested["success"], tested["response"]) == (True, "Hi")
    assert sent.headers["x-api-key"] == "sk-ant-0001" and sent.json["max_tokens"] == 10
    assert odd["success"] is False and odd["error"]
    well, _ = behind.named("test")
    assert (well.tokens_prompt, well.tokens_completion, well.state) == (9, 1, "completed")


def test_a_reserve_is_judged_by_the_save_alone(api: Api, behind: Ports):
    """providers 69"""
    wiring._providers()
    with FakeProvider() as upstream:
        kimi = api.provider(upstream, name="Kimi", provider_type="kimi-code", api_key="sk-kimi-0001")
        router = api.provider(upstream, name="Router", provider_type="openrouter", api_key="sk-or-0001")
        counter = {"limit": "100", "used": "85", "remaining": "15", "resetTime": "2999-01-01T00:00:00Z"}
        for made, payload in ((kimi, {"usage": counter}), (router, {"credits_total": 10, "credits_used": 10})):
            store.keep(made["id"], "usage", Fetched(payload, 200), "poll", timezone.now())

        def pins(percent: int) -> dict[str, Any]:
            for made in (kimi, router):
                path = f"/providers/{made['id']}"
                assert api.put(path, {"quota_reserve_percent": percent}).json()["quota_reserve_percent"] == percent
            rows = breaker.board().status({}, True).get("providers", [])
            return {row["provider_id"]: [one["pin_source"] for one in row["circuits"]] for row in rows}

        assert pins(10) == {}
        assert pins(90) == {kimi["id"]: ["reserve"]}
        assert pins(10) == {}
        assert upstream.requests == []
