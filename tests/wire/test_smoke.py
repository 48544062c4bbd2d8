"""The main job, end to end, under both servers."""

import json
import signal
import threading

import pytest

from tests.upstream.server import answer, status, stream
from tests.wire.house import GROUP, MODEL, house
from tests.wire.product import eventually


@pytest.fixture(scope="module", params=["serve", "daphne"])
def served(request, tmp_path_factory):
    with house(tmp_path_factory.mktemp(request.param), server=request.param) as found:
        yield found


@pytest.fixture
def home(served):
    served.fresh()
    return served


def test_health_answers_and_head_too(home):
    assert (home.product.get("/health").status_code, home.product.get("/health").text) == (200, "OK")
    assert home.product.http.head(home.product.url + "/healthz").status_code == 200


@pytest.mark.parametrize("model", [GROUP, f"Alpha/{MODEL}", MODEL])
@pytest.mark.parametrize("streaming", [False, True])
def test_every_form_of_the_name_is_answered(home, model, streaming):
    home.a.script(stream(["from A"]) if streaming else answer("from A"))
    found = home.ask(model, stream=streaming)
    assert found.status_code == 200 and "from A" in found.text
    assert found.headers["content-type"].startswith("text/event-stream" if streaming else "application/json")


def test_a_dead_first_provider_is_not_noticed_and_its_circuit_opens_live(home):
    seen: list[dict] = []
    ready = threading.Event()

    def listen():
        url, headers = f"{home.product.url}/api/events", {"Authorization": f"Bearer {home.product.token}"}
        with home.product.http.stream("GET", url, headers=headers) as events:
            for line in events.iter_lines():
                ready.set()
                if line.startswith("data: "):
                    seen.append(json.loads(line[6:]))
                    if seen[-1]["type"] == "circuit_breaker.open":
                        return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    assert ready.wait(5)
    home.a.script(status(503))
    for _ in range(6):
        assert home.ask().json()["choices"][0]["message"]["content"] == "from B"
    listener.join(5)
    opened = seen[-1]
    assert opened["type"] == "circuit_breaker.open" and opened["severity"] == "warning"
    assert opened["message"] == f"Provider Alpha circuit breaker: open for model {MODEL}: upstream status 503"
    assert len(home.a.calls) == 5
    assert home.circuit("Alpha")["state"] == "open"
    assert home.trail() == [(-1, "Alpha", None, None, "skipped"), (0, "Beta", 200, None, "success")]


def test_a_reorder_is_in_force_when_its_answer_arrives(home):
    try:
        home.order("Beta", "Alpha")
        assert home.ask().headers["x-modelhotel-provider"] == "Beta"
    finally:
        home.order("Alpha", "Beta")
    assert home.ask().headers["x-modelhotel-provider"] == "Alpha"


def test_a_deleted_key_is_refused_at_once(home):
    made = home.admin("POST", "/api/virtual-keys", json={"name": "short-lived"}).json()
    headers = {"Authorization": f"Bearer {made['key']}"}
    assert home.product.get("/v1/models", headers=headers).status_code == 200
    home.admin("DELETE", f"/api/virtual-keys/{made['id']}")
    assert home.product.get("/v1/models", headers=headers).status_code == 401


def test_a_client_that_leaves_mid_stream_ends_the_upstream_call(home):
    home.a.script(stream(["x"] * 500, delay=0.02))
    with home.http.stream("POST", "/v1/chat/completions", json={"model": GROUP, "stream": True}) as response:
        next(response.iter_lines())
    home.a.wait_disconnects(1)
    assert eventually(lambda: home.row()["error_kind"] == "client_disconnect")
    assert home.row()["status_code"] == 0
    assert home.circuit("Alpha")["consecutive_fails"] == 0


def test_the_sync_command_beside_the_running_server(home):
    found = home.product.manage("sync_failover_groups", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == {"deleted_groups": None}
    dry = home.product.manage("sync_failover_groups", "--dry-run")
    assert dry.stdout.splitlines()[0] == "Dry run: no changes were written."


def test_a_stop_lets_the_running_stream_finish_and_exits_with_zero(tmp_path):
    with house(tmp_path) as home:
        home.a.script(stream([f"{n} " for n in range(20)], delay=0.05))
        with home.http.stream("POST", "/v1/chat/completions", json={"model": GROUP, "stream": True}) as response:
            lines = response.iter_lines()
            next(lines)
            home.product.process.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert home.product.exit_code() == 0
