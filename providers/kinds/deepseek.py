"""DeepSeek: its reasoning models want ``reasoning_content`` on every assistant message of the history."""

import msgspec

from providers.kinds.base import Kind
from providers.quota import readers

_EMPTY = msgspec.Raw(b'""')
#: What decoding raises; what was read once may be nested too deep to be read again further down.
_ERRORS = (ValueError, RecursionError)
_messages = msgspec.json.Decoder(list[msgspec.Raw])
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


def wants_reasoning(model_id: str) -> bool:
    name = model_id.lower()
    return "v4" in name or "r1" in name or name == "deepseek-reasoner"


def _with_reasoning(message: msgspec.Raw) -> msgspec.Raw | None:
    """The message with the member added; None when it needs none."""
    try:
        members = _object.decode(message)
        if "reasoning_content" in members or msgspec.json.decode(members.get("role", _EMPTY)) != "assistant":
            return None
    except _ERRORS:
        return None
    return msgspec.Raw(msgspec.json.encode({**members, "reasoning_content": _EMPTY}))


class DeepSeek(Kind):
    type = "deepseek"
    label = "DeepSeek"
    default_base_url = "https://api.deepseek.com/v1"
    quota = readers.DEEPSEEK
    strip = frozenset({"min_p", "top_k", "reasoning_effort"})
    takes_json_schema = False
    catalog = "deepseek"
    catalog_adds = True
    catalog_owner = "deepseek"
    modelsdev = "deepseek"
    modelsdev_only = True

    def inject(self, body: dict[str, msgspec.Raw], model_id: str) -> None:
        if "messages" not in body or not wants_reasoning(model_id):
            return
        try:
            messages = _messages.decode(body["messages"])
        except _ERRORS:
            return
        changed = {at: new for at, message in enumerate(messages) if (new := _with_reasoning(message)) is not None}
        if changed:
            body["messages"] = msgspec.Raw(
                msgspec.json.encode([changed.get(at, message) for at, message in enumerate(messages)])
            )
