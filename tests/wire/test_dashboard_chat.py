"""``/api/chat/*``: chat completions for who is signed in, through the walk of ``/v1`` (v1-api 5.8)."""

import socket
import sqlite3
from contextlib import contextmanager

import httpx
import pytest

from tests.upstream.server import answer, reply
from tests.upstream.spoken import PROMPT
from tests.wire.house import GROUP, House, house
from tests.wire.product import LIMITED, eventually

PASSWORD = "correct horse"
BODY = {"model": GROUP, "messages": [{"role": "user", "content": PROMPT}]}
ROUTES = ("chat", "arena", "completions")


@contextmanager
def account(home: House, name: str, **given):
    """Somebody signed in with a password, as a browser is; the account goes with the block."""
    made = home.admin("POST", "/api/users", json={"username": name, "password": PASSWORD, **given}).json()
    try:
        with httpx.Client(base_url=home.product.url, timeout=15.0, trust_env=False) as browser:
            signed_in = browser.post("/api/auth/login", json={"username": name, "password": PASSWORD})
            assert signed_in.status_code == 200, signed_in.text
            browser.headers["X-CSRF-Token"] = browser.cookies["mh_csrf"]
            browser.account = made["id"]
            yield browser
    finally:
        home.admin("DELETE", f"/api/users/{made['id']}")


def by_token(home: House) -> dict[str, str]:
    return {"Authorization": f"Bearer {home.product.token}"}


@pytest.mark.parametrize("route", ROUTES)
def test_a_granted_account_gets_the_answer_of_the_next_provider(home: House, route: str):
    home.a.script(reply(500, {"error": {"message": "broken"}}))
    used = home.admin("GET", "/api/virtual-keys").json()[0]["tokens_used"]
    with account(home, "ann", role="user", grants=["chat"]) as browser:
        found = browser.post(f"/api/chat/{route}", json=BODY)
        assert found.status_code == 200, found.text
        assert found.json()["choices"][0]["message"]["content"] == "from B"
        row = home.row()
        assert (row["virtual_key_id"], row["virtual_key_name"]) == (None, route)
        assert row["owner_user_id"] == browser.account
        assert [one["provider"] for one in row["attempts"]] == ["Alpha", "Beta"]
    assert home.admin("GET", "/api/virtual-keys").json()[0]["tokens_used"] == used


def test_the_admin_token_chats_and_streams(home: House):
    with httpx.stream(
        "POST",
        f"{home.product.url}/api/chat/chat/",
        json={**BODY, "stream": True},
        headers=by_token(home),
        timeout=15.0,
        trust_env=False,
    ) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert "".join(stream.iter_text()).rstrip().endswith("data: [DONE]")
    assert eventually(lambda: home.row()["state"] == "completed")
    assert home.row()["owner_user_id"] is None


def test_whoever_may_not_chat_is_told_in_the_words_of_the_api(home: House):
    url = f"{home.product.url}/api/chat/chat"
    nobody = httpx.post(url, json=BODY, trust_env=False)
    assert (nobody.status_code, nobody.text) == (401, "Authorization header required (Bearer token)")
    wrong = httpx.post(url, json=BODY, headers={"Authorization": f"Bearer {home.key}"}, trust_env=False)
    assert (wrong.status_code, wrong.text) == (401, "Invalid admin token")
    as_json = httpx.post(url, json=BODY, headers={"Accept": "application/json"}, trust_env=False)
    assert as_json.json() == {"error": "Authorization header required (Bearer token)"}
    for given in ({"role": "user", "grants": ["logs"]}, {"role": "viewer"}):
        with account(home, "bob", **given) as browser:
            refused = browser.post("/api/chat/chat", json=BODY)
            assert (refused.status_code, refused.text) == (403, "insufficient permissions"), given
    assert not [one for one in home.a.requests if one.path.endswith("/chat/completions")]


def test_a_cookie_alone_asks_nothing(home: House):
    with account(home, "ann", role="user", grants=["chat"]) as browser:
        refused = browser.post("/api/chat/chat", json=BODY, headers={"X-CSRF-Token": "x"})
        assert (refused.status_code, refused.text) == (403, "CSRF token missing or invalid")
        gone = browser.post("/api/auth/logout")
        assert gone.status_code == 200
        assert browser.post("/api/chat/chat", json=BODY).status_code == 401


def test_errors_of_the_request_have_the_shape_of_v1(home: House):
    for body, status in ((b"{", 400), (b'{"model": "hotel/none", "messages": []}', 404)):
        refused = httpx.post(f"{home.product.url}/api/chat/chat", content=body, headers=by_token(home), trust_env=False)
        assert refused.status_code == status, refused.text
        assert sorted(refused.json()["error"]) == ["code", "message", "param", "type"]


@pytest.mark.parametrize("path", ["/api/chat", "/api/chat/", "/api/chat/else", "/api/chat/chat/more"])
def test_what_is_no_route_of_it_is_not_there(home: House, path: str):
    missing = httpx.post(home.product.url + path, json=BODY, headers=by_token(home), trust_env=False)
    assert (missing.status_code, missing.text) == (404, "not found")
    assert httpx.get(f"{home.product.url}/api/chat/chat", headers=by_token(home), trust_env=False).status_code == 404


def test_the_caps_of_the_account_hold_here_too(home: House):
    """v1-api 5.7, 5.8: the account's providers and budget apply exactly as on /v1."""
    with account(home, "ann", role="user", grants=["chat"], allowed_providers=[home.ids["Beta"]]) as browser:
        assert browser.post("/api/chat/chat", json=BODY).json()["choices"][0]["message"]["content"] == "from B"
        direct = browser.post("/api/chat/chat", json={**BODY, "model": "Alpha/glm-4.6"})
        assert direct.status_code == 403, direct.text
    model = next(
        one
        for one in home.admin("GET", f"/api/models?provider_id={home.ids['Alpha']}").json()
        if one["model_id"] == "glm-4.6"
    )
    home.admin("PATCH", f"/api/models/{model['id']}", json={"input_price_per_million": 1000})
    home.a.script(answer("from A", usage={"prompt_tokens": 1000, "completion_tokens": 1, "total_tokens": 1001}))
    with account(home, "poor", role="user", grants=["chat"], budget_usd=0.5, budget_period="day") as browser:
        assert browser.post("/api/chat/chat", json=BODY).status_code == 200
        assert eventually(lambda: browser.post("/api/chat/chat", json=BODY).status_code == 429)
        refused = browser.post("/api/chat/chat", json=BODY).json()["error"]
        assert refused["message"].startswith("user budget exceeded"), refused


def test_a_disabled_account_chats_no_more(home: House):
    with account(home, "ann", role="user", grants=["chat"]) as browser:
        assert browser.post("/api/chat/chat", json=BODY).status_code == 200
        home.admin("PUT", f"/api/users/{browser.account}", json={"enabled": False})
        assert browser.post("/api/chat/chat", json=BODY).status_code == 401


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    with house(tmp_path_factory.mktemp("limited"), LIMITED) as found:
        yield found


def test_the_minute_of_tokens_is_the_accounts_alone(limited: House):
    """v1-api 4.3: no key, so no minute of a key's, whatever the global one is."""
    limited.fresh()
    limited.settings(rate_limit_tpm="10")
    limited.a.script(answer("long", usage={"prompt_tokens": 500, "completion_tokens": 500, "total_tokens": 1000}))
    with account(limited, "ann", role="user", grants=["chat"]) as browser:
        for _ in range(3):
            assert browser.post("/api/chat/chat", json=BODY).status_code == 200
    with account(limited, "bob", role="user", grants=["chat"], rate_limit_tpm=10) as browser:
        assert browser.post("/api/chat/chat", json=BODY).status_code == 200
        assert eventually(lambda: browser.post("/api/chat/chat", json=BODY).status_code == 429)
        refused = browser.post("/api/chat/arena", json=BODY)
        assert refused.json()["error"]["message"] == "user token rate limit exceeded"
    limited.settings(rate_limit_tpm="0")


def test_keys_and_chat_of_an_account_share_its_rate(limited: House):
    """v1-api 4.2"""
    limited.fresh()
    given = {"grants": ["chat", "virtual_keys"], "rate_limit_rps": 0.01, "rate_limit_burst": 3}
    with account(limited, "ann", role="user", **given) as browser:
        key = browser.post("/api/virtual-keys", json={"name": "laptop"}).json()["key"]
        by_key = {"Authorization": f"Bearer {key}"}
        asked = [
            httpx.post(f"{limited.product.url}/v1/chat/completions", json=BODY, headers=by_key, trust_env=False),
            browser.post("/api/chat/chat", json=BODY),
            browser.post("/api/chat/arena", json=BODY),
            browser.post("/api/chat/completions", json=BODY),
            httpx.post(f"{limited.product.url}/v1/chat/completions", json=BODY, headers=by_key, trust_env=False),
        ]
        assert [one.status_code for one in asked] == [200, 200, 200, 429, 429]
        for refused in asked[3:]:
            assert refused.json()["error"]["message"] == "user rate limit exceeded"
            assert refused.headers["x-ratelimit-burst"] == "3" and refused.headers["x-ratelimit-scope"] == "ip"


def test_a_refused_body_is_not_waited_for(home: House):
    """As on /v1: whoever is nobody can not have us read."""
    host, port = home.product.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(b"POST /api/chat/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 40000000\r\n\r\n" + b"x" * 1000)
        told = b""
        while part := sock.recv(65536):
            told += part
    assert told.startswith(b"HTTP/1.1 401 ") and b"connection: close" in told.lower()


def test_chatting_is_use_of_the_session(home: House):
    """operations 10.2: three days from the last use."""
    with account(home, "ann", role="user", grants=["chat"]) as browser:
        first = browser.post("/api/chat/chat", json=BODY)
        assert first.status_code == 200 and "set-cookie" not in first.headers
        with sqlite3.connect(home.product.data_dir / "modelhotel.sqlite3", timeout=10) as db:
            back = "strftime('%Y-%m-%d %H:%M:%f', {}, '-1 hour')"
            columns = ("last_seen_at", "expire_date")
            aged = ", ".join(f"{column} = {back.format(column)}" for column in columns)
            db.execute(f"UPDATE sessions SET {aged} WHERE user_id = ?", (browser.account.replace("-", ""),))
        before = dict(browser.cookies)
        used = browser.post("/api/chat/chat", json={**BODY, "stream": True})
        assert used.status_code == 200, used.text
        renewed = used.headers.get_list("set-cookie")
        assert sorted(cookie.partition("=")[0] for cookie in renewed) == ["mh_csrf", "mh_session"]
        assert all("Max-Age=259" in cookie and "SameSite=Strict" in cookie for cookie in renewed)
        assert dict(browser.cookies) == before
        assert "set-cookie" not in browser.post("/api/chat/chat", json=BODY).headers
