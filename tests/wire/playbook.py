"""What the fault playbook's tables are made of: a fault, what it must leave at the client, in the row, in the circuit.

Provider Alpha has the fault. FIRST: Beta, healthy, stands behind it. LAST: Beta stands before it and has no such model,
so that Alpha's outcome is the client's. What is expected is what the specification says, never what was measured.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from proxy import reasons
from tests.upstream.rig import certificate
from tests.upstream.server import Behaviour, FakeProvider, status
from tests.wire.house import GROUP, MODEL, House, house
from tests.wire.product import eventually

FIRST, LAST = "first", "last"
#: Long enough for a busy machine; the silent faults have clocks of their own.
PATIENT = {"request_timeout": "20s", "ttft_timeout": "20s", "stream_stall_timeout": "20s"}
SHORT = {"request_timeout": "400ms", "ttft_timeout": "400ms", "stream_stall_timeout": "400ms"}
HOSTS = {"ALLOWED_PROVIDER_HOSTS": "127.0.0.1,nobody.invalid"}

REFUSED, UNRESOLVABLE, UNTRUSTED = "refused", "unresolvable", "untrusted"
Fault = Behaviour | str

TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
FAILED = "the provider failed to serve this request"
EXHAUSTED = f"all providers failed for model {GROUP}"
TIMED_OUT = f"request timed out for model {GROUP}"
UNDECODABLE = "the provider returned a response the gateway could not decode"
STOPPED = "the provider stopped sending its response"
EMPTY_STREAM = "provider returned an empty stream"
NO_CHOICES = "provider returned no choices"

TRANSPORT = "upstream request failed"
PROBE = "TTFT probe failed"
BROKEN = "response failed after headers"
EMPTY = "response completed without delivering content"
UNTRANSLATED = "upstream body could not be translated"


def shown(reason: str, code: int = 200) -> str:
    """What the client reads of an answer of Alpha's (failover-loop 13.3)."""
    return f"{reason} (provider Alpha, upstream HTTP {code})"


@dataclass(frozen=True)
class Play:
    """One fault before anything reached the client.

    *status*, *kind*, *word* are the trail element's, *cause* and *seen* the circuit's ("" = none is kept), *told*,
    *message*, *code* the client's when Alpha is last, *row* a part of the row's message then. *calls*: requests that
    reach Alpha in one attempt, None where none can be counted. *again*: the last candidate is asked once more.
    *moves* False: it is the client's answer at either place. *body*: forwarded byte for byte instead of a message.
    """

    id: str
    how: Fault
    status: int | None
    kind: str = "provider_error"
    word: str | None = "charge"
    cause: str = ""
    seen: int = 0
    told: int = 502
    message: str = EXHAUSTED
    code: str = "provider_error"
    row: str = 'all 2 providers failed; last error: provider "Alpha"'
    calls: int | None = 1
    again: bool = False
    moves: bool = True
    body: bytes = b""

    @property
    def exhausted(self) -> bool:
        return self.message in (EXHAUSTED, TIMED_OUT)


@dataclass(frozen=True)
class Cut:
    """One fault after output went out: *text* of the answer arrives, then one error frame of ours (*message*, *code*),
    or the provider's *own*."""

    id: str
    how: Behaviour
    text: str
    message: str
    code: str = "provider_error"
    cause: str = BROKEN
    own: bool = False


@dataclass(frozen=True)
class Whole:
    """Odd, but an answer: all of *text* arrives."""

    id: str
    how: Behaviour
    text: str
    word: str = "success"
    cause: str = "success"


SECRET = "account acct-4711 of somebody"


def refusal(code: int, *, word: str = "charge", again: bool = False) -> Play:
    """A status that moves on and whose body nobody may see."""
    cause = f"upstream status {code}" if word == "charge" else ""
    return Play(
        str(code),
        status(code, {"error": {"message": SECRET}}),
        code,
        word=word,
        cause=cause,
        seen=code if cause else 0,
        told=code,
        message=shown(FAILED, code),
        row=SECRET,
        again=again,
    )


def forwarded(code: int) -> Play:
    """A status about this caller's request: the provider's own object, from wherever it stands."""
    said = {"error": {"message": f"no {code}", "type": "odd", "param": "n", "code": "own", "more": 1.50}}
    return Play(
        str(code),
        status(code, said),
        code,
        word="alive",
        cause=f"upstream status {code} (alive)",
        seen=code,
        told=code,
        message="",
        row=f"no {code}",
        moves=False,
        body=json.dumps(said).encode(),
    )


def unreached(name: str, how: Fault, calls: int | None, **more: Any) -> Play:
    """No response: one charge for the whole attempt (failover-loop 5.4)."""
    return replace(Play(name, how, None, cause=TRANSPORT, calls=calls), **more)


def no_answer(name: str, how: Behaviour, reason: str, cause: str, **more: Any) -> Play:
    """A 2xx that holds no answer."""
    return replace(Play(name, how, 200, cause=cause, seen=200, message=shown(reason), row=reason), **more)


class Stage:
    """A house in which Alpha is where the play wants it."""

    def __init__(self, home: House, untrusted: FakeProvider) -> None:
        self.home, self.untrusted = home, untrusted
        self._order = ("", "")

    def forget(self) -> None:
        """The group's order was changed by somebody else."""
        self._order = ("", "")

    def set(self, how: Fault, place: str) -> None:
        home = self.home
        home.fresh()
        url = {UNRESOLVABLE: "http://nobody.invalid/v1", UNTRUSTED: self.untrusted.url}.get(str(how), home.a.url)
        if self._order != (place, url):
            home.order(*(("Alpha", "Beta") if place == FIRST else ("Beta", "Alpha")))
            home.admin("PUT", f"/api/providers/{home.ids['Alpha']}", json={"base_url": url})
            self._order = (place, url)
        if place == LAST:
            home.b.script(status(404))
        if how == REFUSED:
            home.a.refuse()
        elif not isinstance(how, str):
            home.a.script(how)

    def row(self, before: str = "") -> dict[str, Any]:
        """The newest row, final; not the one whose id is *before*."""

        def final() -> dict[str, Any] | None:
            found = self.home.row()
            return found if found["state"] in ("completed", "failed") and found["id"] != before else None

        found = eventually(final)
        assert found, self.home.row()
        row: dict[str, Any] = found
        return row


@contextmanager
def stage(directory: Path, clocks: dict[str, str]) -> Iterator[Stage]:
    with ExitStack() as stack:
        server, _ = certificate(directory, "127.0.0.1")
        untrusted = stack.enter_context(FakeProvider(models=[MODEL], tls=server))
        home = stack.enter_context(house(directory / "data", HOSTS))
        home.settings(**clocks)
        yield Stage(home, untrusted)


# -- what must hold


def trail(row: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("attempt", "provider", "status", "error_kind", "breaker")
    return [tuple(one.get(name) for name in names) for one in row["attempts"]]


def check_circuit(home: House, fails: int, cause: str, seen: int = 0) -> None:
    """*cause* empty: nothing was told to the breaker, so there is no circuit."""
    found = home.circuit("Alpha")
    assert found["state"] == ("closed" if cause else "untracked")
    # What reads a 429 adds that it could not.
    told = found.get("last_cause", "").removesuffix(" (unrecognised)")
    assert (found["consecutive_fails"], told) == (fails, cause)
    assert found.get("last_status", 0) == seen


def check_error(found: httpx.Response, play: Play) -> None:
    """The client has one whole JSON error, streaming or not, and nothing of what the provider wrote."""
    assert (found.status_code, found.headers["content-type"]) == (play.told, "application/json")
    if play.body:
        assert found.content == play.body
        return
    kind = TYPES.get(play.told, "server_error" if play.told >= 500 else "invalid_request_error")
    said = {"message": play.message, "type": kind, "param": None, "code": play.code}
    assert found.json() == {"error": said}
    assert SECRET not in found.text


def check_first(stage: Stage, play: Play, streaming: bool) -> None:
    home = stage.home
    stage.set(play.how, FIRST)
    found = home.ask(stream=streaming)
    row = stage.row()
    element = (0, "Alpha", play.status, play.kind, play.word)
    if play.moves:
        assert (found.status_code, text_of(found, streaming)) == (200, "from B")
        assert (found.headers["x-modelhotel-provider"], found.headers["x-modelhotel-attempts"]) == ("Beta", "2")
        assert (row["state"], row["status_code"], row["provider_name"]) == ("completed", 200, "Beta")
        assert (row["error_kind"], row["error_message"], row["failover_attempt"]) == (None, None, 1)
        assert trail(row) == [element, (1, "Beta", 200, None, "success")]
        assert home.circuit("Beta")["last_cause"] == "success"
    else:
        check_error(found, play)
        assert home.b.calls == []
        check_failed_row(row, play, [element])
    check_circuit(home, int(play.word == "charge"), play.cause, play.seen)
    if play.calls is not None:
        assert len(home.a.calls) == play.calls


def check_last(stage: Stage, play: Play, streaming: bool) -> None:
    home = stage.home
    stage.set(play.how, LAST)
    check_error(home.ask(stream=streaming), play)
    attempts = 2 if play.again else 1
    elements = [(1 + n, "Alpha", play.status, play.kind, play.word) for n in range(attempts)]
    check_failed_row(stage.row(), play, [(0, "Beta", 404, "provider_error", "noop"), *elements])
    check_circuit(home, attempts * (play.word == "charge"), play.cause, play.seen)
    assert len(home.b.calls) == 1
    if play.calls is not None:
        assert len(home.a.calls) == attempts * play.calls


def check_only(stage: Stage, play: Play, streaming: bool) -> None:
    """A direct request has nobody else."""
    home = stage.home
    stage.set(play.how, FIRST)
    only = f"Alpha/{MODEL}"
    play = replace(play, message=play.message.replace(EXHAUSTED, f"provider request failed for model {only}"))
    check_error(home.ask(only, stream=streaming), play)
    assert trail(stage.row()) == [(0, "Alpha", play.status, play.kind, play.word)]
    assert home.b.calls == []
    check_circuit(home, 1, play.cause, play.seen)
    if play.calls is not None:
        assert len(home.a.calls) == play.calls


def check_failed_row(row: dict[str, Any], play: Play, elements: list[tuple[Any, ...]]) -> None:
    assert (row["state"], row["status_code"], row["error_kind"]) == ("failed", play.told, play.kind)
    assert row["failover_attempt"] == elements[-1][0]
    assert play.row in row["error_message"]
    assert row["provider_name"] == ("" if play.exhausted else "Alpha")
    assert trail(row) == elements


# -- reading what came


def events_of(found: httpx.Response) -> list[str]:
    """The payloads of a stream as a client reads them: whole events, comments aside."""
    blocks = found.content.decode().split("\n\n")
    assert blocks.pop() == ""
    lines = [line for block in blocks for line in block.split("\n") if not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines), lines
    return [line[6:] for line in lines]


def text_of(found: httpx.Response, streaming: bool) -> str:
    """The text of a whole, well-ended answer."""
    if not streaming:
        assert found.headers["content-type"] == "application/json"
        return str(found.json()["choices"][0]["message"]["content"])
    *chunks, done = events_of(found)
    assert done == "[DONE]" and "[DONE]" not in chunks
    return text_in([json.loads(chunk) for chunk in chunks])


def text_in(chunks: list[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk.get("choices", ()))


def check_cut(stage: Stage, play: Cut, place: str) -> None:
    """After the commit nothing moves on: one error frame, the last event, and no ``[DONE]``."""
    home = stage.home
    stage.set(play.how, place)
    found = home.ask(stream=True)
    assert (found.status_code, found.headers["content-type"]) == (200, "text/event-stream")
    *chunks, last = [json.loads(event) or {} for event in events_of(found)]
    assert text_in(chunks) == play.text and not any("error" in chunk for chunk in chunks)
    if play.own:
        assert last["error"]["message"] == play.message
    else:
        said = {"message": play.message, "type": "server_error", "param": None, "code": play.code}
        assert last == {"error": said}
    row = stage.row()
    assert (row["state"], row["status_code"], row["error_kind"]) == ("failed", 0, play.code)
    # Of the provider's own event the row keeps no word: it may quote the answer.
    assert (
        row["error_message"].startswith(reasons.ENDED if play.own else play.message) and row["provider_name"] == "Alpha"
    )
    before = [] if place == FIRST else [(0, "Beta", 404, "provider_error", "noop")]
    assert trail(row) == [*before, (len(before), "Alpha", 200, play.code, "charge")]
    assert (len(home.a.calls), len(home.b.calls)) == (1, len(before))
    check_circuit(home, 1, play.cause, 200)


def check_whole(stage: Stage, play: Whole, place: str, streaming: bool) -> None:
    home = stage.home
    stage.set(play.how, place)
    found = home.ask(stream=streaming)
    assert (found.status_code, text_of(found, streaming)) == (200, play.text)
    row = stage.row()
    assert (row["state"], row["status_code"], row["error_kind"]) == ("completed", 200, None)
    before = [] if place == FIRST else [(0, "Beta", 404, "provider_error", "noop")]
    assert trail(row) == [*before, (len(before), "Alpha", 200, None, play.word)]
    assert (len(home.a.calls), len(home.b.calls)) == (1, len(before))
    charged = play.word == "charge"
    check_circuit(home, int(charged), play.cause, 200 if charged else 0)
