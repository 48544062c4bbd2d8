"""Addresses of everything that is not /v1 and not /api/events."""

from django.contrib import admin
from django.urls import path

from modelhotel import api
from modelhotel.accounts.views import sign_in

urlpatterns = [
    path("api/", api.urls),
    api.unknown,
    # Before the site's own, which it wraps; links are still made by the site's name for it.
    path("login/", sign_in),
    path("", admin.site.urls),
]
