"""Failover groups as the providers' floor sees them: what stands behind ``providers.ports.groups``."""

from collections.abc import Collection, Mapping
from typing import Any

from failover import dependents, naming, sync
from modelhotel.core import events
from providers.ports import GroupOff


class Maintenance:
    """Each call is a transaction of its own; what could not be done for one group is logged and costs no other."""

    def full_sync(self) -> None:
        sync.full(stamp=False)

    def sync_models(
        self, model_ids: Collection[str], *, stamp: bool = False, revalidate: bool = False
    ) -> Mapping[str, Any]:
        """The group sections of a scan's diff.

        *stamp*: a scan asks, so its time is stored and what failed is published. *revalidate*: it disabled a model,
        so custom groups may have become too small.
        """
        result = sync.models(model_ids, stamp=stamp, revalidate=revalidate)
        if stamp:
            for base, text in result.errors:
                _publish(next((id for id in model_ids if naming.base(id) == base), base), text)
        return result.diff()

    def prune_models(self, ids: Collection[str]) -> None:
        sync.prune(ids)

    def with_provider(self, provider_id: str) -> list[dict[str, Any]]:
        return dependents.of_provider(provider_id)

    def with_model(self, model_uuid: str) -> list[dict[str, Any]]:
        return dependents.of_models({model_uuid})

    def switched_off(self) -> list[GroupOff]:
        return dependents.switched_off()

    def revalidate(self) -> None:
        sync.revalidate()


def _publish(model_id: str, error: str) -> None:
    text = f"Failover sync failed for model '{model_id}'"
    events.publish("failover.sync_error", "warning", "discovery", text, {"error": error, "model_id": model_id})


MAINTENANCE = Maintenance()
