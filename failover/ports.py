"""What this floor needs from above; the shell fills it in (``modelhotel/wiring.py``)."""

from collections.abc import Callable, Mapping
from datetime import datetime

#: Reads and writes an internal row of the settings table. Both raise what the database raises.
load_note: Callable[[str], str | None] = lambda key: None  # noqa: E731
store_note: Callable[[str, str], None] = lambda key, value: None  # noqa: E731
#: Tokens (prompt + completion) of the request log since an instant, by lowercased requested name.
requested_tokens: Callable[[datetime], Mapping[str, int]] = lambda since: {}  # noqa: E731


def configure(
    *,
    load: Callable[[str], str | None],
    store: Callable[[str, str], None],
    tokens: Callable[[datetime], Mapping[str, int]],
) -> None:
    global load_note, store_note, requested_tokens
    load_note, store_note, requested_tokens = load, store, tokens
