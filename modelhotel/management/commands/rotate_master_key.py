"""``manage.py rotate_master_key``: every stored secret from OLD_MASTER_KEY to MASTER_KEY."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from modelhotel.core.environment import BadEnvironment
from modelhotel.core.text import one_line
from modelhotel.ops import rotation


class Command(BaseCommand):
    help = (
        "Encrypt provider keys and secret settings anew under MASTER_KEY (or the key file). The key they are stored "
        "under now is read from OLD_MASTER_KEY."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="decrypt everything, say what would be, write nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        dry_run: bool = options["dry_run"]
        try:
            counts = rotation.rotate(rotation.keys_of(settings.MH), dry_run=dry_run)
        except BadEnvironment as problem:
            raise CommandError(str(problem)) from None
        except rotation.Unreadable as problem:
            raise CommandError(f"nothing was changed, OLD_MASTER_KEY does not decrypt: {problem}") from None
        except DatabaseError as problem:
            raise CommandError(f"nothing was changed, the database failed: {one_line(str(problem))}") from None
        done = "would be re-encrypted" if dry_run else "re-encrypted"
        for kind, count in counts.items():
            there = f", {count.there} already under the new key" if count.there else ""
            self.stdout.write(f"{kind}: {count.moved} {done}{there}")
        if not any(count.moved for count in counts.values()):
            self.stdout.write("nothing to do")
        elif not dry_run:
            self.stdout.write("restart every running process with the new MASTER_KEY")
