"""The badge on Models and the dialog Discrepancies in a real browser."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.pages.conftest import Hotel
from tests.pages.discrepant import Discrepant, fill_many
from tests.pages.readable import FAINT
from tests.pages.test_shell import own_page
from tests.upstream.server import answer, status

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]
PAGE = "/models/"


@pytest.fixture(scope="module")
def filled(hotel: Hotel) -> Discrepant:
    return Discrepant(hotel)


@pytest.fixture
def house(filled: Discrepant) -> Hotel:
    filled.fresh()
    return filled.hotel


def badges(page: Page) -> Locator:
    return page.locator("[data-nav=models] .mh-nav-badge")


def opened(hotel: Hotel, page: Page) -> Locator:
    page.goto(f"{hotel.url}{PAGE}")
    page.get_by_role("button", name="Discrepancies").click()
    dialog = page.get_by_role("dialog", name="Discrepancies")
    expect(dialog.get_by_role("heading", name="Recent changes")).to_be_visible()
    return dialog


def group(dialog: Locator, name: str) -> Locator:
    return dialog.get_by_role("region", name=name, exact=True)


def claims(hotel: Hotel) -> dict[str, list[str]]:
    """State -> ids that the API tells."""
    found: dict[str, list[str]] = {}
    for owner in hotel.product.api("GET", "/api/discovery/status").json()["claims"]:
        for state in ("gone", "stale", "suspect", "retired", "pinned"):
            found.setdefault(state, []).extend(item["model_id"] for item in owner[state])
    return found


def test_the_badge_counts_claims_and_unread_changes_on_every_page(house, page):
    """part of providers 6.10, operations 2.1"""
    page.goto(f"{house.url}/settings/")
    expect(badges(page)).to_have_text(["5", "2"])
    expect(badges(page).first).to_have_attribute("data-tone", "warn")
    link = page.locator("[data-nav=models]")
    expect(link).to_have_attribute("title", re.compile(r"took out: 5\nChanges nobody has read: 2$"))
    dot = "(element) => getComputedStyle(element, '::after').display !== 'none'"
    wide, narrow = page.locator(".mh-menu-wide"), page.locator(".mh-menu-narrow")
    assert not wide.evaluate(dot)
    wide.click()
    expect(wide).to_have_attribute("aria-description", "Model changes wait to be reviewed")
    assert wide.evaluate(dot) and wide.evaluate("(e) => getComputedStyle(e, '::after').width") == "8px"
    wide.click()
    page.set_viewport_size({"width": 700, "height": 900})
    assert narrow.is_visible() and narrow.evaluate(dot)


def test_the_badge_follows_what_others_do(house, page):
    """operations 2.2"""
    page.goto(f"{house.url}/settings/")
    expect(badges(page)).to_have_text(["5", "2"])
    page.wait_for_function("import('/static/modelhotel/app/live.js').then((live) => live.state() === 'live')")
    owner = next(one for one in house.product.api("GET", "/api/providers").json() if one["name"] == "Alpha")
    body = {"provider_id": owner["id"], "model_ids": ["lost-gone-1", "lost-refused"]}
    assert house.product.api("POST", "/api/discovery/dismiss", json=body).status_code == 200
    expect(badges(page)).to_have_text(["3", "2"])


def test_the_badge_is_asked_for_every_minute(house, page):
    """operations 2.2: also without an event."""
    page.goto(f"{house.url}/settings/")  # signs in
    mine = own_page(house)
    mine.route("**/api/events", lambda route: route.abort())
    mine.clock.install()
    mine.goto(f"{house.url}/settings/")
    expect(badges(mine)).to_have_text(["5", "2"])
    house.product.api("POST", "/api/discovery/changes/ack")
    mine.clock.run_for(59_000)
    expect(badges(mine)).to_have_text(["5", "2"])
    mine.clock.run_for(2_000)
    expect(badges(mine)).to_have_text(["5"])
    mine.context.close()


def test_claims_stand_by_provider_and_state_with_what_is_known(house, page):
    """operations 3.4"""
    dialog = opened(house, page)
    expect(page).to_have_url(re.compile("discrepancies=1"))
    expect(dialog.locator("h2")).to_be_focused()
    alpha = dialog.get_by_role("region", name="Alpha", exact=True)
    assert alpha.locator("h4").all_inner_texts() == ["Gone", "Stale", "Suspect", "Refused", "Pinned"]
    gone = group(dialog, "Gone, Alpha").locator("li")
    assert gone.locator("code").all_inner_texts() == ["lost-gone-1", "lost-gone-2"]
    expect(gone.first).to_contain_text("came or went 2 times in 30 days")
    expect(group(dialog, "Refused, Alpha")).to_contain_text("refused 1 d ago")
    expect(group(dialog, "Suspect, Alpha")).to_contain_text("missed once")
    expect(group(dialog, "Pinned, Alpha")).to_contain_text("pinned 1 d ago")
    groups = group(dialog, "Failover groups")
    expect(groups.get_by_role("link", name="hotel/lost-group")).to_have_attribute("href", "/failover/?q=lost-group")
    expect(groups).to_contain_text("0 of 1 member can be called")
    journal = group(dialog, "Recent changes")
    assert [line.split()[0] for line in journal.locator("h4").all_inner_texts()] == ["Failover", "Alpha", "Alpha"]
    expect(journal).to_contain_text("glm-4.6: input price $2.50 → $2.00")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Discrepancies")).to_be_focused()
    assert "discrepancies" not in page.url


def test_a_link_opens_the_dialog(house, page):
    page.goto(f"{house.url}{PAGE}?discrepancies=1")
    expect(page.get_by_role("dialog", name="Discrepancies")).to_contain_text("lost-gone-1")


def test_a_retest_tells_how_it_went_and_what_answers_can_be_switched_on(house, page):
    """operations 3.4"""
    dialog = opened(house, page)
    house.a.script(status(404, {"error": {"message": "no such model"}}), model="lost-gone-1")
    try:
        dialog.get_by_role("button", name="Retest lost-gone-1").press("Enter")
        row = dialog.locator("[data-claim=lost-gone-1]")
        expect(row.locator(".mh-outcome")).to_contain_text("Failed after")
        expect(row).to_contain_text("no such model")
        expect(row.get_by_role("button", name="Switch on")).to_have_count(0)
    finally:
        house.a.script(answer("from A"), model="lost-gone-1")
    refused = dialog.locator("[data-claim=lost-refused]")
    dialog.get_by_role("button", name="Retest lost-refused").click()
    expect(refused.locator(".mh-outcome")).to_contain_text("Answered in")
    dialog.get_by_role("button", name="Switch on lost-refused").click()
    expect(refused).to_have_count(0)
    expect(dialog.locator("h2")).to_be_focused()
    expect(row.locator(".mh-outcome")).to_contain_text("Failed after")  # what was told elsewhere stays
    expect(badges(page)).to_have_text(["4", "2"])
    assert claims(house)["retired"] == []


def test_all_of_a_group_are_retested_one_after_the_other(house, page):
    """operations 3.4"""
    dialog = opened(house, page)
    gone = group(dialog, "Gone, Alpha")
    gone.get_by_role("button", name="Retest all").click()
    expect(gone.locator(".mh-outcome")).to_have_count(2)
    expect(gone.get_by_role("button", name="Switch on")).to_have_count(2)


def test_a_provider_is_asked_again_and_what_it_lists_comes_back(house, page):
    """operations 3.4, part of providers 34"""
    dialog = opened(house, page)
    before = house.a.models
    house.a.models = (*before, "lost-gone-2")
    try:
        alpha = dialog.get_by_role("region", name="Alpha", exact=True)
        alpha.get_by_role("button", name="Ask the provider again").click()
        expect(alpha).to_contain_text("3 models listed just now, 1 came back.")
        expect(dialog.locator("[data-claim=lost-gone-2]")).to_have_count(0)
    finally:
        house.a.models = before


def test_one_and_all_are_dismissed_and_a_pinned_one_is_given_back(house, page):
    """operations 3.4, part of providers 6.10"""
    dialog = opened(house, page)
    dialog.get_by_role("button", name="Dismiss lost-stale").click()
    expect(dialog.locator("[data-claim=lost-stale]")).to_have_count(0)
    group(dialog, "Gone, Alpha").get_by_role("button", name="Dismiss all").click()
    question = page.get_by_role("dialog", name="Dismiss 2 models of Alpha?")
    question.get_by_role("button", name="Cancel").click()
    expect(group(dialog, "Gone, Alpha")).to_be_visible()
    group(dialog, "Gone, Alpha").get_by_role("button", name="Dismiss all").click()
    question.get_by_role("button", name="Dismiss 2").click()
    expect(group(dialog, "Gone, Alpha")).to_have_count(0)
    expect(page.locator(".mh-toast")).to_contain_text(["lost-stale was dismissed.", "2 models were dismissed."])
    dialog.get_by_role("button", name="Unpin lost-pinned").click()
    expect(group(dialog, "Pinned, Alpha")).to_have_count(0)
    found = claims(house)
    assert (found["gone"], found["stale"], found["pinned"]) == (["lost-elsewhere"], [], [])
    expect(badges(page)).to_have_text(["3", "2"])


def test_changes_are_marked_as_read(house, page):
    """part of providers 6.10"""
    dialog = opened(house, page)
    dialog.get_by_role("button", name="Mark as read").click()
    expect(group(dialog, "Recent changes")).to_contain_text("No sweep changed anything that nobody has read.")
    expect(badges(page)).to_have_text(["5"])
    assert house.product.api("GET", "/api/discovery/status").json()["informational"] == []


def test_a_change_elsewhere_is_shown_and_the_keyboard_stays(house, page):
    """operations 2.2"""
    dialog = opened(house, page)
    page.wait_for_function("import('/static/modelhotel/app/live.js').then((live) => live.state() === 'live')")
    kept = dialog.get_by_role("button", name="Dismiss lost-gone-2")
    kept.focus()
    owner = next(one for one in house.product.api("GET", "/api/providers").json() if one["name"] == "Alpha")
    body = {"provider_id": owner["id"], "model_ids": ["lost-gone-1"]}
    assert house.product.api("POST", "/api/discovery/dismiss", json=body).status_code == 200
    expect(dialog.locator("[data-claim=lost-gone-1]")).to_have_count(0)
    expect(kept).to_be_focused()


def test_a_viewer_looks_and_is_offered_nothing(house, viewer_page):
    """part of providers 6.10"""
    dialog = opened(house, viewer_page)
    expect(group(dialog, "Gone, Alpha").locator("li")).to_have_count(2)
    names = dialog.get_by_role("button").evaluate_all("(all) => all.map((one) => one.textContent)")
    assert {name for name in names if not name.startswith("lost-")} == {"Close"}


def test_what_can_not_be_read_says_so_and_is_asked_for_again(house, page):
    page.goto(f"{house.url}{PAGE}")  # signs in
    mine = own_page(house)
    away: list[Any] = []
    mine.route("**/api/discovery/status?review=1", lambda route: (away.append(1), route.abort()))
    mine.goto(f"{house.url}{PAGE}")
    mine.get_by_role("button", name="Discrepancies").click()
    dialog = mine.get_by_role("dialog", name="Discrepancies")
    expect(dialog.get_by_role("alert")).to_contain_text("The gateway cannot be reached.")
    dialog.get_by_role("button", name="Retry").click()
    expect(group(dialog, "Gone, Alpha")).to_be_visible()
    expect(dialog.get_by_role("alert")).to_be_hidden()
    assert away == [1]
    mine.context.close()


def test_hundreds_of_claims_are_shown_by_and_by_and_dismissed_at_once(house, page):
    """operations 3.4"""
    fill_many(house, 620)
    dialog = opened(house, page)
    gone = group(dialog, "Gone, Beta")
    expect(gone.locator("li")).to_have_count(50)
    gone.get_by_role("button", name="Show 50 of 571 more").press("Enter")
    expect(gone.locator("li")).to_have_count(100)
    expect(gone.get_by_role("button", name="Show 50 of 521 more")).to_be_focused()
    gone.get_by_role("button", name="Dismiss all").click()
    page.get_by_role("button", name="Dismiss 621").click()
    expect(gone).to_have_count(0)
    assert "lost-elsewhere" not in claims(house)["gone"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_are_readable_in_both_themes(house, page, theme):
    page.add_init_script(f"localStorage.setItem('_x_adminTheme', '\"{theme}\"')")
    dialog = opened(house, page)
    dialog.get_by_role("button", name="Retest lost-gone-1").click()
    expect(dialog.locator(".mh-outcome")).to_be_visible()
    page.wait_for_timeout(300)  # ms, until colours have faded over
    assert page.evaluate(FAINT) == []


def test_nothing_runs_over_the_edge_of_a_narrow_window(house, page):
    page.set_viewport_size({"width": 360, "height": 800})
    dialog = opened(house, page)
    assert dialog.evaluate("(one) => one.scrollWidth - one.clientWidth") == 0
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.set_viewport_size({"width": 1280, "height": 900})
