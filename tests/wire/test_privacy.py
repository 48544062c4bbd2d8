"""What people, models and files say is in nothing the product writes (v1-api 18, operations 17).

Every endpoint is asked with bodies made of markers and answered with markers: well, and in every way that fails. Then
all that the product wrote is searched: the database, every file of DATA_DIR, what it printed with every debug line,
its API, its metrics and its events.
"""

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.endpoints import ENDPOINTS
from tests.cluster.test_nodes import Listener
from tests.upstream.server import Behaviour, delta, events, hang_up, raw, reply, reset, silence, stream
from tests.wire.guests import Guest
from tests.wire.house import GROUP, MODEL, house
from tests.wire.marked import ASKED, Marks, Sent, answered, chunks, refused, whole
from tests.wire.searched import ENV, Search

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CHAT = "/v1/chat/completions"
SETTINGS = {
    "request_timeout": "1s",
    "ttft_timeout": "1s",
    "stream_stall_timeout": "1s",
    "circuit_breaker_threshold": "2",
    "rate_limit_saturation_max_wait": "1ms",
    "midstream_recovery_default": "continue",
}
STATUSES = (400, 401, 402, 403, 404, 408, 413, 415, 422, 429, 499, 500, 503, 529)
Fault = Callable[[Sent, Marks], Behaviour]


def _quoted(sent: Sent) -> dict[str, str]:
    return {"message": f"can not serve {sent.echoed}", "type": "server_error", "code": sent.echoed}


def _content(mark: Marks, *more: Any, end: bool = True) -> Behaviour:
    return events(*chunks(mark), *more, end=end)


FAULTS: dict[str, Fault] = {
    "a good answer": lambda sent, mark: answered(mark),
    **{f"status {code}": lambda sent, mark, code=code: refused(code, sent, mark) for code in STATUSES},  # type: ignore[misc]
    "a page": lambda sent, mark: refused(500, sent, mark, form="html"),
    "a refusal in plain text": lambda sent, mark: refused(400, sent, mark, form="text"),
    "a redirect": lambda sent, mark: refused(302, sent, mark),
    "an error under a 200": lambda sent, mark: reply(200, {"error": _quoted(sent), "text": mark("the answer")}),
    "half of an answer": lambda sent, mark: reply(200, json.dumps(whole(mark))[:-20]),
    "an answer that is cut": lambda sent, mark: reply(200, (body := json.dumps(whole(mark))), length=len(body) + 9),
    "no JSON": lambda sent, mark: reply(200, f"<p>{mark('the answer')} {sent.echoed}</p>", content_type="text/html"),
    "a compressed answer": lambda sent, mark: reply(
        200, gzip.compress(json.dumps(whole(mark)).encode()), headers={"Content-Encoding": "gzip"}
    ),
    "no HTTP": lambda sent, mark: raw(f"{mark('the answer')} {sent.echoed}\r\n\r\n".encode()),
    "a header that is none": lambda sent, mark: raw(f"HTTP/1.1 200 OK\r\n{mark('a header')}\r\n\r\n".encode()),
    "a dead connection": lambda sent, mark: reset(),
    "a connection hung up": lambda sent, mark: hang_up(),
    "silence": lambda sent, mark: silence(),
    "no choices": lambda sent, mark: reply(200, {**whole(mark), "choices": []}),
}
STREAMS: dict[str, Fault] = {
    "an error first": lambda sent, mark: events({"error": _quoted(sent)}),
    "an error after words": lambda sent, mark: _content(mark, {"error": _quoted(sent)}),
    "a stream that is cut": lambda sent, mark: _content(mark, end=False),
    "a stream that ends too soon": lambda sent, mark: _content(mark),
    "a frame that is no JSON": lambda sent, mark: _content(mark, f"data: {{{mark('a frame')}\n\n".encode(), end=False),
    "a first frame that is no JSON": lambda sent, mark: events(f"data: {{{mark('a frame')}\n\n".encode()),
    "comments and names": lambda sent, mark: _content(
        mark, f": {mark('a comment')}\nevent: {mark('a name')}\nid: {mark('an id')}\n\n".encode(), delta(finish="stop")
    ),
    "a frame of another shape": lambda sent, mark: _content(mark, {"choices": mark("a choice")}, [mark("a list")]),
    "an answer that is no stream": lambda sent, mark: reply(200, whole(mark)),
}


class Stranger(Guest):
    """Meets every fault of two providers of chat completions, and errs in every way."""

    def meet(self, name: str, fault: Fault, *, streaming: bool) -> None:
        """The fault with another provider behind it, and with nobody."""
        for model in (GROUP, f"Alpha/{MODEL}"):
            self.mark.where = f"{self.path}, {name}{', streamed' if streaming else ''}, {model}"
            sent = self.make(self.mark)
            self.home.a.script(fault(sent, self.mark))
            self.home.b.script(answered(self.mark))
            self.ask(sent, model, streaming=streaming)
            assert self.home.a.requests, "the fault was met by nobody"
            self.home.a.forget()
        self.home.admin("POST", "/api/failover-groups/circuit-breaker/reset")

    def meet_everything(self) -> None:
        for name, fault in FAULTS.items():
            if self.path in PROMPT or name not in PASSED_OVER:
                self.meet(name, fault, streaming=False)
        if self.path in STREAMING:
            for name, fault in (FAULTS | STREAMS).items():
                self.meet(name, fault, streaming=True)

    # -- what a client can do wrong

    def err(self) -> None:
        mark, http = self.mark, self.home.http
        self.home.a.script(answered(mark))

        def post(case: str, content: bytes, kind: str = "application/json", **headers: str) -> httpx.Response:
            mark.where = f"{self.path}, {case}"
            words = mark("a prompt").encode()
            given = {**self.headers(), "Content-Type": kind, **headers}
            return http.post(self.path, content=content.replace(b"WORDS", words), headers=given)

        model = GROUP.encode()
        wrong = {
            "JSON that ends too soon": b'{"model": "' + model + b'", "messages": [{"role": "user", "content": "WORDS',
            "JSON with a word too many": b'{"model": "' + model + b'", WORDS}',
            "a list": b'["WORDS"]',
            "a text": b'"WORDS"',
            "bytes that are no text": b'{"model": "' + model + b'", "WORDS": "\xff\xfe WORDS"}',
            "no model": b'{"messages": [{"role": "user", "content": "WORDS"}], "input": "WORDS"}',
            "a model that is a list": b'{"model": ["WORDS"], "messages": "WORDS"}',
            "members of the wrong shape": b'{"model": "%s", "messages": "WORDS", "stream": "WORDS", "tools": "WORDS", '
            b'"max_tokens": "WORDS", "input": {"WORDS": "WORDS"}, "prompt": ["WORDS"], "n": "WORDS", '
            b'"stream_options": "WORDS", "temperature": "WORDS", "system": {"WORDS": 1}, "query": 1}' % model,
            "roles nobody has": b'{"model": "%s", "messages": [{"role": "WORDS", "content": {"WORDS": "WORDS"}}, 7]}'
            % model,
            "too much": b'{"model": "' + model + b'", "WORDS": "' + b"WORDS " * 60_000 + b'"}',
        }
        for case, content in wrong.items():
            assert post(case, content).status_code < 600
        post("multipart without parts", b"WORDS", "multipart/form-data; boundary=WORDS")
        part = b'--b\r\nContent-Disposition: form-data; name="WORDS"; filename="WORDS"\r\n\r\nWORDS'
        post("multipart that ends too soon", part, "multipart/form-data; boundary=b")
        post("another type", b"model=WORDS", "text/WORDS")
        good = b'{"model": "%s", "messages": [{"role": "user", "content": "WORDS"}], "input": "WORDS"}' % model
        for name in ("Authorization", "x-api-key"):
            text = mark(f"a wrong key in {name}")
            assert post(f"a wrong {name}", good, **{"Authorization": "", name: text}).status_code == 401
        assert http.put(self.path, params={"q": mark("a query")}, json={"m": mark("a prompt")}).status_code == 405
        assert http.post(self.path + "/x", json={"m": mark("a prompt")}, headers=self.headers()).status_code == 404
        told = stream([f"{mark('the answer')} "] * 50, delay=0.02)
        self.leave("while it sends", GROUP, self.home.a, told, early=True)
        self.leave("while it is answered", GROUP, self.home.a, told)


#: Endpoints whose answers are streams of their own dialect; a provider sees them all as a chat.
STREAMING = {CHAT, "/v1/messages", "/v1/responses"} & set(ENDPOINTS)
#: The other endpoints share one way with embeddings, and have limits ten times as long.
PROMPT = STREAMING | {"/v1/embeddings"}
PASSED_OVER = {"silence", *(f"status {code}" for code in STATUSES if code not in (400, 401, 413, 429, 500))}


def test_every_endpoint_has_a_body_of_markers():
    assert set(ENDPOINTS) - set(ASKED) == set(), "an endpoint without a body in tests/wire/marked.py"


def test_markers_are_found_whole_cut_and_packed():
    mark = Marks()
    mark.where = "here"
    text = mark("it")
    assert mark.found(f'{{"a": "{text}"}}') == mark.found(text[:-3].upper()) == {"here: it"}
    for before in ("", "a", "ab"):
        assert mark.found(base64.b64encode(f"{before}{text}".encode()).decode()) == {"something in base64"}
    assert mark.found("nothing of the kind") == set()


def test_what_people_and_models_say_is_written_nowhere(tmp_path: Path):
    """operations 10."""
    mark = Marks()
    folders = [tmp_path / name for name in ("data", "tmp")]
    folders[1].mkdir()
    search = Search(mark, folders[0], "", folders[1])
    with house(folders[0], {**ENV, "MAX_REQUEST_SIZE": "300000", "TMPDIR": str(folders[1])}) as home:
        home.settings(**SETTINGS)
        listener = Listener(home.product, home.product.token)
        for path in sorted(ENDPOINTS, key=lambda path: path != CHAT):
            guest = Stranger(home, path, mark)
            guest.meet_everything()
            guest.err()
            home.settings(server_error_retry_enabled="false")  # one endpoint has shown what a repeat writes
        home.settings(hedging_enabled="true", hedge_delay="100ms")
        for path in STREAMING:
            guest = Stranger(home, path, mark)
            for name in ("a good answer", "silence", "status 500"):
                guest.meet(f"{name}, hedged", FAULTS[name], streaming=True)
        search.running(home, listener)
    search.stopped(home.product.output)
    assert search.found == {}
