"""``manage.py reset_admin_token``: a new admin token, printed once; the old one stops working everywhere."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from modelhotel.ops import banner, credentials


class Command(BaseCommand):
    help = "Replace the admin token and print the new one once (not while ADMIN_TOKEN fixes it)."

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.MH.admin_token:
            raise CommandError("ADMIN_TOKEN fixes the admin token: change or unset the variable, then start again")
        token = credentials.new_token()
        self.stdout.write(banner.box(banner.TOKEN_TITLE, [f"Admin token:  {token}"]))
