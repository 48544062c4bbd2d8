"""Scans whose models are filled from the shipped catalogs and from models.dev."""

import logging
import threading
from dataclasses import replace
from typing import Any

import pytest

from modelhotel.core import events
from providers.discovery import catalog, modelsdev
from providers.discovery.modelsdev import ModelsDev
from providers.kinds import registry
from providers.models import DiscoveryChange, Model
from tests.providers import vendors
from tests.providers.conftest import Api
from tests.providers.sweeping import House, of_type, types
from tests.providers.test_discovery import scan_of
from tests.upstream.server import Behaviour, FakeProvider, after, hang_up, html, redirect, reply, status

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


@pytest.fixture
def enabled(settings: Any) -> None:
    settings.MH = replace(settings.MH, modelsdev_enabled=True)


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch, enabled: None) -> ModelsDev:
    """models.dev as this process would have fetched it: nothing yet."""
    made = ModelsDev()
    monkeypatch.setattr(modelsdev, "current", made.current)
    return made


def entry(name: str = "", price: float = 0.0, context: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": name, "cost": {"input": price, "output": price}, "limit": {"context": context, "output": 0}, **more}


def served(upstream: FakeProvider, behaviour: Any = None, **sections: dict[str, Any]) -> str:
    """Where *upstream* gives the document of *sections*, or answers with *behaviour*."""
    document = {name: {"id": name, "models": models} for name, models in sections.items()}
    upstream.route("GET", "/api.json", behaviour or reply(200, document))
    return f"{upstream.origin}/api.json"


def loaded(dev: ModelsDev, **sections: dict[str, Any]) -> None:
    with FakeProvider() as site:
        dev.load(served(site, **sections))


def test_a_price_moves_with_models_dev_unless_it_is_pinned(api: Api, dev: ModelsDev, monkeypatch: pytest.MonkeyPatch):
    """providers 41"""
    loaded(dev, openai={"gpt-x": entry("GPT X", 2.5)})
    with FakeProvider(models=["gpt-x", "gpt-x-2026-01-01"]) as upstream:
        made = api.provider(upstream, provider_type="openai", api_key="sk-abcdef12")
        first, dated = scan_of(api, made)["models"]
        assert (first["input_price_per_million"], dated["input_price_per_million"]) == (2.5, 2.5)
        assert first["display_name"] == "GPT X"
        api.patch(f"/models/{dated['id']}", {"input_price_per_million": 9.0})
        cheaper = ModelsDev()
        monkeypatch.setattr(modelsdev, "current", cheaper.current)
        loaded(cheaper, openai={"gpt-x": entry("GPT X", 2.0)})
        answer = scan_of(api, made)
        changes = [{"field": name, "old": 2.5, "new": 2.0} for name in ("input_price", "output_price")]
        assert answer["diff"]["updated"][0] == {"model_id": "gpt-x", "changes": changes}
        pinned = Model.objects.get(model_id="gpt-x-2026-01-01")
        assert (pinned.input_price_per_million, pinned.output_price_per_million) == (9.0, 2.5)
        silent = ModelsDev()
        monkeypatch.setattr(modelsdev, "current", silent.current)
        loaded(silent, openai={"gpt-x": entry("GPT X")})
        assert scan_of(api, made)["diff"] == {}
        assert Model.objects.get(model_id="gpt-x").input_price_per_million == 2.0
        monkeypatch.setattr(modelsdev, "current", cheaper.current)
        path = f"/models/{dated['id']}"
        cleared = api.patch(path, {"price_customized": False, "input_price_per_million": 1.0}).json()
        assert cleared["input_price_per_million"] is None
        scan_of(api, made)
        assert Model.objects.get(model_id="gpt-x-2026-01-01").input_price_per_million == 2.0


def routed(context: int) -> Any:
    """An OpenRouter listing of one model; 0 = its context is not stated."""
    text = {"modality": "text->text", "output_modalities": ["text"]}
    return reply(200, {"data": [{"id": "v/m", "architecture": text, "context_length": context}]})


def test_a_context_that_is_not_live_never_replaces_one(api: Api, dev: ModelsDev):
    """providers 40"""
    loaded(dev, openrouter={"v/m": entry(context=200000)})
    with FakeProvider() as upstream:
        upstream.route("GET", "/v1/key", reply(200, {"data": {}}))
        upstream.route("GET", "/v1/models", routed(128000))
        made = api.provider(upstream, provider_type="openrouter", api_key="sk-or-12345")
        for listed, stored, changes in (
            (128000, 128000, None),
            (0, 128000, None),  # the listing is silent, models.dev says 200000
            (131072, 131072, None),
            (200000, 200000, [{"field": "context_length", "old": 131072, "new": 200000}]),
            (128000, 128000, [{"field": "context_length", "old": 200000, "new": 128000}]),
        ):
            upstream.route("GET", "/v1/models", routed(listed))
            answer = scan_of(api, made)
            told = answer["diff"].get("updated", [{}])[0].get("changes")
            assert (answer["models"][0]["context_length"], told) == (stored, changes)


def test_a_sweep_keeps_a_live_context_too(api: Api, dev: ModelsDev, told: list[events.Event]):
    """part of providers 40. In sweeps, which tell of no enrichment."""
    loaded(dev, openrouter={"v/m": entry("M", context=200000)})
    house = House(api, told)
    with FakeProvider() as upstream:
        upstream.route("GET", "/v1/key", reply(200, {"data": {}}))
        upstream.route("GET", "/v1/models", routed(128000))
        house.provider(upstream, provider_type="openrouter", api_key="sk-or-12345")
        upstream.route("GET", "/v1/models", routed(0))
        assert types(house.sweep()) == ["discovery.complete"]
        assert Model.objects.get().context_length == 128000 and not DiscoveryChange.objects.exists()
        upstream.route("GET", "/v1/models", routed(200000))
        assert "discovery.enriched" not in types(house.sweep())
    (change,) = DiscoveryChange.objects.get().diff["updated"][0]["changes"]
    assert change == {"field": "context_length", "old": 128000, "new": 200000}


def test_a_catalog_adds_models_of_its_vendor_and_none_to_others(api: Api):
    """providers 44"""
    with FakeProvider(models=["llama-3", "GPT-4o"]) as upstream:
        found = {model["model_id"]: model for model in scan_of(api, api.provider(upstream))["models"]}
        assert set(found) == {"llama-3", "GPT-4o"}
        assert (found["GPT-4o"]["context_length"], found["llama-3"]["context_length"]) == (128000, None)
        upstream.models = ["deepseek-v4-pro"]
        made = api.provider(upstream, name="deep", provider_type="deepseek", api_key="sk-abcdef12")
        found = {model["model_id"]: model for model in scan_of(api, made)["models"]}
        assert list(found) == ["deepseek-v4-pro", "deepseek-flash", "deepseek-v4-flash"]
        assert found["deepseek-v4-flash"]["owned_by"] == "deepseek"
        upstream.models = []
        assert scan_of(api, made)["discovered"] == 0, "an empty listing is not filled from the catalog"
    assert Model.objects.count() == 5


@pytest.mark.parametrize("path", ["/api/projects/p", "", "/openai/v1"])
def test_an_azure_deployment_has_the_facts_of_its_model(api: Api, dev: ModelsDev, path: str):
    """providers 47"""
    loaded(dev, azure={"gpt-4.1-mini": entry("GPT-4.1 mini", 0.4, 1047576)})
    deployed = {"id": "my-fast", "model": "gpt-4.1-mini", "status": "succeeded", "object": "deployment"}
    with FakeProvider() as upstream:
        upstream.route("GET", "/api/projects/p/deployments", reply(200, {"value": [vendors.DEPLOYMENT]}))
        upstream.route("GET", "/openai/deployments", reply(200, {"data": [deployed]}))
        made = api.provider(upstream.origin + path, provider_type="azure", api_key="sk-abcdef12")
        (model,) = scan_of(api, made)["models"]
        chat = registry.get("azure").url(made["base_url"], "/chat/completions")
        assert chat == f"{upstream.origin}/openai/v1/chat/completions"
    assert (model["model_id"], model["context_length"], model["input_price_per_million"]) == ("my-fast", 1047576, 0.4)


def test_the_rules_of_models_dev_hold_in_a_scan(api: Api, dev: ModelsDev):
    """providers 46"""
    loaded(
        dev,
        openai={"gpt-4o": entry("GPT-4o", 2.5), "gpt-5": entry("GPT-5", 1.25), "gpt-oss-120b": entry("OSS", 0.1)},
        reseller={"glm-9": entry("GLM", 1.0)},
        zai={"glm-4.6": entry("GLM-4.6", 0.6)},
    )
    with FakeProvider(models=["gpt-4o-2024-08-06", "gpt-5-search-api"]) as upstream:
        made = api.provider(upstream, provider_type="openai", api_key="sk-abcdef12")
        prices = {model["model_id"]: model["input_price_per_million"] for model in scan_of(api, made)["models"]}
        assert prices == {"gpt-4o-2024-08-06": 2.5, "gpt-5-search-api": None}
        upstream.models = ["openai.gpt-oss-120b"]
        bedrock = api.provider(upstream, name="b", provider_type="bedrock", api_key="sk-abcdef12")
        assert scan_of(api, bedrock)["models"][0]["input_price_per_million"] == 0.1
        upstream.models = ["glm-4.6", "glm-9"]
        zai = api.provider(upstream, name="z", provider_type="zai-coding", api_key="sk-abcdef12")
        prices = {model["model_id"]: model["input_price_per_million"] for model in scan_of(api, zai)["models"]}
        assert (prices["glm-4.6"], prices["glm-9"]) == (0.6, None)
    fresh = ModelsDev()
    with FakeProvider(models=["text-embedding-3-small", "own"]) as upstream:
        fresh.load(served(upstream, hang_up()))
        found = scan_of(api, api.provider(upstream, name="down"))["models"]
    assert [model["modality"] for model in found] == ["embedding", "chat"]


def test_a_manual_scan_tells_how_many_models_were_known(api: Api, dev: ModelsDev, told: list[events.Event]):
    loaded(dev, openai={"gpt-x": entry("GPT X", 2.5)})
    with FakeProvider(models=["gpt-x", "own"]) as upstream:
        made = api.provider(upstream)
        told.clear()
        scan_of(api, made)
        assert of_type(told, "discovery.enriched") == [{"provider": "P", "enriched": 1, "total": 2}]
        upstream.models = ["own"]
        told.clear()
        scan_of(api, made)
    assert of_type(told, "discovery.enriched") == []


def test_models_without_a_price_are_named_in_one_line(api: Api, caplog: pytest.LogCaptureFixture):
    with FakeProvider(models=["gpt-x", "own", "off"]) as upstream:
        made = api.provider(upstream)
        scan_of(api, made)
        Model.objects.filter(model_id="off").update(disabled_manually=True, enabled=False)
        Model.objects.filter(model_id="gpt-x").update(output_price_per_million=0.0)
        caplog.clear()
        scan_of(api, made)
    (line,) = [record for record in caplog.records if "no price" in record.message]
    assert line.levelno == logging.WARNING and line.attrs == {"provider": "P", "count": 1, "models": ["own"]}


def test_xai_that_shows_no_listing_is_known_from_the_catalog(api: Api):
    """part of providers 28. The exception: an account without access to the listing."""
    with FakeProvider() as upstream:
        upstream.route("GET", "/v1/language-models", status(403))
        made = api.provider(upstream, provider_type="xai", api_key="xai-abcdef12")
        found = scan_of(api, made)["models"]
    assert {model["model_id"] for model in found} == set(catalog.rows("xai"))
    shown = api.get(f"/providers/{made['id']}").json()
    assert (shown["last_model_fetch_error"], shown["health"]) == ("", "healthy")


# ---------------------------------------------------------------- the document


def test_the_document_is_fetched_once_and_replaces_the_copy(dev: ModelsDev):
    with FakeProvider() as site:
        url = served(site, openai={"gpt-x": entry("GPT X", 2.5)})
        assert dev.current().everywhere.find("gpt-4o") is not None, "the shipped copy"
        threads = [threading.Thread(target=dev.load, args=(url,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(site.requests) == 1
    assert len(dev.current().everywhere) == 1


@pytest.mark.parametrize(
    "broken",
    [
        status(500),
        status(404),
        html(),
        hang_up(),
        reply(200, {"openai": {"models": {}}}),
        reply(200, []),
        redirect("http://10.0.0.1/api.json"),
    ],
)
def test_a_failure_is_one_warning_and_the_copy_stays(
    dev: ModelsDev, broken: Behaviour, caplog: pytest.LogCaptureFixture
):
    with FakeProvider() as site:
        url = served(site, broken)
        dev.load(url)
        dev.load(url)
        assert len(site.requests) == 1
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.message == "discovery: models.dev can not be read, the shipped copy stays"
    assert line.attrs["error"] and dev.current() is modelsdev.shipped()


def test_a_document_that_is_too_large_or_too_slow_is_left(
    dev: ModelsDev, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(modelsdev, "LIMIT_BYTES", 100)
    with FakeProvider() as site:
        dev.load(served(site, openai={f"m{number}": entry() for number in range(99)}))
    assert caplog.records[-1].attrs["error"] == "the document is too large"
    monkeypatch.setattr(modelsdev, "SECONDS", 0.1)
    slow = ModelsDev()
    with FakeProvider() as site:
        slow.load(served(site, after(5.0, reply(200, {}))))
    assert slow.current() is modelsdev.shipped() and len(caplog.records) == 2


def test_switched_off_nothing_is_fetched_and_nothing_is_filled(settings: Any):
    assert settings.MH.modelsdev_enabled is False
    with FakeProvider() as site:
        off = ModelsDev()
        off.load(served(site, openai={"gpt-x": entry()}))
        assert site.requests == []
    assert len(off.current().everywhere) == 0


def test_it_is_asked_at_its_own_address_through_the_guard():
    assert modelsdev.URL == "https://models.dev/api.json"
    assert (modelsdev.SECONDS, modelsdev.LIMIT_BYTES) == (15.0, 50 * 1024 * 1024)
