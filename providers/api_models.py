"""``/api/models``."""

from django.http import HttpRequest, HttpResponse
from ninja import Router

from modelhotel.core.faults import Refusal
from modelhotel.core.ids import parse_uuid
from modelhotel.core.webapi import Body, actor_of, allowed_of
from providers import model_pages, model_test, model_verbs, ports, queries
from providers.api import answer
from providers.models import Model

router = Router(tags=["models"])


class ModelEdit(Body):
    display_name: str = ""
    context_length: int = 0
    max_output_tokens: int = 0
    input_price_per_million: float = 0.0
    input_price_per_million_cache_hit: float = 0.0
    output_price_per_million: float = 0.0
    search_price_per_thousand: float = 0.0
    price_customized: bool = False
    enabled: bool = True


class Ids(Body):
    ids: list[str]


@router.get("")
def list_models(request: HttpRequest, provider_id: str = "", provider_enabled: str = "") -> HttpResponse:
    rows = Model.objects.select_related("provider").order_by("model_id", "id")
    allowed = allowed_of(request)
    if allowed is not None:
        rows = rows.filter(provider_id__in=allowed)
    if provider_id:
        wanted = parse_uuid(provider_id)
        if wanted is None:
            raise Refusal(400, "invalid provider_id")
        rows = rows.filter(provider_id=wanted)
    if provider_enabled not in ("", "true", "false"):
        raise Refusal(400, "invalid provider_enabled")
    if provider_enabled:
        rows = rows.filter(provider__enabled=provider_enabled == "true")
    return answer([queries.model_object(row) for row in rows])


@router.get("/cursor")
def page_of_models(
    request: HttpRequest,
    limit: str = "",
    direction: str = "",
    sort_by: str = "",
    sort_dir: str = "",
    search: str = "",
    provider_id: str = "",
    provider_enabled: str = "",
    enabled: str = "",
    capabilities: str = "",
    outputs: str = "",
    cursor: str = "",
) -> HttpResponse:
    asked = model_pages.Asked(
        limit,
        direction,
        sort_by,
        sort_dir,
        search,
        provider_id,
        provider_enabled,
        enabled,
        capabilities,
        outputs,
        cursor,
    )
    return answer(model_pages.page(asked, allowed_of(request)))


@router.post("/bulk-delete")
def delete_models(request: HttpRequest, body: Ids) -> HttpResponse:
    deleted = model_verbs.delete_models(body.ids, actor_of(request))
    return answer({"requested": len(body.ids), "deleted": deleted})


def _find(model_id: str) -> Model:
    row = Model.objects.select_related("provider").filter(pk=model_verbs.parse_id(model_id)).first()
    if row is None:
        raise Refusal(404, "model not found")
    return row


@router.get("/{model_id}")
def get_model(request: HttpRequest, model_id: str) -> HttpResponse:
    return answer(queries.model_object(_find(model_id)))


@router.get("/{model_id}/dependents")
def dependents(request: HttpRequest, model_id: str) -> HttpResponse:
    return answer({"groups": ports.groups.with_model(str(_find(model_id).pk))})


@router.patch("/{model_id}")
def update_model(request: HttpRequest, model_id: str, body: ModelEdit) -> HttpResponse:
    row = model_verbs.update_model(model_id, body.given(), actor_of(request))
    return answer(queries.model_object(row))


@router.delete("/{model_id}")
def delete_model(request: HttpRequest, model_id: str) -> HttpResponse:
    model_verbs.delete_model(model_id, actor_of(request))
    return HttpResponse(status=204)


@router.post("/{model_id}/test")
def test_model(request: HttpRequest, model_id: str, allow_disabled: str = "") -> HttpResponse:
    return answer(model_test.run(model_id, allow_disabled=allow_disabled == "true"))
