"""A chat request of the gateway's own, such as a model test: spoken and read as traffic to that model is."""

from hashlib import sha256
from types import ModuleType

from providers.cache import ProviderRow
from providers.kinds.base import CHAT_PATH, JSON_TYPE
from providers.ports import ChatCall, NoAnswer
from providers.upstream.interface import Request
from proxy import egress, outgoing
from proxy.dialects import chat, gemini, messages
from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.responses import egress as responses

_TRANSLATORS: dict[str, ModuleType] = {"messages": messages.egress, "gemini": gemini.egress, "responses": responses}
_PATHS = {"chat": CHAT_PATH, "messages": egress.MESSAGES_PATH, "responses": egress.RESPONSES_PATH}
#: Of the requests that no virtual key stands behind (v1-api 11.7).
_SESSION = outgoing.OWN_SESSION + sha256(b"session of model tests").hexdigest()[:32].encode()


def build(provider: ProviderRow, model_id: str, outputs: tuple[str, ...], body: Members, key: str) -> ChatCall:
    """The call for *body*, a chat request without ``model``; its answer is not streamed."""
    kind, dialect = provider.kind, egress.dialect_of(provider, model_id, outputs, body)
    headers = [JSON_TYPE, *kind.auth_headers(key, dialect)]
    if kind.session_header:
        headers.append((outgoing.SESSION, _SESSION))
    if dialect == "gemini":
        url = kind.gemini_url(provider.base_url, model_id, stream=False)
    else:
        url = kind.url(provider.base_url, _PATHS[dialect])
    translator = _TRANSLATORS.get(dialect)
    if translator is None:
        content = chat.build_body(body, b"", model_id=model_id, kind=kind, stream=False)
        return ChatCall(Request("POST", url, headers, content), bytes)
    content = translator.build(chat.to_translate(body, model_id=model_id), model=model_id, stream=False)

    def read(payload: bytes) -> bytes:
        try:
            answer: bytes = translator.to_chat(payload, model=model_id)
        except Untranslatable as problem:
            raise NoAnswer(str(problem)) from None
        return answer

    return ChatCall(Request("POST", url, headers, content), read)
