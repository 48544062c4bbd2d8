"""What no client should send: a clear error naming the field, in the right shape, never a 500, never a key."""

import json
import socket

import pytest

from tests.wire.house import GROUP

NOT_JSON = [
    b"",
    b"nonsense",
    b"{",
    b"[]",
    b"null",
    b"1",
    b'"text"',
    b'{"model": "x"} trailing',
    b'{"model": "\xff"}',
    b"{'model': 'x'}",
    b'{"model": NaN}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"\x1f\x8b\x08\x00",
]


@pytest.mark.parametrize("body", NOT_JSON, ids=range(len(NOT_JSON)))
def test_a_body_that_is_no_object_is_a_400(home, body):
    found = home.http.post("/v1/chat/completions", content=body)
    assert found.status_code == 400
    error = found.json()["error"]
    assert (error["message"], error["code"]) == ("invalid request body", "invalid_request_body")
    assert home.row()["error_kind"] == "validation"


@pytest.mark.parametrize("value", [5, 5.5, True, [], {}, ["a"]])
def test_a_model_that_is_no_text_is_a_400(home, value):
    found = home.ask(value)
    assert (found.status_code, found.json()["error"]["message"]) == (400, "invalid request body")


@pytest.mark.parametrize("value", ["", None])
def test_a_missing_model_is_named(home, value):
    found = home.ask(value)
    error = found.json()["error"]
    assert (found.status_code, error["message"], error["param"]) == (400, "model is required", "model")
    assert error["code"] == "missing_required_parameter"


def test_an_endless_model_name_is_refused_and_never_quoted(home):
    found = home.ask("m" * 513)
    assert found.json()["error"]["message"] == "model exceeds maximum length of 512 characters"
    assert home.row()["model_id"] == "m" * 64 + "…"
    assert home.ask("é" * 512).status_code == 404


@pytest.mark.parametrize("value", ["true", 1, 0, [], {}, "no"])
def test_a_stream_switch_that_is_no_boolean_is_a_400(home, value):
    assert home.ask(stream=value).json()["error"]["message"] == "invalid request body"


@pytest.mark.parametrize("value", [5, "yes", [], [1], {"include_usage": "yes"}, {"include_usage": 1}, None, {}])
def test_odd_stream_options_never_break_the_gateway(home, value):
    assert home.ask(stream=True, stream_options=value).status_code in (200, 400)


@pytest.mark.parametrize("messages", [5, "x", None, {}, [], [5], [None], [{"role": 5, "tool_calls": []}], [[]]])
def test_messages_are_the_providers_to_judge(home, messages):
    found = home.http.post("/v1/chat/completions", json={"model": GROUP, "messages": messages})
    assert found.status_code == 200


@pytest.mark.parametrize(
    ("model", "status", "message"),
    [
        ("hotel/nothing", 404, "model not found: hotel/nothing"),
        ("HOTEL/glm-4.6", 404, "provider not found: HOTEL"),
        ("Nobody/x", 404, "provider not found: Nobody"),
        ("Alpha/x", 404, "model not found: x on provider Alpha"),
        ("alpha/glm-4.6", 404, "provider not found: alpha"),
        ("nothing", 404, "model not found: nothing"),
        ("hotel/", 404, "model not found: hotel/"),
        ("/", 404, "provider not found: "),
        ("a\u0000b", 404, "model not found: a\u0000b"),
    ],
)
def test_an_unknown_model_is_a_404_that_names_it(home, model, status, message):
    found = home.ask(model)
    assert (found.status_code, found.json()["error"]["message"]) == (status, message)
    assert found.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "missing authorization header"),
        ({"Authorization": "Bearer"}, "missing authorization header"),
        ({"Authorization": "bearer KEY"}, "missing authorization header"),
        ({"Authorization": "Basic KEY"}, "missing authorization header"),
        ({"Authorization": "Bearer sk-" + "0" * 32}, "invalid virtual key"),
        ({"Authorization": "Bearer TOKEN"}, "invalid virtual key"),
        ({"Authorization": "Bearer nothing", "x-api-key": "KEY"}, "invalid virtual key"),
        ({"x-api-key": "x" * 5000}, "invalid virtual key"),
    ],
)
def test_a_bad_key_is_a_401_and_the_body_is_not_read(home, headers, message):
    sent = {k: v.replace("KEY", home.key).replace("TOKEN", home.product.token) for k, v in headers.items()}
    home.ask()  # in random order this may be the first request of the house
    before = home.row()["id"]
    found = home.product.http.post(f"{home.product.url}/v1/chat/completions", content=b"x" * 1000, headers=sent)
    assert found.status_code == 401
    assert found.json()["error"]["message"].startswith(message)
    assert found.headers["connection"] == "close"
    assert home.row()["id"] == before
    assert home.key not in found.text


def test_the_key_is_taken_from_x_api_key_too(home):
    found = home.product.http.post(
        f"{home.product.url}/v1/chat/completions", json={"model": GROUP}, headers={"x-api-key": home.key}
    )
    assert found.status_code == 200


def test_a_body_of_60_megabytes_is_refused_before_it_is_read(home):
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {home.key}\r\n"
        f"Content-Length: {60 * 1024 * 1024}\r\n\r\n"
    )
    assert answer_to(home, head.encode() + b" " * 1000)[:12] == b"HTTP/1.1 413"


def test_a_body_of_60_megabytes_without_a_length_is_refused_on_the_way(home):
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {home.key}\r\n"
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    found = answer_to(home, head.encode() + b"Transfer-Encoding: chunked\r\n\r\n", [chunk] * 60)
    assert found[:12] == b"HTTP/1.1 413"
    assert b"request body too large" in found


def test_a_big_body_within_the_limit_passes_untouched(home):
    text = "é" * 5_000_000
    assert home.ask(content=text).status_code == 200
    assert home.a.calls[-1].json["messages"][0]["content"] == text


def answer_to(home, head, more=()):
    host, port = home.product.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as sock:
        sock.sendall(head)
        try:
            for chunk in more:
                sock.sendall(chunk)
        except (ConnectionResetError, BrokenPipeError):
            pass
        sock.settimeout(20)
        found = b""
        try:
            while piece := sock.recv(65536):
                found += piece
                if b"\r\n\r\n" in found and b"too large" in found:
                    break
        except ConnectionResetError:
            pass
        return found


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://169.254.169.254/latest", "not in ALLOWED_PROVIDER_HOSTS"),
        ("http://[fe80::1]/v1", "not in ALLOWED_PROVIDER_HOSTS"),
        ("https://user:secretpw@127.0.0.1/v1", "user"),
        ("https://127.0.0.1/v1?x=1", "query"),
        ("https://127.0.0.1/v1#x", "fragment"),
        ("ftp://127.0.0.1/v1", "http"),
        ("https:///v1", "host"),
        ("nonsense", "http"),
    ],
)
def test_a_provider_address_that_must_not_be_called_is_refused_with_the_reason(home, url, reason):
    found = home.product.api("POST", "/api/providers", json={"name": "Bad", "base_url": url, "api_key": "sk-x"})
    assert found.status_code == 400
    assert reason in found.text
    assert "secretpw" not in found.text


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-a\r\nX-Evil: 1", "sk-\x00a", "a\tb"])
def test_a_provider_key_with_a_line_break_is_refused(home, key):
    body = {"name": "Bad", "base_url": home.a.url, "api_key": key}
    found = home.product.api("POST", "/api/providers", json=body)
    assert (found.status_code, found.text.strip()) == (400, "api_key must not contain control characters")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/completions", 404),
        ("GET", "/v1/", 404),
        ("DELETE", "/v1/files/x", 404),
        ("POST", "/v1/%2e%2e/api/settings", 404),
    ],
)
def test_no_path_of_v1_ever_answers_html(home, method, path, status):
    found = home.http.request(method, path)
    assert found.status_code == status
    assert found.headers["content-type"] == "application/json"
    assert set(found.json()["error"]) == {"message", "type", "param", "code"}


def test_a_marker_in_the_prompt_is_found_nowhere_afterwards(home, tmp_path):
    """operations 10"""
    marker = "zebra-crossing-at-midnight-4711"
    home.ask(content=marker)
    home.a.script(__import__("tests.upstream.server", fromlist=["status"]).status(500, {"error": {"message": marker}}))
    home.ask(f"Alpha/{'glm-4.6'}", content=marker)
    row = home.row()
    assert row["error_message"] == "provider error text withheld"
    home.ask(content=marker, stream=True)
    home.ask("nothing", content=marker)
    for path in home.product.data_dir.rglob("*"):
        if path.is_file():
            assert marker.encode() not in path.read_bytes(), path
    assert marker not in home.product.output
    assert marker not in json.dumps(home.admin("GET", "/api/logs?per_page=200").json())
    assert marker not in json.dumps(home.admin("GET", "/api/logs/app").json())
    told = home.admin("GET", "/api/logs/app?history=true&per_page=100").json()
    assert told["source_counts"]["proxy"] >= 4
    assert marker not in json.dumps(told)
