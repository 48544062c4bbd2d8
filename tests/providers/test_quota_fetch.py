"""Asking a provider for its quota: what is repeated, what is final, and who is left alone for a while."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from modelhotel.core.clock import ManualClock
from providers import control
from providers.cache import ProviderRow
from providers.kinds.base import Http, Kind
from providers.quota.fetch import Fetcher
from providers.quota.store import Fetched
from tests.failover.rows import provider
from tests.upstream.server import FakeProvider, Hold, hang_up, reply, silence, status


class Usage:
    kind = "usage"
    fleeting: frozenset[str] = frozenset()

    async def read(self, http: Http, base_url: str, key: str) -> Any:
        answer = await http.get(base_url + "/usage", [])
        return answer["left"] if answer["left"] != "nothing" else None


class Telling(Kind):
    type = "telling"
    label = "Telling"
    quota = Usage()


class Desk:
    def __init__(self, upstream: FakeProvider) -> None:
        self.clock = ManualClock()
        self.waits: list[float] = []
        self.fetcher = Fetcher(self.clock, self._sleep, lambda: 0.5)
        self.upstream = upstream

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def row(self, name: str = "P", upstream: FakeProvider | None = None) -> ProviderRow:
        url = (upstream or self.upstream).url
        return provider(name, 1.0, kind=Telling(), base_url=url, sealed=None)

    def answers(self, *behaviours: Any) -> None:
        """One after the other; the last one for ever."""
        left = list(behaviours)
        self.upstream.route("GET", "/v1/usage", lambda wire: (left.pop(0) if left[1:] else left[0])(wire))

    def ask(self) -> Fetched | None:
        return control.LOOP.run(self.fetcher.one(self.row()))

    @property
    def calls(self) -> int:
        return len(self.upstream.requests)


@pytest.fixture
def desk(provider_a: FakeProvider) -> Desk:
    return Desk(provider_a)


GOOD = reply(200, {"left": 5})


def test_a_payload_is_what_the_reader_makes_of_the_answer(desk: Desk):
    desk.answers(GOOD)
    assert desk.ask() == Fetched(5, 200)
    desk.answers(reply(200, {"left": "nothing"}))
    assert desk.ask() == Fetched(None, 204)


def test_what_may_pass_is_asked_again_with_growing_waits(desk: Desk):
    desk.answers(status(503), status(429), GOOD)
    assert desk.ask() == Fetched(5, 200)
    assert (desk.calls, desk.waits) == (3, [4.5, 7.5])


@pytest.mark.parametrize("broken", [status(500), status(429), hang_up()])
def test_three_tries_without_an_answer_are_one_failure(desk: Desk, broken: Any, caplog: pytest.LogCaptureFixture):
    desk.answers(broken)
    fetched = desk.ask()
    assert fetched is not None and fetched.error and fetched.status == 0
    assert desk.calls == 3
    [line] = [record for record in caplog.records if record.getMessage() == "quota: poll fetch failed"]
    assert line.attrs == {"error": fetched.error, "provider": "P"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_key_is_a_fact_and_warned_about_once(desk: Desk, code: int, caplog: pytest.LogCaptureFixture):
    desk.answers(status(code), status(code), GOOD, status(code))
    assert [desk.ask() for _ in range(4)] == [
        Fetched(status=424),
        Fetched(status=424),
        Fetched(5, 200),
        Fetched(status=424),
    ]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "quota: provider refused its key"
    ] * 2


def test_an_answer_nobody_understands_is_a_failure(desk: Desk, caplog: pytest.LogCaptureFixture):
    desk.answers(reply(200, {"right": 5}))
    fetched = desk.ask()
    assert fetched == Fetched(error="the answer was not understood (KeyError)")
    assert desk.calls == 1


@pytest.mark.parametrize(("size", "error"), [(1024 * 1024, ""), (1024 * 1024 + 1, "the answer is too large")])
def test_an_answer_of_more_than_a_mebibyte_is_not_read(desk: Desk, size: int, error: str):
    text = b'{"left": 5, "more": "%s"}'
    desk.answers(reply(200, text % (b"x" * (size - len(text) + 2))))
    fetched = desk.ask()
    assert fetched is not None and (fetched.error, desk.calls) == (error, 1)


def test_five_failures_in_a_row_give_a_provider_five_minutes_of_rest(desk: Desk):
    desk.answers(status(404))
    for _ in range(5):
        assert desk.ask() is not None
    assert desk.ask() is None and desk.calls == 5
    desk.clock.advance(299)
    assert desk.ask() is None
    desk.clock.advance(1)
    assert desk.ask() is not None and desk.calls == 6, "then one is tried"
    assert desk.ask() is None
    desk.clock.advance(300)
    desk.answers(GOOD, status(404))
    assert desk.ask() == Fetched(5, 200)
    for _ in range(5):
        assert desk.ask() is not None, "a success starts the count anew"


def test_a_failure_in_between_is_no_reason_to_warn_again(desk: Desk, caplog: pytest.LogCaptureFixture):
    desk.answers(status(401), status(404), status(401))
    for _ in range(3):
        desk.ask()
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["quota: provider refused its key", "quota: poll fetch failed"]


def test_another_address_is_tried_at_once(desk: Desk, provider_b: FakeProvider):
    desk.answers(status(404))
    for _ in range(5):
        desk.ask()
    assert desk.ask() is None
    provider_b.route("GET", "/v1/usage", GOOD)
    moved = replace(desk.row(), base_url=provider_b.url)
    assert control.LOOP.run(desk.fetcher.one(moved)) == Fetched(5, 200)
    assert desk.ask() is None


def test_a_refused_key_is_no_failure_of_the_provider(desk: Desk):
    desk.answers(status(401))
    for _ in range(7):
        assert desk.ask() == Fetched(status=424)


def test_a_slow_provider_holds_up_no_other(desk: Desk, provider_b: FakeProvider):
    held = Hold(GOOD)
    desk.answers(held)
    provider_b.route("GET", "/v1/usage", reply(200, {"left": 7}))
    slow, quick = desk.row("slow"), desk.row("quick", provider_b)
    found = desk.fetcher.each([slow, quick])
    try:
        assert next(found) == (quick, Fetched(7, 200)), "while the other one has not answered yet"
    finally:
        held.release()
    assert list(found) == [(slow, Fetched(5, 200))]


def test_a_provider_that_never_answers_is_given_up(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("providers.quota.fetch.SECONDS", 0.3)
    desk.answers(silence())
    assert desk.ask() == Fetched(error="no answer within 0 s")


def test_a_type_without_a_reader_is_never_asked(desk: Desk):
    row = provider("P", 1.0, base_url=desk.upstream.url, sealed=None)
    assert list(desk.fetcher.each([row])) == []
    assert desk.calls == 0


def test_who_asks_while_another_does_is_given_the_same_answer(desk: Desk):
    desk.answers(GOOD)

    async def three() -> list[Fetched | None]:
        row = desk.row()
        return await asyncio.gather(*(desk.fetcher.one(row) for _ in range(3)))

    found = control.LOOP.run(three())
    assert found == [Fetched(5, 200)] * 3 and desk.calls == 1
    assert [one.shape for one in found if one] == [("left",), (), ()], "one fetch is one sighting"
    assert desk.ask() == Fetched(5, 200) and desk.calls == 2


def test_a_process_that_ends_cuts_its_fetches_off_and_holds_them_against_nobody(desk: Desk, caplog):
    held = Hold(GOOD)
    desk.answers(held)
    waiting = [control.LOOP.start(desk.fetcher.one(desk.row())) for _ in range(2)]
    try:
        assert held.reached.wait(10)
        desk.fetcher.halt()
        assert [one.result(10) for one in waiting] == [None, None]
        assert desk.ask() is None and desk.calls == 1, "nobody is asked any more"
    finally:
        held.release()
    desk.fetcher.resume()
    desk.answers(GOOD)
    assert desk.ask() == Fetched(5, 200) and not desk.fetcher._fuse._failed and not caplog.records


def test_who_stops_waiting_does_not_end_the_call(desk: Desk):
    held = Hold(GOOD)
    desk.answers(held)
    row = desk.row()

    async def leaves_and_stays() -> Fetched | None:
        leaving, staying = (asyncio.create_task(desk.fetcher.one(row)) for _ in range(2))
        await asyncio.to_thread(held.reached.wait, 10)
        leaving.cancel()
        held.release()
        return await staying

    assert control.LOOP.run(leaves_and_stays()) == Fetched(5, 200)
    assert desk.calls == 1


def test_the_shape_of_an_answer_is_that_before_anything_is_dropped(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    desk.answers(reply(200, {"left": 5, "more": {"unknown": [{"x": 1}]}}), reply(200, {"left": "nothing"}), status(500))
    assert desk.ask().shape == ("left", "more", "more.unknown", "more.unknown[]", "more.unknown[].x")
    assert desk.ask().shape == () and desk.ask().shape == ()
    desk.answers(reply(200, {"left": 5, "more": 1}))
    monkeypatch.setattr(Usage, "fleeting", frozenset({"more"}))
    assert desk.ask().shape == ("left",)
