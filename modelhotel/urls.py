"""Addresses of everything that is not /v1 and not /api/events."""

from django.contrib import admin
from django.urls import path

from modelhotel import api
from modelhotel.accounts.views import sign_in

#: Inside the site, as its own pages are.
handler403, handler404 = "modelhotel.site.pages.forbidden", "modelhotel.site.pages.missing"
urlpatterns = [
    path("api/", api.urls),
    api.unknown,
    # Before the site's own, which it wraps; links are still made by the site's name for it.
    path("login/", sign_in),
    path("", admin.site.urls),
]
