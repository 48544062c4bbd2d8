"""Which services of the suite are there. ``python -m tests.services NAME`` exits 0 when NAME answers.

A suite whose service is missing is left out with one line that says so; with ``MH_REQUIRE_ALL=1`` it is an error.
"""

import os
import shutil
import socket
import sys

CHROMIUM = "/usr/bin/chromium"


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _postgres() -> bool:
    return _listens(5432)


def _redis() -> bool:
    return _listens(6379)


def _browser() -> bool:
    return os.access(CHROMIUM, os.X_OK)


def _compiler() -> bool:
    return shutil.which("gcc") is not None


def _node() -> bool:
    return shutil.which("node") is not None and shutil.which("npm") is not None


SERVICES = {
    "postgres": (_postgres, "PostgreSQL on 127.0.0.1:5432"),
    "redis": (_redis, "Redis on 127.0.0.1:6379"),
    "browser": (_browser, CHROMIUM),
    "compiler": (_compiler, "gcc and the C headers"),
    "node": (_node, "node and npm"),
}


def missing() -> dict[str, str]:
    """Name -> what is needed, of the services that do not answer."""
    return {name: what for name, (check, what) in SERVICES.items() if not check()}


if __name__ == "__main__":
    name = sys.argv[1]
    if name in missing():
        sys.exit(f"left out: the {name} suites need {SERVICES[name][1]}")
