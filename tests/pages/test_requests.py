"""The live request list: rows in flight, filters, pages and scroll, the dialog of one request."""

import json
import re
import threading
import time
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.upstream.server import Hold, answer, status, stream
from tests.upstream.spoken import PROMPT
from tests.wire.product import eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(45, func_only=True)]
PAGE = "/requests/"
APP = "/static/modelhotel/app/logs"


@pytest.fixture(autouse=True)
def one_row(hotel):
    """Whatever ran before, the list begins with one finished request."""
    assert hotel.product.api("DELETE", "/api/logs/purge", json={"older_than": "all"}).status_code == 204
    assert hotel.chat("Alpha/glm-4.6").status_code == 200


def rows(page):
    return page.locator("#requests tbody tr")


def dialog(page):
    return page.get_by_role("dialog")


def entries(hotel):
    """Of the request log, newest first."""
    return hotel.product.api("GET", "/api/logs/cursor?limit=200").json()["entries"]


def open_page(hotel, page, address=PAGE):
    page.goto(hotel.url + address)
    expect(page.locator("#requests-live")).to_have_text("Live")


@contextmanager
def in_flight(hotel, behaviour, model="Alpha/glm-4.6", stream=False):
    """A request that runs until the block ends."""
    hold = Hold(behaviour)
    hotel.a.script(hold)
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": PROMPT}]}
    headers = {"Authorization": f"Bearer {hotel.key}"}

    def ask():
        hotel.product.http.post(f"{hotel.url}/v1/chat/completions", headers=headers, json=body)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        assert hold.reached.wait(10)
        yield hold
    finally:
        hold.release()
        asking.join(20)
        hotel.a.script(answer("from A"))


def test_an_empty_list_shows_how_to_send_the_first_request(hotel, page):
    """operations 3.8: a curl snippet with this installation's address; it leaves with the first row."""
    assert hotel.product.api("DELETE", "/api/logs/purge", json={"older_than": "all"}).status_code == 204
    open_page(hotel, page)
    expect(page.locator("#requests-curl")).to_contain_text(f"curl {hotel.url}/v1/chat/completions")
    assert hotel.chat("Alpha/glm-4.6").status_code == 200
    expect(rows(page)).to_have_count(1)
    expect(page.locator("#requests-curl")).to_be_hidden()


def test_a_request_in_flight_is_on_top_at_once_ticks_and_ends_in_its_place(hotel, page):
    """operations 61: by event and by poll it is one row, and the same one from its start to its end."""
    hotel.chat("Beta/glm-4.6")
    open_page(hotel, page)
    before = rows(page).count()
    with in_flight(hotel, answer("done")) as hold:
        top = rows(page).first
        expect(top).to_have_attribute("data-state", "pending")
        expect(top).to_contain_text("Alpha/glm-4.6")
        expect(top).to_contain_text("Resolving…")
        identity = top.get_attribute("data-id")
        page.evaluate("id => { document.querySelector(`tr[data-id='${id}']`).mine = true; }", identity)
        # Later ones stand under what is in flight.
        hotel.chat("Beta/glm-4.6")
        expect(rows(page)).to_have_count(before + 2)
        expect(rows(page).first).to_have_attribute("data-id", identity)
        expect(top.locator("[data-column=duration]")).to_have_text(re.compile(r"^[1-9]\d? s$"))
        hold.release()
        same = page.locator(f"tr[data-id='{identity}']")
        expect(same).to_have_attribute("data-state", "completed")
        expect(same.locator("[data-column=status]")).to_have_text("200")
        expect(same.locator("[data-column=tokens]")).to_contain_text("→")
        expect(same.locator("[data-column=key]")).to_have_text("app")
    assert page.evaluate("id => document.querySelector(`tr[data-id='${id}']`).mine", identity)
    ids = rows(page).evaluate_all("all => all.map((row) => row.dataset.id)")
    assert len(ids) == len(set(ids)) == before + 2


def test_a_stream_is_live_with_its_provider_until_it_ends(hotel, page):
    open_page(hotel, page)
    before = rows(page).count()
    hotel.a.script(stream(["a"] * 12, delay=0.15))
    body = {"model": "Alpha/glm-4.6", "stream": True, "messages": [{"role": "user", "content": PROMPT}]}
    headers = {"Authorization": f"Bearer {hotel.key}"}
    try:
        with hotel.product.http.stream("POST", f"{hotel.url}/v1/chat/completions", headers=headers, json=body) as got:
            expect(rows(page).first.locator("[data-column=status]")).to_have_text("Live")
            expect(rows(page).first.locator("[data-column=provider]")).to_have_text("Alpha")
            got.read()
        expect(rows(page).first.locator("[data-column=status]")).to_have_text("200")
        expect(rows(page).first.locator("[data-column=ttft]")).to_contain_text("ms")
        expect(rows(page)).to_have_count(before + 1)
    finally:
        hotel.a.script(answer("from A"))


def test_the_dialog_tells_the_whole_story_of_a_failover(hotel, page):
    """operations 4.4 and circuit-breaker 17: the chain with verdicts; failover mark with the count; Enter and Esc."""
    hotel.a.script(status(500, {"error": {"message": "the disk is full"}}))
    try:
        assert hotel.chat("hotel/glm-4.6").status_code == 200
    finally:
        hotel.a.script(answer("from A"))
        hotel.product.api("POST", "/api/failover-groups/circuit-breaker/reset")
    row = entries(hotel)[0]
    tries = len([one for one in row["attempts"] if one["attempt"] >= 0])
    open_page(hotel, page)
    line = page.locator(f"tr[data-id='{row['id']}']")
    expect(line.locator(".mh-log-failover")).to_have_text(f"↻ {tries}")
    line.locator(".mh-log-name").evaluate("(name) => (name.textContent = 'A provider with a rather long name')")
    inside = "(mark) => mark.getBoundingClientRect().right <= mark.closest('td').getBoundingClientRect().right"
    assert line.locator(".mh-log-failover").evaluate(inside)
    line.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"id={row['id']}"))
    shown = dialog(page)
    chain = shown.get_by_role("list", name="Attempts").get_by_role("listitem")
    expect(chain).to_have_count(len(row["attempts"]))
    expect(chain.first).to_contain_text("500")
    expect(chain.first).to_contain_text("breaker: strike")
    expect(chain.first.get_by_text("provider error")).to_have_attribute("title", "provider_error")
    expect(chain.first.locator("code")).to_contain_text("the disk is full")
    expect(chain.last).to_contain_text("Beta")
    expect(chain.last).to_contain_text("breaker: reset")
    expect(chain.last.locator("code")).to_have_count(0)
    expect(shown).to_contain_text("No prompt or answer is stored.")
    shown.get_by_text(re.compile("^Overhead")).click()
    parts = shown.get_by_role("list", name="Overhead in parts").get_by_role("listitem")
    expect(parts).to_have_count(7)
    hits = [name for name, hit in row["cache_hits"].items() if hit]
    expect(shown.locator(".mh-part-bar[data-hit=true]")).to_have_count(len(hits))
    expect(shown.get_by_role("table", name="Tokens")).to_contain_text("reasoning")
    shown.get_by_role("button", name=f"Copy {row['request_hash']}").click()
    page.keyboard.press("Escape")
    expect(shown).to_have_count(0)
    expect(line).to_be_focused()
    expect(page).not_to_have_url(re.compile("id="))
    line.click()
    expect(dialog(page)).to_be_visible()
    page.go_back()
    expect(dialog(page)).to_have_count(0)


ATTEMPTS = [
    {
        "attempt": -1,
        "provider": "A",
        "model": "m",
        "detail": "circuit breaker open",
        "duration_ms": 0,
        "breaker": "skipped",
    },
    {
        "attempt": 0,
        "provider": "B",
        "model": "m",
        "error_kind": "provider_error",
        "detail": "connection refused",
        "duration_ms": 1.5,
        "breaker": "charge",
    },
    {
        "attempt": 1,
        "provider": "C",
        "model": "m",
        "status": 429,
        "error_kind": "provider_saturated",
        "detail": "upstream status 429",
        "duration_ms": 9,
        "breaker": "noop",
    },
    {
        "attempt": 2,
        "provider": "C",
        "model": "m",
        "status": 200,
        "duration_ms": 80,
        "ttft_ms": 40,
        "breaker": "success",
    },
]


def test_skips_refusals_and_a_saturated_provider_stand_in_the_chain_in_their_order(hotel, page):
    """operations 61a, 61b: four rows; nothing in monospace that the row says already."""
    open_page(hotel, page)
    script = f"""async (attempts) => {{
        const m = await import('{APP}/attempts.js');
        const list = m.chain({{ attempts, error_message: null }});
        return [...list.children].map((item) => [
          ...[...item.querySelectorAll('.mh-chip, .mh-chain-breaker')].map((one) => one.lastChild.textContent),
          ...[...item.querySelectorAll('.mh-chain-why [title]:not(.mh-chain-breaker)')]
            .map((one) => `${{one.textContent}}|${{one.title}}`),
          ...[...item.querySelectorAll('code')].map((one) => one.textContent),
        ]);
      }}"""
    assert page.evaluate(script, ATTEMPTS) == [
        ["not asked", "breaker: skipped"],
        ["no response", "breaker: strike", "provider error|provider_error", "connection refused"],
        ["429", "breaker: untouched", "provider saturated|provider_saturated"],
        ["200", "breaker: reset"],
    ]
    say = f"async ([text, one]) => (await import('{APP}/attempts.js')).worthSaying(text, one)"
    told = {"status": 503, "error_kind": "provider_error", "breaker": "charge"}
    for text in ("upstream status 503", "provider_error", "Provider error", "HTTP 503", "upstream returned 503", ""):
        assert page.evaluate(say, [text, told]) == "", text
    for text in ("overloaded, try again in 5 s", "probe in progress", "upstream status 500"):
        assert page.evaluate(say, [text, told]) == text


RACE = [
    {"attempt": 0, "status": 200, "error_kind": "provider_error", "duration_ms": 90, "breaker": "charge"},
    {
        "attempt": 1,
        "error_kind": "hedge_superseded",
        "detail": "superseded by the winner while in flight",
        "duration_ms": 30,
    },
]


def test_a_race_stands_in_the_chain_with_its_marks_and_the_text_of_the_one_that_served(hotel, page):
    """The attempt that ended the request stands first here; the loser says once that it lost."""
    open_page(hotel, page)
    script = f"""async (attempts) => {{
        const m = await import('{APP}/attempts.js');
        const list = m.chain({{ attempts, error_message: "stream truncated before the end" }});
        return [...list.children].map((item) => [...item.querySelectorAll('.mh-chip, .mh-chain-why, code')]
          .map((one) => one.textContent));
      }}"""
    race = [{**one, "provider": name, "model": "m", "hedged": True} for one, name in zip(RACE, "AB", strict=True)]
    assert page.evaluate(script, race) == [
        ["200", "hedged", "shieldbreaker: strikeprovider error", "stream truncated before the end"],
        ["no response", "hedged", "lost the race"],
    ]


def test_a_full_provider_was_not_asked_and_a_race_is_no_failover(hotel, page):
    """Neither who had no slot nor who only lost a race is drawn as one that failed."""
    open_page(hotel, page)
    full = {"attempt": 0, "error_kind": "provider_saturated", "detail": "at in-flight limit", "breaker": "noop"}
    served = {"attempt": 1, "status": 200, "breaker": "success"}
    lost = {"attempt": 0, "error_kind": "hedge_superseded", "hedged": True}
    failed = {"attempt": 0, "error_kind": "provider_error", "breaker": "charge", "hedged": True}
    won = {**served, "hedged": True}
    script = f"""async (attempts) => {{
        const [trail, list] = await Promise.all([import('{APP}/attempts.js'), import('{APP}/request-columns.js')]);
        const badge = trail.chain({{ attempts }}).querySelector('.mh-chip');
        return [badge.textContent, badge.dataset.tone, list.course({{ attempts }})];
      }}"""
    assert page.evaluate(script, [full, served]) == ["not asked", "muted", ""]
    assert page.evaluate(script, [lost, won]) == ["no response", "muted", "hedged, 2 attempts"]
    assert page.evaluate(script, [failed, won]) == ["no response", "bad", "failover, 2 attempts"]


def test_filters_live_in_the_address_and_back_undoes_them(hotel, page):
    """operations 2.3: 300 ms after the last key; Clear filters; nothing matches is not the empty list."""
    hotel.chat("nothing/at-all")
    hotel.chat("Alpha/glm-4.6")
    open_page(hotel, page)
    everything = rows(page).count()
    page.get_by_label("Status", exact=True).select_option("4xx")
    expect(page).to_have_url(re.compile("status_code=4xx"))
    expect(rows(page).locator("[data-column=status]").filter(has_text="200")).to_have_count(0)
    expect(rows(page).first).to_contain_text("nothing/at-all")
    page.keyboard.press("/")
    page.keyboard.type("no such model")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    expect(page.locator("#requests-curl")).to_be_hidden()
    page.go_back()
    expect(page.get_by_label("Model", exact=True)).to_have_value("")
    expect(rows(page).first).to_contain_text("nothing/at-all")
    # A reload and a link show the same.
    page.reload()
    expect(page.get_by_label("Status", exact=True)).to_have_value("4xx")
    expect(rows(page).locator("[data-column=status]").filter(has_text="200")).to_have_count(0)
    page.get_by_role("button", name="Clear filters").first.click()
    expect(rows(page)).to_have_count(everything)
    assert page.url == hotel.url + PAGE
    # A filtered list hears of new rows too, and only of its own.
    page.get_by_text("More filters").click()
    page.get_by_label("Status exactly").fill("404")
    expect(page).to_have_url(re.compile("status_code=404"))
    missing = hotel.product.api("GET", "/api/logs?status_code=404").json()["total"]
    expect(rows(page)).to_have_count(missing)
    hotel.chat("Alpha/glm-4.6")
    hotel.chat("nothing/at-all")
    expect(rows(page)).to_have_count(missing + 1)
    expect(rows(page).locator("[data-column=status]").filter(has_text="200")).to_have_count(0)


def test_pages_sorting_and_news_on_a_page_that_is_not_the_first(hotel, page):
    """operations 3.8: other pages say "new requests" and wait. Sorting is a button with aria-sort."""
    while len(entries(hotel)) < 25:
        hotel.chat("Alpha/glm-4.6")
    open_page(hotel, page)
    page.get_by_label("Rows on a page").select_option("20")
    expect(rows(page)).to_have_count(20)
    page.get_by_role("button", name="Next page").click()
    expect(page).to_have_url(re.compile("page=2"))
    expect(page.get_by_text("Page 2 of")).to_be_visible()
    news = page.get_by_role("button", name="New requests: show them")
    expect(news).to_be_hidden()
    shown = rows(page).evaluate_all("all => all.map((row) => row.dataset.id)")
    hotel.chat("Alpha/glm-4.6")
    expect(news).to_be_visible()
    assert rows(page).evaluate_all("all => all.map((row) => row.dataset.id)") == shown
    news.click()
    expect(page.get_by_text("Page 1 of")).to_be_visible()
    expect(rows(page).first).to_have_attribute("data-id", entries(hotel)[0]["id"])
    header = page.get_by_role("columnheader", name="Duration")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    wanted = hotel.product.api("GET", "/api/logs?sort_by=duration&per_page=20").json()["entries"]
    expect(rows(page).first).to_have_attribute("data-id", wanted[0]["id"])
    assert rows(page).evaluate_all("all => all.map((row) => row.dataset.id)") == [row["id"] for row in wanted]
    page.reload()
    expect(rows(page)).to_have_count(20)  # the size is remembered
    expect(page.get_by_role("columnheader", name="Duration")).to_have_attribute("aria-sort", "descending")


def test_the_scroll_loads_what_is_older_and_columns_are_remembered(hotel, page):
    while len(entries(hotel)) < 60:
        hotel.chat("Alpha/glm-4.6")
    open_page(hotel, page)
    page.set_viewport_size({"width": 1280, "height": 420})
    page.get_by_role("button", name="Scroll").click()
    expect(rows(page)).not_to_have_count(0)
    page.mouse.move(700, 300)
    for _ in range(8):
        page.mouse.wheel(0, 3000)
        page.wait_for_timeout(60)
    wanted = [row["id"] for row in entries(hotel)]
    expect(rows(page)).to_have_count(len(wanted))
    hotel.chat("Beta/glm-4.6")
    expect(rows(page)).to_have_count(len(wanted) + 1)
    wanted = [row["id"] for row in entries(hotel)]
    assert rows(page).evaluate_all("all => all.map((row) => row.dataset.id)") == wanted
    expect(rows(page).first.locator("[data-column=status]")).to_have_text("200")
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Hash").check()
    page.get_by_label("Overhead").uncheck()
    page.reload()
    expect(page.get_by_role("columnheader", name="Hash")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Overhead")).to_have_count(0)
    expect(page.get_by_role("button", name="Scroll")).to_have_attribute("aria-pressed", "true")


FITS = """() => {
  const box = document.querySelector("#requests .mh-log-box"), last = box.querySelector("th:last-child");
  return [last.innerText, box.scrollWidth - box.clientWidth, last.getBoundingClientRect().right <= innerWidth];
}"""


@pytest.mark.parametrize("width", [1300, 1280, 1265])
def test_the_columns_shown_by_default_fit_a_window_of_1280(hotel, page, width):
    """1265: what a scroll bar at the side leaves"""
    page.set_viewport_size({"width": width, "height": 800})
    open_page(hotel, page)
    assert page.evaluate(FITS) == ["Key", 0, True]
    for name in ("Overhead", "Headers"):
        page.get_by_role("columnheader", name=name).get_by_role("button").click()
        expect(page.get_by_role("columnheader", name=name)).to_have_attribute("aria-sort", "descending")
        assert (
            page.get_by_role("columnheader", name=name).evaluate("(head) => getComputedStyle(head).overflow")
            == "visible"
        )


def test_a_table_that_is_too_wide_shows_that_it_scrolls(hotel, page):
    """by a shadow at the edge, under a cover that moves with the table"""
    page.set_viewport_size({"width": 1000, "height": 800})
    open_page(hotel, page)
    assert page.evaluate(FITS)[1] > 0
    box = page.locator("#requests .mh-log-box")
    assert box.evaluate("(box) => getComputedStyle(box).backgroundAttachment").startswith(
        "local, local, scroll, scroll"
    )


ROWS_TEST = """async (app) => {
  const { Rows, KEPT, RUNNING } = await import(`${app}/rows.js`);
  const iso = (ms) => new Date(1.7e12 + ms).toISOString();
  const name = (n) => `id-${String(n).padStart(6, '0')}`;
  const row = (n, state = 'completed') => ({ id: name(n), created_at: iso(n), state, status_code: null });
  const out = {};
  const rows = new Rows('created_at');
  rows.tell('id-000005', { state: 'pending', model_id: 'm' }, iso(5), 1000);
  rows.put(row(5, 'pending'));
  out.once = rows.size;
  rows.tell('id-000005', { state: 'completed', status_code: 200 }, null, 1001);
  rows.put(row(5, 'streaming'));
  out.endIsKept = [rows.get('id-000005').state, rows.unfinished().length];
  rows.put(row(5));
  out.finished = rows.unfinished().length;
  rows.put(row(5, 'pending'));
  out.stillFull = rows.get('id-000005').full;
  out.strangers = rows.tell('id-000009', { state: 'completed' }, null, 1002);
  rows.put(row(1, 'streaming'));
  out.order = rows.ordered().map((one) => one.id);
  rows.tell('id-000007', { state: 'pending' }, iso(7), 9000);
  rows.replace([row(5)], 8500);
  out.survivors = rows.ordered().map((one) => one.id);
  for (let n = 10; n < 3000; n += 1) rows.put(row(n));
  for (let n = 3000; n < 3500; n += 1) rows.put(row(n, 'pending'));
  const flying = rows.ordered().filter((one) => one.state === 'pending').length;
  out.kept = [rows.ordered().length, rows.size, flying, KEPT, RUNNING];
  rows.replace([row(2), row(9), row(4)], 0, true);
  out.given = rows.ordered().map((one) => one.id);
  return out;
}"""


def test_a_row_is_one_row_whoever_brings_it(hotel, page):
    """operations 61 on the merge itself: an old answer takes no end back, the page keeps 1,000 rows."""
    open_page(hotel, page)
    assert page.evaluate(ROWS_TEST, APP) == {
        "once": 1,
        "endIsKept": ["completed", 1],
        "finished": 0,
        "stillFull": True,
        "strangers": False,
        "order": ["id-000001", "id-000005"],
        "survivors": ["id-000007", "id-000005"],
        "kept": [1000, 1000, 200, 1000, 200],
        "given": ["id-000002", "id-000009", "id-000004"],
    }


def test_a_row_cut_off_by_a_restart_carries_its_badge(hotel, page):
    open_page(hotel, page)
    script = f"""async (row) => {{
        const m = await import('{APP}/request-columns.js');
        return [m.statusText(row), m.interrupted(row)];
      }}"""
    cut = {"state": "failed", "status_code": None, "error_message": "request interrupted (server restart)"}
    assert page.evaluate(script, cut) == ["Interrupted", True]
    answered = json.loads(json.dumps({**cut, "status_code": 0}))
    assert page.evaluate(script, answered) == ["0", True]


def test_markup_in_names_is_text(hotel, page):
    """operations 59."""
    hotel.chat("<img src=x onerror=alert(1)>/<b>bold</b>")
    open_page(hotel, page)
    expect(rows(page).first).to_contain_text("<img src=x onerror=alert(1)>/<b>bold</b>")
    rows(page).first.click()
    expect(dialog(page).get_by_role("heading", name="<b>bold</b>")).to_be_visible()
    assert page.locator("#requests img, dialog img, #requests b").count() == 0


def test_without_the_event_stream_the_list_still_moves(hotel, page):
    """operations 58: a proxy that blocks the stream costs liveness, not rows."""
    page.clock.install()
    page.route("**/api/events", lambda route: route.fulfill(content_type="text/event-stream", body=""))
    page.goto(hotel.url + PAGE)
    expect(rows(page)).not_to_have_count(0)
    before = hotel.product.api("GET", "/api/logs?per_page=1").json()["total"]
    hotel.chat("Beta/glm-4.6")
    page.clock.fast_forward(31_000)
    newest = entries(hotel)[0]["id"]
    page.clock.run_for(1000)
    expect(page.locator(f"tr[data-id='{newest}']")).to_have_count(1)
    assert hotel.product.api("GET", "/api/logs").json()["total"] == before + 1


def work_of(tools):
    """Seconds of processor the page's main thread has used."""
    return next(
        one["value"] for one in tools.send("Performance.getMetrics")["metrics"] if one["name"] == "TaskDuration"
    )


def test_two_hundred_events_a_second_do_not_freeze_the_page(hotel, page):
    """Of real requests in the running product; the page draws, answers a click and shows each row once."""
    page.goto(hotel.url + PAGE)
    expect(page.locator("#requests-live")).to_have_text("Live")
    tools = page.context.new_cdp_session(page)
    # Of the page's own thread: what it waits for a processor is not its work.
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    began, before = time.monotonic(), work_of(tools)
    ended = threading.Event()
    counts = []

    def work():
        done = 0
        while not ended.is_set():
            done += hotel.chat("Alpha/glm-4.6").status_code == 200
        counts.append(done)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    try:
        page.wait_for_timeout(3000)
        page.mouse.click(700, 400)  # whichever row is there at this moment
        expect(dialog(page)).to_contain_text("No prompt or answer is stored.")
        page.keyboard.press("Escape")
        expect(dialog(page)).to_have_count(0)
        page.wait_for_timeout(1500)
    finally:
        ended.set()
        for worker in workers:
            worker.join()
    assert sum(counts) > 100, counts
    assert work_of(tools) - before < 0.5 * (time.monotonic() - began)
    newest = entries(hotel)[0]["id"]
    expect(rows(page).first).to_have_attribute("data-id", newest)
    expect(rows(page).locator("[data-column=status]").filter(has_text=re.compile("Pending|Live"))).to_have_count(0)
    ids = rows(page).evaluate_all("all => all.map((row) => row.dataset.id)")
    assert len(ids) == len(set(ids))
    assert len(ids) <= 50


def test_who_only_looks_sees_the_list_and_no_deletion(hotel, viewer_page):
    """operations 55b."""
    open_page(hotel, viewer_page)
    expect(rows(viewer_page)).not_to_have_count(0)
    expect(viewer_page.get_by_role("button", name="Delete")).to_have_count(0)
    viewer_page.get_by_text("More filters").click()
    expect(viewer_page.get_by_role("link", name="Plain list")).to_have_attribute("href", "/requestlogs/requestlog/")


def test_requests_are_deleted_by_age_after_a_question(hotel, page):
    hotel.chat("Alpha/glm-4.6")
    open_page(hotel, page)
    page.get_by_role("button", name="Delete …").click()
    asked = dialog(page)
    expect(asked.get_by_role("button", name="Cancel")).to_be_focused()
    asked.get_by_label("Which").select_option("all")
    asked.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("No requests yet")).to_be_visible()
    assert eventually(lambda: entries(hotel) == [])
