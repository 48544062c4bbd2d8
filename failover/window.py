"""How many requests may be with one provider at once, as learned from its busy answers (failover-loop 8). Pure.

A window counts the requests that are with its provider. It is uncapped until the provider says that it is full; then
its limit is what was running at that moment. Clean answers raise it by one at a time, a long quiet drops it. Failures
never shrink it: only :meth:`Window.cut` and :meth:`Window.cap` do.

Times are monotonic seconds and arguments. No other module assigns the fields.
"""

from dataclasses import dataclass

UNCAPPED = 0
"""The limit of a window that has learned nothing."""


@dataclass(frozen=True, slots=True)
class Learning:
    """*grow_after*: clean answers in a row that raise a limit by one. *forget_after*: quiet seconds that drop it."""

    enabled: bool = True
    grow_after: int = 20
    forget_after: float = 600.0


@dataclass(slots=True, eq=False)
class Window:
    """*last_cut* lies ahead while the wait that the provider asked for with its last busy answer is not over.

    Of a ceiling that processes share, *claimed* is how many slots of it are ours and *shut_until* when to ask again
    after the others left nothing.
    """

    limit: int = UNCAPPED
    inflight: int = 0
    good_runs: int = 0
    last_cut: float = 0.0
    claimed: int = 0
    shut_until: float = 0.0
    provider_id: str = ""

    def room(self, ceiling: int | None, *, learned: bool = True) -> bool:
        """Whether another request fits under the operator's *ceiling* (None = none) and, unless *learned* is False,
        the limit.
        """
        if learned and self.limit and self.inflight >= self.limit:
            return False
        return ceiling is None or self.inflight < ceiling

    def enter(self, ceiling: int | None, learned: bool) -> bool:
        """Take a slot; False when there is no :meth:`room`. One :meth:`leave` gives it back."""
        if (self.limit or ceiling is not None) and not self.room(ceiling, learned=learned):
            return False
        self.inflight += 1
        return True

    def leave(self) -> None:
        """Give a slot back."""
        self.inflight -= 1

    def learn(self, clean: bool, now: float, rules: Learning) -> None:
        """What an answer says whose slot was just given back. *clean*: a 2xx that was read to its end as an answer."""
        if not self.limit or self.review(now, rules):
            return
        self.good_runs = self.good_runs + 1 if clean else 0
        if self.good_runs >= rules.grow_after:
            self.limit += 1
            self.good_runs = 0

    def review(self, now: float, rules: Learning) -> bool:
        """Drop a limit that the quiet since the last cut, or the switch, has made void; True when it was dropped."""
        if not self.limit or self.limit == self.allowance(now, rules):
            return False
        self.limit = UNCAPPED
        self.good_runs = 0
        return True

    def allowance(self, now: float, rules: Learning) -> int:
        """The limit as it is worth now, without changing anything."""
        return self.limit if rules.enabled and now - self.last_cut < rules.forget_after else UNCAPPED

    def cut(self, now: float, wait: float) -> None:
        """The provider refused a request as one too many, whose slot was given back already; it asked for a *wait*."""
        self._shrink()
        self.last_cut = now + wait

    def cap(self, now: float) -> None:
        """The provider answered that nothing is left beside what runs now, the answered request included."""
        self._shrink()
        self.last_cut = now

    def _shrink(self) -> None:
        running = max(1, self.inflight)
        if not self.limit or running < self.limit:
            self.limit = running
        self.good_runs = 0
