"""One attempt: one visit to a candidate, with its transport retries, until it served or failed (failover-loop 5).

Whatever happens, the response is closed, the verdict recorded at most once, the probe lease given up and the trail
element filled.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import random

from failover import backoff, breaker, verdict
from failover.breaker.board import Board
from failover.resolve import Candidate
from failover.verdict import Judgement, Verdict
from modelhotel.core import catalogue, durations
from providers.keyring import KEYRING
from providers.kinds.base import JSON_TYPE
from providers.upstream.interface import Client, FaultKind, Request, Response, UpstreamError
from providers.upstream.select import data_plane
from proxy import metering, reasons, secrecy, terminal
from proxy.answers import JSON
from proxy.dialects import chat
from proxy.exchange import Exchange
from proxy.metering import METER
from proxy.policy import Policy
from proxy.reasons import ErrorBody
from proxy.secrecy import Secrets
from proxy.stream import probe
from proxy.stream.chat import ChatStream
from proxy.stream.probe import Meaning
from proxy.stream.relay import Clocks, End, Relay
from proxy.stream.sse import Event, Framer
from proxy.terminal import Failure, Refused
from proxy.trail import Element
from requestlogs.recorder import RECORDER

log = logging.getLogger("proxy")

HEADER_TIMEOUT = 120.0
"""Seconds to the response headers at least, where no first-token probe shortens it (failover-loop 2)."""
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
TRANSIENT = frozenset((500, 502, 503, 504))
"""Statuses the last candidate may repeat (failover-loop 6.2)."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What the walk works with; tests hand in their own waits and chance."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random
    client: Callable[[], Client] = data_plane
    board: Callable[[], Board] = breaker.board
    known_keys: Callable[[], tuple[str, ...]] = KEYRING.known


def _repeatable(problem: UpstreamError) -> bool:
    """Whether a failed try is repeated against the same provider (failover-loop 6.1): never after a timeout."""
    if problem.request_written:
        return problem.kind is FaultKind.RESET
    return problem.kind not in (FaultKind.DIAL_TIMEOUT, FaultKind.HEADER_TIMEOUT, FaultKind.BODY_TIMEOUT)


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
        self._tools = tools
        self._last = last
        self._breaking = self._opts[catalogue.CIRCUIT_BREAKER_ENABLED]
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

    def _secrets(self) -> Secrets:
        return Secrets(self._candidate.key, self._tools.known_keys())

    async def run(self) -> Failure | None:
        """None when the client got its answer (a stream that broke after the commit included)."""
        try:
            return await self._run()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._exchange.gone or task is None:
                raise
            task.uncancel()
            return self._client_left()
        finally:
            if self._response is not None:
                self._response.close()
            self._element.duration_ms = (time.monotonic() - self._began) * 1000.0
            if self._breaking:
                self._tools.board().release(self._provider.id, self._model.model_id, self)
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
            request = self._build()
        except Exception as problem:
            log.exception("proxy: request could not be built", extra={"attrs": self.attrs})
            return self._failed(Failure("internal", f"request could not be built: {type(problem).__name__}"))
        try:
            response = self._response = await self._send(request)
        except UpstreamError as problem:
            return self._unreached(problem)
        status = self._element.status = response.status
        if not 200 <= status < 300:
            return await self._refused(response)
        self._draft.response_header_ms = self._draft.elapsed_ms()
        if status in (204, 205):
            self._judge(verdict.empty(status))
            await self._serve(status, b"")
            return None
        return await (self._stream(response) if self._exchange.stream else self._whole(response))

    # -- out

    def _build(self) -> Request:
        provider, exchange = self._provider, self._exchange
        body = chat.build_body(
            exchange.body,
            exchange.raw,
            model_id=self._model.model_id,
            kind=provider.kind,
            stream=exchange.stream,
        )
        headers = [JSON_TYPE, *provider.kind.auth_headers(self._candidate.key)]
        return Request("POST", provider.kind.chat_url(provider.base_url), headers, body)

    def _header_timeout(self) -> float:
        request_timeout = self._opts[catalogue.REQUEST_TIMEOUT]
        ttft = self._opts[catalogue.TTFT_TIMEOUT]
        return max(ttft if self._exchange.stream and ttft > 0 else HEADER_TIMEOUT, request_timeout)

    async def _send(self, request: Request) -> Response:
        """With the transport retries. Raises UpstreamError."""
        client, header_timeout = self._tools.client(), self._header_timeout()
        again = 0
        while True:
            try:
                response = await client.send(request, deadline=self._until, header_timeout=header_timeout)
            except UpstreamError as problem:
                self._draft.dial_ms += problem.dial_ms
                again += 1
                if again > backoff.TRANSPORT_RETRIES or not _repeatable(problem):
                    raise
                await self._wait_to_retry(problem, again)
            else:
                self._draft.dial_ms += response.dial_ms
                return response

    async def _wait_to_retry(self, problem: UpstreamError, again: int) -> None:
        wait = backoff.TRANSPORT_RETRY.wait(again, self._tools.chance)
        if self._loop.time() + wait >= self._until:
            raise problem
        attrs = {
            "attempt": self._element.index + 1,
            "try": again,
            "backoff": durations.short(wait),
            "request_written": problem.request_written,
            **self.attrs,
            "error": self._secrets().exception(problem),
        }
        log.warning("proxy: transient upstream error, retrying same provider", extra={"attrs": attrs})
        await self._tools.sleep(wait)

    # -- verdicts

    def _judge(self, judgement: Judgement) -> None:
        """Tell the breaker, once."""
        if self._judged:
            return
        self._judged = True
        self._element.breaker = judgement.trail
        if self._breaking and judgement.verdict is not Verdict.NOOP:
            self._tools.board().record(self._provider.id, self._model.model_id, judgement)

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
        cleaned = self._secrets().clean(words)
        return secrecy.WITHHELD if cleaned and secrecy.fenced(words, self._exchange.body) else cleaned

    # -- no response

    def _unreached(self, problem: UpstreamError) -> Failure:
        text = self._secrets().exception(problem)
        attrs = {"attempt": self._element.index + 1, **self.attrs, "error": text}
        in_time = self._loop.time() < self._until
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
            return await response.read(limit), True
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
        answer = terminal.of_refusal(refused, kind, reason, self._provider.name, self._secrets(), as_it_is=as_it_is)
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
        answer = chat.read_answer(payload)
        if answer.verdict == "undecodable" and broke is not None:
            return self._body_broke(broke)
        if answer.verdict in ("served", "bare_finish"):
            self._judge(verdict.success(status) if answer.carries else verdict.empty(status))
            metering.charge(self._exchange, self._model, answer.usage, answer.delivered)
            await self._serve(status, self._secrets().mask_content(answer.body))
            return None
        metering.charge_rejected(self._exchange, self._model, answer.usage)
        if answer.verdict == "undecodable":
            kind = (response.header(b"content-type") or b"").decode("latin-1")
            note = f"{answer.problem} ({len(payload)} bytes, {kind or 'no content type'})"
            attrs = {
                "adapter": "chat",
                "error": note,
                "model": self._model.model_id,
                "provider": self._provider.name,
            }
            log.warning("proxy: upstream body translation failed", extra={"attrs": attrs})
            return self._no_answer(reasons.UNDECODABLE, verdict.undecodable(status), note=note)
        counted: dict[str, object] = {
            "provider": self._provider.name,
            "model": self._model.model_id,
            "attempt": self._element.index + 1,
        }
        log.warning("proxy: upstream answered with no choices", extra={"attrs": counted})
        reason = reasons.NO_CHOICES if answer.verdict == "no_choices" else reasons.NO_CONTENT
        return self._no_answer(reason, verdict.empty(status))

    def _body_broke(self, broke: UpstreamError) -> Failure:
        """A transport failure after the headers: it moves on whatever the status list says."""
        metering.charge_rejected(self._exchange, self._model, None)
        judgement = verdict.broken(self._element.status)
        text = self._secrets().exception(broke)
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

    async def _serve(self, status: int, body: bytes) -> None:
        self._draft.status_code = status
        await self._exchange.answer(status, body, (JSON,))
        if log.isEnabledFor(logging.INFO):
            attrs = {
                "model": self._exchange.model,
                "provider": self._provider.name,
                "status": status,
                "attempt": self._element.index + 1,
                "duration_ms": round(self._draft.elapsed_ms(), 1),
            }
            log.info("proxy: non-streaming completed", extra={"attrs": attrs})

    # -- a stream

    async def _stream(self, response: Response) -> Failure | None:
        exchange, opts = self._exchange, self._opts
        framer = Framer()
        stream = ChatStream(
            self._secrets(),
            strip_reasoning=exchange.key.strip_reasoning,
            send_usage=exchange.include_usage or opts[catalogue.EXPOSE_USAGE_CHUNK],
        )
        ttft = opts[catalogue.TTFT_TIMEOUT]
        held: list[Event] = []
        ended = False
        if ttft > 0:
            self._probing = True
            found = await self._probe(response, framer, held, self._loop.time() + ttft)
            if isinstance(found, Failure):
                return found
            self._probing = False
            ended = not found
        self._draft.status_code = 200
        RECORDER.streaming(self._draft)
        await exchange.start_stream()
        clocks = Clocks(opts[catalogue.STREAM_STALL_TIMEOUT], self._until)
        attrs: dict[str, object] = {"model": self._model.model_id, "provider": self._provider.name}
        relay = Relay(exchange, response, framer, stream, clocks=clocks, attrs=attrs)
        self._finish(stream, await relay.run(held, ended=ended))
        self._response, self._settling = None, response
        return None

    async def _probe(self, response: Response, framer: Framer, held: list[Event], window: float) -> bool | Failure:
        """Read until output came: True; or until the body ended as a complete empty answer: False; or it failed.

        Everything read is in *held*.
        """
        frames = 0
        response.deadline(min(window, self._until))
        while True:
            try:
                data = await response.chunk()
            except UpstreamError as problem:
                return self._probe_broke(problem)
            events = framer.feed(data) if data else framer.finish()
            held += events
            for event in events:
                meaning = Meaning.NOTHING if event.data is None else probe.classify(event.data)
                if meaning is Meaning.OUTPUT:
                    self._first_token()
                    return True
                if meaning is Meaning.ERROR and event.data is not None:
                    return self._first_event_error(event.data)
                if meaning is Meaning.END:
                    log.warning("proxy: TTFT probe saw [DONE] before any first token", extra={"attrs": self.attrs})
                    return self._ended_empty(held, frames)
                frames += event.data is not None and event.data.strip() != b""
            if framer.fault is not None:
                return self._probe_failed("provider_error", "a frame or blank lines over the gateway's limit")
            if not data:
                return self._ended_empty(held, frames)

    def _first_token(self) -> None:
        self._draft.ttft_ms = self._draft.elapsed_ms()
        self._element.ttft_ms = (time.monotonic() - self._began) * 1000.0
        if log.isEnabledFor(logging.INFO):
            attrs = {**self.attrs, "ttft_ms": round(self._draft.ttft_ms, 1)}
            log.info("proxy: TTFT probe found first token", extra={"attrs": attrs})

    def _ended_empty(self, held: list[Event], frames: int) -> bool | Failure:
        """The stream ended before any output: an empty answer when it is complete, else a failed probe."""
        trial = ChatStream(Secrets(""))
        trial.take_all(held)
        if trial.complete:
            return False
        return self._probe_failed("provider_error", "", reason=reasons.STOPPED if frames else reasons.EMPTY_STREAM)

    def _probe_broke(self, problem: UpstreamError) -> Failure:
        text = self._secrets().exception(problem)
        if problem.kind is FaultKind.BODY_TIMEOUT:
            return self._probe_failed("provider_timeout", text)
        return self._probe_failed("provider_error", text)

    def _probe_failed(self, kind: str, text: str, *, reason: str = "") -> Failure:
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
                draft.error_message = self._secrets().clean(end.text)
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
            log.info("proxy: streaming finished", extra={"attrs": attrs})
