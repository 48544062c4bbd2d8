"""The page of the virtual keys in a real browser: made, used, changed and taken back."""

import json
import os
import re
import shlex
import subprocess
import sys
import time

import pytest
from playwright.sync_api import expect

from tests.pace import slower
from tests.pages.conftest import WAIT
from tests.pages.test_modules import ask
from tests.upstream.server import answer

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]
PAGE = "/keys/"
#: The tabs, in order; those of programs that usually run in a container.
CLIENTS = (
    *("cURL", "PowerShell", "Python", "JavaScript", "Claude Code", "OpenCode"),
    *("OpenClaw", "LibreChat", "Zed", "Hermes", "Open WebUI"),
)
CONTAINED = ("LibreChat", "Open WebUI")
CLAUDE = """
import anthropic, os
assert "ANTHROPIC_API_KEY" not in os.environ
answer = anthropic.Anthropic().messages.create(
    model=os.environ["ANTHROPIC_MODEL"], max_tokens=9, messages=[{"role": "user", "content": "hi"}])
print(answer.content[0].text)
"""


def make(hotel, name, **more):
    made = hotel.product.api("POST", "/api/virtual-keys", json={"name": name, **more})
    assert made.status_code == 201, made.text
    return made.json()


def provider(hotel, name):
    return next(row["id"] for row in hotel.product.api("GET", "/api/providers").json() if row["name"] == name)


def snippet(dialog, tab):
    dialog.get_by_role("tab", name=tab, exact=True).click()
    return dialog.locator("#key-snippet").inner_text()


def run(command):
    said = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=20,
        env={"PATH": os.environ["PATH"], "NO_PROXY": "*", "ANTHROPIC_API_KEY": "sk-not-this-one"},
    )
    assert said.returncode == 0, said.stderr
    return said.stdout


def members(text):
    """Of a YAML text: the members with a value; a quoted one and a list are JSON too."""
    found = re.findall(r"^ +(?:- )?(\w+): (.+)$", text, re.MULTILINE)
    return {name: json.loads(value) if value != "custom" else value for name, value in found}


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
    for tab in CLIENTS:
        text = snippet(dialog, tab)
        assert key in text
        assert "hotel/glm-4.6" in text or tab == "Open WebUI"
        assert (hotel.url if tab not in CONTAINED else "http://host.docker.internal:") in text
        expect(dialog.get_by_role("tab", name=tab)).to_be_focused()
    expect(dialog.get_by_text(re.compile("^POST /v1/chat/completions, .*GET /v1/models$"))).to_be_visible()
    command = shlex.split(snippet(dialog, "cURL").replace("\\\n", " "))
    said = run([*command, "-s", "--noproxy", "*"])
    assert json.loads(said)["choices"][0]["message"]["content"].startswith("Hello from")
    assert run([sys.executable, "-c", snippet(dialog, "Python")]).startswith("Hello from")
    dialog.get_by_role("button", name="Copy snippet").click()
    assert page.evaluate("navigator.clipboard.readText()") == snippet(dialog, "Python")
    # What stands for Claude Code here asks with the variables that it is given, in the same protocol.
    claude = f"claude() {{ {shlex.quote(sys.executable)} -c {shlex.quote(CLAUDE)}; }}"
    assert run(["bash", "-c", f"{claude}\n{snippet(dialog, 'Claude Code')}"]).startswith("Hello from")
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


def test_every_snippet_is_well_formed_whatever_the_model_is_called(hotel, page):
    """v1-api 20.1"""
    page.goto(f"{hotel.url}{PAGE}")
    model = 'o\'ne/"two"'
    facts = {"context_length": 200_000, "max_output_tokens": 32_000}
    args = f"'http://localhost:8080/v1', 'sk-x', {json.dumps(model)}, {json.dumps(facts)}"
    found = {one["name"]: one for one in ask(page, "keys/snippets.js", f"m.snippets({args})")}
    texts = {name: one["text"] for name, one in found.items()}
    assert tuple(texts) == CLIENTS
    assert json.loads(shlex.split(texts["cURL"].replace("\\\n", " "))[-1])["model"] == model
    compile(texts["Python"], "snippet", "exec")
    script = texts["JavaScript"].replace('import OpenAI from "openai";', "")
    assert page.evaluate(f"typeof (async () => {{}}).constructor({json.dumps(script)})") == "function"
    assert """model = 'o''ne/"two"'""" in texts["PowerShell"]
    assert "-Uri 'http://localhost:8080/v1/chat/completions' `\n" in texts["PowerShell"]
    assert subprocess.run(["bash", "-n", "-c", texts["Claude Code"]], timeout=10).returncode == 0
    assert "ANTHROPIC_BASE_URL='http://localhost:8080'\n" in texts["Claude Code"]
    own = json.loads(texts["OpenCode"])["provider"]["modelhotel"]
    assert own["options"] == {"baseURL": "http://localhost:8080/v1", "apiKey": "sk-x"}
    assert own["models"][model]["limit"] == {"context": 200_000, "output": 32_000}
    claw = json.loads(texts["OpenClaw"])
    assert claw["agents"]["defaults"]["model"]["primary"] == f"modelhotel/{model}"
    assert claw["models"]["providers"]["modelhotel"]["models"][0]["contextWindow"] == 200_000
    settings = "\n".join(line for line in texts["Zed"].splitlines() if not line.startswith("//"))
    zed = json.loads(settings)["language_models"]["openai_compatible"]["modelhotel"]
    assert zed["available_models"] == [{"name": model, "max_tokens": 200_000, "max_output_tokens": 32_000}]
    assert "MODELHOTEL_API_KEY=sk-x" in texts["Zed"]
    chat = members(texts["LibreChat"])
    assert (chat["default"], chat["titleModel"], chat["fetch"]) == ([model], model, True)
    assert (chat["baseURL"], chat["apiKey"]) == ("http://host.docker.internal:8080/v1", "sk-x")
    assert members(texts["Hermes"]) == {
        "provider": "custom",
        "base_url": "http://localhost:8080/v1",
        "api_key": "sk-x",
        "default": model,
        "context_length": 200_000,
    }
    assert "http://host.docker.internal:8080/v1" in texts["Open WebUI"]
    assert all("HOST=0.0.0.0" in found[name]["hint"] for name in CONTAINED)
    elsewhere = ask(page, "keys/snippets.js", "m.snippets('https://ai.example.com/v1', 'sk-x', 'a')")
    for one in elsewhere:
        assert "https://ai.example.com" in one["text"] and "HOST=" not in one["hint"]


def test_the_snippets_can_be_read_again_with_a_placeholder_for_the_key(hotel, page, viewer_page):
    beta = provider(hotel, "Beta")
    made = make(hotel, "beta client", allowed_providers=[beta])
    page.goto(f"{hotel.url}{PAGE}?q=beta client")
    row(page, "beta client").get_by_role("button", name="connect a client").click()
    dialog = page.get_by_role("dialog", name="Connect a client with the key “beta client”")
    offered = dialog.get_by_label("Model").locator("option").all_inner_texts()
    assert "Beta/glm-4.6" in offered and "hotel/glm-4.6" in offered
    assert not any(name.startswith("Alpha/") for name in offered)
    dialog.get_by_label("Model").select_option("Beta/glm-4.6")
    # The tabs are one stop for the keyboard; arrows, Home and End go along them.
    tab = dialog.get_by_role("tab", name="cURL")
    tab.focus()
    for key, name in (
        ("ArrowRight", "PowerShell"),
        ("End", "Open WebUI"),
        ("ArrowRight", "cURL"),
        ("ArrowLeft", "Open WebUI"),
        ("Home", "cURL"),
    ):
        page.keyboard.press(key)
        expect(dialog.get_by_role("tab", name=name)).to_be_focused()
        expect(dialog.get_by_role("tab", selected=True)).to_have_text(name)
    page.keyboard.press("Tab")
    expect(dialog.locator("pre")).to_be_focused()
    for name in CLIENTS:
        text = snippet(dialog, name)
        assert "YOUR_VIRTUAL_KEY" in text and made["key"] not in text
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(row(page, "beta client").get_by_role("button", name="connect a client")).to_be_focused()
    viewer_page.goto(f"{hotel.url}{PAGE}")
    viewer_page.get_by_role("button", name="Snippets for eleven clients").click()
    dialog = viewer_page.get_by_role("dialog", name="Connect a client")
    assert "Alpha/glm-4.6" in dialog.get_by_label("Model").locator("option").all_inner_texts()
    assert f"{hotel.url}/v1" in snippet(dialog, "Hermes")
    hotel.product.api("DELETE", f"/api/virtual-keys/{made['id']}")


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
    snippet(dialog, "PowerShell")
    assert dialog.locator("pre").evaluate("(pre) => pre.scrollWidth > pre.clientWidth")
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
    texts = [" ".join(text.split()) for text in cells.all_inner_texts()]
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
    texts = [" ".join(text.split()) for text in cells.all_inner_texts()]
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
