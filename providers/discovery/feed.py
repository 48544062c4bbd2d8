"""The feed of what sweeps changed and nobody has seen yet: what of it is news. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from modelhotel.core.clock import rfc3339

#: Sections of a diff that are news; an entry with ``updated`` only is told but not counted.
NEWS = (
    "added",
    "reenabled",
    "disabled",
    "failover_deleted_groups",
    "failover_updated_groups",
    "failover_disabled_groups",
)
_Field = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One journal entry. *provider_id* empty: the provider is gone, or (without a name) the groups of a run."""

    detected_at: datetime
    source: str
    provider_id: str
    provider_name: str
    diff: Mapping[str, Any]

    @property
    def owner(self) -> str:
        return self.provider_id or self.provider_name

    @property
    def counts(self) -> bool:
        return any(section in NEWS for section in self.diff)

    def shown(self) -> dict[str, Any]:
        """The entry as the API gives it."""
        owner = {"provider_id": self.provider_id} if self.provider_id else {}
        return {
            **owner,
            "provider_name": self.provider_name,
            "source": self.source,
            "detected_at": rfc3339(self.detected_at),
            "diff": self.diff,
        }


def fold(entries: Iterable[Entry], claims: Collection[tuple[str, str]], groups: Collection[str]) -> list[Entry]:
    """The *entries* (oldest first) without what is no news; those with nothing left are gone.

    No news is a field that is back at its first value, a model of *claims* (provider and model id) that was disabled,
    and a group of *groups* that was.
    """
    given = list(entries)
    same = _unmoved(given)
    found = (replace(entry, diff=_folded(entry, same, claims, groups)) for entry in given)
    return [entry for entry in found if entry.diff]


def _changes(entry: Entry) -> Iterator[tuple[_Field, Any, Any]]:
    """((owner, model id, field), old, new) of each."""
    for model in entry.diff.get("updated", ()):
        for change in model["changes"]:
            yield (entry.owner, model["model_id"], change["field"]), change["old"], change["new"]


def _unmoved(entries: Iterable[Entry]) -> set[_Field]:
    """The fields whose latest value is the earliest."""
    first: dict[_Field, Any] = {}
    last: dict[_Field, Any] = {}
    for entry in entries:
        for key, old, new in _changes(entry):
            first.setdefault(key, old)
            last[key] = new
    return {key for key, new in last.items() if first[key] == new}


def _folded(
    entry: Entry, same: Collection[_Field], claims: Collection[tuple[str, str]], groups: Collection[str]
) -> dict[str, Any]:
    diff: dict[str, Any] = dict(entry.diff)
    if "updated" in diff and same:
        diff["updated"] = [kept for model in diff["updated"] if (kept := _moved(entry.owner, model, same))]
    if "disabled" in diff:
        diff["disabled"] = [one for one in diff["disabled"] if (entry.provider_id, one["model_id"]) not in claims]
    if "failover_disabled_groups" in diff:
        off = diff["failover_disabled_groups"]
        diff["failover_disabled_groups"] = [one for one in off if one["display_model"] not in groups]
    return {section: items for section, items in diff.items() if items}


def _moved(owner: str, model: Mapping[str, Any], same: Collection[_Field]) -> Mapping[str, Any] | None:
    changes = [one for one in model["changes"] if (owner, model["model_id"], one["field"]) not in same]
    if len(changes) == len(model["changes"]):
        return model
    return {**model, "changes": changes} if changes else None
