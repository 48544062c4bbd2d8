"""The admin site: unfold's, with our start page and the settings page."""

import functools
from typing import Any

from django.contrib.auth.views import PasswordChangeView
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path, reverse
from unfold.sites import UnfoldAdminSite

from modelhotel.accounts import demo
from modelhotel.accounts.forms import OwnPasswordForm
from modelhotel.core.version import VERSION
from modelhotel.models import User
from modelhotel.site import board_page, keys_page, log_pages, provider_pages, settings_page

_ROLES = {"admin": "Administrator", "viewer": "Viewer: looks, changes nothing", "user": "User"}


class HotelSite(UnfoldAdminSite):  # type: ignore[misc]
    index_template = "modelhotel/pages/overview.html"
    index_title = "Overview"

    def extra_urls(self) -> list[URLPattern]:
        return [
            path("settings/", self.admin_view(settings_page.page), name="settings"),
            path("keys/", self.admin_view(keys_page.page), name="keys"),
            # In the place of Django's index of the app, which is one list.
            path("failover/", self.admin_view(board_page.page), name="failover"),
            path("requests/", self.admin_view(log_pages.requests), name="requests"),
            path("logs/", self.admin_view(log_pages.lines), name="logs"),
            # In the place of Django's index of the app, which is two lists.
            path("providers/", self.admin_view(provider_pages.providers), name="providers"),
            path("models/", self.admin_view(provider_pages.models), name="models"),
        ]

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:
        view = PasswordChangeView.as_view(
            form_class=functools.partial(OwnPasswordForm, request=request),
            success_url=reverse(f"{self.name}:password_change_done", current_app=self.name),
            extra_context={**self.each_context(request), **(extra_context or {})},
        )
        return view(request)

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        user = request.user
        role = user.actor.role if isinstance(user, User) else ""
        return {
            **super().each_context(request),
            "mh_version": VERSION,
            "mh_role": _ROLES.get(role, role),
            "mh_demo": demo.on(),
        }
