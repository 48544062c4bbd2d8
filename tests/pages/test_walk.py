"""Every page of the dashboard, for everybody who may see it, in both themes and at every width."""

import pytest
from playwright.sync_api import expect

from tests.pages.readable import FAINT
from tests.wire.product import eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]
#: Where a walk starts; it goes on to every page of the product that is linked from there.
LISTS = (
    "/providers/provider/",
    "/providers/model/",
    "/failover/failovergroup/",
    "/proxy/virtualkey/",
    "/requestlogs/requestlog/",
    "/requestlogs/applog/",
)
STARTS = ("/", "/settings/", "/providers/", "/models/", "/failover/", "/keys/", *LISTS, "/password_change/")
#: Rows of a list lead to the same page again and again.
PER_KIND = 1
LINKS = """() => [...document.querySelectorAll("a[href]")]
  .filter((a) => a.origin === location.origin)
  .map((a) => a.pathname)"""


def kind(path):
    """*path* without ids: pages that differ in these alone are of one kind."""
    parts = path.strip("/").split("/")
    return "/".join(
        "*" if len(part) > 30 or part.isdigit() or ("_" in part and part[0] == "_") else part for part in parts
    )


def walk(hotel, page):
    """Visit one page of every kind that a link leads to; the paths visited."""
    seen, queue, visited = {}, list(STARTS), []
    while queue:
        path = queue.pop(0)
        if path.startswith(("/api/", "/static/", "/login", "/logout")) or seen.get(kind(path), 0) >= PER_KIND:
            continue
        seen[kind(path)] = seen.get(kind(path), 0) + 1
        page.emulate_media(color_scheme="dark" if len(visited) % 2 else "light")
        answer = page.goto(hotel.url + path)
        page.wait_for_load_state("load")
        assert answer.status == 200, path
        visited.append(path)
        queue += page.evaluate(LINKS)
    return visited


@pytest.fixture
def lived_in(hotel):
    """There is one of everything to link to."""
    assert hotel.chat("hotel/glm-4.6").status_code == 200
    assert eventually(lambda: hotel.product.api("GET", "/api/logs/cursor").json()["total"])


def test_every_page_an_administrator_finds_is_silent(hotel, page, lived_in):
    """operations 10.7: no console error, no violation of the policy, no request to another host (see conftest)."""
    visited = walk(hotel, page)
    kinds = {kind(path) for path in visited}
    assert {"", "settings", "providers/provider/add", "proxy/virtualkey/*/change"} <= kinds
    assert len(kinds) > 12, sorted(kinds)


def test_a_viewer_finds_no_dead_link_either(hotel, viewer_page, lived_in):
    """operations 55b"""
    visited = walk(hotel, viewer_page)
    assert not [path for path in visited if path.endswith(("/add/", "/delete/"))]


@pytest.fixture
def everywhere(hotel, lived_in):
    """The pages that a walk starts from, and a form with a table in it."""
    group = hotel.product.api("GET", "/api/failover-groups").json()["groups"][0]
    return (*STARTS, "/requests/", "/logs/", f"/failover/failovergroup/{group['id']}/change/")


@pytest.mark.timeout(120, func_only=True)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_a_page_says_can_be_read_in_both_themes(hotel, page, everywhere, theme):
    """operations 2.3: contrast of at least 4.5:1."""
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    faint = {}
    for path in everywhere:
        page.goto(hotel.url + path)
        expect(page.locator("h1").first).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        if found := page.evaluate(FAINT):
            faint[path] = found
    assert faint == {}


@pytest.mark.timeout(120, func_only=True)
def test_no_page_scrolls_sideways(hotel, page, everywhere):
    """operations 2.1: from 360 to 2560 px wide tables scroll inside their own box."""
    for path in everywhere:
        page.goto(hotel.url + path)
        page.wait_for_load_state("load")
        expect(page.locator("h1").first).to_be_visible()
        for width in (360, 900, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            found = page.evaluate("document.documentElement.scrollWidth")
            assert found <= width, f"{path} is {found} px wide at {width}"
