"""The overview: figures that follow the traffic, curves moved back in time, shares, selectors, empty states."""

import json
import re
import sqlite3
import time
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.pages.conftest import WAIT
from tests.upstream.server import answer, status
from tests.wire.product import Product, eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(40, func_only=True)]
RULES = "/static/modelhotel/app/overview/rules.js"
NOTHING = "No requests in this period"
#: Seconds for which pages share an answer, and a little.
SHARED = 3.5
#: When each hotel, by its address, was last asked for something.
LAST = {}
#: Live figures come within this; the server gives the same ones for three seconds.
LIVE = 12_000


def ready(hotel, page, address="/"):
    """The page, once no answer is shared any more that was made before the last request."""
    time.sleep(max(LAST.get(hotel.url, 0.0) + SHARED - time.monotonic(), 0.0))
    page.goto(hotel.url + address)
    expect(page.locator("#overview[data-ready]")).to_be_attached()
    return page


def panel(page, name):
    return page.locator(f"[data-panel={name}]")


def gauge(page, name):
    return page.locator("button.mh-ov-gauge", has_text=name).locator("strong")


def figures(hotel, **more):
    """What the page asks for too, and for three seconds gets the same answer to."""
    return hotel.product.api("GET", "/api/stats", params={"include_latency": "true", **more}).json()


def asked(hotel, **more):
    """Requests of the last day."""
    return figures(hotel, **more)["total_requests_last_24h"]


def own_page(hotel, **options):
    """A page that may complain: what breaks here is broken on purpose."""
    context = hotel.browser.new_context(storage_state=hotel.states["admin"], **options)
    context.set_default_timeout(WAIT)
    return context.new_page()


def seed(product, rows):
    """*rows*: (minutes ago, members that differ from the first row of the log)."""
    with closing(sqlite3.connect(next(product.data_dir.glob("*.sqlite3")), timeout=20)) as db, db:
        names = [row[1] for row in db.execute("PRAGMA table_info(request_logs)")]
        first = dict(zip(names, db.execute("SELECT * FROM request_logs LIMIT 1").fetchone(), strict=True))
        for minutes, members in rows:
            at = datetime.now(UTC) - timedelta(minutes=minutes)
            row = {**first, "id": uuid.uuid4().hex, "created_at": at.strftime("%Y-%m-%d %H:%M:%S.%f"), **members}
            marks = ", ".join("?" * len(names))
            db.execute(f"INSERT INTO request_logs ({', '.join(names)}) VALUES ({marks})", [row[name] for name in names])


@pytest.fixture(scope="module")
def lived(hotel):
    """The hotel with a past: 40 requests three hours ago, some of a key that is gone and of the gateway itself."""
    assert hotel.chat("Alpha/glm-4.6").status_code == 200
    assert hotel.chat("Beta/glm-4.6").status_code == 200
    assert eventually(lambda: hotel.product.api("GET", "/api/logs").json()["total"] >= 2)
    gone = {"virtual_key_id": uuid.uuid4().hex, "virtual_key_name": "old"}
    own = {"virtual_key_id": None, "virtual_key_name": "internal"}
    tokens = {"tokens_prompt": 100, "tokens_completion": 30, "tokens_prompt_cache_hit": 40, "duration_ms": 900}
    rows = [(180, tokens)] * 34 + [(180, own)] * 4 + [(180, gone)] * 2
    seed(hotel.product, rows)
    plain = hotel.chat

    def chat(*args, **given):
        try:
            return plain(*args, **given)
        finally:
            LAST[hotel.url] = time.monotonic()

    hotel.chat = chat
    return hotel


def test_a_request_shows_in_the_figures_by_itself(lived, page):
    """operations 2.2: the event of its end brings the new figures, without a reload."""
    page.add_init_script("localStorage.setItem('mh-dashboardRefreshSec', '0')")  # events only
    ready(lived, page)
    before = gauge(page, "Requests").inner_text()
    page.evaluate("window.same = true")
    lived.chat("Alpha/glm-4.6")
    expect(gauge(page, "Requests")).not_to_have_text(before, timeout=LIVE)
    assert int(gauge(page, "Requests").inner_text()) == int(before) + 1
    assert page.evaluate("window.same") is True


def test_a_burst_of_requests_is_one_reading_after_another_not_one_for_each(lived, page):
    """operations 2.2: a flood of events must not freeze the page, nor the server with questions."""
    page.add_init_script("localStorage.setItem('mh-dashboardRefreshSec', '0')")
    ready(lived, page)
    before = int(gauge(page, "Requests").inner_text())
    asked = []
    page.on("request", lambda request: "/api/stats?" in request.url and asked.append(request.url))
    for _ in range(60):
        lived.chat("Beta/glm-4.6")
    expect(gauge(page, "Requests")).to_have_text(str(before + 60), timeout=LIVE)
    # One at once, one every 3.2 s, one after the last.
    assert 1 <= len(asked) <= 6, len(asked)


def test_the_range_of_all_panels_is_in_the_address_and_back_returns(lived, page):
    """operations 2.3 and 3.2: changing the global selectors sets every panel; each view can be linked."""
    ready(lived, page)
    assert page.locator("#overview-range [aria-pressed=true]").inner_text() == "1D"
    page.locator("#overview-range button", has_text="1H").click()
    page.wait_for_url("**/?range=1h**")
    chosen = page.locator("select[aria-label$=': range']")
    assert chosen.evaluate_all("all => all.map((one) => one.value)") == ["1h"] * 9
    page.locator("#overview-metric button", has_text="Tokens").click()
    page.wait_for_url("**metric=tokens**")
    metrics = page.locator("select[aria-label$=': metric']")
    assert metrics.evaluate_all("all => all.map((one) => one.value)") == ["tokens"] * 3
    page.go_back()
    expect(page.locator("#overview-metric button", has_text="Requests")).to_have_attribute("aria-pressed", "true")
    page.goto(f"{lived.url}/?range=7d&metric=tokens")
    expect(page.locator("#overview-range button", has_text="1W")).to_have_attribute("aria-pressed", "true")
    expect(panel(page, "tokens").locator(".mh-ov-words")).to_contain_text("UTC")


def test_a_panel_has_a_range_of_its_own_that_this_browser_keeps(lived, page):
    """settings section 9: per-panel variants. The next choice for all panels ends it."""
    ready(lived, page)
    requests = panel(page, "requests")
    expect(requests.locator(".mh-ov-words")).to_contain_text("requests")
    requests.get_by_label("Requests: range").select_option("7d")
    expect(requests.locator(".mh-ov-words")).to_contain_text("UTC")
    expect(panel(page, "tokens").get_by_label("Tokens: range")).to_have_value("24h")
    page.reload()
    expect(requests.get_by_label("Requests: range")).to_have_value("7d")
    page.locator("#overview-range button", has_text="1H").click()
    expect(requests.get_by_label("Requests: range")).to_have_value("1h")


def test_a_curve_is_moved_back_in_time_and_has_words_and_a_table(lived, page):
    """operations 3.2: charts allow panning back; 2.3: a text summary and a table alternative."""
    ready(lived, page, "/?range=1h")
    tokens = panel(page, "tokens")
    later = tokens.get_by_role("button", name="Later")
    expect(later).to_be_disabled()
    for _ in range(5):  # half an hour each: three hours ago is on the page
        tokens.get_by_role("button", name="Earlier").click()
    expect(tokens.locator(".mh-ov-words")).to_contain_text("4,452 tokens, 1,360 from cache")
    expect(tokens.locator("canvas")).to_have_attribute("aria-label", re.compile(r"^Tokens over time\. .*from cache"))
    tokens.get_by_role("button", name="Table").click()
    rows = tokens.locator("tbody tr")
    expect(rows).to_have_count(12)
    expect(rows.filter(has_text="4,452")).to_have_count(1)
    tokens.get_by_role("button", name="Table").click()
    expect(later).to_be_enabled()
    tokens.get_by_role("button", name="Now").click()
    expect(later).to_be_disabled()


def test_a_curve_is_moved_by_keys_and_by_dragging_and_stays_there(lived, page):
    """operations 2.3: dragging has its equal on the keyboard; what is looked at does not move under the eyes."""
    ready(lived, page, "/?range=1h")
    box = panel(page, "requests").locator(".mh-ov-canvas")
    span = panel(page, "requests").locator(".mh-ov-span")
    now = span.inner_text()
    box.focus()
    page.keyboard.press("ArrowLeft")
    back = span.inner_text()
    assert back != now
    lived.chat("Alpha/glm-4.6")
    page.locator("#overview-refresh").click()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert span.inner_text() == back
    box.focus()
    page.keyboard.press("End")
    assert panel(page, "requests").get_by_role("button", name="Later").is_disabled()
    at = box.bounding_box()
    page.mouse.move(at["x"] + 100, at["y"] + 80)
    page.mouse.down()
    page.mouse.move(at["x"] + 300, at["y"] + 80, steps=6)
    page.mouse.up()
    assert panel(page, "requests").get_by_role("button", name="Later").is_enabled()
    page.keyboard.press("Home")
    assert panel(page, "requests").get_by_role("button", name="Earlier").is_disabled()


def test_a_gauge_opens_its_history_in_a_dialog(lived, page):
    ready(lived, page)
    button = page.locator("button.mh-ov-gauge", has_text="Error rate")
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Error rate")
    expect(dialog.locator(".mh-ov-span")).not_to_be_empty()
    dialog.get_by_role("button", name="1H").click()
    dialog.get_by_role("button", name="Table").click()
    expect(dialog.locator("tbody tr")).to_have_count(288)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()


def test_shares_are_a_hundred_squares_with_names_and_numbers(lived, page):
    ready(lived, page)
    providers = panel(page, "providers")
    expect(providers.locator(".mh-ov-waffle span")).to_have_count(100)
    rows = providers.locator("tbody tr")
    expect(rows).to_have_count(2)
    shares = [float(text.removesuffix(" %")) for text in rows.locator("td:nth-child(2)").all_inner_texts()]
    assert sum(shares) == pytest.approx(100.0)
    squares = providers.locator(".mh-ov-waffle span[data-tone='1']").count()
    assert abs(squares - shares[0]) <= 1


def test_keys_that_are_gone_are_grey_and_built_in_names_are_explained(lived, page):
    """operations 3.2: the key filter, deleted keys, built-in names."""
    ready(lived, page)
    keys = panel(page, "keys")
    expect(keys.get_by_text("internal", exact=True)).to_have_attribute("title", re.compile("gateway makes by itself"))
    expect(keys.get_by_text("Deleted", exact=True)).to_have_count(0)
    page.get_by_role("button", name="All keys").click()
    expect(keys.locator(".mh-ov-gone")).to_contain_text("Deleted")
    assert eventually(lambda: asked(lived, exclude_deleted="false") == asked(lived) + 2)
    expect(gauge(page, "Requests")).to_have_text(str(asked(lived) + 2))
    page.wait_for_url("**keys=all**")


def test_the_latency_of_providers_is_sorted_by_either_part(lived, page):
    for name in ("Alpha", "Beta"):
        for _ in range(3):
            lived.chat(f"{name}/glm-4.6")
    assert eventually(lambda: len(figures(lived)["by_provider_latency"]) == 2)
    ready(lived, page)
    table = panel(page, "latency").locator("table")
    expect(table.locator("tbody tr")).to_have_count(2, timeout=LIVE)
    button = table.get_by_role("button", name="Gateway")
    button.focus()
    page.keyboard.press("Enter")
    expect(table.locator("[aria-sort=descending]")).to_have_text("Gateway")
    expect(button).to_be_focused()
    page.reload()
    expect(table.locator("[aria-sort=descending]")).to_have_text("Gateway")


def test_a_circuit_that_opens_stands_on_the_overview_until_it_is_closed(lived, page):
    """operations 56, for the overview; circuit-breaker 17."""
    ready(lived, page)
    box = page.locator("[data-circuits]")
    expect(box).to_contain_text("All circuits are closed.")
    lived.a.script(status(503), model="flaky")
    try:
        for _ in range(5):
            lived.chat("Alpha/flaky")
        expect(box.locator("li")).to_contain_text("Alpha / flaky")
        expect(box.locator("li")).to_contain_text(re.compile("upstream status 503, next try in [0-9.]+ s"))
    finally:
        lived.a.script(answer("from A"), model="flaky")
        lived.product.api("POST", "/api/failover-groups/circuit-breaker/reset")
    page.reload()
    expect(box).to_contain_text("All circuits are closed.")


def test_a_panel_that_fails_says_so_keeps_what_it_showed_and_is_tried_again(lived, page):
    """operations 1: each panel has its own error line with Retry and keeps the last good content."""
    ready(lived, page)  # signs in
    mine = own_page(lived)
    ready(lived, mine)
    figure = gauge(mine, "Requests").inner_text()
    mine.route("**/api/stats?**", lambda route: route.fulfill(status=500, body="internal error"))
    mine.locator("#overview-refresh").click()
    problem = panel(mine, "models").locator("[data-slot=problem]")
    expect(problem).to_contain_text("internal error")
    expect(panel(mine, "tokens").locator("[data-slot=problem]")).to_be_hidden()
    assert gauge(mine, "Requests").inner_text() == figure
    assert panel(mine, "models").locator("li").count() >= 2
    mine.unroute("**/api/stats?**")
    problem.get_by_role("button", name="Retry").click()
    expect(problem).to_be_hidden()
    mine.context.close()


def test_the_refresh_button_cools_down_and_is_hidden_where_ten_seconds_do_it(lived, timed_page):
    page = timed_page
    page.add_init_script(
        "localStorage.mhTest || localStorage.setItem('mh-dashboardRefreshSec', localStorage.mhTest = 0)"
    )
    page.clock.install()
    ready(lived, page)
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 5)
    button, every = page.locator("#overview-refresh"), page.locator("#overview-every")
    with page.expect_response("**/api/stats/timeseries**"):
        button.click()
    page.clock.run_for(4900)
    expect(button).to_be_disabled()
    page.clock.run_for(200)
    expect(button).to_be_enabled()
    every.select_option("30")
    with page.expect_response("**/api/stats/timeseries**"):
        page.clock.run_for(30_100)
    every.select_option("10")
    expect(button).to_be_hidden()
    with page.expect_response("**/api/stats/timeseries**"):
        page.clock.run_for(10_100)
    page.clock.resume()
    page.reload()
    expect(button).to_be_hidden()


def test_without_the_event_stream_figures_come_by_polling(lived, page):
    """operations 58, for the overview."""
    page.clock.install()
    page.route("**/api/events", lambda route: route.fulfill(status=204))
    ready(lived, page)
    before = int(gauge(page, "Requests").inner_text())
    lived.chat("Alpha/glm-4.6")
    assert eventually(lambda: figures(lived)["total_requests_last_24h"] == before + 1, 10.0)
    page.clock.run_for(30_100)
    expect(gauge(page, "Requests")).to_have_text(str(before + 1))


def test_money_is_offered_once_a_request_has_a_cost(lived, page):
    """operations 3.2: $ only when any request has a cost."""
    ready(lived, page)
    expect(page.locator("#overview-metric button", has_text="$")).to_be_hidden()
    seed(lived.product, [(5, {"cost_usd": "0.25"}), (5, {"cost_usd": "0.5"})])
    assert eventually(lambda: figures(lived)["total_cost_usd"], 10.0)
    page.reload()
    page.locator("#overview-metric button", has_text="$").click()
    expect(panel(page, "models").locator("li").first).to_contain_text("$0.75")
    expect(panel(page, "providers").locator("tbody")).to_contain_text("$0.75")
    expect(panel(page, "cards")).to_contain_text("$0.75 in this period")
    page.reload()
    expect(page.locator("#overview-metric button", has_text="$")).to_have_attribute("aria-pressed", "true")
    expect(panel(page, "keys").locator("li").first).to_contain_text("$0.75")


def test_what_there_is_follows_the_configuration(lived, page):
    """README decision 3: config.changed refreshes at once, without a toast."""
    ready(lived, page)
    card = page.locator(".mh-ov-card", has_text="Providers").locator("strong")
    before = card.inner_text()
    found = next(one for one in lived.product.api("GET", "/api/providers").json() if one["name"] == "Beta")
    lived.product.api("PUT", f"/api/providers/{found['id']}", json={"enabled": False})
    try:
        expect(card).not_to_have_text(before)
        expect(page.locator(".mh-toast")).to_have_count(0)
    finally:
        lived.product.api("PUT", f"/api/providers/{found['id']}", json={"enabled": True})
    expect(card).to_have_text(before)


def test_it_fits_a_phone_and_a_wall_and_curves_follow_the_theme(lived, page):
    """operations 2.3: the theme changes at once; 1: nothing is wider than the window."""
    ready(lived, page)
    for width in (360, 900, 2560):
        page.set_viewport_size({"width": width, "height": 800})
        # The curves are drawn anew a moment after the window has changed.
        page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    ink = "Chart.getChart(document.querySelector('[data-panel=tokens] canvas')).data.datasets[0].borderColor"
    before = page.evaluate(ink)
    page.locator("#theme-switch").click()
    page.wait_for_function(f"{ink} !== {json.dumps(before)}")


def test_a_viewer_sees_the_same_figures(lived, viewer_page):
    """operations 55b, for the overview."""
    ready(lived, viewer_page)
    assert int(gauge(viewer_page, "Requests").inner_text()) >= 40


def test_without_a_request_averages_are_dashes_and_panels_say_so(tmp_path, lived):
    """operations 3.2: no data at all is said in words; averages without a sample are no zeros."""
    with Product(tmp_path, {"ADMIN_PASSWORD": "correct-horse-7"}) as product:
        context = lived.browser.new_context()
        page = context.new_page()
        page.goto(f"{product.url}/login/")
        lived.sign_in(page, "admin", "correct-horse-7")
        expect(page.locator("#overview[data-ready]")).to_be_attached()
        assert page.locator(".mh-ov-gauge strong").all_inner_texts() == ["0", "–", "–", "0", "–"]
        assert page.locator(".mh-ov-card strong").all_inner_texts() == ["0 / 0", "0 / 0", "0", "–", "–", "0"]
        for name in ("tokens", "requests", "providers", "mix", "models", "keys"):
            expect(panel(page, name).get_by_text(NOTHING)).to_be_visible()
        expect(page.locator("#first-run")).to_be_visible()
        context.close()


def test_the_rules_of_views_and_shares(lived, page):
    """operations 36, for the squares: shares that add up, whatever they are rounded to."""
    page.goto(f"{lived.url}/settings/")
    points = json.dumps([{"bucket": str(at)} for at in range(30)])
    wanted = {
        "m.squares([33.3, 33.3, 33.4])": [33, 33, 34],
        "m.squares([100])": [100],
        "m.squares([])": [],
        "m.squares([0, 0])": [0, 0],
        "m.squares([99.9, 0.1])": [100, 0],
        "m.view(p, 7).shown.map((x) => +x.bucket)": list(range(23, 30)),
        "m.view(p, 7, '2').back": 23,
        "m.view(p, 7, '10').shown.length": 7,
        "m.view(p, 7, 'gone').back": 0,
        "m.view([], 7).shown": [],
        "m.moved(p, 7, null, -5)": "24",
        "m.moved(p, 7, '24', 5)": None,
        "m.moved(p, 7, '10', -50)": "6",
        "m.moved(p.slice(0, 3), 7, null, -1)": None,
        "m.moved([], 7, null, -1)": None,
        "m.known(0)": None,
        "m.known(1.5)": 1.5,
        "m.mix({total_tokens_prompt: 5, total_tokens_completion: 2, total_tokens_cache_hit: 9}).map((x) => x.value)": [
            5,
            0,
            2,
        ],
    }
    script = "async () => { const m = await import('%s'); const p = %s; return [%s]; }"
    assert page.evaluate(script % (RULES, points, ", ".join(wanted))) == list(wanted.values())
