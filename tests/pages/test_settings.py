"""The settings page: controls that save themselves, resets that ask, changes of others that arrive."""

import re

import pytest
from playwright.sync_api import expect

from tests.pace import slower
from tests.upstream.server import FakeProvider, reply
from tests.wire.product import eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]


@pytest.fixture
def stored(hotel):
    """What is stored now; after the test nothing is."""
    yield lambda: hotel.product.api("GET", "/api/settings").json()
    hotel.product.api("DELETE", "/api/settings", json={"keys": []})


@pytest.fixture
def settings(hotel, page, stored):
    page.goto(f"{hotel.url}/settings/")
    return page


def toast(page, text):
    expect(page.locator(".mh-toast", has_text=text).first).to_be_visible()


def test_a_text_saves_itself_and_a_refusal_says_why_and_restores(settings, stored):
    """settings section 6."""
    expect(settings.get_by_text("METRICS_TOKEN=")).to_be_visible()
    field = settings.get_by_label("Key Cache TTL", exact=True)
    with settings.expect_request("**/api/settings") as sent:
        field.fill("2m")
        field.press("Enter")
    assert sent.value.post_data_json == {"key_cache_ttl": "2m"}
    toast(settings, "Key Cache TTL updated: 2m")
    assert stored()["key_cache_ttl"] == "2m"
    field.fill("90s")
    settings.get_by_label("TTFT Timeout", exact=True).focus()
    toast(settings, "Key Cache TTL updated: 90s")
    settings.get_by_role("button", name="Reset Key Cache TTL").click()
    toast(settings, "Key Cache TTL is back to default: 10m0s")
    expect(field).to_have_value("10m0s")
    expect(settings.get_by_role("button", name="Reset Key Cache TTL")).to_be_hidden()
    assert "key_cache_ttl" not in stored()


def test_what_the_server_refuses_is_said_beside_its_field(hotel, page, stored):
    context = hotel.browser.new_context(storage_state=hotel.states["admin"])
    mine = context.new_page()  # the refused call is on its console, as it should be
    mine.goto(f"{hotel.url}/settings/")
    field = mine.get_by_label("Key Cache TTL", exact=True)
    field.fill("soon")
    field.press("Enter")
    row = mine.locator("[data-key=key_cache_ttl]")
    expect(row.get_by_role("alert")).to_have_text("key_cache_ttl must be a duration such as 30s or 1m0s")
    expect(field).to_have_value("10m0s")
    toast(mine, "key_cache_ttl must be a duration")
    assert "key_cache_ttl" not in stored()
    context.close()


def test_a_slider_moves_with_the_keyboard_and_saves_on_release(settings, stored):
    slider = settings.get_by_label("TTFT Timeout, slider")
    slider.focus()
    slider.press("ArrowRight")
    toast(settings, "TTFT Timeout updated: 1m5s")
    expect(settings.get_by_label("TTFT Timeout", exact=True)).to_have_value("1m5s")
    slider.press("Home")
    toast(settings, "TTFT Timeout updated: Disabled")
    expect(settings.locator("[data-key=ttft_timeout] [data-zero]")).to_have_text("Disabled")
    assert stored()["ttft_timeout"] == "0s"
    slider.press("End")
    toast(settings, "TTFT Timeout updated: 5m")
    assert eventually(lambda: stored()["ttft_timeout"] == "5m")


def test_one_of_several_words_is_chosen_from_a_list(settings, stored):
    """part of beyond 1: the setting "Mid-stream Recovery" (Off / Continue)."""
    field = settings.get_by_label("Mid-stream Recovery", exact=True)
    expect(field.locator("option")).to_have_text(["Off", "Continue"])
    field.select_option("Continue")
    toast(settings, "Mid-stream Recovery updated: continue")
    assert stored()["midstream_recovery_default"] == "continue"
    settings.get_by_role("button", name="Reset Mid-stream Recovery").click()
    expect(field).to_have_value("off")


def test_a_switch_saves_on_a_click_and_the_next_request_follows_it(hotel, settings, stored):
    """settings 2"""
    assert hotel.chat("glm-4.6").status_code == 200
    switch = settings.get_by_role("switch", name="Bare Model Names")
    expect(switch).to_have_attribute("aria-checked", "true")
    switch.focus()
    settings.keyboard.press("Space")
    toast(settings, "Bare Model Names updated: off")
    expect(switch).to_have_attribute("aria-checked", "false")
    assert hotel.chat("glm-4.6").status_code == 400


def test_what_a_switch_makes_moot_is_disabled_and_keeps_its_value(hotel, page, stored):
    """settings 58. The page's part."""
    hotel.product.api("PUT", "/api/settings", json={"circuit_breaker_threshold": "7"})
    page.goto(f"{hotel.url}/settings/")
    switch = page.get_by_role("switch", name="Enable Circuit Breaker")
    threshold = page.get_by_label("Failure Threshold", exact=True)
    expect(threshold).to_be_enabled()
    switch.click()
    toast(page, "Enable Circuit Breaker updated: off")
    expect(threshold).to_be_disabled()
    expect(page.get_by_label("Failure Threshold, slider")).to_be_disabled()
    expect(page.get_by_role("switch", name="Retry a Transient 5xx Once")).to_be_enabled()
    page.reload()
    expect(threshold).to_be_disabled()
    assert (stored()["circuit_breaker_enabled"], stored()["circuit_breaker_threshold"]) == ("false", "7")
    switch.click()
    expect(threshold).to_be_enabled()


def test_a_value_beyond_its_slider_is_shown_and_stays(hotel, page, stored):
    """settings 61"""
    hotel.product.api("PUT", "/api/settings", json={"circuit_breaker_threshold": "80"})
    page.goto(f"{hotel.url}/settings/")
    field = page.get_by_label("Failure Threshold", exact=True)
    expect(field).to_have_value("80")
    expect(page.get_by_label("Failure Threshold, slider")).to_have_value("50")
    field.focus()
    field.press("Enter")
    page.get_by_label("Failure Threshold, slider").focus()
    page.get_by_label("Key Cache TTL", exact=True).focus()
    assert stored()["circuit_breaker_threshold"] == "80"


def test_what_another_operator_changes_arrives_and_what_is_typed_here_stays(hotel, settings, stored):
    """operations 41a; README decision 3."""
    span = settings.get_by_label("Models Before Provider Skip", exact=True)
    threshold = settings.get_by_label("Failure Threshold", exact=True)
    threshold.fill("12")
    change = {"circuit_breaker_span_models": "3", "circuit_breaker_threshold": "8", "failover_on_rate_limit": "false"}
    hotel.product.api("PUT", "/api/settings", json=change)
    expect(span).to_have_value("3", timeout=1500 * slower())
    expect(settings.get_by_role("switch", name="Failover on Rate Limit")).to_have_attribute("aria-checked", "false")
    expect(threshold).to_have_value("12")
    expect(settings.locator("[data-key=circuit_breaker_threshold]")).to_contain_text(
        "Changed elsewhere meanwhile: now 8"
    )
    threshold.press("Escape")
    expect(threshold).to_have_value("8")
    expect(settings.locator(".mh-toast")).to_have_count(0)


def test_a_section_and_everything_go_back_only_after_a_question(hotel, page, stored):
    values = {"request_timeout": "2m", "ttft_timeout": "9s", "circuit_breaker_threshold": "9"}
    hotel.product.api("PUT", "/api/settings", json=values)
    page.goto(f"{hotel.url}/settings/")
    page.get_by_role("button", name="Reset the section Proxy").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("TTFT Timeout: 9s → 1m0s")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    dialog.get_by_role("button", name="Cancel").click()
    assert stored()["ttft_timeout"] == "9s"
    page.get_by_role("button", name="Reset the section Proxy").click()
    dialog.get_by_role("button", name="Reset").click()
    toast(page, "2 settings back to default")
    expect(page.get_by_label("TTFT Timeout", exact=True)).to_have_value("1m0s")
    assert "ttft_timeout" not in stored() and stored()["circuit_breaker_threshold"] == "9"
    page.get_by_role("button", name="Reset all").click()
    expect(dialog.get_by_role("button", name="Reset all")).to_be_disabled()
    dialog.get_by_label("Type RESET to go on").fill("RESET")
    dialog.get_by_role("button", name="Reset all").click()
    toast(page, "1 setting back to default")
    assert "circuit_breaker_threshold" not in stored()


def test_sections_fold_by_keyboard_and_the_filter_is_in_the_address(settings, hotel):
    summary = settings.locator("[data-section=Proxy] summary")
    summary.focus()
    settings.keyboard.press("Enter")
    field = settings.get_by_label("Request Timeout", exact=True)
    expect(field).to_be_hidden()
    settings.reload()
    expect(field).to_be_hidden()
    settings.locator("body").press("/")
    settings.keyboard.type("request time")
    expect(field).to_be_visible()
    expect(settings.get_by_label("Key Cache TTL", exact=True)).to_be_hidden()
    expect(settings).to_have_url(re.compile(r"\?q=request\+time"))
    settings.reload()
    expect(settings.get_by_label("Key Cache TTL", exact=True)).to_be_hidden()
    settings.get_by_label("Find a setting").fill("nonsense")
    expect(settings.get_by_text("Nothing matches.")).to_be_visible()
    settings.get_by_role("button", name="Clear the filter").click()
    expect(settings.get_by_label("Key Cache TTL", exact=True)).to_be_visible()


def test_records_are_deleted_after_a_question(hotel, settings):
    assert hotel.chat("Alpha/glm-4.6").status_code == 200
    total = lambda: hotel.product.api("GET", "/api/logs/cursor").json()["total"]  # noqa: E731
    assert eventually(total)
    settings.get_by_label("Older than").select_option(label="all of them")
    settings.get_by_role("button", name="Delete Requests").click()
    dialog = settings.get_by_role("dialog", name="Delete all requests?")
    dialog.get_by_role("button", name="Delete").click()
    toast(settings, "Deleted all requests")
    assert total() == 0


def test_the_quota_cache_is_cleared_after_a_question(hotel, settings):
    with FakeProvider() as fake:
        fake.route("GET", "/v1/user/balance", reply(200, {"is_available": True, "balance_infos": []}))
        body = {"name": "Sea", "provider_type": "deepseek", "base_url": fake.url, "api_key": "sk-sea-0123456789"}
        made = hotel.product.api("POST", "/api/providers", json=body).json()["id"]
        balance = f"/api/providers/{made}/balance"
        kept = lambda: hotel.product.api("GET", "/api/providers/quotas").json()["quotas"]  # noqa: E731
        try:
            assert hotel.product.api("GET", balance).status_code == 200 and len(kept()) == 1
            settings.get_by_role("button", name="Clear Quota Cache").click()
            dialog = settings.get_by_role("dialog", name="Clear the stored quota readings?")
            dialog.get_by_role("button", name="Clear").click()
            toast(settings, "Quota cache cleared")
            assert kept() == []
            assert hotel.product.api("GET", balance).status_code == 200
            assert len(fake.requests) == 2, "asked again"
        finally:
            hotel.product.api("DELETE", f"/api/providers/{made}")


def test_a_preset_shows_what_it_changes_before_it_is_applied(settings, stored):
    fast, balanced = (settings.locator(f"[data-preset={name}]") for name in ("fast", "balanced"))
    expect(balanced).to_have_attribute("aria-pressed", "true")
    fast.click()
    asked = settings.get_by_role("dialog")
    expect(asked.locator("li")).to_have_text(["Hedge Slow Streams: off → on", "TTFT Timeout: 1m0s → 15s"])
    settings.keyboard.press("Escape")
    assert "hedging_enabled" not in stored()
    fast.click()
    asked.get_by_role("button", name="Apply").click()
    toast(settings, "Preset fast applied")
    expect(fast).to_have_attribute("aria-pressed", "true")
    expect(balanced).to_have_attribute("aria-pressed", "false")
    expect(settings.get_by_role("switch", name="Hedge Slow Streams")).to_have_attribute("aria-checked", "true")
    assert stored()["ttft_timeout"] == "15s"
