"""A fresh installation: three steps that tick themselves, and the first answer."""

import re

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.pace import slower
from tests.pages.conftest import CHROMIUM, Hotel, Watched
from tests.upstream.server import FakeProvider, answer
from tests.wire.product import Product

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with (
        FakeProvider(["first-1"]) as a,
        Product(tmp_path_factory.mktemp("house"), {"ADMIN_PASSWORD": "correct-horse-7"}) as product,
        sync_playwright() as playwright,
    ):
        a.script(answer("hello"))
        args = ["--no-sandbox", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        yield Hotel(product, browser, a, a)
        browser.close()


@pytest.fixture
def empty(house):
    for kind in ("virtual-keys", "providers"):
        for row in house.product.api("GET", f"/api/{kind}").json():
            house.product.api("DELETE", f"/api/{kind}/{row['id']}")
    return house


def test_the_card_of_the_first_run_leads_to_the_first_answer_and_goes(empty):
    """Issue: one person adds a provider and gets the first answer without docs. operations 2.4."""
    page = empty.browser.new_context().new_page()
    watched = Watched(page)
    page.goto(f"{empty.url}/login/")
    empty.sign_in(page, "admin", "correct-horse-7")
    card = page.locator("#first-run")
    step = {key: card.locator(f"[data-step={key}]") for key in ("provider", "model", "virtual_key")}
    for one in step.values():
        expect(one).to_have_attribute("data-done", "false")
    other = page.context.new_page()
    other.goto(empty.url)
    card.get_by_role("link", name="Add a provider").click()
    page.get_by_label("Base address").fill(empty.a.url)
    page.get_by_label("API key").fill("sk-first")
    page.get_by_label("Name", exact=True).fill("First")
    page.locator("dialog").get_by_role("button", name="Add Provider").click()
    expect(page.get_by_role("heading", name="First: 1 model found")).to_be_visible()
    seen = other.locator("#first-run")
    expect(seen.locator("[data-step=model]")).to_have_attribute("data-done", "true", timeout=2000 * slower())
    expect(seen.locator("[data-step=provider]")).to_contain_text("(done)")
    page.get_by_role("link", name="Create a virtual key").click()
    page.get_by_label("Name", exact=True).fill("app")
    page.get_by_role("button", name="Create key").click()
    key = page.locator("#key-text").inner_text()
    said = empty.chat("first-1", key).json()
    assert said["choices"][0]["message"]["content"] == "hello"
    expect(seen).to_be_hidden()
    page.goto(empty.url)
    expect(card).to_have_count(0)
    assert watched.complaints == []
    page.context.close()


def test_discovery_is_started_from_the_card_and_a_dismissed_card_stays_away(empty):
    body = {"name": "First", "base_url": empty.a.url, "provider_type": "openai", "api_key": "sk-first"}
    assert empty.product.api("POST", "/api/providers", json=body).status_code == 201
    page = empty.browser.new_context().new_page()
    page.goto(f"{empty.url}/login/")
    empty.sign_in(page, "admin", "correct-horse-7")
    card = page.locator("#first-run")
    model = card.locator("[data-step=model]")
    expect(model).to_have_attribute("data-done", "false")
    card.get_by_role("button", name="Discover now").click()
    expect(model).to_have_attribute("data-done", "true")
    expect(page.locator(".mh-toast", has_text="1 model found")).to_be_visible()
    expect(card.locator("[data-step=virtual_key]")).to_have_attribute("data-done", "false")
    card.get_by_role("button", name="Dismiss").click()
    expect(card).to_be_hidden()
    page.reload()
    expect(page.get_by_role("heading", name=re.compile("Overview|Dashboard")).first).to_be_visible()
    expect(card).to_be_hidden()
    page.context.close()
