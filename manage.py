#!/usr/bin/env python
"""Command line of Model Hotel: serve, migrate, sync_failover_groups, ..."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "modelhotel.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
