"""The app log and the sign-out of an idle browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.upstream.server import answer, status
from tests.wire.product import eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]
LOG = "/requestlogs/applog/"


def test_lines_of_the_log_are_filtered_opened_and_deleted(hotel, page):
    hotel.a.script(status(500))
    try:
        hotel.chat("hotel/glm-4.6")
    finally:
        hotel.a.script(answer("from A"))
        hotel.product.api("POST", "/api/failover-groups/circuit-breaker/reset")
    found = "/api/logs/app?history=true&search=failover+triggered"
    assert eventually(lambda: hotel.product.api("GET", found).json()["total"])
    page.goto(hotel.url + LOG)
    page.locator("#searchbar").fill("failover triggered")
    page.keyboard.press("Enter")
    rows = page.locator("#result_list tbody tr")
    expect(rows.first).to_contain_text("provider=Alpha")
    expect(page.get_by_text("lifecycle: ready")).to_have_count(0)
    page.goto(f"{hotel.url}{LOG}?level=info&source=lifecycle")
    expect(rows).to_have_count(1)
    rows.get_by_role("link").first.click()
    expect(page.locator("#message")).to_contain_text("lifecycle: ready")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name=re.compile("Copied|Selected"))).to_be_visible()
    page.goto(hotel.url + LOG)
    page.get_by_role("button", name="Delete everything").click()
    page.get_by_role("button", name="Yes, go on").click()
    expect(page.get_by_text(re.compile("log lines? deleted"))).to_be_visible()
    assert hotel.product.api("GET", "/api/logs/app?history=true&source=lifecycle").json()["total"] == 0


def test_a_tab_nobody_touches_signs_out_and_comes_back_to_its_page(hotel):
    """settings 3.8, session_idle_timeout_minutes. A touch in another tab of the browser counts."""
    context = hotel.browser.new_context()
    context.clock.install()
    page, other = context.new_page(), context.new_page()
    page.goto(f"{hotel.url}/login/?next=/settings/")
    hotel.sign_in(page, "admin", "correct-horse-7")
    other.goto(f"{hotel.url}/providers/provider/")
    context.clock.fast_forward("59:00")
    other.mouse.move(5, 5)
    other.mouse.move(50, 50)
    context.clock.fast_forward("58:00")
    assert page.url.endswith("/settings/")
    expect(page.locator("#logout-form")).to_have_count(1)
    context.clock.fast_forward("03:00")
    expect(page).to_have_url(re.compile("/login/.*expired=1"))  # by the idle clock or by the ended event stream
    expect(page.get_by_text("Your session has expired.")).to_be_visible()
    other.goto(f"{hotel.url}/providers/provider/")
    assert "/login/" in other.url
    hotel.sign_in(page, "admin", "correct-horse-7")
    assert page.url.endswith("/settings/")
    context.close()
