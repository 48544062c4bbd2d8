"""Addresses of everything that is not /v1 and not /api/events."""

from django.contrib import admin
from django.urls import path

from modelhotel.api import api

urlpatterns = [
    path("api/", api.urls),
    path("", admin.site.urls),
]
