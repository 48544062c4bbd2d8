"""The running product against a provider that lists a model and refuses it."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.upstream.server import Behaviour, answer, reply
from tests.wire.house import MODEL, House, house
from tests.wire.product import eventually
from tests.wire.scraping import scrape

PROBES = "modelhotel_retirement_probes_total"
UNLISTED, ANSWERING = "unlisted", "answering"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    """A product for each test: strikes and probes of one would count in the next."""
    with house(tmp_path, more=(UNLISTED, ANSWERING)) as found:
        yield found


def refusal(model: str) -> Behaviour:
    text = f"The model `{model}` does not exist"
    return reply(404, {"error": {"message": text, "type": "invalid_request_error", "code": None}})


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


def row_of(home: House, model: str) -> dict[str, Any]:
    """The row of Alpha's."""
    rows = home.admin("GET", f"/api/models?provider_id={home.ids['Alpha']}").json()
    found: dict[str, Any] = next(row for row in rows if row["model_id"] == model)
    return found


def enabled(home: House, model: str) -> bool:
    return bool(row_of(home, model)["enabled"])


def probes(home: House, model: str, verdict: str) -> float:
    return scrape(home.product).of(PROBES, provider="Alpha", model=model, verdict=verdict)


def list_anew(home: House, *models: str) -> None:
    home.a.models = list(models)
    home.admin("POST", f"/api/providers/{home.ids['Alpha']}/discover")


def test_a_model_that_is_still_listed_goes_at_the_third_refusal_and_the_group_goes_on(home: House):
    """part of providers 54"""
    listener = Listener(home, "model.auto_disabled_gone")
    home.a.script(refusal(MODEL), model=MODEL)
    assert home.ask().status_code == 200  # Beta takes over
    assert eventually(lambda: probes(home, MODEL, "refused") == 1.0)
    assert enabled(home, MODEL)
    for _ in range(2):
        assert enabled(home, MODEL)
        assert home.ask(f"Alpha/{MODEL}").status_code == 404
    assert eventually(lambda: not enabled(home, MODEL))
    listener.join(10)
    (told,) = listener.seen
    assert (told["metadata"]["provider_name"], told["metadata"]["strikes"]) == ("Alpha", 3)
    assert probes(home, MODEL, "refused") == 1.0 and len(home.a.calls) == 4  # three requests and one probe
    assert home.ask().status_code == 200
    assert len(home.a.calls) == 4  # nobody asks it any more
    # A listing does not bring it back, its operator does.
    list_anew(home, MODEL, UNLISTED, ANSWERING)
    assert not enabled(home, MODEL)
    home.a.script(answer("back"), model=MODEL)
    home.admin("PATCH", f"/api/models/{row_of(home, MODEL)['id']}", json={"enabled": True})
    assert home.ask(f"Alpha/{MODEL}").status_code == 200


def test_a_model_that_is_not_listed_goes_at_the_first_refusal(home: House):
    """part of providers 54"""
    listener = Listener(home, "model.auto_disabled_gone")
    list_anew(home, MODEL, ANSWERING)
    assert enabled(home, UNLISTED)
    home.a.script(refusal(UNLISTED), model=UNLISTED)
    assert home.ask(f"Alpha/{UNLISTED}").status_code == 404
    assert eventually(lambda: not enabled(home, UNLISTED))
    listener.join(10)
    assert [event["metadata"]["strikes"] for event in listener.seen] == [1]
    assert "sk-alpha" not in home.product.output


def test_a_provider_that_answers_the_probe_keeps_its_model(home: House):
    """part of providers 54"""
    list_anew(home, MODEL)
    rows = home.admin("GET", "/api/logs/cursor?limit=1").json()["total"]
    home.a.script(refusal(ANSWERING), answer("Hi"), model=ANSWERING)
    assert home.ask(f"Alpha/{ANSWERING}").status_code == 404
    assert eventually(lambda: probes(home, ANSWERING, "served") == 1.0)
    assert enabled(home, ANSWERING)
    # The probe is no request of anybody's.
    assert home.admin("GET", "/api/logs/cursor?limit=1").json()["total"] == rows + 1
