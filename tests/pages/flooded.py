"""The product with a flood on its event bus: ``python -m tests.pages.flooded serve ...`` is ``manage.py serve ...``.

A flood begins when the file ``flood`` is put into DATA_DIR: EVENTS a second for SECONDS, half of them requests that
come and go, half messages for everybody. The file is called ``flooded`` when all of them are published.
"""

import os
import sys
import threading
import time
from pathlib import Path

EVENTS, SECONDS = 200, 10
TICK = 0.05


def _published(number: int) -> None:
    from modelhotel.core import events

    if number % 2:
        events.publish("discovery.enriched", "info", "discovery", f"message {number}", {"provider_name": f"P{number}"})
        return
    ended = number % 4 == 2
    facts = {
        "request_id": f"00000000-0000-7000-8000-{number - 2 if ended else number:012x}",
        "model_id": f"hotel/flood-{number % 7}",
        "provider_name": "Flood",
        "state": "completed" if ended else "pending",
        "streaming": False,
        "owner_user_id": None,
    }
    if ended:
        facts["status_code"] = 200
    events.publish(f"request.{'completed' if ended else 'started'}", "info", "proxy", f"request {number}", facts)


def _floods(home: Path) -> None:
    while True:
        while not (home / "flood").exists():
            time.sleep(TICK)
        began, done = time.monotonic(), 0
        while done < EVENTS * SECONDS:
            for number in range(done, min(EVENTS * SECONDS, int((time.monotonic() - began) * EVENTS))):
                _published(number)
                done = number + 1
            time.sleep(TICK)
        (home / "flood").rename(home / "flooded")


if __name__ == "__main__":
    from django.core.management import execute_from_command_line

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "modelhotel.settings")
    threading.Thread(target=_floods, args=(Path(os.environ["DATA_DIR"]),), daemon=True).start()
    execute_from_command_line(["manage.py", *sys.argv[1:]])
