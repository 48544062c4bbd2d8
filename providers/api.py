"""``/api/providers``."""

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Router

from modelhotel.core.faults import Refusal
from modelhotel.core.webapi import Body, actor_of, allowed_of
from providers import connection, queries, verbs
from providers.discovery.scan import SCANNER, combined
from providers.model_verbs import parse_id
from providers.models import Provider

router = Router(tags=["providers"])


class ProviderCreate(Body):
    null_is_absent = frozenset({"provider_type", "api_key", "quota_reserve_percent"})

    name: str = ""
    base_url: str = ""
    provider_type: str = ""
    api_key: str = ""
    max_in_flight: int | None = None
    quota_reserve_percent: int = 0


class ConnectionTest(Body):
    """What a provider would be stored from. *provider_id*: of a stored one, for what is absent, its key included."""

    null_is_absent = frozenset({"provider_id", "base_url", "provider_type"})

    provider_id: str = ""
    base_url: str = ""
    provider_type: str = ""
    api_key: str | None = None


class ProviderEdit(Body):
    """Absent keeps. ``null`` clears where there can be nothing, else it keeps too."""

    null_is_absent = frozenset(
        {
            "name",
            "base_url",
            "provider_type",
            "api_key",
            "enabled",
            "autodiscovery_enabled",
            "quota_reserve_percent",
        }
    )

    name: str = ""
    base_url: str = ""
    provider_type: str = ""
    api_key: str = ""
    enabled: bool = True
    autodiscovery_enabled: bool = True
    scheduled_disable_on: str | None = None
    max_in_flight: int | None = None
    quota_reserve_percent: int = 0
    circuit_breaker_slow_call_threshold: str | None = None


def answer(body: object, status: int = 200) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(body), status=status, content_type="application/json")


def find(provider_id: str) -> Provider:
    row = Provider.objects.filter(pk=parse_id(provider_id, "invalid provider ID")).first()
    if row is None:
        raise Refusal(404, verbs.NOT_FOUND)
    return row


@router.get("")
def list_providers(request: HttpRequest, totals: str = "") -> HttpResponse:
    """``totals=false`` leaves the token totals out: they look through the request log, of everybody."""
    shown = totals != "false" and actor_of(request).role != "user"
    return answer(queries.all_providers(totals=shown, allowed=allowed_of(request)))


@router.post("")
def create_provider(request: HttpRequest, body: ProviderCreate) -> HttpResponse:
    row = verbs.create(verbs.ProviderData(**body.dict()), actor_of(request))
    return answer(queries.one_provider(row), 201)


@router.post("/test")
def test_connection(request: HttpRequest, body: ConnectionTest) -> HttpResponse:
    return answer(connection.run(connection.Draft(**body.dict())))


@router.post("/discover-all")
def discover_all(request: HttpRequest) -> HttpResponse:
    return answer(combined(SCANNER.every()))


@router.get("/status")
def providers_status(request: HttpRequest) -> HttpResponse:
    return answer(queries.providers_status())


@router.get("/{provider_id}")
def get_provider(request: HttpRequest, provider_id: str) -> HttpResponse:
    row, allowed = find(provider_id), allowed_of(request)
    if allowed is not None and str(row.pk) not in allowed:
        raise Refusal(404, verbs.NOT_FOUND)
    return answer(queries.one_provider(row, totals=actor_of(request).role != "user"))


@router.get("/{provider_id}/dependents")
def dependents(request: HttpRequest, provider_id: str) -> HttpResponse:
    return answer(queries.dependents(find(provider_id)))


@router.post("/{provider_id}/test")
def test_provider(request: HttpRequest, provider_id: str) -> HttpResponse:
    return answer(connection.run(connection.Draft(provider_id=provider_id)))


@router.put("/{provider_id}")
def update_provider(request: HttpRequest, provider_id: str, body: ProviderEdit) -> HttpResponse:
    row = verbs.update(provider_id, body.given(), actor_of(request))
    return answer(queries.one_provider(row))


@router.delete("/{provider_id}")
def delete_provider(request: HttpRequest, provider_id: str) -> HttpResponse:
    verbs.delete(provider_id, actor_of(request))
    return HttpResponse(status=204)


@router.post("/{provider_id}/discover")
def discover_provider(request: HttpRequest, provider_id: str) -> HttpResponse:
    result = SCANNER.one(provider_id)
    return answer(
        {
            "discovered": len(result.rows),
            "models": [queries.model_object(row) for row in result.rows],
            "diff": result.diff,
        }
    )
