"""Mid-stream recovery: a stream that broke after output reached its client is finished by the next candidate of the
request's list that was not contacted yet (failover-loop 11.4, beyond 1).

The candidate is asked to go on from the delivered text; where it is known not to, it is asked afresh and what it
repeats is swallowed.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from failover import verdict
from failover.resolve import Candidate
from providers.upstream.interface import Response
from proxy import reasons, secrecy, shutdown
from proxy.attempt import Attempt
from proxy.chat_attempt import Broken, ChatAttempt
from proxy.dialects.continuing import continued
from proxy.exchange import BODILESS, Exchange
from proxy.policy import Policy
from proxy.stream.answer import AnswerStream
from proxy.stream.recovered import RecoveredStream
from proxy.stream.relay import End
from proxy.stream.splice import Continuation, Repetition, Seam
from proxy.terminal import Failure, Refused
from proxy.tools import Tools
from proxy.trail import Element

log = logging.getLogger("proxy")

_REFUSALS = (400, 422)
"""Statuses of a provider that does not take the assistant message at the end."""


class Prefill:
    """Which models do not go on from an assistant message at the end of a request, by (provider id, upstream model).

    In memory, per process; learned from what they answered.
    """

    def __init__(self) -> None:
        self._refused: set[tuple[str, str]] = set()

    def works(self, provider_id: str, model: str) -> bool:
        """True until the contrary was learned."""
        return (provider_id, model) not in self._refused

    def refused(self, provider_id: str, model: str) -> None:
        self._refused.add((provider_id, model))

    def reset(self) -> None:
        """Forget everything (tests)."""
        self._refused.clear()


PREFILL = Prefill()


class Meanwhile:
    """While no stream passes the gateway may stop all the same: the request is cancelled then. A context manager."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()

    def __enter__(self) -> "Meanwhile":
        shutdown.register(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.over()

    def over(self) -> None:
        """A stream passes again and is interrupted itself."""
        shutdown.unregister(self)

    def interrupt(self) -> None:
        self.over()
        if self._task is not None:
            self._task.cancel()


class Finisher(ChatAttempt):
    """The attempt at a candidate that finishes what *broken* left: a client that has the text *broken.kept* so far."""

    __slots__ = ("_broken", "_first", "_meanwhile", "_seam", "_turned_down")
    _translated = True

    def __init__(
        self,
        exchange: Exchange,
        candidate: Candidate,
        element: Element,
        policy: Policy,
        tools: Tools,
        *,
        last: bool,
        broken: Broken,
        meanwhile: Meanwhile,
    ) -> None:
        super().__init__(exchange, candidate, element, policy, tools, last=last)
        self._broken = broken
        self._meanwhile = meanwhile
        self._first = exchange.draft.response_header_ms, exchange.draft.ttft_ms
        self._turned_down = False
        self._until = min(self._until, self._loop.time() + exchange.deadline - time.monotonic())
        element.recovered_at = len(broken.kept.text)
        self._seam: Seam = self._afresh()

    def _afresh(self) -> Seam:
        self._element.recovery = "splice"
        return Repetition(self._broken.kept.text)

    async def _open(self, *, reissues: bool = True) -> Failure | None:
        seam = Continuation(self._broken.kept.text)
        exchange = self._exchange
        body = exchange.body
        further = continued(body, seam.asked)
        if not seam.asked or further is None or not PREFILL.works(self._provider.id, self._model.model_id):
            return await super()._open(reissues=reissues)
        self._element.recovery, self._seam = "prefill", seam
        exchange.body = further
        try:
            failure = await super()._open(reissues=reissues)
        finally:
            exchange.body = body
        return await self._open_afresh(reissues=reissues) if self._turned_down else failure

    async def _open_afresh(self, *, reissues: bool) -> Failure | None:
        """The same candidate without the delivered text, which it refused to go on from."""
        if self._response is not None:
            self._response.close()
        self._turned_down = False
        self._seam = self._afresh()
        failure = await super()._open(reissues=reissues)
        if failure is None:
            PREFILL.refused(self._provider.id, self._model.model_id)
        return failure

    def _judge_refusal(self, refused: Refused, *, http: bool, healed: bool = False) -> Failure:
        if (
            isinstance(self._seam, Continuation)
            and refused.effective in _REFUSALS
            and not reasons.too_long(refused.effective, refused.error)
        ):
            self._turned_down = True
            return Failure("provider_bad_request")
        return super()._judge_refusal(refused, http=http, healed=healed)

    def _keep(self, words: str) -> str:
        """What was delivered is content of the request by now, also for a text that comes behind it."""
        kept = super()._keep(words)
        delivered = {"delivered": msgspec.Raw(msgspec.json.encode(self._broken.kept.text))}
        return secrecy.WITHHELD if kept and secrecy.fenced(words, delivered) else kept

    async def _take(self, response: Response) -> Failure | None:
        # The client's first bytes came from the first candidate.
        self._draft.response_header_ms, self._draft.ttft_ms = self._first
        if response.status in BODILESS:
            return self._no_answer(reasons.NO_CONTENT, verdict.empty(response.status))
        return await super()._take(response)

    def _stream(self) -> RecoveredStream:
        exchange = self._exchange
        return RecoveredStream(
            self._secrets,
            self._broken.kept,
            self._seam,
            self._broken.billed,
            strip_reasoning=exchange.key.strip_reasoning,
            send_usage=exchange.include_usage or self._policy.expose_usage,
        )

    async def _commit(self) -> None:
        self._meanwhile.over()
        element = self._element
        attrs = {
            "model": self._model.model_id,
            "provider": self._provider.name,
            "attempt": element.index + 1,
            "recovered_at": element.recovered_at,
            "recovery": element.recovery,
        }
        log.info("proxy: mid-stream recovery", extra={"attrs": attrs})

    def _finish(self, stream: AnswerStream, end: End) -> None:
        super()._finish(stream, end)
        if isinstance(self._seam, Continuation) and self._seam.repeated:
            PREFILL.refused(self._provider.id, self._model.model_id)


Kind = Callable[..., Attempt]
"""What makes an attempt, as an endpoint's class does."""


Visit = Callable[[Candidate, Kind, bool], Awaitable[tuple[Attempt, Failure | None] | None]]
"""One attempt of that kind at a candidate, maybe the last one, and how it failed before it delivered anything.

None where it may not be made.
"""


async def finish(broken: Broken, candidates: Sequence[Candidate], recoveries: int, visit: Visit) -> Broken | None:
    """Have the stream *broken* finished by one of *candidates*, in at most so many attempts.

    None when nothing is left to be told to the client, else whose failure it is: that of the last attempt that
    delivered something. Raises CancelledError when the client left or the gateway stops.
    """
    for at, candidate in enumerate(candidates):
        had = len(broken.kept.text)
        with Meanwhile() as meanwhile:
            kind = partial(Finisher, broken=broken, meanwhile=meanwhile)
            visited = await visit(candidate, kind, at + 1 == len(candidates))
        if visited is None:
            continue
        attempt, failure = visited
        if failure is None and attempt.broken is None:
            return None
        if attempt.broken is not None and len(broken.kept.text) > had:
            broken = attempt.broken
        recoveries -= 1
        if not recoveries:
            break
    return broken
