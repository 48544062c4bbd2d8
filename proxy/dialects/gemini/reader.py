"""The stream of generateContent as a chat stream (v1-api 15.3, reading rules of 14.3). Pure."""

import msgspec

from proxy import usage as usages
from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.chat import populated
from proxy.dialects.gemini import answer
from proxy.dialects.gemini.answer import ABSENT, NewId, Now, Said
from proxy.stream import probe
from proxy.stream.probe import DONE, Meaning
from proxy.stream.sse import Event
from proxy.usage import Usage

Raw = msgspec.Raw

UNREADABLE = "stream failed: the provider sent an event that is no generateContent answer"
UNEXPLAINED = "the provider sent an error without a message"
_SERVER_ERROR = "server_error"
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_CODES = 1000  # HTTP statuses have three digits
_CACHED = b"cachedContentTokenCount"
_ERRORS = (ValueError, RecursionError)

_END = Event(DONE, b"data: [DONE]\n\n")
_encode = msgspec.json.Encoder().encode
_value = msgspec.json.Decoder().decode
_members = msgspec.json.Decoder(Members).decode
_items = msgspec.json.Decoder(list[Members]).decode


class Reader:
    """One answer. *complete*: it stated how it ended; a body that ends before is truncated.

    Every upstream event may state a finish reason, so that only the end of the body tells which one is the last.
    """

    __slots__ = ("_blocked", "_cached", "_calls", "_finish", "_head", "_id", "_over", "_spoken", "_usage")

    def __init__(self, model: str, *, new_id: NewId = answer.new_id, now: Now = answer.now) -> None:
        self._id = new_id()
        opening = {"id": self._id, "object": "chat.completion.chunk", "created": int(now()), "model": model}
        self._head = _encode(opening)[:-1] + b',"choices":['
        self._spoken = False
        self._calls = 0
        self._finish = ""
        self._blocked = False
        self._usage = ABSENT
        self._cached = ABSENT
        self._over = False

    @property
    def complete(self) -> bool:
        return bool(self._finish) or self._blocked

    @property
    def usage(self) -> Usage | None:
        return usages.read(answer.chat_usage(self._usage, self._cached))

    def take(self, event: Event) -> list[Event]:
        """The chunk that *event* stands for, if it has output; an error is the last one."""
        payload = event.data
        if payload is None or self._over:
            return []
        try:
            found = answer.decode(payload)
            candidate = found.candidates[0] if found.candidates else None
            said = answer.say(candidate.parts) if candidate is not None else None
        except _ERRORS:
            return self._no_answer(payload)
        self._note(found.usage_metadata)
        if found.error is not ABSENT and populated(found.error):
            return self._fail(error_payload(payload))
        if candidate is None or said is None:
            self._blocked = self._blocked or answer.block_reason(found.prompt_feedback) != ""
            return []
        if candidate.finish:
            if candidate.finish == answer.MALFORMED_CALL:
                return self._fail(_error(answer.MALFORMED_TEXT))
            self._finish = candidate.finish
        return [self._chunk(said)] if said.anything else []

    def finish(self) -> list[Event]:
        """The body is over: finish reason and usage, and the end marker. Of a truncated one only the usage."""
        if self._over:
            return []
        self._over = True
        usage = answer.chat_usage(self._usage, self._cached)
        tail = b"]}" if usage is None else b'],"usage":' + _encode(usage) + b"}"
        if not self.complete:
            return [] if usage is None else [_event(self._head + tail)]
        reason = answer.finish_reason(self._finish, calls=self._calls > 0, delivered=True)
        choice = {"index": 0, "delta": {}, "finish_reason": "content_filter" if self._blocked else reason}
        return [_event(self._head + _encode(choice) + tail), _END]

    def _note(self, metadata: Raw) -> None:
        """Figures are running totals, so that the last ones count."""
        if answer.begins(metadata) == b"{":
            self._usage = metadata
            if _CACHED in bytes(metadata):
                self._cached = metadata

    def _chunk(self, said: Said) -> Event:
        delta: dict[str, object] = {}
        if not self._spoken:
            delta["role"] = "assistant"
            self._spoken = True
        if said.text:
            delta["content"] = said.text
        if said.calls:
            first = self._calls
            self._calls += len(said.calls)
            delta["tool_calls"] = [
                {"index": index, **answer.tool_call(call, self._id, index)}
                for index, call in enumerate(said.calls, start=first)
            ]
        if said.images:
            delta["images"] = [answer.picture(url) for url in said.images]
        return _event(b'%b{"index":0,"delta":%b,"finish_reason":null}]}' % (self._head, _encode(delta)))

    def _no_answer(self, payload: bytes) -> list[Event]:
        word = payload.strip()
        if not word:
            return []
        if word == DONE:  # gateways in front of Google may end their streams so
            return self.finish()
        self._note(_reported(payload))
        return self._fail(error_payload(payload))

    def _fail(self, error: bytes) -> list[Event]:
        self._over = True
        return [_event(error)]


def _event(data: bytes) -> Event:
    return Event(data, b"data: %b\n\n" % data)


def classify(payload: bytes) -> Meaning:
    """What one upstream event means before the first token (failover-loop 10.2): what it becomes is what it means."""
    if payload.strip() == DONE:
        return Meaning.END
    for event in Reader("").take(Event(payload, b"")):
        return probe.classify(event.data or b"")
    return Meaning.NOTHING


# -- errors


def error_payload(payload: bytes) -> bytes:
    """An error event, or one that is no answer, as ``{"error": {message, type, param, code}}``.

    *type* is Google's status, *code* the HTTP status. Of the details only the wait is kept, which a 429 is judged by:
    the others name the operator's project and plan.
    """
    error = _stated(payload)
    if error is None:
        return _error(answer.MALFORMED_TEXT if _malformed_call(payload) else UNREADABLE)
    message = _leaf(error, "message")
    words = [word for name in ("status", "type") if isinstance(word := _leaf(error, name), str) and word]
    codes = [_code(_leaf(error, name)) for name in ("code", "status")]
    said: dict[str, object] = {
        "message": message if isinstance(message, str) and message else UNEXPLAINED,
        "type": next(iter(words), _SERVER_ERROR),
        "param": None,
        "code": codes[0] or codes[1],
    }
    if (delay := _retry_delay(_leaf(error, "details"))) is not None:
        said["details"] = [{"@type": _RETRY_INFO, "retryDelay": delay}]
    return _encode({"error": said})


def _error(message: str) -> bytes:
    return _encode({"error": {"message": message, "type": _SERVER_ERROR, "param": None, "code": "provider_error"}})


def _stated(payload: bytes) -> Members | None:
    """The members of a populated ``error``, also of one in a list; those of one that is no object are its text."""
    try:
        frames = _items(payload) if payload.lstrip()[:1] == b"[" else [_members(payload)]
        error = next((frame["error"] for frame in frames if "error" in frame and populated(frame["error"])), None)
        return _members(error) if error is not None and answer.begins(error) == b"{" else _text_of(error)
    except _ERRORS:
        return None


def _text_of(error: Raw | None) -> Members | None:
    return None if error is None else {"message": error}


def _code(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if 0 < value < _CODES else None
    return value if isinstance(value, str) and value.isdigit() else None


def _leaf(members: Members, name: str) -> object:
    try:
        return _value(members[name]) if name in members else None
    except _ERRORS:
        return None


def _reported(payload: bytes) -> Raw:
    """The figures in an event of which nothing else can be read."""
    try:
        return _members(payload).get("usageMetadata", ABSENT)
    except _ERRORS:
        return ABSENT


def _retry_delay(details: object) -> str | None:
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            return delay
    return None


def _malformed_call(payload: bytes) -> bool:
    try:
        return answer.first(answer.read(payload)).finish == answer.MALFORMED_CALL
    except Untranslatable:
        return False
