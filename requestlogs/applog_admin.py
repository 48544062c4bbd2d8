"""The app log in the dashboard: read only, but for deletion by age."""

from typing import Any

from django.contrib.admin import DateFieldListFilter, SimpleListFilter
from django.http import HttpRequest
from django.template.loader import render_to_string

from modelhotel.core.verbadmin import column, moment, value_column
from requestlogs import applog, applog_api, purge
from requestlogs.applog_queries import Rows, counts
from requestlogs.log_admin import LogAdmin
from requestlogs.models import AppLog

#: Characters of a message in the list; the page of the line has the rest.
SHOWN = 300
COLOURS = {"debug": "default", "info": "info", "warning": "warning", "error": "danger"}


class _Counted(SimpleListFilter):
    """A filter whose choices say how many lines each has. *place* is that of its counts among all of them."""

    place: int

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [(word, f"{word} ({count})") for word, count in counts()[self.place].items()]


class LevelFilter(_Counted):
    title, parameter_name, place = "level", "level", 0

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(level=self.value()) if self.value() in applog.LEVELS else queryset


class SourceFilter(_Counted):
    title, parameter_name, place = "source", "source", 1

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(source=self.value()) if self.value() else queryset


class AppLogAdmin(LogAdmin[AppLog]):
    deletion = "requestlogs.delete_applog"
    empty_text = "Nothing was said yet."
    list_display = ("time", "severity", "source", "text", "at_node")
    list_filter = (LevelFilter, SourceFilter, ("timestamp", DateFieldListFilter))
    search_fields = ("message",)
    search_help_text = "Message"
    ordering = ("-timestamp", "-id")
    list_buttons = purge.buttons(
        "log line",
        ["Log lines go for good, on every node.", "Requests and their rows are not touched."],
        applog_api.purge,
    )
    readonly_fields = ("time", "severity", "source", "whole", "at_node", "row")
    fieldsets = ((None, {"fields": readonly_fields}),)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        applog.APP_LOG.flush()
        return super().changelist_view(request, extra_context)

    # -- columns

    time = value_column("timestamp", "Time", moment)
    source = value_column("source", "Source")
    at_node = value_column("node", "Node")
    row = value_column("id", "Row")

    @column("Level", colours=COLOURS)
    def severity(self, row: AppLog) -> tuple[str, str]:
        return row.level, row.level

    @column("Message")
    def text(self, row: AppLog) -> str:
        first = row.message.partition("\n")[0]
        return first if len(first) <= SHOWN else first[:SHOWN] + "…"

    @column("Message")
    def whole(self, row: AppLog) -> str:
        return render_to_string("requestlogs/message.html", {"message": row.message})

    def get_search_results(self, request: HttpRequest, queryset: Rows, search_term: str) -> tuple[Rows, bool]:
        """The whole term is one text, as it stands in the line."""
        term = search_term.strip().replace("\x00", "")
        return queryset.filter(message__icontains=term) if term else queryset, False
