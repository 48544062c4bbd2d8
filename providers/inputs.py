"""What the fields of a provider or model may hold, and the words that refuse the rest. Pure."""

import math
import unicodedata
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from modelhotel.core import durations
from modelhotel.core.faults import Refusal
from modelhotel.core.text import is_name

NAME_MAX = 100
URL_MAX = 500
KEY_MAX = 500
IN_FLIGHT_MAX = 10_000
RESERVES = frozenset(range(0, 100, 10))
DISPLAY_NAME_MAX = 128
CONTEXT_RANGE = (256, 2_000_000)
OUTPUT_RANGE = (1, 128_000)
PRICE_RANGE = (0.0, 1000.0)
TAKEN = "a provider with this name already exists"
TAKEN_FORM = TAKEN + " (names must differ in more than spaces and hyphens)"
KEY_REQUIRED = "api_key is required for this provider type"


def refuse(field: str, text: str, status: int = 400) -> Refusal:
    return Refusal(status, text, field=field)


def name(given: str) -> str:
    """The trimmed name of a provider. Raises Refusal."""
    # Only ordinary blanks are trimmed: strip() alone would swallow what has to be refused.
    trimmed = given.strip(" ")
    if not 1 <= len(trimmed) <= NAME_MAX or "/" in trimmed or not is_name(trimmed):
        raise refuse("name", "invalid name")
    if trimmed.lower() == "hotel":
        raise refuse("name", 'name "hotel" is reserved')
    return trimmed


def routing_form(text: str) -> str:
    return text.replace(" ", "-")


def taken(wanted: str, existing: str) -> Refusal:
    return refuse("name", TAKEN if wanted == existing else TAKEN_FORM, 409)


def _is_control(ch: str) -> bool:
    return unicodedata.category(ch) == "Cc"


def trim_key(given: str) -> str:
    """Without white space and control characters at both ends."""
    start, end = 0, len(given)
    while start < end and (given[start].isspace() or _is_control(given[start])):
        start += 1
    while end > start and (given[end - 1].isspace() or _is_control(given[end - 1])):
        end -= 1
    return given[start:end]


def key(trimmed: str, too_long: str) -> str:
    """*trimmed* when it can be an API key. Raises Refusal."""
    if len(trimmed) > KEY_MAX:
        raise refuse("api_key", too_long)
    if any(_is_control(ch) for ch in trimmed):
        raise refuse("api_key", "api_key must not contain control characters")
    return trimmed


def max_in_flight(value: int | None) -> int | None:
    if value is not None and not 1 <= value <= IN_FLIGHT_MAX:
        raise refuse("max_in_flight", "max_in_flight must be between 1 and 10000")
    return value


def reserve(value: int) -> int:
    if value not in RESERVES:
        raise refuse("quota_reserve_percent", "quota_reserve_percent must be 0 or a multiple of 10 up to 90")
    return value


def disable_on(value: str | None, today: date) -> date | None:
    """*today* is the server's. Raises Refusal."""
    if value is None:
        return None
    try:
        day = date.fromisoformat(value)
    except ValueError:
        day = None
    if day is None or day.isoformat() != value:  # fromisoformat takes week dates and more
        raise refuse("scheduled_disable_on", "invalid scheduled_disable_on")
    if day < today:
        raise refuse("scheduled_disable_on", "scheduled_disable_on must not be in the past")
    return day


def slow_call(value: str | None) -> str | None:
    """A duration in its canonical form; ``0s`` = off for this provider, None = the setting decides."""
    if value is None:
        return None
    try:
        seconds = durations.parse(value.strip())
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400 * 365:
        text = "circuit_breaker_slow_call_threshold must be a duration such as 30s or 1m0s"
        raise refuse("circuit_breaker_slow_call_threshold", text)
    return durations.canonical(seconds)


def address(base_url: str) -> tuple[str, str, int | None, str]:
    """What makes two self-hosted addresses the same: scheme, host, port, path without ``/v1`` and slashes."""
    try:
        parts = urlsplit(base_url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", base_url, None, ""
    path = parts.path.rstrip("/")
    if path.lower().endswith("/v1"):
        path = path[:-3]
    return parts.scheme, (parts.hostname or "").lower(), port, path.rstrip("/")


def _number(value: Any, low: float, high: float) -> bool:
    return math.isfinite(value) and low <= value <= high


_MODEL_NUMBERS = {
    "context_length": (CONTEXT_RANGE, "invalid context length"),
    "max_output_tokens": (OUTPUT_RANGE, "invalid max output_tokens"),
    "input_price_per_million": (PRICE_RANGE, "invalid input price"),
    "input_price_per_million_cache_hit": (PRICE_RANGE, "invalid cached input price"),
    "output_price_per_million": (PRICE_RANGE, "invalid output price"),
    "search_price_per_thousand": (PRICE_RANGE, "invalid search price"),
}
MODEL_FIELDS = ("display_name", *_MODEL_NUMBERS, "price_customized", "enabled")


def model_changes(given: dict[str, Any]) -> dict[str, Any]:
    """The members of *given* that a model edit may hold, checked. Raises Refusal."""
    found = {field: given[field] for field in MODEL_FIELDS if field in given}
    if not found:
        raise Refusal(400, "no fields to update")
    if "display_name" in found:
        found["display_name"] = found["display_name"].strip(" ")
        if len(found["display_name"]) > DISPLAY_NAME_MAX or not is_name(found["display_name"]):
            raise refuse("display_name", "invalid display name")
    for field, ((low, high), text) in _MODEL_NUMBERS.items():
        if field in found and not _number(found[field], low, high):
            raise refuse(field, text)
    return found
