"""The failover board with somebody else at it: two operators, circuits that open, five hundred groups."""

import re

import pytest
from playwright.sync_api import expect

from tests.pace import slower
from tests.pages.boards import Seen, operator, toast
from tests.upstream.server import answer, status
from tests.wire.product import eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]

LIVE = 1000  # ms within which the other page has it (routing 98, operations 56)
ELSEWHERE = "This group was changed elsewhere"


@pytest.fixture
def other(house, board):
    """The same board in another browser context."""
    with operator(house) as seen:
        seen.expect_order("glm-4.6", "Alpha", "Beta", "Gamma")
        yield seen


def fail(house, model, *names):
    """Opens the circuits of *model* at these providers."""
    for name in names:
        house.fakes[name].script(status(503), model=model)
    for _ in range(5):
        house.hotel.chat(f"hotel/{model}")


def test_what_one_drags_the_other_sees_within_a_second(house, board, other):
    """routing 98. With two browsers."""
    board.drag("glm-4.6", "Gamma", "Alpha")
    assert eventually(lambda: house.order("glm-4.6")[0] == "Gamma")
    other.expect_order("glm-4.6", "Gamma", "Alpha", "Beta", timeout=LIVE * slower())
    assert other.badges("glm-4.6") == ["1", "2", "3"]
    expect(other.card("glm-4.6").locator(".mh-notice")).to_be_hidden()
    other.row("glm-4.6", "Beta").get_by_role("switch").click()
    expect(board.row("glm-4.6", "Beta")).to_have_class(re.compile("mh-row-off"), timeout=LIVE * slower())


def test_a_lifted_row_keeps_its_order_and_says_that_the_group_changed(house, board, other):
    """routing 98, operations 55a. The half about a lifted row: the last write wins, and nobody is surprised."""
    handle = other.handle("glm-4.6", "Gamma")
    handle.focus()
    other.page.keyboard.press("Space")
    other.page.keyboard.press("ArrowUp")
    board.drag("glm-4.6", "Beta", "Alpha")
    notice = other.card("glm-4.6").locator(".mh-notice")
    expect(notice).to_contain_text(f"{ELSEWHERE} while you move it.", timeout=LIVE * slower())
    assert other.order("glm-4.6") == ["Alpha", "Gamma", "Beta"]
    expect(other.row("glm-4.6", "Gamma")).to_have_class(re.compile("mh-lifted"))
    expect(handle).to_be_focused()
    other.page.keyboard.press("ArrowUp")
    other.page.keyboard.press("Space")
    expect(notice).to_contain_text("your order was saved over it")
    assert eventually(lambda: house.order("glm-4.6") == ["Gamma", "Alpha", "Beta"])
    # The first operator is told that the finished move is gone, and gets it back with one click.
    lost = board.card("glm-4.6").locator(".mh-notice")
    expect(lost).to_contain_text(f"{ELSEWHERE}, over your last change.", timeout=LIVE * slower())
    board.expect_order("glm-4.6", "Gamma", "Alpha", "Beta")
    lost.get_by_role("button", name="Restore mine").click()
    assert eventually(lambda: house.order("glm-4.6") == ["Beta", "Alpha", "Gamma"])
    other.expect_order("glm-4.6", "Beta", "Alpha", "Gamma", timeout=LIVE * slower())
    expect(notice).to_contain_text(f"{ELSEWHERE}, over your last change.")


def test_the_other_version_is_loaded_instead_of_the_lifted_one(house, board, other):
    other.handle("glm-4.6", "Gamma").focus()
    other.page.keyboard.press("Space")
    other.page.keyboard.press("Home")
    house.reorder("glm-4.6", "Beta", "Gamma", "Alpha")
    load = other.card("glm-4.6").get_by_role("button", name="Load the other version")
    expect(load).to_be_visible()
    load.focus()  # the row stays lifted on the way to the notice
    assert other.order("glm-4.6") == ["Gamma", "Alpha", "Beta"]
    other.page.keyboard.press("Enter")
    other.expect_order("glm-4.6", "Beta", "Gamma", "Alpha")
    expect(other.handle("glm-4.6", "Gamma")).to_be_focused()
    assert other.writes == []


def test_both_drag_at_the_same_time_with_the_mouse(house, board, other):
    """Both hold a row; each drop is one write, the later one stays, and its order holds every member."""
    for seen, name in ((board, "Gamma"), (other, "Beta")):
        seen.lift("glm-4.6", name)
        box = seen.row("glm-4.6", "Alpha").bounding_box()
        seen.page.mouse.move(box["x"] + 30, box["y"] - 2, steps=4)
    board.page.mouse.up()
    expect(other.card("glm-4.6").locator(".mh-notice")).to_contain_text(ELSEWHERE)
    assert other.order("glm-4.6") == ["Beta", "Alpha", "Gamma"]
    other.page.mouse.up()
    assert eventually(lambda: house.order("glm-4.6") == ["Beta", "Alpha", "Gamma"])
    for seen in (board, other):
        seen.expect_order("glm-4.6", "Beta", "Alpha", "Gamma")
        assert [method for method, _ in seen.writes] == ["PUT"]
    expect(board.card("glm-4.6").locator(".mh-notice")).to_contain_text("over your last change")
    other.card("glm-4.6").get_by_role("button", name="Use the other order").click()
    assert eventually(lambda: house.order("glm-4.6") == ["Gamma", "Alpha", "Beta"])


def test_a_group_deleted_while_a_row_of_it_is_lifted_goes_with_a_word(house, board):
    entries = [house.member("glm-4.6", "Alpha"), house.member("glm-4.6", "Beta")]
    made = house.api("POST", "/api/failover-groups", json={"display_model": "brief", "entry_ids": entries})
    row = board.card("brief").locator(".mh-handle").first
    row.focus()
    board.page.keyboard.press("Space")
    house.api("DELETE", f"/api/failover-groups/{made['id']}")
    expect(board.card("brief")).to_have_count(0)
    toast(board.page, "hotel/brief was deleted elsewhere")


def test_a_circuit_opens_counts_down_and_is_reset_without_a_reload(house, board):
    """operations 56, circuit-breaker 1. The page's part."""
    board.page.evaluate("window.stayed = true")
    row, foot = board.row("flaky", "Alpha"), board.card("flaky").locator(".mh-live-count")
    fail(house, "flaky", "Alpha")
    expect(row.locator(".mh-chip")).to_have_text("open", timeout=LIVE * slower())
    expect(row.locator(".mh-why")).to_have_text(re.compile(r"^upstream status 503 · retry in (1m 00s|5\d s)$"))
    before = row.locator(".mh-why").inner_text()
    expect(row.locator(".mh-chip")).to_have_attribute(
        "title", re.compile(r"^Last: upstream status 503, 20.*Next retry 20")
    )
    assert row.get_attribute("data-burning"), "at most a quarter of an hour is left: the outline burns down"
    expect(foot).to_have_text("2 of 3 entries live")
    expect(board.row("flaky", "Beta").get_by_role("button", name="Reset circuit breaker")).to_be_hidden()
    expect(row.locator(".mh-why")).not_to_have_text(before, timeout=3000 * slower())
    house.fakes["Alpha"].script(answer("from Alpha"), model="flaky")
    row.get_by_role("button", name="Reset circuit breaker of Alpha").click()
    toast(board.page, "Alpha reset, back in rotation")
    expect(row.locator(".mh-chip")).to_have_text("live")
    expect(foot).to_have_text("3 of 3 entries live")
    assert house.served_by("flaky") == "Alpha"
    assert board.page.evaluate("window.stayed")


def test_a_group_whose_members_are_all_open_is_dark(house, board):
    fail(house, "flaky", "Alpha", "Beta", "Gamma")
    foot = board.card("flaky").locator(".mh-live-count")
    expect(foot).to_have_text(re.compile(r"^all entries dark · first retry in (1m 00s|\d+ s)$"))
    expect(foot).to_have_class(re.compile("mh-dark"))
    expect(board.card("glm-4.6").locator(".mh-live-count")).to_have_text("3 of 3 entries live")


def test_a_wait_that_is_over_turns_amber_before_anybody_asks(house, page):
    """circuit-breaker 17: probe due, noticed by the page itself."""
    house.api("PUT", "/api/settings", json={"circuit_breaker_cooldown": "2s"})
    try:
        board = Seen(house, page)
        fail(house, "flaky", "Beta", "Alpha", "Gamma")
        chip = board.row("flaky", "Beta").locator(".mh-chip")
        expect(chip).to_have_text("open")
        expect(chip).to_have_text("probe due", timeout=4000 * slower())
        assert board.row("flaky", "Beta").get_attribute("data-circuit") == "due"
        expect(chip).to_have_attribute("title", re.compile("The next request probes.$"))
        house.fakes["Alpha"].script(answer("from Alpha"), model="flaky")
        assert house.served_by("flaky") == "Alpha"
        expect(board.row("flaky", "Alpha").locator(".mh-chip")).to_have_text("live", timeout=LIVE * slower())
    finally:
        house.api("DELETE", "/api/settings", json={"keys": ["circuit_breaker_cooldown"]})


def test_without_the_event_stream_the_list_is_polled(house, timed_page):
    """operations 58, on the board."""
    page = timed_page
    page.clock.install()
    # Never answered rather than refused: a refusal is an error in the console.
    page.route("**/api/events", lambda route: None)
    board = Seen(house, page)
    board.expect_order("glm-4.6", "Alpha", "Beta", "Gamma")
    page.clock.run_for(1000)
    house.reorder("glm-4.6", "Gamma", "Beta", "Alpha")
    page.clock.run_for(15_000)
    board.expect_order("glm-4.6", "Gamma", "Beta", "Alpha")
    page.unroute("**/api/events")


def test_a_provider_whose_name_is_markup_is_text_on_the_board(house, board):
    """operations 59"""
    name = '<img src=x onerror="window.broken=1">'
    house.api("PUT", f"/api/providers/{house.ids['Gamma']}", json={"name": name})
    try:
        expect(board.card("glm-4.6").get_by_text(f"{name} / glm-4.6")).to_be_visible()
        board.page.get_by_role("button", name="Manage Providers").click()
        expect(board.page.get_by_role("dialog").get_by_text(name)).to_be_visible()
        board.page.reload()
        expect(board.card("glm-4.6").get_by_text(f"{name} / glm-4.6")).to_be_visible()
        assert board.page.evaluate("window.broken") is None
    finally:
        house.api("PUT", f"/api/providers/{house.ids['Gamma']}", json={"name": "Gamma"})
