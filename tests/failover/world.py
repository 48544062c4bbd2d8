"""Providers, models and groups in the database: P1 OpenRouter, P2 NanoGPT, P3 "my provider", created in this order."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from failover.models import FailoverGroup
from modelhotel.core import changes
from modelhotel.core.actor import ADMIN
from providers.models import Model, Provider

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = {"P1": "OpenRouter", "P2": "NanoGPT", "P3": "my provider"}


def provider(name: str, age: int = 0, **given: Any) -> Provider:
    """*age*: the higher, the later it was created."""
    made = Provider.objects.create(name=name, base_url="https://upstream.test/v1", provider_type="custom", **given)
    Provider.objects.filter(pk=made.pk).update(created_at=T0 + timedelta(minutes=age))
    made.refresh_from_db()
    return made


def model(owner: Provider, model_id: str, **given: Any) -> Model:
    return Model.objects.create(provider=owner, model_id=model_id, **given)


def group(name: str, *members: Model | str, **given: Any) -> FailoverGroup:
    order = [member if isinstance(member, str) else str(member.pk) for member in members]
    return FailoverGroup.objects.create(**{"display_model": name, "priority_order": order, "updated_at": T0, **given})


def ids(*members: Model) -> list[str]:
    return [str(member.pk) for member in members]


def stored(name: str) -> FailoverGroup:
    return FailoverGroup.objects.get(display_model=name)


def touch(*tables: Any) -> None:
    """What a verb of the providers does after it wrote: raise versions, rebuild snapshots."""
    with transaction.atomic():
        changes.record(tables or ("providers", "models"), None, ADMIN)


class World:
    """The setup of the cases: three providers, one model each on P1 and P2."""

    def __init__(self) -> None:
        self.p1, self.p2, self.p3 = (provider(name, age) for age, name in enumerate(NAMES.values()))
        self.m1 = model(self.p1, "z-ai/glm-4.6")
        self.m2 = model(self.p2, "zai-org/glm-4.6")
        touch()
