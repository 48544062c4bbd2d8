"""An answer passed on while it arrives: committed at its first byte, and then only its end can tell (v1-api 17.2).

Nothing is appended to one that breaks: its client learns that it is not whole from the connection that is cut off.
Only a stream of events whose time is over ends with one that says so (v1-api 8.5).
"""

import asyncio
import logging

from failover import verdict
from failover.verdict import Judgement
from modelhotel.core import redact
from providers.upstream.interface import FaultKind, Response, UpstreamError
from proxy import answers, metering, reasons, refusals
from proxy.answers import Header
from proxy.attempt import Attempt
from proxy.dialects.passed import Tail
from proxy.secrecy import CONTENT_KEY_MIN
from proxy.terminal import Failure
from requestlogs.recorder import RECORDER

log = logging.getLogger("proxy")

NOTHING_CAME = "upstream produced no response data"
CUT = "answer cut off: upstream connection error"
STREAM_TIMED_OUT = "stream interrupted: upstream request timed out"
TIMED_OUT = "answer cut off: upstream request timed out"
_EVENTS = b"text/event-stream"
_UNKNOWN_TYPE = b"application/octet-stream"
#: Of an event stream: no proxy in front may hold it back.
_UNBUFFERED: tuple[Header, ...] = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))


class Relayed(Attempt):
    """See the module's docstring."""

    __slots__ = ()

    async def _pass_on(self, response: Response) -> Failure | None:
        """Serve it from its first byte on; a failure where there is none."""
        try:
            first = await response.chunk()
        except UpstreamError as broke:
            return self._broke(broke, NOTHING_CAME)
        if not first:
            return self._nothing_came(response)
        if self._compressed(response):
            return self._refuse_compressed(response, len(first))
        await self._relay(response, first, relayed_headers(response))
        return None

    async def _relay(self, response: Response, first: bytes, shown: tuple[Header, ...]) -> None:
        """Commit with the headers *shown*, and pass on; the verdict is that of the end. Usage is looked for in what
        comes as events only.
        """
        exchange, draft, guard = self._exchange, self._draft, Guard(self._secrets.own)
        tail = Tail() if is_events(response) else None
        draft.status_code = response.status
        if tail is not None:
            RECORDER.streaming(draft)
        data, size = first, 0
        try:
            await exchange.start_body(response.status, shown)
            while data:
                size += len(data)
                if tail is not None:
                    tail.add(data)
                if passed := guard.take(data):
                    await exchange.write(passed)
                data = await response.chunk()
            failed = tail is not None and tail.failed()
            self.leave(clean=not failed)
            await exchange.write(guard.rest())
            await exchange.end()
            if failed:
                self._judge(verdict.broken(response.status))
                self._unfinished("provider_error", reasons.ENDED)
            else:
                self._judge(verdict.success(response.status))
                draft.state = "completed"
        except UpstreamError as broke:
            late = broke.kind is FaultKind.BODY_TIMEOUT
            self._judge(verdict.broken(response.status))
            text = TIMED_OUT if late else f"{CUT}: {self._secrets.exception(broke)}"
            self._cut("failover_timeout" if late else "provider_error", text)
            if late and tail is not None:  # its client understands one more event
                frame = answers.stream_error(STREAM_TIMED_OUT, "failover_timeout")
                await exchange.write(guard.rest() + tail.gap + frame)
                await exchange.end()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not exchange.gone or task is None:
                raise
            task.uncancel()
            self._cut("client_disconnect", "client disconnected")
        finally:
            metering.charge(exchange, self._model, tail.usage() if tail is not None else None, size)

    def _unfinished(self, kind: str, text: str) -> None:
        """What the row says of an answer that was begun and is not whole."""
        self._element.error_kind = kind
        draft = self._draft
        draft.state, draft.status_code, draft.error_kind, draft.error_message = "failed", 0, kind, text

    def _cut(self, kind: str, text: str) -> None:
        """The answer ends here."""
        self._unfinished(kind, text)
        attrs = {**self._counted, "error_kind": kind, "error": text}
        log.warning("proxy: answer cut off", extra={"attrs": attrs})

    # -- nothing of it has gone out

    @property
    def _counted(self) -> dict[str, object]:
        return {**self.attrs, "model": self._model.model_id, "attempt": self._element.index + 1}

    def _compressed(self, response: Response) -> bool:
        return response.header(b"content-encoding") not in refusals.PLAIN

    def _refuse_compressed(self, response: Response, size: int) -> Failure:
        metering.charge_rejected(self._exchange, self._model, None)
        return self._undecodable(response, "compressed, which nobody asked for", size)

    def _nothing_came(self, response: Response) -> Failure:
        log.warning("proxy: upstream answered without a body", extra={"attrs": self._counted})
        return self._gone(NOTHING_CAME, "", verdict.empty(response.status))

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


# -- headers


def is_events(response: Response) -> bool:
    """Whether the answer is a stream of events."""
    return (response.header(b"content-type") or b"").strip().lower().startswith(_EVENTS)


def disposition(response: Response) -> tuple[Header, ...]:
    value = response.header(b"content-disposition")
    return () if value is None else ((b"content-disposition", value),)


def length(response: Response) -> tuple[Header, ...]:
    value = response.header(b"content-length")
    return () if value is None else ((b"content-length", value),)


def relayed_headers(response: Response) -> tuple[Header, ...]:
    """What the client gets of the headers of an answer that is passed on (v1-api 8.4)."""
    kind = response.header(b"content-type") or _UNKNOWN_TYPE
    shown: tuple[Header, ...] = ((b"content-type", kind), *disposition(response))
    if is_events(response):
        return (*shown, *_UNBUFFERED)
    return (*shown, *length(response))


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
