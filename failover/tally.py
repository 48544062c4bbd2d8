"""How the requests of the last ten minutes went, per model of a provider (circuit-breaker 21.4). In memory.

Counted in steps of ten seconds, so that one attempt costs a lookup and an addition, and a busy model no more room than
a quiet one.
"""

from collections import deque
from collections.abc import Collection

from modelhotel.core.clock import SYSTEM, Clock

#: Seconds.
WINDOW, STEP = 600.0, 10.0
_STEPS = int(WINDOW / STEP)
#: A model that fails so often, and at least this share of its requests, makes its provider degraded.
ERRORS, SHARE = 3, 0.5


class Tally:
    """Each step is ``[number, requests, errors]``. Any thread: steps are only appended, and read in one copy."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._steps: dict[str, dict[str, deque[list[int]]]] = {}

    def note(self, provider_id: str, model: str, failed: bool) -> None:
        """One attempt at *model* (the provider's own id) is over."""
        now = int(self._clock.monotonic() // STEP)
        models = self._steps.get(provider_id)
        if models is None:
            models = self._steps.setdefault(provider_id, {})
        steps = models.get(model)
        if steps is None:
            steps = models.setdefault(model, deque(maxlen=_STEPS))
        step = steps[-1] if steps else None
        if step is None or step[0] != now:
            step = [now, 0, 0]
            steps.append(step)
        step[1] += 1
        if failed:
            step[2] += 1

    def erring(self, provider_id: str) -> bool:
        """Some model had 3 or more errors making up at least half of its requests."""
        oldest = int(self._clock.monotonic() // STEP) - _STEPS
        for steps in list(self._steps.get(provider_id, {}).values()):
            recent = [step for step in list(steps) if step[0] > oldest]
            errors = sum(step[2] for step in recent)
            if errors >= ERRORS and errors >= SHARE * sum(step[1] for step in recent):
                return True
        return False

    def keep_only(self, provider_ids: Collection[str]) -> None:
        """Forget every provider that is not among *provider_ids*."""
        for provider_id in [known for known in list(self._steps) if known not in provider_ids]:
            self.forget(provider_id)

    def forget(self, provider_id: str) -> None:
        self._steps.pop(provider_id, None)

    def reset(self) -> None:
        """Forget everything (tests)."""
        self._steps.clear()


TALLY = Tally()
