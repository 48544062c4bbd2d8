"""The request to a candidate, and its tries on the wire (failover-loop 5.1 steps 4 and 5, 6.1)."""

import asyncio
import logging
from collections.abc import Coroutine
from functools import lru_cache
from hashlib import sha256
from typing import Any

from failover import backoff
from failover.resolve import Candidate
from modelhotel.core import durations
from providers.kinds.base import JSON_TYPE, Kind
from providers.upstream.interface import FaultKind, Headers, Request, Response, Steady, UpstreamError
from proxy.dialects.base import Members
from proxy.exchange import Exchange
from proxy.repairs import Repair
from proxy.secrecy import Secrets
from proxy.tools import Tools
from proxy.trail import Element

log = logging.getLogger("proxy")

SESSION = b"x-opencode-session"
OWN_SESSION = b"mh-"
SESSION_MAX = 128
_PRINTABLE = bytes(range(0x20, 0x7F))

_TIMEOUTS = frozenset((FaultKind.DIAL_TIMEOUT, FaultKind.HEADER_TIMEOUT, FaultKind.BODY_TIMEOUT))


def build(exchange: Exchange, candidate: Candidate, repair: Repair | None, members: Members | None = None) -> Request:
    """The request for *candidate*, who refuses what *repair* says: from scratch, nothing of the client's headers.

    *members*: what is asked, where it is not what the exchange says.
    """
    provider, endpoint = candidate.provider, exchange.endpoint
    body = endpoint.build_body(
        exchange.body if members is None else members,
        exchange.raw,
        model_id=candidate.model.model_id,
        kind=provider.kind,
        stream=exchange.stream,
        repair=repair,
    )
    headers: Headers | None = candidate.made.get("chat")
    if headers is None:
        headers = candidate.made["chat"] = Steady((JSON_TYPE, *provider.kind.auth_headers(candidate.key)))
    if provider.kind.session_header:
        headers = (*headers, (SESSION, session(exchange)))
    return Request("POST", url(provider.kind, provider.base_url, endpoint.target), headers, body)


def session(exchange: Exchange) -> bytes:
    """The session a provider may keep its prompt cache by: the client's own, else one per virtual key (v1-api 11.7)."""
    sent = (exchange.sent(SESSION) or b"").strip()
    if 0 < len(sent) <= SESSION_MAX and not sent.startswith(OWN_SESSION) and not sent.translate(None, _PRINTABLE):
        return sent
    return OWN_SESSION + sha256(b"session of " + exchange.key.hash.encode()).hexdigest()[:32].encode()


@lru_cache(maxsize=1024)
def url(kind: Kind, base_url: str, target: str) -> str:
    """Where *target* of the provider at *base_url* is."""
    return kind.url(base_url, target)


def header_timeout(exchange: Exchange) -> float:
    """Seconds from the request being written to the response headers."""
    rules = exchange.policy
    probed = exchange.stream and not exchange.endpoint.long_running
    return rules.stream_headers if probed else rules.headers


def repeatable(problem: UpstreamError) -> bool:
    """Whether a failed try is repeated against the same provider: never after a timeout."""
    if problem.request_written:
        return problem.kind is FaultKind.RESET
    return problem.kind not in _TIMEOUTS


def send(exchange: Exchange, request: Request, tools: Tools, until: float) -> Coroutine[Any, Any, Response]:
    """One try: the response headers. Raises UpstreamError.

    *until* is the loop time at which the attempt's time is over.
    """
    return tools.client().send(request, deadline=until, header_timeout=header_timeout(exchange))


async def send_again(
    exchange: Exchange,
    request: Request,
    tools: Tools,
    problem: UpstreamError,
    *,
    until: float,
    secrets: Secrets,
    element: Element,
) -> Response:
    """After a try that came to *problem*: the response headers of the first further one that brings some, of which
    there are at most :data:`backoff.TRANSPORT_RETRIES` (6.1). Raises UpstreamError.

    *element* names attempt and provider.
    """
    again = 0
    while True:
        exchange.draft.dial_ms += problem.dial_ms
        again += 1
        wait = backoff.TRANSPORT_RETRY.wait(again, tools.chance)
        out_of_time = asyncio.get_running_loop().time() + wait >= until
        if again > backoff.TRANSPORT_RETRIES or not repeatable(problem) or out_of_time:
            raise problem
        told = {
            "attempt": element.index + 1,
            "try": again,
            "backoff": durations.short(wait),
            "request_written": problem.request_written,
            "provider": element.candidate.provider.name,
            "provider_id": element.candidate.provider.id,
            "error": secrets.exception(problem),
        }
        log.warning("proxy: transient upstream error, retrying same provider", extra={"attrs": told})
        await tools.sleep(wait)
        try:
            return await send(exchange, request, tools, until)
        except UpstreamError as failed:
            problem = failed
