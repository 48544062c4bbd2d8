"""``/api/discovery``."""

from django.http import HttpRequest, HttpResponse
from ninja import Router

from modelhotel.core import environment
from modelhotel.core.clock import SYSTEM
from modelhotel.core.webapi import Body, actor_of
from providers.api import answer
from providers.discovery import claim_verbs, status

router = Router(tags=["discovery"])


class Claims(Body):
    """*model_ids*: the provider's own ids."""

    provider_id: str = ""
    model_ids: list[str] = []


@router.get("/status")
def discovery_status(request: HttpRequest, review: str = "", brief: str = "") -> HttpResponse:
    """``review=1`` is a review of the claims; ``brief=1`` gives the two numbers of the badge only."""
    # A viewer's look is no review, nor is anybody's in the demo: neither changes anything.
    keep = request.method == "GET" and actor_of(request).role == "admin" and not environment.current().demo_readonly
    return answer(status.read(SYSTEM.now(), review=review == "1", keep=keep, brief=brief == "1"))


@router.post("/changes/ack")
def acknowledge(request: HttpRequest) -> HttpResponse:
    return answer(status.acknowledge())


@router.post("/dismiss")
def dismiss(request: HttpRequest, body: Claims) -> HttpResponse:
    return answer(claim_verbs.dismiss(body.provider_id, body.model_ids, actor_of(request)))


@router.post("/unpin")
def unpin(request: HttpRequest, body: Claims) -> HttpResponse:
    return answer(claim_verbs.unpin(body.provider_id, body.model_ids, actor_of(request)))
