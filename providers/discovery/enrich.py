"""What is known of a listed model beside what its provider says of it. Pure but for the files it is handed.

Precedence per field: live (the provider's own words in this scan), then catalog, then models.dev, then empty.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from providers.discovery import catalog, known
from providers.discovery.catalog import Rows
from providers.discovery.known import Known
from providers.discovery.merge import LIMITS
from providers.kinds.base import Kind, Listed


@dataclass(frozen=True, slots=True)
class Enriched:
    """The models of a scan, and of how many of them models.dev knew something that was not known yet."""

    models: list[Listed]
    known: int = 0


def mark_live(models: Iterable[Listed]) -> list[Listed]:
    """Each model with the limits it has as ``live``: nothing but the provider has spoken yet."""
    return [
        replace(model, live=frozenset(field for field in LIMITS if getattr(model, field) is not None))
        for model in models
    ]


def enrich(kind: Kind, keyed: bool, models: list[Listed], rows: Rows, document: Known) -> Enriched:
    """*models* as listed, filled. An empty listing stays empty: it says nothing about what the vendor has.

    *keyed*: the provider is asked with a key; *rows*: the catalog of the type.
    """
    if not models:
        return Enriched([])
    if kind.keyless_free_only and not keyed:
        merged = catalog.merge(kind, rows, catalog.free(rows, models), adds=False)
    else:
        merged = catalog.merge(kind, rows, models, adds=kind.catalog_adds)
    found = [_known(kind, model, document) for model in merged]
    return Enriched(found, sum(after is not before for after, before in zip(found, merged, strict=True)))


def _known(kind: Kind, model: Listed, document: Known) -> Listed:
    # The name differs from the id where it is that of the model behind a deployment.
    entry = document.find(kind.modelsdev, kind.modelsdev_only, (model.model_id, model.name or model.model_id))
    return model if entry is None else known.fill(model, entry)
