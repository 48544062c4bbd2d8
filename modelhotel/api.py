"""The admin API: authentication in front of everything, one way of answering errors, every app's router."""

import logging
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, URLResolver, path, re_path
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.openapi.docs import DocsBase
from ninja.parser import Parser

from failover.api import router as groups_router
from modelhotel.accounts.api import public as public_router
from modelhotel.accounts.api import router as auth_router
from modelhotel.accounts.authentication import STAFF, Granted
from modelhotel.accounts.identity import log_path
from modelhotel.accounts.users_api import router as users_router
from modelhotel.core import version, webapi
from modelhotel.core.faults import Refusal
from modelhotel.ops.system_api import router as system_router
from modelhotel.settings_api import router as settings_router
from providers.api import router as providers_router
from providers.api_discovery import router as discovery_router
from providers.api_models import router as models_router
from providers.api_quotas import router as quotas_router
from proxy.api import router as keys_router
from requestlogs.api import router as logs_router
from requestlogs.applog_api import router as lines_router
from requestlogs.stats_api import router as stats_router

log = logging.getLogger("api")


class StrictParser(Parser):
    """JSON as the RFC has it: no NaN, no bytes that are no UTF-8."""

    def parse_body(self, request: HttpRequest) -> Any:
        return msgspec.json.decode(request.body)


class Page(DocsBase):
    """The OpenAPI page, drawn by the script that ninja ships and started by ours: no inline script."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        return render(request, "api/docs.html", {"schema": self.get_openapi_url(api, kwargs), "title": api.title})


def _staff_only(view: Any) -> Any:
    """The description of the API is for administrators and viewers; a browser is sent to the sign-in page."""

    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        try:
            STAFF(request)
        except Refusal as problem:
            if problem.status == 401 and "text/html" in request.headers.get("Accept", ""):
                return redirect_to_login(request.get_full_path())
            return webapi.refusal(request, problem)
        answer: HttpResponse = view(request, **kwargs)
        return answer

    return guarded


api = NinjaAPI(
    title="Model Hotel",
    description=(
        'An error is one line of text; with `Accept: application/json` it is `{"error": "..."}`. '
        f"`{webapi.INVALID_BODY}` says which member is at fault and what it must be in the header "
        f"`{webapi.HINT_HEADER}`, and in most places as `field` and `hint` beside `error`."
    ),
    version=version.VERSION,
    docs=Page(),
    docs_url="/docs",
    docs_decorator=_staff_only,
    urls_namespace="api",
    auth=STAFF,
    parser=StrictParser(),
)


@api.exception_handler(Refusal)
def _refused(request: HttpRequest, problem: Refusal) -> HttpResponse:
    return webapi.refusal(request, problem)


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, problem: ValidationError) -> HttpResponse:
    """A body is one line for every reason, with the member at fault beside it; a parameter of the address is named."""
    where = [str(part) for part in problem.errors[0].get("loc", ())] if problem.errors else []
    if where and where[0] in ("path", "query", "header", "cookie"):
        return webapi.error(request, 400, f"invalid {where[-1]}")
    # Before the names of members: "body" and the name of the parameter.
    return webapi.refusal(request, webapi.mistyped(problem.errors, skip=2))


@api.exception_handler(HttpError)
def _http_error(request: HttpRequest, problem: HttpError) -> HttpResponse:
    # The framework's own word for a body that is no JSON.
    if problem.message.startswith("Cannot parse request body"):
        return webapi.refusal(request, webapi.invalid(hint=webapi.not_json(problem.__cause__)))
    return webapi.error(request, problem.status_code, problem.message)


@api.exception_handler(Http404)
def _not_found(request: HttpRequest, problem: Http404) -> HttpResponse:
    return webapi.error(request, 404, webapi.NOT_FOUND)


@api.exception_handler(RequestDataTooBig)
def _too_large(request: HttpRequest, problem: RequestDataTooBig) -> HttpResponse:
    return webapi.error(request, 413, webapi.TOO_LARGE)


@api.exception_handler(Exception)
def _failed(request: HttpRequest, problem: Exception) -> HttpResponse:
    log.error(
        "api: unexpected error",
        exc_info=problem,
        extra={"attrs": {"method": request.method, "path": log_path(request.path)}},
    )
    return webapi.error(request, 500, webapi.INTERNAL)


@csrf_exempt
def _unknown(request: HttpRequest, rest: str = "") -> HttpResponse:
    return webapi.error(request, 404, webapi.NOT_FOUND)


def _with_optional_slash(patterns: Iterable[URLPattern | URLResolver]) -> list[URLPattern | URLResolver]:
    """*patterns*, and after them the same with a slash more or less at the end."""
    found = list(patterns)
    for pattern in list(found):
        if isinstance(pattern, URLPattern) and (route := str(pattern.pattern)):
            other = route[:-1] if route.endswith("/") else route + "/"
            found.append(path(other, pattern.callback))
    return found


_ID = "[0-9A-Fa-f-]{32,36}"
#: What is open to accounts without staff status as well, by their grants (operations.md 1); all else is for staff.
_GRANTED = {
    "/providers": Granted("virtual_keys", "usage", only=re.compile(f"/api/providers(/{_ID})?/?")),
    "/models": Granted("models", "chat", "usage", only=re.compile("/api/models(/cursor)?/?")),
    "/virtual-keys": Granted("virtual_keys", reads=False),
    "/logs": Granted("logs"),
    "/stats": Granted("usage"),
}

for _prefix, _router in (
    ("/auth", auth_router),
    ("", public_router),
    ("/users", users_router),
    ("/settings", settings_router),
    ("/providers", quotas_router),  # before the id of a provider
    ("/providers", providers_router),
    ("/models", models_router),
    ("/discovery", discovery_router),
    ("/failover-groups", groups_router),
    ("/virtual-keys", keys_router),
    ("/logs/app", lines_router),  # before the id of a request
    ("/logs", logs_router),
    ("/stats", stats_router),
    ("", system_router),
):
    api.add_router(_prefix, _router, auth=_GRANTED.get(_prefix, STAFF))
_patterns, _app_name, _namespace = api.urls
#: For ``urls.py``: every endpoint under ``/api/``, and the one line for what is none.
urls = ([path("", _unknown), *_with_optional_slash(_patterns)], _app_name, _namespace)
unknown = re_path(r"^api(?:/(?P<rest>.*))?$", _unknown)
