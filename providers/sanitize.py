"""Error texts of providers, made fit to keep: no key, no key-shaped token, no account id, a limited length."""

from collections.abc import Iterable

from modelhotel.core import redact
from modelhotel.core.text import clip, one_line, without_uuids

RETRY_CHARACTERS = 200
DISCOVERY_CHARACTERS = 2000
TEST_CHARACTERS = 10_000
MASK = "[REDACTED]"


def clean(body: bytes | str, limit: int, keys: Iterable[str] = ()) -> str:
    """One line of at most *limit* characters. Masked before it is cut, so that no half of a key survives."""
    given = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    masked = redact.error_text(given, redact.known_keys(keys)).replace(redact.MASK, MASK)
    return clip(one_line(without_uuids(masked)), limit)
