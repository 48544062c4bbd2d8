"""The tables of the bench, from what one run found. Pure.

The shape: ``runs`` is a list of {side, load, round, rate, chunks, p50, p99, first50, cpu, seconds, bad, ...};
``ready`` maps a side to seconds, ``rss`` to a list of megabytes (the first one before any load); ``starts`` are
seconds; ``big`` and ``workers`` are what :mod:`tests.bench.special` and :mod:`tests.bench.workers` return. What was not
measured is missing, and shown as ``-``.
"""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

BEGIN = "<!-- bench: made by python -m tests.bench.full --write -->"
END = "<!-- end of bench -->"
HOTEL = "Model Hotel"
SIDES = ("direct", "nginx", "floor", HOTEL, "Portkey", "LiteLLM")
Found = dict[str, Any]


def _runs(found: Found, side: str, load: str) -> list[Found]:
    return [run for run in found["runs"] if run["side"] == side and run["load"] == load]


def _median(values: Iterable[float]) -> float | None:
    there = list(values)
    return statistics.median(there) if there else None


def wrong(run: Found) -> int:
    return int(run["bad"] + run["failures"] + run["cut"])


# -- figures of one run -----------------------------------------------------------------------------------------------


def rate(run: Found) -> float:
    return float(run["rate"])


def chunks(run: Found) -> float:
    return float(run["chunks"])


def p50(run: Found) -> float:
    return float(run["p50"])


def p99(run: Found) -> float:
    return float(run["p99"])


def first(run: Found) -> float:
    return float(run["first50"])


def per_answer(run: Found) -> float:
    """Microseconds of CPU."""
    return float(run["cpu"] * 1e6 / max(1.0, run["rate"] * run["seconds"]))


def per_chunk(run: Found) -> float:
    """Microseconds of CPU."""
    return float(run["cpu"] * 1e6 / max(1.0, run["chunks"] * run["seconds"]))


# -- targets ----------------------------------------------------------------------------------------------------------


def ratio(found: Found, load: str, what: Callable[[Found], float], other: str) -> float | None:
    """The median over the rounds that both had of Model Hotel by *other*."""
    return _paired(found, load, what, other, lambda ours, theirs: ours / theirs if theirs else None)


def _paired(
    found: Found, load: str, what: Callable[[Found], float], other: str, of: Callable[[float, float], float | None]
) -> float | None:
    theirs = {run["round"]: what(run) for run in _runs(found, other, load)}
    pairs = [(what(run), theirs[run["round"]]) for run in _runs(found, HOTEL, load) if run["round"] in theirs]
    return _median(value for value in (of(*pair) for pair in pairs) if value is not None)


def _above(found: Found) -> float | None:
    return _paired(found, "plain-1", p50, "nginx", lambda ours, theirs: ours - theirs)


def _translated(found: Found) -> float | None:
    """Chunks per second of translated streams by those of plain ones, paired by round."""
    plain = {run["round"]: chunks(run) for run in _runs(found, HOTEL, "stream-16")}
    pairs = [(chunks(run), plain.get(run["round"])) for run in _runs(found, HOTEL, "translated")]
    return _median(ours / theirs for ours, theirs in pairs if theirs)


def largest_rss(found: Found, side: str = HOTEL) -> float | None:
    return max(found["rss"].get(side, [None]))


def layout_rates(found: Found) -> dict[str, float]:
    """Layout -> median of requests per second, in the order they were measured in."""
    runs = found.get("workers", [])
    names = dict.fromkeys(run["layout"] for run in runs)
    return {name: statistics.median(run["rate"] for run in runs if run["layout"] == name) for name in names}


def _scaling(found: Found) -> float | None:
    """The last layout (two workers) by the first (one), paired by round."""
    names = list(layout_rates(found))
    if not names:
        return None
    rates = {(run["layout"], run["round"]): run["rate"] for run in found["workers"]}
    rounds = {number for _, number in rates}
    return _median(rates[names[-1], number] / rates[names[0], number] for number in rounds)


@dataclass(frozen=True)
class Target:
    text: str
    value: Callable[[Found], float | None]
    limit: float
    at_least: bool
    unit: str = ""

    def met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


TARGETS = (
    Target("requests/s at 16 clients, of nginx", lambda f: ratio(f, "plain-16", rate, "nginx"), 0.08, True),
    Target("requests/s at 16 clients, times Portkey", lambda f: ratio(f, "plain-16", rate, "Portkey"), 6, True),
    Target("requests/s at 16 clients, times LiteLLM", lambda f: ratio(f, "plain-16", rate, "LiteLLM"), 60, True),
    Target("100 KB bodies per second, of nginx", lambda f: ratio(f, "body-16", rate, "nginx"), 0.12, True),
    Target("chunks/s at 16 streams, of nginx", lambda f: ratio(f, "stream-16", chunks, "nginx"), 0.8, True),
    Target("chunks/s of translated streams, of plain ones", _translated, 0.33, True),
    Target("CPU per paced chunk, times nginx", lambda f: ratio(f, "paced-200", per_chunk, "nginx"), 3, False),
    Target("p50 at one client, above nginx's", _above, 0.3, False, " ms"),
    Target("p99 with two dashboards reloading", lambda f: _of(f, HOTEL, "dashboards", p99), 20, False, " ms"),
    Target("largest RSS", largest_rss, 150, False, " MB"),
    Target("ready on a migrated database after", lambda f: _median(f.get("starts", [])), 3, False, " s"),
    Target("two workers, times one", _scaling, 1.7, True),
)


def fine(found: Found) -> bool:
    """Every target that was measured is met, and the product answered everything as it should."""
    values = [(target, target.value(found)) for target in TARGETS]
    ours = [run for run in found["runs"] if run["side"] == HOTEL]
    ours += [run for name in ("full", "fresh") for run in found.get("big", {}).get(name, [])] + found.get("workers", [])
    return all(target.met(value) for target, value in values if value is not None) and not any(map(wrong, ours))


# -- tables -----------------------------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    if value is None or value < 0:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _of(found: Found, side: str, load: str, what: Callable[[Found], float]) -> float | None:
    return _median(what(run) for run in _runs(found, side, load))


def _table(head: list[str], lines: Iterable[list[str]]) -> list[str]:
    shown = [head, ["---"] * len(head), *lines]
    return ["| " + " | ".join(line) + " |" for line in shown]


ROWS: tuple[tuple[str, str, Callable[[Found], float]], ...] = (
    ("requests/s, 1 client", "plain-1", rate),
    ("requests/s, 16 clients", "plain-16", rate),
    ("requests/s, 64 clients", "plain-64", rate),
    ("p50 at 1 client, ms", "plain-1", p50),
    ("p50 at 16, ms", "plain-16", p50),
    ("p99 at 16, ms", "plain-16", p99),
    ("CPU per request at 16, µs", "plain-16", per_answer),
    ("requests/s, 16 clients, 100 KB bodies", "body-16", rate),
    ("chunks/s, 1 stream", "stream-1", chunks),
    ("chunks/s, 16 streams", "stream-16", chunks),
    ("first chunk at 1 stream, p50, ms", "stream-1", first),
    ("200 paced streams, chunks/s (10,000 offered)", "paced-200", chunks),
    ("CPU per chunk of 200, µs", "paced-200", per_chunk),
    ("500 paced streams, chunks/s (25,000 offered)", "paced-500", chunks),
    ("CPU per chunk of 500, µs", "paced-500", per_chunk),
)


def _sides(found: Found) -> list[str]:
    present = {run["side"] for run in found["runs"]}
    return [name for name in SIDES if name in present]


def _main(found: Found) -> list[str]:
    sides = _sides(found)

    def rss(side: str, at_start: bool) -> str:
        seen = found["rss"].get(side) if side != "direct" else None
        return number((seen[0] if at_start else max(seen)) if seen else None)

    def cpu_of_mock(side: str, what: Callable[[Found], float]) -> bool:
        return side == "direct" and what in (per_answer, per_chunk)

    lines = [
        [text, *("-" if cpu_of_mock(side, what) else number(_of(found, side, load, what)) for side in sides)]
        for text, load, what in ROWS
    ]
    lines.append(["RSS after the first load, MB", *(rss(side, True) for side in sides)])
    lines.append(["largest RSS, MB", *(rss(side, False) for side in sides)])
    lines.append(["start to first answer, s", *(number(found["ready"].get(side)) for side in sides)])
    faults = {side: sum(wrong(run) for run in found["runs"] if run["side"] == side) for side in sides}
    lines.append(["answers wrong or not finished", *(str(faults[side]) for side in sides)])
    versions = found["versions"]
    return _table(["", *(f"{side} {versions.get(side, '')}".strip() for side in sides)], lines)


def _own(found: Found) -> list[str]:
    """The rows that only the product has, beside the same load without them."""

    def line(text: str, runs: list[Found], rss: float | None) -> list[str]:
        return [text, *(number(_median(what(run) for run in runs)) for what in (rate, p50, p99)), number(rss)]

    pages = _runs(found, HOTEL, "dashboards")
    lines = [line("alone", _runs(found, HOTEL, "plain-16"), largest_rss(found))]
    if pages:
        lines.append(line("two dashboards open and reloading", pages, None))
    if big := found.get("big"):
        lines.append(line(f"{big['models']:,} models and {big['rows']:,} log rows", big["full"], big["rss"]))
        lines.append(line("fresh, in the same minutes", big["fresh"], None))
    runs = found.get("workers", [])
    for name in layout_rates(found):
        same = [run for run in runs if run["layout"] == name]
        lines.append(line(f"{name}, 64 clients, PostgreSQL", same, max(run["rss"] for run in same)))
    return _table([f"{HOTEL}, 16 clients", "requests/s", "p50, ms", "p99, ms", "RSS, MB"], lines)


def _notes(found: Found) -> list[str]:
    notes = []
    if pages := _runs(found, HOTEL, "dashboards"):
        typical, worst = statistics.median(r["page_ms"] for r in pages), max(r["page_max_ms"] for r in pages)
        notes.append(f"- A page load beside 16 clients took {typical:.0f} ms (median), {worst:.0f} ms at most.")
    if big := found.get("big"):
        shown = ", ".join(f"`{path}` {ms['median']:.0f} ({ms['first']:.0f})" for path, ms in big["pages"].items())
        notes.append(f"- With {big['models']:,} models and {big['rows']:,} rows: ready after {big['ready_s']:.2f} s.")
        notes.append(f"- Its first byte in ms, median (first time): {shown}.")
    if found.get("workers"):
        rates = list(layout_rates(found).values())
        cpu = _cpu_scaling(found)
        notes.append(
            f"- Two workers by one that has the same cores: {rates[-1] / rates[1]:.2f}; requests per CPU second of the "
            f"workers, two by one: {cpu:.2f}."
        )
    if runs := _runs(found, HOTEL, "translated"):
        per_second, cpu = (statistics.median(what(run) for run in runs) for what in (chunks, per_chunk))
        notes.append(
            f"- Translated streams (a client of chat completions, a provider of Anthropic's Messages, 16 streams): "
            f"{per_second:,.0f} chunks/s, {cpu:.1f} µs of CPU each."
        )
    for name, why in found["left_out"].items():
        notes.append(f"- **Left out**: {name}, {why}.")
    return notes


def _cpu_scaling(found: Found) -> float:
    """What a second worker costs the first: 1 = nothing."""
    names = list(layout_rates(found))
    last, start = (
        statistics.median(1 / per_answer(run) for run in found["workers"] if run["layout"] == names[at])
        for at in (-1, 0)
    )
    return last / start


def _targets(found: Found) -> list[str]:
    lines = []
    for target in TARGETS:
        value = target.value(found)
        sign = "at least" if target.at_least else "at most"
        if value is None:
            verdict, shown = "not measured", "-"
        else:
            verdict, shown = "met" if target.met(value) else "**MISSED**", f"{value:.2f}{target.unit}"
        lines.append([target.text, f"{sign} {target.limit:g}{target.unit}", shown, verdict])
    return _table(["target", "limit", "this run", ""], lines)


def markdown(found: Found) -> str:
    about = found["machine"]
    took = found["took_s"] / 60
    head = (
        f"`{found['command']}` of {found['at']} UTC, {took:.0f} minutes on {about['cores']} cores of {about['cpu']} "
        f"(load before it {about['load_before']:.1f}), Linux {about['kernel']}, Python {about['python']}. Medians of "
        f"{found['rounds']} {'round' if found['rounds'] == 1 else 'rounds'}."
    )
    parts = [[head], _targets(found)]
    if found["runs"]:
        parts.append(_main(found))
    parts += [_own(found), _notes(found)]
    return "\n\n".join("\n".join(part) for part in parts if part)


def replaced(page: str, text: str) -> str:
    """*page* with *text* between the two marks. Raises ValueError when it has none."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"the page lacks {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"
