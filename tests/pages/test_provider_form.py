"""The form of a provider: what a type asks for, what it refuses with a way out, limits, schedule and reserve."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.pages.cards import PAGE, add, card, dialog
from tests.upstream.server import FakeProvider, reply

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.timeout(60, func_only=True),
    pytest.mark.usefixtures("alpha_and_beta"),
]


def field(page: Any, name: str) -> Any:
    return dialog(page).locator(f'[data-field="{name}"]')


def stored(hotel: Any, made: str) -> dict[str, Any]:
    found: dict[str, Any] = hotel.product.api("GET", f"/api/providers/{made}").json()
    return found


def test_the_pieces_of_an_address_are_asked_for_and_the_rest_is_locked(hotel, page):
    page.goto(f"{hotel.url}{PAGE}?add=1")
    url = page.get_by_label("Base address")
    kind = page.get_by_label("Type")
    kind.select_option(label="AWS Bedrock")
    expect(url).to_have_value("https://bedrock-mantle.us-east-1.api.aws/v1")
    expect(url).to_have_attribute("readonly", "")
    page.get_by_label("Region").fill("eu-central-1")
    expect(url).to_have_value("https://bedrock-mantle.eu-central-1.api.aws/v1")
    kind.select_option(label="Azure AI Foundry")
    expect(page.get_by_label("Resource")).to_be_focused()
    expect(page.get_by_label("Region")).to_have_count(0)
    page.get_by_label("Resource").fill("acme")
    dialog(page).get_by_role("button", name="Add Provider").click()
    expect(field(page, "project").locator(".mh-error")).to_have_text("Project is missing.")
    expect(page.get_by_label("Project")).to_be_focused()
    page.get_by_label("Project").fill("eval")
    expect(url).to_have_value("https://acme.services.ai.azure.com/api/projects/eval")
    page.get_by_role("button", name="Other address").click()
    expect(url).to_be_editable()
    expect(page.get_by_label("Resource")).to_have_count(0)
    url.fill("https://acme.openai.azure.com")
    kind.select_option(label="Custom")
    expect(url).to_have_value("https://acme.openai.azure.com")
    kind.select_option(label="xAI (Grok)")
    expect(url).to_have_value("https://api.x.ai/v1")
    kind.select_option(label="Custom")
    expect(url).to_have_value("")


def test_the_pure_parts_of_the_form(hotel, page):
    page.goto(f"{hotel.url}{PAGE}")
    found = page.evaluate(
        """async () => {
        const { blanksOf, filled, same } = await import("/static/modelhotel/app/providers/address.js");
        const { dayAfter, reserveText } = await import("/static/modelhotel/app/providers/limits.js");
        const form = "https://<a>.x.example/p/<b>";
        return {
          filled: [filled(form, { a: "one" }), filled(form, { a: "1", b: "2" })],
          blanks: [
            blanksOf(form, "https://one.x.example/p/two"),
            blanksOf(form, "https://oneZx.example/p/two"),
            blanksOf("https://x", "https://x"),
          ],
          same: [
            same("https://API.x.ai/v1/", "https://api.x.ai/v1"),
            same("https://api.x.ai:443/v1", "https://api.x.ai/v1"),
            same("https://api.x.ai/v1", "https://api.x.ai"),
            same("http://box:1/V1/", "http://box:1", true),
            same("", ""),
          ],
          days: ["2026-02-28", "2028-02-28", "2026-12-31"].map(dayAfter),
          said: [reserveText(0, "weekly"), reserveText(20, "monthly"), reserveText(20, ""), reserveText(0, "")],
        };}"""
    )
    assert found["filled"] == ["https://one.x.example/p/<b>", "https://1.x.example/p/2"]
    assert found["blanks"] == [{"a": "one", "b": "two"}, None, None]
    assert found["same"] == [True, True, False, True, False]
    assert found["days"] == ["2026-03-01", "2028-02-29", "2027-01-01"]
    used, kept, left, cleared = found["said"]
    assert used == "The weekly window is used to its end."
    assert "20 % of the monthly window" in kept
    assert "no effect" in left and "Cleared" in cleared


def test_a_server_of_another_kind_is_named_and_taken_with_a_click(hotel, rough_page):
    """part of providers 9: the form says what answered instead"""
    page = rough_page
    with FakeProvider(["m-1"], face="lmstudio") as fake:
        page.goto(f"{hotel.url}{PAGE}?add=1")
        page.get_by_label("Type").select_option(label="Ollama")
        page.get_by_label("Base address").fill(fake.url)
        page.get_by_role("button", name="Test connection").click()
        told = field(page, "base_url").locator(".mh-error")
        expect(told).to_contain_text("the server at this address reports lmstudio, not ollama")
        page.get_by_role("button", name="Use LM Studio").click()
        expect(page.get_by_label("Type")).to_have_value("lmstudio")
        expect(told).to_have_text("")
        page.get_by_role("button", name="Test connection").click()
        expect(dialog(page).get_by_text("It works: 1 model in")).to_be_visible()
        page.get_by_label("Name", exact=True).fill("Studio")
        dialog(page).get_by_role("button", name="Add Provider").click()
        expect(page.get_by_role("heading", name="Studio: 1 model found")).to_be_visible()
        dialog(page).get_by_role("button", name="Close").click()
        page.get_by_role("button", name="+ Add Provider").click()
        page.get_by_label("Type").select_option(label="LM Studio")
        page.get_by_label("Base address").fill(fake.url.removesuffix("/v1"))
        expect(page.get_by_text("Studio is this server already: it is added once only.")).to_be_visible()
        fake.refuse()
        page.get_by_label("Base address").fill(fake.url + "/other")
        page.get_by_role("button", name="Test connection").click()
        expect(told).to_contain_text("could not reach a server at this address")
        expect(told).to_contain_text("Is the server running")


def test_a_card_says_what_answered_instead_of_its_server(hotel, rough_page):
    """part of providers 13: the button of a stored provider asks what an edit would ask"""
    page = rough_page
    with FakeProvider(["m-1"], face="ollama") as fake:
        add(hotel, "Box", fake.url, provider_type="ollama")
        page.goto(f"{hotel.url}{PAGE}")
        page.get_by_role("button", name="Test Box").click()
        expect(card(page, "Box").get_by_role("status")).to_contain_text("It works: 1 model in")
        fake.face = "koboldcpp"
        page.get_by_role("button", name="Test Box").click()
        told = card(page, "Box").get_by_role("status")
        expect(told).to_contain_text("the server at this address reports koboldcpp, not ollama")


def test_a_day_to_switch_off_is_set_shown_and_cleared(hotel, rough_page):
    page = rough_page
    made = add(hotel, "Trial", hotel.a.url)
    page.goto(f"{hotel.url}{PAGE}")
    page.get_by_role("button", name="Edit Trial").click()
    day = page.get_by_label("Switch off on")
    today = datetime.now(UTC).astimezone().date()
    assert day.get_attribute("min") in {str(today + timedelta(days=1)), str(today)}
    day.fill("2020-01-01")
    page.get_by_role("button", name="Save").click()
    told = field(page, "scheduled_disable_on").locator(".mh-error")
    expect(told).to_have_text("scheduled_disable_on must not be in the past")
    wanted = str(today + timedelta(days=40))
    day.fill(wanted)
    page.get_by_role("button", name="Save").click()
    expect(dialog(page)).to_have_count(0)
    assert stored(hotel, made)["scheduled_disable_on"] == wanted
    mark = card(page, "Trial").locator(".mh-chips").get_by_text(wanted)
    expect(mark).to_have_attribute("title", f"It is switched off on {wanted}, on the gateway's clock")
    expect(mark).to_contain_text("Switched off on")
    page.get_by_role("button", name="Edit Trial").click()
    expect(day).to_have_value(wanted)
    page.get_by_role("button", name="Do not switch it off by itself").click()
    expect(day).to_be_focused()
    page.get_by_role("button", name="Save").click()
    expect(mark).to_have_count(0)
    assert stored(hotel, made)["scheduled_disable_on"] is None
    page.get_by_role("button", name="Edit Trial").click()
    dialog(page).get_by_label("Enabled", exact=True).uncheck()
    expect(day).to_be_disabled()


def test_a_reserve_is_a_slider_where_it_means_something_or_waits_to_be_cleared(hotel, page):
    """circuit-breaker 11.5 on the page"""
    hotel.a.route("GET", "/v1/usages", reply(200, {"usage": {"limit": "10", "used": "4"}}))
    kept = add(hotel, "Plan", hotel.a.url, provider_type="kimi-code")
    left = add(hotel, "Left over", hotel.b.url, quota_reserve_percent=30)
    page.goto(f"{hotel.url}{PAGE}")
    expect(card(page, "Left over").locator(".mh-piggy")).to_have_count(0)
    page.get_by_role("button", name="Edit Alpha").click()
    expect(field(page, "quota_reserve_percent")).to_be_hidden()
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Edit Plan").click()
    slider = page.get_by_role("slider", name="Quota reserve")
    expect(field(page, "quota_reserve_percent")).to_contain_text("The weekly window is used to its end.")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "20 %")
    expect(field(page, "quota_reserve_percent")).to_contain_text("when 20 % of the weekly window is left")
    page.get_by_role("button", name="Save").click()
    piggy = card(page, "Plan").locator(".mh-piggy")
    expect(piggy).to_contain_text("20 %")
    expect(piggy).to_have_attribute("title", "20 % of the weekly window is kept for use outside of the gateway")
    assert stored(hotel, kept)["quota_reserve_percent"] == 20

    page.get_by_role("button", name="Edit Left over").click()
    expect(field(page, "quota_reserve_percent")).to_contain_text("Move it to 0 to clear it.")
    slider.fill("0")
    page.get_by_role("button", name="Save").click()
    expect(dialog(page)).to_have_count(0)
    assert stored(hotel, left)["quota_reserve_percent"] == 0
    page.get_by_role("button", name="Edit Left over").click()
    expect(field(page, "quota_reserve_percent")).to_be_hidden()


def test_a_new_provider_gets_its_reserve_with_its_type_only(hotel, page):
    page.goto(f"{hotel.url}{PAGE}?add=1")
    sent: list[Any] = []
    page.on("request", lambda one: one.method == "POST" and sent.append((one.url, one.post_data_json)))
    page.get_by_label("Type").select_option(label="Kimi Code")
    page.get_by_role("slider", name="Quota reserve").fill("40")
    page.get_by_label("Type").select_option(label="Custom")
    expect(page.get_by_role("slider", name="Quota reserve")).to_be_hidden()
    page.get_by_label("Base address").fill(hotel.a.url)
    page.get_by_label("Name", exact=True).fill("Plain")
    dialog(page).get_by_role("button", name="Add Provider").click()
    expect(card(page, "Plain")).to_be_visible()
    [body] = [body for url, body in sent if url.endswith("/api/providers")]
    assert body["quota_reserve_percent"] == 0 and "scheduled_disable_on" not in body
