"""The operator's test of a connection, before it is stored or after: the calls of a scan, with nothing written."""

import time
from dataclasses import dataclass
from typing import Any

from modelhotel.core import crypto, environment
from modelhotel.core.faults import Refusal
from providers import control, egress, inputs, verbs
from providers.cache import row_of
from providers.discovery import listing
from providers.keyring import KEYRING, UNREADABLE
from providers.kinds import registry
from providers.kinds.base import Kind
from providers.model_verbs import parse_id
from providers.models import Provider

SECONDS = 30.0
#: Model ids an answer names: enough to recognise the account.
NAMED = 8


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to be tried. *provider_id* names a stored provider, which stands in for what is empty; *api_key* None
    is its key, ``""`` no key."""

    provider_id: str = ""
    base_url: str = ""
    provider_type: str = ""
    api_key: str | None = None


def run(draft: Draft) -> dict[str, Any]:
    """Refuses (Refusal) what creating the provider would refuse, name apart; else ``success``, ``models`` (their
    number), the first of them as ``listed``, ``error`` when it failed, ``duration_ms``, type and stored address."""
    kind, base_url, key = _checked(draft)
    if kind.self_hosted:
        verbs.confirm(kind, base_url, key)
    begun = time.monotonic()
    fetched = control.LOOP.run(listing.fetch("", kind, base_url, key, seconds=SECONDS, attempts=1))
    problem = fetched.listing_problem or fetched.access_problem
    answer: dict[str, Any] = {
        "success": not problem,
        "provider_type": kind.type,
        "base_url": base_url,
        "models": len(fetched.models),
        "listed": [model.model_id for model in fetched.models[:NAMED]],
        "duration_ms": round((time.monotonic() - begun) * 1000, 3),
    }
    return {**answer, "error": problem} if problem else answer


def _checked(draft: Draft) -> tuple[Kind, str, str]:
    """Type, address in its stored form, and key. Raises Refusal."""
    stored = _stored(draft.provider_id) if draft.provider_id else None
    given_url = draft.base_url.strip() or (stored.base_url if stored else "")
    if not given_url:
        raise inputs.refuse("base_url", "base_url is required")
    if stored and not draft.provider_type:
        kind = registry.get(stored.provider_type)
    else:
        kind = verbs.kind_for(draft.provider_type, given_url)
    base_url = kind.normalise_base_url(given_url)
    if len(base_url) > inputs.URL_MAX:
        raise inputs.refuse("base_url", "base_url must be less than 500 characters")
    key = _key(draft, stored)
    if not key and not kind.keyless_allowed:
        raise inputs.refuse("api_key", inputs.KEY_REQUIRED)
    egress.check_url(base_url, environment.current())
    return kind, base_url, key


def _key(draft: Draft, stored: Provider | None) -> str:
    if draft.api_key is None and stored is not None:
        try:
            return KEYRING.wait(row_of(stored))
        except crypto.DecryptError:
            raise Refusal(500, UNREADABLE) from None
    return inputs.key(inputs.trim_key(draft.api_key or ""), "api_key must be less than 500 characters")


def _stored(provider_id: str) -> Provider:
    row = Provider.objects.filter(pk=parse_id(provider_id, "invalid provider ID")).first()
    if row is None:
        raise Refusal(404, verbs.NOT_FOUND)
    return row
