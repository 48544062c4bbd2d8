"""The bench's people at the dashboard ask for what a browser asks for."""

from urllib.parse import urlsplit

import pytest

from tests.bench.dashboards import FRAME, PAGES

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]


def paths(addresses):
    return sorted(urlsplit(address).path for address in addresses)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_asks_for_what_the_bench_loads(hotel, page, path):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{hotel.url}{path}")
    page.wait_for_load_state("load")
    page.wait_for_timeout(1_500)  # what the scripts ask for by themselves
    api = {url for url in asked if "/api/" in url and "/api/events" not in url}
    assert paths(api) == paths((*FRAME, *PAGES[path]))
