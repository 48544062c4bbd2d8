"""A client of one endpoint that says nothing but markers (``tests/wire/marked.py``)."""

import json
import socket
from urllib.parse import urlsplit

import httpx

from tests.upstream.server import Behaviour, FakeProvider
from tests.wire.house import House
from tests.wire.marked import ASKED, Marks, Sent


class Guest:
    """*path* is asked with the bodies of *like*, by whoever has *key* (the house's own)."""

    def __init__(self, home: House, path: str, mark: Marks, *, like: str = "", key: str = "") -> None:
        self.home, self.path, self.mark, self.key = home, path, mark, key or home.key
        self.make = ASKED[like or path]

    def headers(self) -> dict[str, str]:
        mark = self.mark
        names = ("User-Agent", "Referer", "X-Anything", "OpenAI-Organization", "Anthropic-Beta", "Idempotency-Key")
        said = {name: mark(f"header {name}") for name in names}
        return {**said, "Cookie": f"a={mark('a cookie')}", "Authorization": f"Bearer {self.key}"}

    def ask(self, sent: Sent, model: str, *, streaming: bool = False) -> httpx.Response:
        """The whole answer, or what came of it."""
        given = sent.given()
        extra = {"model": model, **({"stream": True} if streaming else {})}
        if "json" in given:
            given["json"] = {**extra, **given["json"]}
        else:
            given["data"] = {**given["data"], **({**extra, "stream": "true"} if streaming else extra)}
        query = {"q": self.mark("a query"), "api_key": self.mark("a key in the query")}
        try:
            return self.home.http.post(self.path, params=query, headers=self.headers(), **given)
        except httpx.RemoteProtocolError:
            return httpx.Response(599)

    def leave(self, case: str, model: str, provider: FakeProvider, answer: Behaviour, *, early: bool = False) -> None:
        """Hang up in the middle of the body (*early*), or of the *answer* of *provider*."""
        mark, parts = self.mark, urlsplit(self.home.product.url)
        mark.where = f"{self.path}, a client that leaves {case}"
        sent = self.make(mark)
        if sent.body is None:
            return
        body = json.dumps({"model": model, "stream": True, **sent.body}).encode()
        provider.script(answer)
        provider.forget()
        head = f"POST {self.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.key}\r\nContent-Length: "
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10) as sock:
            sock.sendall(f"{head}{len(body)}\r\n\r\n".encode() + (body[:-9] if early else body))
            if not early:
                provider.wait_for(lambda: bool(provider.requests))
                sock.recv(300)
