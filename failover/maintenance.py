"""Failover groups as the providers' floor sees them: what stands behind ``providers.ports.groups``."""

from collections.abc import Collection, Mapping
from typing import Any

from failover import sync


class Maintenance:
    """Each call is a transaction of its own. *stamp* also stores the time of the sync; discovery asks for it."""

    def full_sync(self) -> None:
        sync.full(stamp=False)

    def sync_models(
        self, model_ids: Collection[str], *, stamp: bool = False, revalidate: bool = False
    ) -> Mapping[str, Any]:
        """The group sections of a scan's diff. *revalidate*: a model was disabled, custom groups may be too small."""
        return sync.models(model_ids, stamp=stamp, revalidate=revalidate).diff()

    def prune_models(self, ids: Collection[str]) -> None:
        sync.prune(ids)

    def revalidate(self) -> None:
        sync.revalidate()


MAINTENANCE = Maintenance()
