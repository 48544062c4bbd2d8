"""The gates of v1-api 2 that ask whether it is too much, through the application, on a real clock.

Rates are so low that a slow machine does not refill what a test has spent.
"""

import asyncio
import logging
import threading
import time
from datetime import UTC, datetime

import pytest

from modelhotel import settings_verbs
from modelhotel.core import events, options
from modelhotel.core.actor import ADMIN
from proxy import keys, serving, verbs
from proxy.endpoints import ENDPOINTS
from proxy.limits.gate import LIMITER
from proxy.metering import METER
from requestlogs.models import RequestLog
from tests.pace import slower
from tests.proxy import world
from tests.proxy.asgi import call, chat, client, embed, run
from tests.upstream.server import answer as upstream_answer
from tests.upstream.server import stall_after

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
BODY = {"model": "P/m", "messages": [{"role": "user", "content": "hi"}]}
SLOW = {"rate_limit_rps": 0.001, "rate_limit_burst": 1}
RATE, USER_RATE = (429, "rate limit exceeded"), (429, "user rate limit exceeded")
TPM, USER_TPM = (429, "token rate limit exceeded"), (429, "user token rate limit exceeded")


@pytest.fixture(autouse=True)
def limited(monkeypatch):
    """The limiter is on, as in a product that nobody has configured."""
    monkeypatch.setattr(options, "environ", {**options.environ, "RATE_LIMIT_ENABLED": "true"})
    world.model(world.provider("P"), "m")
    world.ready()


@pytest.fixture
def served(monkeypatch):
    """The exchanges that got through every gate; each is answered "ok"."""
    seen = []

    async def answer(exchange):
        seen.append(exchange)
        exchange.draft.status_code = 200
        await exchange.answer(200, b'{"ok":true}')

    monkeypatch.setattr(serving, "run", answer)
    return seen


def settings(**values):
    settings_verbs.update(values, ADMIN)


def numbers(answer):
    """Limit, remaining, burst and scope as the client sees them."""
    return tuple(answer.header(f"x-ratelimit-{name}") for name in ("limit", "remaining", "burst", "scope"))


def key_id(name="app"):
    return str(world.stored(name).pk)


def owned(**limits):
    """A key without a rate of its own whose owner has *limits*."""
    owner = world.user("ann", **limits)
    return world.key(owner_user_id=str(owner.pk), rate_limit_rps=0), owner


# -- addresses


def test_a_throttled_address_hears_that_before_its_key_is_looked_at(served):
    """v1-api 6"""
    settings(rate_limit_ip_rps="0.001", rate_limit_ip_burst="1")
    first = chat("wrong", BODY)
    assert first.said == (401, "invalid virtual key")
    assert numbers(first) == ("0.001", "0", "1", "ip")
    second = chat("wrong", BODY)
    assert second.said == RATE
    assert (second.error["type"], second.error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert numbers(second) == ("0.001", "0", "1", "ip")
    assert second.header("connection") is None and 990 <= int(second.header("retry-after")) <= 1001
    assert world.rows() == []
    assert chat("wrong", BODY, peer="192.0.2.8").said == (401, "invalid virtual key")


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/nothing"), ("GET", CHAT), ("POST", MODELS)])
def test_every_path_counts_against_the_address(method, path):
    settings(rate_limit_ip_rps="0.001", rate_limit_ip_burst="1")
    assert call(method, path).status in (404, 405)
    assert call(method, path).said == RATE


def test_a_preflight_counts_for_nothing():
    settings(rate_limit_ip_rps="0.001", rate_limit_ip_burst="1")
    for _ in range(3):
        assert call("OPTIONS", MODELS, headers=[("origin", "http://localhost:5173")]).status == 204
    assert call("OPTIONS", MODELS).status == 405
    assert call("OPTIONS", MODELS).said == RATE


def test_the_address_is_that_of_the_client_behind_a_trusted_proxy(monkeypatch, served):
    """part of operations 74"""
    import dataclasses

    from modelhotel.core import environment
    from proxy import call as calls

    env = environment.read({**environment.current().raw, "TRUSTED_PROXIES": "10.0.0.0/8"})
    monkeypatch.setattr(calls, "_environment", lambda: dataclasses.replace(env))
    settings(rate_limit_ip_rps="0.001", rate_limit_ip_burst="1")
    plain = world.key()

    def ask(peer, forwarded):
        return chat(plain, BODY, peer=peer, headers=[("x-forwarded-for", forwarded)]).status

    assert [ask("10.1.1.1", "203.0.113.1"), ask("10.1.1.1", "203.0.113.1")] == [200, 429]
    assert ask("10.2.2.2", "203.0.113.1") == 429
    assert ask("10.1.1.1", "203.0.113.2") == 200
    assert [ask("198.51.100.1", "203.0.113.9"), ask("198.51.100.1", "203.0.113.8")] == [200, 429]


@pytest.mark.parametrize("path", sorted(path for path, one in ENDPOINTS.items() if one.dialect != "messages"))
def test_every_refusal_has_the_four_members_of_openai(path, served, monkeypatch):
    """v1-api 44a"""
    plain, broke = world.key(rate_limit_rps=0), world.key("broke", budget_usd=1.0, budget_period="month")
    slow, starved = world.key("slow", **SLOW), world.key("starved", rate_limit_rps=0, rate_limit_tpm=1)
    monkeypatch.setattr(LIMITER.budgets, "sum", lambda kind, ident, start: dollars(2.0))
    body = {**BODY, "input": "hi", "query": "q", "documents": ["d"], "prompt": "p", "voice": "v"}
    nobody = {"json": {**body, "model": "hotel/nobody"}}
    if ENDPOINTS[path].parse_form is not None:
        form = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nhotel/nobody\r\n--b--\r\n'
        nobody = {"body": form, "headers": [("content-type", "multipart/form-data; boundary=b")]}
    call("POST", path, key=slow, json=body)
    LIMITER.debit(keys.SNAPSHOT.current.by_hash[keys.hash_of(starved.encode())], 5)
    wanted = [
        (call("POST", path, json=body), 401, "invalid_api_key"),
        (call("POST", path, key="sk-wrong", json=body), 401, "invalid_api_key"),
        (call("POST", path, key=slow, json=body), 429, "rate_limit_exceeded"),
        (call("POST", path, key=starved, json=body), 429, "rate_limit_exceeded"),
        (call("POST", path, key=broke, json=body), 429, "insufficient_quota"),
        (call("POST", path, key=plain, body=b"{"), 400, "invalid_request_body"),
        (call("POST", path, key=plain, **nobody), 404, "model_not_found"),
        (call("GET", path, key=plain), 405, None),
    ]
    for answer, status, code in wanted:
        error = answer.error  # fails on any other shape
        assert (answer.status, error["code"] if code else None) == (status, code)
        assert all(value is None or isinstance(value, str) for value in error.values())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_refusals_under_messages_have_anthropics_shape(path, served):
    """part of v1-api 51"""
    settings(rate_limit_ip_rps="0.001", rate_limit_ip_burst="1")
    plain = world.key(**SLOW)

    def ask(peer):
        return call("POST", path, key=plain, json={**BODY, "max_tokens": 5}, peer=peer)

    ask("192.0.2.1")
    for peer in ("192.0.2.1", "192.0.2.2"):
        refused = ask(peer)
        error = {"type": "rate_limit_error", "message": "rate limit exceeded"}
        assert (refused.status, refused.json) == (429, {"type": "error", "error": error})
        assert refused.header("retry-after") and numbers(refused) == ("0.001", "0", "1", "ip")


# -- request rates of keys and accounts


def test_a_key_over_its_rate_is_refused_with_the_numbers_of_its_bucket(served):
    """v1-api 30"""
    plain = world.key(rate_limit_rps=1, rate_limit_burst=1)

    async def both():
        return await asyncio.gather(*(client("POST", CHAT, key=plain, json=BODY).run() for _ in range(2)))

    first, second = run(both())
    assert (first.status, second.said) == (200, RATE)
    assert numbers(first) == ("1", "0", "1", "ip")
    assert numbers(second) == ("1", "0", "1", "ip")
    assert second.header("retry-after") in ("1", "2")
    assert first.header("retry-after") is None
    assert len(world.rows()) == 1


def test_a_short_wait_is_waited_out(served):
    """v1-api 31"""
    plain = world.key(rate_limit_rps=10, rate_limit_burst=1)

    async def both():
        answers = await asyncio.gather(*(client("POST", CHAT, key=plain, json=BODY).run() for _ in range(2)))
        return [answer.status for answer in answers], time.monotonic()

    statuses, ended = run(both())
    assert statuses == [200, 200]
    assert 0.1 <= ended - min(exchange.draft.arrival for exchange in served) < 1 * slower()


def test_nothing_is_held_where_nobody_may_wait(served):
    settings(rate_limit_max_wait_ms="0")
    plain = world.key(rate_limit_rps=10, rate_limit_burst=1)

    async def both():
        return await asyncio.gather(*(client("POST", CHAT, key=plain, json=BODY).run() for _ in range(2)))

    assert [answer.status for answer in run(both())] == [200, 429]


def test_the_accounts_bucket_is_one_for_all_its_keys_and_refuses_without_a_token_of_the_key(served):
    """v1-api 32"""
    owner = world.user("ann", **SLOW)
    one, other = (world.key(n, owner_user_id=str(owner.pk), rate_limit_rps=1, rate_limit_burst=5) for n in ("a", "b"))
    assert chat(one, BODY).status == 200
    refused = chat(other, BODY)
    assert refused.said == USER_RATE
    assert numbers(refused)[:3] == ("0.001", "0", "1")
    world.user("bob")
    type(owner).objects.update(rate_limit_rps=None)
    world.ready()
    # Full as on the first day: the refusal cost nothing.
    assert numbers(chat(other, BODY))[:3] == ("1", "4", "5")


def test_the_longer_wait_decides_which_bucket_is_named(served):
    owner = world.user("ann", rate_limit_rps=0.01, rate_limit_burst=1)
    plain = world.key(owner_user_id=str(owner.pk), **SLOW)
    assert chat(plain, BODY).status == 200
    assert chat(plain, BODY).said == RATE
    verbs.update(key_id(), {"rate_limit_rps": 0.1}, ADMIN)
    assert chat(plain, BODY).said == USER_RATE


def test_refusals_cost_nothing(served):
    """v1-api 33"""
    settings(rate_limit_max_wait_ms="0")
    plain = world.key(rate_limit_rps=2, rate_limit_burst=1)
    assert chat(plain, BODY).status == 200
    assert {chat(plain, BODY).status for _ in range(10)} == {429}
    run(asyncio.sleep(0.5))
    assert chat(plain, BODY).status == 200


def test_a_raised_burst_does_not_refill_a_drained_bucket(served):
    """v1-api 34"""
    plain = world.key(rate_limit_rps=0.001, rate_limit_burst=2)
    assert [chat(plain, BODY).status for _ in range(3)] == [200, 200, 429]
    verbs.update(key_id(), {"rate_limit_burst": 500}, ADMIN)
    refused = chat(plain, BODY)
    assert refused.said == RATE and numbers(refused)[:3] == ("0.001", "0", "500")
    verbs.update(key_id(), {"rate_limit_rps": 1000}, ADMIN)
    assert chat(plain, BODY).status == 200


def test_a_key_that_is_not_valid_json_but_over_its_rate_is_over_its_rate(served):
    plain = world.key(**SLOW)
    assert chat(plain, b"{").said[0] == 400
    assert chat(plain, b"{").said == RATE


def test_settings_bind_the_next_request_and_spare_keys_of_their_own(served):
    """settings 27"""
    settings(rate_limit_rps="0.001", rate_limit_burst="1")
    plain, own = world.key("a"), world.key("b", rate_limit_rps=0.001, rate_limit_burst=1)
    assert [chat(plain, BODY).status, chat(plain, BODY).status] == [200, 429]
    settings(rate_limit_rps="0")
    assert numbers(chat(plain, BODY)) == ("1000000", "1000000", "1000000", "ip")
    assert [chat(own, BODY).status, chat(own, BODY).status] == [200, 429]


def test_a_limiter_switched_on_again_starts_fresh(served):
    """settings 59"""
    plain = world.key(**SLOW)
    assert [chat(plain, BODY).status, chat(plain, BODY).status] == [200, 429]
    settings(rate_limit_enabled="false")
    settings(rate_limit_enabled="true")
    assert [chat(plain, BODY).status, chat(plain, BODY).status] == [200, 429]
    settings(rate_limit_ip_rps="0.001", rate_limit_ip_burst="1")
    run(asyncio.sleep(0))
    for _ in range(2):
        chat(plain, BODY)
    settings(rate_limit_ip_enabled="false")
    settings(rate_limit_ip_enabled="true", rate_limit_enabled="false")
    assert chat(plain, BODY).status == 200
    assert chat(plain, BODY).said == RATE


def test_with_the_switch_off_nothing_is_limited_and_nothing_told(monkeypatch, served):
    """settings 28, part of v1-api 42"""
    monkeypatch.setattr(options, "environ", {**options.environ, "RATE_LIMIT_ENABLED": "false"})
    settings(rate_limit_enabled="true", rate_limit_ip_rps="0.001", rate_limit_ip_burst="1", rate_limit_tpm="1")
    plain = world.key(**SLOW)
    for _ in range(3):
        answer = chat(plain, BODY)
        assert answer.status == 200 and numbers(answer) == (None, None, None, None)
    forced = {row["key"]: row for row in settings_verbs.catalogue()}
    for name in ("rate_limit_enabled", "rate_limit_ip_enabled"):
        assert (forced[name]["effective"], forced[name]["forced_by"]) == ("false", "RATE_LIMIT_ENABLED")


def test_the_settings_switch_each_limiter_off(served):
    """settings 29"""
    plain = world.key(**SLOW)
    settings(rate_limit_enabled="false", rate_limit_tpm="1")
    answers = [chat(plain, BODY) for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3
    assert numbers(answers[0])[::3] == ("30", "ip")
    settings(rate_limit_enabled="true", rate_limit_ip_enabled="false")
    assert numbers(chat(plain, BODY)) == ("0.001", "0", "1", None)
    settings(rate_limit_enabled="false")
    assert numbers(chat(plain, BODY)) == (None, None, None, None)


def test_a_client_that_leaves_while_it_is_held_gets_its_token_back(served):
    plain = world.key(rate_limit_rps=0.4, rate_limit_burst=1)
    settings(rate_limit_max_wait_ms="10000")

    async def leave():
        assert (await client("POST", CHAT, key=plain, json=BODY).run()).status == 200
        held = client("POST", CHAT, key=plain, json=BODY)
        task = asyncio.ensure_future(held.run())
        await asyncio.sleep(0.05)
        bucket = next(live.bucket for name, live in LIMITER.buckets._live.items() if name.startswith("key:"))
        assert bucket.tokens < 0
        held.left.set()
        answer = await task
        assert answer.status == 0 and bucket.tokens >= 0
        cancelled = asyncio.ensure_future(client("POST", CHAT, key=plain, json=BODY).run())
        await asyncio.sleep(0.05)
        assert bucket.tokens < 0
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert cancelled.cancelled() and bucket.tokens >= 0

    run(leave())
    assert len(served) == 1 and len(world.rows()) == 1


def test_throttling_is_told_once_per_episode(caplog, served):
    plain = world.key(rate_limit_rps=5, rate_limit_burst=1)
    settings(rate_limit_max_wait_ms="0")
    with caplog.at_level(logging.INFO, "limits"):
        statuses = [chat(plain, BODY).status for _ in range(3)]
        assert statuses == [200, 429, 429]
        run(asyncio.sleep(0.25))
        assert [chat(plain, BODY).status, chat(plain, BODY).status] == [200, 429]
    said = [(record.levelname, record.message, record.attrs) for record in caplog.records]
    who = {"limit": "requests", "key": "app"}
    assert said == [
        ("WARNING", "limits: throttling", who),
        ("INFO", "limits: throttling ended", {**who, "refused": 2, "duration": "1s"}),
        ("WARNING", "limits: throttling", who),
    ]
    caplog.clear()
    with caplog.at_level(logging.INFO, "limits"):
        bucket = next(live.bucket for name, live in LIMITER.buckets._live.items() if name.startswith("key:"))
        LIMITER.buckets.sweep(bucket.at + 599)
        assert caplog.messages == []
        LIMITER.buckets.sweep(bucket.at + 601)
    assert caplog.messages == ["limits: throttling ended"] and len(LIMITER.buckets) == 0


def test_a_debt_outlives_the_sweep_and_so_does_who_is_served(served):
    plain = world.key(rate_limit_rps=0.0001, rate_limit_burst=1)
    assert chat(plain, BODY).status == 200
    bucket = next(live.bucket for name, live in LIMITER.buckets._live.items() if name.startswith("key:"))
    LIMITER.buckets.sweep(bucket.at + 700)
    assert chat(plain, BODY).said == RATE


def test_thousands_of_addresses_do_not_stay(monkeypatch, served):
    from proxy.limits import buckets

    monkeypatch.setattr(buckets, "MANY", 50)
    monkeypatch.setattr(buckets, "_CROWDED_EVERY", 0.0)
    settings(rate_limit_ip_rps="10000")

    async def many():
        for number in range(300):
            await client("GET", MODELS, peer=f"203.0.113.{number}").run()

    run(many())
    assert len(LIMITER.buckets) < 60


# -- tokens per minute


def test_tokens_are_debited_in_full_and_the_debt_blocks(provider_a):
    """v1-api 35"""
    world.model(world.provider("A", provider_a.url), "m")
    provider_a.script(upstream_answer("from A", usage={"prompt_tokens": 400, "completion_tokens": 600}))
    plain = world.key(rate_limit_tpm=100)
    world.ready()
    body = {**BODY, "model": "A/m"}
    assert chat(plain, body).status == 200
    refused = chat(plain, body)
    assert refused.said == TPM and refused.error["code"] == "rate_limit_exceeded"
    assert int(refused.header("retry-after")) in range(535, 543)
    assert numbers(refused) == ("10", "18", "20", "ip"), "the request rate had let it through"
    assert len(provider_a.calls) == 1


def test_a_key_over_its_tokens_may_not_list_models_either(served):
    """v1-api 36"""
    plain = world.key(rate_limit_tpm=60)
    assert call("GET", MODELS, key=plain).status == 200
    row = next(iter(LIMITER._known.values())).row
    run(_debit(row, 600))
    assert call("GET", MODELS, key=plain).said == TPM
    assert chat(plain, BODY).said == TPM
    assert world.rows() == []


async def _debit(row, tokens):
    LIMITER.debit(row, tokens)


def test_a_placeholder_is_free_again_when_the_request_is_over(monkeypatch):
    """Two at once at one token a minute: the second is refused; one after the other both are served."""
    plain, going = world.key(rate_limit_tpm=1), asyncio.Event()

    async def answer(exchange):
        await going.wait()
        exchange.draft.status_code = 200
        await exchange.answer(200, b"{}")

    monkeypatch.setattr(serving, "run", answer)

    async def at_once():
        first = asyncio.ensure_future(client("POST", CHAT, key=plain, json=BODY).run())
        await asyncio.sleep(0.02)
        second = await client("POST", CHAT, key=plain, json=BODY).run()
        going.set()
        return (await first).status, second.said, (await client("POST", CHAT, key=plain, json=BODY).run()).status

    assert run(at_once()) == (200, TPM, 200)
    for _ in range(3):
        assert call("GET", MODELS, key=plain).status == 200


def test_an_account_shares_its_tokens_among_its_keys(served):
    owner = world.user("ann", rate_limit_tpm=100)
    one, other = (world.key(name, owner_user_id=str(owner.pk), rate_limit_tpm=1000) for name in ("a", "b"))
    assert chat(one, BODY).status == 200
    run(_debit(next(iter(LIMITER._known.values())).row, 500))
    assert chat(one, BODY).said == chat(other, BODY).said == USER_TPM
    type(owner).objects.update(rate_limit_tpm=None)
    world.ready()
    assert [chat(one, BODY).status, chat(other, BODY).status] == [200, 200]


def test_the_accounts_placeholder_is_given_back_when_the_key_refuses(served):
    owner = world.user("ann", rate_limit_tpm=2)
    plain = world.key(owner_user_id=str(owner.pk), rate_limit_tpm=1)
    assert chat(plain, BODY).status == 200
    run(_debit(next(iter(LIMITER._known.values())).row, 1))
    for _ in range(3):
        assert chat(plain, BODY).said == TPM
    left = next(live.bucket.tokens for name, live in LIMITER.buckets._live.items() if name.startswith("owner-tokens:"))
    assert left >= 1


def test_the_global_cap_holds_for_keys_without_their_own(served):
    settings(rate_limit_tpm="60")
    plain, own = world.key("a"), world.key("b", rate_limit_tpm=100000)
    assert [chat(plain, BODY).status, chat(own, BODY).status] == [200, 200]
    for known in list(LIMITER._known.values()):
        run(_debit(known.row, 600))
    assert chat(plain, BODY).said == TPM
    assert chat(own, BODY).status == 200


def test_a_changed_cap_keeps_the_debt(served):
    plain = world.key(rate_limit_tpm=60)
    assert chat(plain, BODY).status == 200
    run(_debit(next(iter(LIMITER._known.values())).row, 660))
    verbs.update(key_id(), {"rate_limit_tpm": 600}, ADMIN)
    refused = chat(plain, BODY)
    assert refused.said == TPM and int(refused.header("retry-after")) in range(58, 62)


def test_a_client_that_leaves_a_stream_is_debited_once_what_the_counter_says(provider_a):
    """v1-api 44"""
    world.model(world.provider("A", provider_a.url), "m")
    provider_a.script(stall_after(3))
    plain = world.key(rate_limit_tpm=600)
    world.ready()

    async def leave():
        body = {"model": "A/m", "stream": True, "messages": [{"role": "user", "content": "x" * 40_000}]}
        sender = client("POST", CHAT, key=plain, json=body)
        task = asyncio.create_task(sender.run())
        await sender.until(b"tok2")
        sender.left.set()
        await task
        await provider_a.until(lambda: provider_a.disconnects == 1)

    run(leave())
    assert METER.flush()
    row, charged = world.row(), world.stored().tokens_used
    assert (row.error_kind, row.tokens_prompt, row.tokens_completion) == ("client_disconnect", 0, 0)
    assert charged > 10_000
    left = next(live.bucket.tokens for name, live in LIMITER.buckets._live.items() if name.startswith("tokens:"))
    assert left == pytest.approx(600 - charged, abs=200)


def test_a_thousand_refusals_leave_no_row(served):
    """operations 20"""
    plain = world.key(**SLOW)
    settings(rate_limit_ip_rps="0")

    async def many():
        for key in (plain, "sk-unknown"):
            for _ in range(1000):
                await client("POST", CHAT, key=key, json=BODY).run()

    run(many())
    assert len(world.rows()) == 1


# -- budgets


NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


@pytest.fixture
def clock(monkeypatch):
    """The wall clock of the budgets; the log is written on the real one, so sums are looked up from a table."""

    class Clock:
        moment = NOON
        sums: dict = {}

        def set(self, text):
            self.moment = datetime.fromisoformat(text).replace(tzinfo=UTC)

    found = Clock()
    found.sums = {}
    budgets = LIMITER.budgets
    monkeypatch.setattr(budgets, "now", lambda: found.moment.timestamp())
    monkeypatch.setattr(budgets, "sum", lambda kind, ident, start: found.sums.get((kind, start), 0))
    return found


def spent():
    """Of the only budget there is."""
    (found,) = LIMITER.budgets._spent.values()
    return found


def dollars(amount):
    return round(amount * 10**10)


def month():
    return int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())


def pays(monkeypatch, *costs, at=None):
    """Requests cost *costs*, one after the other, the last one from then on."""
    left = list(costs)

    async def answer(exchange):
        exchange.draft.status_code = 200
        exchange.draft.cost_usd = left.pop(0) if len(left) > 1 else left[0]
        if at is not None:
            exchange.draft.created_at = at()
        await exchange.answer(200, b"{}")

    monkeypatch.setattr(serving, "run", answer)


def test_the_request_that_crosses_the_budget_is_served_and_the_next_is_not(monkeypatch, clock):
    """v1-api 37"""
    plain = world.key(budget_usd=25.0, budget_period="month")
    clock.sums["key", month()] = dollars(24.99)
    pays(monkeypatch, 1.0, at=lambda: clock.moment.timestamp())
    assert chat(plain, BODY).status == 200
    refused = chat(plain, BODY)
    assert refused.said == (429, "key budget exceeded: $25.99 of $25.00 spent this month")
    assert (refused.error["type"], refused.error["code"]) == ("rate_limit_error", "insufficient_quota")
    end = datetime(2026, 12, 1, tzinfo=UTC)
    assert int(refused.header("retry-after")) == (end - NOON).total_seconds()
    assert call("GET", MODELS, key=plain).status == 200
    assert embed(plain, {"model": "P/m", "input": "x"}).status == 429
    assert len(world.rows()) == 1


def test_a_week_ends_on_sunday_night(monkeypatch, clock):
    """v1-api 38"""
    plain = world.key(budget_usd=1.0, budget_period="week")
    clock.set("2026-11-29T23:59:59")
    clock.sums["key", int(datetime(2026, 11, 23, tzinfo=UTC).timestamp())] = dollars(1.0)
    pays(monkeypatch, 0.0)
    refused = chat(plain, BODY)
    assert refused.said == (429, "key budget exceeded: $1.00 of $1.00 spent this week")
    assert refused.header("retry-after") == "1"
    clock.set("2026-11-30T00:00:00")
    assert chat(plain, BODY).status == 200


def test_both_budgets_must_pass_and_the_later_end_is_told(monkeypatch, clock):
    """v1-api 39"""
    owner = world.user("ann", budget_usd=10.0, budget_period="month")
    plain = world.key(owner_user_id=str(owner.pk), budget_usd=5.0, budget_period="day")
    day = int(datetime(2026, 11, 18, tzinfo=UTC).timestamp())
    clock.sums |= {("key", day): dollars(5.0), ("user", month()): dollars(10.5)}
    pays(monkeypatch, 0.0)
    refused = chat(plain, BODY)
    assert refused.said == (429, "key budget exceeded: $5.00 of $5.00 spent this day")
    assert int(refused.header("retry-after")) == (datetime(2026, 12, 1, tzinfo=UTC) - NOON).total_seconds()
    verbs.update(key_id(), {"budget_usd": None}, ADMIN)
    assert chat(plain, BODY).said == (429, "user budget exceeded: $10.50 of $10.00 spent this month")


def test_a_raised_budget_admits_at_once_and_a_lowered_one_refuses(monkeypatch, clock):
    """v1-api 40"""
    plain = world.key(budget_usd=5.0, budget_period="month")
    clock.sums["key", month()] = dollars(6.0)
    pays(monkeypatch, 0.0)
    assert chat(plain, BODY).status == 429
    verbs.update(key_id(), {"budget_usd": 7.0}, ADMIN)
    assert chat(plain, BODY).status == 200
    verbs.update(key_id(), {"budget_usd": 3.0}, ADMIN)
    assert chat(plain, BODY).said[1] == "key budget exceeded: $6.00 of $3.00 spent this month"
    verbs.update(key_id(), {"budget_period": "day"}, ADMIN)
    assert chat(plain, BODY).status == 200, "nothing was spent this day"


def test_budgets_are_no_limiters(monkeypatch, clock):
    """v1-api 42"""
    monkeypatch.setattr(options, "environ", {**options.environ, "RATE_LIMIT_ENABLED": "false"})
    world.ready()
    plain = world.key(budget_usd=5.0, budget_period="month")
    clock.sums["key", month()] = dollars(5.0)
    refused = chat(plain, BODY)
    assert refused.said == (429, "key budget exceeded: $5.00 of $5.00 spent this month")
    assert numbers(refused) == (None, None, None, None)


def test_each_threshold_is_told_once_per_period_and_again_after_an_edit(monkeypatch, clock):
    """v1-api 43"""
    seen = []
    events.subscribe(lambda event: event.source == "budget" and seen.append(event))
    plain = world.key(budget_usd=25.0, budget_period="month")
    pays(monkeypatch, 20.0, 1.0, 5.0, at=lambda: clock.moment.timestamp())
    assert chat(plain, BODY).status == 200
    assert [event.type for event in seen] == ["budget.warning"]
    told = seen[0]
    assert (told.severity, told.message) == ("warning", 'virtual key "app" has spent $20.00 of its $25.00 month budget')
    assert dict(told.metadata) == {
        "subject": "key",
        "id": key_id(),
        "name": "app",
        "spent_usd": 20.0,
        "budget_usd": 25.0,
        "period": "month",
        "period_end": "2026-12-01T00:00:00Z",
    }
    assert [chat(plain, BODY).status for _ in range(4)] == [200, 200, 429, 429]
    assert [event.type for event in seen] == ["budget.warning", "budget.exceeded"]
    assert seen[1].severity == "error" and seen[1].message == (
        'virtual key "app" has spent $26.00 of its $25.00 month budget; requests are refused until 2026-12-01 00:00 UTC'
    )
    verbs.update(key_id(), {"budget_usd": 26.0}, ADMIN)
    assert chat(plain, BODY).status == 429
    assert [event.type for event in seen[2:]] == ["budget.warning", "budget.exceeded"]
    clock.set("2026-12-01T00:00:00")
    assert [chat(plain, BODY).status for _ in range(6)] == [200] * 5 + [200]
    assert [event.type for event in seen[4:]] == ["budget.warning"]


def test_what_was_passed_before_a_restart_is_not_told_again(monkeypatch, clock):
    seen = []
    events.subscribe(lambda event: event.source == "budget" and seen.append(event.type))
    plain = world.key(budget_usd=10.0, budget_period="month")
    clock.sums["key", month()] = dollars(9.0)
    pays(monkeypatch, 2.0, at=lambda: clock.moment.timestamp())
    assert [chat(plain, BODY).status for _ in range(2)] == [200, 429]
    assert seen == ["budget.exceeded"]


def test_a_sum_that_can_not_be_read_admits_for_an_interval_and_says_so(monkeypatch, clock, caplog):
    def broken(*args):
        raise RuntimeError("no database")

    plain = world.key(budget_usd=1.0, budget_period="month")
    pays(monkeypatch, 0.0)
    monkeypatch.setattr(LIMITER.budgets, "sum", broken)
    with caplog.at_level(logging.WARNING, "budget"):
        assert [chat(plain, BODY).status for _ in range(2)] == [200, 200]
    assert caplog.messages == ["budget: sum not read, the cap is not enforced for a minute"]
    monkeypatch.setattr(LIMITER.budgets, "sum", lambda *args: dollars(2.0))
    spent().read_at -= 60

    async def twice():
        assert (await client("POST", CHAT, key=plain, json=BODY).run()).status == 200, "served with the old figure"
        while spent().reading is not None:
            await asyncio.sleep(0.01)
        return (await client("POST", CHAT, key=plain, json=BODY).run()).status

    assert run(twice()) == 429
    monkeypatch.setattr(LIMITER.budgets, "sum", broken)
    spent().read_at -= 60
    assert chat(plain, BODY).status == 429, "a failed reload keeps the last figure"


def test_whoever_is_cut_off_while_the_sum_is_read_keeps_no_placeholder(monkeypatch, clock):
    plain = world.key(rate_limit_tpm=1, budget_usd=10.0, budget_period="month")
    pays(monkeypatch, 0.0)
    asked, going = threading.Event(), threading.Event()

    def slow(*args):
        asked.set()
        going.wait(5)
        return 0

    monkeypatch.setattr(LIMITER.budgets, "sum", slow)

    async def work():
        cut = asyncio.ensure_future(client("POST", CHAT, key=plain, json=BODY).run())
        while not asked.is_set():
            await asyncio.sleep(0.01)
        cut.cancel()
        await asyncio.wait([cut])
        going.set()
        return (await client("POST", CHAT, key=plain, json=BODY).run()).status

    assert run(work()) == 200


def test_a_figure_is_read_again_behind_the_request_and_what_ended_meanwhile_is_in_it(monkeypatch, clock):
    plain = world.key(budget_usd=10.0, budget_period="month")
    pays(monkeypatch, 1.0, at=lambda: clock.moment.timestamp())
    asked, going = threading.Event(), threading.Event()

    def slow(*args):
        asked.set()
        going.wait(5)
        return dollars(5.0)

    async def work():
        assert (await client("POST", CHAT, key=plain, json=BODY).run()).status == 200
        spent().read_at -= 60
        monkeypatch.setattr(LIMITER.budgets, "sum", slow)
        assert (await client("POST", CHAT, key=plain, json=BODY).run()).status == 200
        while not asked.is_set():
            await asyncio.sleep(0.01)
        assert (await client("POST", CHAT, key=plain, json=BODY).run()).status == 200
        going.set()
        while spent().reading is not None:
            await asyncio.sleep(0.01)
        return spent().units

    assert run(work()) == dollars(6.0)


def test_the_sum_is_that_of_the_log_by_key_and_by_the_owner_of_that_time(served):
    """v1-api 41. The key is moved from U to V: what it spent before stays with U."""
    now = datetime.now(UTC)
    u, v = (world.user(name, budget_usd=1.0, budget_period="month") for name in ("u", "v"))
    plain, other = world.key(owner_user_id=str(u.pk)), world.key("other")
    mine = world.stored().pk

    def row(cost, owner, key=mine, state="completed", at=now):
        RequestLog.objects.create(
            request_hash="x", created_at=at, state=state, endpoint_type="chat", model_id="P/m", cost_usd=cost,
            virtual_key_id=key, owner_user_id=owner and owner.pk,
        )  # fmt: skip

    row("0.6", u)
    row("0.5", u, key=world.stored("other").pk)
    row("0.3", None)
    row(None, u)
    row("0.4", u, state="streaming")
    row("9", u, at=now.replace(year=2020))
    assert chat(plain, BODY).said == (429, "user budget exceeded: $1.10 of $1.00 spent this month")
    verbs.update(str(mine), {"owner_user_id": str(v.pk)}, ADMIN)
    assert chat(plain, BODY).status == 200
    verbs.update(str(mine), {"budget_usd": 0.9, "budget_period": "month"}, ADMIN)
    assert chat(plain, BODY).said == (429, "key budget exceeded: $0.90 of $0.90 spent this month")
    assert chat(other, BODY).status == 200
