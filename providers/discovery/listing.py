"""One listing as a provider gave it: the network half of a scan, and the whole of a connection test."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from providers import control, sanitize
from providers.discovery import catalog, enrich, modelsdev, store
from providers.discovery.classify import classify
from providers.discovery.http import DiscoveryHttp
from providers.kinds.base import MOST_MODELS, TOO_MANY, Kind, Listed, ListingError, NotShown

log = logging.getLogger("discovery")


@dataclass(frozen=True, slots=True)
class Fetched:
    """A listing as it came: *error* set when there is none; *access* None = the listing was the access check."""

    models: list[Listed] = field(default_factory=list)
    error: str = ""
    access: str | None = None
    #: How many of the models models.dev knew something about.
    enriched: int = 0

    @property
    def listing_problem(self) -> str:
        return self.error or ("" if self.models else store.NO_MODELS)

    @property
    def access_problem(self) -> str:
        return self.listing_problem if self.access is None else self.access

    @property
    def failed(self) -> bool:
        return bool(self.listing_problem or self.access_problem)


def _bounded(models: list[Listed]) -> list[Listed]:
    """Those that can be stored. Raises ListingError for more of them than a listing may have."""
    usable = store.usable(models)
    if len(usable) > MOST_MODELS:
        raise ListingError(TOO_MANY, 200)
    return usable


async def fetch(name: str, kind: Kind, base_url: str, key: str, *, seconds: float, **http: Any) -> Fetched:
    """Ask the provider *name* for its models and whether the key works. Never raises; every text is masked.

    *http*: what :class:`DiscoveryHttp` takes beside client and keys.
    """
    try:
        async with asyncio.timeout(seconds):
            caller = DiscoveryHttp(control.client(), (key,), **http)
            rows = catalog.rows(kind.catalog)
            try:
                listed = enrich.mark_live(_bounded(await kind.list_models(caller, base_url, key)))
            except NotShown:
                listed = catalog.alone(kind, rows)
            access = await kind.check_access(caller, base_url, key)
            found = enrich.enrich(kind, bool(key), listed, rows, modelsdev.current())
            return Fetched([classify(model) for model in found.models], "", access, found.known)
    except ListingError as problem:
        return Fetched(error=sanitize.clean(str(problem), sanitize.DISCOVERY_CHARACTERS, (key,)))
    except TimeoutError:
        return Fetched(error=f"the scan took longer than {seconds:.0f} s")
    except Exception as problem:
        log.exception("discovery: listing not understood", extra={"attrs": {"provider": name}})
        return Fetched(error=f"the listing was not understood ({type(problem).__name__})")
