"""The dashboard with the limiters on, as in a product that nobody has configured: it is never too much for itself."""

import pytest
from playwright.sync_api import expect

from tests.pages.conftest import CHROMIUM, Watched
from tests.wire.product import LIMITED, Product

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(90)]
PAGES = ("/", "/providers/", "/models/", "/failover/", "/keys/", "/requests/", "/logs/", "/settings/")


@pytest.fixture
def page(tmp_path):
    from playwright.sync_api import sync_playwright

    env = {**LIMITED, "ADMIN_PASSWORD": "correct-horse-7"}
    with Product(tmp_path, env) as product, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(base_url=product.url).new_page()
        yield page
        browser.close()


def test_all_pages_one_after_the_other_meet_no_limit(page):
    """v1-api 4.2: the address limit holds for the whole server; the files of the dashboard are not counted."""
    watched = Watched(page)
    page.goto("/login/")
    page.fill("#id_username", "admin")
    page.fill("#id_password", "correct-horse-7")
    page.click("#login-form button[type=submit]")
    page.wait_for_url(lambda url: "/login/" not in url)
    for path in PAGES * 2:
        answer = page.goto(path)
        assert answer.status == 200 and answer.headers["x-ratelimit-scope"] == "ip"
        expect(page.locator("h1").first).to_be_visible()
    assert watched.complaints == []


def test_the_settings_page_shows_the_limits_and_the_switch_that_makes_them_moot(page):
    """settings 3.3 and 6"""
    page.set_default_timeout(10_000)
    page.goto("/login/")
    page.fill("#id_username", "admin")
    page.fill("#id_password", "correct-horse-7")
    page.click("#login-form button[type=submit]")
    page.wait_for_url(lambda url: "/login/" not in url)
    page.goto("/settings/")
    section = page.locator("[data-section='Rate Limiting']")
    labels = ("Requests per Second", "Burst Size", "IP Requests per Second", "IP Burst Size", "Max Wait (ms)")
    fields = {label: section.get_by_label(label, exact=True) for label in labels}
    assert [field.input_value() for field in fields.values()] == ["10", "20", "30", "60", "200"]
    expect(section.get_by_label("Tokens per Minute")).to_have_count(0)
    fields["Requests per Second"].fill("2.5")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Requests per Second updated")).to_be_visible()
    section.get_by_role("switch", name="Enable Rate Limiting").click()
    expect(fields["Burst Size"]).to_be_disabled()
    expect(fields["IP Burst Size"]).to_be_enabled()
    section.get_by_role("switch", name="IP Rate Limiting").click()
    expect(fields["IP Burst Size"]).to_be_disabled()
