"""One attempt: one visit to a candidate, with its transport retries, until it served or failed (failover-loop 5).

Whatever happens, the response is closed, the verdict recorded at most once, the probe lease given up and the trail
element filled.
"""

import asyncio
import logging
import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from failover import ratelimit, verdict
from failover.resolve import Candidate
from failover.tally import TALLY
from failover.verdict import Judgement, Verdict
from failover.window import Window
from providers.upstream.interface import FaultKind, Request, Response, UpstreamError
from proxy import beside, disguise, metering, outgoing, reasons, refusals, secrecy, terminal, walk_log
from proxy.answers import JSON, Header
from proxy.dialects.base import Untranslatable
from proxy.exchange import BODILESS, Exchange
from proxy.metering import METER
from proxy.policy import Policy
from proxy.repairs import Repair
from proxy.secrecy import Secrets
from proxy.terminal import Failure, Refused
from proxy.tools import Tools
from proxy.trail import Element

if TYPE_CHECKING:
    from proxy.chat_attempt import Broken

log = logging.getLogger("proxy")

TIMER_SLACK = 0.005
"""Seconds a timer of the event loop may fire early."""
#: One that is told: whatever else a header says may be of the answer.
_CONTENT_TYPE = re.compile(r"[a-z]{4,11}/[a-z0-9.+-]{2,40}(; ?charset=[a-z0-9-]{2,12})?", re.IGNORECASE)


class Attempt(ABC):
    """What all kinds of attempts share. One kind says what it does with a 2xx (:meth:`_take`, :meth:`_begin`).

    *last*: nothing can be asked after it. *policy* decides what moves on. From :meth:`enter` to the end of the answer's
    body it holds a slot with its provider, which is given back once, whatever happens.
    """

    __slots__ = (
        "_began",
        "_board",
        "_candidate",
        "_closed",
        "_draft",
        "_element",
        "_exchange",
        "_headers_ms",
        "_judged",
        "_last",
        "_loop",
        "_model",
        "_policy",
        "_provider",
        "_response",
        "_secrets",
        "_slot",
        "_tools",
        "_until",
        "_windows",
        "settling",
        "ttft_ms",
    )
    #: What it left of a stream that another candidate may finish; only where recovery is on.
    broken: "Broken | None" = None
    #: Its refusals are learned from (failover-loop 6.3).
    _heals = False

    def __init__(
        self, exchange: Exchange, candidate: Candidate, element: Element, policy: Policy, tools: Tools, *, last: bool
    ) -> None:
        self._exchange = exchange
        self._draft = exchange.draft
        self._candidate = candidate
        self._provider = candidate.provider
        self._model = candidate.model
        self._element = element
        self._policy = policy
        self._board = tools.board()
        self._windows = tools.windows()
        self._tools = tools
        self._last = last
        self._secrets = Secrets(candidate.key, tools.known_keys)
        self._response: Response | None = None
        #: A stream whose end is still to be read, by :meth:`settle`.
        self.settling: Response | None = None
        self._slot: Window | None = None
        self._headers_ms: float | None = None
        self._judged = False
        self._closed = False
        self._loop = exchange.loop
        self._began = time.monotonic()
        self._until = self._loop.time() + exchange.attempt_seconds
        #: Milliseconds from the arrival of the request to the first token; None = not measured.
        self.ttft_ms: float | None = None

    @property
    def attrs(self) -> dict[str, object]:
        return {"provider": self._provider.name, "provider_id": self._provider.id}

    @property
    def element(self) -> Element:
        return self._element

    def enter(self) -> bool:
        """Take a slot with the provider; False when it is full (failover-loop 8.2)."""
        self._slot = self._windows.take(self._provider, self._policy.learning)
        return self._slot is not None

    def leave(self, clean: bool | None = False) -> None:
        """Give the slot back, unless that was done. *clean*: a 2xx was read to its end as an answer; None: nothing was
        asked.
        """
        slot, self._slot = self._slot, None
        if slot is not None:
            self._windows.release(slot, clean if self._policy.learning else None)

    async def run(self, *, opened: bool = False) -> Failure | None:
        """None when the client got its answer (a stream that broke after the commit included). *opened*: it was
        opened by :meth:`open`, and this serves what came.
        """
        try:
            failure = None if opened else await self._open()
            if failure is None and self._response is not None:
                self._draft.response_header_ms, self._draft.ttft_ms = self._headers_ms, self.ttft_ms
                failure = await self._take(self._response)
            return failure
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._exchange.gone or task is None:
                raise
            if self._exchange.committed:  # while the head of a stream went out: the row says so, not 499
                self._element.error_kind = "client_disconnect"
                raise
            task.uncancel()
            return self._client_left()
        finally:
            self._close()

    async def open(self) -> Failure | None:
        """The first half of :meth:`run`, for a race. None: the answer has begun, and is held until it is taken by
        ``run(opened=True)`` or thrown away by :meth:`abandon`. Raises nothing but CancelledError.
        """
        try:
            failure = await self._open(reissues=False)
        except asyncio.CancelledError:
            self._close()
            raise
        except Exception as problem:
            log.exception("proxy: attempt broke", extra={"attrs": self.attrs})
            failure = self._failed(Failure("internal", f"attempt broke: {type(problem).__name__}"))
        if failure is not None:
            self._close()
        return failure

    def abandon(self, kind: str, note: str) -> None:
        """Its race is over: what it has is thrown away, whether it still runs or its answer has begun. An attempt that
        has failed keeps its result. A 2xx is paid for (failover-loop 12.6, 12.7).
        """
        if self._closed:
            return
        element, response = self._element, self._response
        if response is not None and 200 <= response.status < 300:
            metering.charge_rejected(self._exchange, self._model, None)
        if kind:
            self._log_cancelled(kind, note)
        element.status, element.error_kind, element.note = 0, kind, note
        self._close()

    async def settle(self) -> None:
        """What is left to do once the request is over, where something is *settling*; nobody waits for it."""
        return

    async def _open(self, *, reissues: bool = True) -> Failure | None:
        """Ask. None: a 2xx came (of a stream: its first token too), and the client has not seen anything of it.

        *reissues*: after a 400 that could be repaired it may be asked again; else that only teaches.
        """
        METER.touch_provider(self._provider.id)
        repair = self._tools.learned.of(self._provider.id, self._model.model_id) if self._heals else None
        try:
            large = len(self._exchange.raw) > beside.LARGE
            request = await beside.run(self._build, repair) if large else self._build(repair)
        except Untranslatable as problem:
            return self._failed(Failure("internal", f"request could not be translated: {problem}"))
        except Exception as problem:
            log.exception("proxy: request could not be built", extra={"attrs": self.attrs})
            return self._failed(Failure("internal", f"request could not be built: {type(problem).__name__}"))
        try:
            response = await outgoing.send(self._exchange, request, self._tools, self._until)
        except UpstreamError as problem:
            try:
                response = await self._send_again(request, problem)
            except UpstreamError as last:
                return self._unreached(last)
        self._response = response
        self._draft.dial_ms += response.dial_ms
        if self._heals and response.status in (400, 404):
            healed = await self._heal(response, request, repair, reissues)
            if isinstance(healed, Failure):
                return healed
            response = healed
        if self._provider.kind.disguises_errors and response.status == 200:
            probed = self._exchange.stream and self._policy.ttft > 0 and not self._exchange.endpoint.long_running
            window = self._policy.ttft if probed else math.inf
            response.deadline(min(self._until, self._loop.time() + window))
            response = self._response = await disguise.look(response, self._provider, self._keep)
        status = self._element.status = response.status
        if self._policy.learning and ratelimit.remaining_zero(response.headers):
            self._windows.cap(self._provider.id)
        if not 200 <= status < 300:
            return await self._refused(response)
        self._headers_ms = self._draft.elapsed_ms()
        if self._exchange.stream and status not in BODILESS:
            return await self._begin(response)
        return None

    def _build(self, repair: Repair | None) -> Request:
        """The request; *repair*: what the candidate refuses."""
        return outgoing.build(self._exchange, self._candidate, repair)

    def _send_again(self, request: Request, problem: UpstreamError) -> Coroutine[Any, Any, Response]:
        """After a try that came to *problem*: the response headers; raises UpstreamError."""
        return outgoing.send_again(
            self._exchange,
            request,
            self._tools,
            problem,
            until=self._until,
            secrets=self._secrets,
            element=self._element,
        )

    async def _heal(
        self, response: Response, request: Request, repair: Repair | None, reissues: bool
    ) -> Response | Failure:
        """After a 400 or 404 of *request*, which was built with *repair*: the answer to go on with, or what it came to.

        Most kinds learn nothing from a refusal.
        """
        return response

    async def _begin(self, response: Response) -> Failure | None:
        """A stream's 2xx: look at how it begins, before anything is sent."""
        return None

    @abstractmethod
    def _take(self, response: Response) -> Coroutine[Any, Any, Failure | None]:
        """Serve the 2xx; None when the client got its answer."""

    def _close(self) -> None:
        """It is over, whatever came of it. Once."""
        if self._closed:
            return
        self._closed = True
        if self.settling is None and self._slot is not None:
            self.leave()
        if self._response is not None:
            self._response.close()
        self._element.duration_ms = (time.monotonic() - self._began) * 1000.0
        if self._policy.breaking:
            self._board.release(self._provider.id, self._model.model_id, self)
        else:
            self._element.breaker = "disabled"

    # -- verdicts

    def _judge(self, judgement: Judgement) -> None:
        """Tell the breaker, once."""
        if self._judged:
            return
        self._judged = True
        if self._tools.retirement.cases and judgement.verdict is Verdict.SUCCESS:
            self._tools.retirement.served(self._model.id, self._exchange.endpoint.surface)
        limit = self._policy.slow_call if self._provider.slow_call is None else self._provider.slow_call
        if limit and judgement.verdict in (Verdict.SUCCESS, Verdict.ALIVE) and self._answered_after() > limit:
            judgement = verdict.slow(self._element.status, served=judgement.verdict is Verdict.SUCCESS)
        self._element.breaker = judgement.trail
        if judgement.verdict is Verdict.NOOP:
            return
        failed = judgement.verdict not in (Verdict.SUCCESS, Verdict.ALIVE) and not judgement.served
        TALLY.note(self._provider.id, self._model.model_id, failed)
        if self._policy.breaking:
            self._board.record(self._provider.id, self._model.model_id, judgement)

    def _answered_after(self) -> float:
        """Seconds the candidate took to answer, its transport retries included (circuit-breaker 13)."""
        return time.monotonic() - self._began

    def _failed(self, failure: Failure, judgement: Judgement | None = None) -> Failure:
        """Close the trail element over *failure*."""
        if judgement is not None:
            self._judge(judgement)
            if judgement.verdict is Verdict.SATURATED and self._policy.learning:
                self.leave()
                self._windows.cut(self._provider.id, judgement.retry_after)
        self._element.error_kind = failure.kind
        if not self._element.detail and failure.text != secrecy.WITHHELD:
            self._element.detail = secrecy.detail(failure.text)
        return failure

    def _keep(self, words: str) -> str:
        """An upstream text as row and trail may keep it; withheld where it repeats the request."""
        cleaned = self._secrets.clean(words)
        return secrecy.WITHHELD if cleaned and secrecy.fenced(words, self._exchange.content) else cleaned

    # -- no response

    def _unreached(self, problem: UpstreamError, *, late: str = "failover_timeout") -> Failure:
        """*late*: the error kind when the time was over."""
        text = self._secrets.exception(problem)
        attrs = {"attempt": self._element.index + 1, **self.attrs, "error": text}
        in_time = self._loop.time() < self._until - TIMER_SLACK
        if problem.kind is FaultKind.HEADER_TIMEOUT and in_time:
            log.warning("proxy: upstream sent no response headers before the header timeout", extra={"attrs": attrs})
            return self._failed(Failure("provider_timeout", text), verdict.TRANSPORT)
        if problem.kind in (FaultKind.HEADER_TIMEOUT, FaultKind.DIAL_TIMEOUT) and not in_time:
            self._log_cancelled(late, text)
            return self._failed(Failure(late, text), verdict.TRANSPORT)
        log.warning("proxy: upstream request failed", extra={"attrs": attrs})
        return self._failed(Failure("provider_error", text), verdict.TRANSPORT)

    def _client_left(self) -> Failure:
        """The client left before anything was sent to it (failover-loop 17)."""
        self._log_cancelled("client_disconnect", "client disconnected")
        return self._failed(Failure("client_disconnect", moves_on=False))

    def _log_cancelled(self, origin: str, text: str) -> None:
        attrs = {
            **self.attrs,
            "model": self._model.model_id,
            "origin": origin,
            "error": text,
            "underlying": self._element.detail,
        }
        log.info("proxy: context cancelled during request to provider", extra={"attrs": attrs})

    # -- a status that is no success

    async def _refused(self, response: Response) -> Failure:
        return self._judge_refusal(await refusals.read(response, until=self._until), http=True)

    @property
    def _foreign(self) -> bool:
        """Whether it is spoken to in a dialect whose errors the client does not know."""
        return False

    def _judge_refusal(self, refused: Refused, *, http: bool, healed: bool = False) -> Failure:
        """An error by its effective status; see :func:`refusals.judge`."""
        failure, judgement = refusals.judge(
            refused,
            self._candidate,
            self._policy,
            self._board,
            self._secrets,
            http=http,
            healed=healed,
            foreign=self._foreign,
        )
        failure.text = self._keep(refused.error.text) or failure.text
        if failure.reading is not None:
            self._element.phrase = failure.reading.phrase
        if failure.kind == "provider_model_gone":
            self._tools.retirement.struck(self._candidate, self._exchange.endpoint.surface, self._board)
        return self._failed(failure, judgement)

    # -- a 2xx

    def _undecodable(self, response: Response, problem: str, size: int) -> Failure:
        """*problem* in the parser's words; none of the *size* bytes is kept."""
        stated = (response.header(b"content-type") or b"").decode("latin-1")
        kind = stated if _CONTENT_TYPE.fullmatch(stated) else "another content type" if stated else "no content type"
        note = f"{problem} ({size} bytes, {kind})"
        attrs = {
            "adapter": self._exchange.endpoint.family,
            "error": note,
            "model": self._model.model_id,
            "provider": self._provider.name,
        }
        log.warning("proxy: upstream body translation failed", extra={"attrs": attrs})
        return self._no_answer(reasons.UNDECODABLE, verdict.undecodable(response.status), note=note)

    def _no_answer(
        self,
        reason: str,
        judgement: Judgement | None = None,
        *,
        kind: str = "provider_error",
        moves_on: bool | None = None,
        note: str = "",
    ) -> Failure:
        """A 2xx that is no answer: it counts as a 502 (failover-loop 9.1)."""
        status = self._element.status
        answer = terminal.no_answer(reason, self._provider.name, status, kind)
        text = f"{reason}: {note}" if note else reason
        if moves_on is None:
            moves_on = self._policy.by_status(502)
        return self._failed(Failure(kind, text, answer=answer, moves_on=moves_on), judgement)

    async def _deliver(self, status: int, body: bytes, headers: tuple[Header, ...] = (JSON,)) -> None:
        if not self._deliver_now(status, body, headers):
            await self._exchange.answer(status, body, headers)
            walk_log.delivered(self._exchange, self._candidate, status, self._element.index + 1)

    def _deliver_now(self, status: int, body: bytes, headers: tuple[Header, ...] = (JSON,)) -> bool:
        """The same in this turn of the event loop, where the server can; else False, and nothing went out."""
        self._draft.status_code = status
        went = self._exchange.answer_now(status, body, headers)
        if went:
            walk_log.delivered(self._exchange, self._candidate, status, self._element.index + 1)
        return went
