"""A chat attempt: an answer that comes whole, or a stream from its first token to its end (failover-loop 9 to 11)."""

import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from failover import verdict
from failover.resolve import Candidate
from failover.verdict import Verdict
from modelhotel.core import durations, logformat, metrics
from providers.keyring import KEYRING
from providers.upstream.interface import FaultKind, Request, Response, UpstreamError
from proxy import beside, egress, lessons, metering, outgoing, reasons, refusals, secrecy, terminal
from proxy.attempt import Attempt
from proxy.dialects import jsonmode
from proxy.dialects.continuing import allowed
from proxy.exchange import BODILESS, Exchange
from proxy.heal import ROUNDS, Heal
from proxy.policy import Policy
from proxy.reasons import ErrorBody
from proxy.repairs import Repair, Taught
from proxy.stream import firsttoken, probe
from proxy.stream.answer import AnswerStream
from proxy.stream.chat import ChatStream
from proxy.stream.firsttoken import Found, Outcome
from proxy.stream.kept import Delivered, KeptStream
from proxy.stream.native import KeptNative, NativeStream
from proxy.stream.relay import Clocks, End, Relay
from proxy.stream.sse import Event, Framer
from proxy.stream.translated import Translated
from proxy.terminal import Failure, Refused
from proxy.tools import Tools
from proxy.trail import Element
from proxy.usage import Usage
from requestlogs.recorder import RECORDER

log = logging.getLogger("proxy")

ANSWER_CAP = 32 * 1024 * 1024
"""Bytes of a non-streaming answer."""
SETTLE_SECONDS = 0.25
"""How long the end of a body may follow ``[DONE]`` for its connection to be kept."""
SETTLE_BYTES = 4 * 1024


@dataclass(slots=True, eq=False)
class Broken:
    """What an attempt left of a stream that broke, and that another candidate may finish: *kept* is what the client
    has of the answer, *billed* what was charged for it so far.
    """

    attempt: "ChatAttempt"
    relay: Relay
    end: End
    kept: Delivered
    billed: Usage

    async def tell(self) -> None:
        """Nobody finished it: client and row get this failure."""
        self.attempt.conclude(self.end)
        await self.relay.close(self.end)


class ChatAttempt(Attempt):
    """See the module's docstring. Between the probe and the commit it holds what the probe has read."""

    __slots__ = (
        "_clean",
        "_egress",
        "_ended",
        "_first_at",
        "_framer",
        "_heals",
        "_held",
        "_left",
        "_probing",
        "broken",
    )
    #: Its answer is needed in the chat shape, whatever the candidate could do.
    _translated = False

    def __init__(
        self, exchange: Exchange, candidate: Candidate, element: Element, policy: Policy, tools: Tools, *, last: bool
    ) -> None:
        super().__init__(exchange, candidate, element, policy, tools, last=last)
        self._egress = egress.of(exchange, candidate, tools.requirements, translated=self._translated)
        self._heals = self._egress.heals
        self._framer: Framer | None = None
        self._held: list[Event] = []
        self._left = b""
        self._ended = False
        self._first_at: float | None = None
        self._probing = False
        self._clean = False
        self.broken: Broken | None = None

    # -- the request, and what its refusals teach

    def _build(self, repair: Repair | None) -> Request:
        if self._egress is egress.RESPONSES:
            self._tell_route()
        return self._egress.request(self._exchange, self._candidate, repair)

    def _tell_route(self) -> None:
        """A chat request goes to ``/v1/responses``."""
        mode = egress.need(self._candidate, self._exchange.body, self._tools.requirements) or "learned"
        metrics.count(metrics.REROUTES, self._provider.name, self._model.model_id, mode)
        attrs = {**self.attrs, "model": self._model.model_id, "mode": mode}
        log.info("proxy: routing via responses api", extra={"attrs": attrs})

    @property
    def _foreign(self) -> bool:
        return self._egress in (egress.MESSAGES, egress.GEMINI)

    def _teaches(self, status: int) -> bool:
        """Whether a refusal with *status* is looked at."""
        if status == 400:
            return True
        # How OpenAI says that a model is for /v1/responses only, and others that they have no such route.
        native = self._provider.kind.native_responses(self._provider.base_url)
        return status == 404 and self._egress is (egress.CHAT if native else egress.RESPONSES)

    async def _heal(
        self, response: Response, request: Request, repair: Repair | None, reissues: bool
    ) -> Response | Failure:
        """The first answer that teaches nothing, or what it all came to (failover-loop 6.3.8)."""
        heal = Heal(self._exchange, self._candidate, self._tools.learned, repair, request, self)
        while self._teaches(response.status):
            self._element.status = response.status
            refused = await refusals.read(response, until=self._until)
            again = await beside.by_size(len(request.body), heal.learn, refused)
            if again is None or not reissues:
                failure = self._judge_refusal(refused, http=True, healed=heal.rounds > 0)
                failure.moves_on |= again is not None  # it is no last word: the others of its race go on
                return failure
            response.close()
            self._element.status = 0
            self._until = self._loop.time() + heal.seconds()
            try:
                response = self._response = await outgoing.send(self._exchange, again, self._tools, self._until)
                self._draft.dial_ms += response.dial_ms
            except UpstreamError as problem:
                self._draft.dial_ms += problem.dial_ms
                heal.failed(self._secrets.exception(problem))
                return self._unreached(problem, late="retry_timeout")
        if 200 <= response.status < 300:
            heal.succeeded()
        return response

    def rounds(self) -> int:
        once = self._egress is egress.MESSAGES and not jsonmode.wants_schema(self._exchange.body)
        return 1 if once else ROUNDS

    def build(self, repair: Repair) -> Request:
        return self._egress.request(self._exchange, self._candidate, repair)

    def turns(self, refused: Refused, sent: bytes) -> bool:
        requirements, chat = self._tools.requirements, self._exchange.body
        found = lessons.turned(self._egress, self._candidate, requirements, refused, sent, chat)
        if found is None:
            return False
        self._egress = found
        if found is egress.RESPONSES:
            self._tell_route()
        return True

    def lesson(self, refused: Refused, sent: bytes) -> Taught:
        taught = lessons.of(self._egress, self._provider.kind, refused, sent, self._exchange.body)
        if taught.now and self._egress is egress.RESPONSES:
            metrics.count(metrics.REROUTES, self._provider.name, self._model.model_id, "param_retry")
        return taught

    # -- afterwards

    async def settle(self) -> None:
        """After a stream: read the end of the body behind ``[DONE]``, so that the connection can be used again."""
        response, self.settling = self.settling, None
        if response is None:
            return
        try:
            response.deadline(self._loop.time() + SETTLE_SECONDS)
            await response.read(SETTLE_BYTES)
        except UpstreamError:
            pass
        finally:
            self.leave(self._clean)
            response.close()

    def _take(self, response: Response) -> Coroutine[Any, Any, Failure | None]:
        if response.status in BODILESS:
            return self._bare(response.status)
        return self._forward(response) if self._exchange.stream else self._whole(response)

    async def _bare(self, status: int) -> None:
        """A status that has no body."""
        self._judge(verdict.empty(status))
        await self._deliver(status, b"")

    def _answered_after(self) -> float:
        """Of a stream: until its first output, or without a probe its first event."""
        first = self._first_at
        return super()._answered_after() if first is None else first - self._began

    # -- a whole answer

    async def _whole(self, response: Response) -> Failure | None:
        status = response.status
        broke: UpstreamError | None = None
        payload = response.at_hand(ANSWER_CAP)
        if payload is None:
            response.deadline(self._until)
            try:
                payload = await response.read(ANSWER_CAP)
            except UpstreamError as problem:
                broke, payload = problem, problem.partial
        if broke is not None and broke.kind is FaultKind.TOO_LARGE:
            return self._no_answer(reasons.TOO_LARGE, kind="provider_bad_request", moves_on=False)
        answer = self._egress.read_answer(payload, self._model.model_id)
        if answer.verdict in ("undecodable", "blocked") and broke is not None:
            return self._body_broke(broke)
        if answer.verdict in ("served", "bare_finish"):
            self._judge(verdict.success(status) if answer.carries else verdict.empty(status))
            metering.charge(self._exchange, self._model, answer.usage, answer.delivered)
            self.leave(clean=True)
            body, writer = self._secrets.mask_content(answer.body), self._exchange.writer
            if writer is not None and not self._egress.native:
                body = writer.whole(body, self._model.model_id)
            if not self._deliver_now(status, body):
                await self._deliver(status, body)
            return None
        metering.charge_rejected(self._exchange, self._model, answer.usage)
        if answer.verdict == "undecodable":
            return self._undecodable(response, answer.problem, len(payload))
        if answer.verdict == "blocked":
            return self._no_answer(answer.problem, verdict.BLOCKED)
        counted: dict[str, object] = {
            "provider": self._provider.name,
            "model": self._model.model_id,
            "attempt": self._element.index + 1,
        }
        log.warning("proxy: upstream answered with no choices", extra={"attrs": counted})
        metrics.count(metrics.EMPTY_RESPONSES, self._provider.name, self._model.model_id)
        reason = reasons.NO_CHOICES if answer.verdict == "no_choices" else reasons.NO_CONTENT
        return self._no_answer(reason, verdict.empty(status))

    def _body_broke(self, broke: UpstreamError) -> Failure:
        """A transport failure after the headers: it moves on whatever the status list says."""
        metering.charge_rejected(self._exchange, self._model, None)
        judgement = verdict.broken(self._element.status)
        text = self._secrets.exception(broke)
        if broke.kind is FaultKind.BODY_TIMEOUT:
            return self._failed(Failure("provider_timeout", text), judgement)
        answer = terminal.no_answer(reasons.STOPPED, self._provider.name, self._element.status, "provider_error")
        return self._failed(Failure("provider_error", f"{reasons.STOPPED}: {text}", answer=answer), judgement)

    # -- a stream

    async def _begin(self, response: Response) -> Failure | None:
        framer = self._framer = Framer()
        window = self._policy.ttft
        if window <= 0:
            return None
        self._probing = True
        found = await self._probe(response, framer, window)
        if isinstance(found, Failure):
            return found
        self._probing = False
        self._held, self._left, self._ended = found.held, found.left, found.outcome is Outcome.EMPTY_ANSWER
        return None

    async def _forward(self, response: Response) -> Failure | None:
        """Commit, and pass the stream on to its end."""
        exchange, framer, stream = self._exchange, self._framer, self._answer_stream()
        assert framer is not None
        await self._commit()
        clocks = Clocks(self._policy.stall, self._until)
        attrs: dict[str, object] = {"model": self._model.model_id, "provider": self._provider.name}
        relay = Relay(exchange, response, framer, stream, clocks=clocks, attrs=attrs)
        held, left, self._held, self._left = self._held, self._left, [], b""
        end = await relay.run(held, left, ended=self._ended)
        if self._first_at is None:
            self._first_at = relay.first_at
        self._finish(stream, end)
        if end.open:
            self._break_off(relay, end, stream)
        else:
            self._response, self.settling = None, response
        return None

    def _answer_stream(self) -> AnswerStream:
        """What stands between the provider's events and the client, whatever dialects they speak."""
        watcher, writer = self._egress.watcher(), self._exchange.writer
        if watcher is not None and not (writer is not None and self._recovers()):
            return NativeStream(watcher, self._secrets, self._egress.error)
        reader = self._egress.reader(self._model.model_id)
        if watcher is not None:
            assert reader is not None and writer is not None
            return KeptNative(watcher, self._secrets, self._egress.error, reader=reader, writer=writer)
        inner = self._stream()
        if writer is None and reader is None:
            return inner
        if writer is not None:
            writer.begin(self._model.model_id)
        return Translated(inner, reader, writer)

    def _trial(self) -> AnswerStream:
        """A stream of which nothing reaches a client: what it would be."""
        watcher = self._egress.watcher()
        if watcher is not None:
            return NativeStream(watcher, self._secrets, self._egress.error)
        reader = self._egress.reader(self._model.model_id)
        inner = ChatStream(self._secrets)
        return inner if reader is None else Translated(inner, reader, None)

    def _stream(self) -> ChatStream:
        exchange, policy = self._exchange, self._policy
        strip, send_usage = exchange.key.strip_reasoning, exchange.include_usage or policy.expose_usage
        if self._recovers():
            return KeptStream(self._secrets, Delivered(), strip_reasoning=strip, send_usage=send_usage)
        return ChatStream(self._secrets, strip_reasoning=strip, send_usage=send_usage)

    def _recovers(self) -> bool:
        """Whether another candidate may finish this answer where it breaks."""
        resolution = self._exchange.resolution
        if resolution is None or resolution.recovers is False or not (resolution.recovers or self._policy.recovers):
            return False
        return len(resolution.candidates) > 1 and allowed(self._exchange.body)

    async def _commit(self) -> None:
        self._draft.status_code = 200
        RECORDER.streaming(self._draft)
        await self._exchange.start_stream()

    def _break_off(self, relay: Relay, end: End, stream: AnswerStream) -> None:
        """The stream broke and is still open to the client."""
        usage = stream.usage  # of a translated stream its reader knows more than what is inside
        stream = stream.inner if isinstance(stream, Translated) else stream
        assert isinstance(stream, KeptStream | KeptNative)
        self._element.detail = secrecy.detail(self._end_text(end))
        billed = metering.billed(self._exchange, usage, stream.size)
        self.broken = Broken(self, relay, end, stream.kept, stream.billed + billed)

    def _client_left(self) -> Failure:
        """While the first token was waited for, a client that leaves may tell on the provider (failover-loop 10.3)."""
        if self._probing:
            silence = time.monotonic() - self._began
            judgement = verdict.client_left_early(silence, self._policy.stall, self._element.status)
            self._log_probe_failed("client left", client_gone=True, kind="", charged=judgement.trail != "")
            if judgement.verdict is Verdict.CHARGE:
                metering.charge_rejected(self._exchange, self._model, None)
                return self._failed(Failure("provider_timeout", hint=self._stall_hint(silence)), judgement)
        return super()._client_left()

    def _stall_hint(self, silence: float) -> str:
        ttft = durations.short(self._policy.ttft)
        return (
            f'the connection was closed after {silence:.0f} s without a token from provider "{self._provider.name}" '
            f"(ttft_timeout {ttft}): raise the read timeout of the proxy in front above ttft_timeout, or set "
            "ttft_timeout below it"
        )

    async def _probe(self, response: Response, framer: Framer, window: float) -> Found | Failure:
        """What the stream begins with, or why there is nothing to commit to; *window* in seconds."""
        response.deadline(min(self._loop.time() + window, self._until))
        try:
            found = await firsttoken.look(response, framer, self._egress.classify, self._trial)
        except UpstreamError as problem:
            kind = "provider_timeout" if problem.kind is FaultKind.BODY_TIMEOUT else "provider_error"
            return self._probe_failed(kind, self._secrets.exception(problem))
        if found.done:
            log.warning("proxy: TTFT probe saw [DONE] before any first token", extra={"attrs": self.attrs})
        match found.outcome:
            case Outcome.OUTPUT:
                self._first_token()
            case Outcome.ERROR:
                await KEYRING.know_all()
                return self._first_event_error(self._egress.error(found.payload))
            case Outcome.NOTHING:
                metrics.count(metrics.EMPTY_RESPONSES, self._provider.name, self._model.model_id)
                return self._probe_failed("provider_error", reason=reasons.EMPTY_STREAM)
            case Outcome.STOPPED:
                return self._probe_failed("provider_error", reason=reasons.STOPPED)
            case Outcome.FAULT:
                return self._probe_failed("provider_error", "a frame or blank lines over the gateway's limit")
        return found

    def _first_token(self) -> None:
        self.ttft_ms = self._draft.elapsed_ms()
        self._first_at = time.monotonic()
        self._element.ttft_ms = (self._first_at - self._began) * 1000.0
        if log.isEnabledFor(logging.INFO):
            attrs = {**self.attrs, "ttft_ms": round(self.ttft_ms, 1)}
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
        whole = len(payload) <= refusals.ERROR_FORWARDED
        return self._judge_refusal(Refused(effective, self._element.status, payload, error, whole), http=False)

    def _finish(self, stream: AnswerStream, end: End) -> None:
        """The stream is over: verdict, meter, row."""
        self._judge(end.judgement)
        self._clean = not end.kind
        metering.charge(self._exchange, self._model, stream.usage, stream.size)
        self._element.error_kind = end.kind
        if not end.open:
            self.conclude(end)
        if log.isEnabledFor(logging.INFO):
            attrs = {
                "model": self._exchange.model,
                "provider": self._provider.name,
                "state": "failed" if end.kind else "completed",
                "chunks": stream.chunks,
                "error_kind": end.kind,
                "duration_ms": round(self._draft.elapsed_ms(), 1),
            }
            logformat.say(log, "proxy: streaming finished", attrs)

    def conclude(self, end: End) -> None:
        """The request ends as this stream did: what the row says."""
        draft = self._draft
        if not end.kind:
            draft.state = "completed"
            return
        draft.state, draft.status_code, draft.error_kind = "failed", 0, end.kind
        draft.error_message = self._end_text(end)

    def _end_text(self, end: End) -> str:
        """Why the stream broke, as it may be kept."""
        if end.upstream:
            payload = end.text.encode()
            return reasons.ended(reasons.read(payload), probe.carried_status(payload))
        return self._secrets.clean(end.text)
