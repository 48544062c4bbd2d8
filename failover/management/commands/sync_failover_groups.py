"""``manage.py sync_failover_groups [--dry-run] [--json]``: one full sync of failover groups.

Same code and lock as the API; works while the server runs and while it is down. Exit code 1 when a base name could
not be synced or the sync failed.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from failover import grouping, naming, sync
from modelhotel.core.text import one_line


class Command(BaseCommand):
    help = "Bring failover groups in line with the models that providers offer."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="report what would change, write nothing")
        parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            result = sync.full(dry_run=options["dry_run"])
        except Exception as problem:
            if options["traceback"]:
                raise
            raise CommandError(f"failed to sync failover groups: {one_line(str(problem))}") from None
        if options["json"]:
            self.stdout.write(json.dumps(result.body(), ensure_ascii=False))
        else:
            for line in report(result):
                self.stdout.write(line)
        for base, text in result.errors:
            self.stderr.write(f"Sync error: {base}: {text}")
        if result.errors:
            sys.exit(1)


def report(result: sync.SyncResult) -> Iterator[str]:
    """The lines of the text output, in their fixed order."""
    if result.dry_run:
        yield "Dry run: no changes were written."
    yield f"Synced {result.auto_groups} failover groups."
    items = list(_items(result))
    yield from items or ["No changes."]


def _items(result: sync.SyncResult) -> Iterator[str]:
    for create in result.created:
        yield f"Created {naming.requested(create.name)} ({len(create.order)} members)"
    for step in result.refreshed:
        yield f"Updated {naming.requested(step.group.name)} (+{len(step.added)} -{len(step.removed)} members)"
    for gone in result.deleted:
        names = f" ({', '.join(gone.providers)})" if gone.providers else ""
        yield f"Deleted {naming.requested(gone.group.name)}: {gone.reason}{names}"
    for prune in result.pruned:
        yield f"Purged {naming.requested(prune.group.name)}: {len(prune.removed)} stale entries"
    for off in result.disabled:
        yield f"Disabled {naming.requested(off.group.name)}: {grouping.TOO_FEW} ({off.effective} routable)"
