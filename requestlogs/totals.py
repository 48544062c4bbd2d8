"""Token totals over the request log, from the sums of ``rollup.py``: a month of rows is too much to look through."""

import time
from datetime import datetime

from requestlogs import rollup, stats
from requestlogs.statements import Window


def tokens_by_requested_name(since: datetime) -> dict[str, int]:
    """Prompt and completion tokens since *since*, by the requested name, lowercased.

    Lowercased here and not by the database: the two disagree outside of ASCII. Names without tokens (refused ones that
    clients made up) are left out, so the answer stays as small as the list of names that served.
    """
    rollup.help_readers()
    start, now = int(since.timestamp()), time.time()
    found: dict[str, int] = {}
    for name, total in stats.tokens_by_model(Window.last(int(now) - start, now)).items():
        found[name.lower()] = found.get(name.lower(), 0) + total
    return found
