"""The frame around every page: navigation, badges, toasts, the broken stream, the drawer, the errors shelf."""

import re

import pytest
from playwright.sync_api import expect

from tests.pace import slower
from tests.pages.conftest import WAIT
from tests.upstream.server import answer, status
from tests.wire.product import eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]
#: Notes every event, and the longest pause between two frames once the page stands.
LISTEN = """
document.addEventListener("DOMContentLoaded", async () => {
  const { on } = await import("/static/modelhotel/app/live.js");
  on("discovery.*", (event) => seen.push(event.id));
  window.seen = [];
  window.longest = 0;
  let last = performance.now();
  const look = (now) => {
    longest = Math.max(longest, now - last);
    last = now;
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
});
"""
#: Keeps the text of every toast.
TOASTS = """() => {
  window.told = [];
  new MutationObserver((changes) => {
    for (const node of changes.flatMap((change) => [...change.addedNodes]))
      if (node.matches?.(".mh-toast")) told.push(node.querySelector(".mh-toast-text").textContent);
  }).observe(document.body, { childList: true, subtree: true });
}"""
RESET = "/api/failover-groups/circuit-breaker/reset"
STATUS = "/api/failover-groups/circuit-breaker-status"


def own_page(hotel, **options):
    """A page that may complain: what breaks here is broken on purpose."""
    context = hotel.browser.new_context(storage_state=hotel.states["admin"], **options)
    context.set_default_timeout(WAIT)
    return context.new_page()


@pytest.fixture
def broken(hotel):
    """Calling it makes Alpha/flaky fail five times, which opens its circuit."""
    hotel.product.api("POST", RESET)

    def fail():
        hotel.a.script(status(503), model="flaky")
        for _ in range(5):
            hotel.chat("Alpha/flaky")

    yield fail
    hotel.a.script(answer("from A"), model="flaky")
    hotel.product.api("POST", RESET)


def test_a_circuit_that_opens_is_told_by_a_toast_and_counted_in_the_navigation(hotel, page, broken):
    """operations 56, for the frame; circuit-breaker 17: the numbers count providers and the tooltip names them."""
    page.goto(f"{hotel.url}/settings/")
    link = page.locator("[data-nav=failover]")
    expect(link.locator(".mh-nav-badge")).to_have_count(0)
    expect(page.locator(".mh-live")).to_be_hidden()
    broken()
    expect(page.locator(".mh-toast[data-tone=warning]")).to_contain_text("circuit breaker: open for model flaky")
    expect(link.locator(".mh-nav-badge[data-tone=warn]")).to_have_text("1")
    expect(link).to_have_attribute("title", re.compile("numbers count providers.*still used: Alpha$", re.DOTALL))
    hotel.product.api("PUT", "/api/settings", json={"circuit_breaker_span_models": "1"})
    try:
        expect(link.locator(".mh-nav-badge[data-tone=bad]")).to_have_text("1")
        expect(link).to_have_attribute("title", re.compile("skipped as a whole: Alpha$"))
        expect(page.locator(".mh-toast")).to_have_count(1)  # a changed setting is no toast
    finally:
        hotel.product.api("DELETE", "/api/settings", json={"keys": ["circuit_breaker_span_models"]})


def test_an_outage_and_its_recovery_are_two_openings_and_a_closing_on_an_open_page(hotel, page):
    """circuit-breaker 68b, for the dashboard: nothing is told of the steps to half-open."""

    def due():
        return hotel.product.api("GET", STATUS).json()["half_open"]

    values = {
        "circuit_breaker_cooldown": "1s",
        "circuit_breaker_threshold": "1",
        "server_error_retry_enabled": "false",
    }
    hotel.product.api("POST", RESET)
    hotel.product.api("PUT", "/api/settings", json=values)
    hotel.a.script(status(503), model="flaky")
    try:
        page.goto(f"{hotel.url}/settings/")
        page.evaluate(TOASTS)
        page.wait_for_function("import('/static/modelhotel/app/live.js').then((m) => m.state() === 'live')")
        hotel.chat("Alpha/flaky")
        expect(page.locator(".mh-toast")).to_have_count(1)
        assert eventually(due, 10)
        hotel.chat("Alpha/flaky")
        expect(page.locator(".mh-toast", has_text="after 1 failed retry")).to_be_visible()
        hotel.a.script(answer("from A"), model="flaky")
        assert eventually(due, 10)
        assert hotel.chat("Alpha/flaky").status_code == 200
        expect(page.locator(".mh-toast[data-tone=success]")).to_be_visible()
    finally:
        hotel.product.api("DELETE", "/api/settings", json={"keys": list(values)})
        hotel.a.script(answer("from A"), model="flaky")
    said = "Provider Alpha circuit breaker: "
    down = f"{said}open for model flaky: upstream status 503"
    assert page.evaluate("told") == [
        down,
        f"{down} (backing off after 1 failed retry, next retry in 2s)",
        f"{said}closed for model flaky",
    ]


def test_quota_pinned_providers_have_a_line_of_their_own(hotel, page):
    page.goto(f"{hotel.url}/settings/")
    script = """async () => (await import('/static/modelhotel/app/circuits.js')).count({ providers: [
      { provider_name: 'A', state: 'closed', provider_open: false },
      { provider_name: 'B', state: 'half-open', provider_open: false },
      { provider_name: 'C', state: 'open', provider_open: true, quota_pinned: true },
      { provider_name: 'D', state: 'half-open', provider_open: false, quota_pinned: true },
    ] })"""
    assert page.evaluate(script) == {"degraded": ["B", "D"], "skipped": ["C"], "pinned": ["C"]}


def test_a_broken_stream_is_told_and_resumed_without_a_loss(hotel, page, broken):
    """operations 47 and 58, for the frame: what happened meanwhile is told after the reconnect."""
    page.goto(f"{hotel.url}/settings/")  # signs in
    mine = own_page(hotel)
    mine.goto(f"{hotel.url}/settings/")
    broken()
    expect(mine.locator(".mh-toast")).to_contain_text("flaky")
    mine.locator(".mh-toast-close").click()
    hotel.a.script(answer("from A"), model="flaky")
    mine.route("**/api/events", lambda route: route.abort())
    mine.reload()
    expect(mine.locator(".mh-live")).to_have_text("Reconnecting …")
    hotel.product.api("POST", RESET)
    broken()
    mine.unroute("**/api/events")
    expect(mine.locator(".mh-live")).to_be_hidden(timeout=15_000)
    expect(mine.locator(".mh-toast")).to_contain_text("open for model flaky")
    mine.context.close()


def test_with_the_stream_blocked_the_badge_follows_by_polling(hotel, page, broken):
    """operations 58, for the frame: at most 15 s late."""
    page.goto(f"{hotel.url}/settings/")  # signs in
    mine = own_page(hotel)
    mine.route("**/api/events", lambda route: route.abort())
    mine.clock.install()
    mine.goto(f"{hotel.url}/settings/")
    expect(mine.get_by_label("Find a setting")).to_be_visible()
    broken()
    badge = mine.locator("[data-nav=failover] .mh-nav-badge")
    assert badge.count() == 0
    mine.clock.run_for(15_000)
    expect(badge).to_have_text("1")
    mine.context.close()


def test_a_flood_of_events_is_delivered_once_in_order_and_leaves_the_page_usable(hotel, page):
    """Issue: 200 events a second do not freeze the page. Here 3,000 at once."""
    page.goto(f"{hotel.url}/settings/")  # signs in
    mine = own_page(hotel)
    at = mine.evaluate("new Date().toISOString()")
    event = '{{"id":"{0}","type":"discovery.enriched","severity":"info","message":"event {0}","timestamp":"{1}"}}'
    frame = f"id: {{0}}\ndata: {event}\n\n"
    body = ": connected\n\n" + "".join(frame.format(n, at) for n in range(3000))
    once = {"left": 1}

    def stream(route):
        if once["left"]:
            once["left"] = 0
            mine.wait_for_function("window.seen")  # everybody listens
            route.fulfill(status=200, content_type="text/event-stream", body=body)
        else:
            route.abort()

    mine.add_init_script(LISTEN)
    mine.route("**/api/events", stream)
    mine.goto(f"{hotel.url}/settings/")
    mine.wait_for_function("window.seen && seen.length >= 3000")
    assert mine.evaluate("seen.every((id, at) => Number(id) === at) && seen.length") == 3000
    assert mine.evaluate("longest") < 350 * slower()  # ms between two frames
    expect(mine.locator(".mh-toast")).to_have_count(4)
    mine.get_by_label("Find a setting").fill("proxy")
    expect(mine.locator("[data-section=Authentication]")).to_be_hidden()
    mine.context.close()


def test_a_session_that_ended_leads_to_the_sign_in_page_and_back(hotel, page):
    """operations 49, for the page."""
    context = hotel.browser.new_context()
    mine = context.new_page()
    mine.goto(f"{hotel.url}/login/?next=/proxy/virtualkey/%3Fq%3Dapp")
    hotel.sign_in(mine, "admin", "correct-horse-7")
    expect(mine.locator("#searchbar")).to_have_value("app")
    context.clear_cookies()
    mine.evaluate("import('/static/modelhotel/app/api.js').then((m) => m.api('GET', '/api/settings')).catch(() => {})")
    expect(mine.get_by_text("Your session has expired.")).to_be_visible()
    hotel.sign_in(mine, "admin", "correct-horse-7")
    expect(mine.locator("#searchbar")).to_have_value("app")
    context.close()


def test_below_900_pixels_the_sidebar_is_a_drawer(hotel, page):
    page.set_viewport_size({"width": 900, "height": 800})
    page.goto(f"{hotel.url}/settings/")
    link = page.get_by_role("link", name="Providers", exact=True)
    expect(link).to_be_visible()
    page.set_viewport_size({"width": 899, "height": 800})
    expect(link).to_be_hidden()
    menu = page.get_by_role("button", name="Open the menu")
    menu.focus()
    page.keyboard.press("Enter")
    expect(link).to_be_visible()
    expect(menu).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()
    menu.click()
    link.click()
    page.wait_for_url("**/providers/**")
    expect(page.get_by_role("link", name="Models", exact=True)).to_be_hidden()


def test_the_keyboard_reaches_filter_theme_and_sign_out(hotel, page):
    """operations 2.3: a slash focuses the page filter; the ring is visible."""
    page.goto(f"{hotel.url}/proxy/virtualkey/")
    page.locator("body").press("/")
    expect(page.locator("#searchbar")).to_be_focused()
    page.keyboard.type("a/b")
    expect(page.locator("#searchbar")).to_have_value("a/b")
    switch = page.get_by_role("button", name="Switch between light and dark")
    before = page.locator("html").get_attribute("class")
    switch.focus()
    page.keyboard.press("Enter")
    expect(page.locator("html")).not_to_have_class(before)
    page.keyboard.press("Tab")
    out = page.get_by_role("button", name="Sign out")
    expect(out).to_be_focused()
    assert out.evaluate("(e) => getComputedStyle(e).outlineStyle") == "solid"
    expect(page.locator(".mh-version")).to_have_text(re.compile(r"\d+\.\d+"))
    expect(page.locator(".mh-who")).to_contain_text("Administrator")


def test_failures_stand_on_the_shelf_until_they_are_dismissed(hotel, page, broken):
    broken()
    hotel.chat("Alpha/never-heard-of")
    page.goto(f"{hotel.url}/")
    shelf = page.locator("#mh-shelf")
    lines = shelf.get_by_role("listitem")
    expect(lines.first).to_contain_text("Alpha/flaky · 503")
    expect(shelf).not_to_contain_text("never-heard-of")
    shown = lines.count()
    first = lines.first.get_by_role("link", name="Open").get_attribute("href")
    lines.first.get_by_role("link", name="Open").click()
    expect(page.locator("dialog.mh-request")).to_contain_text("breaker: strike")
    page.goto(f"{hotel.url}/")
    shelf.get_by_role("button", name="Dismiss this failure").first.click()
    expect(lines).to_have_count(shown - 1)
    hotel.chat("Alpha/flaky")  # told by the stream, without a reload
    expect(lines).to_have_count(shown)
    page.reload()
    expect(lines).to_have_count(shown)
    assert first not in [link.get_attribute("href") for link in lines.get_by_role("link", name="Open").all()]
    shelf.get_by_role("button", name="Clear all").click()
    expect(lines).to_have_count(shown)
    shelf.get_by_role("button", name="Click again").click()
    expect(shelf).to_be_hidden()
    page.reload()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(shelf).to_be_hidden()


def test_a_line_of_the_log_on_the_shelf_opens_as_that_line(hotel, page):
    page.goto(f"{hotel.url}/settings/")  # signs in
    mine = own_page(hotel)
    at = page.evaluate("new Date().toISOString()")
    line = {"id": 7, "timestamp": at, "level": "error", "source": "x", "message": "x: it broke", "node": "n"}
    mine.route(re.compile(r"/api/logs/app\?history"), lambda route: route.fulfill(json={"entries": [line]}))
    mine.goto(f"{hotel.url}/settings/")
    opened = mine.locator("#mh-shelf li", has_text="it broke").get_by_role("link", name="Open")
    expect(opened).to_have_attribute("href", "/logs/?level=error&id=7")
    mine.context.close()


def test_the_system_widget_follows_the_gateway_and_turns_grey_without_it(hotel, page):
    """Section 2.1 of operations."""
    page.goto(f"{hotel.url}/settings/")
    system = page.locator("#mh-system")
    expect(system).to_have_attribute("data-state", "up")
    expect(system).to_contain_text("API up")
    expect(system.locator("[data-figure=memory]")).to_have_text(re.compile(r"^\d.* MB"))
    expect(system.locator("[data-figure=today]")).to_have_text(re.compile("request"))
    expect(system.get_by_text("DB cache")).to_be_hidden()  # SQLite tells none
    mine = own_page(hotel, viewport={"width": 1280, "height": 700})
    mine.clock.install()
    mine.goto(f"{hotel.url}/settings/")
    system = mine.locator("#mh-system")
    expect(system).to_have_attribute("data-state", "up")
    mine.route("**/api/system**", lambda route: route.abort())
    mine.clock.run_for(10_000)
    expect(system).to_contain_text("unreachable")
    expect(system.locator("[data-figure=uptime]")).to_have_text(re.compile("^up "))  # the last that was known
    mine.unroute("**/api/system**")
    mine.clock.run_for(10_000)
    expect(system).to_contain_text("API up")
    expect(system.locator("[data-figure=cpu]")).to_be_hidden()  # folded in a low window, until somebody unfolds it
    system.locator("summary").click()
    mine.reload()
    expect(system.locator("[data-figure=cpu]")).to_be_visible()
    mine.context.close()


def test_the_foot_names_a_newer_release_where_there_is_one(hotel, page):
    page.goto(f"{hotel.url}/settings/")
    page.wait_for_function("sessionStorage.getItem('mh-release')")
    expect(page.locator("#mh-version a")).to_have_count(0)
    page.evaluate("sessionStorage.clear()")
    told = {"current": "0.1", "latest": "9.0", "url": "https://x.test/9", "newer": True}
    page.route("**/api/version/latest", lambda route: route.fulfill(json=told))
    page.reload()
    link = page.locator("#mh-version").get_by_role("link")
    expect(link).to_have_attribute("href", "https://x.test/9")
    expect(link).to_contain_text("9.0")


def test_the_sign_in_page_says_what_was_wrong_where_the_token_is_and_how_long_to_wait(hotel):
    """operations 65 and 69, for the page."""
    context = hotel.browser.new_context()
    page = context.new_page()
    page.goto(f"{hotel.url}/settings/")
    page.get_by_text("Sign in with the admin token").click()
    expect(page.get_by_text("in the log of the first start")).to_be_visible()
    page.get_by_role("button", name="Show the token").click()
    page.locator("#id_admin_token").fill("wrong")
    expect(page.locator("#id_admin_token")).to_have_attribute("type", "text")
    page.get_by_role("button", name="Sign in with token").click()
    expect(page.get_by_role("alert")).to_contain_text("Invalid admin token")
    for _ in range(12):
        page.locator("#id_admin_token").fill("wrong")
        page.get_by_role("button", name="Sign in with token").click()
        if page.locator("[data-retry-after]").count():
            break
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"try again in \d+ s"))
    button = page.get_by_role("button", name="Sign in with token")
    expect(button).to_be_disabled()
    expect(button).to_be_enabled(timeout=10_000)
    page.locator("#id_admin_token").fill(hotel.product.token)
    button.click()
    page.wait_for_url("**/settings/")
    context.close()
