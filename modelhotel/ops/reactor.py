"""The start hook under daphne, which has no lifespan: Twisted's reactor runs the start sequence before it serves."""

import logging
import os
import sys

from twisted.internet import reactor

from modelhotel.ops.faults import StartRefused
from modelhotel.ops.lifecycle import Lifecycle

log = logging.getLogger("serve")


def hook(lifecycle: Lifecycle) -> None:
    """Call while the application is being imported, before the reactor runs."""

    def start() -> None:
        # Blocks the reactor on purpose: nothing is accepted before the process is ready.
        try:
            lifecycle.start()
        except StartRefused as problem:
            sys.stderr.write(f"model hotel can not start: {problem}\n")
            _exit()
        except Exception:
            log.exception("serve: start failed")
            _exit()

    reactor.callWhenRunning(start)
    reactor.addSystemEventTrigger("during", "shutdown", lifecycle.stop)  # type: ignore[arg-type]


def _exit() -> None:
    """The reactor swallows SystemExit, and its own stop has no exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
