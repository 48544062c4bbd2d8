"""Django's admin app with our site as the default one."""

from django.contrib.admin.apps import AdminConfig


class SiteConfig(AdminConfig):
    default_site = "modelhotel.site.hotel.HotelSite"

    def ready(self) -> None:
        super().ready()
        from django.contrib import admin
        from django.contrib.auth.models import Group

        # Registered by Django with forms that write past the verbs.
        admin.site.unregister(Group)
