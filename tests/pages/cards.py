"""What the tests of the page Providers have in common."""

from typing import Any

from playwright.sync_api import Page

from tests.pages.conftest import Hotel

PAGE = "/providers/"
KEY = "sk-page-0123456789abcdef"


def card(page: Page, name: str) -> Any:
    return page.locator("article.mh-provider").filter(has=page.get_by_role("heading", name=name, exact=True))


def add(hotel: Hotel, name: str, url: str, **more: Any) -> str:
    body = {"name": name, "base_url": url, "provider_type": "custom", "api_key": KEY, **more}
    made = hotel.product.api("POST", "/api/providers", json=body)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def dialog(page: Page) -> Any:
    return page.locator("dialog[open]")
