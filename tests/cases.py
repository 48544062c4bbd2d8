"""Which test shows which case of the specification: ``python -m tests.cases`` writes docs/cases.md.

A test names its cases in its docstring or in a parameter id, as ``routing 12``, ``providers 3 to 5`` or
``failover-loop 26a`` (file and number of the list of cases that must hold). Tests that name one case show all of it
together; ``part of routing 96`` says that something of it is not shown by anyone yet. ``tests/test_cases.py`` fails
when docs/cases.md is not what this module makes of the tests.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "cases.md"
#: How many numbered cases each list has, and those with a letter, which stand between them.
LISTS = {
    "routing": (98, "25a 69a 70a 80a 88a"),
    "failover-loop": (114, "9a 26a 57a 67a"),
    "circuit-breaker": (80, "28a 28b 47a 68a 68b 74a 76a"),
    "v1-api": (93, "44a 69a 69b 69c 93a"),
    "providers": (88, "22a"),
    "settings": (72, "33a 33b 33c 34a 34b 65a 65b 65c 65d 65e 65f 65g"),
    "operations": (92, "15a 41a 55a 55b 61a 61b 85a 86a 87a 87b"),
}
_NAMED = re.compile(rf"\b([Pp]art of )?({'|'.join(LISTS)}) (\d+[a-z]?)(?: to (\d+))?(?!\w|\.\d)")
HEAD = """# Cases that must hold

Made by `python -m tests.cases` from the tests themselves. Every test below is part of `make test`, or of `make slow`
where it takes its time, and passes; a case without a test stands under "still to come", as does the rest of a case
that is shown in part.
"""

Case = tuple[str, str]


class Shown(NamedTuple):
    """The tests of one case, as ``path::name``; *whole*: together they show all of it."""

    tests: list[str]
    whole: bool


def in_order(area: str) -> list[str]:
    """All cases of a list as they stand there."""
    count, lettered = LISTS[area]
    every = [str(number) for number in range(1, count + 1)] + lettered.split()
    return sorted(every, key=lambda case: (int(case.rstrip("abcdefg")), case))


def named(text: str) -> dict[Case, bool]:
    """The cases that *text* names, and whether it claims the whole of each."""
    found: dict[Case, bool] = {}
    for part, area, first, last in _NAMED.findall(text):
        numbers = [str(n) for n in range(int(first), int(last) + 1)] if last else [first]
        found.update(((area, number), not part) for number in numbers)
    return found


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[Case, bool]:
    found = named(ast.get_docstring(node) or "")
    for decorator in node.decorator_list:
        for part in ast.walk(decorator):
            if isinstance(part, ast.keyword) and part.arg in ("id", "ids"):
                for value in ast.walk(part.value):
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        found |= named(value.value)
    return found


def collect() -> dict[Case, Shown]:
    """Case -> the tests that show it."""
    tests: dict[Case, list[str]] = defaultdict(list)
    whole: set[Case] = set()
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for case, all_of_it in sorted(_of_function(node).items()):
                    tests[case].append(f"{path.relative_to(TESTS.parent)}::{node.name}")
                    if all_of_it:
                        whole.add(case)
    return {case: Shown(names, case in whole) for case, names in tests.items()}


def page() -> str:
    found = collect()
    parts = [HEAD]
    for area in LISTS:
        cases = in_order(area)
        shown = {case: found[area, case] for case in cases if (area, case) in found}
        whole = [case for case, one in shown.items() if one.whole]
        partly = [case for case in shown if case not in whole]
        count = f", {len(partly)} in part" if partly else ""
        parts.append(f"\n## {area}: {len(whole)} of {len(cases)} shown{count}\n")
        parts.append("\n| case | test | result |\n|---|---|---|\n")
        for case, one in shown.items():
            tests = "<br>".join(f"`{test}`" for test in one.tests)
            parts.append(f"| {case} | {tests} | {'passes' if one.whole else 'passes, shown in part'} |\n")
        rest = [_ranges([at for at, case in enumerate(cases) if case not in shown], cases)]
        rest += [f"the rest of {', '.join(partly)}"] if partly else []
        parts.append(f"\nStill to come: {'; '.join(filter(None, rest)) or 'none'}.\n")
    return "".join(parts)


def _ranges(positions: list[int], cases: list[str]) -> str:
    runs: list[list[int]] = []
    for at in positions:
        if runs and runs[-1][-1] == at - 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    return ", ".join(cases[r[0]] if len(r) == 1 else f"{cases[r[0]]} to {cases[r[-1]]}" for r in runs)


if __name__ == "__main__":
    PAGE.write_text(page())
