"""A committed stream on its way to the client: forward, watch, close well (failover-loop 11).

No task and no timer per chunk: whatever arrived together goes out in one send, and one deadline of the upstream
connection is moved.
"""

import asyncio
import logging
import time
from dataclasses import dataclass

from failover import verdict
from failover.verdict import Judgement
from modelhotel.core import durations, metrics
from providers.upstream.interface import FaultKind, Response, UpstreamError
from proxy import shutdown
from proxy.exchange import Exchange
from proxy.stream.answer import AnswerStream
from proxy.stream.sse import Event, Fault, Framer
from proxy.stream.watchdog import PATIENT_AFTER, Watchdog
from requestlogs.recorder import INTERRUPTED

log = logging.getLogger("proxy")

#: Seconds between two moves of the deadline while chunks only pass on.
WATCH_STEP = 0.05
NOTHING_CAME = "stream truncated: upstream closed connection without [DONE] sentinel"
LINE_LIMIT = "stream failed: a frame exceeded the gateway's 32 MiB line limit"
BLANK_LINES = "stream interrupted: too many empty lines"
READ_ERROR = "stream failed: upstream connection error"
TIMED_OUT = "stream interrupted: upstream request timed out"
RESTARTING = "stream interrupted: gateway restarting"
DIVERGED = "stream failed: the answer differs from what was delivered"
#: Ends that are nobody's to repair.
_FINAL = frozenset(("client_disconnect", "internal"))


@dataclass(slots=True)
class End:
    """How a stream ended. *kind* is empty where it ended well; *text* is the row's message (upstream text unmasked
    only where *upstream* is True); *frame* is what the client still has to be told. *open*: it was told nothing yet,
    because another candidate may finish the answer.
    """

    judgement: Judgement
    kind: str = ""
    text: str = ""
    frame: str = ""
    upstream: bool = False
    open: bool = False


@dataclass(slots=True)
class Clocks:
    """*stall*: seconds of silence allowed, 0 = any; *until*: the loop time at which the attempt's time is over."""

    stall: float
    until: float


class Relay:
    """One stream. *attrs* name model and provider in log lines."""

    def __init__(
        self,
        exchange: Exchange,
        response: Response,
        framer: Framer,
        stream: AnswerStream,
        *,
        clocks: Clocks,
        attrs: dict[str, object],
    ) -> None:
        self._exchange = exchange
        self._response = response
        self._framer = framer
        self._stream = stream
        self._clocks = clocks
        self._attrs = attrs
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        #: When the first event with a payload went on (monotonic).
        self.first_at: float | None = None
        self._interrupted = False
        self._watch_again = 0.0
        self._patient = False
        self._watchdog = Watchdog(clocks.stall, self._loop.time(), framer.lines, framer.pending)

    def interrupt(self) -> None:
        """The gateway stops: end with the terminal frame, now."""
        if not self._interrupted and self._task is not None:
            self._interrupted = True
            self._task.cancel()

    async def run(self, first: list[Event], left: bytes = b"", *, ended: bool) -> End:
        """Forward *first*, what the probe took apart, and *left*, what else it read, then everything until the end;
        *ended*: the body is over already.

        Everything the client is to see has been sent, and the stream is closed to both sides; an *open* end waits for
        :meth:`close`.
        """
        shutdown.register(self)
        try:
            end = await self._forward(first, left, ended=ended)
        except asyncio.CancelledError:
            end = self._cancelled()
        finally:
            shutdown.unregister(self)
        end.open = bool(end.kind) and end.kind not in _FINAL and self._stream.finishable()
        if not end.open:
            await self.close(end)
        return end

    async def close(self, end: End) -> None:
        """The last event, if one is still due, and the end of the answer."""
        try:
            await self._close(end)
        except asyncio.CancelledError:
            # The client left, or a second interrupt: the verdict stands.
            if not (self._exchange.gone or self._interrupted) or self._task is None:
                raise
            self._task.uncancel()

    def _cancelled(self) -> End:
        """Why the task was cancelled. Raises CancelledError where it was neither client nor shutdown."""
        self._response.close()
        if self._task is None or not (self._exchange.gone or self._interrupted):
            raise asyncio.CancelledError
        self._task.uncancel()
        if self._exchange.gone:
            return End(verdict.NONE, "client_disconnect", "client disconnected")
        return End(verdict.NONE, "internal", INTERRUPTED, RESTARTING)

    async def _forward(self, first: list[Event], left: bytes, *, ended: bool) -> End:
        exchange, response, framer, stream = self._exchange, self._response, self._framer, self._stream
        out, events, over = b"", first, ended
        if left:
            out = stream.take_all(first) if first else b""
            known, events = self._read(left)
            out += known
        while True:
            if over:
                out += stream.last(events)
            elif events:
                out += stream.take_all(events)
            if out:
                await exchange.write(out)
            if self.first_at is None and stream.chunks:
                self.first_at = time.monotonic()
            if stream.over or (over and stream.error is not None):
                return self._provider_ended()
            if framer.fault is not None:
                return self._fault(LINE_LIMIT if framer.fault is Fault.LINE else BLANK_LINES)
            if over:
                return self._body_over()
            self._watch()
            try:
                data = await response.chunk(self._sift)
            except UpstreamError as problem:
                return self._broken(problem)
            if data:
                out, events = self._read(data)
            else:
                out, events, over = b"", framer.finish(), True

    def _read(self, data: bytes) -> tuple[bytes, list[Event]]:
        """What of *data* goes on to the client already, and the events behind it."""
        framer, out = self._framer, b""
        if not framer.at_rest and 1 < (end := data.find(b"\n\n") + 2) < len(data):
            # It begins in the middle of an event; what follows that may be known again.
            events, data = framer.feed(data[:end]), data[end:]
            if events:
                out = self._stream.take_all(events)
        size = self._repeated(data)
        if size:
            out += data[:size]
            data = data[size:]
        return out, framer.feed(data)

    def _sift(self, data: bytes) -> bool:
        """What passes without a closer look goes on in the turn in which it came, without waking this task."""
        direct = self._exchange.direct
        if direct is None or not direct.ready() or not self._repeated(data, whole=True):
            return False
        direct.write_now(data)
        now, patient = self._loop.time(), self._stream.chunks > PATIENT_AFTER
        if now >= self._watch_again or patient is not self._patient:
            self._watch_again, self._patient = now + WATCH_STEP, patient
            self._watch(WATCH_STEP)
        return True

    def _repeated(self, data: bytes, *, whole: bool = False) -> int:
        """How much of *data* is known to pass without a closer look; *whole*: 0 unless all of it."""
        framer, stream = self._framer, self._stream
        if not framer.at_rest:
            return 0
        before = stream.chunks
        size = stream.repeated(data, whole=whole)
        if size:
            framer.passed(stream.chunks - before)
        return size

    def _watch(self, slack: float = 0.0) -> None:
        """Move the deadline of the next chunk; *slack* seconds later, where the ones until then will not move it."""
        framer, clocks = self._framer, self._clocks
        stall = self._watchdog.deadline(self._loop.time(), framer.lines, framer.pending, self._stream.chunks)
        self._response.deadline(min(stall + slack, clocks.until))

    # -- how it ended

    def _provider_ended(self) -> End:
        """``[DONE]``, or the provider's own error event."""
        if self._stream.error is not None:
            text = self._stream.error.decode("utf-8", "replace")
            return End(verdict.broken(self._response.status), "provider_error", text, upstream=True)
        return self._body_over()

    def _body_over(self) -> End:
        if self._stream.diverged():
            return End(verdict.NONE, "provider_error", DIVERGED, DIVERGED)
        return self._complete() if self._stream.complete else self._truncated()

    def _complete(self) -> End:
        if self._stream.carries:
            return End(verdict.success(self._response.status))
        return End(verdict.NONE if self._stream.unmodelled else verdict.empty(self._response.status))

    def _truncated(self) -> End:
        attrs = {**self._attrs, "chunks": self._stream.chunks}
        log.warning("proxy: stream truncated before completion", extra={"attrs": attrs})
        if self._stream.chunks:
            return self._fault(self._stream.truncated)
        metrics.count(metrics.EMPTY_RESPONSES, str(self._attrs["provider"]), str(self._attrs["model"]))
        return self._fault(NOTHING_CAME)

    def _fault(self, text: str, kind: str = "provider_error") -> End:
        return End(verdict.broken(self._response.status), kind, text, text)

    def _broken(self, problem: UpstreamError) -> End:
        if self._stream.error is not None:  # of a dialect where more may follow it, and nothing did
            return self._provider_ended()
        if problem.kind is not FaultKind.BODY_TIMEOUT:
            end = self._fault(READ_ERROR)
            end.text = f"{READ_ERROR}: {problem}"
            return end
        if self._loop.time() >= self._clocks.until or self._clocks.stall <= 0:
            return self._fault(TIMED_OUT, "failover_timeout")
        window = durations.canonical(self._watchdog.window(self._stream.chunks))
        attrs = {**self._attrs, "stall_timeout": window, "base_timeout": durations.short(self._clocks.stall)}
        log.warning("proxy: stream stall detected", extra={"attrs": {**attrs, "chunks": self._stream.chunks}})
        text = f"stream stalled: no data for {window}"
        return End(verdict.stalled(self._response.status), "provider_timeout", text, text)

    async def _close(self, end: End) -> None:
        exchange = self._exchange
        if exchange.gone:
            return
        if end.frame:
            await exchange.write(self._stream.error_frame(end.frame, end.kind))
            attrs = {**self._attrs, "error_kind": end.kind}
            log.info("proxy: terminal error frame sent", extra={"attrs": attrs})
        elif end.upstream and self._stream.held:
            await exchange.write(self._stream.held)
        elif not end.kind and not self._stream.done:
            attrs = {**self._attrs, "chunks": self._stream.chunks}
            log.info("proxy: upstream omitted [DONE] sentinel; injecting for downstream", extra={"attrs": attrs})
            await exchange.write(self._stream.end_mark())
        await exchange.end()
