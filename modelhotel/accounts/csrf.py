"""Django's CSRF check under our names, and what it answers."""

import logging
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.template.response import TemplateResponse

from modelhotel.accounts.identity import log_path
from modelhotel.core import webapi
from modelhotel.core.faults import Refusal

log = logging.getLogger("auth")
FAILED = "CSRF token missing or invalid"


class CsrfMiddleware(CsrfViewMiddleware):
    """Compares hosts without the scheme: behind a TLS proxy that is not in TRUSTED_PROXIES we can not know it."""

    def _origin_verified(self, request: HttpRequest) -> bool:
        if super()._origin_verified(request):  # type: ignore[misc]
            return True
        try:
            host = request.get_host()
            origin = urlsplit(request.META["HTTP_ORIGIN"])
        except (DisallowedHost, ValueError):
            return False
        return origin.scheme in ("http", "https") and origin.netloc == host


class _ApiCheck(CsrfMiddleware):
    """The check for ``/api``: the token comes in a header that no foreign page can send; a Referer adds nothing."""

    def _check_referer(self, request: HttpRequest) -> None:
        return None

    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        return HttpResponse(status=403)


def _nowhere(request: HttpRequest) -> HttpResponseBase:
    raise AssertionError("never called")


_CHECK = _ApiCheck(_nowhere)


def holds(request: HttpRequest) -> bool:
    """Whether a cookie-authenticated write under ``/api`` carries the token of its cookie."""
    request.csrf_processing_done = False  # type: ignore[attr-defined]
    return _CHECK.process_view(request, _nowhere, (), {}) is None


def arrive(request: HttpRequest) -> None:
    """Outside of Django's handler: note the CSRF cookie that *request* came with."""
    _CHECK.process_request(request)


def carry(request: HttpRequest, response: HttpResponse) -> None:
    """Outside of Django's handler: put the CSRF cookie on *response* where it was marked for renewal."""
    _CHECK.process_response(request, response)


def refuse_foreign(request: HttpRequest) -> None:
    """Raise Refusal where a page of another site asks to be signed in: it would have its visitor work in an account
    of its choice. No token is asked for, because nobody is signed in yet; a script sends no ``Origin``.
    """
    if "HTTP_ORIGIN" in request.META and not _CHECK._origin_verified(request):
        warn(request)
        raise Refusal(403, FAILED)


def warn(request: HttpRequest) -> None:
    address = getattr(request, "client_address", "")
    log.warning("auth: CSRF check failed", extra={"attrs": {"ip": address, "path": log_path(request.path)}})


def failure(request: HttpRequest, reason: str = "", **kwargs: Any) -> HttpResponseBase:
    """``CSRF_FAILURE_VIEW``: a page that says what to do, or the one line for whoever is not a browser."""
    warn(request)
    request.csrf_failed = True  # type: ignore[attr-defined]
    if "text/html" not in request.headers.get("Accept", ""):
        return webapi.error(request, 403, FAILED)
    return TemplateResponse(request, "registration/csrf_failed.html", {"text": FAILED}, status=403).render()
