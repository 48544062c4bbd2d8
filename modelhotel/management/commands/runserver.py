"""``manage.py runserver``: the same product under daphne, with Django's reloader, for development."""

from typing import Any

from daphne.management.commands.runserver import Command as Daphne
from django.conf import settings


class Command(Daphne):  # type: ignore[misc]
    help = "Run the gateway under daphne with autoreload (development); see serve."

    def handle(self, *args: Any, **options: Any) -> None:
        if not options.get("addrport"):
            host = settings.MH.host
            options["addrport"] = f"{f'[{host}]' if ':' in host else host}:{settings.MH.port}"
        super().handle(*args, **options)

    def check_migrations(self) -> None:
        """The start sequence applies them."""
