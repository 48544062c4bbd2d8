"""How long the tables of routing take to be built anew from the database in DATA_DIR: a line of JSON, milliseconds."""

import json
import os
import time

os.environ["DJANGO_SETTINGS_MODULE"] = "modelhotel.settings"

import django

django.setup()

from failover import table  # noqa: E402
from providers import cache  # noqa: E402

TIMES = 9


def main() -> None:
    told: dict[str, list[float]] = {"wall_ms": [], "cpu_ms": []}
    for _ in range(TIMES):
        wall, spent = time.perf_counter(), time.thread_time()
        cache.SNAPSHOT.refresh()
        table.SNAPSHOT.refresh()
        told["wall_ms"].append((time.perf_counter() - wall) * 1000)
        told["cpu_ms"].append((time.thread_time() - spent) * 1000)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
