"""The page Models in a real browser: found, filtered, paged, tried, edited, switched and deleted."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.pace import slower
from tests.pages.conftest import Hotel
from tests.pages.test_modules import ask
from tests.upstream.server import FakeProvider, answer, status

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]
PAGE = "/models/"
#: Written past the verbs, which is none of a reader's: every third can see, every fifth thinks, every tenth is off.
FILL = """
from providers.models import Model, Provider
made = Provider.objects.create(name="Big House", base_url="https://big.example/v1", provider_type="custom")
Model.objects.bulk_create([
    Model(
        provider=made, model_id=f"big-{at:05}", name=f"big-{at:05}", display_name=f"Big {at:05}",
        capabilities={"streaming": True, "vision": at % 3 == 0, "reasoning": at % 5 == 0},
        output_modalities=["embedding"] if at % 60 == 0 else ["text"],
        context_length=1000 + at, enabled=at % 10 != 0,
    )
    for at in range(NUMBER)
], batch_size=500)
Model.objects.bulk_create([Model(provider=made, model_id=f"old-{at:02}", enabled=False) for at in range(12)])
"""


def fill(hotel: Hotel, number: int) -> None:
    made = hotel.product.manage("shell", "-c", FILL.replace("NUMBER", str(number)))
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="module")
def house(hotel: Hotel) -> Hotel:
    fill(hotel, 120)
    return hotel


@pytest.fixture
def priced(house: Hotel) -> Iterator[FakeProvider]:
    """``Priced/tale-1``, whose listing states its limits and prices."""
    listed = {
        "id": "tale-1",
        "name": "Tale One",
        "context_length": 64_000,
        "architecture": {"modality": "text->text", "output_modalities": ["text"], "input_modalities": ["text"]},
        "pricing": {"prompt": "0.000002", "completion": "0.000008"},
        "supported_parameters": ["tools"],
    }
    with FakeProvider([listed]) as fake:
        body = {"name": "Priced", "base_url": fake.url, "provider_type": "openrouter", "api_key": "sk-priced-key-0123"}
        made = house.product.api("POST", "/api/providers", json=body).json()
        assert house.product.api("POST", f"/api/providers/{made['id']}/discover").status_code == 200
        yield fake
    house.product.api("DELETE", f"/api/providers/{made['id']}")


def rows(page: Page) -> Any:
    return page.locator("#model-table tbody tr")


def names(page: Page) -> list[str]:
    return page.locator(".mh-model-open").all_inner_texts()


def dialog(page: Page) -> Any:
    return page.locator("dialog[open]")


def count(page: Page, text: str) -> None:
    expect(page.locator("#model-count")).to_have_text(re.compile(text))


def test_pages_go_forth_and_back_and_to_both_ends(house, page):
    page.goto(f"{house.url}{PAGE}?q=big-000")
    count(page, "^100 models")
    page.get_by_label("Rows per page").select_option("25")
    expect(rows(page)).to_have_count(25)
    at = page.locator("#model-at")
    expect(at).to_have_text("Page 1 of 4")
    seen = names(page)
    for number in (2, 3, 4):
        page.get_by_role("button", name="Next").click()
        expect(at).to_have_text(f"Page {number} of 4")
        expect(page.get_by_role("button", name="Previous")).to_be_enabled()
        seen += names(page)
    assert seen == [f"Big {number:05}" for number in range(100)]
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_role("button", name="First").click()
    expect(at).to_have_text("Page 1 of 4")
    page.get_by_role("button", name="Last").click()
    expect(at).to_have_text("Page 4 of 4")
    assert names(page) == [f"Big {number:05}" for number in range(75, 100)]
    page.get_by_role("button", name="Previous").click()
    expect(at).to_have_text("Page 3 of 4")
    assert names(page) == [f"Big {number:05}" for number in range(50, 75)]
    page.reload()
    expect(rows(page)).to_have_count(25)


def test_chips_and_filters_narrow_together_and_live_in_the_address(house, page):
    page.goto(f"{house.url}{PAGE}")
    page.get_by_role("button", name="Vision").click()
    count(page, "^40 models")
    page.get_by_role("button", name="Reasoning").click()
    count(page, "^8 models")
    expect(page).to_have_url(re.compile(r"capabilities=vision%2Creasoning"))
    expect(rows(page).nth(1).locator(".mh-chips .mh-chip")).to_have_text(["Vision", "Reasoning"])
    page.get_by_label("State", exact=True).select_option("disabled")
    count(page, "^4 models")
    page.get_by_role("button", name="Embedding").click()
    count(page, "^2 models")
    page.reload()
    count(page, "^2 models")
    expect(page.get_by_role("button", name="Vision")).to_have_attribute("aria-pressed", "true")
    page.go_back()
    count(page, "^4 models")
    expect(page.get_by_role("button", name="Embedding")).to_have_attribute("aria-pressed", "false")
    page.locator("body").press("/")
    page.keyboard.type("100%")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    page.locator("#model-empty-clear").click()
    count(page, r"^1\d\d models")
    page.get_by_label("Provider", exact=True).select_option(label="Alpha")
    count(page, "^2 models")
    page.get_by_role("button", name="Ctx").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Ctx")


def test_a_disabled_provider_parks_its_models(house, page, priced):
    made = next(one for one in house.product.api("GET", "/api/providers").json() if one["name"] == "Priced")
    page.goto(f"{house.url}{PAGE}?q=tale")
    expect(rows(page).first).to_contain_text("Enabled")
    page.wait_for_function("import('/static/modelhotel/app/live.js').then((live) => live.state() === 'live')")
    house.product.api("PUT", f"/api/providers/{made['id']}", json={"enabled": False})
    expect(rows(page).first).to_contain_text("Parked", timeout=1500 * slower())
    page.get_by_label("Scope").select_option(label="Active providers")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    page.get_by_label("State", exact=True).select_option("parked")
    expect(rows(page)).to_have_count(1)


def test_a_model_shows_everything_and_how_to_call_it(house, page, priced):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{house.url}{PAGE}?q=tale")
    page.get_by_role("button", name="Priced/tale-1").click()
    assert page.evaluate("navigator.clipboard.readText()") == "Priced/tale-1"
    page.get_by_role("button", name="Tale One").click()
    for text in ("64,000 tokens", "$2.00 per million tokens", "$8.00 per million tokens", "text → text", "Tools"):
        expect(dialog(page)).to_contain_text(text)
    said = dialog(page).locator("#model-snippet")
    expect(said).to_contain_text(f"curl {house.url}/v1/chat/completions")
    expect(said).to_contain_text('"model":"Priced/tale-1"')
    dialog(page).get_by_role("button", name="Python").click()
    expect(said).to_contain_text(f'client = OpenAI(base_url="{house.url}/v1"')
    compile(said.inner_text(), "snippet", "exec")
    dialog(page).get_by_role("button", name="JavaScript").click()
    expect(said).to_contain_text('model: "Priced/tale-1"')
    dialog(page).get_by_role("button", name="Copy", exact=True).click()
    assert page.evaluate("navigator.clipboard.readText()") == said.inner_text()
    page.reload()
    expect(dialog(page).get_by_role("heading", name="Tale One")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("model="))


def test_a_test_tells_the_latency_and_the_error_as_it_was_with_the_key_masked(house, page, priced):
    priced.script(answer("Hi"), status(402, "no money for sk-priced-key-0123 today"))
    page.goto(f"{house.url}{PAGE}?q=tale")
    page.get_by_role("button", name="Tale One").click()
    dialog(page).get_by_role("button", name="Test", exact=True).click()
    expect(dialog(page).locator(".mh-outcome")).to_have_text(re.compile(r"^Answered in [\d.]+ (ms|s), headers after"))
    expect(dialog(page)).to_contain_text("It said: Hi")
    dialog(page).get_by_role("button", name="Test", exact=True).click()
    expect(dialog(page).locator(".mh-test-error")).to_contain_text("HTTP 402: no money for [REDACTED] today")


def test_an_edited_price_is_pinned_and_goes_back_to_its_source(house, page, priced):
    """providers 41 on the page"""
    page.goto(f"{house.url}{PAGE}?q=tale")
    page.get_by_role("button", name="Tale One").click()
    dialog(page).get_by_role("button", name="Edit").click()
    dialog(page).get_by_label("Input price", exact=True).fill("5000")
    dialog(page).get_by_label("Display name").fill("My Tale")
    dialog(page).get_by_label("Max output").fill("12.5")
    dialog(page).get_by_role("button", name="Save").click()
    expect(dialog(page).get_by_role("alert").filter(has_text="invalid max output_tokens")).to_be_visible()
    dialog(page).get_by_label("Max output").fill("4096")
    dialog(page).get_by_label("Input price", exact=True).fill("5")
    dialog(page).get_by_role("button", name="Save").click()
    expect(dialog(page)).to_contain_text("pinned")
    expect(dialog(page)).to_contain_text("$5.00 per million tokens")
    expect(page.get_by_role("button", name="My Tale")).to_be_visible()
    dialog(page).get_by_role("button", name="Reset to source").click()
    expect(dialog(page)).to_contain_text("$2.00 per million tokens")
    expect(dialog(page)).not_to_contain_text("pinned")
    expect(dialog(page).get_by_role("button", name="Update info")).to_be_disabled()


def test_a_reranker_has_a_price_for_its_searches(house, page):
    with FakeProvider(["rerank-tale"]) as fake:
        body = {"name": "Ranked", "base_url": fake.url, "provider_type": "custom", "api_key": "sk-ranked-key-0123"}
        made = house.product.api("POST", "/api/providers", json=body).json()
        assert house.product.api("POST", f"/api/providers/{made['id']}/discover").status_code == 200
        page.goto(f"{house.url}{PAGE}?q=rerank-tale")
        page.get_by_role("button", name="rerank-tale", exact=True).click()
        expect(dialog(page).locator("#model-snippet")).to_contain_text(f"curl {house.url}/v1/rerank")
        dialog(page).get_by_role("button", name="Edit").click()
        dialog(page).get_by_label("Search price").fill("2")
        dialog(page).get_by_role("button", name="Save").click()
        expect(dialog(page)).to_contain_text("$2.00 per thousand search units")
        page.keyboard.press("Escape")
    house.product.api("DELETE", f"/api/providers/{made['id']}")


CALLS = {
    "chat": "client.chat.completions.create",
    "embedding": "client.embeddings.create",
    "image": "client.images.generate",
    "rerank": 'client.post("/rerank"',
    "tts": "client.audio.speech.create",
    "stt": "client.audio.transcriptions.create",
    "video": "client.chat.completions.create",
}


def test_every_class_of_models_has_its_call(house, page):
    page.goto(f"{house.url}{PAGE}")
    for modality, call in CALLS.items():
        found = dict(ask(page, "models/snippets.js", f"m.snippets('a/b', {{modality: '{modality}'}}, 'http://h')"))
        compile(found["Python"], "snippet", "exec")
        assert call in found["Python"] and call.partition("(")[0] in found["JavaScript"]
        assert found["curl"].startswith("curl http://h/v1/")


def test_the_state_of_a_model_says_who_switched_it_off(house, page):
    page.goto(f"{house.url}{PAGE}")
    for flags, why in (
        ("disabled_manually: true", "by hand"),
        ("auto_retired_at: '2026-10-01T00:00:00Z'", "by its provider's refusals"),
        ("auto_retired_at: null", "by discovery"),
    ):
        found = ask(page, "models/facts.js", f"m.status({{enabled: false, provider_enabled: true, {flags}}})")
        assert found[1] == "Disabled" and why in found[2]


def test_a_model_is_switched_off_and_the_next_request_knows(house, page, priced):
    assert house.chat("Priced/tale-1").status_code == 200
    page.goto(f"{house.url}{PAGE}?q=tale")
    page.get_by_role("button", name="Tale One").click()
    switch = dialog(page).get_by_role("switch")
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "false")
    expect(rows(page).first).to_contain_text("Disabled")
    assert house.chat("Priced/tale-1").status_code == 404
    dialog(page).get_by_role("button", name="Delete").click()
    question = page.get_by_role("dialog", name="Delete Priced/tale-1?")
    question.get_by_role("button", name="Cancel").click()
    dialog(page).get_by_role("button", name="Delete").click()
    question.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Nothing matches.")).to_be_visible()


def test_all_disabled_ones_that_are_shown_go_at_once(house, page):
    page.goto(f"{house.url}{PAGE}?q=old-")
    count(page, "^12 models · 0 enabled · 12 disabled$")
    page.get_by_role("button", name="Delete 12 disabled").click()
    expect(dialog(page)).to_contain_text("Big House / old-00")
    expect(dialog(page)).to_contain_text("and 4 more")
    dialog(page).get_by_role("button", name="Delete 12", exact=True).click()
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    expect(page.locator("#model-purge")).to_be_hidden()
    expect(page.get_by_text("12 models deleted.")).to_be_visible()


def test_a_viewer_looks_and_changes_nothing(house, viewer_page):
    """operations 55b"""
    page = viewer_page
    page.goto(f"{house.url}{PAGE}?q=big-00001")
    expect(rows(page)).to_have_count(1)
    rows(page).first.locator("td").nth(2).click()
    expect(dialog(page).get_by_role("switch")).to_be_disabled()
    for name in ("Test", "Edit", "Delete", "Update info"):
        expect(dialog(page).get_by_role("button", name=name, exact=True)).to_have_count(0)
    expect(dialog(page).locator("#model-snippet")).to_be_visible()
