"""Routes, preflight, the virtual key, the body: what a request meets before its model is looked up."""

import asyncio
import hashlib
import logging

import pytest

from modelhotel.core import environment
from proxy import keys, serving, verbs
from tests.proxy import world
from tests.proxy.asgi import BREAK, call, chat, client, run

pytestmark = pytest.mark.django_db(transaction=True)

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
MISSING = 'missing authorization header: expected "Authorization: Bearer <virtual key>" or "x-api-key: <virtual key>"'
LISTED, FOREIGN = "http://localhost:5173", "https://evil.example"


@pytest.fixture
def key():
    """A virtual key; provider P with model m stands behind it."""
    world.model(world.provider("P"), "m")
    plain = world.key()
    world.ready()
    return plain


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


# -- routes


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/completions"),
        ("POST", "/v1/completions/"),
        ("GET", "/v1/files"),
        ("DELETE", "/v1/responses/r1"),
        ("GET", "/v1"),
        ("GET", "/v1/"),
        ("POST", "/v1/chat"),
        ("POST", "/v1/chat/completions/x"),
        ("POST", "/v1//chat/completions"),
        ("GET", "/v1/<script>"),
        ("OPTIONS", "/v1/files"),
        ("PURGE", "/v1/x"),
    ],
)
def test_an_unknown_endpoint_is_a_404_in_json(key, method, path):
    """v1-api 27"""
    answer = call(method, path, key=key)
    assert answer.said == (404, f"unknown endpoint: {method} {path}")
    assert (answer.error["code"], answer.error["type"]) == ("unknown_url", "not_found_error")
    assert world.rows() == []


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", CHAT, "POST"),
        ("HEAD", CHAT, "POST"),
        ("DELETE", CHAT + "/", "POST"),
        ("POST", MODELS, "GET, HEAD"),
        ("DELETE", MODELS + "/P/m", "GET, HEAD"),
        ("OPTIONS", MODELS, "GET, HEAD"),
        ("OPTIONS", CHAT, "POST"),
    ],
)
def test_a_known_path_with_a_wrong_method_is_a_405_that_says_which(key, method, path, allow):
    """v1-api 27, v1-api 28"""
    answer = call(method, path, key=key)
    assert (answer.status, answer.header("allow")) == (405, allow)
    if method != "HEAD":
        assert answer.said == (405, "method not allowed")
        assert answer.error["code"] == "method_not_supported"


def test_one_trailing_slash_makes_no_difference(key, served):
    assert call("GET", MODELS + "/", key=key).json["object"] == "list"
    assert call("POST", CHAT + "/", key=key, json={"model": "P/m"}).status == 200
    assert len(served) == 1


# -- preflight, CORS and the headers of every answer


def test_a_preflight_of_a_foreign_origin_is_answered_without_cors_headers():
    """v1-api 28"""
    answer = call("OPTIONS", MODELS, headers=[("Origin", FOREIGN)])
    assert (answer.status, answer.body, answer.header("vary")) == (204, b"", "Origin")
    assert not [name for name, _ in answer.headers if name.startswith("access-control")]
    assert answer.header("content-length") is None


@pytest.mark.parametrize("path", [MODELS, CHAT, "/v1/whatever"])
def test_a_preflight_of_a_listed_origin_names_the_headers_browsers_send(path):
    """v1-api 28"""
    answer = call("OPTIONS", path, headers=[("Origin", LISTED)])
    assert (answer.status, answer.header("access-control-allow-origin")) == (204, LISTED)
    allowed = answer.header("access-control-allow-headers").split(", ")
    assert {"x-api-key", "anthropic-version", "anthropic-beta", "Authorization", "Content-Type"} <= set(allowed)
    assert answer.header("access-control-allow-credentials") == "true"
    assert answer.header("access-control-max-age") == "86400"
    assert answer.header("vary") == "Origin"


def test_error_answers_carry_the_cors_headers_too(key):
    """v1-api 29"""
    for answer in (
        call("GET", MODELS, key="wrong", headers=[("Origin", LISTED)]),
        chat(key, b"nonsense", headers=[("Origin", LISTED)]),
        chat(key, {"model": "P/none"}, headers=[("Origin", LISTED)]),
        call("POST", "/v1/completions", headers=[("Origin", LISTED)]),
    ):
        assert answer.status >= 400
        assert answer.header("access-control-allow-origin") == LISTED
    assert call("GET", MODELS, key="wrong", headers=[("Origin", FOREIGN)]).header("vary") == "Origin"
    assert call("GET", MODELS, key="wrong").header("vary") is None


def test_every_answer_carries_the_security_headers(key, served):
    for answer in (
        call("GET", MODELS, key=key),
        call("GET", MODELS, key="wrong"),
        chat(key, {"model": "P/m"}),
        chat(key, b"{"),
        call("OPTIONS", MODELS, headers=[("Origin", LISTED)]),
        call("GET", "/v1/nothing"),
    ):
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("x-frame-options") == "DENY"
        assert answer.header("referrer-policy") == "strict-origin-when-cross-origin"
        assert "default-src 'self'" in answer.header("content-security-policy")


@pytest.mark.parametrize("sent", ["abc", "x" * 128, "6f1c-:/?~!"])
def test_a_usable_request_id_is_kept(key, served, sent):
    for answer in (
        call("GET", MODELS, key=key, headers=[("X-Request-Id", sent)]),
        call("GET", MODELS, headers=[("X-Request-Id", sent)]),
        chat(key, {"model": "P/m"}, headers=[("X-Request-Id", sent)]),
        chat(key, b"", headers=[("X-Request-Id", sent)]),
    ):
        assert answer.header("x-request-id") == sent


@pytest.mark.parametrize("sent", ["", "x" * 129, "a b", "a\tb", "é", "a\r\nset-cookie: x"])
def test_another_request_id_is_replaced_by_that_of_the_log(key, served, sent):
    answer = chat(key, {"model": "P/m"}, headers=[("X-Request-Id", sent)])
    assert answer.header("x-request-id") == world.row().request_hash
    assert len(answer.header("x-request-id")) == 16


def test_a_refusal_contacted_nobody(key):
    for answer in (call("GET", MODELS), chat(key, b""), call("GET", "/v1/x"), call("GET", MODELS, key=key)):
        assert answer.header("x-modelhotel-attempts") == "0"
        assert 0 <= float(answer.header("x-modelhotel-overhead-ms")) < 5000
        assert answer.header("x-modelhotel-provider") is None
        assert answer.header("x-modelhotel-model") is None


def test_answer_headers_can_be_switched_off(key, served, monkeypatch):
    """v1-api 69c"""
    from modelhotel.models import Setting

    Setting.objects.create(key="answer_headers", value="false")
    world.ready()
    for answer in (call("GET", MODELS, key=key), chat(key, {"model": "P/m"}), chat(key, b""), call("GET", MODELS)):
        assert answer.header("x-request-id")
        assert not [name for name, _ in answer.headers if name.startswith("x-modelhotel")]


# -- gate 2


def test_a_bearer_key_wins_over_a_good_x_api_key(key):
    """v1-api 1"""
    answer = call("GET", MODELS, key="wrong", headers=[("x-api-key", key)])
    assert answer.said == (401, "invalid virtual key")
    assert answer.header("connection") == "close"
    assert (answer.error["code"], answer.error["type"]) == ("invalid_api_key", "authentication_error")


def test_a_lower_case_bearer_counts_as_absent(key):
    """v1-api 2"""
    answer = call("GET", MODELS, headers=[("Authorization", f"bearer {key}")])
    assert answer.said == (401, MISSING)
    assert answer.header("connection") == "close"
    assert answer.error["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    "other", ["Basic abc", "bearer x", "Bearer", "Bearer ", "Bearer  x", "BEARER x", "", "Token x"]
)
def test_any_other_authorization_leaves_the_word_to_x_api_key(key, other):
    """v1-api 3"""
    assert call("GET", MODELS, headers=[("Authorization", other), ("x-api-key", key)]).status == 200
    assert call("GET", MODELS, headers=[("Authorization", other)]).said == (401, MISSING)


def test_both_carriers_work(key, served):
    """providers 87"""
    assert call("GET", MODELS, key=key).status == 200
    assert call("GET", MODELS, headers=[("x-api-key", key)]).status == 200
    assert call("POST", CHAT, json={"model": "P/m"}, headers=[("x-api-key", key)]).status == 200
    assert call("POST", CHAT, json={"model": "P/m"}, key=key).status == 200


@pytest.mark.parametrize("wrong", ["x", "sk-", "sk-" + "0" * 32, "é", "x" * 10_000, "sk-\x00"])
def test_an_unknown_key_of_any_shape_gets_the_same_answer(key, wrong):
    """providers 87"""
    answer = call("GET", MODELS, headers=[("Authorization", f"Bearer {wrong}")])
    assert answer.said == (401, "invalid virtual key")


def test_neither_the_admin_token_nor_a_stored_hash_opens_v1(key):
    """v1-api 4"""
    from modelhotel.models import AdminToken

    AdminToken.objects.create(token_hash="sha256:" + hashlib.sha256(b"mh-admin").hexdigest())
    assert call("GET", MODELS, key="mh-admin").said == (401, "invalid virtual key")
    assert call("GET", MODELS, key=world.stored().key_hash).said == (401, "invalid virtual key")


@pytest.mark.parametrize("length", [50 * 1024 * 1024, None])
def test_a_wrong_key_is_refused_without_reading_the_body(length):
    """v1-api 5"""
    world.ready()

    async def post():
        sender = client("POST", CHAT, key="wrong", body=[b"x" * 1024] * 4, length=length)
        return sender, await sender.run()

    sender, answer = run(post())
    assert answer.said == (401, "invalid virtual key")
    assert sender.taken == 0
    assert world.rows() == []


def test_disabling_the_owner_cuts_the_key_until_it_is_enabled_again():
    """v1-api 7"""
    owner = world.user("ann", is_active=False)
    plain = world.key(owner_user_id=str(owner.pk))
    world.ready()
    answer = chat(plain, {"model": "P/m"})
    assert answer.said == (401, "virtual key disabled: owner account is disabled")
    assert answer.header("connection") == "close"
    assert world.rows() == []
    owner.is_active = True
    owner.save()
    world.ready()
    assert call("GET", MODELS, key=plain).status == 200


def test_a_refused_key_is_warned_about_with_the_address_and_never_with_the_key(key, caplog):
    owner = world.user("ann", is_active=False)
    mine = world.key("mine", owner_user_id=str(owner.pk))
    world.ready()
    with caplog.at_level(logging.WARNING, "proxy"):
        call("GET", MODELS, key="sk-wrong-secret")
        call("GET", MODELS, key=mine)
    assert [(r.message, r.attrs) for r in caplog.records] == [
        ("proxy: virtual key refused", {"client_ip": "192.0.2.7", "reason": "invalid virtual key"}),
        ("proxy: virtual key refused", {"client_ip": "192.0.2.7", "reason": "virtual key disabled", "key": "mine"}),
    ]
    assert "secret" not in str([vars(r) for r in caplog.records])


def test_a_key_lookup_that_fails_is_our_fault(key, monkeypatch, caplog):
    from modelhotel.core import snapshots

    def broken():
        raise OSError("no database")

    snapshots.reset_all()
    monkeypatch.setattr(keys.SNAPSHOT, "_build", broken)
    answer = call("GET", MODELS, key=key)
    assert answer.said == (500, "internal error")
    assert answer.error["code"] == "internal_error"
    assert "no database" not in answer.body.decode()
    assert [r.message for r in caplog.records] == ["proxy: virtual key lookup failed"]


def test_a_process_that_has_loaded_nothing_yet_asks_the_database(key, served):
    from modelhotel.core import snapshots

    snapshots.reset_all()
    assert chat(key, {"model": "P/m"}).status == 200


def test_a_deleted_key_ends_with_the_next_request_and_not_with_the_running_one(key, monkeypatch):
    """v1-api 8"""
    import asyncio

    from modelhotel.core.actor import ADMIN

    def delete():
        verbs.delete(str(world_key.pk), ADMIN)
        keys.close_connection()

    async def delete_meanwhile(exchange):
        await asyncio.to_thread(delete)
        exchange.draft.status_code = 200
        await exchange.answer(200, b"{}")

    world_key = world.stored()
    monkeypatch.setattr(serving, "run", delete_meanwhile)
    assert chat(key, {"model": "P/m"}).status == 200
    assert chat(key, {"model": "P/m"}).said == (401, "invalid virtual key")
    assert world.row().virtual_key_name == "app"


def test_a_use_is_stamped_whatever_happens_to_the_request(key):
    from proxy.metering import METER

    assert world.stored().last_used_at is None
    call("GET", MODELS, key=key)
    assert METER.flush()
    first = world.stored().last_used_at
    chat(key, b"nonsense")
    assert METER.flush()
    assert world.stored().last_used_at > first
    assert world.stored().tokens_used == 0


# -- gate 6: the body


@pytest.fixture
def small_limit(monkeypatch):
    import dataclasses

    from proxy import call

    small = dataclasses.replace(environment.current(), max_request_size=1024)
    monkeypatch.setattr(call, "_environment", lambda: small)


def padded(size):
    start, end = b'{"model":"P/m","x":"', b'"}'
    return start + b"x" * (size - len(start) - len(end)) + end


def test_a_body_one_byte_over_the_limit_is_too_large(key, served, small_limit):
    """part of v1-api 24, providers 84"""
    assert chat(key, padded(1024)).status == 200
    for length in (-1, None):
        answer = chat(key, padded(1025), length=length)
        assert answer.said == (413, "request body too large")
        assert answer.error["code"] == "request_too_large"
    rows = world.rows()
    assert [(r.status_code, r.state, r.error_kind) for r in rows] == [
        (200, "completed", None),
        (413, "failed", "validation"),
        (413, "failed", "validation"),
    ]
    assert rows[1].error_message == "request body too large"


def test_too_large_is_a_type_of_its_own_below_messages(key, small_limit):
    """v1-api 24: with the two above and below it."""
    answer = call("POST", "/v1/messages", key=key, body=padded(1025))
    error = {"type": "request_too_large", "message": "request body too large"}
    assert (answer.status, answer.json) == (413, {"type": "error", "error": error})


@pytest.mark.parametrize("length", [-1, None])
def test_sixty_megabytes_are_refused_while_they_are_read(key, length):
    """part of v1-api 24, providers 84"""
    piece = b" " * (1024 * 1024)

    async def post():
        sender = client("POST", CHAT, key=key, body=[piece] * 60, length=length)
        return sender, await sender.run()

    sender, answer = run(post())
    assert answer.said == (413, "request body too large")
    assert sender.taken == (0 if length else 51)
    assert world.row().status_code == 413


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not json",
        b"[]",
        b'{"model":"a/b"} x',
        b'{"model":5}',
        b'\xef\xbb\xbf{"model":"P/m"}',
        b'{"model":"P/m","x":NaN}',
        b'{"model":"P/m","x":"\xff"}',
        b'{"model":"P/m","x":' + b"[" * 100_000,
        b"\x1f\x8b\x08\x00\x00",
        b'{"model":"P/m","stream":"true"}',
        b'{"model":["P/m"]}',
    ],
    ids=lambda raw: repr(raw[:30]),
)
def test_a_malformed_body_is_refused_in_one_row_that_quotes_nothing(key, raw):
    """v1-api 23, part of v1-api 24"""
    answer = chat(key, raw)
    assert answer.said == (400, "invalid request body")
    assert answer.error["code"] == "invalid_request_body"
    row = world.row()
    assert (row.status_code, row.state, row.error_kind) == (400, "failed", "validation")
    assert (row.error_message, row.model_id, row.attempts) == ("invalid request body", "", None)
    assert (row.virtual_key_name, row.client_ip, row.endpoint_type) == ("app", "192.0.2.7", "chat")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/json; charset=x"])
def test_json_is_read_whatever_the_content_type_says(key, served, kind):
    assert chat(key, {"model": "P/m"}, headers=[("Content-Type", kind)]).status == 200


def test_a_missing_model_is_named(key):
    for body in ({}, {"model": None}, {"model": ""}):
        answer = chat(key, body)
        assert answer.said == (400, "model is required")
        assert (answer.error["param"], answer.error["code"]) == ("model", "missing_required_parameter")
    assert [r.status_code for r in world.rows()] == [400, 400, 400]


def test_an_overlong_model_name_is_not_repeated(key):
    """v1-api 22"""
    answer = chat(key, {"model": "é" * 513})
    assert answer.said == (400, "model exceeds maximum length of 512 characters")
    assert (answer.error["param"], answer.error["code"]) == ("model", "invalid_value")
    assert world.row().model_id == "é" * 64 + "…"


def test_a_model_name_of_512_characters_is_looked_up(key):
    """v1-api 22"""
    answer = chat(key, {"model": "é" * 512})
    assert answer.said == (404, "model not found: " + "é" * 512)
    assert world.row().model_id == "é" * 512


def test_a_body_that_breaks_off_is_refused(key):
    answer = chat(key, b'{"model":', length=500)
    assert answer.said == (400, "failed to read request body")
    assert world.row().error_kind == "validation"


def test_a_client_that_leaves_while_sending_gets_a_row_and_no_answer(key):
    async def post():
        return await client("POST", CHAT, key=key, body=[b'{"mo', BREAK], length=500).run()

    answer = run(post())
    assert answer.status == 0
    row = world.row()
    assert (row.status_code, row.error_kind, row.error_message) == (499, "client_disconnect", "client disconnected")


def test_a_nul_in_a_model_name_is_no_fault_of_the_database(key):
    answer = chat(key, b'{"model":"P/\\u0000"}')
    assert answer.said == (404, "model not found: \x00 on provider P")
    assert world.row().model_id == "P/\ufffd"


# -- past the gates


def test_the_exchange_holds_what_the_walk_needs(key, served):
    raw = b'{"model": "P/m", "stream": true, "stream_options": {"include_usage": true}, "n": 1.0}'
    chat(key, raw)
    (exchange,) = served
    assert (exchange.model, exchange.stream, exchange.include_usage, exchange.endpoint.family) == (
        "P/m",
        True,
        True,
        "chat",
    )
    assert exchange.raw == raw
    assert bytes(exchange.body["n"]) == b"1.0"
    assert exchange.key.name == "app"
    assert [(c.provider.name, c.model.model_id, c.key) for c in exchange.resolution.candidates] == [("P", "m", "")]
    assert exchange.attempt_seconds == 600.0
    assert exchange.deadline == pytest.approx(exchange.draft.arrival + 1200.0)
    row = world.row()
    assert (row.streaming, row.model_id, row.state, row.status_code) == (True, "P/m", "completed", 200)
    assert row.cache_hits == {"model": True, "provider": True, "key": True, "settings": True}
    assert row.parse_ms > 0


def test_a_request_is_visible_from_its_arrival_and_announced_once_its_model_is_known(key, served):
    from modelhotel.core import events

    seen = []
    events.subscribe(seen.append)
    chat(key, {"model": "P/m"})
    chat(key, {"model": "P/none"})
    chat(key, b"")
    chat(key, {"model": "x" * 600})
    assert [e.type for e in seen] == [
        "request.started",
        "request.completed",
        "request.started",
        "request.completed",
        "request.completed",
        "request.started",
        "request.completed",
    ]
    assert seen[0].metadata["model_id"] == "P/m"


def test_a_fault_of_ours_is_a_500_that_says_nothing_and_a_row_that_says_internal(key, monkeypatch, caplog):
    async def broken(exchange):
        raise KeyError("sk-secret")

    monkeypatch.setattr(serving, "run", broken)
    answer = chat(key, {"model": "P/m"})
    assert answer.said == (500, "internal error")
    assert answer.error["code"] == "internal_error"
    row = world.row()
    assert (row.status_code, row.state, row.error_kind, row.error_message) == (
        500,
        "failed",
        "internal",
        "internal error",
    )
    assert [r.message for r in caplog.records if r.name == "proxy"] == ["proxy: request failed"]


def test_a_fault_of_ours_in_a_stream_ends_it_with_one_error_event(key, monkeypatch):
    async def broken(exchange):
        await exchange.start_stream()
        await exchange.write(b"data: {}\n\n")
        raise KeyError("x")

    monkeypatch.setattr(serving, "run", broken)
    answer = chat(key, {"model": "P/m", "stream": True})
    assert answer.status == 200
    assert len(answer.events) == 2 and '"code":"internal"' in answer.events[1]
    assert answer.complete
    assert (world.row().status_code, world.row().error_kind) == (0, "internal")


def test_a_fault_after_a_whole_answer_changes_nothing_for_the_client(key, monkeypatch):
    async def broken(exchange):
        await exchange.answer(200, b"{}")
        raise KeyError("x")

    monkeypatch.setattr(serving, "run", broken)
    assert chat(key, {"model": "P/m"}).body == b"{}"
    assert world.row().error_kind == "internal"


def test_a_request_that_the_server_cuts_off_is_told_and_recorded(key, monkeypatch):
    """The stop of the server cancels what outlives the drain (section 13 of operations)."""

    async def cut(exchange):
        raise asyncio.CancelledError

    monkeypatch.setattr(serving, "run", cut)
    answer = chat(key, {"model": "P/m"})
    assert answer.said == (500, "request interrupted (server restart)")
    assert world.row().error_message == "request interrupted (server restart)"


def test_a_stream_that_the_server_cuts_off_gets_its_terminal_frame(key, monkeypatch):
    async def cut(exchange):
        await exchange.start_stream()
        raise asyncio.CancelledError

    monkeypatch.setattr(serving, "run", cut)
    answer = chat(key, {"model": "P/m", "stream": True})
    assert "stream interrupted: gateway restarting" in answer.events[-1] and answer.complete
    assert (world.row().status_code, world.row().state) == (0, "failed")
