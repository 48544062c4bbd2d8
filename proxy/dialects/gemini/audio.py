"""What speech and transcription through generateContent have in common (v1-api 17.4, 17.5). Pure."""

import msgspec

from proxy.dialects.base import Untranslatable
from proxy.dialects.gemini import answer
from proxy.dialects.gemini.answer import Part
from proxy.usage import Usage

QUOTED_LIMIT = 64
"""Characters of a client's word that a refusal repeats."""


class Refusal(Untranslatable):
    """The candidate can not serve this request as it was asked; the text is for the client (a 400), *param* names the
    member at fault.
    """

    def __init__(self, text: str, param: str) -> None:
        super().__init__(text)
        self.param = param


class Media(msgspec.Struct, frozen=True):
    """An answer as the client gets it."""

    content_type: str
    body: bytes
    usage: Usage | None


def read(payload: bytes, limit: int) -> tuple[list[Part], Usage | None]:
    """The parts of a whole answer of at most *limit* bytes, and what it cost. Raises Untranslatable."""
    if len(payload) > limit:
        raise Untranslatable("gemini: the answer is larger than the gateway will read")
    found = answer.read(payload)
    return answer.first(found).parts, answer.usage(found)


def quoted(value: object) -> str:
    """*value* as a refusal repeats it."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= QUOTED_LIMIT else text[:QUOTED_LIMIT] + "…"
