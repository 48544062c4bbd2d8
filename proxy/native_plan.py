"""What a call of ``/p/{provider}/{endpoint...}`` means: whom it asks, what of it goes on, what comes back (v1-api 21).

Pure. The endpoint is never decoded: its escapes reach the provider as they came.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

from providers.cache import Catalogue, ProviderRow
from proxy import answers
from proxy import usage as usages
from proxy.answers import Answer, Header
from proxy.dialects.passed import USAGE_TAIL, read_usage
from proxy.usage import Usage

PREFIX = b"/p/"
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
ALLOW: Header = (b"allow", b"DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
#: Sent twice they do the same as once; the others are not repeated once anything of them was written.
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
ALIAS = b"v1"
#: Bytes at the beginning of an answer in which usage is looked for, besides those at its end.
USAGE_HEAD = 16 * 1024
UNREACHED = "provider request failed"
LATE = "provider request timed out"

_PATH = "/%:@!$&'()*+,;=~-._[]"
_HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"})
_LENGTH = b"content-length"
#: What belongs to the way from the client to here, or says who it is.
_OF_THE_CLIENT = frozenset({b"authorization", b"x-api-key", b"host", b"cookie", b"forwarded"})
#: Settled on this side: our server has answered the one, our client asks for plain bodies with the other.
_OF_US = frozenset({b"expect", b"accept-encoding"})
#: What speaks of the provider's own address, and would be taken as said of ours.
_OF_THEM = frozenset({b"set-cookie", b"strict-transport-security", b"alt-svc", b"clear-site-data", b"date"})
_SHARED = frozenset({b"vary"})
_REQUEST_ID = b"x-request-id"


class Refused(Exception):
    """A call that is not sent on; *answer* says why."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message)
        self.answer: Answer = answers.error(status, message, code)


@dataclass(frozen=True, slots=True)
class Rules:
    """*types*: provider types that may be called. *alias*: ``/p/x/v1/y`` means ``/p/x/y``."""

    types: Collection[str]
    alias: bool


@dataclass(frozen=True, slots=True)
class Call:
    """*reference* is what stands for the provider, *endpoint* the escaped path behind it, not empty."""

    reference: str
    endpoint: str


def _bad(message: str, code: str = answers.INVALID_VALUE) -> Refused:
    return Refused(400, message, code)


def read(raw_path: bytes, rules: Rules) -> Call:
    """What the path *raw_path*, as it was sent, asks for. Raises Refused."""
    first, _, rest = raw_path.removeprefix(PREFIX).partition(b"/")
    reference = unquote_to_bytes(first).decode("utf-8", "replace")
    if not reference or not rest:
        raise _bad("provider passthrough endpoint is required")
    if not rules.types:
        raise _bad("provider passthrough is not enabled for any providers")
    version, _, behind = rest.partition(b"/")
    if version == ALIAS:
        if not rules.alias:
            raise _bad("provider passthrough v1 alias is disabled; use /p/{provider}/... without the v1 prefix")
        rest = behind
    if not rest:
        raise _bad("provider passthrough endpoint is required")
    if any(unquote_to_bytes(part) in (b".", b"..") for part in re.split(rb"[/\\]|%2[fF]|%5[cC]", rest)):
        raise _bad("provider passthrough endpoint must not contain . or .. segments")
    return Call(reference, quote(rest, safe=_PATH))


def choose(call: Call, catalogue: Catalogue, rules: Rules, allowed: frozenset[str] | None) -> ProviderRow:
    """The provider that *call* names by its name or, where there is only one, by its type. Raises Refused."""
    found = catalogue.provider(call.reference)
    if found is None:
        same = [row for row in catalogue.providers.values() if row.enabled and row.kind.type == call.reference]
        if len(same) > 1 and call.reference in rules.types:
            raise _bad(f'several providers are of type "{call.reference}"; use the name of one of them')
        found = same[0] if len(same) == 1 else None
    named = found.kind.type if found is not None else call.reference
    if named not in rules.types:
        if found is None and not any(row.kind.type == named for row in catalogue.providers.values()):
            raise Refused(404, f"provider not found: {call.reference}", answers.UNKNOWN_URL)
        enabled = ", ".join(sorted(rules.types))
        raise _bad(f'provider passthrough for "{named}" is not enabled; currently enabled providers: {enabled}')
    if found is None or not found.enabled:
        raise Refused(404, f"provider not found: {call.reference}", answers.UNKNOWN_URL)
    if allowed is not None and found.id not in allowed:
        raise Refused(403, "virtual key does not have access to this provider", answers.PERMISSION_DENIED)
    return found


def url(provider: ProviderRow, call: Call, query: bytes) -> str:
    """Where the call goes."""
    whole = f"{provider.kind.root(provider.base_url).rstrip('/')}/{call.endpoint}"
    return f"{whole}?{quote(query, safe=_PATH + '?')}" if query else whole


# -- headers


def no_socket(headers: Mapping[bytes, bytes]) -> None:
    """Raises Refused for the handshake of a WebSocket, also where the server has put the offer to upgrade aside."""
    if headers.get(b"upgrade", b"").strip().lower() == b"websocket" or b"sec-websocket-key" in headers:
        raise _bad("provider passthrough does not carry websockets")


def _dropped(headers: Iterable[Header]) -> frozenset[bytes]:
    """Hop-by-hop names: the known ones and what ``Connection`` names."""
    named = [part.strip().lower() for name, value in headers if name == b"connection" for part in value.split(b",")]
    return _HOP.union(named)


def forwarded(sent: Iterable[Header], credential: Iterable[Header], key: str, request_id: bytes) -> list[Header]:
    """What the provider gets of the client's headers *sent* (names in lower case), and its *credential*, which holds
    *key*; a header of it without the key, such as a version, is the client's to choose.
    """
    sent = list(sent)
    drop = _dropped(sent) | _OF_THE_CLIENT | _OF_US | {_LENGTH}
    secret = {name for name, value in credential if key.encode() in value} if key else set()
    kept = [
        (name, value)
        for name, value in sent
        if name not in drop and name not in secret and not name.startswith((b"x-forwarded-", b"proxy-"))
    ]
    given = {name for name, _ in kept}
    kept += [pair for pair in credential if pair[0] not in given]
    if _REQUEST_ID not in given:
        kept.append((_REQUEST_ID, request_id))
    return kept


def returned(came: Iterable[Header], ours: Iterable[Header], key: str) -> list[Header]:
    """The headers of the answer: what the provider sent (*came*), and *ours*, which win but for the request id."""
    came = list(came)
    drop = _dropped(came) | _OF_THE_CLIENT | _OF_THEM
    own = {name for name, _ in ours} - _SHARED - {_REQUEST_ID}
    secret = key.encode()
    kept = [
        (name, value.replace(secret, b"[redacted]") if secret else value)
        for name, value in came
        if name not in drop
        and name not in own
        and not name.startswith((b"x-forwarded-", b"proxy-", b"access-control-"))
    ]
    theirs = any(name == _REQUEST_ID for name, _ in kept)
    return kept + [pair for pair in ours if not (theirs and pair[0] == _REQUEST_ID)]


# -- usage

_USAGE = re.compile(r'"usage(?:Metadata)?"\s*:\s*(?=\{)')
_read_object = json.JSONDecoder().raw_decode
#: Anthropic counts these beside ``input_tokens``, everybody else within.
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")


class Seen:
    """Both ends of an answer, kept for the usage that stands there."""

    __slots__ = ("_head", "_tail")

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        free = USAGE_HEAD - len(self._head)
        if free > 0:
            self._head += data[:free]
            data = data[free:]
        self._tail += data
        if len(self._tail) > 2 * USAGE_TAIL:
            del self._tail[:-USAGE_TAIL]

    def usage(self) -> Usage | None:
        """The largest counts of any: those of a stream only grow. None where nothing is reported."""
        text = (bytes(self._head) + bytes(self._tail)).decode("utf-8", "replace")
        prompt = completion = 0
        for match in _USAGE.finditer(text):
            try:
                counted = _counts(_read_object(text, match.end())[0])
            except (ValueError, RecursionError):
                continue
            prompt, completion = max(prompt, counted.prompt), max(completion, counted.completion)
        return Usage(prompt, completion) if prompt or completion else None


def _counts(said: dict[object, object]) -> Usage:
    google = usages.first(said, "promptTokenCount")
    if google is not None:
        parts = [usages.first(said, name) or 0 for name in ("candidatesTokenCount", "thoughtsTokenCount")]
        return Usage(google, sum(parts))
    found = read_usage(said) or Usage()
    beside = sum(usages.first(said, name) or 0 for name in _BESIDE) if "input_tokens" in said else 0
    return Usage(found.prompt + beside, found.completion)
