"""The live page of the product's own log."""

import re

import pytest
from playwright.sync_api import expect

from tests.upstream.server import answer, status
from tests.wire.product import eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(45, func_only=True)]
PAGE = "/logs/"


def rows(page):
    return page.locator("#applogs tbody tr")


def lines(hotel, **query):
    """From the table, newest first."""
    wanted = "&".join(f"{name}={value}" for name, value in query.items())
    return hotel.product.api("GET", f"/api/logs/app?history=true&per_page=100&{wanted}").json()


def fail_over(hotel):
    """Something the log speaks of."""
    hotel.a.script(status(500))
    try:
        hotel.chat("hotel/glm-4.6")
    finally:
        hotel.a.script(answer("from A"))
        hotel.product.api("POST", "/api/failover-groups/circuit-breaker/reset")
    assert eventually(lambda: lines(hotel, search="failover+triggered")["total"])


def test_lines_are_counted_filtered_searched_and_linked(hotel, page):
    """operations 3.9: level and source with their counts, text, address, Back."""
    fail_over(hotel)
    page.goto(f"{hotel.url}/")
    page.get_by_role("link", name="App logs").click()
    expect(page).to_have_url(re.compile(f"{PAGE}$"))
    level = page.get_by_label("Level", exact=True)
    assert eventually(lambda: "proxy" in lines(hotel)["source_counts"])  # counts are kept for a moment
    page.reload()
    expect(level.locator("option[value=info]")).to_have_text(re.compile(r"info \(\d"))
    expect(page.get_by_label("Source", exact=True).locator("option[value=proxy]")).to_have_text(re.compile(r"\(\d"))
    level.select_option("warning")
    expect(page).to_have_url(re.compile("level=warning"))
    expect(rows(page).first).to_have_attribute("data-level", "warning")
    expect(page.locator("#applogs tbody tr[data-level=info]")).to_have_count(0)
    page.get_by_role("button", name="Clear filters").first.click()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.keyboard.insert_text("failover triggered")  # at once: a pause in it would be a step to go back to
    expect(page).to_have_url(re.compile("search=failover"))
    expect(rows(page).first).to_contain_text("provider=Alpha")
    expect(page.get_by_text("lifecycle: ready")).to_have_count(0)
    page.go_back()
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    found = lines(hotel, search="failover+triggered")["entries"]
    page.goto(f"{hotel.url}{PAGE}?level={found[0]['level']}&source=proxy&search=failover%20triggered")
    expect(rows(page)).to_have_count(len(found))
    expect(page.get_by_label("Source", exact=True)).to_have_value("proxy")
    page.get_by_label("Message", exact=True).fill("nothing says this")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()


def test_new_lines_join_by_themselves_while_the_top_is_looked_at(hotel, page):
    """operations 3.9, live append; 61: a line that two looks bring is one."""
    page.goto(hotel.url + PAGE)
    expect(page.locator("#applogs-live")).to_have_text("Live")
    seen = page.locator("tr", has_text="failover triggered")
    before = seen.count()
    fail_over(hotel)
    expect(seen).to_have_count(before + 1)
    ids = rows(page).evaluate_all("all => all.map((row) => row.dataset.id)")
    assert len(ids) == len(set(ids))
    wanted = lines(hotel)["entries"]
    assert set(ids) <= {row["id"] for row in wanted} | set(ids[len(wanted) :])


def test_a_line_opens_with_its_whole_text_and_is_copied(hotel, page):
    fail_over(hotel)
    page.goto(f"{hotel.url}{PAGE}?search=failover%20triggered")
    rows(page).first.focus()
    page.keyboard.press("Enter")
    shown = page.get_by_role("dialog")
    expect(shown.locator("pre")).to_contain_text("failover triggered")
    shown.get_by_role("button", name="Copy").click()
    expect(shown.get_by_role("button", name=re.compile("Copied|Selected"))).to_be_visible()
    page.keyboard.press("Escape")
    expect(shown).to_have_count(0)
    expect(page).not_to_have_url(re.compile("id="))


def test_the_scroll_holds_every_line_once(hotel, page):
    for n in range(70):
        hotel.product.api("GET", f"/api/nothing-{n}")
    assert eventually(lambda: lines(hotel)["total"] > 70)
    page.set_viewport_size({"width": 1280, "height": 420})
    page.goto(hotel.url + PAGE)
    page.get_by_role("button", name="Scroll").click()
    page.mouse.move(700, 300)
    last = lines(hotel, sort_dir="asc")["entries"][0]["id"]
    end = page.locator(f"tr[data-id='{last}']")
    for _ in range(40):
        page.mouse.wheel(0, 4000)
        page.wait_for_timeout(50)
        if end.count():
            break
    expect(end).to_have_count(1)
    ids = rows(page).evaluate_all("all => all.map((row) => row.dataset.id)")
    assert len(ids) == len(set(ids)) > 70
    expect(page.locator("#applogs-live")).to_have_text("Paused")


def test_who_only_looks_reads_and_deletes_nothing(hotel, viewer_page):
    """operations 55b."""
    viewer_page.goto(hotel.url + PAGE)
    expect(rows(viewer_page)).not_to_have_count(0)
    expect(viewer_page.get_by_role("button", name="Delete")).to_have_count(0)
    viewer_page.get_by_text("More filters").click()
    expect(viewer_page.get_by_role("link", name="Plain list")).to_have_attribute("href", "/requestlogs/applog/")


def test_lines_are_deleted_by_age_after_a_question(hotel, page):
    fail_over(hotel)
    page.goto(hotel.url + PAGE)
    page.get_by_role("button", name="Delete …").click()
    asked = page.get_by_role("dialog")
    asked.get_by_label("Which").select_option("all")
    asked.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text(re.compile(r"\d+ log lines deleted"))).to_be_visible()
    assert lines(hotel, search="failover+triggered")["total"] == 0
