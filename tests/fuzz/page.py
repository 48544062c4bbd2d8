"""The table of results in docs/fuzzing.md."""

import re
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.engine import Outcome
from tests.fuzz.registry import TARGETS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fuzzing.md"
_ROW = re.compile(r"^\| `([a-z_.]+)` \| ([0-9,]+) \| ([0-9,]+) \| ([0-9]+) \| ([0-9,]+) \|\n", re.MULTILINE)
_RULE = "|---|---|---|---|---|\n"


class Row(NamedTuple):
    """*seconds* of CPU time and findings still *open* belong to *inputs*; *guided*: inputs that atheris made."""

    inputs: int = 0
    seconds: int = 0
    open: int = 0
    guided: int = 0


def rows(text: str) -> dict[str, Row]:
    """What the page says of each target."""
    return {name: Row(*(int(word.replace(",", "")) for word in words)) for name, *words in _ROW.findall(text)}


def write(outcome: Outcome) -> None:
    """Put what became of one target there."""
    made = {"inputs": outcome.inputs, "seconds": round(outcome.seconds), "open": len(outcome.findings)}
    _change(outcome.target, made)


def write_guided(name: str, inputs: int) -> None:
    """The same for a run of atheris without a finding."""
    _change(name, {"guided": inputs})


def _change(name: str, made: dict[str, int]) -> None:
    text = PAGE.read_text()
    known = rows(text)
    known[name] = known.get(name, Row())._replace(**made)
    found = [(name, known[name]) for name in TARGETS if name in known]
    table = "".join(f"| `{name}` | {r.inputs:,} | {r.seconds:,} | {r.open} | {r.guided:,} |\n" for name, r in found)
    head, rule, rest = text.partition(_RULE)
    PAGE.write_text(head + rule + table + _ROW.sub("", rest))
