"""``/api/providers/quotas``, ``/refresh-quotas`` and what one provider says of its quota."""

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Router

from modelhotel.core.clock import rfc3339
from providers.api import answer, find
from providers.quota import desk, store

#: Mounted before the router of the providers, whose ``{id}`` takes every word.
router = Router(tags=["providers"])
FETCHED_AT = "X-Quota-Fetched-At"


@router.get("/quotas")
def list_quotas(request: HttpRequest) -> HttpResponse:
    """The stored readings of the enabled providers in one form; no provider is asked."""
    return answer({"quotas": desk.overview()})


@router.delete("/quotas")
def clear_quotas(request: HttpRequest) -> HttpResponse:
    """Forget the stored readings: each provider is asked again when it is next looked at, or polled."""
    store.clear()
    return HttpResponse(status=204)


@router.post("/refresh-quotas")
def refresh_quotas(request: HttpRequest) -> HttpResponse:
    results, skipped = desk.refresh()
    failed = sum(bool(result.error) for result in results)
    return answer(
        {
            "results": [
                {
                    "provider_name": result.name,
                    "provider_type": result.provider_type,
                    "refreshed": not result.error,
                    **({"error": result.error} if result.error else {}),
                }
                for result in results
            ],
            "refreshed": len(results) - failed,
            "failed": failed,
            "skipped": skipped,
        }
    )


@router.get("/{provider_id}/usage")
def get_usage(request: HttpRequest, provider_id: str) -> HttpResponse:
    return _quota(provider_id, "usage")


@router.get("/{provider_id}/balance")
def get_balance(request: HttpRequest, provider_id: str) -> HttpResponse:
    return _quota(provider_id, "balance")


@router.get("/{provider_id}/account")
def get_account(request: HttpRequest, provider_id: str) -> HttpResponse:
    return _quota(provider_id, "account")


def _quota(provider_id: str, kind: str) -> HttpResponse:
    shown = desk.show(find(provider_id), kind)
    body = msgspec.json.encode(shown.payload) if shown.status == 200 else b""
    response = HttpResponse(body, status=shown.status, content_type="application/json")
    response[FETCHED_AT] = rfc3339(shown.fetched_at) or ""
    return response
