"""An attempt whose answer passes through as it came (v1-api 17.2, failover-loop 18).

What fits into :data:`BUFFERED` is read and judged before the first byte goes out, so another candidate can still take
over; a larger answer is committed with what has come of it and relayed, and then only its end can tell.
"""

import asyncio
import logging

from failover import verdict
from failover.verdict import Judgement
from modelhotel.core import redact
from providers.upstream.interface import FaultKind, Response, UpstreamError
from proxy import answers, metering, reasons, refusals
from proxy.answers import JSON, Header
from proxy.attempt import BODILESS, Attempt
from proxy.secrecy import CONTENT_KEY_MIN
from proxy.terminal import Failure

log = logging.getLogger("proxy")

BUFFERED = 8 * 1024 * 1024
"""Bytes of an answer that are read before any of it goes out."""
NOTHING_CAME = "upstream produced no response data"
UNREADABLE = "failed to read upstream response"
CUT = "answer cut off: upstream connection error"
TIMED_OUT = "answer cut off: upstream request timed out"


class PassThrough(Attempt):
    """See the module's docstring."""

    __slots__ = ()

    async def _take(self, response: Response) -> Failure | None:
        if response.status in BODILESS:
            self._judge(verdict.passed_without_body(response.status))
            await self._deliver(response.status, b"")
            return None
        response.deadline(self._until)
        broke: UpstreamError | None = None
        try:
            payload, over = await gather(response, BUFFERED)
        except UpstreamError as problem:
            broke, payload, over = problem, problem.partial, True
        if response.header(b"content-encoding") not in refusals.PLAIN:
            metering.charge_rejected(self._exchange, self._model, None)
            return self._undecodable(response, "compressed, which nobody asked for", len(payload))
        if not over:
            await self._relay(response, payload)
            return None
        if not payload and broke is None:
            log.warning("proxy: upstream answered without a body", extra={"attrs": self._counted})
            return self._gone(NOTHING_CAME, "", verdict.empty(response.status))
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
        metering.charge(self._exchange, self._model, answer.usage, answer.delivered)
        self.leave(clean=answer.verdict != "no_results")
        await self._deliver(response.status, self._secrets.mask_content(payload), headers(response))
        return None

    @property
    def _counted(self) -> dict[str, object]:
        return {**self.attrs, "model": self._model.model_id, "attempt": self._element.index + 1}

    def _broke(self, broke: UpstreamError, message: str) -> Failure:
        """A body that broke off before anything of it went out."""
        judgement = verdict.broken(self._element.status)
        text = self._secrets.exception(broke)
        if broke.kind is FaultKind.BODY_TIMEOUT:
            metering.charge_rejected(self._exchange, self._model, None)
            return self._failed(Failure("provider_timeout", text), judgement)
        return self._gone(message, text, judgement)

    def _gone(self, message: str, text: str, judgement: Judgement) -> Failure:
        """It moves on whatever the status list says, like any transport failure."""
        metering.charge_rejected(self._exchange, self._model, None)
        answer = answers.error(502, message, answers.code_of("provider_error", 502))
        kept = f"{message}: {text}" if text else message
        return self._failed(Failure("provider_error", kept, answer=answer), judgement)

    # -- an answer too large to be read first

    async def _relay(self, response: Response, first: bytes) -> None:
        """Commit and pass on; the verdict is that of the end. Usage is not looked for in so much."""
        exchange, draft, guard = self._exchange, self._draft, Guard(self._secrets.own)
        draft.status_code = response.status
        length = response.header(b"content-length")
        sized: tuple[Header, ...] = ((b"content-length", length),) if length is not None else ()
        data = first
        try:
            await exchange.start_body(response.status, (*headers(response), *sized))
            while data:
                await exchange.write(guard.take(data))
                data = await response.chunk()
            self.leave(clean=True)
            await exchange.write(guard.rest())
            await exchange.end()
            self._judge(verdict.success(response.status))
            draft.state = "completed"
        except UpstreamError as broke:
            late = broke.kind is FaultKind.BODY_TIMEOUT
            self._judge(verdict.broken(response.status))
            text = TIMED_OUT if late else f"{CUT}: {self._secrets.exception(broke)}"
            self._cut("failover_timeout" if late else "provider_error", text)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not exchange.gone or task is None:
                raise
            task.uncancel()
            self._cut("client_disconnect", "client disconnected")
        finally:
            metering.charge(exchange, self._model, None, BUFFERED)

    def _cut(self, kind: str, text: str) -> None:
        """The answer ends here, unfinished: nothing can be appended to it that its client would understand."""
        self._element.error_kind = kind
        draft = self._draft
        draft.state, draft.status_code, draft.error_kind, draft.error_message = "failed", 0, kind, text
        attrs = {**self._counted, "error_kind": kind, "error": text}
        log.warning("proxy: answer cut off", extra={"attrs": attrs})


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


def headers(response: Response) -> tuple[Header, ...]:
    """What the client gets of the answer's headers. What is no JSON by its own words is still read as such."""
    kind = response.header(b"content-type") or b""
    shown: Header = (b"content-type", kind) if b"json" in kind.lower() else JSON
    disposition = response.header(b"content-disposition")
    return (shown,) if disposition is None else (shown, (b"content-disposition", disposition))


class Guard:
    """Keeps the candidate's exact key out of a body that is passed on in pieces, without changing its length."""

    __slots__ = ("_held", "_key", "_mask")

    def __init__(self, key: str) -> None:
        self._key = key.encode() if len(key) >= CONTENT_KEY_MIN else b""
        self._mask = redact.MASK.encode().ljust(len(self._key), b"*")[: len(self._key)]
        self._held = b""

    def take(self, data: bytes) -> bytes:
        """What may go out now of what is held and *data*: all but an end that may be the beginning of the key."""
        if not self._key:
            return data
        seen = (self._held + data).replace(self._key, self._mask)
        keep = next((n for n in range(min(len(self._key) - 1, len(seen)), 0, -1) if self._key.startswith(seen[-n:])), 0)
        self._held = seen[len(seen) - keep :]
        return seen[: len(seen) - keep]

    def rest(self) -> bytes:
        held, self._held = self._held, b""
        return held
