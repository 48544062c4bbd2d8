"""What a race makes of results that come in the same turn of the loop, or with the client's leave (failover-loop 12.7).

The attempts are real but for what they wait for: each opens as it is told, without a socket.
"""

import asyncio
import random
from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from failover import verdict
from proxy import answers, endpoints, policy
from proxy.chat_attempt import ChatAttempt
from proxy.terminal import Failure
from tests.proxy.asgi import Client
from tests.proxy.walk.stage import Stage
from tests.upstream import rig

SUPERSEDED = "superseded by the winner while in flight"
GONE = "client disconnected while in flight"


class Answered:
    """A 2xx whose body nobody reads."""

    status = 200
    dial_ms = 0.0

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Script:
    """``told[name]`` is what an attempt opens with: None = its first token is there. It has headers from the start."""

    def __init__(self) -> None:
        self.told: dict[str, asyncio.Future[Failure | None]] = {}
        self.responses: dict[str, Answered] = {}
        self.released: list[str] = []
        self.launched = asyncio.Condition()

    async def until(self, count: int) -> None:
        async with self.launched, asyncio.timeout(5):
            await self.launched.wait_for(lambda: len(self.told) >= count)

    def tell(self, **outcomes: Failure | None) -> None:
        for name, outcome in outcomes.items():
            self.told[name].set_result(outcome)


@pytest.fixture
async def script(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Script:
    made = Script()

    class Told(ChatAttempt):
        async def _open(self, *, reissues: bool = True) -> Failure | None:
            name = self._provider.name
            told = made.told[name] = asyncio.get_running_loop().create_future()
            self._response = made.responses[name] = Answered()  # type: ignore[assignment]
            self._element.status = 200
            async with made.launched:
                made.launched.notify_all()
            failure = await told
            if failure is None:
                return None
            return self._failed(failure, verdict.probe_failed(200))

        async def _take(self, response: Any) -> Failure | None:
            self._judge(verdict.success(200))
            await self._deliver(200, b'"served by %s"' % self._provider.name.encode())
            return None

        def _close(self) -> None:
            if not self._closed:
                made.released.append(self._provider.name)
            super()._close()

    path = endpoints.CHAT.path
    monkeypatch.setitem(endpoints.ENDPOINTS, path, replace(endpoints.CHAT, attempt=Told))
    stage.set(hedging_enabled="true", hedge_delay="0s")
    for name in "ABC":
        stage.member(name, "http://127.0.0.1:9")
    return made


async def race(stage: Stage, script: Script, count: int) -> tuple[Client, "asyncio.Task[Any]"]:
    """A request with *count* attempts under way."""
    client = stage.client(stream=True, prompt="x" * 40)
    running = asyncio.create_task(client.run())
    await script.until(count)
    return client, running


async def over(stage: Stage, script: Script, running: "asyncio.Task[Any]") -> list[tuple[Any, ...]]:
    """(provider, status, error kind, detail, breaker) of every element; everything was given back exactly once."""
    await running
    await rig.nothing_runs()
    assert sorted(script.released) == sorted(script.told)
    assert all(response.closed == 1 for response in script.responses.values())
    assert stage.running == {}
    return [
        (e["provider"], e.get("status"), e.get("error_kind"), e.get("detail"), e.get("breaker"))
        for e in stage.row.attempts or []
    ]


def lost(kind: str = "provider_error", text: str = "no token") -> Failure:
    return Failure(kind, text)


async def test_of_two_first_tokens_in_one_turn_the_one_that_came_first_wins(stage: Stage, script: Script):
    """failover-loop 12.3, 12.7: a queued win counts as abandoned."""
    client, running = await race(stage, script, 3)
    script.tell(B=None, A=None)
    assert await over(stage, script, running) == [
        ("A", None, "hedge_superseded", SUPERSEDED, None),
        ("B", 200, None, None, "success"),
        ("C", None, "hedge_superseded", SUPERSEDED, None),
    ]
    assert client.answer.body == b'"served by B"' and stage.row.failover_attempt == 1
    assert stage.charged == 20  # A and C had answered 2xx: the prompt of each is paid for


async def test_a_failure_that_came_behind_the_winner_in_one_turn_keeps_its_verdict(stage: Stage, script: Script):
    """failover-loop 12.7, circuit-breaker 3: a result that had arrived stands."""
    _, running = await race(stage, script, 2)
    script.tell(A=None, B=lost())
    assert await over(stage, script, running) == [
        ("A", 200, None, None, "success"),
        ("B", 200, "provider_error", "no token", "charge"),
    ]
    assert stage.fails("B") == 1


async def test_a_failure_just_before_the_winner_launches_nobody(stage: Stage, script: Script):
    client, running = await race(stage, script, 2)
    script.tell(A=lost(), B=None)
    assert len(await over(stage, script, running)) == 2
    assert client.answer.body == b'"served by B"'


@pytest.mark.parametrize("turns", range(-4, 5))
async def test_a_client_that_leaves_around_a_first_token_is_served_or_gone(stage: Stage, script: Script, turns):
    """*turns* of the loop lie between the leave and the token."""
    client, running = await race(stage, script, 2)
    if turns <= 0:
        script.tell(A=None)
    else:
        client.left.set()
    for _ in range(abs(turns)):
        await asyncio.sleep(0)
    if turns <= 0:
        client.left.set()
    elif not script.told["A"].done():
        script.tell(A=None)
    trail = await over(stage, script, running)
    if stage.row.state == "completed":
        assert client.answer.complete
        assert trail == [("A", 200, None, None, "success"), ("B", None, "hedge_superseded", SUPERSEDED, None)]
    else:
        assert (stage.row.status_code, client.answer.status) == (499, 0)
        assert trail == [("A", None, "client_disconnect", GONE, None), ("B", None, "client_disconnect", GONE, None)]


async def test_a_stall_that_came_with_the_clients_leave_is_the_cause(stage: Stage, script: Script, monkeypatch):
    """failover-loop 91"""
    client, running = await race(stage, script, 2)
    script.tell(A=lost("provider_timeout"))
    client.left.set()
    trail = await over(stage, script, running)
    assert trail[:2] == [
        ("A", 200, "provider_timeout", None, "charge"),
        ("B", None, "client_disconnect", GONE, None),
    ]
    assert stage.row.status_code == 502


async def test_the_last_of_several_stalls_is_named(stage: Stage, script: Script):
    client, running = await race(stage, script, 3)
    script.tell(B=lost("provider_timeout", "b"), A=lost("provider_timeout", "a"))
    await script.until(3)
    client.left.set()
    await over(stage, script, running)
    assert stage.row.error_message is not None and 'provider "A" did not return' in stage.row.error_message


@pytest.mark.parametrize("order", ["ABC", "CBA", "BAC"])
async def test_the_last_word_is_that_of_the_result_that_came_last(stage: Stage, script: Script, order):
    """failover-loop 12.4"""
    client, running = await race(stage, script, 3)
    for name in order:
        script.tell(**{name: lost("provider_timeout" if name == order[-1] else "provider_error", f"of {name}")})
        await asyncio.sleep(0)
    trail = await over(stage, script, running)
    assert client.answer.said == (502, "all providers failed for model hotel/g")
    assert (stage.row.error_kind, stage.row.failover_attempt) == ("provider_timeout", 2)
    assert {name: detail for name, _, _, detail, _ in trail} == {
        name: None if name == order[-1] else f"of {name}" for name in "ABC"
    }


OUTCOMES = {
    "wins": None,
    "fails": lost(),
    "stalls": lost("provider_timeout"),
    "too long": Failure("provider_bad_request", "too long", 400, moves_on=False, too_long=True),
    "final": Failure("provider_error", "no", 422, answer=answers.error(422, "no", "x"), moves_on=False),
}


async def play(stage: Stage, script: Script, chance: random.Random) -> None:
    """Launches, results and the client's leave in any order, some of them in one turn of the loop."""
    client = stage.client(stream=True)
    running = asyncio.create_task(client.run())
    while not running.done():
        waiting = [name for name, told in script.told.items() if not told.done()]
        for name in waiting:
            if chance.random() < 0.4:
                script.tell(**{name: copy(OUTCOMES[chance.choice([*OUTCOMES, "fails", "fails"])])})
        if chance.random() < 0.05:
            client.left.set()
        await asyncio.sleep(chance.choice([0, 0, 0.001, 0.003]))
    trail = await over(stage, script, running)
    row, kinds = stage.row, [kind for _, _, kind, _, _ in trail]
    served = [n for n, element in enumerate(trail) if element[4] == "success"]
    assert client.answer.complete == (client.answer.status != 0)
    if row.state == "completed":
        assert served == [row.failover_attempt] and row.status_code == client.answer.status == 200
    else:
        assert not served and row.error_kind not in (None, "hedge_superseded") and row.status_code
        assert "hedge_superseded" not in kinds or row.status_code == 422
    for _, status, kind, note, word in trail:
        cut_off = kind in ("hedge_superseded", "client_disconnect")
        assert cut_off == (status is None) == (note in (SUPERSEDED, GONE)) == (word is None)


@pytest.mark.parametrize("seed", range(5))
async def test_any_order_of_results_ends_in_one_answer_and_gives_everything_back(
    stage: Stage, script: Script, seed, monkeypatch
):
    monkeypatch.setattr(policy, "HEDGE_FLOOR", 0.002)
    stage.set(circuit_breaker_enabled="true", circuit_breaker_threshold="100")
    chance = random.Random(seed)
    for _ in range(20):
        script.told.clear()
        script.responses.clear()
        script.released.clear()
        await play(stage, script, chance)
