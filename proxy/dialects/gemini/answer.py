"""What a generateContent answer says, whole or one event of a stream (v1-api 15.3). Pure.

Only what a chat completion can express is read; whatever else an answer holds is left alone. A leaf of an unexpected
type says nothing; an answer whose frame is of another shape is no answer.
"""

import re
import time
from collections.abc import Callable, Mapping

import msgspec

from modelhotel.core import ids
from proxy import usage as usages
from proxy.dialects import thoughtsig
from proxy.dialects.base import Members, Untranslatable
from proxy.usage import Usage

Raw = msgspec.Raw

ABSENT = Raw()
MALFORMED_CALL = "MALFORMED_FUNCTION_CALL"
#: The finish reason of a call that the model did not bring to paper: there is nothing to be shown.
MALFORMED_TEXT = "the model ended in a malformed function call"

#: All others are ``stop``.
FINISH_REASONS: Mapping[str, str] = {
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"), "content_filter"
    ),
}
_BOM = b"\xef\xbb\xbf"
_ERRORS = (ValueError, RecursionError)
#: A value of Google's enumerations. Anything else may be what somebody said, and must not be told on.
_ENUM = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_COUNTS = (
    "promptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "totalTokenCount",
    "cachedContentTokenCount",
)


class Part(msgspec.Struct, gc=False, rename="camel"):
    """*inline_data* is ``{mimeType, data}``, *audio_transcription* ``{text}``."""

    text: object = None
    thought: object = None
    function_call: Raw = ABSENT
    inline_data: object = None
    thought_signature: object = None
    signature: object = msgspec.field(default=None, name="thought_signature")
    audio_transcription: object = None


class Content(msgspec.Struct, gc=False):
    parts: list[Part] | None = None


class Candidate(msgspec.Struct, gc=False, rename="camel"):
    content: Content | None = None
    finish_reason: object = None

    @property
    def parts(self) -> list[Part]:
        """Those that are answer, not thought."""
        parts = self.content.parts if self.content is not None else None
        return [part for part in parts or () if not part.thought]

    @property
    def finish(self) -> str:
        """The reason as it was stated; empty where none was."""
        return self.finish_reason if isinstance(self.finish_reason, str) else ""


class Answer(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[Candidate] | None = None
    usage_metadata: Raw = ABSENT
    prompt_feedback: Raw = ABSENT
    error: Raw = ABSENT


class Call(msgspec.Struct, gc=False):
    """*arguments* is compact JSON; *signature* is empty where the call has none."""

    name: str
    arguments: str
    signature: str


class Said(msgspec.Struct, gc=False):
    """What is to be delivered; *images* are data URIs."""

    text: str
    calls: list[Call]
    images: list[str]

    @property
    def anything(self) -> bool:
        return bool(self.text or self.calls or self.images)


class _Call(msgspec.Struct, gc=False):
    name: object = None
    args: Raw = ABSENT


#: Raises ValueError or RecursionError.
decode = msgspec.json.Decoder(Answer).decode
_call = msgspec.json.Decoder(_Call).decode
_members = msgspec.json.Decoder(Members).decode
_value = msgspec.json.Decoder().decode


def begins(raw: Raw) -> bytes:
    """The first byte of a value, which tells its type; empty for :data:`ABSENT`."""
    return bytes(memoryview(raw)[:1])


def read(payload: bytes) -> Answer:
    """An answer that came whole. Raises Untranslatable where it is none."""
    try:
        return decode(payload.removeprefix(_BOM))
    except _ERRORS:
        raise Untranslatable("gemini: the body is no generateContent answer") from None


def first(answer: Answer) -> Candidate:
    """The first candidate. Raises Untranslatable where there is none, *blocked* where the prompt was refused."""
    if answer.candidates:
        return answer.candidates[0]
    if reason := block_reason(answer.prompt_feedback):
        raise Untranslatable(f"prompt blocked: {reason}", blocked=True, usage=usage(answer))
    raise Untranslatable("gemini: the answer has no candidate", usage=usage(answer))


def say(parts: list[Part]) -> Said:
    """What *parts* deliver together. Raises ValueError where a call is not UTF-8."""
    texts: list[str] = []
    calls: list[Call] = []
    images: list[str] = []
    for part in parts:
        if isinstance(part.text, str):
            texts.append(part.text)
        if part.function_call is not ABSENT and (call := _read_call(part)) is not None:
            calls.append(call)
        if part.inline_data is not None:
            media_type, data = blob(part)
            if data and media_type.lower().startswith("image/"):
                images.append(f"data:{media_type};base64,{data}")
    return Said("".join(texts), calls, images)


def _read_call(part: Part) -> Call | None:
    if begins(part.function_call) != b"{":
        return None
    call = _call(part.function_call)
    if not isinstance(call.name, str) or not call.name:
        return None
    signature = part.thought_signature or part.signature
    return Call(call.name, _arguments(call.args), signature if isinstance(signature, str) else "")


def _arguments(args: Raw) -> str:
    return msgspec.json.format(bytes(args), indent=-1).decode() if begins(args) == b"{" else "{}"


def blob(part: Part) -> tuple[str, str]:
    """(media type, base64) of what stands inline in *part*; empty where nothing does."""
    data = part.inline_data
    if not isinstance(data, dict):
        return "", ""
    media_type, body = data.get("mimeType"), data.get("data")
    return (media_type, body) if isinstance(media_type, str) and isinstance(body, str) else ("", "")


def block_reason(feedback: Raw) -> str:
    """Why the prompt was refused, in Google's word; empty where it was not."""
    try:
        reason = _value(feedback) if feedback is not ABSENT else None
    except _ERRORS:
        return ""
    reason = reason.get("blockReason") if isinstance(reason, dict) else None
    if not isinstance(reason, str) or not reason:
        return ""
    return reason if _ENUM.fullmatch(reason) else "BLOCKED_REASON_UNSPECIFIED"


def finish_reason(stated: str, *, calls: bool, delivered: bool) -> str | None:
    """In OpenAI's vocabulary. None where nothing was *stated* and nothing *delivered*: that is no answer (10.6)."""
    if calls:
        return "tool_calls"
    return FINISH_REASONS.get(stated, "stop") if stated or delivered else None


def tool_call(call: Call, chat_id: str, index: int) -> dict[str, object]:
    """*call*, the one with *index* in the answer *chat_id*, as chat says it; the signature must come back (15.2)."""
    said: dict[str, object] = {
        "id": f"call_{chat_id}_{index}",
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    if call.signature:
        said["extra_content"] = thoughtsig.extra(call.signature)
    return said


def picture(url: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url}}


# -- what it cost


def chat_usage(metadata: Raw, cached: Raw = ABSENT) -> dict[str, object] | None:
    """``usageMetadata`` as a chat ``usage``; None where it holds no readable count.

    Google leaves out what is zero, so that a count which is absent is known; one that can not be read is not, and its
    member is absent. *cached*: an earlier report of the same stream, for the figure of the cache alone.
    """
    counts = _counts(metadata)
    if all(usages.first(counts, name) is None for name in _COUNTS):
        return None
    prompt = _sum(counts, "promptTokenCount")
    completion = _sum(counts, "candidatesTokenCount", "thoughtsTokenCount")
    total = usages.first(counts, "totalTokenCount")
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    said: dict[str, object] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    said = {name: count for name, count in said.items() if count is not None}
    thoughts = usages.first(counts, "thoughtsTokenCount")
    if thoughts is not None:
        said["completion_tokens_details"] = {"reasoning_tokens": thoughts}
    hit = usages.first(counts, "cachedContentTokenCount")
    if hit is None:
        hit = usages.first(_counts(cached), "cachedContentTokenCount")
    if hit is not None:
        said["prompt_tokens_details"] = {"cached_tokens": hit}
    return said


def usage(answer: Answer) -> Usage | None:
    """What a whole answer cost; None where it does not say."""
    return usages.read(chat_usage(answer.usage_metadata))


def _counts(metadata: Raw) -> dict[object, object]:
    """What stands under the known names; False where it can not be read."""
    try:
        members = _members(metadata)
    except _ERRORS:
        return {}
    found: dict[object, object] = {}
    for name in _COUNTS:
        if name in members:
            try:
                value = _value(members[name])
            except _ERRORS:
                value = False
            if value is not None:
                found[name] = value
    return found


def _sum(counts: dict[object, object], *names: str) -> int | None:
    found = 0
    for name in names:
        if name in counts:
            count = usages.first(counts, name)
            if count is None:
                return None
            found += count
    return found


# -- ids and clock

NewId = Callable[[], str]
Now = Callable[[], float]


def new_id() -> str:
    return "chatcmpl-" + ids.uuid4_text().replace("-", "")


now: Now = time.time
