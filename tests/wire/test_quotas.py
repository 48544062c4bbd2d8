"""Quotas in the running product: every vendor that tells one, asked at its own address, spent, kept back, topped up."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.pace import slower
from tests.upstream.server import FakeProvider, Hold, reply
from tests.upstream.vendors import BY_KIND, SAID, Vendor
from tests.upstream.vendors.world import World
from tests.wire.product import Product, eventually
from tests.wire.scraping import scrape

pytestmark = pytest.mark.slow

TELLING = [kind for kind, vendor in BY_KIND.items() if vendor.quota]
JUDGED = [kind for kind, vendor in BY_KIND.items() if vendor.judged]
SEEDED = "(account quota)"


class Plans:
    """The product among the vendors that tell a quota; each is a provider of its type's name."""

    def __init__(self, product: Product, world: World) -> None:
        self.product, self.world = product, world
        self.ids: dict[str, str] = {}
        for kind in TELLING:
            vendor = world.vendors[kind]
            body = {"name": kind, "provider_type": kind, "base_url": vendor.base_url, "api_key": vendor.key}
            self.ids[kind] = self.admin("POST", "/api/providers", json=body).json()["id"]
            self.admin("POST", f"/api/providers/{self.ids[kind]}/discover")
        self.key = self.admin("POST", "/api/virtual-keys", json={"name": "plans"}).json()["key"]

    def admin(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        return self.product.admin(method, path, **kwargs)

    def vendor(self, kind: str) -> Vendor:
        return self.world.vendors[kind]

    def refresh(self) -> dict[str, Any]:
        found: dict[str, Any] = self.admin("POST", "/api/providers/refresh-quotas").json()
        assert found["failed"] == 0, found
        return found

    def quota(self, kind: str) -> dict[str, Any]:
        shown = self.admin("GET", "/api/providers/quotas").json()["quotas"]
        return next(one for one in shown if one["provider_type"] == kind)

    def circuits(self, kind: str) -> dict[str, dict[str, Any]]:
        """The circuits of this type's provider by their model."""
        rows = self.admin("GET", "/api/failover-groups/circuit-breaker-status?detail=1").json().get("providers", [])
        return {one["model"]: one for row in rows if row["provider_id"] == self.ids[kind] for one in row["circuits"]}

    def ask(self, model: str) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "Say hello."}]}
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.post(
            f"{self.product.url}/v1/chat/completions", json=body, headers=headers, timeout=15.0, trust_env=False
        )


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plans]:
    certificates: Path = tmp_path_factory.mktemp("world")
    with World(certificates) as world, Product(tmp_path_factory.mktemp("plans"), world.environment()) as product:
        yield Plans(product, world)
        assert not world.site.lost


@pytest.mark.parametrize("kind", TELLING)
def test_what_a_vendor_tells_of_its_quota_is_read_once_and_shown(plans: Plans, kind: str):
    vendor = plans.vendor(kind)
    path = f"/api/providers/{plans.ids[kind]}/{vendor.quota}"
    first = plans.admin("GET", path)
    asked = len(vendor.requests)
    again = plans.admin("GET", path)
    assert first.json() and again.json() == first.json() and len(vendor.requests) == asked
    assert first.headers["X-Quota-Fetched-At"] == again.headers["X-Quota-Fetched-At"]
    shown = plans.quota(kind)
    assert (shown["kind"], shown["http_status"], shown["last_error"]) == (vendor.quota, 200, "")
    assert bool(shown["windows"]) is (kind != "ollama-cloud")
    assert all(window["used_percent"] is not None for window in shown["windows"]) or kind in ("openrouter", "deepseek")
    assert vendor.key not in first.text and vendor.key not in str(shown)


@pytest.mark.parametrize("kind", JUDGED)
def test_a_vendor_that_is_spent_is_dark_until_it_is_topped_up(plans: Plans, kind: str):
    vendor = plans.vendor(kind)
    vendor.spend()
    try:
        plans.refresh()
        seeded = plans.circuits(kind)[SEEDED]
        assert (seeded["state"], seeded["quota_pinned"], seeded["pin_source"]) == ("open", True, "advisor")
        assert max(window["used_percent"] for window in plans.quota(kind)["windows"]) == 100.0
        ratios = scrape(plans.product).series("modelhotel_provider_quota_used_ratio", provider=kind)
        assert {labels["window"] for labels in ratios} == {one["name"] for one in plans.quota(kind)["windows"]}
    finally:
        vendor.top_up()
    plans.refresh()
    assert SEEDED not in plans.circuits(kind)
    assert plans.ask(f"{kind}/{vendor.model}").json()["choices"][0]["message"]["content"] == SAID


def test_a_group_goes_past_a_spent_member_without_asking_it(plans: Plans):
    """The group of one model that three vendors have; two of them are spent."""
    spent = [plans.vendor(kind) for kind in ("zai-coding", "nanogpt", "opencode-go")]
    for vendor in spent:
        vendor.spend()
    try:
        plans.refresh()
        before = [len(vendor.chats) for vendor in spent]
        answer = plans.ask("hotel/glm-4.6")
        assert answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"] == SAID
        assert [len(vendor.chats) for vendor in spent] == before
        assert plans.vendor("openrouter").chats
    finally:
        for vendor in spent:
            vendor.top_up()
        plans.refresh()


def test_a_circuit_that_opens_has_its_provider_read_out_of_turn(plans: Plans):
    """The claim of one model becomes the reading of the account, within the time of one call."""
    vendor = plans.vendor("zai-coding")
    vendor.spend()
    try:
        assert plans.ask(f"zai-coding/{vendor.model}").status_code == 429
        assert eventually(lambda: plans.circuits("zai-coding")[vendor.model]["pin_source"] == "advisor")
    finally:
        vendor.top_up()
    plans.refresh()
    plans.admin("POST", f"/api/failover-groups/circuit-breaker/{plans.ids['zai-coding']}/reset")
    assert not plans.circuits("zai-coding")


def test_a_reserve_is_judged_by_the_save_and_means_nothing_to_openrouter(plans: Plans):
    """providers 69"""
    plans.refresh()
    kimi, router = (f"/api/providers/{plans.ids[kind]}" for kind in ("kimi-code", "openrouter"))
    asked = len(plans.vendor("kimi-code").requests)
    plans.admin("PUT", kimi, json={"quota_reserve_percent": 90})
    assert plans.circuits("kimi-code")[SEEDED]["pin_source"] == "reserve", "375 of 2048 are used, 18 percent"
    reserve = scrape(plans.product).of(
        "modelhotel_provider_quota_reserve_ratio", provider="kimi-code", provider_id=plans.ids["kimi-code"]
    )
    assert (plans.quota("kimi-code")["reserve_percent"], reserve) == (90, 0.9)
    plans.admin("PUT", kimi, json={"quota_reserve_percent": 80})
    assert SEEDED not in plans.circuits("kimi-code")
    assert len(plans.vendor("kimi-code").requests) == asked, "without waiting for a poll"
    plans.admin("PUT", router, json={"quota_reserve_percent": 90})
    plans.refresh()
    assert SEEDED not in plans.circuits("openrouter")
    for path in (kimi, router):
        plans.admin("PUT", path, json={"quota_reserve_percent": 0})


def test_without_the_poll_every_pin_is_gone_and_none_is_made(plans: Plans):
    """part of providers 70"""
    vendor = plans.vendor("kimi-code")
    vendor.spend()
    plans.refresh()
    assert SEEDED in plans.circuits("kimi-code")
    try:
        plans.admin("PUT", "/api/settings", json={"quota_refresh_interval_min": "0"})
        assert eventually(lambda: SEEDED not in plans.circuits("kimi-code"))
        plans.refresh()
        assert SEEDED not in plans.circuits("kimi-code")
        plans.admin("PUT", "/api/settings", json={"quota_refresh_interval_min": "5"})
        plans.refresh()
        assert SEEDED in plans.circuits("kimi-code")
    finally:
        plans.admin("PUT", "/api/settings", json={"quota_refresh_interval_min": "5"})
        vendor.top_up()
    plans.refresh()
    assert SEEDED not in plans.circuits("kimi-code")


def test_a_reading_is_kept_when_whoever_asked_for_it_has_left(plans: Plans):
    held = Hold(reply(200, {"usage": {"limit": "10", "used": "4", "resetTime": "2999-01-01T00:00:00Z"}}))
    with FakeProvider() as slow:
        slow.route("GET", "/v1/usages", held)
        body = {"name": "slow", "provider_type": "kimi-code", "base_url": slow.url, "api_key": "sk-slow-0123456789"}
        path = f"/api/providers/{plans.admin('POST', '/api/providers', json=body).json()['id']}"
        try:
            with pytest.raises(httpx.ReadTimeout):
                plans.product.api("GET", f"{path}/usage", timeout=0.5)
            assert held.reached.is_set()
            held.release()
            shown = lambda: plans.admin("GET", "/api/providers/quotas").json()["quotas"]  # noqa: E731
            assert eventually(lambda: any(one["provider_name"] == "slow" and one["windows"] for one in shown()))
            assert plans.admin("GET", f"{path}/usage").json()["usage"]["used"] == "4"
            assert len(slow.requests) == 1
        finally:
            held.release()
            plans.admin("DELETE", path)


def test_a_dead_key_is_no_reading_and_is_said_once(plans: Plans):
    vendor, path = plans.vendor("deepseek"), f"/api/providers/{plans.ids['deepseek']}"
    wrong = "sk-this-key-is-wrong-0123456789"
    plans.admin("PUT", path, json={"api_key": wrong})
    first = plans.product.api("GET", f"{path}/balance")
    assert (first.status_code, first.text) == (424, "provider key invalid or inactive for deepseek")
    assert plans.product.api("GET", f"{path}/balance").text == ""
    plans.refresh()
    assert plans.product.output.count("provider refused its key") == 1
    assert wrong not in plans.product.output
    plans.admin("PUT", path, json={"api_key": vendor.key})
    assert plans.admin("GET", f"{path}/balance").json()["is_available"] is True, "the old reading is forgotten"


def test_a_stop_does_not_wait_for_a_vendor_that_hangs(tmp_path: Path):
    held = Hold(reply(200, {}))
    with FakeProvider() as hanging, Product(tmp_path) as product:
        hanging.route("GET", "/v1/usages", held)
        body = {"name": "slow", "provider_type": "kimi-code", "base_url": hanging.url, "api_key": "sk-0123456789"}
        path = f"/api/providers/{product.api('POST', '/api/providers', json=body).json()['id']}/usage"
        try:
            with pytest.raises(httpx.ReadTimeout):
                product.api("GET", path, timeout=0.5)
            assert held.reached.is_set()
            began = time.monotonic()
            assert product.stop() == 0
            assert time.monotonic() - began < 8 * slower()
            assert "level=ERROR" not in product.output
        finally:
            held.release()
