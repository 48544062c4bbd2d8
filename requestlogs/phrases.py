"""Wordings of the 429 table that no attempt has matched for long: providers change what they say."""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import connection

from modelhotel.core.clock import SYSTEM, Clock
from requestlogs.models import RequestLog

SPAN = timedelta(days=90)
log = logging.getLogger("phrases")

# A null, and what else is no array, has no elements.
_MATCHED = {
    "postgresql": """SELECT DISTINCT item->>'phrase' FROM request_logs CROSS JOIN LATERAL jsonb_array_elements(
        CASE WHEN jsonb_typeof(attempts) = 'array' THEN attempts ELSE '[]' END) AS item
        WHERE created_at >= %s AND item ? 'phrase'""",
    "sqlite": """SELECT DISTINCT json_extract(item.value, '$.phrase') FROM request_logs, json_each(attempts) AS item
        WHERE created_at >= %s AND json_extract(item.value, '$.phrase') IS NOT NULL""",
}


def unmatched(known: Sequence[str], since: datetime) -> list[str]:
    """Those of *known* that no attempt since *since* matched; none while the log does not reach back that far."""
    if not RequestLog.objects.filter(created_at__lte=since).exists():
        return []
    with connection.cursor() as cursor:
        cursor.execute(_MATCHED[connection.vendor], [connection.ops.adapt_datetimefield_value(since)])
        matched = {phrase for (phrase,) in cursor.fetchall()}
    return [phrase for phrase in known if phrase not in matched]


def report(known: Sequence[str], clock: Clock = SYSTEM) -> None:
    """Name them in one line."""
    if found := unmatched(known, clock.now() - SPAN):
        log.info("phrases: no attempt matched in 90 days", extra={"attrs": {"phrases": found}})
