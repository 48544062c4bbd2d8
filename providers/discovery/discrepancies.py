"""Where what is stored and what providers list disagree: computed from live rows, never stored. Pure.

A model is *gone* (off, its provider lists it no more), *stale* (gone for long and quiet), *suspect* (on, missed by a
sweep), *retired* (off, its provider refuses it while listing it) or *pinned* (on by an operator's hand although it is
not listed). The badge counts what is gone or retired, and the groups that discovery switched off.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from modelhotel.core import catalogue
from modelhotel.core.catalogue import CLAIM_WINDOW_DAYS
from modelhotel.core.clock import rfc3339
from providers.ports import GroupOff

State = Literal["gone", "stale", "suspect", "retired", "pinned"]
STATES: tuple[State, ...] = ("gone", "stale", "suspect", "retired", "pinned")
COUNTED: frozenset[State] = frozenset({"gone", "retired"})
WINDOW = timedelta(days=CLAIM_WINDOW_DAYS)
#: Providers an alert names.
WORST = 3
_ALERT_DAYS = catalogue.DISCOVERY_CLAIM_ALERT_DAYS


@dataclass(frozen=True, slots=True)
class Claimed:
    """A model row under consideration: on an enabled provider, not off by hand, off and not dismissed or on and missed.

    *last_seen*: its last sighting, else its creation. *flap_window*, *flap_since_review*: how often it came or went.
    """

    id: str
    model_id: str
    provider_id: str
    provider_name: str
    enabled: bool
    missing_scans: int
    pinned_at: datetime | None
    retired_at: datetime | None
    last_seen: datetime
    flap_window: int = 0
    flap_since_review: int = 0

    def state(self, now: datetime) -> State:
        if self.enabled:
            return "pinned" if self.pinned_at is not None else "suspect"
        if self.retired_at is not None:
            return "retired"
        quiet = now - self.last_seen > WINDOW and not self.flap_window
        return "stale" if quiet else "gone"

    def item(self, state: State) -> dict[str, Any]:
        """The claim as the API gives it."""
        found: dict[str, Any] = {
            "id": self.id,
            "model_id": self.model_id,
            "state": state,
            "last_seen_at": rfc3339(self.last_seen),
            "missing_scans": self.missing_scans,
            "flap_window": self.flap_window,
            "flap_since_review": self.flap_since_review,
        }
        if self.retired_at is not None:
            found["retired_at"] = rfc3339(self.retired_at)
        if self.pinned_at is not None:
            found["pinned_at"] = rfc3339(self.pinned_at)
        return found


def by_provider(claimed: Iterable[Claimed], now: datetime) -> list[dict[str, Any]]:
    """One object per provider that has claims, by name, each with its models by state and id."""
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(claimed, key=lambda one: (one.provider_name, one.provider_id, one.model_id)):
        owner = found.setdefault(
            one.provider_id,
            {"provider_id": one.provider_id, "provider_name": one.provider_name, **{state: [] for state in STATES}},
        )
        state = one.state(now)
        owner[state].append(one.item(state))
    return list(found.values())


def group_item(group: GroupOff) -> dict[str, Any]:
    return {
        "display_model": group.display_model,
        "member_count": group.members,
        "routable_count": group.routable,
        "disabled_at": rfc3339(group.disabled_at),
    }


def count(claimed: Iterable[Claimed], groups: Sequence[GroupOff], now: datetime) -> int:
    """What the badge shows."""
    return sum(one.state(now) in COUNTED for one in claimed) + len(groups)


@dataclass(frozen=True, slots=True)
class Outstanding:
    """The claims that count at one moment. *oldest*: since when the oldest waits, None without any."""

    models: int
    groups: int
    oldest: datetime | None
    worst: tuple[tuple[str, int], ...]

    @property
    def count(self) -> int:
        return self.models + self.groups

    def older_than(self, days: int, now: datetime) -> bool:
        return self.oldest is not None and now - self.oldest > timedelta(days=days)

    def metadata(self, days: int, now: datetime) -> dict[str, Any]:
        """Of ``discovery.claims_outstanding``; only for one that has an oldest."""
        assert self.oldest is not None
        return {
            "claim_count": self.count,
            "model_claims": self.models,
            "group_claims": self.groups,
            "oldest_age_days": (now - self.oldest).days,
            "oldest_at": rfc3339(self.oldest),
            "threshold_days": days,
            "worst_providers": [{"provider": name, "counted": counted} for name, counted in self.worst],
        }


def outstanding(claimed: Iterable[Claimed], groups: Sequence[GroupOff], now: datetime) -> Outstanding:
    counted = [one for one in claimed if one.state(now) in COUNTED]
    since = [one.retired_at or one.last_seen for one in counted] + [group.disabled_at for group in groups]
    per: dict[tuple[str, str], int] = {}
    for one in counted:
        key = (one.provider_name, one.provider_id)
        per[key] = per.get(key, 0) + 1
    ranked = sorted(per.items(), key=lambda pair: (-pair[1], pair[0]))[:WORST]
    return Outstanding(
        len(counted), len(groups), min(since, default=None), tuple((name, number) for (name, _), number in ranked)
    )


def threshold(stored: str | None) -> int:
    """Days after which a claim is told: what is above the range is its end, what is below or odd the default."""
    default = int(_ALERT_DAYS.default)
    try:
        days = int(stored) if stored is not None else default
    except ValueError:
        return default
    return min(days, CLAIM_WINDOW_DAYS - 1) if days >= 1 else default


class Step(NamedTuple):
    """The level to keep (None: none), and whether to tell."""

    level: int | None
    tell: bool


def step(level: int | None, number: int, crosses: bool) -> Step:
    """*level*: how many claims were told of last. Only a larger *number* is told again, a smaller one lowers it."""
    if not crosses:
        return Step(None, False)
    return Step(number, level is None or number > level)
