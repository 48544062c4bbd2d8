"""What a provider's listing says about one model right now."""

import uuid
from datetime import timedelta

from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.faults import Refusal
from providers.discovery import scan
from providers.models import Model

YOUNG = timedelta(minutes=5)


def lacks(model_id: str, clock: Clock = SYSTEM) -> bool:
    """Whether a current listing does not name the model row *model_id* (UUID text); not from an event loop.

    The latest successful listing counts while it is young; else the provider is scanned, or a running scan waited for.
    Without a listing, a failed or an empty one, nothing is said and the answer is False.
    """
    row = Model.objects.select_related("provider").filter(pk=uuid.UUID(model_id)).first()
    if row is None:
        return False
    listed_at = row.provider.last_discovery_success_at
    if listed_at is not None and abs(clock.now() - listed_at) < YOUNG:
        # A scan stamps the models it saw and itself with one instant.
        return row.last_seen_at is None or row.last_seen_at < listed_at
    try:
        result = scan.SCANNER.one(str(row.provider_id))
    except Refusal:
        return False
    return bool(result.rows) and not result.failed and all(seen.pk != row.pk for seen in result.rows)
