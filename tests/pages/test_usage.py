"""Quotas on the dashboard: the badge of a card, the dialog with every window, the pills of the sidebar."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.pages.cards import PAGE, add, card, dialog
from tests.upstream.server import FakeProvider, reply, status

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.timeout(60, func_only=True),
    pytest.mark.usefixtures("alpha_and_beta"),
]
LATER = "2094-05-06T07:08:00Z"


def used(amount: int, limit: int = 200) -> Any:
    """Kimi's answer; the five hours' window is always at a tenth."""
    window = {"duration": 300, "timeUnit": "TIME_UNIT_MINUTE"}
    return reply(
        200,
        {
            "user": {"membership": {"level": "LEVEL_BASIC"}},
            "usage": {"limit": str(limit), "used": str(amount), "resetTime": LATER},
            "limits": [{"window": window, "detail": {"limit": "50", "used": "5", "resetTime": LATER}}],
        },
    )


@pytest.fixture
def vendor() -> Iterator[FakeProvider]:
    with FakeProvider(["kimi-k2"]) as fake:
        fake.route("GET", "/v1/usages", used(124))
        fake.route(
            "GET", "/v1/user/balance", reply(200, {"balance_infos": [{"currency": "USD", "total_balance": "12.34"}]})
        )
        yield fake


def test_a_new_provider_shows_its_usage_at_once_and_every_window_on_a_click(hotel, page, vendor):
    """part of providers 63: the first view asks, later ones do not"""
    add(hotel, "Plan", vendor.url, provider_type="kimi-code", quota_reserve_percent=20)
    page.goto(f"{hotel.url}{PAGE}")
    badge = page.get_by_role("button", name="Usage of Plan")
    expect(badge).to_contain_text("cycle62 %")
    expect(badge.locator(".mh-bar-fill")).to_have_css("width", re.compile("px"))
    assert badge.locator(".mh-bar-fill").evaluate("bar => bar.style.width") == "62%"
    page.reload()
    badge.click()
    rows = dialog(page).get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_have_text(re.compile("^cycle62 %762094-.* d124200$"))
    expect(rows.nth(2)).to_have_text(re.compile("^5h10 %452094-.* d550$"))
    when = rows.nth(1).locator("time")
    expect(when).to_have_attribute("datetime", LATER)
    expect(when).to_have_text(re.compile(r"^2094-05-0\d \d\d:\d8, in \d+ d$"))
    expect(dialog(page).get_by_role("heading")).to_have_text("Usage of Plan LEVEL_BASIC")
    expect(dialog(page)).to_contain_text("20 % of the weekly window is kept for use outside of the gateway.")
    expect(dialog(page)).to_contain_text(re.compile("Read .* ago|Read just now"))
    assert [call.path for call in vendor.requests].count("/v1/usages") == 1
    page.keyboard.press("Escape")
    expect(badge).to_be_focused()


def test_a_refresh_brings_new_figures_and_keeps_the_old_ones_where_it_fails(hotel, page, vendor):
    """part of providers 65"""
    add(hotel, "Plan", vendor.url, provider_type="kimi-code")
    page.goto(f"{hotel.url}{PAGE}")
    page.get_by_role("button", name="Usage of Plan").click()
    row = dialog(page).get_by_role("row").nth(1)
    expect(row).to_contain_text("62 %")
    vendor.route("GET", "/v1/usages", used(200))
    dialog(page).get_by_role("button", name="Refresh").click()
    expect(row).to_contain_text("100 %")
    expect(page.get_by_text("Plan was asked.")).to_be_visible()
    vendor.route("GET", "/v1/usages", status(400, "out of order"))
    dialog(page).get_by_role("button", name="Refresh").click()
    expect(dialog(page)).to_contain_text("The last refresh failed: HTTP 400: out of order")
    expect(row).to_contain_text("100 %")
    dialog(page).get_by_role("button", name="Close").click()
    expect(page.get_by_role("button", name="Usage of Plan")).to_contain_text("The last refresh failed")
    expect(page.get_by_role("button", name="Usage of Plan")).to_be_focused()  # though it was drawn anew
    vendor.route("GET", "/v1/usages", used(20))
    page.get_by_role("button", name="Refresh Quotas/Balances").click()
    expect(page.get_by_text("1 provider was asked.")).to_be_visible()
    expect(page.get_by_role("button", name="Usage of Plan")).to_contain_text("10 %")
    expect(page.get_by_role("button", name="Usage of Plan")).not_to_contain_text("failed")


def test_the_sidebar_tells_on_every_page_what_is_left_and_can_be_hidden(hotel, page, vendor):
    """operations 2.1: usage pills"""
    page.goto(f"{hotel.url}/models/")
    pills = page.get_by_role("region", name="Usage of the providers")
    expect(page.locator("#mh-system")).to_be_visible()
    expect(page.locator("#mh-usage")).to_be_hidden()
    add(hotel, "Plan", vendor.url, provider_type="kimi-code")
    add(hotel, "Purse", vendor.url, provider_type="deepseek")
    hotel.product.api("POST", "/api/providers/refresh-quotas")
    page.evaluate("sessionStorage.clear()")
    page.reload()
    expect(pills.get_by_role("listitem")).to_have_text([re.compile(r"^Plan62 %in \d+ d$"), "Purse$12.34 left"])
    pills.get_by_role("button", name="Plan").click()
    expect(dialog(page).get_by_role("heading")).to_contain_text("Usage of Plan")
    page.keyboard.press("Escape")
    vendor.route("GET", "/v1/usages", used(180))
    pills.get_by_role("button", name="Refresh the usage").click()
    expect(pills.get_by_role("listitem").first).to_contain_text("Plan90 %")
    pills.get_by_role("button", name="Hide the usage").click()
    expect(pills.get_by_role("listitem")).to_have_count(0)
    assert page.evaluate("localStorage.getItem('mh-sidebarQuotaDisabled')") == "true"
    page.goto(f"{hotel.url}{PAGE}")
    expect(page.get_by_role("button", name="Usage of Plan")).to_contain_text("90 %")
    expect(pills.get_by_role("listitem")).to_have_count(0)
    pills.get_by_role("button", name="Show the usage").click()
    expect(pills.get_by_role("listitem")).to_have_count(2)
    hotel.product.api("PUT", f"/api/providers/{stored_id(hotel, 'Purse')}", json={"enabled": False})
    expect(pills.get_by_role("listitem")).to_have_count(1)
    page.goto(f"{hotel.url}/settings/")
    page.get_by_label("Usage in the sidebar").select_option(label="hidden")
    page.reload()
    expect(page.get_by_label("Usage in the sidebar")).to_have_value("true")
    expect(pills.get_by_role("button", name="Show the usage")).to_be_visible()
    expect(pills.get_by_role("listitem")).to_have_count(0)


def stored_id(hotel: Any, name: str) -> str:
    rows = hotel.product.api("GET", "/api/providers?totals=false").json()
    return str(next(row["id"] for row in rows if row["name"] == name))


def test_a_viewer_sees_the_usage_and_has_nobody_asked(hotel, viewer_page, vendor):
    page = viewer_page
    add(hotel, "Plan", vendor.url, provider_type="kimi-code")
    hotel.product.api("POST", "/api/providers/refresh-quotas")
    page.goto(f"{hotel.url}{PAGE}")
    page.get_by_role("button", name="Usage of Plan").click()
    expect(dialog(page).get_by_role("row")).to_have_count(3)
    expect(dialog(page).get_by_role("button")).to_have_text(["Close"])
    dialog(page).get_by_role("button", name="Close").click()
    expect(page.locator("#mh-usage")).to_contain_text("Plan")
    for name in ("Refresh the usage", "Refresh Quotas/Balances"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("button", name="Hide the usage")).to_be_visible()


def test_a_refused_key_and_a_plan_without_figures_are_told_as_what_they_are(hotel, page, vendor):
    """part of providers 64; failover-loop 57a: the cap note only where no reading says what is left"""
    vendor.route("GET", "/v1/usages", status(401))
    with FakeProvider(["kimi-k2"], face="ollama") as cloud:
        cloud.route("POST", "/api/me", reply(200, {"plan": "pro"}))
        made = {
            "Cloud": add(hotel, "Cloud", cloud.url, provider_type="ollama-cloud"),
            "Purse": add(hotel, "Purse", vendor.url, provider_type="deepseek"),
            "Locked": add(hotel, "Locked", vendor.url, provider_type="kimi-code"),
        }
        hotel.product.api("POST", "/api/providers/refresh-quotas")
        for fake, name in ((cloud, "Cloud"), (vendor, "Purse")):
            hotel.product.api("POST", f"/api/providers/{made[name]}/discover")
            fake.script(status(429, {"error": {"message": "session usage limit"}}))
            assert hotel.chat(f"{name}/kimi-k2").status_code == 429
    page.goto(f"{hotel.url}{PAGE}")
    expect(page.get_by_role("button", name="Usage of Locked")).to_contain_text("Usage cannot be read")
    expect(page.get_by_role("button", name="Usage of Cloud")).to_contain_text("Plan: pro")
    expect(page.get_by_role("button", name="Usage of Purse")).to_contain_text("balance USD$12.34 left")
    expect(card(page, "Cloud")).to_contain_text("no usage API · cap hit")
    expect(card(page, "Purse")).not_to_contain_text("no usage API")
    expect(page.locator("#mh-usage").get_by_role("listitem")).to_have_count(1)
    page.get_by_role("button", name="Usage of Locked").click()
    expect(dialog(page)).to_contain_text("The provider refused the key when it was asked for its usage.")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Usage of Cloud").click()
    expect(dialog(page)).to_contain_text("names the plan of this account, but not what is used of it")


def window(name: str, **more: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("used_percent", "used", "limit", "remaining", "resets_at"))
    return {"name": name, "unit": "", **empty, **more}


def quota(*windows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"http_status": 200, "last_error": "", "fetched_at": None, "plan": None, "windows": list(windows), **more}


BRIEF: list[tuple[dict[str, Any], Any]] = [
    (quota(), None),
    (quota(window("a")), None),
    (quota(window("a", used_percent=40), http_status=424), None),
    (quota(window("a", used_percent=99.9)), ["a", "99 %", "warn"]),
    (quota(window("a", used_percent=0.4)), ["a", "<1 %", "good"]),
    (quota(window("a", used_percent=0)), ["a", "0 %", "good"]),
    (quota(window("a", used_percent=10), window("b", used_percent=140)), ["b", "140 %", "bad"]),
    (quota(window("a", used=30, limit=40)), ["a", "75 %", "good"]),
    (quota(window("a", used=30, limit=0)), None),
    (quota(window("a", remaining=0, unit="USD")), ["a", "$0 left", "bad"]),
    (quota(window("a", remaining=-2.5, unit="USD")), ["a", "-$2.50 left", "bad"]),
    (quota(window("a", remaining=0.5, unit="USD"), window("b", remaining=9, unit="CNY")), ["b", "9 CNY left", "good"]),
    (quota(window("a", remaining=0, unit="USD"), window("b", used_percent=3)), ["b", "3 %", "good"]),
    (quota(window("a", remaining=1_250_000, unit="tokens")), ["a", "1.3M tokens left", "good"]),
]  # fmt: skip


def test_the_short_form_of_a_reading(hotel, page):
    page.goto(f"{hotel.url}{PAGE}")
    found = page.evaluate(
        """async (quotas) => {
        const { brief, trouble } = await import("/static/modelhotel/app/quotas/reading.js");
        const short = (said) => said && [said.name, said.text, said.tone];
        const told = (more) => (trouble({ http_status: 200, last_error: "", ...more }) || [null])[0];
        return [quotas.map((one) => short(brief(one))), [{}, { last_error: "x" }, { http_status: 0, last_error: "x" },
          { http_status: 424 }, { http_status: 204 }].map(told)];
        }""",
        [reading for reading, _ in BRIEF],
    )
    assert found[0] == [said for _, said in BRIEF]
    assert found[1] == [None, "warn", "bad", "bad", "muted"]
