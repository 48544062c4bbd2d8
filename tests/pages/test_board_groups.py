"""The failover board, one operator: groups, providers, filters, selection, roles and looks."""

import re

import pytest
from playwright.sync_api import expect

from tests.pages.boards import Seen, toast
from tests.wire.product import eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]


def offer(dialog, provider, model):
    """The box of one model in the picker."""
    return dialog.locator("details").filter(has_text=f"{provider} (").get_by_label(model, exact=True)


def test_manage_providers_flips_all_entries_of_one(house, board):
    """routing 70, 70a. The pairs fall below two members and come back with it; what the operator switched off stays."""
    models = {name: house.member(name, "Delta") for name in ("pair",)}
    gamma = [house.member(name, "Gamma") for name in ("pair", "glm-4.6", "flaky")]
    for name, other in zip(("one", "two", "three"), gamma, strict=True):
        body = {"display_model": name, "entry_ids": [models["pair"], other]}
        house.api("POST", "/api/failover-groups", json=body)
    house.put("three", group_enabled=False)
    idle = {"name": "Idle", "base_url": house.hotel.a.url, "provider_type": "openai", "api_key": "sk-idle"}
    solo = house.api("POST", "/api/providers", json=idle)
    page = board.page
    try:
        expect(board.card("three").locator(".mh-power")).to_have_text("OFF")
        page.get_by_role("button", name="Manage Providers").click()
        dialog = page.get_by_role("dialog", name="Manage providers")
        expect(dialog.locator("li .mh-member-name")).to_have_text(["Alpha", "Beta", "Delta", "Gamma", "Idle"])
        before = len(board.writes)
        dialog.get_by_role("switch", name="Use Idle in all groups").click()
        toast(page, "No failover group uses Idle")
        assert len(board.writes) == before
        delta = dialog.get_by_role("switch", name="Use Delta in all groups")
        delta.click()
        toast(page, "Delta disabled in 4 groups")
        assert len(board.writes) == before + 4
        for name in ("one", "two", "pair"):
            assert (house.group(name)["group_enabled"], house.group(name)["auto_disabled"]) == (False, True), name
        delta.click()
        toast(page, "Delta enabled in 4 groups")
        states = {name: house.group(name)["group_enabled"] for name in ("one", "two", "three", "pair")}
        assert states == {"one": True, "two": True, "three": False, "pair": True}
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Manage Providers")).to_be_focused()
    finally:
        house.api("DELETE", f"/api/providers/{solo['id']}")


def test_a_group_is_made_edited_and_deleted(house, board):
    page = board.page
    page.get_by_role("button", name="New Group").click()
    dialog = page.get_by_role("dialog", name="New group")
    expect(dialog.get_by_label("Display model")).to_be_focused()
    create = dialog.get_by_role("button", name="Create group")
    expect(create).to_be_disabled()
    dialog.get_by_label("Display model").fill("My-Mix")
    offer(dialog, "Beta", "glm-4.6").check()
    dialog.get_by_label("Search models").fill("alpha / GLM")
    expect(dialog.locator("summary")).to_have_text(["Alpha (1)"])
    offer(dialog, "Alpha", "glm-4.6").check()
    expect(dialog.get_by_text("2 selected")).to_be_visible()
    create.click()
    toast(page, "hotel/my-mix created")
    expect(dialog).to_have_count(0)
    expect(board.card("my-mix").locator(".mh-member-name")).to_have_text(["Beta / glm-4.6", "Alpha / glm-4.6"])
    expect(page.locator("#section-custom").get_by_text("hotel/my-mix")).to_be_visible()
    assert house.served_by("my-mix") == "Beta"
    page.get_by_role("button", name="Edit hotel/my-mix").click()
    dialog = page.get_by_role("dialog", name="Edit hotel/my-mix")
    dialog.get_by_label("Display model").fill("our-mix")
    dialog.get_by_role("button", name="Move Alpha / glm-4.6 up").click()
    dialog.get_by_role("button", name="Save").click()
    toast(page, "hotel/our-mix saved")
    assert house.served_by("our-mix") == "Alpha"
    page.get_by_role("button", name="Delete hotel/our-mix").click()
    question = page.get_by_role("dialog", name="Delete hotel/our-mix?")
    expect(question.get_by_text("Requests for hotel/our-mix are refused at once.")).to_be_visible()
    question.get_by_role("button", name="Delete").click()
    expect(board.card("our-mix")).to_have_count(0)
    assert house.hotel.chat("hotel/our-mix").status_code == 404


def test_a_taken_name_is_said_and_the_input_stays(house, page):
    """routing 47. The page's part."""
    board = Seen(house, page)
    page.get_by_role("button", name="New Group").click()
    dialog = page.get_by_role("dialog", name="New group")
    dialog.get_by_label("Display model").fill("glm-4.6")
    for provider in ("Alpha", "Beta"):
        offer(dialog, provider, "flaky").check()
    text = house.hotel.product.api("POST", "/api/failover-groups", json={
        "display_model": "glm-4.6", "entry_ids": [house.member("flaky", "Alpha"), house.member("flaky", "Beta")],
    }).text  # fmt: skip
    # The browser itself calls every 409 an error of the page, so the answer is handed to it here.
    page.evaluate(
        """(text) => {
        const real = window.fetch;
        window.fetch = (path, options) => options?.method === "POST"
          ? Promise.resolve(new Response(text, { status: 409 })) : real(path, options);
    }""",
        text,
    )
    dialog.get_by_role("button", name="Create group").click()
    toast(page, "hotel/glm-4.6 already exists")
    expect(dialog.get_by_role("alert")).to_contain_text("A failover group for 'glm-4.6' already exists")
    expect(dialog.get_by_label("Display model")).to_have_value("glm-4.6")
    assert board.writes == []


def test_whether_broken_streams_are_recovered_is_chosen_in_the_dialog(house, board):
    """part of beyond 1 (routing B10). An auto group, whose members sync keeps, has its options in their own dialog."""
    page = board.page
    choice = "Mid-stream recovery"
    page.get_by_role("button", name="Options of hotel/pair").click()
    dialog = page.get_by_role("dialog", name="Options of hotel/pair")
    expect(dialog.get_by_label(choice).locator("option")).to_have_text(["Default", "Off", "Continue"])
    expect(dialog.get_by_label(choice)).to_be_focused()
    expect(dialog.get_by_label("Display model")).to_have_count(0)
    dialog.get_by_label(choice).select_option("Continue")
    dialog.get_by_role("button", name="Save").click()
    toast(page, "hotel/pair saved")
    assert board.writes[-1][1] == {"midstream_recovery": "continue"}
    assert (house.group("pair")["midstream_recovery"], house.group("pair")["auto_created"]) == ("continue", True)
    page.get_by_role("button", name="Options of hotel/pair").click()
    expect(dialog.get_by_label(choice)).to_have_value("continue")
    dialog.get_by_label(choice).select_option("Default")
    dialog.get_by_role("button", name="Save").click()
    assert eventually(lambda: house.group("pair")["midstream_recovery"] is None)


def test_unavailable_members_are_tried_again_or_dropped(house, board):
    models = [house.member("glm-4.6", name) for name in ("Alpha", "Beta", "Gamma")]
    house.api("POST", "/api/failover-groups", json={"display_model": "trio", "entry_ids": models})
    for model in models[1:]:
        house.api("PATCH", f"/api/models/{model}", json={"enabled": False})
    house.fakes["Gamma"].refuse()
    page = board.page
    try:
        # Both: the editor opens with what the board knows, and the board reads two edits in two readings if need be.
        expect(board.card("trio").locator(".mh-row").filter(has_text="Model disabled")).to_have_count(2)
        page.get_by_role("button", name="Edit hotel/trio").click()
        dialog = page.get_by_role("dialog", name="Edit hotel/trio")
        for name in ("Beta", "Gamma"):
            expect(dialog.get_by_text(f"{name} / glm-4.6 (unavailable)")).to_be_visible()
        dialog.get_by_role("button", name="Retry N/A").click()
        expect(dialog.get_by_text("Beta / glm-4.6: answers, enabled again")).to_be_visible()
        expect(dialog.locator(".mh-results li[data-tone=bad]")).to_contain_text("Gamma / glm-4.6:")
        expect(dialog.get_by_text("(unavailable)")).to_have_count(1)
        dialog.get_by_role("button", name="Delete N/A").click()
        expect(dialog.get_by_text("2 selected")).to_be_visible()
        dialog.get_by_role("button", name="Save").click()
        assert eventually(lambda: len(house.group("trio")["entries"]) == 2)
    finally:
        house.fakes["Gamma"].listen()
        for model in models[1:]:
            house.api("PATCH", f"/api/models/{model}", json={"enabled": True})


def test_filters_are_in_the_address_and_back_returns(house, board):
    page = board.page
    page.get_by_label("Filter by name").fill("PAIR")
    expect(page.locator(".mh-fgroup:visible")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"\?q=PAIR$"))
    page.get_by_role("button", name="Clear filters").first.click()
    expect(page.locator(".mh-fgroup:visible")).to_have_count(3)
    page.get_by_label("Provider", exact=True).select_option("Delta")
    expect(page.locator("#board-provider-text")).to_have_text("1 group with Delta entries")
    expect(page.get_by_role("button", name="Disable all Delta")).to_be_visible()
    page.get_by_label("Origin").select_option("Custom")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    page.go_back()
    expect(page.locator(".mh-fgroup:visible")).to_have_count(1)
    expect(page.get_by_label("Origin")).to_have_value("")
    page.reload()
    expect(page.locator(".mh-fgroup:visible")).to_have_count(1)
    expect(page.get_by_label("Provider", exact=True).locator("option:checked")).to_have_text("Delta")
    page.get_by_label("Provider", exact=True).select_option("")
    page.get_by_label("Origin").select_option("Custom")
    expect(page.get_by_text("No custom groups.")).to_be_visible()
    page.locator("h2").first.click()
    page.keyboard.press("/")
    expect(page.get_by_label("Filter by name")).to_be_focused()


def test_selected_groups_are_disabled_enabled_and_deleted_together(house, board):
    page = board.page
    for name in ("one", "two"):
        entries = [house.member("glm-4.6", "Alpha"), house.member("glm-4.6", "Beta")]
        house.api("POST", "/api/failover-groups", json={"display_model": name, "entry_ids": entries})
    page.get_by_label("Origin").select_option("Custom")
    expect(page.locator(".mh-fgroup:visible")).to_have_count(2)
    page.locator("#board-all").check()
    expect(page.locator("#board-selected")).to_have_text("2 selected")
    page.get_by_role("button", name="Disable all", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Disable all").click()
    toast(page, "2 groups disabled")
    assert [house.group(name)["auto_disabled"] for name in ("one", "two")] == [True, True]
    page.get_by_role("button", name="Enable all", exact=True).click()
    toast(page, "2 groups enabled")
    assert all(house.group(name)["group_enabled"] for name in ("one", "two"))
    page.get_by_role("button", name="Delete all").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("hotel/one")
    question.get_by_role("button", name="Delete all").click()
    toast(page, "2 groups deleted")
    expect(page.locator("#board-bulk")).to_be_hidden()
    assert {row["display_model"] for row in house.api("GET", "/api/failover-groups")["groups"]} == {
        "glm-4.6", "flaky", "pair",
    }  # fmt: skip


def test_sync_says_what_it_did(house, board):
    page = board.page
    page.get_by_role("button", name="Sync", exact=True).click()
    toast(page, "Failover groups synced")
    house.api("DELETE", f"/api/failover-groups/{house.group('pair')['id']}")
    expect(board.card("pair")).to_have_count(0)
    page.get_by_role("button", name="Sync", exact=True).click()
    toast(page, "1 group created: hotel/pair")
    model = house.member("pair", "Delta")
    house.api("PATCH", f"/api/models/{model}", json={"enabled": False})
    try:
        page.get_by_role("button", name="Sync", exact=True).click()
        toast(page, "hotel/pair deleted: only 1 enabled provider (need 2+ for failover) (Gamma)")
    finally:
        house.api("PATCH", f"/api/models/{model}", json={"enabled": True})


def test_a_viewer_reads_the_board_and_changes_nothing(house, viewer_page):
    """operations 55b"""
    board = Seen(house, viewer_page)
    expect(board.card("glm-4.6").locator(".mh-row")).to_have_count(3)
    assert board.badges("glm-4.6") == ["1", "2", "3"]
    for name in ("Sync", "New Group", "Manage Providers", "Edit", "Delete"):
        expect(viewer_page.get_by_role("button", name=name)).to_have_count(0)
    assert viewer_page.locator("#board .mh-handle, #board .mh-step, #board .mh-switch, #board .mh-check").count() == 0
    expect(board.card("glm-4.6").get_by_role("switch")).to_be_disabled()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_are_readable_in_both_themes(house, page, theme):
    page.add_init_script(f"localStorage.setItem('_x_adminTheme', '\"{theme}\"')")
    house.put("flaky", group_enabled=False)
    board = Seen(house, page)
    expect(board.row("glm-4.6", "Alpha")).to_be_visible()
    faint = page.evaluate("""() => {
        const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const rgb = (colours) => {
          paint.clearRect(0, 0, 1, 1);
          for (const one of colours) { paint.fillStyle = one; paint.fillRect(0, 0, 1, 1); }
          return paint.getImageData(0, 0, 1, 1).data;
        };
        const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, share, i) => {
          const v = c[i] / 255;
          return sum + share * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        }, 0);
        const found = [];
        for (const one of document.querySelectorAll("#board *")) {
          const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
          if (!own || !one.checkVisibility() || one.matches(":disabled, .mh-visually-hidden, option")) continue;
          const behind = [];
          for (let up = one; up; up = up.parentElement) behind.unshift(getComputedStyle(up).backgroundColor);
          const back = light(rgb(["#fff", ...behind]));
          const text = light(rgb(["#fff", ...behind, getComputedStyle(one).color]));
          const ratio = (Math.max(back, text) + 0.05) / (Math.min(back, text) + 0.05);
          if (ratio < 4.5) found.push(`${one.className} ${one.textContent.trim()} ${ratio.toFixed(2)}`);
        }
        return found;
    }""")
    assert faint == []


@pytest.mark.parametrize("width", [360, 2560])
def test_the_board_fits_narrow_and_wide_windows(house, page, width):
    page.set_viewport_size({"width": width, "height": 800})
    board = Seen(house, page)
    expect(board.row("glm-4.6", "Alpha")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_click_on_the_name_copies_it(house, board):
    board.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    title = board.page.get_by_role("button", name="hotel/glm-4.6", exact=True)
    title.focus()
    board.page.keyboard.press("Enter")
    toast(board.page, "Copied hotel/glm-4.6")
    assert board.page.evaluate("navigator.clipboard.readText()") == "hotel/glm-4.6"
