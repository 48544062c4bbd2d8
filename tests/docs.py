"""``python -m tests.docs`` writes the settings table of docs/configuration.md from the catalogue."""

from pathlib import Path

from modelhotel.core import catalogue
from modelhotel.core.options import REGISTRY, show_duration

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
START, END = "<!-- settings: made by python -m tests.docs -->", "<!-- end of settings -->"


def _allowed(option) -> str:
    if option.choices:
        return ", ".join(f"`{word}`" for word in option.choices)
    if option.minimum is None and option.maximum is None:
        return ""
    if option.kind == "duration":
        return (
            f"{'above ' if option.positive else ''}{show_duration(option.minimum)} to {show_duration(option.maximum)}"
        )
    return f"{option.minimum:g} to {option.maximum:g}"


def table() -> str:
    lines = []
    for section in catalogue.SECTIONS:
        lines += [f"\n### {section}\n", "| key | kind | default | allowed | what it does |", "|---|---|---|---|---|"]
        for option in REGISTRY.options.values():
            if option.section == section:
                fixed = f" Fixed by `{option.env}`." if option.env else ""
                default = f"`{option.default}`" if option.default else "empty"
                lines.append(
                    f"| `{option.key}` | {option.kind} | {default} | {_allowed(option)} | {option.help}{fixed} |"
                )
    return "\n".join(lines) + "\n"


def page() -> str:
    text = PAGE.read_text()
    before, _, rest = text.partition(START)
    return before + START + "\n" + table() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
