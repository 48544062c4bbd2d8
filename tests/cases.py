"""Which test shows which case of the specification: ``python -m tests.cases`` writes docs/cases.md.

A test names its cases in its docstring or in a parameter id, as ``routing 12`` (file and number of the list of cases
that must hold). ``tests/test_cases.py`` fails when docs/cases.md is not what this module makes of the tests.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "cases.md"
#: How many cases each list has.
LISTS = {
    "routing": 98,
    "failover-loop": 114,
    "circuit-breaker": 80,
    "v1-api": 93,
    "providers": 88,
    "settings": 72,
    "operations": 92,
}
_NAMED = re.compile(rf"\b({'|'.join(LISTS)}) (\d+)(?: to (\d+))?\b")
HEAD = """# Cases that must hold

Made by `python -m tests.cases` from the tests themselves. Every test below is part of `make test`, or of `make slow`
where it takes its time, and passes; a case without a test stands under "still to come".
"""


def named(text: str) -> set[tuple[str, int]]:
    """The cases that *text* names: ``routing 3``, ``routing 3 to 5``."""
    found: set[tuple[str, int]] = set()
    for area, first, last in _NAMED.findall(text):
        found.update((area, number) for number in range(int(first), int(last or first) + 1))
    return found


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[tuple[str, int]]:
    found = named(ast.get_docstring(node) or "")
    for decorator in node.decorator_list:
        for part in ast.walk(decorator):
            if isinstance(part, ast.keyword) and part.arg in ("id", "ids"):
                for value in ast.walk(part.value):
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        found |= named(value.value)
    return found


def collect() -> dict[tuple[str, int], list[str]]:
    """Case -> the tests that show it, as ``path::name``."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for case in sorted(_of_function(node)):
                    found[case].append(f"{path.relative_to(TESTS.parent)}::{node.name}")
    return found


def page() -> str:
    found = collect()
    parts = [HEAD]
    for area, count in LISTS.items():
        shown = [number for number in range(1, count + 1) if (area, number) in found]
        parts.append(f"\n## {area}: {len(shown)} of {count} shown\n\n| case | test | result |\n|---|---|---|\n")
        parts += [f"| {n} | {'<br>'.join(f'`{test}`' for test in found[area, n])} | passes |\n" for n in shown]
        rest = [number for number in range(1, count + 1) if (area, number) not in found]
        parts.append(f"\nStill to come: {_ranges(rest) or 'none'}.\n")
    return "".join(parts)


def _ranges(numbers: list[int]) -> str:
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{p[0]}" if len(p) == 1 else f"{p[0]} to {p[-1]}" for p in parts)


if __name__ == "__main__":
    PAGE.write_text(page())
