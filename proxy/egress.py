"""How a candidate is spoken to: the dialect of an attempt, and whether the client's own body goes out in it.

An attempt is *native* where client and candidate speak one dialect other than chat: body and answer pass as they came.
Everything else goes through the chat shape (v1-api 12.1, 13.1, 14.1, 15.1, 16).
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar

from failover.resolve import Candidate
from providers.cache import ProviderRow
from providers.kinds.base import JSON_TYPE, Header, Kind
from providers.upstream.interface import Request
from proxy import outgoing
from proxy.dialects import callids, chat, gemini, messages
from proxy.dialects.base import Judged, Members, Reader, Untranslatable, Verdict, Watcher
from proxy.dialects.responses import egress as to_responses
from proxy.dialects.responses import native as own_responses
from proxy.dialects.responses import reader as of_responses
from proxy.dialects.responses import reroute
from proxy.dialects.responses.reroute import Requirements
from proxy.exchange import Exchange
from proxy.repairs import NOTHING, Repair
from proxy.stream import probe
from proxy.stream.probe import Meaning

MESSAGES_PATH, RESPONSES_PATH = "/messages", "/responses"


class Egress(ABC):
    """One dialect, towards a provider. *native*: nothing is translated. *heals*: its 400s are learned from."""

    name: ClassVar[str]
    native: ClassVar[bool] = False
    heals: ClassVar[bool] = False

    @abstractmethod
    def request(self, exchange: Exchange, candidate: Candidate, repair: Repair | None) -> Request:
        """What is sent to *candidate*, who refuses what *repair* says. Raises Untranslatable."""

    @abstractmethod
    def read_answer(self, payload: bytes, model: str) -> Judged:
        """Judge the body of a 2xx; what is served is a chat completion, or as it came where it is *native*."""

    @abstractmethod
    def classify(self, payload: bytes) -> Meaning:
        """What an event says before the first token (failover-loop 10.2)."""

    def error(self, payload: bytes) -> bytes:
        """An error event in the form of a chat stream's."""
        return payload

    def reader(self, model: str) -> Reader | None:
        """What makes chat events of the stream of *model*, native or not; None where they are."""
        return None

    def watcher(self) -> Watcher | None:
        """Of a native stream."""
        return None


class _Chat(Egress):
    name = "chat"
    heals = True

    def request(self, exchange: Exchange, candidate: Candidate, repair: Repair | None) -> Request:
        kind = candidate.provider.kind
        members = callids.for_chat(
            exchange.body,
            exchange.raw if exchange.own is None else None,
            limit=kind.call_id_limit(candidate.provider.base_url),
            signatures=kind.reads_signatures(candidate.model.model_id),
        )
        return outgoing.build(exchange, candidate, repair, members)

    def read_answer(self, payload: bytes, model: str) -> Judged:
        return chat.read_answer(payload)

    def classify(self, payload: bytes) -> Meaning:
        return probe.classify(payload)


class _Translated(Egress):
    """What all translations have in common."""

    def read_answer(self, payload: bytes, model: str) -> Judged:
        try:
            return chat.read_answer(self.to_chat(payload, model))
        except Untranslatable as problem:
            verdict: Verdict = "blocked" if problem.blocked else "undecodable"
            return Judged(verdict, b"", problem.usage, False, problem=str(problem))

    @abstractmethod
    def to_chat(self, payload: bytes, model: str) -> bytes:
        """The chat completion that an answer stands for. Raises Untranslatable."""


class _Messages(_Translated):
    name = "messages"
    heals = True

    def request(self, exchange: Exchange, candidate: Candidate, repair: Repair | None) -> Request:
        model_id, known = candidate.model.model_id, repair or NOTHING
        body = messages.egress.build(
            chat.to_translate(exchange.body, model_id=model_id, repair=repair),
            model=model_id,
            stream=exchange.stream,
            thinking=known.thinking or "adaptive",
            rejected=known.rejected,
            json_mode=known.json_mode,
        )
        return _post(candidate, MESSAGES_PATH, body, self.name)

    def to_chat(self, payload: bytes, model: str) -> bytes:
        return messages.egress.to_chat(payload, model=model)

    def classify(self, payload: bytes) -> Meaning:
        return messages.reader.classify(payload)

    def error(self, payload: bytes) -> bytes:
        return messages.reader.error_payload(payload)

    def reader(self, model: str) -> Reader:
        return messages.reader.Reader(model)


class _NativeMessages(_Messages):
    native = True
    heals = False

    def request(self, exchange: Exchange, candidate: Candidate, repair: Repair | None) -> Request:
        return own_messages(exchange, candidate, MESSAGES_PATH)

    def read_answer(self, payload: bytes, model: str) -> Judged:
        return messages.native.read_answer(payload)

    def watcher(self) -> Watcher:
        return messages.native.Native()


class _Gemini(_Translated):
    name = "gemini"

    def request(self, exchange: Exchange, candidate: Candidate, repair: Repair | None) -> Request:
        provider, model_id = candidate.provider, candidate.model.model_id
        members = chat.to_translate(exchange.body, model_id=model_id, repair=repair)
        body = gemini.egress.build(members, model=model_id, stream=exchange.stream)
        url = provider.kind.gemini_url(provider.base_url, model_id, stream=exchange.stream)
        return Request("POST", url, [JSON_TYPE, *provider.kind.auth_headers(candidate.key, self.name)], body)

    def to_chat(self, payload: bytes, model: str) -> bytes:
        return gemini.egress.to_chat(payload, model=model)

    def classify(self, payload: bytes) -> Meaning:
        return gemini.reader.classify(payload)

    def error(self, payload: bytes) -> bytes:
        return gemini.reader.error_payload(payload)

    def reader(self, model: str) -> Reader:
        return gemini.reader.Reader(model)


class _Responses(_Translated):
    name = "responses"
    heals = True

    def request(self, exchange: Exchange, candidate: Candidate, repair: Repair | None) -> Request:
        model_id = candidate.model.model_id
        members = chat.to_translate(exchange.body, model_id=model_id, repair=repair)
        body = to_responses.build(members, model=model_id, stream=exchange.stream)
        return _post(candidate, RESPONSES_PATH, body, self.name)

    def to_chat(self, payload: bytes, model: str) -> bytes:
        return to_responses.to_chat(payload, model=model)

    def classify(self, payload: bytes) -> Meaning:
        return of_responses.classify(payload)

    def error(self, payload: bytes) -> bytes:
        return of_responses.error_payload(payload)

    def reader(self, model: str) -> Reader:
        return of_responses.Reader(model)


class _NativeResponses(_Responses):
    native = True
    heals = False

    def request(self, exchange: Exchange, candidate: Candidate, repair: Repair | None) -> Request:
        body = own_responses.build(_own(exchange), model=candidate.model.model_id)
        return _post(candidate, RESPONSES_PATH, body, self.name)

    def read_answer(self, payload: bytes, model: str) -> Judged:
        return own_responses.read_answer(payload)

    def watcher(self) -> Watcher:
        return own_responses.Native()


CHAT: Egress = _Chat()
MESSAGES: Egress = _Messages()
NATIVE_MESSAGES: Egress = _NativeMessages()
GEMINI: Egress = _Gemini()
RESPONSES: Egress = _Responses()
NATIVE_RESPONSES: Egress = _NativeResponses()

_OF_DIALECT: dict[str, Egress] = {found.name: found for found in (CHAT, MESSAGES, GEMINI, RESPONSES)}


def native(dialect: str, candidate: Candidate) -> Egress | None:
    """How *candidate* gets a body of the client's *dialect* as it came; None where it does not."""
    kind = candidate.provider.kind
    if dialect == "messages":
        return NATIVE_MESSAGES if kind.speaks_messages else None
    if dialect == "responses":
        return NATIVE_RESPONSES if kind.native_responses(candidate.provider.base_url) else None
    return None


def all_native(exchange: Exchange) -> bool:
    """Whether every resolved candidate speaks the client's dialect."""
    resolution, dialect = exchange.resolution, exchange.endpoint.dialect
    return resolution is not None and all(native(dialect, candidate) for candidate in resolution.candidates)


def of(exchange: Exchange, candidate: Candidate, requirements: Requirements, *, translated: bool = False) -> Egress:
    """How *candidate* is asked. *translated*: the chat shape of its answer is needed."""
    dialect = exchange.endpoint.dialect
    if dialect != "chat" and not translated:
        found = native(dialect, candidate)
        if found is not None:
            return found
    provider, model, body = candidate.provider, candidate.model, exchange.body
    found = _OF_DIALECT[dialect_of(provider, model.model_id, model.output_modalities, body)]
    if found is CHAT and provider.kind.reroutes_responses and need(candidate, body, requirements) is not None:
        return RESPONSES
    return found


def dialect_of(provider: ProviderRow, model_id: str, outputs: tuple[str, ...], body: Members) -> str:
    """How *body*, a chat request, is spoken to a model that puts out *outputs*; what was learned of it aside."""
    kind = provider.kind
    if (stated := kind.chat_dialect(model_id)) != "chat":
        return stated
    if kind.reroutes_responses and _only_responses(kind, provider.base_url, model_id):
        return "responses"
    if kind.messages_for_documents and messages.has_document(body):
        return "messages"
    return "gemini" if kind.gemini_for_media and gemini.egress.wants_native(body, outputs) else "chat"


def need(candidate: Candidate, body: Members, requirements: Requirements) -> str | None:
    """Why a chat request goes to ``/v1/responses``: ``preemptive`` or ``learned``; None where it does not."""
    provider, model_id = candidate.provider, candidate.model.model_id
    if _only_responses(provider.kind, provider.base_url, model_id):
        return "preemptive"
    learned = requirements and requirements.apply(responses_scope(provider), model_id, body)
    return "learned" if learned else None


def responses_scope(provider: ProviderRow) -> str:
    """Whom a learned need of ``/v1/responses`` is true of: OpenAI's own host, or a single provider that only speaks
    like it and of which nobody knows whether it has that route.
    """
    return provider.kind.type if provider.kind.native_responses(provider.base_url) else provider.id


@lru_cache(maxsize=1024)
def _only_responses(kind: Kind, base_url: str, model_id: str) -> bool:
    return kind.native_responses(base_url) and reroute.preemptive(model_id)


def own_messages(exchange: Exchange, candidate: Candidate, path: str) -> Request:
    """The client's own Messages body, sent to *path* of *candidate*, with the betas it counts on (v1-api 8.3)."""
    body = messages.native.build(_own(exchange), model=candidate.model.model_id)
    beta = exchange.sent(b"anthropic-beta")
    return _post(candidate, path, body, "messages", () if beta is None else ((b"anthropic-beta", beta),))


def _own(exchange: Exchange) -> Members:
    assert exchange.own is not None
    return exchange.own


def _post(candidate: Candidate, path: str, body: bytes, dialect: str, more: tuple[Header, ...] = ()) -> Request:
    provider = candidate.provider
    url = outgoing.url(provider.kind, provider.base_url, path)
    return Request("POST", url, [JSON_TYPE, *provider.kind.auth_headers(candidate.key, dialect), *more], body)
