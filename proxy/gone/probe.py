"""The gateway's own question whether a model is still served, and what its answer says (providers 7.3)."""

import json
import logging
from dataclasses import replace
from typing import Any

from modelhotel.core import crypto
from providers import control, own_call, ports
from providers.cache import ModelRow, ProviderRow
from providers.keyring import KEYRING
from providers.kinds.base import Kind
from providers.own_call import Reply
from proxy import reasons
from proxy.dialects import embeddings
from proxy.gone.docket import Surface, Verdict

log = logging.getLogger("proxy")

SECONDS = 30.0
ANSWER_BYTES = 1024 * 1024
PROMPT = "Respond only with `Hi`"
EMBEDDED = "Hi"
MAX_TOKENS = 64
"""Enough for a model that thinks a little before it answers."""
#: Members of a message that are an answer of the model's, whichever of them it has.
_CONTENT = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal")


def ask(provider: ProviderRow, model: ModelRow, surface: Surface) -> Verdict:
    """One minimal request on *surface*, in the calling thread. Touches no circuit, writes no row, is not metered."""
    try:
        key = KEYRING.wait(provider)
        call = _call(provider, model, surface, key)
    except crypto.DecryptError:
        return Verdict.INCONCLUSIVE  # told by the keyring
    reply = control.LOOP.run(own_call.ask(call.request, seconds=SECONDS, limit=ANSWER_BYTES))
    return verdict(_undisguised(reply, provider.kind), call, model.model_id, surface)


def _undisguised(reply: Reply, kind: Kind) -> Reply:
    """With the status that it counts as, as for traffic (failover-loop 5.3)."""
    found = kind.disguised(reply.body) if kind.disguises_errors and reply.status == 200 else None
    return reply if found is None else replace(reply, status=found.status)


def _call(provider: ProviderRow, model: ModelRow, surface: Surface, key: str) -> ports.ChatCall:
    if surface == "embeddings":
        return own_call.embeddings(provider, model.model_id, key, text=EMBEDDED)
    outputs = model.output_modalities
    return own_call.chat(provider, model.model_id, outputs, key, prompt=PROMPT, max_tokens=MAX_TOKENS)


def verdict(reply: Reply, call: ports.ChatCall, model_id: str, surface: Surface) -> Verdict:
    """What *reply* says: only a plain answer and a plain refusal of this very model count. Pure."""
    if reply.status == 200:
        return Verdict.SERVED if _answers(reply.body, call, surface) else Verdict.INCONCLUSIVE
    refused = reply.status >= 300 and reasons.model_gone(reply.status, reasons.read(reply.body), model_id)
    return Verdict.REFUSED if refused else Verdict.INCONCLUSIVE


def _answers(body: bytes, call: ports.ChatCall, surface: Surface) -> bool:
    if surface == "embeddings":
        return embeddings.read_answer(body).carries
    try:
        payload: Any = json.loads(call.read(body))
    except (ports.NoAnswer, ValueError, RecursionError):
        return False
    choices = payload.get("choices") if isinstance(payload, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return isinstance(message, dict) and any(message.get(member) for member in _CONTENT)
