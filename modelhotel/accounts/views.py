"""The sign-in page of the admin site."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.cache import never_cache

from modelhotel.accounts import demo, sessions
from modelhotel.accounts.forms import SignInForm

EXPIRED = "Your session has expired. Sign in again to go on where you were."


@never_cache
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Django's sign-in view with our form; 429 with ``Retry-After`` while locked."""
    expired = request.method == "GET" and "expired" in request.GET
    extra = {"session_note": EXPIRED if expired else "", "demo_token": demo.shown_token()}
    response = admin.site.login(request, extra_context=extra)
    context: dict[str, Any] = getattr(response, "context_data", None) or {}
    form = context.get("form")
    if isinstance(form, SignInForm) and form.locked_for:
        response.status_code = 429
        response["Retry-After"] = str(form.locked_for)
        context["retry_after"] = form.locked_for
    elif request.method == "POST" and response.status_code == 302 and request.POST.get("admin_token", "").strip():
        request.session[sessions.BY_TOKEN] = True
    return response
