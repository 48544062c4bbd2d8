"""The page of the virtual keys in a real browser: made, used, changed and taken back."""

import json
import re
import shlex
import subprocess
import time

import pytest
from playwright.sync_api import expect

from tests.pace import slower
from tests.pages.conftest import WAIT
from tests.pages.test_modules import ask
from tests.upstream.server import answer

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]
PAGE = "/keys/"


def make(hotel, name, **more):
    made = hotel.product.api("POST", "/api/virtual-keys", json={"name": name, **more})
    assert made.status_code == 201, made.text
    return made.json()


def provider(hotel, name):
    return next(row["id"] for row in hotel.product.api("GET", "/api/providers").json() if row["name"] == name)


def row(page, name):
    return page.locator("#keys-table tbody tr").filter(has=page.get_by_text(name, exact=True))


def names(page):
    return page.locator("#keys-table tbody .mh-keys-name > span:first-child")


def test_a_new_key_is_shown_once_with_snippets_that_work(hotel, page):
    hotel.a.script(answer("Hello from Alpha"))
    hotel.b.script(answer("Hello from Beta"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{hotel.url}/")
    page.get_by_role("link", name="Virtual keys", exact=True).first.click()
    page.wait_for_url(f"**{PAGE}")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name", exact=True).fill("laptop")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Your new key “laptop”")
    key = dialog.locator("#key-text").inner_text()
    assert re.fullmatch(r"sk-[0-9a-f]{32}", key)
    dialog.get_by_role("button", name="Copy key").click()
    expect(dialog.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == key
    # A group comes first; every snippet holds this address, the key and that name.
    expect(dialog.get_by_label("Model")).to_have_value(re.compile("^hotel/"))
    dialog.get_by_label("Model").select_option("hotel/glm-4.6")
    for tab in ("curl", "Python", "JavaScript", "Open WebUI"):
        dialog.get_by_role("tab", name=tab).click()
        text = dialog.locator("#key-snippet").inner_text()
        assert key in text
        assert ("hotel/glm-4.6" in text and f"{hotel.url}/v1" in text) or tab == "Open WebUI"
    expect(dialog.get_by_text(re.compile("^POST /v1/chat/completions, .*GET /v1/models$"))).to_be_visible()
    dialog.get_by_role("tab", name="curl").click()
    command = shlex.split(dialog.locator("#key-snippet").inner_text().replace("\\\n", " "))
    said = subprocess.run([*command, "-s", "--noproxy", "*"], capture_output=True, text=True, timeout=10, check=True)
    assert json.loads(said.stdout)["choices"][0]["message"]["content"].startswith("Hello from")
    dialog.get_by_role("tab", name="Python").click()
    compile(dialog.locator("#key-snippet").inner_text(), "snippet", "exec")
    dialog.get_by_role("button", name="Send a test request").click()
    expect(dialog.get_by_text(re.compile("answered by (Alpha|Beta)"))).to_be_visible()
    expect(dialog.get_by_text(re.compile("Hello from (Alpha|Beta)"))).to_be_visible()
    # Only the button closes it.
    for _ in range(3):
        page.keyboard.press("Escape")
    page.mouse.click(5, 5)
    expect(dialog).to_be_visible()
    expect(dialog.get_by_text("Copy the key first")).to_be_visible()
    dialog.get_by_role("button", name="I saved it").click()
    expect(dialog).to_have_count(0)
    assert key not in page.content()
    page.reload()
    expect(row(page, "laptop")).to_contain_text(f"sk-...{key[-4:]}")
    assert key not in page.content()
    assert hotel.chat("hotel/glm-4.6", key).status_code == 200


def test_what_is_wrong_stands_beside_its_field_and_nothing_typed_is_lost(hotel, page):
    # A page of its own: a refusal is an error to the console, which the other pages must not have.
    context = hotel.browser.new_context(storage_state=page.context.storage_state())
    page = context.new_page()
    page.set_default_timeout(WAIT)
    page.goto(f"{hotel.url}{PAGE}?new")
    assert "new" not in page.url
    dialog = page.get_by_role("dialog", name="New key")
    name, create = dialog.get_by_label("Name", exact=True), dialog.get_by_role("button", name="Create key")
    every, alpha = dialog.get_by_role("button", name="Every provider"), dialog.get_by_role("button", name="Alpha")
    name.fill("Chat")
    create.click()
    expect(dialog.get_by_text('name "chat" is reserved')).to_be_visible()
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(name).to_be_focused()
    name.fill("fine")
    expect(dialog.get_by_text("is reserved")).to_have_count(0)
    expect(every).to_have_attribute("aria-pressed", "true")
    alpha.click()
    expect(every).to_have_attribute("aria-pressed", "false")
    alpha.click()
    expect(dialog.get_by_text("Choose at least one provider.")).to_be_visible()
    create.click()
    expect(dialog.get_by_text("allowed_providers must be null or contain at least one provider ID")).to_be_visible()
    expect(name).to_have_value("fine")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    context.close()


def test_access_and_reasoning_are_changed_and_bind_the_next_request(hotel, page):
    made = make(hotel, "narrow")
    page.goto(f"{hotel.url}{PAGE}?q=narrow")
    row(page, "narrow").get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Change the key “narrow”")
    dialog.get_by_role("button", name="Beta").click()
    dialog.get_by_label("Strip reasoning").check()
    dialog.get_by_role("button", name="Save").click()
    expect(row(page, "narrow")).to_contain_text("Beta")
    expect(row(page, "narrow")).to_contain_text("reasoning stripped")
    stored = hotel.product.api("GET", f"/api/virtual-keys/{made['id']}").json()
    assert stored["allowed_providers"] == [provider(hotel, "Beta")]
    assert stored["strip_reasoning"] is True
    assert hotel.chat("Beta/glm-4.6", made["key"]).status_code == 200
    assert hotel.chat("Alpha/glm-4.6", made["key"]).status_code >= 400


def test_a_deleted_key_is_asked_about_and_refused_at_once(hotel, page):
    """v1-api 5.5; operations 84, one process: the answer to the click comes after the key table was rebuilt."""
    made = make(hotel, "doomed")
    assert hotel.chat("Alpha/glm-4.6", made["key"]).status_code == 200
    page.goto(f"{hotel.url}{PAGE}?q=doomed")
    row(page, "doomed").get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Delete the key “doomed”")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    assert hotel.chat("Alpha/glm-4.6", made["key"]).status_code == 200
    row(page, "doomed").get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    assert hotel.chat("Alpha/glm-4.6", made["key"]).status_code == 401
    page.get_by_role("button", name="Clear filters").last.click()
    expect(names(page).first).to_be_visible()
    assert "q=" not in page.url


def test_another_operator_s_changes_arrive_without_a_reload(hotel, page):
    """operations 41a"""
    page.goto(f"{hotel.url}{PAGE}?q=shared")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    page.wait_for_function("import('/static/modelhotel/app/live.js').then((m) => m.state() === 'live')")
    made = make(hotel, "shared one")
    began = time.monotonic()
    expect(names(page)).to_have_text(["shared one"])
    assert time.monotonic() - began < 1.5 * slower()
    row(page, "shared one").get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Strip reasoning").check()
    put = hotel.product.api("PUT", f"/api/virtual-keys/{made['id']}", json={"name": "shared two"})
    assert put.status_code == 200
    expect(dialog.get_by_text("This key was changed elsewhere meanwhile")).to_be_visible()
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("shared one")
    dialog.get_by_label("Name", exact=True).fill("shared three")
    dialog.get_by_role("button", name="Save").click()
    expect(names(page)).to_have_text(["shared three"])
    hotel.product.api("DELETE", f"/api/virtual-keys/{made['id']}")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()


def test_ten_a_page_sorted_and_filtered_in_the_address(hotel, page):
    made = [make(hotel, f"many {number}") for number in range(1, 13)]
    page.goto(f"{hotel.url}{PAGE}")
    page.keyboard.press("/")
    expect(page.get_by_label("Filter by name or preview")).to_be_focused()
    page.keyboard.type("many")
    expect(page.get_by_text("1–10 of 12")).to_be_visible()
    expect(names(page)).to_have_text([f"many {number}" for number in range(12, 2, -1)])
    page.get_by_role("button", name="Name", exact=True).click()
    expect(names(page)).to_have_text([f"many {number}" for number in range(1, 11)])
    expect(page.locator("th[data-sort=name]")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Name", exact=True).click()
    expect(names(page).first).to_have_text("many 12")
    page.get_by_role("button", name="Next page").click()
    expect(names(page)).to_have_text(["many 2", "many 1"])
    page.reload()
    expect(names(page)).to_have_text(["many 2", "many 1"])
    page.go_back()
    expect(names(page).first).to_have_text("many 12")
    for key in made:
        hotel.product.api("DELETE", f"/api/virtual-keys/{key['id']}")


def test_keys_are_filtered_by_the_provider_they_may_use(hotel, page):
    beta = provider(hotel, "Beta")
    made = [
        make(hotel, "only beta", allowed_providers=[beta]),
        make(hotel, "not beta", allowed_providers=[provider(hotel, "Alpha")]),
    ]
    page.goto(f"{hotel.url}{PAGE}")
    page.get_by_label("Provider access").select_option(label="May use Beta")
    expect(row(page, "only beta")).to_have_count(1)
    expect(row(page, "not beta")).to_have_count(0)
    expect(page).to_have_url(re.compile(f"provider={beta}"))
    for key in made:
        hotel.product.api("DELETE", f"/api/virtual-keys/{key['id']}")


def test_a_viewer_sees_the_keys_and_no_control_that_writes(hotel, viewer_page):
    """operations 55b"""
    viewer_page.goto(f"{hotel.url}{PAGE}?q=app")
    expect(row(viewer_page, "app")).to_be_visible()
    assert viewer_page.get_by_role("button", name=re.compile("^(New key|Edit|Delete|Create the)")).count() == 0
    viewer_page.goto(f"{hotel.url}{PAGE}?new&q=app")
    expect(row(viewer_page, "app")).to_be_visible()
    assert viewer_page.get_by_role("dialog").count() == 0


def test_names_with_markup_and_quotes_are_text_everywhere(hotel, page):
    """operations 59"""
    name = '<img src=x onerror="window.broken=1"> it\'s'
    made = make(hotel, name)
    page.goto(f"{hotel.url}{PAGE}?q=onerror")
    expect(page.get_by_text(name)).to_be_visible()
    page.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value(name)
    assert page.evaluate("window.broken") is None
    hotel.product.api("DELETE", f"/api/virtual-keys/{made['id']}")
    model = 'o\'ne/"two"'
    found = ask(page, "keys/snippets.js", f"m.snippets('http://localhost:8080/v1', 'sk-x', {json.dumps(model)})")
    body = shlex.split(found[0]["text"].replace("\\\n", " "))[-1]
    assert json.loads(body)["model"] == model
    compile(found[1]["text"], "snippet", "exec")
    assert "http://host.docker.internal:8080/v1" in found[3]["text"]
    assert "HOST=0.0.0.0" in found[3]["hint"]
    found = ask(page, "keys/snippets.js", "m.snippets('https://ai.example.com/v1', 'sk-x', 'a')")
    assert "https://ai.example.com/v1" in found[3]["text"] and "HOST=" not in found[3]["hint"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_and_its_dialogs_fit_a_phone(hotel, page, theme):
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{hotel.url}{PAGE}?new")
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) <= 360
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill(f"phone {theme}")
    dialog.get_by_role("button", name="Create key").click()
    saved = dialog.get_by_role("button", name="I saved it")
    expect(saved).to_be_in_viewport()
    assert page.evaluate(wide) <= 360
    box = dialog.bounding_box()
    assert box and box["x"] >= 0 and box["x"] + box["width"] <= 360
    saved.click()
    expect(dialog).to_have_count(0)


def test_limits_are_given_in_the_dialog_shown_in_the_list_and_hold(hotel, page):
    """operations 3.6: rates and the budget of a key; an empty field is the setting's value, as its placeholder says."""
    page.goto(f"{hotel.url}{PAGE}?new")
    dialog = page.get_by_role("dialog", name="New key")
    rps, burst, tpm = (dialog.get_by_label(name) for name in ("Requests per second", "Burst", "Tokens per minute"))
    expect(rps).to_have_attribute("placeholder", "10 (default)")
    expect(burst).to_have_attribute("placeholder", "20 (default)")
    expect(tpm).to_have_attribute("placeholder", "no cap (default)")
    dialog.get_by_label("Name", exact=True).fill("metered")
    rps.fill("many")
    dialog.get_by_role("button", name="Create key").click()
    expect(dialog.get_by_text("Requests per second: “many” is not a number")).to_be_visible()
    expect(rps).to_have_attribute("aria-invalid", "true")
    rps.fill("0.01")
    expect(dialog.get_by_text("is not a number")).to_have_count(0)
    burst.fill("1")
    tpm.fill("5000")
    dialog.get_by_label("Budget in dollars").fill("12.50")
    dialog.get_by_label("Budget period").select_option("week")
    dialog.get_by_role("button", name="Create key").click()
    page.get_by_role("button", name="Copy key").wait_for()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy key").click()
    page.get_by_role("button", name="I saved it").click()
    cells = row(page, "metered").locator("td")
    texts = [text.strip() for text in cells.all_inner_texts()]
    assert texts[3:7] == ["0.01", "1", "5,000", "$0.00 of $12.50 per week"]
    stored = next(key for key in hotel.product.api("GET", "/api/virtual-keys").json() if key["name"] == "metered")
    assert (stored["rate_limit_rps"], stored["rate_limit_burst"], stored["rate_limit_tpm"]) == (0.01, 1, 5000)
    assert (stored["budget_usd"], stored["budget_period"]) == (12.5, "week")
    row(page, "metered").get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Change the key “metered”")
    expect(dialog.get_by_label("Requests per second")).to_have_value("0.01")
    dialog.get_by_label("Requests per second").fill("0")
    # Somebody else changes another field meanwhile: it stays as they left it.
    put = {"name": "metered", "rate_limit_rps": 0.01, "rate_limit_burst": 1, "rate_limit_tpm": 9000}
    assert hotel.product.api("PUT", f"/api/virtual-keys/{stored['id']}", json=put).status_code == 200
    expect(dialog.get_by_text("This key was changed elsewhere meanwhile")).to_be_visible()
    dialog.get_by_label("Budget in dollars").fill("")
    dialog.get_by_role("button", name="Save").click()
    expect(cells.nth(3)).to_have_text("unlimited")
    texts = [text.strip() for text in cells.all_inner_texts()]
    assert texts[3:7] == ["unlimited", "1", "9,000", "none"]
    hotel.product.api("DELETE", f"/api/virtual-keys/{stored['id']}")


def test_a_limit_the_api_refuses_is_told_at_its_field(hotel, page):
    context = hotel.browser.new_context(storage_state=page.context.storage_state())
    page = context.new_page()
    page.set_default_timeout(8000)
    page.goto(f"{hotel.url}{PAGE}?new")
    dialog = page.get_by_role("dialog", name="New key")
    dialog.get_by_label("Name", exact=True).fill("fine")
    dialog.get_by_label("Burst").fill("0")
    dialog.get_by_role("button", name="Create key").click()
    expect(
        dialog.get_by_text("rate_limit_burst must be >= 1 (use null to fall back to global settings)")
    ).to_be_visible()
    expect(dialog.get_by_label("Burst")).to_have_attribute("aria-invalid", "true")
    expect(dialog.get_by_label("Burst")).to_be_focused()
    context.close()
