"""What a refusal teaches, in the dialect the request was asked in, and what of it is remembered (failover-loop 6.3)."""

import logging

import msgspec

from failover.resolve import Candidate
from providers.kinds.base import Kind
from proxy import echo, egress, repairs
from proxy.dialects import jsonmode, messages
from proxy.dialects.base import Members
from proxy.dialects.responses import reroute
from proxy.dialects.responses.reroute import Requirements
from proxy.egress import Egress
from proxy.repairs import NOTHING, Repair, Taught
from proxy.terminal import Refused

log = logging.getLogger("proxy")

_LARGEST = 1024 * 1024
"""Bytes of a request that is looked through for what the refusal may have quoted."""
_USAGE = "stream_options"
_PLAIN_USAGE = {"include_usage": True}
_ERRORS = (ValueError, RecursionError)
_value = msgspec.json.Decoder(dict[str, object]).decode
_members = msgspec.json.Decoder(Members).decode


def of(spoken: Egress, kind: Kind, refused: Refused, sent: bytes, chat: Members) -> Taught:
    """What the refusal of the body *sent* teaches; *chat* is the client's request."""
    said = repairs.said(refused.body)
    try:
        names = _members(sent)
    except _ERRORS:
        return Taught(NOTHING, NOTHING)
    now = _read(spoken, kind, said, names, chat)
    if not now:
        return Taught(NOTHING, NOTHING)
    whole = _whole(sent)
    later = now & _read(spoken, kind, echo.without(said, whole), names, chat)
    passing = {repairs.THIS_SCHEMA}
    if repairs.conditional(said):
        passing |= later.rejected - {repairs.SCHEMA}
    # Without it no stream is metered, and budgets are blind: only what the gateway itself sends is a proof.
    if whole.get("stream") is not True or whole.get(_USAGE) != _PLAIN_USAGE:
        passing.add(_USAGE)
    return Taught(now, later - Repair(frozenset(passing)))


def _whole(sent: bytes) -> dict[str, object]:
    """Empty where it is too large, or nothing that can be read."""
    try:
        return _value(sent) if len(sent) <= _LARGEST else {}
    except _ERRORS:
        return {}


def _read(spoken: Egress, kind: Kind, said: str, sent: Members, chat: Members) -> Repair:
    wants_schema = jsonmode.wants_schema(chat)
    if spoken is egress.MESSAGES:
        thinking = messages.lesson(said) if "thinking" in sent else None
        refused = kind.heals_messages and not thinking
        taught = repairs.lesson(said, sent, sent_schema=False) if refused else NOTHING
        if wants_schema:
            taught |= messages.structured.lesson(said)
        return taught | Repair(thinking=thinking or "")
    if spoken is egress.RESPONSES:
        return reroute.lesson(said, sent)
    if kind.reroutes_responses and reroute.wanted(said, chat):
        return NOTHING  # it asks for a route that is not there; the reasoning_effort it names is no parameter to drop
    return repairs.lesson(said, sent, sent_schema=kind.takes_json_schema and wants_schema)


def turned(
    spoken: Egress, candidate: Candidate, requirements: Requirements, refused: Refused, sent: bytes, chat: Members
) -> Egress | None:
    """Whom a refusal sends the request to: from chat to ``/v1/responses``, or back where that is missing."""
    provider, model_id = candidate.provider, candidate.model.model_id
    if not provider.kind.reroutes_responses:
        return None
    scope, attrs = egress.responses_scope(provider), {"provider": provider.name, "model": model_id}
    openai = provider.kind.native_responses(provider.base_url)  # whose 404 there is about the model
    if spoken is egress.RESPONSES and refused.effective == 404 and not openai:
        requirements.forget(scope, model_id)
        log.info("proxy: forgot responses api requirement", extra={"attrs": attrs})
        return egress.CHAT
    said = repairs.said(refused.body)
    need = reroute.wanted(said, chat)
    if spoken is not egress.CHAT or need is None or requirements.missing(scope, model_id):
        return None
    if reroute.requirement(echo.without(said, _whole(sent))) == need and requirements.learn(scope, model_id, need):
        what = " api requirement" if need == "tools" else "-only model"
        log.info(f"proxy: learned responses{what}", extra={"attrs": attrs})
    return egress.RESPONSES
