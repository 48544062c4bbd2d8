"""Every provider type there is."""

from providers.kinds.base import Kind
from providers.kinds.custom import Custom

KINDS: dict[str, Kind] = {kind.type: kind for kind in (Custom(),)}


def get(provider_type: str) -> Kind:
    """The kind of a stored type; an unknown one (a row from a newer version) behaves like ``custom``."""
    return KINDS.get(provider_type) or KINDS["custom"]
