"""Deletion by age from the dashboard: the same four buttons over each log, each asks first."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest

from modelhotel.core.verbadmin import Button, VerbAdmin, many

AGES = (
    ("older-than-day", "1d", "older than a day"),
    ("older-than-week", "1w", "older than a week"),
    ("older-than-month", "1m", "older than a month"),
    ("everything", "all", "everything"),
)


def buttons(noun: str, warning: list[str], purge: Callable[[str], int]) -> tuple[Button, ...]:
    """*purge* takes one of ``1d``, ``1w``, ``1m``, ``all``, returns how many *noun* it deleted, and raises Refusal."""
    return tuple(_button(name, older_than, words, noun, warning, purge) for name, older_than, words in AGES)


def _button(
    name: str, older_than: str, words: str, noun: str, warning: list[str], purge: Callable[[str], int]
) -> Button:
    def run(page: VerbAdmin[Any], request: HttpRequest, obj: Any) -> None:
        page.message_user(request, f"{many(purge(older_than), noun)} deleted.", messages.SUCCESS)

    return Button(name, f"Delete {words}", run, "delete", lambda obj: warning)
