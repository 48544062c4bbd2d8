"""Keys that can not be used are shown as what they are: damaged, unreadable, missing."""

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.pages.cards import KEY, PAGE, add, card, dialog
from tests.upstream.server import FakeProvider

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.timeout(60, func_only=True),
    pytest.mark.usefixtures("alpha_and_beta"),
]
SPOIL = """
from providers.models import Provider
rows = {row.name: row for row in Provider.objects.all()}
cut, turned, gone = rows["Cut"], rows["Turned"], rows["Gone"]
cut.key_nonce = bytes(cut.key_nonce)[:11]
turned.encrypted_key = bytes([turned.encrypted_key[0] ^ 1]) + bytes(turned.encrypted_key[1:])
gone.encrypted_key = gone.key_nonce = gone.key_salt = None
for row in (cut, turned, gone):
    row.save()
"""


def test_each_state_of_a_key_is_named_and_mended_by_entering_it_anew(hotel, page):
    """part of providers 24"""
    with FakeProvider(["m"]) as fake:
        made = {name: add(hotel, name, fake.url, provider_type="openai") for name in ("Cut", "Turned", "Gone")}
        add(hotel, "Free", fake.url, api_key="")
        spoilt = hotel.product.manage("shell", "-c", SPOIL)
        assert spoilt.returncode == 0, spoilt.stderr
        hotel.product.api("POST", f"/api/providers/{made['Turned']}/test")  # finds out
        page.goto(f"{hotel.url}{PAGE}")
        told = {name: card(page, name).locator(".mh-key-state") for name in (*made, "Free")}
        expect(told["Cut"]).to_contain_text("damaged")
        expect(told["Turned"]).to_contain_text("cannot be decrypted")
        expect(told["Gone"]).to_contain_text("missing")
        expect(told["Free"]).to_have_count(0)
        expect(card(page, "Alpha").locator(".mh-key-state")).to_have_count(0)
        expect(page.locator("#keys-lost")).to_be_hidden()
        page.get_by_role("button", name="Edit Cut").click()
        expect(dialog(page)).to_contain_text("What is stored is no whole encrypted key. Enter it anew.")
        page.get_by_label("API key").fill(KEY)
        page.get_by_role("button", name="Save").click()
        expect(told["Cut"]).to_have_count(0)


def test_a_wrong_master_key_is_told_once_for_all(hotel, page):
    page.goto(f"{hotel.url}{PAGE}")
    expect(card(page, "Alpha")).to_be_visible()

    def lost(route: Any) -> None:
        rows = route.fetch().json()
        route.fulfill(
            body=json.dumps([{**row, "key_state": "unreadable"} for row in rows]), content_type="application/json"
        )

    page.route("**/api/providers?totals=false", lost)
    page.wait_for_function("import('/static/modelhotel/app/live.js').then((live) => live.state() === 'live')")
    add(hotel, "News", hotel.a.url)
    expect(page.locator("#keys-lost")).to_contain_text("another MASTER_KEY than the one they were stored under")
    expect(card(page, "Alpha").locator(".mh-key-state")).to_contain_text("wrong MASTER_KEY?")
    page.unroute_all(behavior="wait")
