"""Every state of the page Providers and its dialogs: readable in both themes, and inside of the narrowest window."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.pages.cards import PAGE, add, card, dialog
from tests.pages.readable import FAINT
from tests.upstream.server import FakeProvider, Hold, reply, status

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.timeout(120, func_only=True),
    pytest.mark.usefixtures("alpha_and_beta"),
]
INSIDE = """() => {
  const box = document.querySelector("dialog[open]") || document.documentElement;
  return box.scrollWidth <= box.clientWidth;
}"""
#: What just changed has been drawn, its shortest transition included.
DRAWN = "new Promise((drawn) => requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(drawn), 50)))"


def quota(used: int) -> Any:
    return reply(200, {"usage": {"limit": "100", "used": str(used), "resetTime": "2094-05-06T07:08:00Z"}})


@pytest.fixture
def states(hotel: Any) -> Iterator[Hold]:
    """One provider of every kind of trouble. What is given back holds the listing of Slow."""
    held = Hold(reply(200, {"object": "list", "data": [{"id": "slow-1"}]}))
    long = "A provider whose name is as long as people make them when nobody stops them"
    with FakeProvider(["m"]) as good, FakeProvider(["m"]) as bad, FakeProvider(["m"]) as slow:
        good.route("GET", "/v1/usages", quota(100))
        bad.route("GET", "/v1/usages", status(401))
        made = {
            "Spent": add(hotel, "Spent", good.url, provider_type="kimi-code", quota_reserve_percent=20),
            "Off": add(hotel, "Off", good.url),
            long: add(hotel, long, bad.url, provider_type="kimi-code"),
        }
        for one in made.values():
            hotel.product.api("POST", f"/api/providers/{one}/discover")
        hotel.product.api("PUT", f"/api/providers/{made['Spent']}", json={"scheduled_disable_on": "2999-12-31"})
        hotel.product.api("PUT", f"/api/providers/{made['Off']}", json={"enabled": False})
        bad.route("GET", "/v1/models", status(404, "nothing here " * 40))
        hotel.product.api("POST", f"/api/providers/{made[long]}/discover")
        hotel.product.api("POST", "/api/providers/refresh-quotas")
        slow.route("GET", "/v1/models", held)
        add(hotel, "Slow", slow.url)
        yield held
        held.release()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_state_can_be_read_and_fits(hotel, page, states, theme):
    """operations 2.1, 2.3"""
    faint: dict[str, Any] = {}
    outside: list[str] = []

    def look(state: str) -> None:
        page.evaluate(DRAWN)
        if found := page.evaluate(FAINT):
            faint[state] = found
        for width in (360, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(DRAWN)
            if not page.evaluate(INSIDE):
                outside.append(f"{state} at {width}")
        page.set_viewport_size({"width": 1280, "height": 900})

    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.goto(f"{hotel.url}{PAGE}")
    expect(page.locator("#mh-usage")).to_contain_text("Spent100 %")
    expect(card(page, "Spent").locator(".mh-piggy")).to_contain_text("20 %")
    look("the page")
    page.get_by_role("button", name="Usage of Spent").click()
    expect(dialog(page).get_by_role("row")).to_have_count(2)
    look("the usage")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Edit Spent").click()
    expect(page.get_by_role("slider", name="Quota reserve")).to_be_visible()
    look("an edit")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="+ Add Provider").click()
    page.get_by_label("Type").select_option(label="Azure AI Foundry")
    dialog(page).get_by_role("button", name="Add Provider").click()
    expect(dialog(page).get_by_text("Resource is missing.")).to_be_visible()
    look("a new one")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Discover All Models").click()
    expect(page.locator("#discovery-count")).to_contain_text("4 of 5 done, 1 failed")
    look("a discovery")
    states.release()
    expect(dialog(page).get_by_role("button", name="Close")).to_be_visible()
    look("its summary")
    assert faint == {}
    assert outside == []
