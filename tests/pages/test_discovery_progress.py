"""Discovering all providers: the panel follows every one of them, whoever asked, and whatever becomes of the page."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.pages.cards import PAGE, add, card, dialog
from tests.upstream.server import FakeProvider, Hold, reply, status

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.timeout(60, func_only=True),
    pytest.mark.usefixtures("alpha_and_beta"),
]
LONG_AGO = """
from datetime import datetime, UTC
from providers.models import Model
Model.objects.update(last_seen_at=datetime(2026, 1, 1, tzinfo=UTC))
"""


@pytest.fixture
def hold(hotel: Any) -> Iterator[Hold]:
    """What the listing of a third provider, Slow, waits for."""
    held = Hold(reply(200, {"object": "list", "data": [{"id": "slow-1"}]}))
    with FakeProvider(["x"]) as slow:
        slow.route("GET", "/v1/models", held)
        add(hotel, "Slow", slow.url)
        yield held
        held.release()


@contextmanager
def asked_elsewhere(hotel: Any) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=lambda: hotel.product.api("POST", "/api/providers/discover-all"))
    yield thread
    thread.join(20)


def line(page: Any, name: str) -> Any:
    return page.locator("#discovery-lines li").filter(has_text=name)


def test_a_run_survives_a_reload_of_its_page(hotel, page, hold):
    page.goto(f"{hotel.url}{PAGE}")
    page.get_by_role("button", name="Discover All Models").click()
    expect(page.locator("#discovery-count")).to_have_text("2 of 3 done")
    page.reload()
    expect(line(page, "Alpha")).to_contain_text("2 models")
    expect(line(page, "Slow")).to_contain_text("asking…")
    expect(page.locator("#discovery-count")).to_have_text("2 of 3 done")
    expect(page.get_by_role("button", name="Discover All Models")).to_be_disabled()
    expect(page.locator("#discovery").get_by_role("button", name="Close")).to_be_hidden()
    hold.release()
    expect(page.get_by_role("heading", name="Discovery finished")).to_be_visible()
    expect(line(page, "Slow")).to_contain_text("1 model, 1 new")
    expect(page.get_by_role("button", name="Discover All Models")).to_be_enabled()
    expect(card(page, "Slow")).to_contain_text("1 model")
    page.locator("#discovery").get_by_role("button", name="Close").click()
    expect(page.locator("#discovery")).to_be_hidden()
    page.reload()
    expect(card(page, "Slow")).to_be_visible()
    expect(page.locator("#discovery")).to_be_hidden()


def test_somebody_else_s_run_is_followed_too(hotel, viewer_page, hold):
    """operations 2.2: progress events update progress displays; for who only looks as well"""
    page = viewer_page
    with FakeProvider(["y"]) as locked, asked_elsewhere(hotel) as run:
        locked.route("GET", "/v1/models", status(401, "who is this"))
        add(hotel, "Locked", locked.url)
        page.goto(f"{hotel.url}{PAGE}")
        page.wait_for_function("import('/static/modelhotel/app/live.js').then((live) => live.state() === 'live')")
        run.start()
        expect(line(page, "Slow")).to_contain_text("asking…")
        expect(line(page, "Locked")).to_contain_text("HTTP 401: who is this")
        expect(page.locator("#discovery-count")).to_have_text("3 of 4 done, 1 failed")
        hold.release()
        expect(page.get_by_role("heading", name="Discovery finished")).to_be_visible()
        page.locator("#discovery").get_by_role("button", name="Close").click()
        expect(page.locator("#discovery")).to_be_hidden()


def test_an_answer_that_is_cut_off_does_not_end_the_run(hotel, rough_page, hold):
    """A proxy in front that waits a minute only: the scans go on, and so does the panel."""
    page = rough_page
    page.goto(f"{hotel.url}{PAGE}")
    page.wait_for_function("import('/static/modelhotel/app/live.js').then((live) => live.state() === 'live')")
    with asked_elsewhere(hotel) as run:

        def cut(route: Any) -> None:
            run.start()
            route.fulfill(status=500, body="gave up")

        page.route("**/api/providers/discover-all", cut)
        page.get_by_role("button", name="Discover All Models").click()
        expect(page.locator("#discovery-count")).to_have_text("2 of 3 done")
        expect(page.get_by_role("button", name="Discover All Models")).to_be_disabled()
        hold.release()
        expect(page.get_by_role("heading", name="Discovery finished")).to_be_visible()
        expect(dialog(page)).to_have_count(0)


def test_the_summary_of_all_starts_with_what_needs_somebody(hotel, page):
    """operations 3.3: added, updated, removed, suspicious; of all providers at once"""
    with FakeProvider(["old", "stays"]) as fake, FakeProvider(["y"]) as locked:
        made = add(hotel, "Loses", fake.url)
        hotel.product.api("POST", f"/api/providers/{made}/discover")
        assert hotel.product.manage("shell", "-c", LONG_AGO).returncode == 0
        fake.models = ["stays", "new-1"]
        locked.route("GET", "/v1/models", status(401, "who is this"))
        add(hotel, "Locked", locked.url)
        page.goto(f"{hotel.url}{PAGE}")
        page.get_by_role("button", name="Discover All Models").click()
        expect(page.get_by_role("heading", name="6 models of 3 providers, 1 failed")).to_be_visible()
        found = dialog(page).locator(".mh-found-provider")
        expect(found.locator("h3")).to_have_text(["Locked failed", "Loses 2 models", "Nothing changed"])
        expect(found.nth(0)).to_contain_text("HTTP 401: who is this")
        expect(found.nth(1)).to_contain_text("Added 1new-1")
        expect(found.nth(1)).to_contain_text("Suspicious: not listed any more, kept for now 1old")
        expect(found.nth(2)).to_contain_text("Beta (2 models), Alpha (2 models)")
        expect(dialog(page).get_by_role("button", name="Close")).to_be_in_viewport()


def row(name: str, at: str | None, count: int = 2, error: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "last_model_fetch_at": at,
        "last_model_fetch_error": error,
        "last_availability_error": "",
        "model_count": count,
    }


def test_what_events_did_not_tell_comes_from_the_providers_themselves(hotel, page):
    page.goto(f"{hotel.url}{PAGE}")
    before, after = "2026-01-01T11:59:59Z", "2026-01-01T12:00:00Z"
    rows = [
        row("never", None),
        row("before", before),
        row("after", after, 3),
        row("failed", after, 3, "HTTP 500"),
        row("told", after, 5),
    ]
    found = page.evaluate(
        """async ([rows, at]) => {
        const { settle, finished, expired } = await import("/static/modelhotel/app/providers/progress.js");
        const waiting = (before) => ({ state: "running", text: "asking…", before });
        const run = { at: Date.parse(at), lines: Object.fromEntries(
          ["never", "before", "after", "failed", "gone"].map((name) => [name, waiting(2)])) };
        run.lines.told = { state: "good", text: "5 models", before: 2 };
        const news = [settle(run, rows), settle(run, rows), settle(run, rows)];
        return [news, Object.entries(run.lines).map(([name, { state, text }]) => `${name} ${state} ${text}`),
          finished(run), [179e3, 181e3].map((ms) => expired(run, run.at + ms))];
        }""",
        [rows, after],
    )
    assert found == [
        [True, True, False],
        [
            "never running asking…",
            "before running asking…",
            "after good 3 models, 1 new",
            "failed bad HTTP 500",
            "told good 5 models, 3 new",
        ],
        False,
        [False, True],
    ]
