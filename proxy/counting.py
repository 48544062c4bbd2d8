"""``POST /v1/messages/count_tokens``: asked of a provider that can count, else estimated (v1-api 12.7)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from failover.resolve import Candidate
from providers.upstream.interface import UpstreamError
from proxy import answers, beside, body, reasons, refusals, terminal, walk
from proxy.answers import Answer
from proxy.body import BadBody
from proxy.dialects import messages
from proxy.egress import MESSAGES_PATH, native, own_messages
from proxy.exchange import Exchange
from proxy.secrecy import Secrets
from proxy.terminal import Refused

log = logging.getLogger("proxy")

UNREADABLE = "failed to read upstream response"
PATH = MESSAGES_PATH + "/count_tokens"
ANSWER_CAP = 1024 * 1024
"""Bytes of an answer, which is one number."""


async def serve(exchange: Exchange, limit: int, resolve: Callable[[Exchange], Awaitable[bool]]) -> None:
    """Answer the client; at most *limit* bytes are read of it. Raises CancelledError."""
    try:
        until = body.deadline(exchange.draft.arrival, exchange.policy.request_timeout)
        raw = await body.read(exchange.receive, body.announced(dict(exchange.scope["headers"])), limit, until=until)
        asked = await beside.by_size(len(raw), exchange.endpoint.parse, raw)
    except body.ClientGone:
        return
    except BadBody as bad:
        return await exchange.say(answers.error(bad.status, bad.message, bad.code, bad.param))
    exchange.accept(raw, asked)
    exchange.stream = False
    assert exchange.own is not None
    if not await resolve(exchange):
        return
    assert exchange.resolution is not None
    first = exchange.resolution.candidates[0]
    if native(exchange.endpoint.dialect, first) is None:
        tokens = await beside.by_size(len(raw), messages.count.input_tokens, exchange.own)
        return await exchange.answer(200, msgspec.json.encode({"input_tokens": tokens}))
    answer = await _asked(exchange, first)
    if 200 <= answer.status < 300:
        await exchange.answer(answer.status, answer.body, answer.headers)
    else:
        await exchange.say(answer)


async def _asked(exchange: Exchange, candidate: Candidate) -> Answer:
    """What the provider counts, as it came; or why it does not."""
    provider, secrets = candidate.provider, Secrets(candidate.key, walk.TOOLS.known_keys)
    request = own_messages(exchange, candidate, PATH)
    exchange.contact(provider.name, candidate.model.model_id)
    until = asyncio.get_running_loop().time() + exchange.attempt_seconds
    try:
        response = await walk.TOOLS.client().send(request, deadline=until, header_timeout=exchange.policy.headers)
    except UpstreamError as problem:
        attrs = {"provider": provider.name, "error": secrets.exception(problem)}
        log.warning("proxy: counting tokens failed", extra={"attrs": attrs})
        return answers.error(502, f"provider request failed for model {exchange.model}", "provider_error")
    try:
        if 200 <= response.status < 300:
            response.deadline(until)
            return Answer(response.status, await response.read(ANSWER_CAP), (answers.JSON,))
        return _refused(await refusals.read(response, until=until), candidate, secrets)
    except UpstreamError:
        return answers.error(502, UNREADABLE, "provider_error")
    finally:
        response.close()


def _refused(refused: Refused, candidate: Candidate, secrets: Secrets) -> Answer:
    kind, reason = reasons.classify(refused.effective, refused.error, candidate.model.model_id)
    return terminal.of_refusal(refused, kind, reason, candidate.provider.name, secrets, as_it_is=False)
