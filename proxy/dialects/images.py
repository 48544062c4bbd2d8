"""OpenAI images: the request a provider type gets, and whether there is a picture in an answer. Pure."""

from contextlib import suppress

import msgspec

from providers.kinds.base import Kind
from proxy.dialects import passed
from proxy.dialects.base import Judged, Members
from proxy.multipart import BadForm, Form
from proxy.repairs import Repair

parse = passed.streamed
_NO_TEXT = (b"", b"null", b'""')
_encode = msgspec.json.Encoder().encode


class _Image(msgspec.Struct):
    b64_json: msgspec.Raw = msgspec.Raw(b"")
    url: msgspec.Raw = msgspec.Raw(b"")


class _Images(msgspec.Struct):
    data: list[msgspec.Raw]
    usage: object = None


_decode = msgspec.json.Decoder(_Images).decode
_decode_image = msgspec.json.Decoder(_Image).decode


def build_body(
    body: Members, raw: bytes, *, model_id: str, kind: Kind, stream: bool, repair: Repair | None = None
) -> bytes:
    """The body for one candidate: its model, and what its type takes instead of what was asked for (v1-api 11.7)."""
    members = dict(body)
    kind.image_body(members, model_id)
    return _encode({**members, "model": model_id})


def form_changes(form: Form, kind: Kind, model_id: str) -> dict[str, str | None]:
    """The same for a form: text fields to replace, None = to leave out. What is no text stays what it is."""
    sent: Members = {}
    for part in form.parts:
        if part.filename is None:
            with suppress(BadForm):
                sent[part.name] = msgspec.Raw(_encode(part.text))
    members = dict(sent)
    kind.image_body(members, model_id)
    changes: dict[str, str | None] = {name: None for name in sent if name not in members}
    changes |= {name: _text(raw) for name, raw in members.items() if raw is not sent.get(name)}
    return changes


def read_answer(payload: bytes) -> Judged:
    """Judge the body of a 2xx: it goes on as it came. A picture is base64 or an address."""
    try:
        found = _decode(payload.removeprefix(passed.BOM))
    except (ValueError, RecursionError) as problem:
        return passed.undecodable(problem)
    return passed.judged(payload, passed.read_usage(found.usage), results=any(map(_is_picture, found.data)))


def _text(raw: msgspec.Raw) -> str:
    value = msgspec.json.decode(raw)
    return value if isinstance(value, str) else bytes(raw).decode()


def _is_picture(raw: msgspec.Raw) -> bool:
    try:
        image = _decode_image(raw)
    except ValueError:
        return False
    return bytes(image.b64_json) not in _NO_TEXT or bytes(image.url) not in _NO_TEXT
