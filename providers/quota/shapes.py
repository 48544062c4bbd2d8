"""The shape of a quota answer: which key paths it has, whatever their values, and whether it changed. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from modelhotel.core.text import clip, one_line

#: Levels that are looked into, paths that are kept, entries of a list that are looked at, characters of a name.
DEPTH, PATHS, ENTRIES, CHARACTERS = 6, 200, 1000, 100
#: Paths that an event names of each sort.
SHOWN = 10

Paths = tuple[str, ...]


def paths(answer: Any) -> Paths:
    """The sorted key paths (``data``, ``data.limits``, ``data.limits[]``, ``data.limits[].type``); none of what is no
    object or an empty one. Names are visited in their order, so that what is cut off stays the same."""
    found: set[str] = set()
    if isinstance(answer, Mapping):
        _walk(answer, "", 1, found)
    return tuple(sorted(found))


def together(each: Iterable[Paths], without: frozenset[str] = frozenset()) -> Paths:
    """The shape of several answers that make one reading."""
    return tuple(sorted({path for one in each for path in one} - without)[:PATHS])


def _walk(value: Any, path: str, depth: int, found: set[str]) -> None:
    if depth > DEPTH or len(found) >= PATHS:
        return
    inner: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        names = {_clean(name): name for name in value}
        inner = [(f"{path}.{name}" if path else name, value[names[name]]) for name in sorted(names)]
    elif isinstance(value, list):
        inner = [(f"{path}[]", entry) for entry in value[:ENTRIES]]
    for name, entry in inner:
        if len(found) < PATHS or name in found:
            found.add(name)
            _walk(entry, name, depth + 1, found)


def _clean(name: Any) -> str:
    """Foreign names end up in an event and in the log: one line, limited, without half a surrogate pair."""
    return clip(one_line(str(name)), CHARACTERS).encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class Change:
    """Sorted, at most :data:`SHOWN` of each."""

    added: list[str]
    removed: list[str]


def compare(note: str | None, seen: Paths) -> tuple[str | None, Change | None]:
    """What is kept from now on (None = as it is) and what changed, when a fetch brings *seen* after *note* was kept.

    The first shape is adopted without a word, and so is what follows a note that can not be read. A new shape counts
    when the very next fetch that can be read has it as well.
    """
    try:
        kept = json.loads(note) if note is not None else {}
        base, waiting = kept.get("shape"), kept.get("next")
    except (ValueError, AttributeError):
        base = waiting = None
    if not isinstance(base, list) or not all(isinstance(path, str) for path in base):
        return _note(seen), None
    if list(seen) == base:
        return (_note(seen) if waiting else None), None
    if waiting != list(seen):
        return _note(base, seen), None
    added, removed = sorted(set(seen) - set(base)), sorted(set(base) - set(seen))
    return _note(seen), Change(added[:SHOWN], removed[:SHOWN])


def _note(shape: Iterable[str], waiting: Iterable[str] = ()) -> str:
    kept = {"shape": list(shape)}
    return json.dumps({**kept, "next": list(waiting)} if waiting else kept)
