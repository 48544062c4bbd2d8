"""What every page of our own has in common: who may open it and how, and the site around it."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse


def refused(request: HttpRequest, permission: str) -> HttpResponse | None:
    """The answer to whoever does not just look; None for who may. Raises PermissionDenied."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    if not request.user.has_perm(permission):
        raise PermissionDenied
    return None


def draw(request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
    """``pages/<name>.html`` inside the site."""
    return TemplateResponse(request, f"modelhotel/pages/{name}.html", {**admin.site.each_context(request), **context})
