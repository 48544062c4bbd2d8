"""One attempt: one visit to a candidate, with its transport retries, until it served or failed (failover-loop 5).

Whatever happens, the response is closed, the verdict recorded at most once, the probe lease given up and the trail
element filled.
"""

import asyncio
import logging
import time

from failover import verdict
from failover.resolve import Candidate
from failover.verdict import Judgement, Verdict
from modelhotel.core import catalogue, durations, logformat, metrics
from providers.upstream.interface import FaultKind, Response, UpstreamError
from proxy import metering, outgoing, reasons, secrecy, terminal
from proxy.answers import JSON, Header
from proxy.exchange import Exchange
from proxy.metering import METER
from proxy.policy import Policy
from proxy.reasons import ErrorBody
from proxy.secrecy import Secrets
from proxy.stream import firsttoken, probe
from proxy.stream.chat import ChatStream
from proxy.stream.firsttoken import Found, Outcome
from proxy.stream.relay import Clocks, End, Relay
from proxy.stream.sse import Event, Framer
from proxy.terminal import Failure, Refused
from proxy.tools import Tools
from proxy.trail import Element
from requestlogs.recorder import RECORDER

log = logging.getLogger("proxy")

ANSWER_CAP = 32 * 1024 * 1024
"""Bytes of a non-streaming answer."""
ERROR_KEPT = 16 * 1024
"""Bytes of an error body read to classify it."""
ERROR_FORWARDED = 1024 * 1024
"""Bytes of an error body that may go to the client as it is."""
ERROR_SECONDS = 10.0
"""Longest wait for an error body; what came by then is used."""
SETTLE_SECONDS = 0.25
"""How long the end of a body may follow ``[DONE]`` for its connection to be kept."""
SETTLE_BYTES = 4 * 1024
TIMER_SLACK = 0.005
"""Seconds a timer of the event loop may fire early."""
PLAIN = (None, b"", b"identity")
"""Content encodings that are none."""
TRANSIENT = frozenset((500, 502, 503, 504))
"""Statuses the last candidate may repeat (failover-loop 6.2)."""


class Attempt:
    """*last*: nothing can be asked after it. *policy* decides what moves on."""

    def __init__(
        self, exchange: Exchange, candidate: Candidate, element: Element, policy: Policy, tools: Tools, *, last: bool
    ) -> None:
        self._exchange = exchange
        self._draft = exchange.draft
        self._opts = exchange.opts
        self._candidate = candidate
        self._provider = candidate.provider
        self._model = candidate.model
        self._element = element
        self._policy = policy
        self._board = tools.board()
        self._tools = tools
        self._last = last
        self._breaking = self._opts[catalogue.CIRCUIT_BREAKER_ENABLED]
        self._secrets = Secrets(candidate.key, tools.known_keys)
        self._response: Response | None = None
        self._settling: Response | None = None
        self._probing = False
        self._judged = False
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._until = self._loop.time() + exchange.attempt_seconds

    @property
    def attrs(self) -> dict[str, object]:
        return {"provider": self._provider.name, "provider_id": self._provider.id}

    async def run(self) -> Failure | None:
        """None when the client got its answer (a stream that broke after the commit included)."""
        try:
            return await self._run()
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
            if self._response is not None:
                self._response.close()
            self._element.duration_ms = (time.monotonic() - self._began) * 1000.0
            if self._breaking:
                self._board.release(self._provider.id, self._model.model_id, self)
            else:
                self._element.breaker = "disabled"

    async def settle(self) -> None:
        """After a stream: read the end of the body behind ``[DONE]``, so that the connection can be used again."""
        response, self._settling = self._settling, None
        if response is None:
            return
        response.deadline(self._loop.time() + SETTLE_SECONDS)
        try:
            await response.read(SETTLE_BYTES)
        except UpstreamError:
            pass
        finally:
            response.close()

    async def _run(self) -> Failure | None:
        METER.touch_provider(self._provider.id)
        try:
            request = outgoing.build(self._exchange, self._candidate)
        except Exception as problem:
            log.exception("proxy: request could not be built", extra={"attrs": self.attrs})
            return self._failed(Failure("internal", f"request could not be built: {type(problem).__name__}"))
        try:
            response = self._response = await outgoing.send(
                self._exchange,
                request,
                self._tools,
                until=self._until,
                secrets=self._secrets,
                element=self._element,
            )
        except UpstreamError as problem:
            return self._unreached(problem)
        status = self._element.status = response.status
        if not 200 <= status < 300:
            return await self._refused(response)
        self._draft.response_header_ms = self._draft.elapsed_ms()
        if status in (204, 205):
            self._judge(self._bodiless(status))
            await self._serve(status, b"")
            return None
        return await (self._stream(response) if self._exchange.stream else self._whole(response))

    # -- verdicts

    def _bodiless(self, status: int) -> Judgement:
        """What a 2xx says that has no body by its status."""
        return verdict.empty(status)

    def _judge(self, judgement: Judgement) -> None:
        """Tell the breaker, once."""
        if self._judged:
            return
        self._judged = True
        self._element.breaker = judgement.trail
        if self._breaking and judgement.verdict is not Verdict.NOOP:
            self._board.record(self._provider.id, self._model.model_id, judgement)

    def _failed(self, failure: Failure, judgement: Judgement | None = None) -> Failure:
        """Close the trail element over *failure*."""
        if judgement is not None:
            self._judge(judgement)
        self._element.error_kind = failure.kind
        if not self._element.detail and failure.text != secrecy.WITHHELD:
            self._element.detail = secrecy.detail(failure.text)
        return failure

    def _keep(self, words: str) -> str:
        """An upstream text as row and trail may keep it; withheld where it repeats the request."""
        cleaned = self._secrets.clean(words)
        return secrecy.WITHHELD if cleaned and secrecy.fenced(words, self._exchange.body) else cleaned

    # -- no response

    def _unreached(self, problem: UpstreamError) -> Failure:
        text = self._secrets.exception(problem)
        attrs = {"attempt": self._element.index + 1, **self.attrs, "error": text}
        in_time = self._loop.time() < self._until - TIMER_SLACK
        if problem.kind is FaultKind.HEADER_TIMEOUT and in_time:
            log.warning("proxy: upstream sent no response headers before the header timeout", extra={"attrs": attrs})
            return self._failed(Failure("provider_timeout", text), verdict.TRANSPORT)
        if problem.kind in (FaultKind.HEADER_TIMEOUT, FaultKind.DIAL_TIMEOUT) and not in_time:
            self._log_cancelled("failover_timeout", text)
            return self._failed(Failure("failover_timeout", text), verdict.TRANSPORT)
        log.warning("proxy: upstream request failed", extra={"attrs": attrs})
        return self._failed(Failure("provider_error", text), verdict.TRANSPORT)

    def _client_left(self) -> Failure:
        """The client left before anything was sent to it (failover-loop 10.3, 17)."""
        if self._probing:
            silence = time.monotonic() - self._began
            judgement = verdict.client_left_early(
                silence, self._opts[catalogue.STREAM_STALL_TIMEOUT], self._element.status
            )
            self._log_probe_failed("client left", client_gone=True, kind="", charged=judgement.trail != "")
            if judgement.verdict is Verdict.CHARGE:
                metering.charge_rejected(self._exchange, self._model, None)
                return self._failed(Failure("provider_timeout", hint=self._stall_hint(silence)), judgement)
        self._log_cancelled("client_disconnect", "client disconnected")
        return self._failed(Failure("client_disconnect", moves_on=False))

    def _stall_hint(self, silence: float) -> str:
        ttft = durations.short(self._opts[catalogue.TTFT_TIMEOUT])
        return (
            f'the connection was closed after {silence:.0f} s without a token from provider "{self._provider.name}" '
            f"(ttft_timeout {ttft}): raise the read timeout of the proxy in front above ttft_timeout, or set "
            "ttft_timeout below it"
        )

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
        status = response.status
        hidden = status >= 500 or status in (401, 402, 403, 404, 499)
        body, whole = await self._error_body(response, ERROR_KEPT if hidden else ERROR_FORWARDED)
        error = reasons.read(body if whole else body[:ERROR_KEPT])
        refused = Refused(status, status, body, error, whole, response.headers)
        return self._judge_refusal(refused, http=True)

    async def _error_body(self, response: Response, limit: int) -> tuple[bytes, bool]:
        """(what came of the body, whether that is all)"""
        response.deadline(min(self._until, self._loop.time() + ERROR_SECONDS))
        try:
            body = await response.read(limit)
            # Nobody asked for compression: such bytes are no text that could be shown or kept.
            return (b"" if response.header(b"content-encoding") not in PLAIN else body), True
        except UpstreamError as problem:
            return problem.partial, False

    def _judge_refusal(self, refused: Refused, *, http: bool) -> Failure:
        """An error by its effective status: kind, verdict, what the client would get, whether it moves on (5.2)."""
        status, error, policy = refused.effective, refused.error, self._policy
        too_long = reasons.too_long(status, error)
        refuses = reasons.refuses_content(error)
        by_status = policy.by_status(status) and not refuses
        by_phrase = (
            not refuses and not too_long and policy.by_phrase(status, f"{error.code} {error.message or error.text}")
        )
        kind, reason = reasons.classify(status, error, self._model.model_id)
        if too_long:
            kind, reason = "provider_bad_request", reasons.BAD_REQUEST
        open_at_once = self._opts[catalogue.CIRCUIT_BREAKER_OPEN_ON_EXHAUSTION]
        judgement = verdict.of_status(
            status, moves_on=(by_status or by_phrase) and not too_long, open_on_exhaustion=open_at_once
        )
        as_it_is = status == 429 and not policy.on_rate_limit
        answer = terminal.of_refusal(refused, kind, reason, self._provider.name, self._secrets, as_it_is=as_it_is)
        text = self._keep(error.text) or reason
        failure = Failure(kind, text, refused.shown, answer, by_status or by_phrase, http, too_long)
        return self._failed(failure, judgement)

    # -- a whole answer

    async def _whole(self, response: Response) -> Failure | None:
        status = response.status
        response.deadline(self._until)
        broke: UpstreamError | None = None
        try:
            payload = await response.read(ANSWER_CAP)
        except UpstreamError as problem:
            broke, payload = problem, problem.partial
        if broke is not None and broke.kind is FaultKind.TOO_LARGE:
            return self._no_answer(reasons.TOO_LARGE, kind="provider_bad_request", moves_on=False)
        answer = self._exchange.endpoint.read_answer(payload)
        if answer.verdict == "undecodable" and broke is not None:
            return self._body_broke(broke)
        if answer.verdict in ("served", "bare_finish"):
            self._judge(verdict.success(status) if answer.carries else verdict.empty(status))
            metering.charge(self._exchange, self._model, answer.usage, answer.delivered)
            await self._serve(status, self._secrets.mask_content(answer.body))
            return None
        metering.charge_rejected(self._exchange, self._model, answer.usage)
        if answer.verdict == "undecodable":
            return self._undecodable(response, answer.problem, len(payload))
        counted: dict[str, object] = {
            "provider": self._provider.name,
            "model": self._model.model_id,
            "attempt": self._element.index + 1,
        }
        log.warning("proxy: upstream answered with no choices", extra={"attrs": counted})
        metrics.count(metrics.EMPTY_RESPONSES, self._provider.name, self._model.model_id)
        reason = reasons.NO_CHOICES if answer.verdict == "no_choices" else reasons.NO_CONTENT
        return self._no_answer(reason, verdict.empty(status))

    def _undecodable(self, response: Response, problem: str, size: int) -> Failure:
        """*problem* in the parser's words; none of the *size* bytes is kept."""
        kind = (response.header(b"content-type") or b"").decode("latin-1")
        note = f"{problem} ({size} bytes, {kind or 'no content type'})"
        attrs = {
            "adapter": self._exchange.endpoint.family,
            "error": note,
            "model": self._model.model_id,
            "provider": self._provider.name,
        }
        log.warning("proxy: upstream body translation failed", extra={"attrs": attrs})
        return self._no_answer(reasons.UNDECODABLE, verdict.undecodable(response.status), note=note)

    def _body_broke(self, broke: UpstreamError) -> Failure:
        """A transport failure after the headers: it moves on whatever the status list says."""
        metering.charge_rejected(self._exchange, self._model, None)
        judgement = verdict.broken(self._element.status)
        text = self._secrets.exception(broke)
        if broke.kind is FaultKind.BODY_TIMEOUT:
            return self._failed(Failure("provider_timeout", text), judgement)
        answer = terminal.no_answer(reasons.STOPPED, self._provider.name, self._element.status, "provider_error")
        return self._failed(Failure("provider_error", f"{reasons.STOPPED}: {text}", answer=answer), judgement)

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

    async def _serve(self, status: int, body: bytes, headers: tuple[Header, ...] = (JSON,)) -> None:
        self._draft.status_code = status
        await self._exchange.answer(status, body, headers)
        if log.isEnabledFor(logging.INFO):
            attrs = {
                "model": self._exchange.model,
                "provider": self._provider.name,
                "status": status,
                "attempt": self._element.index + 1,
                "duration_ms": round(self._draft.elapsed_ms(), 1),
            }
            logformat.say(log, "proxy: non-streaming completed", attrs)

    # -- a stream

    async def _stream(self, response: Response) -> Failure | None:
        exchange, opts = self._exchange, self._opts
        framer = Framer()
        stream = ChatStream(
            self._secrets,
            strip_reasoning=exchange.key.strip_reasoning,
            send_usage=exchange.include_usage or opts[catalogue.EXPOSE_USAGE_CHUNK],
        )
        ttft = opts[catalogue.TTFT_TIMEOUT]
        held: list[Event] = []
        ended = False
        if ttft > 0:
            self._probing = True
            found = await self._probe(response, framer, ttft)
            if isinstance(found, Failure):
                return found
            self._probing = False
            held, ended = found.held, found.outcome is Outcome.EMPTY_ANSWER
        self._draft.status_code = 200
        RECORDER.streaming(self._draft)
        await exchange.start_stream()
        clocks = Clocks(opts[catalogue.STREAM_STALL_TIMEOUT], self._until)
        attrs: dict[str, object] = {"model": self._model.model_id, "provider": self._provider.name}
        relay = Relay(exchange, response, framer, stream, clocks=clocks, attrs=attrs)
        self._finish(stream, await relay.run(held, ended=ended))
        self._response, self._settling = None, response
        return None

    async def _probe(self, response: Response, framer: Framer, window: float) -> Found | Failure:
        """What the stream begins with, or why there is nothing to commit to; *window* in seconds."""
        response.deadline(min(self._loop.time() + window, self._until))
        try:
            found = await firsttoken.look(response, framer)
        except UpstreamError as problem:
            kind = "provider_timeout" if problem.kind is FaultKind.BODY_TIMEOUT else "provider_error"
            return self._probe_failed(kind, self._secrets.exception(problem))
        if found.done:
            log.warning("proxy: TTFT probe saw [DONE] before any first token", extra={"attrs": self.attrs})
        match found.outcome:
            case Outcome.OUTPUT:
                self._first_token()
            case Outcome.ERROR:
                return self._first_event_error(found.payload)
            case Outcome.NOTHING:
                metrics.count(metrics.EMPTY_RESPONSES, self._provider.name, self._model.model_id)
                return self._probe_failed("provider_error", reason=reasons.EMPTY_STREAM)
            case Outcome.STOPPED:
                return self._probe_failed("provider_error", reason=reasons.STOPPED)
            case Outcome.FAULT:
                return self._probe_failed("provider_error", "a frame or blank lines over the gateway's limit")
        return found

    def _first_token(self) -> None:
        self._draft.ttft_ms = self._draft.elapsed_ms()
        self._element.ttft_ms = (time.monotonic() - self._began) * 1000.0
        if log.isEnabledFor(logging.INFO):
            attrs = {**self.attrs, "ttft_ms": round(self._draft.ttft_ms, 1)}
            logformat.say(log, "proxy: TTFT probe found first token", attrs)

    def _probe_failed(self, kind: str, text: str = "", *, reason: str = "") -> Failure:
        """*reason*: the provider ended its stream itself, and this is what the client is told. An empty stream counts
        as a 502 by the status list; everything else moves on whatever the list says.
        """
        status = self._element.status
        self._log_probe_failed(text or reason, client_gone=False, kind=kind, charged=True)
        metering.charge_rejected(self._exchange, self._model, None)
        failure = Failure(kind, text or reason)
        if reason:
            failure.answer = terminal.no_answer(reason, self._provider.name, status, kind)
            failure.moves_on = reason != reasons.EMPTY_STREAM or self._policy.by_status(502)
        return self._failed(failure, verdict.probe_failed(status))

    def _log_probe_failed(self, text: str, *, client_gone: bool, kind: str, charged: bool) -> None:
        attrs = {
            "attempt": self._element.index + 1,
            "provider": self._provider.name,
            "client_gone": client_gone,
            "elapsed": durations.short(time.monotonic() - self._began),
            "kind": kind,
            "charged": charged,
            "error": text,
        }
        log.warning("proxy: TTFT probe failed", extra={"attrs": attrs})

    def _first_event_error(self, payload: bytes) -> Failure:
        """An error before any output: as if the provider had answered that status (failover-loop 10.4)."""
        attrs = {**self.attrs, "message_bytes": len(payload)}
        log.warning("proxy: TTFT probe saw an error envelope instead of a first token", extra={"attrs": attrs})
        carried = probe.carried_status(payload)
        if carried is not None:
            self._element.status = carried
        effective = carried or verdict.FIRST_EVENT_STATUS
        error: ErrorBody = reasons.read(payload)
        whole = len(payload) <= ERROR_FORWARDED
        return self._judge_refusal(Refused(effective, self._element.status, payload, error, whole), http=False)

    def _finish(self, stream: ChatStream, end: End) -> None:
        """The stream is over: verdict, meter, row."""
        draft = self._draft
        self._judge(end.judgement)
        metering.charge(self._exchange, self._model, stream.usage, stream.size)
        if end.kind:
            self._element.error_kind = end.kind
            draft.state, draft.status_code, draft.error_kind = "failed", 0, end.kind
            if end.upstream:
                draft.error_message = self._keep(reasons.read(end.text.encode()).text) or "error event in the stream"
            else:
                draft.error_message = self._secrets.clean(end.text)
        else:
            draft.state = "completed"
        if log.isEnabledFor(logging.INFO):
            attrs = {
                "model": self._exchange.model,
                "provider": self._provider.name,
                "state": draft.state,
                "chunks": stream.chunks,
                "error_kind": end.kind,
                "duration_ms": round(draft.elapsed_ms(), 1),
            }
            logformat.say(log, "proxy: streaming finished", attrs)
