"""What people and models say is in nothing the product writes, in whichever dialect (v1-api 18, operations 17).

As ``test_privacy.py``, with a house of Anthropic, Google, OpenAI's Responses, relays and every way to ask them: chat,
Messages and Responses, counting, the dashboard's chat, media that Google makes, and their own APIs behind ``/p``.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.test_nodes import Listener
from tests.upstream import vendors_api
from tests.upstream.server import Behaviour, FakeProvider, reply, reset, silence
from tests.wire.guests import Guest
from tests.wire.house import House
from tests.wire.marked import Marks, Sent
from tests.wire.marked_vendors import FAULTS, PIECE, Fault, endless
from tests.wire.mixed import CHAT, CLAUDE, GATEWAY, GOOGLE, GROUP, OPENAI, PRO, VERTEX, Mixed, mixed
from tests.wire.product import fresh_postgres
from tests.wire.searched import ENV, Search

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CHATS, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
COUNT = f"{MESSAGES}/count_tokens"
DASHBOARD = ("/api/chat/chat", "/api/chat/arena", "/api/chat/completions")
SETTINGS = {
    "request_timeout": "1s",
    "ttft_timeout": "1s",
    "stream_stall_timeout": "1s",
    "circuit_breaker_threshold": "100",
    "rate_limit_saturation_max_wait": "1ms",
    "server_error_retry_enabled": "false",
    "midstream_recovery_default": "continue",
}
#: Asked for once: a stream that was asked for is refused in the same way.
ALIKE = {f"status {code}" for code in (401, 403, 404, 413, 529)}
BRIEF = {"a good answer", "status 400", "an error in the stream", "a stream that is cut"}
#: (who answers, the model that is its alone, its name in the group)
VENDORS = [
    ("claude", CLAUDE, "Claude"),
    ("gateway", GATEWAY, "Gateway"),
    ("vertex", VERTEX, ""),
    ("google", GOOGLE, ""),
    ("openai", OPENAI, "OpenAI"),
    ("openai", PRO, ""),
    ("a", CHAT, "Alpha"),
]
#: Their own endpoints: the body that is sent there, whose faults it meets, and who has them.
NATIVE = {
    "/p/anthropic/messages": (MESSAGES, "claude", "claude"),
    "/p/anthropic/messages/count_tokens": (COUNT, "claude", "claude"),
    "/p/Alpha/responses": (RESPONSES, "openai", "a"),
    "/p/Alpha/v1/files": ("/v1/audio/transcriptions", "a", "a"),
    "/p/google/models/gemini-3-flash:generateContent": (CHATS, "google", "google"),
}
PASSED = {"ENABLE_PASSTHROUGH_ROUTES": "true", "ENABLED_PASSTHROUGH_PROVIDERS": "openai,anthropic,google"}


class Tour:
    """One way to ask, and all that can come of it."""

    def __init__(self, hotel: Mixed, mark: Marks) -> None:
        self.hotel, self.mark = hotel, mark

    @property
    def home(self) -> House:
        return self.hotel.home

    def vendor(self, name: str) -> FakeProvider:
        found: FakeProvider = getattr(self.hotel, name)
        return found

    def ask(self, guest: Guest, name: str, fault: Fault, vendor: str, model: str, *, streaming: bool = False) -> bool:
        """Whether the vendor was asked."""
        self.mark.where = f"{guest.path}, {model}, {name}{', streamed' if streaming else ''}"
        asked, sent = self.vendor(vendor), guest.make(self.mark)
        asked.forget()
        asked.script(fault(sent, self.mark))
        guest.ask(sent, model, streaming=streaming)
        if name.startswith("status"):  # what else fails takes longer to open a circuit
            self.home.admin("POST", "/api/failover-groups/circuit-breaker/reset")
        return bool(asked.requests)

    def every_dialect(self, *, brief: bool) -> None:
        """*brief*: every fault of one dialect of clients, and of the others what a database gets most of."""
        for path in (CHATS, MESSAGES, RESPONSES):
            guest = Guest(self.home, path, self.mark)
            for vendor, model, _ in VENDORS:
                for name, fault in FAULTS[vendor].items():
                    if brief and path != CHATS and name not in BRIEF:
                        continue
                    for streaming in (False,) if name in ALIKE else (False, True):
                        assert self.ask(guest, name, fault, vendor, model, streaming=streaming), self.mark.where
                guest.leave(f"{vendor} while it is answered", model, self.vendor(vendor), endless(vendor, self.mark))
                self.home.admin("POST", "/api/failover-groups/circuit-breaker/reset")

    def the_next_one(self) -> None:
        """Somebody of another dialect stands behind the one that fails, before and in the midst of its answer."""
        order = ["Claude", "OpenAI", "Gateway", "Alpha", "Beta"]
        for vendor, _, first in VENDORS:
            if not first:
                continue
            self.hotel.order(first, *(name for name in order if name != first))
            for other, _, name in VENDORS:
                if name != first:
                    self.vendor(other).script(FAULTS[other]["a good answer"](Sent({}), self.mark))
            for path in (CHATS, MESSAGES, RESPONSES):
                guest = Guest(self.home, path, self.mark)
                for name in ("status 500", "an error in the stream", "a stream that is cut", "a frame that is no JSON"):
                    assert self.ask(guest, name, FAULTS[vendor][name], vendor, GROUP, streaming=True)

    def nobody(self) -> None:
        """Silence and broken connections; nobody else is left to ask."""
        guest = Guest(self.home, CHATS, self.mark)
        for vendor, model in (("claude", CLAUDE), ("google", GOOGLE)):
            self.ask(guest, "silence", lambda sent, mark: silence(), vendor, model, streaming=True)
            self.ask(guest, "a reset", lambda sent, mark: reset(), vendor, model)

    def others(self) -> None:
        """Counting, the dashboard's chat, speech and transcripts of Google's."""
        for vendor, model, _ in VENDORS:
            guest = Guest(self.home, COUNT, self.mark)
            for name, fault in FAULTS[vendor].items():
                self._counts(vendor, fault, guest)
                self.ask(guest, name, fault, vendor, model)
        for path in DASHBOARD:
            guest = Guest(self.home, path, self.mark, like=CHATS, key=self.home.product.token)
            for vendor, model in (("claude", CLAUDE), ("vertex", VERTEX), ("a", CHAT)):
                for name in ("a good answer", "status 400", "status 500", "an error in the stream"):
                    for streaming in (False, True):
                        fault = FAULTS[vendor][name]
                        assert self.ask(guest, name, fault, vendor, model, streaming=streaming), self.mark.where
                guest.leave(f"{vendor} while it is answered", model, self.vendor(vendor), endless(vendor, self.mark))
        for path in ("/v1/audio/speech", "/v1/audio/transcriptions", "/v1/images/generations", "/v1/embeddings"):
            guest = Guest(self.home, path, self.mark)
            for name, fault in FAULTS["google"].items():
                self.ask(guest, name, fault, "google", GOOGLE)

    def _counts(self, vendor: str, fault: Fault, guest: Guest) -> None:
        """Where it counts itself, it answers as it does a message."""
        if vendor in ("claude", "gateway"):
            self.vendor(vendor).route("POST", COUNT, fault(guest.make(self.mark), self.mark))

    def native(self) -> None:
        for path, (like, faults, vendor) in NATIVE.items():
            guest = Guest(self.home, path, self.mark, like=like)
            for name, fault in FAULTS[faults].items():
                for streaming in (False, True):
                    self._routed(vendor, path, fault(guest.make(self.mark), self.mark))
                    assert self.ask(guest, name, fault, vendor, "m", streaming=streaming), self.mark.where
            self._routed(vendor, path, endless(faults, self.mark))
            guest.leave("while it is answered", "m", self.vendor(vendor), endless(faults, self.mark))
            wrong = Guest(self.home, f"{path}/{self.mark('a path')}", self.mark, like=like)
            self.ask(wrong, "a path that says something", lambda sent, mark: reply(404, sent.echoed), vendor, "m")

    def _routed(self, vendor: str, path: str, answer: Behaviour) -> None:
        """*answer* is that of the provider's own *path*."""
        base = "/v1beta" if vendor == "google" else "/v1"
        own = path.removeprefix("/p/").partition("/")[2].removeprefix("v1/")
        self.vendor(vendor).route("POST", f"{base}/{own}", answer)

    def pages(self) -> None:
        """Where no endpoint is: the error pages of the shell and of the API."""
        for path in (
            "/api/chat/nothing",
            "/v1/nothing",
            "/api/nothing",
            "/nothing",
            "/login/",
            "/admin/x/",
            "/metrics",
        ):
            self.mark.where = path
            for key in (self.home.key, self.home.product.token):
                guest = Guest(self.home, path, self.mark, like=CHATS, key=key)
                sent = guest.make(self.mark)
                shown = guest.ask(sent, "m").text
                assert not self.mark.found(shown), f"{path} shows what it was sent"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def hotel(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mixed]:
    """The other database with the other client."""
    monkeypatch.setattr(vendors_api, "PIECE", PIECE)
    (tmp_path / "tmp").mkdir()
    env = {**ENV, **PASSED, "TMPDIR": str(tmp_path / "tmp")}
    with ExitStack() as stack:
        if request.param == "postgres":
            env |= {
                "DATABASE_URL": stack.enter_context(fresh_postgres()),
                "MASTER_KEY": "m" * 40,
                "UPSTREAM_CLIENT": "httpx",
            }
        yield stack.enter_context(mixed(tmp_path / "data", env))


def test_nothing_of_any_dialect_is_written(hotel: Mixed, tmp_path: Path):
    """operations 10."""
    mark = Marks()
    home = hotel.home
    home.settings(**SETTINGS)
    search = Search(mark, tmp_path / "data", home.product.env.get("DATABASE_URL", ""), tmp_path / "tmp")
    listener = Listener(home.product, home.product.token)
    tour = Tour(hotel, mark)
    tour.every_dialect(brief=search.database != "")
    tour.the_next_one()
    tour.others()
    tour.pages()
    tour.nobody()
    tour.native()
    search.running(home, listener)
    assert home.product.stop() == 0
    search.stopped(home.product.output)
    assert search.found == {}
