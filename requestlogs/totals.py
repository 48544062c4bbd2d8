"""Token totals over the request log; one aggregate query each."""

from datetime import datetime

from django.db.models import F, Sum

from requestlogs.models import RequestLog


def tokens_by_requested_name(since: datetime) -> dict[str, int]:
    """Prompt and completion tokens since *since*, by the requested name, lowercased.

    Lowercased here and not by the database: the two disagree outside of ASCII. Rows without tokens (refused names that
    clients made up) are left out, so the answer stays as small as the list of names that served.
    """
    rows = (
        RequestLog.objects.filter(created_at__gte=since)
        .annotate(tokens=F("tokens_prompt") + F("tokens_completion"))
        .filter(tokens__gt=0)
        .order_by()
        .values_list("model_id")
        .annotate(total=Sum("tokens"))
    )
    found: dict[str, int] = {}
    for name, total in rows:
        found[name.lower()] = found.get(name.lower(), 0) + total
    return found
