"""``manage.py discover_models [--provider NAME] [--json]``: a manual scan, with a line per provider as it answers.

Same code as the API; works while the server runs and while it is down. Exit code 1 when some provider failed.
"""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from providers.discovery import modelsdev
from providers.discovery.scan import SCANNER, Result, combined
from providers.models import Provider

#: Sections of a diff, and what the line calls them.
_COUNTED = {"added": "new", "reenabled": "back", "updated": "changed"}


class Command(BaseCommand):
    help = "Ask providers for their models now, as the Discover button does."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--provider", metavar="NAME", default="", help="ask this provider alone")
        parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        names = [_named(options["provider"]).name] if options["provider"] else []
        modelsdev.load()
        results = SCANNER.every(names, tell=(lambda result: None) if options["json"] else self._progress)
        if options["json"]:
            self.stdout.write(json.dumps(combined(results), ensure_ascii=False))
        elif not results:
            self.stdout.write("No provider takes part in discovery.")
        if any(result.error for result in results):
            sys.exit(1)

    def _progress(self, result: Result) -> None:
        self.stdout.write(line(result))
        self.stdout.flush()


def line(result: Result) -> str:
    """What one provider's scan came to."""
    if result.error:
        return f"{result.provider}: failed: {result.error}"
    counts = [f"{len(result.diff[section])} {word}" for section, word in _COUNTED.items() if section in result.diff]
    number = len(result.rows)
    found = f"{result.provider}: {number} {'model' if number == 1 else 'models'}"
    return f"{found} ({', '.join(counts)})" if counts else found


def _named(name: str) -> Provider:
    """By exact name, else by routing form. Raises CommandError."""
    rows = list(Provider.objects.all())
    row = next((row for row in rows if row.name == name), None) or next(
        (row for row in rows if row.routing_name == name), None
    )
    if row is None:
        raise CommandError(f"provider not found: {name}")
    if not row.enabled:
        raise CommandError(f"provider is disabled: {row.name}")
    if not row.autodiscovery_enabled:
        raise CommandError(f"autodiscovery is disabled for this provider: {row.name}")
    return row
