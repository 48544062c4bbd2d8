"""What a simulated vendor is: its addresses, its key, what it lists, how it answers, and an allowance that runs out.

A vendor is written from its public documentation and knows nothing of the product. It refuses what its real self would
refuse: a wrong key, a path it does not have, a model it does not offer.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tests.upstream.behaviours import Behaviour, Recorded, answer, reply

Item = dict[str, Any]
Route = Callable[[Recorded], Behaviour]
SAID = "Hello from there"


def entry(model_id: str, owner: str = "", **more: Any) -> Item:
    """An entry of an OpenAI listing."""
    return {"id": model_id, "object": "model", "created": 1700000000, "owned_by": owner, **more}


def listing(*entries: Item) -> Item:
    return {"object": "list", "data": list(entries)}


def refusal(status: int, message: str, kind: str = "invalid_request_error", code: str | None = None) -> Behaviour:
    """An error in OpenAI's shape, which most vendors have taken over."""
    return reply(status, {"error": {"message": message, "type": kind, "param": None, "code": code}})


def in_hours(hours: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


class Vendor(ABC):
    """*spent* is the state of its allowance; :meth:`top_up` ends it. *instead*: what is answered to everything but a
    chat. *requests* are those that reached it, in order, each with the whole address in ``extra["url"]``."""

    kind: ClassVar[str]
    #: What an operator enters; the places (scheme, host and a start of the path) that this vendor answers for.
    base_url: str
    places: ClassVar[tuple[str, ...]] = ()
    key: ClassVar[str]
    #: The header that carries the key, with what stands before it.
    auth: ClassVar[tuple[str, str]] = ("authorization", "Bearer ")
    #: The model that is chatted with, and what its row in ``/api/models`` must say.
    model: ClassVar[str]
    facts: ClassVar[Item] = {}
    #: All ids of the listing. *more*: the product may know further ones of its own.
    listed: ClassVar[frozenset[str]]
    more: ClassVar[bool] = False
    #: Where a chat goes; a stream elsewhere only in Gemini's dialect.
    chat_url: str
    stream_url: str = ""
    sent: ClassVar[Item] = {}  # members a chat body must hold
    unsent: ClassVar[frozenset[str]] = frozenset()  # members it must not
    #: The listing answers without a key; what needs one tells whether it works.
    public: ClassVar[bool] = False
    #: ``usage``, ``balance`` or ``account``, and whether a spent reading speaks for the circuits.
    quota: ClassVar[str] = ""
    judged: ClassVar[bool] = False

    def __init__(self) -> None:
        self.spent = False
        self.instead: Behaviour | None = None
        self.requests: list[Recorded] = []

    def spend(self) -> None:
        self.spent = True

    def top_up(self) -> None:
        self.spent = False

    # ------------------------------------------------------------ what its real self documents

    @abstractmethod
    def routes(self) -> dict[tuple[str, str], Route]:
        """(method, path) -> the answer to one whose key is right; a path may be an expression."""

    def free(self) -> dict[tuple[str, str], Route]:
        """The same for what answers without a key."""
        return {}

    def unauthorised(self) -> Behaviour:
        return refusal(401, f"Incorrect API key provided: {self.key[:6]}***", code="invalid_api_key")

    def exhausted(self) -> Behaviour:
        """The answer to a chat when nothing is left."""
        return refusal(
            429,
            "You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota",
            "insufficient_quota",
        )

    def chat(self, request: Recorded) -> Behaviour:
        return self.exhausted() if self.spent else self.said(request)

    def said(self, request: Recorded) -> Behaviour:
        return answer(SAID)

    # ------------------------------------------------------------ called by the world

    def allowed(self, request: Recorded) -> bool:
        header, before = self.auth
        return request.headers.get(header) == before + self.key

    def answer(self, request: Recorded) -> Behaviour:
        self.requests.append(request)
        if self.instead is not None and request.extra["url"] not in (self.chat_url, self.stream_url):
            return self.instead
        free = _found(self.free(), request)
        if free is not None:
            return free(request)
        if not self.allowed(request):
            return self.unauthorised()
        route = _found(self.routes(), request)
        return route(request) if route else refusal(404, f"Unknown request URL: {request.method} {request.path}")

    # ------------------------------------------------------------ what a test asks

    @property
    def chats(self) -> list[Recorded]:
        return [one for one in self.requests if one.extra["url"] in (self.chat_url, self.stream_url or self.chat_url)]

    def path(self, rest: str) -> str:
        """The path of *rest* behind the base address."""
        return urlsplit(self.base_url).path.rstrip("/") + rest


def _found(routes: dict[tuple[str, str], Route], request: Recorded) -> Route | None:
    for (method, path), route in routes.items():
        if method == request.method and re.fullmatch(path, request.path):
            return route
    return None


def fixed(body: Any, status: int = 200) -> Route:
    return lambda request: reply(status, body)


class OpenAILike(Vendor):
    """Bearer key, ``/models``, ``/chat/completions``."""

    entries: ClassVar[tuple[Item, ...]]

    def __init__(self) -> None:
        super().__init__()
        self.chat_url = self.base_url.rstrip("/") + "/chat/completions"

    def routes(self) -> dict[tuple[str, str], Route]:
        return {
            ("GET", re.escape(self.path("/models"))): fixed(listing(*self.entries)),
            ("POST", re.escape(self.path("/chat/completions"))): self.completions,
        }

    def completions(self, request: Recorded) -> Behaviour:
        asked = request.members.get("model")
        if asked not in self.listed:
            return refusal(404, f"The model '{asked}' does not exist", code="model_not_found")
        return self.chat(request)
