"""The page Providers in a real browser: added, tried, discovered, changed, switched off, deleted, and kept current."""

import json
import re
import sqlite3
import time
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.pace import slower
from tests.pages.cards import KEY, PAGE, add, card, dialog
from tests.upstream.server import FakeProvider, Hold, answer, reply, status
from tests.wire.product import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.timeout(60, func_only=True),
    pytest.mark.usefixtures("alpha_and_beta"),
]


def names(page: Page) -> list[str]:
    return page.locator("article.mh-provider h3").all_inner_texts()


def test_a_newcomer_adds_a_provider_and_gets_its_models(hotel, page):
    """Issue: somebody adds a provider without documentation. operations 3.3."""
    began = time.monotonic()
    with FakeProvider(["story-1", "story-2"]) as fake:
        page.goto(f"{hotel.url}/")
        page.get_by_role("link", name="Providers", exact=True).first.click()
        page.wait_for_url(f"**{PAGE}")
        page.get_by_role("button", name="+ Add Provider").click()
        page.get_by_label("Base address").fill(fake.url)
        page.get_by_label("API key").fill(KEY)
        page.get_by_label("Name", exact=True).fill("Story")
        page.get_by_role("button", name="Test connection").click()
        expect(dialog(page).get_by_text("It works: 2 models in")).to_be_visible()
        expect(dialog(page).get_by_text("story-1, story-2")).to_be_visible()
        assert [row["name"] for row in hotel.product.api("GET", "/api/providers").json()] == ["Beta", "Alpha"]
        page.keyboard.press("Enter")
        dialog(page).get_by_role("button", name="Add Provider").click()
        expect(page.get_by_role("heading", name="Story: 2 models found")).to_be_visible()
        expect(dialog(page).locator(".mh-found")).to_contain_text("Added 2")
        assert {call.headers["authorization"] for call in fake.requests} == {f"Bearer {KEY}"}
        expect(card(page, "Story")).to_contain_text("sk...ef")
        assert KEY not in page.content()
        dialog(page).get_by_role("link", name="Show models").click()
        expect(page.get_by_text("Story/story-2")).to_be_visible()
    assert time.monotonic() - began < 60


def test_a_type_brings_its_address_and_shows_what_it_needs(hotel, page):
    page.goto(f"{hotel.url}{PAGE}")
    page.get_by_role("button", name="+ Add Provider").click()
    url, kind, name = (
        page.get_by_label("Base address"),
        page.get_by_label("Type"),
        page.get_by_label("Name", exact=True),
    )
    kind.select_option(label="DeepSeek")
    expect(url).to_have_value("https://api.deepseek.com/v1")
    expect(url).to_have_attribute("readonly", "")
    expect(name).to_have_value("DeepSeek")
    expect(page.get_by_label("API key", exact=True)).to_be_focused()
    page.get_by_role("button", name="Other address").click()
    expect(url).to_be_editable()
    kind.select_option(label="Ollama")
    expect(url).to_have_value("")
    expect(url).to_have_attribute("placeholder", "http://192.168.1.50:11434")
    expect(page.get_by_label("API key (optional)")).to_be_visible()
    expect(name).to_have_value("Ollama")
    kind.select_option(label="By the address")
    url.fill("https://openrouter.ai/api/v1")
    expect(page.get_by_text("Spoken to as OpenRouter.")).to_be_visible()
    expect(name).to_have_value("OpenRouter")
    url.fill(hotel.a.url)
    expect(
        page.get_by_text("A server of your own? Choose Ollama, LM Studio, KoboldCPP or Custom above.")
    ).to_be_visible()
    expect(page.get_by_text("Alpha has the same address; that is fine with another key.")).to_be_visible()
    page.mouse.click(5, 5)
    expect(dialog(page)).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog(page)).to_have_count(0)
    expect(page.get_by_role("button", name="+ Add Provider")).to_be_focused()


def test_what_is_refused_stands_beside_its_field_and_the_input_stays(hotel, rough_page):
    """providers 2 and 3, providers 72: the server's own words, and what to set for a private address"""
    page = rough_page
    page.goto(f"{hotel.url}{PAGE}?add=1")
    url, name = page.get_by_label("Base address"), page.get_by_label("Name", exact=True)
    go = dialog(page).get_by_role("button", name="Add Provider")

    def beside(field: str) -> Any:
        return dialog(page).locator(f"[data-field={field}] .mh-error")

    name.fill("Alpha")
    url.fill(hotel.a.url)
    go.click()
    expect(beside("api_key")).to_have_text("api_key is required for this provider type")
    page.get_by_label("API key").fill(KEY)
    go.click()
    expect(beside("name")).to_have_text("a provider with this name already exists")
    expect(beside("api_key")).to_have_text("")
    expect(name).to_be_focused()
    name.fill("hotel")
    go.click()
    expect(beside("name")).to_have_text('name "hotel" is reserved')
    name.fill("")
    go.click()
    expect(beside("name")).to_contain_text("A provider needs a name")
    expect(name).to_have_value("localhost")  # suggested, by the address
    name.fill("Lan")
    url.fill("http://192.168.1.50:8000/v1")
    page.get_by_role("button", name="Test connection").click()
    expect(beside("base_url")).to_contain_text("ALLOWED_PROVIDER_HOSTS")
    expect(beside("base_url").locator("pre")).to_have_text(
        "ALLOW_HTTP_PROVIDERS=true\nALLOWED_PROVIDER_HOSTS=192.168.1.50"
    )
    expect(url).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("API key")).to_have_value(KEY)
    page.get_by_label("Type").select_option(label="Ollama")
    url.fill(hotel.a.url)
    go.click()
    expect(beside("base_url")).to_contain_text("the server at this address did not answer as ollama")


FIELDS = {
    "invalid name": "name",
    'name "hotel" is reserved': "name",
    "a provider with this name already exists (names must differ in more than spaces and hyphens)": "name",
    "base_url is required": "base_url",
    "invalid base URL": "base_url",
    "base_url must use HTTPS (set ALLOW_HTTP_PROVIDERS=true for HTTP)": "base_url",
    "loopback addresses are not allowed as provider URLs (add to ALLOWED_PROVIDER_HOSTS to permit)": "base_url",
    'host "x" resolves to private/reserved address 10.0.0.5: not allowed as provider URL': "base_url",
    "a provider for this address already exists: Box": "base_url",
    "could not reach a server at this address": "base_url",
    "the server at this address reports lmstudio, not ollama": "base_url",
    "unknown provider_type": "provider_type",
    "api_key must not contain control characters": "api_key",
    "max_in_flight must be between 1 and 10000": "max_in_flight",
    "api_key must be at most 500 characters": "api_key",
    'failed to create provider "x"': "",
}
TO_SET = [
    ("http://localhost:1234", "base_url must use HTTPS (set ALLOW_HTTP_PROVIDERS=true for HTTP)",
     ["ALLOW_HTTP_PROVIDERS=true", "ALLOWED_PROVIDER_HOSTS=localhost"]),
    ("http://x.example/v1", "base_url must use HTTPS (set ALLOW_HTTP_PROVIDERS=true for HTTP)",
     ["ALLOW_HTTP_PROVIDERS=true"]),
    ("https://10.0.0.5/v1", "... (add to ALLOWED_PROVIDER_HOSTS to permit)", ["ALLOWED_PROVIDER_HOSTS=10.0.0.5"]),
    ("https://x.example", "invalid name", []),
]  # fmt: skip
TYPES = {
    "https://openrouter.ai/api/v1": "openrouter",
    "https://EU.openrouter.ai/x": "openrouter",
    "https://openrouter.ai.evil.example": "openai",
    "https://OpenRouter.AI./api/v1": "openrouter",
    "https://r.services.ai.azure.com/api/projects/p": "azure",
    "https://us-central1-aiplatform.googleapis.com": "vertex-express",
    "https://generativelanguage.googleapis.com/v1beta/openai": "google",
    "https://opencode.ai/zen/go/v1": "opencode-go",
    "https://opencode.ai/zen/v1": "opencode-zen",
    "https://opencode.ai": "openai",
    "https://bedrock-mantle.us-east-1.api.aws/v1": "bedrock",
    "http://127.0.0.1:11434": "openai",
    "openrouter.ai": "",
    "": "",
}


#: What the form starts a name with, by the address.
NAMES = {
    "192.168.1.50": "192.168.1.50",
    "fd00::1": "fd00::1",
    "127.0.0.1": "localhost",
    "::1": "localhost",
    "localhost": "localhost",
    "api.example.com": "example",
    "": "",
}
WRONG_NAMES = {
    "": "needs a name",
    "   ": "needs a name",
    "a/b": "slash",
    "a\u200bb": "cannot be seen",
    "a\u00a0b": "cannot be seen",
    "a\nb": "cannot be seen",
    " a b-\u00fc ": "",
}


def test_the_form_knows_fields_types_names_and_what_to_set(hotel, page):
    """Every refusal of a create or edit finds its field; providers 7 for the types, 1.2 for the names"""
    page.goto(f"{hotel.url}{PAGE}")
    found = page.evaluate(
        """async ([fields, sets, types, hosts, names]) => {
        const it = await import("/static/modelhotel/app/providers/fields.js");
        const { rules } = JSON.parse(document.getElementById("providers-data").textContent);
        return [
          fields.map((text) => it.fieldOf(text)),
          sets.map(([address, text]) => it.toSet(address, text)),
          types.map((address) => it.typeOf(address, rules)),
          it.freeName("Open AI", ["Open-AI", "Open AI 2"]),
          ["localhost", "10.1.2.3", "172.20.0.1", "172.32.0.1", "fd00::1", "api.x.ai"].map(it.isPrivate),
          hosts.map(it.nameOf),
          names.map(it.nameProblem),
        ];}""",
        [list(FIELDS), TO_SET, list(TYPES), list(NAMES), list(WRONG_NAMES)],
    )
    assert dict(zip(FIELDS, found[0], strict=True)) == FIELDS
    assert found[1] == [lines for _, _, lines in TO_SET]
    assert dict(zip(TYPES, found[2], strict=True)) == TYPES
    assert found[3] == "Open AI 3"
    assert found[4] == [True, True, True, False, True, False]
    assert dict(zip(NAMES, found[5], strict=True)) == NAMES
    for said, part in zip(found[6], WRONG_NAMES.values(), strict=True):
        assert part in said and bool(said) == bool(part)


def test_a_card_tells_open_from_probe_due_and_from_skipped(hotel, page):
    """Section 3.3 of operations: the circuit's state, in the words of the status API."""
    page.goto(f"{hotel.url}{PAGE}")
    found = page.evaluate(
        """async () => {
        const { card } = await import("/static/modelhotel/app/providers/card.js");
        const [provider] = await (await fetch("/api/providers")).json();
        const row = (state, more) => ({ state, provider_open: false, circuits: [{ model: "m", state }], ...more });
        const dark = [row("open", { open_models: ["m"] }), row("open", { provider_open: true })];
        const chips = (circuits) => card(provider, { circuits }).querySelector(".mh-chips").textContent;
        return [row("closed"), row("half-open"), ...dark].map(chips);
        }"""
    )
    assert ["probe due" in text for text in found] == [False, True, False, False]
    assert ["1 circuit open" in text for text in found] == [False, False, True, False]
    assert ["skipped as a whole" in text for text in found] == [False, False, False, True]


def test_an_edit_sends_what_changed_and_a_blank_key_stays(hotel, page):
    """providers 16 and 19 on the page: the key is never shown back"""
    with FakeProvider(["m"]) as fake:
        add(hotel, "Keep", fake.url)
        page.goto(f"{hotel.url}{PAGE}")
        sent: list[Any] = []
        page.on("request", lambda one: one.method == "PUT" and sent.append(one.post_data_json))
        page.get_by_role("button", name="Edit Keep").click()
        key = page.get_by_label("API key (optional)")
        expect(key).to_have_value("")
        expect(key).to_have_attribute("placeholder", "stored: sk...ef")
        page.get_by_label("Name", exact=True).fill("Kept")
        page.get_by_role("button", name="Test connection").click()
        expect(dialog(page).get_by_text("It works: 1 model in")).to_be_visible()
        page.get_by_role("button", name="Save").click()
        expect(card(page, "Kept")).to_be_visible()
        assert sent == [{"name": "Kept"}]
        assert fake.requests[-1].headers["authorization"] == f"Bearer {KEY}"
        page.get_by_role("button", name="Edit Kept").click()
        page.get_by_label("Remove the stored key").check()
        page.get_by_role("button", name="Save").click()
        expect(card(page, "Kept")).to_contain_text("Keynone")
        assert sent[1] == {"api_key": ""}


def test_a_ceiling_is_set_refused_beside_its_field_and_cleared_and_a_learned_limit_stands_on_the_card(
    hotel, rough_page
):
    page = rough_page
    with FakeProvider(["m"]) as fake:
        made = add(hotel, "Narrow", fake.url, max_in_flight=2)
        page.goto(f"{hotel.url}{PAGE}")
        page.get_by_role("button", name="Edit Narrow").click()
        most = page.get_by_label("Most requests at once")
        expect(most).to_have_value("2")
        for bad in ("0", "many"):
            most.fill(bad)
            page.get_by_role("button", name="Save").click()
            told = dialog(page).locator('[data-field="max_in_flight"] .mh-error')
            expect(told).to_have_text("max_in_flight must be between 1 and 10000")
        most.fill("")
        page.get_by_role("button", name="Save").click()
        expect(dialog(page)).to_have_count(0)
        assert hotel.product.api("GET", f"/api/providers/{made}").json()["max_in_flight"] is None
        hotel.product.api("POST", f"/api/providers/{made}/discover")
        fake.script(status(429, {"error": {"message": "too many concurrent requests"}}))
        hotel.chat("Narrow/m")
        page.reload()
        expect(card(page, "Narrow").locator(".mh-chips")).to_contain_text("at most 1 at once")


def test_a_card_says_when_its_provider_was_last_checked(hotel, page):
    """circuit-breaker 76a. On the card: the later of listing and access, and each recheck while it is down."""
    with FakeProvider(["m"]) as fake:
        made = hotel.add_provider("Watched", fake)
        fake.route("GET", "/v1/models", status(401))
        hotel.product.api("POST", f"/api/providers/{made}/discover")
        checked = (
            "from datetime import timedelta; from django.utils import timezone; from providers.models import Provider; "
            "now = timezone.now(); Provider.objects.filter(name='Watched').update("
            "last_model_fetch_at=now - timedelta(hours=5), last_availability_at=now - timedelta(hours=2))"
        )
        hotel.product.api("PUT", "/api/settings", json={"provider_recheck_interval": "0"})
        try:
            done = hotel.product.manage("shell", "-c", checked)
            assert done.returncode == 0, done.stderr
            page.goto(f"{hotel.url}{PAGE}")
            line = (
                card(page, "Watched").locator("dt", has_text="Last checked").locator("xpath=following-sibling::dd[1]")
            )
            expect(line).to_have_text("2 h ago")
            hotel.product.api("PUT", "/api/settings", json={"provider_recheck_interval": "5s"})
            shown = lambda: hotel.product.api("GET", f"/api/providers/{made}").json()["last_checked_at"]  # noqa: E731
            first = shown()
            assert eventually(lambda: shown() > first, 20)
            page.reload()
            expect(line.locator("time")).to_be_visible()
            assert line.locator("time").get_attribute("datetime") > first
        finally:
            hotel.product.api("PUT", "/api/settings", json={"provider_recheck_interval": "60s"})
            hotel.product.api("DELETE", f"/api/providers/{made}")


def test_a_card_tests_its_connection_and_says_why_it_failed(hotel, page):
    with FakeProvider(["m"]) as fake:
        add(hotel, "Tried", fake.url)
        page.goto(f"{hotel.url}{PAGE}")
        page.get_by_role("button", name="Test Tried").click()
        expect(card(page, "Tried").get_by_role("status")).to_contain_text("It works: 1 model in")
        fake.route("GET", "/v1/models", status(401, f"bad key {KEY}"))
        page.get_by_role("button", name="Test Tried").click()
        told = card(page, "Tried").get_by_role("status")
        expect(told).to_contain_text("HTTP 401")
        expect(told).to_contain_text("The provider refused the key.")
        assert KEY not in page.content()


def test_a_card_asks_a_model_on_the_way_that_requests_take(hotel, page):
    with FakeProvider(["text-embedding-3-small", "talk"]) as fake:
        fake.script(answer("hello"), status(402, {"error": {"message": "pay first"}}))
        made = add(hotel, "Asked", fake.url)
        page.goto(f"{hotel.url}{PAGE}")
        told = card(page, "Asked").get_by_role("status")
        page.get_by_role("button", name="Test Asked").click()
        expect(told).to_contain_text("It works: 2 models in")
        expect(page.get_by_role("button", name="Ask a model")).to_have_count(0)  # none is known yet
        hotel.product.api("POST", f"/api/providers/{made}/discover")
        page.get_by_role("button", name="Test Asked").click()
        page.get_by_role("button", name="Ask a model").click()
        expect(told).to_contain_text("talk answered in")
        assert [call.json["model"] for call in fake.calls] == ["talk"]
        page.get_by_role("button", name="Test Asked").click()
        page.get_by_role("button", name="Ask a model").click()
        expect(told).to_contain_text("talk failed after")
        expect(told).to_contain_text("pay first")


def test_a_discovery_shows_what_it_found_and_what_is_missing(hotel, rough_page):
    page = rough_page
    with FakeProvider(["old", "stays"]) as fake:
        made = add(hotel, "Scan", fake.url)
        hotel.product.api("POST", f"/api/providers/{made}/discover")
        fake.models = ["stays", "new"]
        page.goto(f"{hotel.url}{PAGE}")
        page.get_by_role("button", name="Discover Models Scan").click()
        expect(page.get_by_role("heading", name="Scan: 2 models found")).to_be_visible()
        found = dialog(page).locator(".mh-found")
        expect(found).to_have_count(2)
        expect(found.nth(0)).to_contain_text("Added 1new")
        expect(found.nth(1)).to_contain_text("Suspicious: not listed any more, kept for now 1old")
        dialog(page).get_by_role("button", name="Close").click()
        fake.route("GET", "/v1/models", status(404, "nothing here"))
        page.get_by_role("button", name="Discover Models Scan").click()
        expect(card(page, "Scan")).to_contain_text("HTTP 404: nothing here")
        expect(card(page, "Scan")).to_contain_text("Last discoveryjust now failed")
        expect(card(page, "Scan")).to_contain_text("Degraded")
        expect(card(page, "Scan")).to_contain_text("Healthlatest refresh failed, previous models still available")
        expect(card(page, "Scan")).to_contain_text("Stale inventory since")


def test_discovering_all_follows_each_provider(hotel, page):
    """operations 3.3: per-provider progress from live events"""
    hold = Hold(reply(200, {"object": "list", "data": [{"id": "slow-1"}]}))
    with FakeProvider(["x"]) as slow:
        slow.route("GET", "/v1/models", hold)
        add(hotel, "Slow", slow.url)
        page.goto(f"{hotel.url}{PAGE}")
        page.get_by_role("button", name="Discover All Models").click()
        line = page.locator("#discovery-lines li")
        expect(line.filter(has_text="Alpha")).to_contain_text("2 models")
        expect(line.filter(has_text="Beta")).to_contain_text("2 models")
        expect(line.filter(has_text="Slow")).to_contain_text("asking…")
        expect(page.locator("#discovery-count")).to_have_text("2 of 3 done")
        expect(page.get_by_role("button", name="Discover All Models")).to_be_disabled()
        hold.release()
        expect(page.get_by_role("heading", name="5 models of 3 providers")).to_be_visible()
        expect(dialog(page).locator(".mh-found-provider").filter(has_text="Slow")).to_contain_text("slow-1")
        expect(page.locator("#discovery")).to_be_hidden()


def test_disabling_and_deleting_name_what_depends_on_the_provider(hotel, page):
    """operations 2.3, providers 17 and 18 on the page"""
    with FakeProvider(["glm-4.6", "own"]) as fake:
        made = add(hotel, "Leaned", fake.url)
        hotel.product.api("POST", f"/api/providers/{made}/discover")
        key = hotel.product.api("POST", "/api/virtual-keys", json={"name": "only", "allowed_providers": [made]}).json()
        page.goto(f"{hotel.url}{PAGE}")
        switch = card(page, "Leaned").get_by_role("switch")
        switch.click()
        expect(dialog(page)).to_contain_text("2 models will not be routed to")
        expect(dialog(page)).to_contain_text("Failover group hotel/glm-4.6: 1 member of this provider, 2 other members")
        dialog(page).get_by_role("button", name="Cancel").click()
        expect(switch).to_have_attribute("aria-checked", "true")
        switch.click()
        dialog(page).get_by_role("button", name="Disable").click()
        expect(switch).to_have_attribute("aria-checked", "false")
        expect(card(page, "Leaned").locator(".mh-chips")).to_contain_text("Disabled")
        expect(page.get_by_role("button", name="Discover Models Leaned")).to_be_disabled()
        assert hotel.chat("Leaned/own").status_code == 404
        switch.click()
        expect(switch).to_have_attribute("aria-checked", "true")
        assert eventually(lambda: hotel.chat("Leaned/own").status_code == 200)  # the switch turns before its answer
        page.get_by_role("button", name="Delete Leaned").click()
        expect(dialog(page)).to_contain_text("2 models with their prices and edits")
        expect(dialog(page)).to_contain_text("Virtual key only: may then use no provider at all")
        expect(dialog(page).get_by_role("button", name="Delete")).not_to_be_focused()
        dialog(page).get_by_role("button", name="Delete").click()
        expect(card(page, "Leaned")).to_have_count(0)
        assert hotel.product.api("GET", f"/api/providers/{made}").status_code == 404
        hotel.product.api("DELETE", f"/api/virtual-keys/{key['key_id'] if 'key_id' in key else key['id']}")


def test_what_others_change_and_what_circuits_do_arrives_within_a_second(hotel, page):
    """operations 41a and 56 for this page: no reload, and what is typed in a dialog stays"""
    with FakeProvider(["live-1", "live-2"]) as fake:
        page.goto(f"{hotel.url}{PAGE}")
        expect(card(page, "Alpha")).to_be_visible()
        page.wait_for_function("import('/static/modelhotel/app/live.js').then((live) => live.state() === 'live')")
        made = add(hotel, "Fresh", fake.url)
        expect(card(page, "Fresh")).to_be_visible(timeout=1000 * slower())
        hotel.product.api("POST", f"/api/providers/{made}/discover")
        expect(card(page, "Fresh")).to_contain_text("2 models", timeout=1500 * slower())
        fake.script(status(500))
        for _ in range(5):
            hotel.chat("Fresh/live-1")
        expect(card(page, "Fresh").locator(".mh-chips")).to_contain_text(
            "1 circuit open, next try in", timeout=1500 * slower()
        )
        for _ in range(5):
            hotel.chat("Fresh/live-2")
        expect(card(page, "Fresh").locator(".mh-chips")).to_contain_text("skipped as a whole", timeout=1500 * slower())
        expect(card(page, "Fresh").locator(".mh-chips")).to_contain_text("Circuit open", timeout=1500 * slower())
        page.get_by_role("button", name="Edit Fresh").click()
        page.get_by_label("Name", exact=True).fill("Typed")
        hotel.product.api("PUT", f"/api/providers/{made}", json={"name": "Renamed"})
        expect(dialog(page).get_by_text("was changed elsewhere")).to_be_visible(timeout=1500 * slower())
        expect(page.get_by_label("Name", exact=True)).to_have_value("Typed")
        page.keyboard.press("Escape")
        expect(card(page, "Renamed")).to_be_visible()


def test_filter_and_order_are_in_the_address(hotel, page):
    """operations 2.3: linked, taken back, cleared; a slash goes to the filter"""
    page.goto(f"{hotel.url}{PAGE}")
    assert names(page) == ["Beta", "Alpha"]
    page.get_by_label("Sort by").select_option(label="Name")
    expect(page).to_have_url(re.compile(r"\?sort=name$"))
    assert names(page) == ["Alpha", "Beta"]
    page.locator("body").press("/")
    page.keyboard.type("bet")
    expect(page).to_have_url(re.compile(r"\?q=bet&sort=name$"))
    expect(page.locator("article.mh-provider h3")).to_have_text(["Beta"])
    page.reload()
    expect(page.locator("article.mh-provider h3")).to_have_text(["Beta"])
    page.get_by_label("Filter by name").fill("nobody")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?q=nobody&sort=name$"))  # a reading may draw it before that
    page.locator("#provider-empty-clear").click()
    expect(page.locator("article.mh-provider")).to_have_count(2)
    page.go_back()
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    expect(page.get_by_role("link", name="Plain list")).to_have_attribute("href", "/providers/provider/")


def test_a_hostile_name_is_text(hotel, page):
    """operations 59"""
    name = "<img src=x onerror=alert(1)>"
    with FakeProvider(["<b>bold"]) as fake:
        made = add(hotel, name, fake.url)
        hotel.product.api("POST", f"/api/providers/{made}/discover")
        for address, where in ((PAGE, "article h3"), ("/models/", "#model-table td")):
            page.goto(f"{hotel.url}{address}")
            expect(page.locator(where).get_by_text(name, exact=True).first).to_be_visible()
            assert page.locator("#content-main img, #main img").count() == 0


def test_a_viewer_reads_everything_and_changes_nothing(hotel, viewer_page):
    """operations 55b"""
    page = viewer_page
    page.goto(f"{hotel.url}{PAGE}")
    expect(card(page, "Alpha")).to_contain_text(hotel.a.url)
    expect(card(page, "Alpha").get_by_role("switch")).to_be_disabled()
    for name in ("+ Add Provider", "Discover All Models", "Edit Alpha", "Delete Alpha", "Test Alpha"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    refused = page.request.post(f"{hotel.url}/api/providers/test", data=json.dumps({}))
    assert refused.status == 403


def test_an_answer_goes_through_what_was_added(hotel):
    """The same path as traffic: what the test said works, works."""
    with FakeProvider(["talk"]) as fake:
        fake.script(answer("from the new one"))
        made = add(hotel, "Talk", fake.url)
        assert hotel.product.api("POST", f"/api/providers/{made}/test").json()["success"] is True
        hotel.product.api("POST", f"/api/providers/{made}/discover")
        assert hotel.chat("Talk/talk").json()["choices"][0]["message"]["content"] == "from the new one"


def test_a_spent_quota_is_noted_on_the_card_of_a_provider_without_a_usage_reading(hotel, page):
    """part of failover-loop 57a. The badge of a usage reading comes with the quota readers."""
    with FakeProvider(["gpt-oss:120b"]) as fake:
        made = add(hotel, "Cloud", fake.url)
        hotel.product.api("POST", f"/api/providers/{made}/discover")

        def spent(words: str, **headers: str) -> str:
            fake.script(status(429, {"error": {"message": words}}, headers=headers))
            assert hotel.chat("Cloud/gpt-oss:120b").status_code == 429
            page.goto(f"{hotel.url}{PAGE}")
            at = hotel.product.api("GET", f"/api/providers/{made}").json()["last_cap"]["at"]
            return str(page.evaluate("at => new Date(at).toTimeString().slice(0, 5)", at))

        at = spent("session usage limit")
        note = card(page, "Cloud").get_by_text("no usage API")
        expect(note).to_have_text(f"no usage API · cap hit {at}")
        title = f'last cap message: "session usage limit" at {at} (from a 429 on gpt-oss:120b)'
        expect(note).to_have_attribute("title", title)
        at = spent("insufficient balance")
        expect(note).to_have_text(f"no usage API · balance spent {at}")
        at = spent("later", **{"Retry-After": "3600"})
        expect(note).to_have_text(f"no usage API · cap hit {at}")
        expect(note).to_have_attribute("title", f"last cap at {at} (from a 429 on gpt-oss:120b)")
        expect(card(page, "Alpha").get_by_text("no usage API")).to_have_count(0)


def test_a_card_says_when_its_provider_was_checked_last(hotel, page):
    """circuit-breaker 76a. The later instant of both; of one that is down, that of its latest recheck."""

    def shown(name: str) -> str:
        page.goto(f"{hotel.url}{PAGE}")
        row = card(page, name).locator("dl > div", has_text="Last checked")
        return str(row.locator("time").get_attribute("datetime"))

    with closing(sqlite3.connect(hotel.product.data_dir / "modelhotel.sqlite3", timeout=10)) as database, database:
        database.execute(
            "UPDATE providers SET last_model_fetch_at = ?, last_availability_at = ? WHERE name = 'Alpha'",
            ("2026-03-01 10:00:00", "2026-03-01 10:05:00"),
        )
    assert shown("Alpha") == "2026-03-01T10:05:00Z"
    with FakeProvider(models=["m"]) as fake:
        made = hotel.add_provider("Down", fake)
        fake.route("GET", "/v1/models", status(401))
        hotel.product.api("POST", f"/api/providers/{made}/discover")
        hotel.product.api("PUT", "/api/settings", json={"provider_recheck_interval": "5s"})
        try:
            first = shown("Down")
            assert eventually(lambda: shown("Down") > first, 20), "a recheck that fails counts too"
        finally:
            hotel.product.api("PUT", "/api/settings", json={"provider_recheck_interval": "60s"})
            hotel.product.api("DELETE", f"/api/providers/{made}")
