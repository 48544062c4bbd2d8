"""Every provider type against its simulated vendor at the vendor's own address, in one running product."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.upstream.server import html, reply
from tests.upstream.vendors import BY_KIND, SAID, Vendor
from tests.upstream.vendors.world import World
from tests.wire.product import Product, eventually

pytestmark = pytest.mark.slow

#: What a client sends beside its messages: things that some vendors refuse.
ASKED = {"reasoning_effort": "low", "top_k": 3, "temperature": 0.5}
MESSAGES = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Say hello."}]
WRONG = "sk-this-key-is-wrong-0123456789"


def called(kind: str) -> str:
    return f"My-{kind}"


class Town:
    """The product among all vendors; providers are made as they are first asked for."""

    def __init__(self, product: Product, world: World) -> None:
        self.product, self.world = product, world
        self.ids: dict[str, str] = {}
        key = self.admin("POST", "/api/virtual-keys", json={"name": "town"}).json()["key"]
        headers = {"Authorization": f"Bearer {key}"}
        self.http = httpx.Client(base_url=product.url, headers=headers, timeout=15.0, trust_env=False)

    def admin(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        return self.product.admin(method, path, **kwargs)

    def vendor(self, kind: str) -> Vendor:
        return self.world.vendors[kind]

    def provider(self, kind: str) -> str:
        """The id of the provider of this type, made and discovered."""
        if kind not in self.ids:
            vendor = self.vendor(kind)
            body = {"name": called(kind), "provider_type": kind, "base_url": vendor.base_url, "api_key": vendor.key}
            self.ids[kind] = self.admin("POST", "/api/providers", json=body).json()["id"]
            self.discovered(kind)
        return self.ids[kind]

    def discovered(self, kind: str) -> set[str]:
        answer = self.admin("POST", f"/api/providers/{self.ids[kind]}/discover").json()
        return {model["model_id"] for model in answer["models"]}

    def shown(self, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = self.admin("GET", f"/api/providers/{self.ids[kind]}").json()
        return found

    def listed_well(self, kind: str) -> bool:
        """Whether the latest listing was one; what the traffic of other tests met is no part of it."""
        shown = self.shown(kind)
        errors = shown["last_model_fetch_error"] or shown["last_availability_error"]
        return not errors and not shown["inventory_stale"]

    def models(self, kind: str) -> dict[str, dict[str, Any]]:
        rows = self.admin("GET", f"/api/models?provider_id={self.ids[kind]}").json()
        texts = ("capabilities", "params", "input_modalities", "output_modalities")
        return {row["model_id"]: {**row, **{name: json.loads(row[name]) for name in texts}} for row in rows}

    def ask(self, model: str, **more: Any) -> httpx.Response:
        return self.http.post("/v1/chat/completions", json={"model": model, "messages": MESSAGES, **ASKED, **more})


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    certificates: Path = tmp_path_factory.mktemp("world")
    with World(certificates) as world, Product(tmp_path_factory.mktemp("town"), world.environment()) as product:
        found = Town(product, world)
        yield found
        found.http.close()
        assert not world.site.lost


def streamed(response: httpx.Response) -> str:
    """The text of a stream that ended as it should."""
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]", response.text
    chunks = [json.loads(line) for line in lines[:-1]]
    assert any(choice["finish_reason"] for chunk in chunks for choice in chunk["choices"])
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


def test_there_is_a_vendor_for_every_type(town: Town):
    from providers.kinds.registry import KINDS

    assert set(BY_KIND) == set(KINDS)
    presets = {kind.type: kind.default_base_url for kind in KINDS.values() if kind.default_base_url}
    assert {kind: town.vendor(kind).base_url for kind in presets} == presets


@pytest.mark.parametrize("kind", BY_KIND)
def test_what_a_vendor_lists_is_stored_as_it_says(town: Town, kind: str):
    town.provider(kind)
    vendor = town.vendor(kind)
    found = town.models(kind)
    assert vendor.listed <= set(found) if vendor.more else vendor.listed == set(found)
    row = found[vendor.model]
    assert {name: row[name] for name in vendor.facts} == vendor.facts
    assert town.listed_well(kind)
    assert not any(vendor.key and vendor.key in request.target for request in vendor.requests)


@pytest.mark.parametrize("kind", BY_KIND)
def test_a_chat_reaches_the_vendor_at_its_own_address_in_its_own_form(town: Town, kind: str):
    town.provider(kind)
    vendor = town.vendor(kind)
    for stream in (False, True):
        before = len(vendor.chats)
        answer = town.ask(f"{called(kind)}/{vendor.model}", stream=stream)
        assert answer.status_code == 200, answer.text
        text = streamed(answer) if stream else answer.json()["choices"][0]["message"]["content"]
        assert text == SAID
        [request] = vendor.chats[before:]
        assert request.extra["url"] == ((vendor.stream_url if stream else "") or vendor.chat_url)
        assert vendor.allowed(request)
        body = request.members
        assert {name: body.get(name) for name in vendor.sent} == vendor.sent
        assert not vendor.unsent & body.keys()
        assert "model" in vendor.unsent or body["model"] == vendor.model
        assert "Say hello." in request.body.decode() and called(kind) not in request.body.decode()


@pytest.mark.parametrize("kind", [kind for kind, vendor in BY_KIND.items() if vendor.key])
def test_a_dead_key_is_said_and_costs_no_model(town: Town, kind: str):
    provider = town.provider(kind)
    vendor, kept = town.vendor(kind), set(town.models(kind))
    town.admin("PUT", f"/api/providers/{provider}", json={"api_key": WRONG})
    scanned = town.product.api("POST", f"/api/providers/{provider}/discover")
    shown = town.shown(kind)
    town.admin("PUT", f"/api/providers/{provider}", json={"api_key": vendor.key})
    assert scanned.status_code == (200 if vendor.public else 500)
    error = shown["last_availability_error"]
    assert error.startswith("HTTP 40") and WRONG not in error and shown["health"] == "degraded"
    assert bool(shown["last_model_fetch_error"]) is not vendor.public
    rows = town.models(kind)
    assert set(rows) == kept and all(row["enabled"] for row in rows.values())
    assert town.discovered(kind) == kept and town.listed_well(kind)
    assert WRONG not in town.product.output


NOT_LISTINGS = {
    "a web page": html(200, "<html><body>Sign in to continue</body></html>"),
    "an error inside a 200": reply(200, {"error": {"message": "try again later"}}),
    "empty lists": reply(200, {"data": [], "models": [], "value": []}),
    "lists of nonsense": reply(200, {"data": [1, None, {}], "models": [[], {"id": 4}], "value": ["x"]}),
    "a closed door": reply(403, {"error": {"message": "forbidden"}}),
}


@pytest.mark.parametrize("case", NOT_LISTINGS)
@pytest.mark.parametrize("kind", BY_KIND)
def test_whatever_stands_in_a_listings_place_costs_no_model(town: Town, kind: str, case: str):
    """part of providers 28"""
    town.provider(kind)
    vendor, kept = town.vendor(kind), set(town.models(kind))
    vendor.instead = NOT_LISTINGS[case]
    try:
        status = town.product.api("POST", f"/api/providers/{town.ids[kind]}/discover").status_code
        shown = town.shown(kind)
        rows = town.models(kind)
        served = town.ask(f"{called(kind)}/{vendor.model}")
    finally:
        vendor.instead = None
    # xAI closes its listing to keys that may chat: what its catalog knows is all there is then.
    if (kind, case) != ("xai", "a closed door"):
        assert status in (200, 500) and shown["last_model_fetch_error"] and shown["health"] == "degraded"
    assert set(rows) == kept and all(row["enabled"] for row in rows.values())
    assert served.status_code == 200
    assert town.discovered(kind) == kept and town.listed_well(kind)


#: Kind -> what pins the circuit after one refusal in the vendor's own words, and the phrase that is told of it. ``""``:
#: nothing says that more than this request was refused, or for how long.
REFUSED = {
    "openai": ("account", "insufficient_quota"),
    "anthropic": ("response", ""),
    "anthropic-messages": ("response", ""),
    "google": ("account", "exceeded your current quota"),
    "vertex-express": ("", ""),
    "openrouter": ("response", ""),
    "deepseek": ("response", ""),
    "azure": ("", ""),
    "bedrock": ("", ""),
    "xai": ("", ""),
    "cohere": ("", ""),
    "zai-coding": ("advisor", "usage limit reached"),
    "kimi-code": ("", ""),
    "minimax": ("advisor", "insufficient balance"),
    "nanogpt": ("", ""),
    "neuralwatt": ("advisor", ""),
    "opencode-zen": ("", ""),
    "opencode-go": ("advisor", "usage limit reached"),
    "ollama-cloud": ("response", "session usage limit"),
}
HEALTHY = "custom"  # needs no key and has nothing to spend


@pytest.mark.parametrize("kind", REFUSED)
def test_a_group_goes_past_a_vendor_that_refuses_in_its_own_words_and_comes_back(town: Town, kind: str):
    provider, other = town.provider(kind), town.provider(HEALTHY)
    vendor, (pinned, phrase) = town.vendor(kind), REFUSED[kind]
    rows = {**town.models(HEALTHY), **town.models(kind)}
    entries = [rows[vendor.model]["id"], rows[town.vendor(HEALTHY).model]["id"]]
    name = f"past-{kind}"
    town.admin("POST", "/api/failover-groups", json={"display_model": name, "entry_ids": entries})

    def circuit() -> dict[str, Any]:
        told = town.admin("GET", "/api/failover-groups/circuit-breaker-status?detail=1").json().get("providers", [])
        circuits = [one for row in told if row["provider_id"] == provider for one in row["circuits"]]
        return next((one for one in circuits if one["model"] == vendor.model), {})

    vendor.spend()
    try:
        before = len(vendor.chats)
        answer = town.ask(f"hotel/{name}")
        assert answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"] == SAID
        assert len(vendor.chats) == before + 1
        assert eventually(lambda: circuit().get("pin_source", "") == pinned), circuit()
        assert (circuit().get("state") == "open") is bool(pinned)
        cap = town.shown(kind)["last_cap"]
        assert (cap["phrase"] if cap else "") == phrase
        direct = town.ask(f"{called(kind)}/{vendor.model}", stream=True)
        assert direct.status_code >= 400 and vendor.key not in direct.text
    finally:
        vendor.top_up()
    town.admin("POST", "/api/providers/refresh-quotas")
    assert circuit().get("pin_source", "") != "advisor"
    town.admin("POST", f"/api/failover-groups/circuit-breaker/{provider}/reset")
    before = len(vendor.chats)
    assert town.ask(f"hotel/{name}").status_code == 200
    assert len(vendor.chats) == before + 1 and other


def test_a_sweep_finds_every_vendor_as_it_was(town: Town):
    """One that lacked a model would list again, for a minute; a group that had lost a member would be told."""
    for kind in BY_KIND:
        town.provider(kind)
    before = {kind: town.models(kind) for kind in BY_KIND}
    swept = f'discovery: sweep complete" source=Scheduled models_pruned=0 providers={len(BY_KIND)}\n'
    town.admin("PUT", "/api/settings", json={"discovery_interval": "1s"})
    try:
        assert eventually(lambda: town.product.output.count(swept) >= 2, 30.0)
    finally:
        town.admin("PUT", "/api/settings", json={"discovery_interval": "0"})
    stamps = ("last_seen_at",)
    for kind, rows in before.items():
        after = town.models(kind)
        assert {name: {**row, **dict.fromkeys(stamps)} for name, row in after.items()} == {
            name: {**row, **dict.fromkeys(stamps)} for name, row in rows.items()
        }
    assert town.admin("GET", "/api/providers/status").json()["summary"]["total"] == len(BY_KIND)
    assert all(map(town.listed_well, BY_KIND))
    assert not town.admin("GET", "/api/discovery/status").json()["claim_count"]


def test_the_command_asks_every_vendor_beside_the_server(town: Town):
    for kind in BY_KIND:
        town.provider(kind)
    done = town.product.manage("discover_models")
    assert done.returncode == 0, done.stderr
    for kind in BY_KIND:
        number = len(town.models(kind))
        assert f"{called(kind)}: {number} model{'' if number == 1 else 's'}\n" in done.stdout
