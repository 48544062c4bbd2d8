"""Strikes against models that their provider refuses by name, and what follows from them (providers 7.2, 7.3). Pure.

A case is opened by the first refusal and closed by the first answer. Instants are monotonic seconds and arguments. One
plain lock guards it: requests strike from the event loop, probes report from threads of their own.
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Literal

Surface = Literal["", "chat", "embeddings"]
"""What a refusal is counted under; empty = it is not counted."""
Key = tuple[str, Surface]
"""Id of the model row, and the surface."""

GAP = 30 * 60.0
"""Seconds without a refusal after which the count starts again."""
STRIKES = 3
PAUSE = 5 * 60.0
"""Seconds between the beginnings of two probes of one model, and for which a refused verdict counts."""
AT_ONCE = 4
"""Probes to one provider at a time."""
LOST = 60.0
"""Seconds after which a probe that never reported counts as over; it gets half of that."""
TELL_INCONCLUSIVE = 3
_TIDY_ABOVE = 256


class Verdict(StrEnum):
    REFUSED = "refused"
    SERVED = "served"
    INCONCLUSIVE = "inconclusive"


class Step(Enum):
    """What is to be done now. ``LIST``: retire the model if a current listing lacks it."""

    WAIT = "wait"
    PROBE = "probe"
    LIST = "list"
    RETIRE = "retire"


@dataclass(slots=True, eq=False)
class Case:
    """*last*: of the strikes. *refused_at*: of the last refused verdict. *inconclusive*: verdicts in a row."""

    strikes: int = 0
    last: float = 0.0
    refused_at: float | None = None
    inconclusive: int = 0


def counted(surface: Surface, inputs: Collection[str], outputs: Collection[str]) -> bool:
    """Whether a model with these modalities can be refused on *surface* at all; one that serves both never is."""
    embeds = "embedding" in outputs
    if surface == "embeddings":
        return embeds and not _writes(outputs)
    return surface == "chat" and not embeds and all(not known or _writes(known) for known in (inputs, outputs))


def _writes(modalities: Collection[str]) -> bool:
    return "text" in modalities or "code" in modalities


class Docket:
    """*cases* is looked at with every answer that was served, and empty nearly always."""

    def __init__(self) -> None:
        self.cases: dict[Key, Case] = {}
        self._probed: dict[str, float] = {}
        self._running: dict[str, list[float]] = {}
        self._tidy_above = _TIDY_ABOVE
        self._lock = threading.Lock()

    def strike(self, key: Key, provider_id: str, now: float, *, circuit_open: bool) -> tuple[Case, Step]:
        """A refusal. ``PROBE`` takes a place with the provider, which :meth:`judge` gives back."""
        with self._lock:
            case = self.cases.get(key)
            if case is None or now - case.last > GAP:
                self._tidy(now)
                case = self.cases[key] = Case()
            case.strikes += 1
            case.last = now
            if 1 < case.strikes < STRIKES:
                return case, Step.WAIT
            if case.strikes >= STRIKES and case.refused_at is not None and now - case.refused_at <= PAUSE:
                # Spent by that: the refusals that come while the row is written start no writes of their own.
                case.refused_at = None
                return case, Step.RETIRE
            may = not circuit_open and self._admit(key[0], provider_id, now)
            return case, Step.PROBE if may else Step.WAIT

    def judge(self, key: Key, case: Case, provider_id: str, begun: float, verdict: Verdict, now: float) -> Step:
        """What the probe that began at *begun* found. A case that was closed meanwhile stays closed."""
        with self._lock:
            running = self._running.get(provider_id, [])
            if begun in running:
                running.remove(begun)
            if self.cases.get(key) is not case:
                return Step.WAIT
            if verdict is Verdict.SERVED:
                del self.cases[key]
                return Step.WAIT
            if verdict is Verdict.INCONCLUSIVE:
                case.inconclusive += 1
                return Step.WAIT
            case.inconclusive, case.refused_at = 0, now
            return Step.RETIRE if case.strikes >= STRIKES else Step.LIST

    def close(self, key: Key) -> int:
        """The model answered, or is switched off: how many strikes it had."""
        with self._lock:
            case = self.cases.pop(key, None)
        return case.strikes if case is not None else 0

    def stands(self, key: Key, case: Case) -> bool:
        """Nothing has closed this case."""
        return self.cases.get(key) is case

    def _admit(self, model: str, provider_id: str, now: float) -> bool:
        last = self._probed.get(model)
        running = [begun for begun in self._running.get(provider_id, ()) if now - begun < LOST]
        if (last is not None and now - last < PAUSE) or len(running) >= AT_ONCE:
            return False
        self._probed[model] = now
        self._running[provider_id] = [*running, now]
        return True

    def _tidy(self, now: float) -> None:
        """What is left doubles before it is looked through again: the event loop pays the same for every strike."""
        if len(self.cases) + len(self._probed) > self._tidy_above:
            for key in [key for key, case in self.cases.items() if now - case.last > GAP]:
                del self.cases[key]
            self._probed = {model: at for model, at in self._probed.items() if now - at < PAUSE}
            self._tidy_above = max(_TIDY_ABOVE, 2 * (len(self.cases) + len(self._probed)))
