"""The dashboard in a real browser: the ways an operator goes, without a complaint in the console."""

import re

import pytest
from playwright.sync_api import expect

from tests.pages.conftest import Watched
from tests.upstream.server import FakeProvider, answer, status
from tests.wire.product import eventually

# Without the fixtures, whose parts have deadlines of their own: the first test of a worker starts product and browser.
pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]

LISTS = ("/providers/provider/", "/providers/model/", "/failover/failovergroup/", "/proxy/virtualkey/")
REQUESTS, LOG = "/requestlogs/requestlog/", "/requestlogs/applog/"


def save(page):
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_load_state()


def test_signing_in_leads_to_the_page_first_asked_for(hotel):
    context = hotel.browser.new_context()
    page = context.new_page()
    watched = Watched(page)
    page.goto(f"{hotel.url}/settings/")
    assert "/login/?next=/settings/" in page.url
    expect(page.get_by_role("link", name="Return to site")).to_have_count(0)
    hotel.sign_in(page, "admin", "correct-horse-7")
    assert page.url == f"{hotel.url}/settings/"
    expect(page.get_by_role("heading", name="Model Discovery")).to_be_visible()
    context.close()
    assert watched.complaints == []


def test_providers_are_added_and_their_models_and_group_appear(hotel, page):
    with FakeProvider(["story-1"]) as one, FakeProvider(["story-1"]) as two:
        for name, fake in (("First", one), ("Second", two)):
            page.goto(f"{hotel.url}/providers/provider/")
            page.get_by_role("link", name="Add provider").click()
            page.get_by_label("Name").fill(name)
            page.get_by_label("Type").select_option(label="DeepSeek")
            expect(page.get_by_label("Base URL")).to_have_value("https://api.deepseek.com/v1")
            page.get_by_label("Type").select_option(label="OpenAI")
            page.get_by_label("Base URL").fill(fake.url)
            page.get_by_label("API key").fill("sk-story-key")
            save(page)
            expect(page.get_by_text(f"{name}: 1 model found")).to_be_visible()
        page.goto(f"{hotel.url}/providers/model/?q=story-1")
        expect(page.locator("#result_list tbody tr")).to_have_count(2)
        page.goto(f"{hotel.url}/failover/failovergroup/?q=story-1")
        expect(page.get_by_role("link", name="hotel/story-1")).to_be_visible()
        assert "sk-story-key" not in page.content()


def test_what_is_wrong_stands_beside_its_field(hotel, page):
    page.goto(f"{hotel.url}/providers/provider/add/")
    page.get_by_label("Name").fill("Alpha")
    page.get_by_label("Base URL").fill("nonsense")
    save(page)
    row = page.locator(".field-base_url, .form-row", has=page.locator("#id_base_url")).last
    expect(row).to_contain_text("base_url must be an http or https URL with a host")
    expect(page.get_by_label("Name")).to_have_value("Alpha")
    page.get_by_label("Base URL").fill(hotel.a.url)
    page.get_by_label("Type").select_option(label="OpenAI")
    page.get_by_label("API key").fill("sk-x")
    save(page)
    expect(page.get_by_text("a provider with this name already exists")).to_be_visible()


def test_a_member_is_moved_up_by_keyboard_and_the_next_request_goes_there(hotel, page):
    """part of operations 54"""
    page.goto(f"{hotel.url}/failover/failovergroup/?q=glm-4.6")
    page.get_by_role("link", name="hotel/glm-4.6").click()
    members = page.locator(".mh-member")
    second = members.nth(1).inner_text()
    button = page.get_by_role("button", name=f"Move {second} up")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text(f"{second} is now at position 1 of 2")
    expect(page.get_by_role("button", name=f"Move {second} down")).to_be_focused()
    save(page)
    said = hotel.chat("hotel/glm-4.6").json()["choices"][0]["message"]["content"]
    assert said == {"Alpha / glm-4.6": "from A", "Beta / glm-4.6": "from B"}[second]
    page.go_back()
    page.reload()
    expect(members.first).to_have_text(second)


def test_a_key_is_shown_once_and_opens_v1(hotel, page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{hotel.url}/proxy/virtualkey/add/")
    page.get_by_label("Name").fill("laptop")
    save(page)
    key = page.locator("#new-key").inner_text()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == key
    assert hotel.chat("Alpha/glm-4.6", key).status_code == 200
    page.get_by_role("link", name="I saved it").click()
    page.get_by_role("link", name="laptop").click()
    assert key not in page.content()


def test_a_request_shows_its_attempts_in_order(hotel, page):
    # Whoever is asked first fails once.
    hotel.a.script(status(503), answer("from A"), model="flaky")
    hotel.b.script(answer("from B"), model="flaky")
    group = next(
        item for item in hotel.product.api("GET", "/api/failover-groups").json()["groups"]
        if item["display_model"] == "flaky"
    )  # fmt: skip
    order = [entry["model_uuid"] for entry in sorted(group["entries"], key=lambda entry: entry["provider_name"])]
    put = hotel.product.api("PUT", f"/api/failover-groups/{group['id']}", json={"priority_order": order})
    assert put.status_code == 200
    assert hotel.chat("hotel/flaky").json()["choices"][0]["message"]["content"] == "from B"
    page.goto(f"{hotel.url}{REQUESTS}?q=hotel/flaky")
    page.locator("#result_list a[href*='/change/']").first.click()
    rows = page.locator(".mh-table tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_have_text(re.compile(r"1\s+Alpha / flaky\s+503\s+provider error\s+charge"))
    expect(rows.nth(1)).to_have_text(re.compile(r"2\s+Beta / flaky\s+200\s+success"))
    expect(page.locator("time").first).to_have_attribute("title", re.compile(r"^20\d\d-.*Z$"))
    expect(page.get_by_role("link", name="History")).to_have_count(0)
    page.goto(f"{hotel.url}{REQUESTS}")
    page.get_by_text("Filters").first.click()
    page.get_by_role("link", name="5xx").click()
    expect(page.get_by_text("hotel/flaky")).to_have_count(0)


def test_a_name_with_markup_is_text_everywhere(hotel, page):
    """operations 59"""
    name, model = '<img src=x onerror="window.broken=1">', "<b>glm-4.6"
    with FakeProvider([model, "glm-4.6"]) as fake:
        fake.script(answer("from C"))
        made = hotel.add_provider(name, fake)
        try:
            assert hotel.chat(f"{name}/{model}").status_code == 200
            assert eventually(lambda: hotel.product.api("GET", "/api/logs").json()["entries"][0]["provider_id"] == made)
            pages = [f"{address}?q=glm-4.6" for address in LISTS[1:3]] + [LISTS[0], f"{LISTS[0]}{made}/change/"]
            pages += [f"{LISTS[0]}{made}/delete/", REQUESTS, "/"]
            for address in pages:
                page.goto(hotel.url + address)
                page.wait_for_load_state("load")
                if address.startswith((LISTS[2], REQUESTS)):
                    page.locator("#result_list a[href*='/change/']").first.click()
                    page.wait_for_load_state("load")
                assert page.locator("img[src='x'], #content b:text('glm-4.6')").count() == 0, address
                assert page.evaluate("window.broken") is None, address
                if address != "/":
                    expect(
                        page.get_by_text("<img src=x").or_(page.locator("input[value*='<img src=x']")).first
                    ).to_be_visible()
        finally:
            hotel.product.api("DELETE", f"/api/providers/{made}")


def test_rows_are_chosen_disabled_after_a_question_and_deleted(hotel, page):
    with FakeProvider(["idle-1"]) as fake:
        hotel.add_provider("Idle", fake)
    page.goto(f"{hotel.url}/providers/provider/?q=Idle")
    page.locator("input.action-select").first.check()
    page.locator("select[name=action]").select_option(label="Disable")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("Idle: its 1 model will not be routed to")).to_be_visible()
    page.get_by_role("button", name="Yes, go on").click()
    expect(page.get_by_text("1 provider disabled.")).to_be_visible()
    page.get_by_role("link", name="Idle").click()
    page.get_by_role("link", name="Delete provider").click()
    expect(page.get_by_text("1 model: idle-1")).to_be_visible()
    page.get_by_role("button", name="Yes, delete").click()
    page.wait_for_url("**/providers/provider/**")
    names = [row["name"] for row in hotel.product.api("GET", "/api/providers").json()]
    assert "Idle" not in names


def test_a_viewer_finds_no_control_that_writes(hotel, viewer_page):
    """operations 55b"""
    hotel.chat("Alpha/glm-4.6")
    page = viewer_page
    for address in (*LISTS, REQUESTS, LOG):
        page.goto(hotel.url + address)
        expect(page.locator("#result_list")).to_be_visible()
        assert page.locator("input.action-select, .addlink, .mh-buttons").count() == 0, address
        page.locator("#result_list a[href*='/change/']").first.click()
        page.wait_for_load_state()
        assert "/change/" in page.url
        assert page.get_by_role("button", name=re.compile("Save|Delete|Reset|Discover|Test")).count() == 0, address
        assert page.get_by_role("link", name=re.compile("Delete|Add")).count() == 0, address
        assert page.locator("#content-main input:not([type=hidden]), #content-main select").count() == 0, address
    page.goto(f"{hotel.url}/settings/")
    expect(page.get_by_label("Key Cache TTL", exact=True)).to_be_disabled()
    assert page.get_by_role("button", name=re.compile("Save|Reset")).count() == 0


def test_every_page_fits_a_phone_and_complains_of_nothing(hotel, page):
    hotel.chat("hotel/glm-4.6")
    assert eventually(lambda: hotel.product.api("GET", "/api/logs").json()["entries"])
    page.set_viewport_size({"width": 360, "height": 740})
    visited = ["/", "/settings/", "/password_change/"]
    for address in (*LISTS, REQUESTS):
        page.goto(hotel.url + address)
        visited.append(address)
        visited.append(page.locator("#result_list a[href*='/change/']").first.get_attribute("href") or "")
        if address in LISTS and "model" not in address:
            visited.append(f"{address}add/")
        if address in LISTS:
            visited.append(visited[-1 if "model" in address else -2].split("change/")[0] + "delete/")
    for address in visited:
        page.goto(hotel.url + address)
        page.wait_for_load_state("load")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"{address} is {width} px wide"
