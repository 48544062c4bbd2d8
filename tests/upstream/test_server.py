"""The fake provider does what its script says; everything else rests on that."""

import json
import socket
import threading

import httpx
import pytest

from tests.upstream.server import (
    FakeProvider,
    Hold,
    Unreachable,
    answer,
    cut_after,
    gzip,
    headers_then_silence,
    raw,
    reset,
    silence,
    status,
    stream,
    tools_stream,
    wrong_length,
)

CHAT = {"model": "glm-4.6", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def http():
    with httpx.Client(timeout=5, trust_env=False) as client:
        yield client


def ask(http: httpx.Client, provider: FakeProvider, **more: object) -> httpx.Response:
    return http.post(provider.url + "/chat/completions", json={**CHAT, **more}, headers={"Authorization": "Bearer k"})


def test_a_script_is_played_in_order_and_its_last_step_stays(http, provider_a):
    provider_a.script(status(500), answer("one"), answer("two"))
    assert [ask(http, provider_a).status_code for _ in range(4)] == [500, 200, 200, 200]
    assert ask(http, provider_a).json()["choices"][0]["message"]["content"] == "two"
    assert len(provider_a.calls) == 5 and provider_a.accepted == 1
    assert provider_a.calls[0].headers["authorization"] == "Bearer k" and provider_a.calls[0].model == "glm-4.6"


def test_a_script_can_be_for_one_model(http, provider_a):
    provider_a.script(status(503), model="other")
    assert ask(http, provider_a).status_code == 200
    assert ask(http, provider_a, model="other").status_code == 503


def test_a_stream_sends_usage_only_when_asked(http, provider_b):
    provider_b.script(stream(["a", "b"]))
    plain = ask(http, provider_b, stream=True).text
    asked = ask(http, provider_b, stream=True, stream_options={"include_usage": True}).text
    assert "usage" not in plain and plain.endswith("data: [DONE]\n\n")
    assert '"completion_tokens": 5' in asked


def test_tool_calls_come_in_fragments(http, provider_a):
    provider_a.script(tools_stream())
    lines = [line for line in ask(http, provider_a, stream=True).text.split("\n\n") if line.startswith("data: {")]
    parts = [json.loads(line[6:])["choices"][0]["delta"].get("tool_calls") for line in lines]
    assert "".join(p[0]["function"]["arguments"] for p in parts if p) == '{"city":"Rome"}'


def test_a_silent_provider_notices_that_the_client_left(http, provider_c):
    with pytest.raises(httpx.ReadTimeout):
        http.post(provider_c.url + "/chat/completions", json=CHAT, timeout=0.1)
    provider_c.wait_disconnects(1)
    assert provider_c.calls[0].disconnected


@pytest.mark.parametrize("step", [reset(), reset(before_headers=False), cut_after(2), wrong_length(5), raw(b"")])
def test_faults_break_the_exchange(http, provider_a, step):
    provider_a.script(step)
    with pytest.raises(httpx.TransportError):
        ask(http, provider_a, stream=True)


def test_refusing_ends_with_listening_on_the_same_port(http, provider_a):
    assert ask(http, provider_a).status_code == 200
    provider_a.refuse()
    with pytest.raises(httpx.ConnectError):
        ask(http, provider_a)
    provider_a.listen()
    assert ask(http, provider_a).status_code == 200


def test_headers_come_before_the_silence(http, provider_a):
    provider_a.script(headers_then_silence())
    with http.stream("POST", provider_a.url + "/chat/completions", json=CHAT, timeout=0.2) as response:
        assert response.status_code == 200
        with pytest.raises(httpx.ReadTimeout):
            response.read()


def test_a_held_answer_waits_for_the_test(http, provider_a):
    hold = Hold(answer("late"))
    provider_a.script(hold)
    got: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: got.append(ask(http, provider_a)))
    thread.start()
    assert hold.reached.wait(5) and not got
    hold.release()
    thread.join(5)
    assert got[0].json()["choices"][0]["message"]["content"] == "late"


def test_compressed_answers_are_marked(http, provider_a):
    provider_a.script(gzip())
    assert ask(http, provider_a).headers["content-encoding"] == "gzip"


def test_listings_of_every_face(http):
    with FakeProvider(["a"]) as p:
        assert [m["id"] for m in http.get(p.url + "/models").json()["data"]] == ["a"]
        assert http.get(p.origin + "/api/tags").status_code == 404
    with FakeProvider(["llama3:8b"], face="ollama") as p:
        assert http.get(p.origin + "/api/tags").json()["models"][0]["name"] == "llama3:8b"
        assert "tools" in http.post(p.origin + "/api/show", json={"model": "llama3:8b"}).json()["capabilities"]
    with FakeProvider(["qwen"], face="lmstudio") as p:
        assert http.get(p.origin + "/api/v0/models").json()["data"][0]["max_context_length"] == 32768
        assert "error" in http.get(p.origin + "/api/tags").json()


def test_an_unreachable_port_neither_accepts_nor_refuses():
    with Unreachable() as hole, socket.socket() as sock:
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.connect(("127.0.0.1", hole.port))


def test_silence_can_end(http, provider_a):
    provider_a.script(silence(0.05))
    with pytest.raises(httpx.RemoteProtocolError):
        ask(http, provider_a)
