"""The running product against a provider that lists a model and refuses it."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.upstream.server import answer, reply
from tests.wire.house import MODEL, House, house
from tests.wire.product import eventually
from tests.wire.scraping import scrape

PROBES = "modelhotel_retirement_probes_total"
REFUSAL = {"error": {"message": f"The model `{MODEL}` does not exist", "type": "invalid_request_error", "code": None}}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path, more=("other",)) as found:
        yield found


class Listener(threading.Thread):
    """Reads the live events until it has seen the wanted type."""

    def __init__(self, home: House, wanted: str) -> None:
        super().__init__(daemon=True)
        self.home, self.wanted = home, wanted
        self.connected = threading.Event()
        self.seen: list[dict[str, Any]] = []
        self.start()
        assert self.connected.wait(10)

    def run(self) -> None:
        product = self.home.product
        headers = {"Authorization": f"Bearer {product.token}"}
        with product.http.stream("GET", f"{product.url}/api/events", headers=headers, timeout=40) as stream:
            for line in stream.iter_lines():
                self.connected.set()
                if line.startswith("data:") and json.loads(line[5:]).get("type") == self.wanted:
                    self.seen.append(json.loads(line[5:]))
                    return


def row_of(home: House, provider: str) -> dict[str, Any]:
    rows = home.admin("GET", f"/api/models?provider_id={home.ids[provider]}").json()
    found: dict[str, Any] = next(row for row in rows if row["model_id"] == MODEL)
    return found


def probes(home: House, verdict: str) -> float:
    return scrape(home.product).of(PROBES, provider="Alpha", model=MODEL, verdict=verdict)


def test_a_model_that_is_still_listed_goes_at_the_third_refusal_and_the_group_goes_on(home: House):
    """part of providers 54"""
    listener = Listener(home, "model.auto_disabled_gone")
    home.a.script(reply(404, REFUSAL), model=MODEL)
    assert home.ask().status_code == 200  # Beta takes over
    assert eventually(lambda: probes(home, "refused") == 1.0)
    assert row_of(home, "Alpha")["enabled"]
    assert home.ask(f"Alpha/{MODEL}").status_code == 404
    assert row_of(home, "Alpha")["enabled"]
    assert home.ask(f"Alpha/{MODEL}").status_code == 404
    assert eventually(lambda: not row_of(home, "Alpha")["enabled"])
    listener.join(10)
    (told,) = listener.seen
    assert (told["metadata"]["provider_name"], told["metadata"]["strikes"]) == ("Alpha", 3)
    before = len(home.a.calls)
    assert before == 4 and probes(home, "refused") == 1.0  # three requests and one probe
    assert home.ask().status_code == 200
    assert len(home.a.calls) == before  # nobody asks it any more
    # A listing does not bring it back, its operator does.
    home.admin("POST", f"/api/providers/{home.ids['Alpha']}/discover")
    assert not row_of(home, "Alpha")["enabled"]
    home.a.script(answer("back"), model=MODEL)
    home.admin("PATCH", f"/api/models/{row_of(home, 'Alpha')['id']}", json={"enabled": True})
    assert home.ask(f"Alpha/{MODEL}").status_code == 200


def test_a_model_that_is_not_listed_goes_at_the_first_refusal(home: House):
    """part of providers 54"""
    listener = Listener(home, "model.auto_disabled_gone")
    home.a.models = ["other"]
    home.admin("POST", f"/api/providers/{home.ids['Alpha']}/discover")
    assert row_of(home, "Alpha")["enabled"]
    home.a.script(reply(404, REFUSAL), model=MODEL)
    assert home.ask(f"Alpha/{MODEL}").status_code == 404
    assert eventually(lambda: not row_of(home, "Alpha")["enabled"])
    listener.join(10)
    assert [event["metadata"]["strikes"] for event in listener.seen] == [1]
    assert "sk-alpha" not in home.product.output


def test_a_provider_that_answers_the_probe_keeps_its_model(home: House):
    """part of providers 54"""
    home.a.models = ["other"]
    home.admin("POST", f"/api/providers/{home.ids['Alpha']}/discover")
    home.a.script(reply(404, REFUSAL), answer("Hi"), model=MODEL)
    began = time.monotonic()
    assert home.ask(f"Alpha/{MODEL}").status_code == 404
    assert time.monotonic() - began < 5
    assert eventually(lambda: probes(home, "served") == 1.0)
    assert row_of(home, "Alpha")["enabled"]
    rows = home.admin("GET", "/api/logs/cursor?limit=10").json()
    assert rows["total"] == 1  # the probe is no request of anybody's
