"""The attempts trail of one request (failover-loop 16). Pure."""

from typing import Any

from failover.resolve import Candidate, Skip
from modelhotel.core.text import clip
from proxy.terminal import SATURATED

DETAIL_CAP = 160
PROBE_IN_PROGRESS = "probe in progress"
FULL = "at in-flight limit"


class Element:
    """One attempt: filled while it runs, written once. *note* is our own word on one that was called off or
    asked nobody.

    *phrase* is the row of the 429 table that matched, *recovery* how it took over another one's stream and
    *recovered_at* after how many characters.
    """

    __slots__ = (
        "breaker",
        "candidate",
        "detail",
        "duration_ms",
        "error_kind",
        "hedged",
        "index",
        "note",
        "phrase",
        "recovered_at",
        "recovery",
        "status",
        "ttft_ms",
    )

    def __init__(self, index: int, candidate: Candidate) -> None:
        self.index = index
        self.candidate = candidate
        self.status = 0
        self.error_kind = ""
        self.detail = ""
        self.note = ""
        self.breaker = ""
        self.duration_ms = 0.0
        self.ttft_ms: float | None = None
        self.phrase = ""
        self.hedged = False
        self.recovery = ""
        self.recovered_at = 0

    def row(self, *, terminal: bool) -> dict[str, Any]:
        """*terminal*: it ended the request; its text is the row's ``error_message``."""
        row: dict[str, Any] = {
            "attempt": self.index,
            "provider_id": self.candidate.provider.id,
            "provider": self.candidate.provider.name,
            "model": self.candidate.model.model_id,
        }
        if self.status:
            row["status"] = self.status
        if self.error_kind:
            row["error_kind"] = self.error_kind
        if detail := self.note or ("" if terminal else self.detail):
            row["detail"] = clip(detail, DETAIL_CAP)
        if self.phrase:
            row["phrase"] = self.phrase
        row["duration_ms"] = round(self.duration_ms, 3)
        if self.ttft_ms is not None:
            row["ttft_ms"] = round(self.ttft_ms, 3)
        if self.hedged:
            row["hedged"] = True
        if self.breaker:
            row["breaker"] = self.breaker
        if self.recovery:
            row["recovery"], row["recovered_at"] = self.recovery, self.recovered_at
        return row


class Trail:
    """All elements of one request."""

    __slots__ = ("_elements", "_skips")

    def __init__(self, skips: list[Skip]) -> None:
        self._skips: list[dict[str, Any]] = []
        if skips:
            self._skips += [_skipped(s.provider_id, s.provider, s.model_id, s.reason) for s in skips if s.on_trail]
        self._elements: list[Element] = []

    def peek(self, candidate: Candidate) -> Element:
        """The element of the next attempt, with the next free index; on the trail once it is added."""
        return Element(len(self._elements), candidate)

    def add(self, element: Element) -> None:
        self._elements.append(element)

    def full(self, candidate: Candidate, breaker: str) -> Element:
        """The candidate's provider is at its in-flight limit: an attempt that asks nobody."""
        element = self.peek(candidate)
        element.error_kind, element.note, element.breaker = SATURATED, FULL, breaker
        self.add(element)
        return element

    @property
    def candidates(self) -> int:
        """How many were asked or found full."""
        return len({element.candidate for element in self._elements})

    def left_to_the_probe(self, candidate: Candidate) -> None:
        """The candidate is left to the holder of its probe lease."""
        provider = candidate.provider
        self._skips.append(_skipped(provider.id, provider.name, candidate.model.model_id, PROBE_IN_PROGRESS))

    def rows(self, last: Element | None = None) -> list[dict[str, Any]] | None:
        """Skips first, then the attempts, of which *last* ended the request; None when there is nothing."""
        return [*self._skips, *[element.row(terminal=element is last) for element in self._elements]] or None


def _skipped(provider_id: str, provider: str, model: str, reason: str) -> dict[str, Any]:
    return {
        "attempt": -1,
        "provider_id": provider_id,
        "provider": provider,
        "model": model,
        "detail": reason,
        "duration_ms": 0,
        "breaker": "skipped",
    }
