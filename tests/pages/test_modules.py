"""The modules every page shares, asked in a real browser."""

import json
import re

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]
APP = "/static/modelhotel/app"


def ask(page, module, expression):
    """*expression* with the exports of *module* as ``m``."""
    return page.evaluate(f"async () => {{ const m = await import('{APP}/{module}'); return ({expression}); }}")


def test_numbers_times_and_amounts_are_written_as_the_dashboard_writes_them(hotel, page):
    """operations 1: from 10,000 on shortened, durations in ms, s and m; a dash for what is not known."""
    page.goto(f"{hotel.url}/settings/")
    wanted = {
        "m.number(9999)": "9,999",
        "m.number(12345)": "12.3K",
        "m.number(999999)": "1M",
        "m.number(4500000)": "4.5M",
        "m.number(null)": "–",
        "m.exact(12345)": "12,345",
        "m.duration(0.42)": "0.4 ms",
        "m.duration(999)": "999 ms",
        "m.duration(1000)": "1.0 s",
        "m.duration(59949)": "59.9 s",
        "m.duration(59960)": "1m 00s",
        "m.duration(65000)": "1m 05s",
        "m.duration(7380000)": "2h 03m",
        "m.duration(undefined)": "–",
        "m.money(0)": "$0",
        "m.money(0.00421)": "$0.0042",
        "m.money(12.345)": "$12.35",
        "m.bytes(1536)": "1.5 KB",
        "m.bytes(1048575)": "1 MB",
        "m.percent(0.3341)": "33.4 %",
        "m.age(new Date(Date.now() - 185000).toISOString())": "3 min ago",
        "m.age(new Date(Date.now() + 125000).toISOString())": "in 2 min",
        "m.age(null)": "–",
        "m.instant('nonsense')": "–",
    }
    found = {expression: ask(page, "format.js", expression) for expression in wanted}
    assert found == wanted


def test_the_stream_is_read_whatever_the_chunks_are(hotel, page):
    page.goto(f"{hotel.url}/settings/")
    text = ': connected\n\nid: 7\r\ndata: {"a":\r\ndata: 1}\r\n\r\n: dropped 3\n\nid: 8\ndata: {"b":2}\n\n'
    script = """(() => {
      const seen = [];
      const feed = m.reader({ event: (data, id) => seen.push([id, JSON.parse(data)]), comment: (t) => seen.push(t) });
      for (let at = 0; at < text.length; at += size) feed(text.slice(at, at + size));
      return seen;
    })()"""
    for size in (1, 3, 1000):
        expression = script.replace("size", str(size)).replace("text", json.dumps(text))
        assert ask(page, "live.js", expression) == ["connected", ["7", {"a": 1}], "dropped 3", ["8", {"b": 2}]]


def test_addresses_and_elements_take_any_text_as_text(hotel, page):
    page.goto(f"{hotel.url}/settings/")
    expression = "m.query({ a: 'x y', b: '', c: null, d: 0, e: ['1', '2'] })"
    assert ask(page, "api.js", expression) == "?a=x+y&d=0&e=1&e=2"
    markup = "<img src=x onerror=alert(1)>"
    made = ask(page, "ui.js", f"m.h('p', {{ title: '{markup}', hidden: false }}, '{markup}', null, ['b']).outerHTML")
    assert made.startswith("<p title=") and "&lt;img" in made and made.endswith("b</p>") and "hidden" not in made
    assert ask(page, "ui.js", "(m.writeAddress({ q: 'a b', page: '' }), m.readAddress())") == {"q": "a b"}
    page.go_back()
    assert "q=" not in page.url
    assert ask(page, "ui.js", "m.recall('never-kept', 5)") == 5
    assert ask(page, "ui.js", "(m.remember('kept', { a: 1 }), m.recall('kept'))") == {"a": 1}


def test_a_write_carries_the_csrf_token_and_json(hotel, page):
    page.goto(f"{hotel.url}/settings/")
    page.route("**/api/settings", lambda route: route.fulfill(status=200, json={"path": route.request.method}))
    assert ask(page, "api.js", "await m.api('GET', '/api/settings')") == {"path": "GET"}
    sent = []
    page.on("request", lambda request: sent.append(request) if "/api/settings" in request.url else None)
    ask(page, "api.js", "await m.api('PUT', '/api/settings', { a: 1 })")
    assert re.fullmatch(r"\w{32,64}", sent[0].headers["x-csrf-token"])
    assert sent[0].post_data == '{"a":1}'


def test_toasts_are_not_repeated_and_four_at_most_are_on_screen(hotel, timed_page):
    page = timed_page
    page.goto(f"{hotel.url}/settings/")
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)
    ask(page, "toast.js", "[1, 1, 2, 3, 4, 5, 6].forEach((n) => m.toast(`Message ${n}`, 'error'))")
    toasts = page.locator(".mh-toast")
    expect(toasts).to_have_count(4)
    expect(page.get_by_text("Message 1")).to_have_count(1)
    page.clock.run_for(6500)
    expect(toasts).to_have_text([re.compile("Message 5"), re.compile("Message 6")])
    ask(page, "toast.js", "m.toast('Message 1')")
    expect(page.get_by_text("Message 1")).to_be_visible()
    page.get_by_role("button", name="Dismiss").last.click()
    expect(page.get_by_text("Message 1")).to_have_count(0)
    page.clock.run_for(10_000)
    ask(page, "toast.js", "Array.from({ length: 200 }, (_, n) => m.toast(`Flood ${n}`))")
    expect(toasts).to_have_count(4)
    page.mouse.move(5, 5)  # one under the pointer stays
    for _ in range(6):
        page.clock.run_for(4100)
    expect(toasts).to_have_text([re.compile(r"17\d more messages were not shown")])
    page.clock.run_for(4100)
    expect(toasts).to_have_count(0)


def test_escape_closes_the_topmost_dialog_only_and_focus_returns(hotel, page):
    """operations 60"""
    page.goto(f"{hotel.url}/settings/")
    page.locator("#id_key_cache_ttl").focus()
    page.evaluate(
        f"""async () => {{
          const {{ confirm }} = await import('{APP}/dialog.js');
          window.answers = [];
          confirm({{ title: 'Delete Alpha?', affects: ['3 failover groups'] }}).then((yes) => answers.push(yes));
          confirm({{ title: 'Restore?', action: 'Restore', word: 'RESET' }}).then((yes) => answers.push(yes));
        }}"""
    )
    lower, upper = page.get_by_role("dialog", name="Delete Alpha?"), page.get_by_role("dialog", name="Restore?")
    expect(upper.get_by_role("button", name="Restore")).to_be_disabled()
    page.mouse.click(5, 5)
    expect(upper).to_be_visible()
    upper.get_by_label("Type RESET to go on").fill("RESET")
    expect(upper.get_by_role("button", name="Restore")).to_be_enabled()
    page.keyboard.press("Escape")
    expect(upper).to_have_count(0)
    expect(lower).to_be_visible()
    expect(lower.get_by_text("3 failover groups")).to_be_visible()
    assert page.evaluate("answers") == [False]
    lower.get_by_role("button", name="Delete").click()
    expect(lower).to_have_count(0)
    assert page.evaluate("answers") == [False, True]
    expect(page.locator("#id_key_cache_ttl")).to_be_focused()


def test_the_server_s_clock_is_compared_with_the_moment_its_page_arrived(hotel, page):
    """However long the scripts took: a countdown that starts late would end late."""
    page.goto(f"{hotel.url}/failover/")
    script = f"""async () => {{
        const m = await import('{APP}/ui.js');
        await new Promise((done) => setTimeout(done, 1000));
        const sent = JSON.parse(document.getElementById('board-data').textContent).now;
        const [load] = performance.getEntriesByType('navigation');
        return [m.ahead(sent), load.responseStart - load.requestStart];
      }}"""
    found, waited = page.evaluate(script)
    assert -waited - 500 <= found <= 500


def test_an_attempt_says_only_what_its_row_does_not_say_already(hotel, page):
    """operations 61b"""
    page.goto(f"{hotel.url}/settings/")
    attempts = [
        {"detail": "upstream returned status 503", "status": 503, "error_kind": "provider_error"},
        {"detail": "provider_saturated", "status": 429, "error_kind": "provider_saturated"},
        {"detail": "HTTP 500: request failed", "status": 500, "error_kind": "provider_error"},
        {"detail": "circuit breaker open", "breaker": "skipped", "attempt": -1},
        {"detail": "out of memory on GPU 3", "status": 500, "error_kind": "provider_error"},
    ]
    row = {"attempts": [{"attempt": at, "provider": "A", **one} for at, one in enumerate(attempts)]}
    expression = (
        f"[...m.chain({json.dumps(row)}).querySelectorAll('li')].map((li) => li.querySelector('code')?.textContent)"
    )
    assert ask(page, "logs/attempts.js", expression) == [None, None, None, None, "out of memory on GPU 3"]
