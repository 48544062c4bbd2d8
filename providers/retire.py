"""Switching off a model that its provider refuses by name (providers 7.4)."""

import uuid
from collections.abc import Callable
from datetime import datetime

from django.db import transaction

from modelhotel.core import changes
from modelhotel.core.actor import SYSTEM as SYSTEM_ACTOR
from modelhotel.core.changes import Change
from modelhotel.core.clock import SYSTEM, Clock
from providers import ports
from providers.models import Model
from providers.verbs import after


def retire(model_id: str, stands: Callable[[], bool], clock: Clock = SYSTEM) -> bool:
    """Switch off the model row *model_id* (UUID text), unless somebody has decided about it meanwhile.

    *stands*: no answer of the model's has come since. One that comes during the commit undoes the write. True when the
    model is off now by this; custom groups were looked at again then.
    """
    identity, now = uuid.UUID(model_id), clock.now()
    with transaction.atomic():
        on = Model.objects.select_for_update(of=("self",)).filter(pk=identity, enabled=True)
        row = on.filter(disabled_manually=False, auto_retired_at=None).first()
        if row is None or not stands():
            return False
        _write(row, enabled=False, auto_retired_at=now)
    if not stands():
        _undo(identity, now)
        return False
    after("group revalidation", ports.groups.revalidate)
    return True


def _undo(identity: uuid.UUID, written: datetime) -> None:
    """Only if the row is still as it was written: what an operator did with it since stays."""
    with transaction.atomic():
        same = Model.objects.select_for_update(of=("self",)).filter(pk=identity, enabled=False, disabled_manually=False)
        row = same.filter(auto_retired_at=written).first()
        if row is not None:
            _write(row, enabled=True, auto_retired_at=None)


def _write(row: Model, *, enabled: bool, auto_retired_at: datetime | None) -> None:
    row.enabled, row.auto_retired_at = enabled, auto_retired_at
    row.save(update_fields=["enabled", "auto_retired_at"])
    changes.record(("models",), Change("model", str(row.pk), "updated", row.model_id), SYSTEM_ACTOR)
