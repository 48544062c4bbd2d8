"""/p/{provider}/{endpoint} of the real product, with the official SDKs and what docs/passthrough.md shows."""

import re
import secrets
import subprocess
from pathlib import Path

import anthropic
import httpx
import openai
import pytest

from tests.upstream.server import FakeProvider, answer, raw, silence, status, stream
from tests.upstream.spoken import PROMPT
from tests.wire.product import Product, eventually

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "passthrough.md"
FILE = {"id": "file-1", "object": "file", "bytes": 2, "created_at": 1, "filename": "a.jsonl", "purpose": "batch"}
BATCHES = {
    "data": [{"id": "msgbatch_1", "type": "message_batch"}],
    "has_more": False,
    "first_id": None,
    "last_id": None,
}


class Hotel:
    """*openai* and *claude* are the fake vendors behind the providers Alpha and Claude."""

    def __init__(self, product, openai_fake, claude_fake):
        self.product, self.openai, self.claude = product, openai_fake, claude_fake
        for name, kind, fake in (("Alpha", "openai", openai_fake), ("Claude", "anthropic", claude_fake)):
            body = {"name": name, "provider_type": kind, "base_url": fake.origin if kind == "anthropic" else fake.url}
            made = product.api(
                "POST", "/api/providers", json={**body, "api_key": f"sk-{name.lower()}-0123456789abcdef"}
            )
            assert made.status_code == 201, made.text
        self.url = product.url

    def new_key(self):
        """What was counted for another test is written late, so each has its own."""
        self.made = self.product.api(
            "POST", "/api/virtual-keys", json={"name": f"native {secrets.token_hex(4)}"}
        ).json()
        self.key = self.made["key"]
        self.auth = {"Authorization": f"Bearer {self.key}"}

    def tokens(self):
        return self.product.api("GET", f"/api/virtual-keys/{self.made['id']}").json()["tokens_used"]


@pytest.fixture
def hotel(opened):
    opened.new_key()
    opened.openai.forget()
    return opened


@pytest.fixture(scope="module", params=["native", "httpx"])
def opened(tmp_path_factory, request):
    env = {
        "ENABLE_PASSTHROUGH_ROUTES": "true",
        "ENABLED_PASSTHROUGH_PROVIDERS": "openai,anthropic,nonsense",
        "UPSTREAM_CLIENT": request.param,
        "MAX_REQUEST_SIZE": "4096",
    }
    with (
        FakeProvider() as one,
        FakeProvider() as two,
        Product(tmp_path_factory.mktemp("hotel"), env) as product,
    ):
        one.route("GET", "/v1/files", status(200, {"object": "list", "data": [FILE], "has_more": False}))
        one.route("POST", "/v1/files", status(200, FILE))
        two.route("GET", "/v1/messages/batches", status(200, BATCHES))
        yield Hotel(product, one, two)


def test_openai_s_sdk_lists_uploads_and_streams(hotel):
    client = openai.OpenAI(base_url=f"{hotel.url}/p/openai/v1", api_key=hotel.key, max_retries=0, timeout=15.0)
    assert [file.id for file in client.files.list(limit=5)] == ["file-1"]
    listed = hotel.openai.requests[-1]
    assert listed.target == "/v1/files?limit=5"
    assert listed.headers["authorization"] == "Bearer sk-alpha-0123456789abcdef"
    assert listed.headers["x-stainless-lang"] == "python"
    assert client.files.create(file=("a.jsonl", b"{}"), purpose="batch").id == "file-1"
    assert [(part[0], part[3]) for part in hotel.openai.requests[-1].parts if part[0] == "file"] == [("file", b"{}")]
    hotel.openai.script(stream(["one ", "two"], usage={"prompt_tokens": 5, "completion_tokens": 2}))
    asked = {"model": "gpt", "messages": [{"role": "user", "content": PROMPT}]}
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two"
    assert eventually(lambda: hotel.tokens() == 7)
    hotel.openai.script(status(404, {"error": {"message": "no such model", "type": "x", "code": "model_not_found"}}))
    with pytest.raises(openai.NotFoundError, match="no such model"):
        client.chat.completions.create(**asked)
    with pytest.raises(openai.AuthenticationError, match="invalid virtual key"):
        openai.OpenAI(base_url=f"{hotel.url}/p/openai", api_key="sk-no", max_retries=0).files.list()
    assert hotel.product.api("GET", "/api/logs/cursor?limit=5").json()["entries"] == []


def test_anthropic_s_sdk_lists_and_asks_with_its_own_version(hotel):
    client = anthropic.Anthropic(base_url=f"{hotel.url}/p/anthropic", api_key=hotel.key, max_retries=0, timeout=15.0)
    assert [batch.id for batch in client.messages.batches.list()] == ["msgbatch_1"]
    message = {
        **{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn"},
        **{"stop_sequence": None, "content": [{"type": "text", "text": "hi"}]},
        "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 4},
    }
    hotel.claude.route("POST", "/v1/messages", status(200, message))
    found = client.messages.create(
        model="claude",
        max_tokens=9,
        messages=[{"role": "user", "content": PROMPT}],
        extra_headers={"anthropic-beta": "some-2099-01-01"},
    )
    assert found.content[0].text == "hi"
    asked = hotel.claude.requests[-1]
    assert asked.headers["x-api-key"] == "sk-claude-0123456789abcdef"
    assert asked.headers["anthropic-beta"] == "some-2099-01-01"
    versions = [value.decode() for name, value in asked.raw_headers if name.lower() == b"anthropic-version"]
    assert versions == [client.default_headers["anthropic-version"]]
    assert hotel.key not in repr(asked.raw_headers)
    assert eventually(lambda: hotel.tokens() == 9)


def test_raw_http_heads_limits_upgrades_and_departures(hotel):
    hotel.openai.route("HEAD", "/v1/files/1", raw(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"))
    with httpx.Client(base_url=hotel.url, headers=hotel.auth, timeout=15.0, trust_env=False) as http:
        head = http.head("/p/openai/files/1")
        assert (head.status_code, head.headers["content-length"], head.content) == (200, "12", b"")
        assert http.post("/p/openai/files", content=b"x" * 5000).status_code == 413
        assert http.get("/p/openai/%2e%2e/admin").status_code == 400
        upgraded = http.get(
            "/p/openai/realtime",
            headers={
                **{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"},
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            },
        )
        assert (upgraded.status_code, upgraded.json()["error"]["message"]) == (
            400,
            "provider passthrough does not carry websockets",
        )
        assert "date" in http.get("/p/openai/files").headers
        assert len(http.get("/p/openai/files").headers.get_list("date")) == 1
        hotel.openai.forget()
        hotel.openai.route("POST", "/v1/slow", silence())
        with pytest.raises(httpx.ReadTimeout):
            http.post("/p/openai/slow", timeout=0.5)
    hotel.openai.wait_disconnects(1)
    assert not any("realtime" in asked.path for asked in hotel.openai.requests)


def test_an_unknown_type_is_told_once_at_the_start(hotel):
    assert "ENABLED_PASSTHROUGH_PROVIDERS: 'nonsense' is no provider type, ignored" in hotel.product.output
    found = hotel.product.http.get(f"{hotel.url}/p/google/x", headers=hotel.auth)
    told = 'provider passthrough for "google" is not enabled; currently enabled providers: anthropic, openai'
    assert (found.status_code, found.json()["error"]["message"]) == (404, "provider not found: google") or (
        found.status_code,
        found.json()["error"]["message"],
    ) == (400, told)


def test_what_the_page_shows_works(hotel):
    blocks = re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    ran = 0
    for kind, text in blocks:
        if kind == "sh" and text.startswith("curl"):
            quiet = text.replace("curl -s", "curl -s --noproxy '*'")
            script = f"HOTEL={hotel.url} KEY={hotel.key}\n{quiet}"
            said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=15, check=True)
            assert '"file-1"' in said.stdout
            ran += 1
        elif kind == "python":
            script = text.replace("http://127.0.0.1:8080", hotel.url).replace("sk-...", hotel.key)
            printed = []
            exec(compile(script, "page", "exec"), {"print": printed.append})
            assert printed in ([["file-1"]], [["msgbatch_1"]])
            ran += 1
    assert ran == 3


def test_it_is_not_there_unless_it_is_switched_on(tmp_path):
    with FakeProvider() as fake, Product(tmp_path) as product:
        fake.script(answer("hi"))
        body = {"name": "Alpha", "provider_type": "openai", "base_url": fake.url, "api_key": "sk-alpha-0123456789"}
        product.api("POST", "/api/providers", json=body)
        key = product.api("POST", "/api/virtual-keys", json={"name": "app"}).json()["key"]
        auth = {"Authorization": f"Bearer {key}"}
        for path in ("/p/openai/files", "/p/openai/v1/files", "/p"):
            off = product.http.get(f"{product.url}{path}", headers=auth)
            assert off.status_code == 404
            assert off.json()["error"]["code"] == "unknown_url"
        assert not any(asked.path == "/v1/files" for asked in fake.requests)
