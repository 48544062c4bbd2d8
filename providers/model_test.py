"""The operator's test of one model: one small request of the gateway's own, and what came of it."""

import json
import logging
from collections.abc import Callable
from typing import Any

from modelhotel.core import crypto
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.faults import Refusal
from providers import control, own_call, ports, sanitize
from providers.cache import ProviderRow, row_of
from providers.keyring import KEYRING, UNREADABLE
from providers.model_verbs import parse_id
from providers.models import Model
from providers.own_call import Reply

log = logging.getLogger("models")

SECONDS = 30.0
ANSWER_BYTES = 10 * 1024 * 1024
PROMPT = "Respond only with `Hi`"
EMBEDDED = "Hi"
MAX_TOKENS = 10
_NO_RESPONSE = 502
#: The class of a model that is asked for a vector: it could answer no chat.
_EMBEDDING = "embedding"


def run(model_id: str, *, allow_disabled: bool = False, clock: Clock = SYSTEM) -> dict[str, Any]:
    """Test the model row *model_id* (UUID text). Writes a request-log row, charges no circuit. Raises Refusal."""
    row = Model.objects.select_related("provider").filter(pk=parse_id(model_id)).first()
    if row is None:
        raise Refusal(404, "model not found")
    if not row.enabled and not allow_disabled:
        raise Refusal(400, "model is disabled")
    provider = row_of(row.provider)
    try:
        key = KEYRING.wait(provider)
    except crypto.DecryptError:
        log.error(
            "keycache: decryption failed, possible wrong master key", extra={"attrs": {"provider": provider.name}}
        )
        raise Refusal(500, UNREADABLE) from None
    started = clock.now().timestamp()
    embeds = row.modality == _EMBEDDING
    call = _call(provider, row, key, embeds=embeds)
    reply = control.LOOP.run(own_call.ask(call.request, seconds=SECONDS, limit=ANSWER_BYTES))
    answer, usage = _read(reply, call.read, key)
    ports.logs.record_test(
        ports.TestRun(
            started=started,
            provider_id=provider.id,
            provider=provider.name,
            model_id=row.model_id,
            status_code=reply.status or _NO_RESPONSE,
            state="completed" if answer["success"] else "failed",
            duration_ms=reply.duration_ms,
            response_header_ms=reply.header_ms,
            error=answer.get("error"),
            tokens_prompt=usage[0],
            tokens_completion=usage[1],
            endpoint_type="embeddings" if embeds else "chat",
        )
    )
    return answer


def _call(provider: ProviderRow, row: Model, key: str, *, embeds: bool) -> ports.ChatCall:
    if embeds:
        return own_call.embeddings(provider, row.model_id, key, text=EMBEDDED)
    outputs = tuple(row.output_modalities)
    return own_call.chat(provider, row.model_id, outputs, key, prompt=PROMPT, max_tokens=MAX_TOKENS)


def _read(reply: Reply, read: Callable[[bytes], bytes], key: str) -> tuple[dict[str, Any], tuple[int, int]]:
    """The answer of the API, and prompt and completion tokens."""
    answer: dict[str, Any] = {
        "success": reply.status == 200,
        "streaming": False,
        "duration_ms": reply.duration_ms,
        "response": "",
    }
    if reply.header_ms is not None:
        answer["response_header_ms"] = reply.header_ms
    usage = (0, 0)
    if reply.status == 200:
        try:
            payload = json.loads(read(reply.body))
            answer["response"], usage = _vector(payload) or _content(payload), _usage(payload)
        except ports.NoAnswer as problem:
            answer |= {"success": False, "error": str(problem)}
        except (ValueError, RecursionError):
            answer |= {"success": False, "error": "the answer is not JSON"}
    else:
        text = f"HTTP {reply.status}: ".encode() + reply.body if reply.status else reply.error
        answer["error"] = sanitize.clean(text, sanitize.TEST_CHARACTERS, (key,))
    return answer, usage


def _vector(payload: Any) -> str:
    """What the first vector of an embeddings answer is like."""
    data = payload.get("data") if isinstance(payload, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    numbers = first.get("embedding") if isinstance(first, dict) else None
    return f"a vector of {len(numbers)} numbers" if isinstance(numbers, list) else ""


def _content(payload: Any) -> str:
    choices = payload.get("choices") if isinstance(payload, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""


def _usage(payload: Any) -> tuple[int, int]:
    usage = payload.get("usage") if isinstance(payload, dict) else None
    found = [usage.get(name) if isinstance(usage, dict) else 0 for name in ("prompt_tokens", "completion_tokens")]
    prompt, completion = (n if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**31 else 0 for n in found)
    return prompt, completion
