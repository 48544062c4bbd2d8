"""What this is: the version, and the commit it was built from."""

import os
import re
from functools import cache
from pathlib import Path

VERSION = "0.1.0"
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_SHORT = 7
_ROOT = Path(__file__).resolve().parents[2]


@cache
def commit() -> str:
    """The short commit id: ``APP_COMMIT`` of the image, else what the checkout says, else ``unknown``."""
    return _short(os.environ.get("APP_COMMIT", "")) or _short(_checked_out(_ROOT / ".git")) or "unknown"


def _short(text: str) -> str:
    return text.strip()[:_SHORT] if _COMMIT.fullmatch(text.strip()) else ""


def _checked_out(git: Path) -> str:
    try:
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head
        ref = head.removeprefix("ref: ")
        if (git / ref).is_file():
            return (git / ref).read_text()
        packed = (git / "packed-refs").read_text().splitlines()
        return next((line.split()[0] for line in packed if line.endswith(" " + ref)), "")
    except OSError:
        return ""
