"""An attempt whose answer passes through as it came (v1-api 17.2, failover-loop 18).

JSON that fits into :data:`BUFFERED` is read and judged before the first byte goes out, so another candidate can still
take over; a larger answer is committed with what has come of it, anything else at its first byte, and relayed.
"""

import logging
import secrets

from failover import verdict
from providers.upstream.interface import Request, Response, UpstreamError
from proxy import metering, reasons
from proxy.answers import JSON, Header
from proxy.exchange import BODILESS
from proxy.relayed import NOTHING_CAME, Relayed, disposition, length
from proxy.repairs import Repair
from proxy.terminal import Failure

log = logging.getLogger("proxy")

BUFFERED = 8 * 1024 * 1024
"""Bytes of an answer that are read before any of it goes out."""
UNREADABLE = "failed to read upstream response"


class PassThrough(Relayed):
    """See the module's docstring."""

    __slots__ = ()

    def _build(self, repair: Repair | None) -> Request:
        form, endpoint = self._exchange.form, self._exchange.endpoint
        if form is None:
            return super()._build(repair)
        kind, model_id = self._provider.kind, self._model.model_id
        changes = endpoint.form_changes(form, kind, model_id) if endpoint.form_changes is not None else None
        content_type, body = form.made_for(model_id, new_boundary, changes)
        headers = [(b"content-type", content_type.encode()), *kind.auth_headers(self._candidate.key)]
        return Request("POST", kind.url(self._provider.base_url, endpoint.target), headers, body)

    async def _take(self, response: Response) -> Failure | None:
        if response.status in BODILESS:
            self._judge(verdict.passed_without_body(response.status))
            await self._deliver(response.status, b"")
            return None
        response.deadline(self._until)
        if self._exchange.endpoint.always_json or is_json(response):
            return await self._whole(response)
        return await self._pass_on(response)

    async def _whole(self, response: Response) -> Failure | None:
        broke: UpstreamError | None = None
        try:
            payload, over = await gather(response, BUFFERED)
        except UpstreamError as problem:
            broke, payload, over = problem, problem.partial, True
        if self._compressed(response):
            return self._refuse_compressed(response, len(payload))
        if not over:
            await self._relay(response, payload, (*headers(response), *length(response)))
            return None
        if not payload and broke is None:
            return self._nothing_came(response)
        answer = self._exchange.endpoint.read_answer(payload)
        if broke is not None and answer.verdict == "undecodable":
            return self._broke(broke, UNREADABLE if payload else NOTHING_CAME)
        if answer.verdict == "undecodable":
            metering.charge_rejected(self._exchange, self._model, None)
            return self._undecodable(response, answer.problem, len(payload))
        if answer.verdict == "no_results" and not self._last and self._policy.by_status(502):
            metering.charge_rejected(self._exchange, self._model, answer.usage)
            log.warning("proxy: upstream answered with no results", extra={"attrs": self._counted})
            return self._no_answer(reasons.NO_RESULTS, verdict.empty(response.status))
        self._judge(verdict.success(response.status) if answer.carries else verdict.empty(response.status))
        metering.charge(self._exchange, self._model, answer.usage, answer.delivered, answer.searches)
        self.leave(clean=answer.verdict != "no_results")
        await self._deliver(response.status, self._secrets.mask_content(payload), headers(response))
        return None


def new_boundary() -> str:
    """One that stands in no form."""
    return f"modelhotel-{secrets.token_hex(16)}"


async def gather(response: Response, limit: int) -> tuple[bytes, bool]:
    """(the body as far as it was read, whether that is all): it stops above *limit* bytes.

    Raises UpstreamError with what came as ``partial``.
    """
    pieces: list[bytes] = []
    size = 0
    while size <= limit:
        try:
            piece = await response.chunk()
        except UpstreamError as problem:
            problem.partial = b"".join(pieces)
            raise
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces), False


def is_json(response: Response) -> bool:
    """Whether the answer is read before any of it goes out. A page of HTML is, and is found to be no answer."""
    kind = (response.header(b"content-type") or b"").lower()
    return b"json" in kind or b"html" in kind


def headers(response: Response) -> tuple[Header, ...]:
    """What the client gets of the answer's headers. What is no JSON by its own words is still read as such."""
    kind = response.header(b"content-type") or b""
    shown: Header = (b"content-type", kind) if b"json" in kind.lower() else JSON
    return (shown, *disposition(response))
