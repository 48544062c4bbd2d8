"""The admin site: unfold's, with our start page and the settings page."""

from django.urls import URLPattern, path
from unfold.sites import UnfoldAdminSite

from modelhotel.site import settings_page


class HotelSite(UnfoldAdminSite):  # type: ignore[misc]
    index_template = "modelhotel/start.html"
    index_title = "Overview"

    def extra_urls(self) -> list[URLPattern]:
        return [path("settings/", self.admin_view(settings_page.page), name="settings")]
