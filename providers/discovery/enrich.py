"""What is known of a listed model beside what its provider says of it: marks, then fills. Pure.

Precedence per field: live (the provider's own words), then catalog, then models.dev, then empty.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from providers.discovery.merge import LIMITS
from providers.kinds.base import Kind, Listed


@dataclass(frozen=True, slots=True)
class Enriched:
    """The models of a scan, and how many of them models.dev knew something about."""

    models: list[Listed]
    known: int = 0


def mark_live(models: Iterable[Listed]) -> list[Listed]:
    """Each model with the limits it has as ``live``: nothing but the provider has spoken yet."""
    return [
        replace(model, live=frozenset(field for field in LIMITS if getattr(model, field) is not None))
        for model in models
    ]


def enrich(kind: Kind, keyed: bool, models: list[Listed]) -> Enriched:
    """*models* as listed, filled. *keyed*: the provider is asked with a key."""
    return Enriched(models)
