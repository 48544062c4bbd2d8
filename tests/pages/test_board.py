"""The failover board, one operator: the order of members, their switches and the group's, in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.pages.boards import Seen, operator, toast
from tests.wire.product import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]


def test_the_navigation_leads_to_the_board_and_the_old_list_stays(house, page):
    page.goto(house.hotel.url)
    page.locator("nav, #nav-sidebar, aside").locator("a[href='/failover/']").first.click()
    assert page.url == f"{house.hotel.url}/failover/"
    expect(page.locator("#board-count")).to_have_text("3 failover groups")
    expect(page.get_by_label("Filter by name")).to_be_focused()
    expect(page.locator(".mh-fgroup")).to_have_count(3)
    expect(page.locator("#board-synced")).to_have_text(re.compile("Last sync: (just now|.* ago)"))
    expect(page.locator(".mh-fgroup .mh-chip", has_text="live")).to_have_count(8)
    page.get_by_role("link", name="Plain list").click()
    expect(page.get_by_role("link", name="hotel/glm-4.6")).to_be_visible()


def test_a_member_is_reordered_with_the_keyboard_alone(house, board):
    """routing 69, operations 54"""
    page = board.page
    expect(page.get_by_label("Filter by name")).to_be_focused()
    wanted = "Reorder Gamma / glm-4.6, position 3 of 3"
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('aria-label')") == wanted:
            break
    handle, voice = board.handle("glm-4.6", "Gamma"), page.locator("#board-voice")
    expect(handle).to_be_focused()
    page.keyboard.press("Space")
    expect(voice).to_contain_text("Gamma / glm-4.6 lifted, position 3 of 3")
    page.keyboard.press("ArrowUp")
    expect(voice).to_have_text("Gamma / glm-4.6, position 2 of 3.")
    page.keyboard.press("ArrowUp")
    expect(voice).to_have_text("Gamma / glm-4.6, position 1 of 3.")
    assert board.writes == []
    page.keyboard.press("Space")
    expect(voice).to_have_text("Gamma / glm-4.6 dropped at position 1 of 3.")
    expect(handle).to_be_focused()
    assert eventually(lambda: house.order("glm-4.6") == ["Gamma", "Alpha", "Beta"])
    assert [method for method, _ in board.writes] == ["PUT"]
    assert board.writes[0][1]["priority_order"][0] == house.member("glm-4.6", "Gamma")
    assert house.served_by("glm-4.6") == "Gamma"
    page.reload()
    board.expect_order("glm-4.6", "Gamma", "Alpha", "Beta")


def test_escape_puts_a_lifted_member_back_and_home_and_end_go_to_the_ends(house, board):
    """routing 69. The half about Escape."""
    page = board.page
    handle, voice = board.handle("glm-4.6", "Gamma"), page.locator("#board-voice")
    handle.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Home")
    assert board.order("glm-4.6") == ["Gamma", "Alpha", "Beta"]
    assert board.badges("glm-4.6") == ["1", "2", "3"]
    page.keyboard.press("Escape")
    expect(voice).to_have_text("Gamma / glm-4.6 put back.")
    board.expect_order("glm-4.6", "Alpha", "Beta", "Gamma")
    expect(handle).to_be_focused()
    first = board.handle("glm-4.6", "Alpha")
    first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("End")
    assert board.order("glm-4.6") == ["Beta", "Gamma", "Alpha"]
    page.keyboard.press("Tab")  # away from it: nobody drops a row by leaving it
    board.expect_order("glm-4.6", "Alpha", "Beta", "Gamma")
    first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Space")  # dropped where it was
    expect(voice).to_have_text("Alpha / glm-4.6 dropped at position 1 of 3.")
    assert board.writes == []


def test_a_member_dragged_to_the_top_gets_the_very_next_request(house, board):
    """operations 53"""
    assert house.served_by("glm-4.6") == "Alpha"
    board.drag("glm-4.6", "Gamma", "Alpha")
    board.expect_order("glm-4.6", "Gamma", "Alpha", "Beta")
    assert eventually(lambda: board.writes and house.order("glm-4.6")[0] == "Gamma")
    assert house.served_by("glm-4.6") == "Gamma"
    board.lift("glm-4.6", "Alpha")
    board.page.mouse.up()
    board.page.reload()
    board.expect_order("glm-4.6", "Gamma", "Alpha", "Beta")
    assert len(board.writes) == 1, "a drop on the same place sends nothing"


def test_a_finger_drags_too(house, page):
    with operator(house, has_touch=True, is_mobile=True, viewport={"width": 400, "height": 850}) as seen:
        handle = seen.handle("glm-4.6", "Alpha")
        handle.scroll_into_view_if_needed()
        start, end = handle.bounding_box(), seen.row("glm-4.6", "Gamma").bounding_box()
        x, y = start["x"] + 8, start["y"] + 10
        touch = seen.page.context.new_cdp_session(seen.page)

        def send(kind, *points):
            body = {"type": kind, "touchPoints": [{"x": px, "y": py} for px, py in points]}
            touch.send("Input.dispatchTouchEvent", body)

        send("touchStart", (x, y))
        for step in range(1, 9):
            send("touchMove", (x, y + (end["y"] + end["height"] - start["y"]) * step / 8))
        send("touchEnd")
        seen.expect_order("glm-4.6", "Beta", "Gamma", "Alpha")
        assert eventually(lambda: house.order("glm-4.6") == ["Beta", "Gamma", "Alpha"])
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400


def test_escape_during_a_drag_puts_the_row_back(house, board):
    board.lift("glm-4.6", "Gamma")
    first = board.row("glm-4.6", "Alpha").bounding_box()
    board.page.mouse.move(first["x"] + 30, first["y"] + 2, steps=5)
    assert board.order("glm-4.6") == ["Gamma", "Alpha", "Beta"]
    board.page.keyboard.press("Escape")
    board.page.mouse.up()
    board.expect_order("glm-4.6", "Alpha", "Beta", "Gamma")
    assert board.writes == []


def test_a_move_is_taken_back(house, board):
    board.drag("glm-4.6", "Gamma", "Alpha")
    assert eventually(lambda: house.order("glm-4.6") == ["Gamma", "Alpha", "Beta"])
    board.card("glm-4.6").get_by_role("button", name="Undo").click()
    board.expect_order("glm-4.6", "Alpha", "Beta", "Gamma")
    assert eventually(lambda: house.order("glm-4.6") == ["Alpha", "Beta", "Gamma"])
    expect(board.card("glm-4.6").get_by_role("button", name="Undo")).to_have_count(0)


def test_positions_are_counted_from_the_top_and_renumbered_at_once(house, board):
    """routing 69a"""
    board.row("glm-4.6", "Beta").get_by_role("switch").click()
    expect(board.row("glm-4.6", "Beta")).to_have_class(re.compile("mh-row-off"))
    assert board.badges("glm-4.6") == ["1", "2", "3"]
    board.row("glm-4.6", "Gamma").hover()
    for _ in range(2):
        board.page.get_by_role("button", name="Move Gamma / glm-4.6 up").click()
    board.expect_order("glm-4.6", "Gamma", "Alpha", "Beta")
    assert board.badges("glm-4.6") == ["1", "2", "3"]
    assert eventually(lambda: house.order("glm-4.6") == ["Gamma", "Alpha", "Beta"])
    board.page.reload()
    board.expect_order("glm-4.6", "Gamma", "Alpha", "Beta")
    assert board.badges("glm-4.6") == ["1", "2", "3"]


def test_two_members_must_stay_active(house, board):
    """operations 57"""
    switch = board.row("pair", "Gamma").get_by_role("switch")
    switch.click()
    toast(board.page, "At least 2 members must stay active.")
    expect(switch).to_have_attribute("aria-checked", "true")
    assert board.writes == []
    board.row("glm-4.6", "Beta").get_by_role("switch").click()
    beta = house.member("glm-4.6", "Beta")
    assert eventually(lambda: len(board.writes) == 1)
    assert len(board.writes[0][1]["entry_enabled"]) == 3, "the whole map is sent"
    assert eventually(lambda: house.group("glm-4.6")["entries"][1]["enabled"] is False)
    assert board.writes[0][1]["entry_enabled"][beta] is False


def test_a_member_whose_model_is_off_is_grey_and_not_counted(house, board):
    """routing 71"""
    model = house.member("glm-4.6", "Beta")
    house.api("PATCH", f"/api/models/{model}", json={"enabled": False})
    try:
        row = board.row("glm-4.6", "Beta")
        expect(row.locator(".mh-chip")).to_have_text("Model disabled")
        expect(row.locator(".mh-chip")).to_have_attribute("title", "The model was disabled by hand.")
        expect(row).to_have_class(re.compile("mh-row-dead"))
        expect(row.get_by_role("switch")).to_have_attribute("aria-checked", "true")
        expect(board.card("glm-4.6").locator(".mh-live-count")).to_have_text("2 of 2 entries live")
        row.get_by_role("switch").click()  # of no use anyway: may always be switched off
        assert eventually(lambda: house.group("glm-4.6")["entries"][1]["enabled"] is False)
    finally:
        house.api("PATCH", f"/api/models/{model}", json={"enabled": True})


def test_a_refused_order_springs_back_with_the_servers_words(house, page):
    """operations 55"""
    board = Seen(house, page)
    # Answered by the page's own network layer: a refusal of this size cannot be made with the mouse.
    page.evaluate("""() => {
        const real = window.fetch;
        window.fetch = (path, options) => options?.method === "PUT"
          ? Promise.resolve(new Response("the order was refused", { status: 400 })) : real(path, options);
    }""")
    board.drag("glm-4.6", "Gamma", "Alpha")
    toast(page, "the order was refused")
    board.expect_order("glm-4.6", "Alpha", "Beta", "Gamma")
    assert house.order("glm-4.6") == ["Alpha", "Beta", "Gamma"]


def test_a_group_is_switched_off_and_its_handles_rest(house, board):
    power = board.card("glm-4.6").get_by_role("switch", name="hotel/glm-4.6 answers")
    power.click()
    expect(power).to_have_text("OFF")
    expect(board.card("glm-4.6")).to_have_class(re.compile("mh-fgroup-off"))
    expect(board.handle("glm-4.6", "Alpha")).to_be_disabled()
    assert eventually(lambda: house.hotel.chat("hotel/glm-4.6").status_code == 404)
    expect(board.page.locator("#board-badge")).to_have_text("2 enabled / 1 disabled")
    power.click()
    expect(power).to_have_text("ON")
    assert eventually(lambda: house.hotel.chat("hotel/glm-4.6").status_code == 200)
