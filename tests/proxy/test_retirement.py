"""From refusals under ``/v1`` to the model row: real requests, a real provider, a real database; no clock runs.

What follows from a strike is kept until the test lets it happen.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.contrib.admin import site
from prometheus_client import REGISTRY

from modelhotel.core import events
from modelhotel.core.actor import ADMIN
from modelhotel.core.clock import ManualClock, rfc3339
from modelhotel.core.threads import released
from providers import model_verbs, queries, retire
from providers.discovery import current, scan
from providers.discovery.scan import Scanner
from providers.models import Model, Provider
from proxy import walk
from proxy.gone.retirement import Retirement
from requestlogs.models import RequestLog
from requestlogs.recorder import RECORDER
from tests.proxy import world
from tests.proxy.asgi import Answer, chat, embed
from tests.upstream.server import FakeProvider, Hold, answer, first_event_error, no_content, reply, status, vectors

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

GONE = reply(404, {"error": {"message": "The model 'm' does not exist", "type": "invalid_request_error"}})
PROBE = {
    "model": "m",
    "messages": [{"role": "user", "content": "Respond only with `Hi`"}],
    "max_tokens": 64,
    "stream": False,
}
REFUSED_URL = "http://127.0.0.1:9/v1"


class House:
    """Provider P with the models m and other, listed five minutes ago; nothing follows a strike before ``follow``."""

    def __init__(self, upstream: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
        self.up = upstream
        self.clock = ManualClock()
        monkeypatch.setattr(scan, "SCANNER", Scanner(self.clock))
        self.waiting: list[Callable[[], None]] = []
        lacks = lambda model_id: current.lacks(model_id, self.clock)  # noqa: E731
        self.retirement = Retirement(self.clock, lacks=lacks, start=self.waiting.append)
        monkeypatch.setattr(walk, "TOOLS", replace(walk.TOOLS, retirement=self.retirement))
        self.provider = world.provider("P", upstream.url)
        self.seen: list[events.Event] = []
        events.subscribe(self.seen.append)
        upstream.models = ["m", "other"]
        scan.SCANNER.one(str(self.provider.pk))
        self.clock.advance(301)
        upstream.forget()
        self.seen.clear()
        self.key = world.key()
        world.ready()

    @property
    def model(self) -> Model:
        return Model.objects.get(provider=self.provider, model_id="m")

    @property
    def strikes(self) -> int:
        return sum(case.strikes for case in self.retirement.cases.values())

    def refuse(self) -> None:
        """The provider does, from now on; the product's own question too."""
        self.up.script(GONE, model="m")

    def ask(self, times: int = 1) -> int:
        """The status of the last of so many chat requests for m."""
        return [self.chat().status for _ in range(times)][-1]

    def chat(self, *, stream: bool = False) -> Answer:
        said = [{"role": "user", "content": "hi"}]
        return chat(self.key, {"model": "P/m", "messages": said, "stream": stream})

    def follow(self) -> int:
        """Let everything happen that waits; how much that was."""
        work, self.waiting[:] = list(self.waiting), []
        for one in work:
            one()
        return len(work)

    def told(self, type: str) -> list[events.Event]:
        return [event for event in self.seen if event.type == type]

    @property
    def listings(self) -> int:
        return sum(request.path.endswith("/models") for request in self.up.requests)


@pytest.fixture
def house(provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> House:
    return House(provider_a, monkeypatch)


def probes(verdict: str) -> float:
    labels = {"provider": "P", "model": "m", "verdict": verdict}
    return REGISTRY.get_sample_value("modelhotel_retirement_probes_total", labels) or 0.0


# -- the first strike


def test_a_model_that_is_refused_and_not_listed_is_switched_off_at_the_first_strike(house: House, caplog):
    """providers 54. The first strike, not listed."""
    caplog.set_level(logging.INFO)
    before = probes("refused")
    house.refuse()
    house.up.models = ["other"]
    assert house.ask() == 404
    assert house.model.enabled and house.strikes == 1  # the request waits for nothing
    assert house.follow() == 1
    row = house.model
    assert (row.enabled, row.disabled_manually, row.auto_retired_at) == (False, False, house.clock.now())
    assert [call.json for call in house.up.calls][1:] == [PROBE] and house.listings == 1
    assert queries.model_object(row)["auto_retired_at"] == rfc3339(house.clock.now())
    assert "refused by provider" in str(site._registry[Model].state(row))
    (told,) = house.told("model.auto_disabled_gone")
    assert (told.severity, told.source) == ("warning", "proxy")
    assert told.metadata == {
        "model_id": "m",
        "model_uuid": str(row.pk),
        "provider_name": "P",
        "strikes": 1,
        "reason": "provider_model_gone",
        "probe_verdict": "refused",
        "endpoint_type": "chat",
    }
    assert "P no longer serves m" in told.message
    assert probes("refused") == before + 1 and house.strikes == 0
    assert "proxy: model switched off" in caplog.text
    assert house.ask() == 404 and not house.waiting  # routing leaves it out: nobody is asked any more
    assert len(house.up.calls) == 2


def test_where_the_listing_still_names_it_the_third_strike_switches_it_off(house: House):
    """providers 54. The third strike, listed."""
    house.refuse()
    house.ask()
    house.follow()
    assert house.model.enabled and house.listings == 1
    house.ask()
    assert not house.waiting and house.model.enabled
    house.ask()
    assert house.follow() == 1
    assert not house.model.enabled and len(house.up.calls) == 4  # three requests and one probe
    assert [event.metadata["strikes"] for event in house.told("model.auto_disabled_gone")] == [3]


@pytest.mark.parametrize("listed", [True, False])
def test_a_young_listing_is_not_fetched_again(house: House, listed: bool):
    house.up.models = ["m", "other"] if listed else ["other"]
    scan.SCANNER.one(str(house.provider.pk))
    house.clock.advance(299)
    house.up.forget()
    house.refuse()
    house.ask()
    house.follow()
    assert house.model.enabled is listed and house.listings == 0


@pytest.mark.parametrize("models", [[], None])
def test_a_listing_that_fails_or_is_empty_does_not_count(house: House, models: list[str] | None):
    """Rule 8.2.3 besides: with a healthy alternative the provider's inventory is stale after it."""
    other = world.provider("Q", REFUSED_URL)
    world.model(other, "x")
    house.refuse()
    if models is None:
        house.up.route("GET", "/v1/models", status(401))
    else:
        house.up.models = models
    house.ask()
    house.follow()
    assert house.model.enabled and house.listings == 1
    row = Provider.objects.get(pk=house.provider.pk)
    assert row.inventory_stale and row.last_model_fetch_error
    assert house.strikes == 1
    house.ask(2)
    house.follow()
    assert not house.model.enabled  # by the strikes, as if it were listed


def test_a_provider_that_is_not_to_be_listed_is_not_listed_for_this(house: House):
    Provider.objects.update(autodiscovery_enabled=False)
    house.refuse()
    house.ask()
    house.follow()
    assert house.model.enabled and house.listings == 0


# -- verdicts


def test_a_probe_that_is_answered_clears_the_strikes(house: House, caplog):
    """providers 54. A probe with content."""
    before = probes("served")
    house.up.script(GONE, answer("Hi"), model="m")
    house.ask()
    assert house.strikes == 1
    house.follow()
    assert house.strikes == 0 and house.model.enabled
    assert probes("served") == before + 1
    assert [r.levelname for r in caplog.records if "strikes cleared" in r.message] == ["WARNING"]


@pytest.mark.parametrize(
    "behaviour", [status(429), status(503), no_content(), reply(200, {"x": "y" * 1_100_000}), reply(200, b"{")]
)
def test_any_other_answer_of_a_probe_changes_nothing(house: House, behaviour):
    """providers 54. A probe that says neither."""
    before = probes("inconclusive")
    house.up.script(GONE, behaviour, GONE, model="m")
    house.ask()
    house.follow()
    assert (house.strikes, house.model.enabled, probes("inconclusive")) == (1, True, before + 1)
    house.ask(2)
    house.clock.advance(298)
    house.ask()
    assert house.strikes == 4 and not house.waiting  # no second probe for five minutes
    house.clock.advance(3)
    house.ask()
    assert len(house.waiting) == 1


def test_the_third_inconclusive_probe_in_a_row_is_told(house: House, caplog):
    house.up.script(GONE, status(503), GONE, GONE, status(503), GONE, status(503), model="m")
    house.ask()
    house.follow()
    house.ask()
    for _ in range(2):
        house.clock.advance(301)
        house.ask()
        house.follow()
    told = [r.levelname for r in caplog.records if "stay inconclusive" in r.message]
    assert told == ["WARNING"] and house.model.enabled


def test_a_probe_leaves_no_row_no_tokens_and_no_trace_in_the_circuits(house: House):
    house.up.script(GONE, status(503), model="m")
    house.ask()
    house.follow()
    assert RECORDER.flush() and RequestLog.objects.count() == 1
    board = walk.TOOLS.board()
    circuit = board._circuits.find(str(house.provider.pk), "m")
    assert circuit is None or circuit.consecutive_fails == 0
    assert world.stored().tokens_used == 0


def test_no_probe_is_sent_while_the_provider_is_dark(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(walk.TOOLS.board()), "provider_open", lambda self, provider_id: True)
    house.refuse()
    house.ask(4)
    assert house.strikes == 4 and not house.waiting


# -- strikes


@pytest.mark.parametrize(
    ("error", "strikes"),
    [
        ({"message": "The model 'm' does not exist"}, 1),
        ({"message": "The model 'm.1' does not exist"}, 0),
        ({"message": "m-20250514 does not exist"}, 1),
        ({"message": "m is not supported for this endpoint"}, 0),
        ({"code": "model_not_found", "message": "no"}, 1),
        ({"type": "not_found_error", "message": "file-123 was not found"}, 0),
    ],
)
def test_a_refusal_of_the_model_is_a_strike(house: House, error: dict[str, str], strikes: int):
    """providers 53"""
    house.up.script(reply(404, {"error": error}), model="m")
    house.ask()
    assert house.strikes == strikes


@pytest.mark.parametrize("stream", [False, True])
def test_a_success_between_strikes_clears_them(house: House, stream: bool):
    """providers 54. A success between strikes."""
    house.up.script(GONE, GONE, answer("Hi"), GONE, model="m")
    house.ask(2)
    assert house.strikes == 2
    assert house.chat(stream=stream).status == 200
    assert house.strikes == 0
    house.ask()
    assert house.strikes == 1


def test_an_answer_without_strikes_asks_nobody_about_them(house: House, monkeypatch: pytest.MonkeyPatch):
    def never(*args: object) -> None:
        raise AssertionError("the hot path has no business here")

    monkeypatch.setattr(house.retirement, "served", never)
    monkeypatch.setattr(house.retirement, "struck", never)
    assert house.ask() == 200
    house.up.script(status(404), model="m")  # no refusal by name
    assert house.ask() == 404


def test_half_an_hour_without_a_refusal_starts_the_count_again(house: House):
    """providers 54. Half an hour between strikes."""
    house.refuse()
    house.ask(2)
    house.clock.advance(31 * 60)
    house.ask()
    assert house.strikes == 1


def test_an_error_at_the_start_of_a_stream_strikes_too(house: House):
    house.up.script(first_event_error({"message": "The model 'm' does not exist", "code": 404}), model="m")
    house.chat(stream=True)
    assert house.strikes == 1


def test_embeddings_never_strike_against_a_chat_model(house: House):
    """providers 55. Another surface."""
    house.refuse()
    assert embed(house.key, {"model": "P/m", "input": "hi"}).status == 404
    assert house.strikes == 0 and not house.waiting


def test_fifty_refusals_are_one_probe(house: House):
    """providers 55. Many at once."""
    house.refuse()
    house.ask(50)
    assert len(house.waiting) == 1
    house.follow()
    assert sum(call.json.get("max_tokens") == 64 for call in house.up.calls) == 1
    assert not house.model.enabled


def test_an_embedding_model_is_asked_for_one_vector(house: House):
    Model.objects.filter(model_id="m").update(modality="embedding", output_modalities=["embedding"])
    world.ready()
    house.up.script(GONE, vectors(), model="m")
    assert embed(house.key, {"model": "P/m", "input": "hi"}).status == 404
    house.follow()
    assert [call.json for call in house.up.calls][1:] == [{"model": "m", "input": "Hi"}]
    assert house.strikes == 0


@pytest.mark.parametrize(
    ("body", "strikes"),
    [
        ({"type": "error", "error": {"type": "not_found_error", "message": "model: m"}}, 1),
        ({"id": "1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi"}]}, 0),
    ],
)
def test_a_probe_speaks_the_dialect_of_the_traffic(house: House, body: dict[str, object], strikes: int):
    Provider.objects.update(provider_type="anthropic-messages")
    world.ready()
    refused = reply(404, {"type": "error", "error": {"type": "not_found_error", "message": "model: m"}})
    house.up.script(refused, reply(404 if strikes else 200, body), model="m")
    assert house.ask() == 404
    house.follow()
    asked, probe = house.up.calls[:2]
    assert asked.path == probe.path == "/v1/messages"
    assert probe.json["max_tokens"] == 64 and probe.json["messages"][0]["role"] == "user"
    assert house.strikes == strikes and len(house.told("model.auto_disabled_gone")) == 0


def test_a_refusal_inside_a_200_counts_as_one(house: House):
    Provider.objects.update(provider_type="minimax")
    world.ready()
    said = {"base_resp": {"status_code": 2013, "status_msg": "invalid params, unknown model 'm'"}}
    house.up.script(reply(200, said), model="m")
    house.up.models = ["other"]
    house.ask()
    house.follow()
    assert not house.model.enabled


# -- the write


def test_what_an_operator_does_while_the_probe_runs_stays(house: House):
    """providers 56"""
    held = Hold(GONE)
    house.up.script(GONE, held, model="m")
    house.up.models = ["other"]
    house.ask()
    following = threading.Thread(target=released, args=(house.follow,))
    following.start()
    try:
        assert held.reached.wait(10)
        model_verbs.update_model(str(house.model.pk), {"enabled": False}, ADMIN)
    finally:
        held.release()
        following.join(10)
    assert house.listings == 1, "the verdict was a refusal, and the model is not listed"
    row = house.model
    assert (row.enabled, row.disabled_manually, row.auto_retired_at) == (False, True, None)
    assert not house.told("model.auto_disabled_gone")


def test_a_success_while_the_probe_runs_keeps_the_model_on(house: House):
    house.up.script(GONE, answer("Hi"), GONE, model="m")
    house.ask()
    house.ask()
    assert house.strikes == 0
    house.follow()
    assert house.model.enabled and not house.told("model.auto_disabled_gone")


def test_a_success_during_the_commit_undoes_the_write(house: House):
    answers = iter([True, False])
    assert not retire.retire(str(house.model.pk), lambda: next(answers), house.clock)
    row = house.model
    assert (row.enabled, row.auto_retired_at) == (True, None)


@pytest.mark.parametrize("written", [{"disabled_manually": True}, {"auto_retired_at": None}])
def test_it_is_not_undone_where_somebody_has_decided_since(house: House, written: dict[str, object]):
    def stands() -> bool:
        if Model.objects.get(model_id="m").enabled:
            return True
        Model.objects.filter(model_id="m").update(**written)
        return False

    assert not retire.retire(str(house.model.pk), stands, house.clock)
    assert not house.model.enabled


@pytest.mark.parametrize(
    "state", [{"enabled": False}, {"disabled_manually": True}, {"auto_retired_at": ManualClock().now()}]
)
def test_a_row_that_somebody_has_decided_about_is_left_alone(house: House, state: dict[str, object]):
    Model.objects.filter(model_id="m").update(**state)
    before = Model.objects.filter(model_id="m").values().get()
    assert not retire.retire(str(house.model.pk), lambda: True, house.clock)
    assert Model.objects.filter(model_id="m").values().get() == before


@pytest.mark.parametrize("whole", [False, True])
def test_a_row_that_is_deleted_is_no_error(house: House, caplog: pytest.LogCaptureFixture, whole: bool):
    """The model's, or its provider's with it."""
    house.refuse()
    house.up.models = ["other"]
    house.ask()
    Model.objects.filter(model_id="m").delete()
    if whole:
        house.provider.delete()
    house.follow()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert not house.told("model.auto_disabled_gone")


def test_a_custom_group_that_it_leaves_with_one_member_is_switched_off(house: House):
    group = world.group("g", house.model, world.model(house.provider, "third"))
    world.ready()
    house.refuse()
    house.up.models = ["other", "third"]
    house.ask()
    house.follow()
    group.refresh_from_db()
    assert not group.group_enabled and group.auto_disabled_at is not None


def test_an_operators_enable_clears_it(house: House):
    house.refuse()
    house.up.models = ["other"]
    house.ask()
    house.follow()
    assert not house.model.enabled
    house.clock.advance(timedelta(minutes=10).total_seconds())
    house.up.models = ["m", "other"]
    scan.SCANNER.one(str(house.provider.pk))
    assert not house.model.enabled  # a listing does not bring it back
    model_verbs.update_model(str(house.model.pk), {"enabled": True}, ADMIN)
    assert house.model.enabled and house.model.auto_retired_at is None
