"""Whether a newer release exists: asked of ``RELEASES_URL``, never told when that fails."""

import logging
import re
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from modelhotel.core import environment, version
from modelhotel.core.text import clip
from providers import control
from providers.upstream.interface import UpstreamError

SECONDS, LIMIT = 5.0, 256 * 1024
_NUMBER = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){0,3})(?:[-+.].*)?")
log = logging.getLogger("releases")


@dataclass(frozen=True, slots=True)
class Release:
    """*latest* and *url* are None where nobody could tell."""

    current: str
    latest: str | None = None
    url: str | None = None
    newer: bool = False

    def answer(self) -> dict[str, object]:
        return asdict(self)


def numbers(text: str) -> tuple[int, ...] | None:
    """``v1.2.3-rc1`` -> (1, 2, 3); None for what is no version. Pure."""
    found = _NUMBER.fullmatch(text.strip())
    return tuple(int(part) for part in found[1].split(".")) if found else None


def read(body: bytes, current: str) -> Release:
    """The answer of a releases page in GitHub's form: ``tag_name``, ``html_url``. Pure; never raises."""
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Release(current)
    tag = found.get("tag_name") if isinstance(found, dict) else None
    latest = numbers(tag) if isinstance(tag, str) else None
    if latest is None or not isinstance(tag, str):
        return Release(current)
    link = found.get("html_url")
    url = link if isinstance(link, str) and link.startswith("https://") and len(link) <= 500 else None
    return Release(current, clip(tag.strip().removeprefix("v"), 50), url, latest > (numbers(current) or ()))


def latest() -> Release:
    """Blocking, a few seconds at most; every dial goes through the egress guard. Never raises."""
    address, current = environment.current().releases_url, version.VERSION
    if not address:
        return Release(current)
    headers = [(b"accept", b"application/json"), (b"user-agent", f"model-hotel/{current}".encode())]
    try:
        answer = control.LOOP.run(_ask(address, headers))
    except (UpstreamError, OSError, ValueError) as problem:
        log.debug("releases: no answer", extra={"attrs": {"problem": type(problem).__name__}})
        return Release(current)
    return read(answer.body, current) if answer.status == 200 else Release(current)


async def _ask(address: str, headers: list[control.Header]) -> control.Answer:
    return await control.exchange(control.client(), "GET", address, headers, seconds=SECONDS, limit=LIMIT)
