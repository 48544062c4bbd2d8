"""/p/{provider}/{endpoint} through the application: gates, header rules, repeats, streams, metering (v1-api 21)."""

import asyncio
import dataclasses
import json
import logging

import pytest

from modelhotel import settings_verbs
from modelhotel.core import environment, options
from modelhotel.core.actor import ADMIN
from proxy import call as calls
from proxy import walk
from proxy.limits.gate import LIMITER
from proxy.metering import METER
from tests.proxy import world
from tests.proxy.asgi import BREAK, call, client, run
from tests.upstream.server import answer, cut_after, events, raw, redirect, reset, silence, stall_after, status, stream

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

SECRET = "sk-provider-0123456789abcdef"
FAILED = (502, "provider request failed")


@pytest.fixture
def fake(provider_a):
    """The provider "Open AI" of type openai."""
    world.provider("Open AI", provider_a.url, SECRET, provider_type="openai")
    provider_a.route("GET", "/v1/files", status(200, {"object": "list", "data": []}))
    provider_a.route("POST", "/v1/files", status(200, {"id": "file-1"}))
    return provider_a


@pytest.fixture
def key(fake):
    plain = world.key()
    world.ready()
    return plain


@pytest.fixture(autouse=True)
def switched_on(monkeypatch):
    configure(monkeypatch)


def configure(monkeypatch, **values):
    changed = dataclasses.replace(environment.current(), **{"enable_passthrough_routes": True, **values})
    monkeypatch.setattr(calls, "_environment", lambda: changed)


def waits(monkeypatch, then=lambda count: None):
    """No wait takes time; *then* is told of each, counted from 1."""
    taken = []

    async def sleep(seconds):
        taken.append(seconds)
        then(len(taken))

    monkeypatch.setattr(walk, "TOOLS", dataclasses.replace(walk.TOOLS, sleep=sleep))
    return taken


def tokens():
    assert METER.flush()
    return world.stored().tokens_used


def test_a_call_reaches_the_provider_with_its_key_and_comes_back_as_it_is(fake, key):
    fake.route("POST", "/v1/files/a/b", status(201, b"\x00raw", headers={"X-Own": "1", "Set-Cookie": "a=b"}))
    one = client("POST", "/p/Open-AI/v1/files/a b", key=key, body=[b"half ", b"whole"], headers=[("X-Mine", "2")])
    one.scope["raw_path"], one.scope["query_string"] = b"/p/Open-AI/v1/files/a%2Fb", b"limit=3&after=%20"
    found = run(one.run())
    assert (found.status, found.body, found.header("x-own")) == (201, b"\x00raw", "1")
    assert found.header("set-cookie") is None and found.header("x-frame-options") == "DENY"
    asked = fake.requests[-1]
    assert (asked.method, asked.target) == ("POST", "/v1/files/a%2Fb?limit=3&after=%20")
    assert (asked.body, asked.headers["x-mine"]) == (b"half whole", "2")
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    assert asked.headers["x-request-id"] == found.header("x-request-id")
    assert key not in repr(asked)
    assert world.rows() == []


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_is_passed_on(fake, key, method):
    fake.route(method, "/v1/things/1", status(200, {"method": method}))
    assert call(method, "/p/openai/things/1", key=key).json == {"method": method}


def test_a_head_has_the_headers_and_no_body(fake, key):
    fake.route("HEAD", "/v1/files/1", raw(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX-Own: 1\r\n\r\n"))
    found = call("HEAD", "/p/openai/files/1", key=key)
    assert (found.status, found.body, found.header("content-length")) == (200, b"", "12")
    assert found.complete and found.header("x-own") == "1"


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PURGE"])
def test_another_method_is_told_which_there_are(fake, key, method):
    found = call(method, "/p/openai/files", key=key)
    assert found.said == (405, "method not allowed")
    assert found.header("allow") == "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
    assert fake.requests == []


def test_a_preflight_meets_no_gate_and_no_provider(fake, key):
    found = call("OPTIONS", "/p/openai/files", headers=[("Origin", "http://localhost:5173")])
    assert (found.status, found.header("access-control-allow-origin")) == (204, "http://localhost:5173")
    assert fake.requests == []


def test_the_gates_are_those_of_v1(fake, key, monkeypatch):
    assert call("GET", "/p/openai/files").status == 401
    assert call("GET", "/p/openai/files", key="sk-wrong").said == (401, "invalid virtual key")
    # The first refusal wins: nothing is told of providers to who shows no key.
    assert call("GET", "/p/nobody").status == 401
    monkeypatch.setattr(options, "environ", {**options.environ, "RATE_LIMIT_ENABLED": "true"})
    monkeypatch.setattr(LIMITER.budgets, "sum", lambda kind, ident, start: 2 * 10**10)
    slow = world.key("slow", rate_limit_rps=0.001, rate_limit_burst=1)
    broke = world.key("broke", budget_usd=1.0, budget_period="day")
    few = world.key("few", rate_limit_tpm=1)
    world.ready()
    assert [call("GET", "/p/openai/files", key=slow).status for _ in range(2)] == [200, 429]
    assert call("GET", "/p/openai/files", key=broke).status == 200
    assert call("POST", "/p/openai/files", key=broke).error["code"] == "insufficient_quota"
    fake.route("POST", "/v1/chat/completions", answer("hi", usage={"prompt_tokens": 9, "completion_tokens": 1}))
    assert [call("POST", "/p/openai/chat/completions", key=few).status for _ in range(2)] == [200, 429]
    assert [r.path for r in fake.requests].count("/v1/files") == 2


def test_a_key_reaches_the_providers_of_its_list_only(fake, provider_b):
    allowed = world.provider("Other", provider_b.url, provider_type="openai")
    narrow = world.key("narrow", allowed_providers=[str(allowed.pk)])
    world.ready()
    other = (403, "virtual key does not have access to this provider")
    assert call("GET", "/p/Open-AI/files", key=narrow).said == other
    assert call("GET", "/p/Other/models", key=narrow).status == 200
    assert fake.requests == []


@pytest.mark.parametrize(
    ("path", "env", "said"),
    [
        ("/p/openai", {}, "provider passthrough endpoint is required"),
        ("/p/openai/v1/", {}, "provider passthrough endpoint is required"),
        (
            "/p/google/x",
            {"enabled_passthrough_providers": ("openai", "anthropic")},
            'provider passthrough for "google" is not enabled; currently enabled providers: anthropic, openai',
        ),
        (
            "/p/Open-AI/x",
            {"enabled_passthrough_providers": ("anthropic",)},
            'provider passthrough for "openai" is not enabled; currently enabled providers: anthropic',
        ),
        (
            "/p/openai/x",
            {"enabled_passthrough_providers": ("nonsense",)},
            "provider passthrough is not enabled for any providers",
        ),
        (
            "/p/openai/v1/x",
            {"allow_passthrough_v1_alias": False},
            "provider passthrough v1 alias is disabled; use /p/{provider}/... without the v1 prefix",
        ),
    ],
)
def test_what_can_not_be_called_is_told_and_nobody_is_asked(fake, key, monkeypatch, path, env, said):
    world.provider("Gemini", fake.url, provider_type="google")
    world.ready()
    configure(monkeypatch, **env)
    assert call("GET", path, key=key).said == (400, said)
    assert fake.requests == []


def test_a_post_is_repeated_while_nothing_of_it_was_written(fake, key, monkeypatch):
    """v1-api 93a: refused twice, then accepted."""
    taken = waits(monkeypatch, then=lambda count: count == 2 and fake.listen())
    fake.refuse()
    assert call("POST", "/p/openai/files", key=key, body=b"x").json == {"id": "file-1"}
    assert len(taken) == 2 and 0.1 <= taken[0] < 0.2 <= taken[1] < 0.3
    fake.refuse()
    assert call("POST", "/p/openai/files", key=key, body=b"x").said == FAILED
    assert len(taken) == 4


@pytest.mark.parametrize(("method", "tries"), [("POST", 1), ("DELETE", 1), ("GET", 3), ("OPTIONS", 3)])
def test_after_it_was_written_only_a_harmless_call_is_repeated(fake, key, monkeypatch, method, tries):
    """v1-api 93a: reset after the request was written."""
    waits(monkeypatch)
    fake.route(method, "/v1/jobs", reset())
    found = call(method, "/p/openai/jobs", key=key, body=b"x" if method == "POST" else b"")
    assert found.said == FAILED and found.error["code"] == "provider_error"
    assert len([r for r in fake.requests if r.path == "/v1/jobs"]) == tries


@pytest.mark.parametrize("code", [302, 400, 404, 429, 500, 503])
def test_an_answer_ends_it_whatever_its_status(fake, key, monkeypatch, code):
    taken = waits(monkeypatch)
    fake.route("GET", "/v1/jobs", status(code, {"error": {"message": "theirs"}}, headers={"Retry-After": "9"}))
    found = call("GET", "/p/openai/jobs", key=key)
    assert (found.status, found.json) == (code, {"error": {"message": "theirs"}})
    assert found.header("retry-after") == "9"
    assert taken == [] and len(fake.requests) == 1


def test_a_redirect_is_the_clients_to_follow(fake, key, provider_b):
    fake.route("GET", "/v1/jobs", redirect(f"{provider_b.url}/files"))
    found = call("GET", "/p/openai/jobs", key=key)
    assert (found.status, found.header("location")) == (302, f"{provider_b.url}/files")
    assert provider_b.requests == []


def test_a_provider_that_stays_silent_is_given_up(fake, key):
    """Its own time is over before the header timeout, which no setting shortens below two minutes."""
    fake.route("GET", "/v1/slow", silence())
    settings_verbs.update({"request_timeout": "100ms"}, ADMIN)
    assert call("GET", "/p/openai/slow", key=key).said == (504, "provider request timed out")


def test_a_stream_is_passed_on_while_it_arrives_and_its_tokens_are_counted(fake, key):
    usage = {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}
    fake.route("POST", "/v1/chat/completions", stall_after(2))

    async def first_pieces():
        one = client("POST", "/p/openai/chat/completions", key=key, json={"stream": True})
        running = asyncio.create_task(one.run())
        await one.until(b"data: ")
        assert not one.answer.complete
        one.left.set()
        await running
        await fake.until(lambda: fake.disconnects == 1)
        return one.answer

    found = run(first_pieces())
    assert found.header("content-type") == "text/event-stream" and found.header("x-accel-buffering") == "no"
    assert not found.complete
    fake.route("POST", "/v1/chat/completions", stream(["a", "b"], usage=usage))
    asked = {"stream": True, "stream_options": {"include_usage": True}}
    found = call("POST", "/p/openai/chat/completions", key=key, json=asked)
    assert found.complete and found.events[-1] == "[DONE]"
    assert tokens() == 15
    anthropic = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 6, "output_tokens": 1}}},
        {"type": "message_delta", "usage": {"output_tokens": 3}},
    ]
    fake.route("POST", "/v1/messages", events(*anthropic))
    assert call("POST", "/p/openai/messages", key=key).complete
    assert tokens() == 24


def test_only_what_a_call_has_just_cost_is_counted(fake, key):
    usage = {"usage": {"input_tokens": 5, "output_tokens": 5}}
    fake.route("GET", "/v1/responses/1", status(200, usage))
    fake.route("POST", "/v1/responses", status(400, usage))
    call("GET", "/p/openai/responses/1", key=key)
    call("POST", "/p/openai/responses", key=key)
    assert tokens() == 0
    fake.route("POST", "/v1/responses", status(200, usage))
    call("POST", "/p/openai/responses", key=key)
    assert tokens() == 10


def test_an_answer_that_breaks_is_cut_off_and_nothing_is_added(fake, key, caplog):
    fake.route("POST", "/v1/chat/completions", cut_after(1, reset=True))
    with caplog.at_level(logging.WARNING):
        found = call("POST", "/p/openai/chat/completions", key=key, json={"stream": True})
    assert found.status == 200 and not found.complete
    assert found.body.count(b"data: ") == 1
    assert "answer cut off" in caplog.text and SECRET not in caplog.text


def test_the_key_of_the_provider_never_comes_back(fake, key):
    words = json.dumps({"error": f"bad key {SECRET}"}).encode()
    head = b"HTTP/1.1 401 X\r\nX-Echo: Bearer %b\r\nContent-Length: %d\r\n\r\n" % (SECRET.encode(), len(words))
    fake.route("GET", "/v1/echo", raw(head + words))
    found = call("GET", "/p/openai/echo", key=key)
    assert found.status == 401 and len(found.body) == len(words)
    assert SECRET not in found.body.decode() and SECRET not in repr(found.headers)
    assert found.header("x-echo") == "Bearer [redacted]"


def test_a_body_over_the_limit_reaches_nobody(fake, key, monkeypatch):
    configure(monkeypatch, max_request_size=1024)
    for given in ({"body": b"x" * 2000}, {"body": [b"x" * 600, b"x" * 600], "length": None}):
        assert call("POST", "/p/openai/files", key=key, **given).said == (413, "request body too large")
    assert call("POST", "/p/openai/files", key=key, body=[b"x", BREAK], length=9).status == 0
    assert fake.requests == []


def test_a_client_that_leaves_takes_its_call_along(fake, key):
    fake.route("POST", "/v1/slow", silence())

    async def leaving():
        one = client("POST", "/p/openai/slow", key=key)
        running = asyncio.create_task(one.run())
        await fake.until(lambda: len(fake.requests) == 1)
        one.left.set()
        await running
        await fake.until(lambda: fake.disconnects == 1)
        return one.answer

    assert run(leaving()).status == 0


def test_a_stop_of_the_server_is_told_where_nothing_was_answered(fake, key):
    fake.route("POST", "/v1/slow", silence())

    async def stopped():
        one = client("POST", "/p/openai/slow", key=key)
        running = asyncio.create_task(one.run())
        await fake.until(lambda: len(fake.requests) == 1)
        running.cancel()
        await running
        return one.answer

    assert run(stopped()).said == (500, "request interrupted (server restart)")


def test_an_address_that_may_not_be_dialled_is_not(key, monkeypatch):
    """The egress guard stands before every dial."""
    world.provider("Meta", "http://169.254.169.254/v1", provider_type="openrouter")
    world.ready()
    waits(monkeypatch)
    assert call("GET", "/p/openrouter/x", key=key).said == FAILED


def test_a_key_that_can_not_be_opened_is_a_502(fake, provider_b):
    world.provider(
        "Lost",
        provider_b.url,
        provider_type="openrouter",
        encrypted_key=b"x" * 32,
        key_nonce=b"n" * 12,
        key_salt=b"s" * 16,
    )
    plain = world.key()
    world.ready()
    told = "failed to decrypt the key of provider Lost (wrong master key?)"
    assert call("GET", "/p/openrouter/x", key=plain).said == (502, told)
    assert provider_b.requests == []


def test_it_is_not_there_unless_it_is_switched_on(fake, key, monkeypatch):
    configure(monkeypatch, enable_passthrough_routes=False)
    for shown in (key, None):
        assert call("GET", "/p/openai/files", key=shown).said == (404, "unknown endpoint: GET /p/openai/files")
    assert fake.requests == []


def test_a_websocket_is_refused_and_another_upgrade_is_only_an_offer(fake, key):
    asked = [("Connection", "Upgrade"), ("Upgrade", "WebSocket")]
    told = (400, "provider passthrough does not carry websockets")
    assert call("GET", "/p/openai/files", key=key, headers=asked).said == told
    assert fake.requests == []
    asked = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "x")]
    assert call("GET", "/p/openai/files", key=key, headers=asked).status == 200
    assert not {"upgrade", "connection", "http2-settings"} & set(fake.requests[-1].headers)


def test_the_app_log_has_a_line_for_each_and_not_what_it_was_about(fake, key, caplog):
    fake.route("POST", "/v1/embeddings", status(200, {"usage": {"prompt_tokens": 6, "total_tokens": 6}}))
    with caplog.at_level(logging.INFO):
        call("POST", "/p/openai/embeddings", key=key, json={"input": "hidden words"})
    (line,) = [found for found in caplog.records if found.message == "proxy: passed through"]
    told = {name: line.attrs[name] for name in ("provider", "key", "method", "status", "tokens")}
    assert told == {"provider": "Open AI", "key": "app", "method": "POST", "status": 200, "tokens": 6}
    assert "hidden" not in caplog.text and "embeddings" not in repr(line.attrs) and key not in repr(line.attrs)
