"""The app log in the dashboard: read only, but for deletion by age."""

from typing import Any

from django.contrib.admin import DateFieldListFilter, SimpleListFilter
from django.http import HttpRequest
from django.template.loader import render_to_string
from unfold.paginator import InfinitePaginator

from modelhotel.core.verbadmin import VerbAdmin, column, moment, value_column
from requestlogs import applog, applog_api, purge
from requestlogs.applog_queries import COUNTS, Rows
from requestlogs.models import AppLog

#: Characters of a message in the list; the page of the line has the rest.
SHOWN = 300
COLOURS = {"debug": "default", "info": "info", "warning": "warning", "error": "danger"}


class _Counted(SimpleListFilter):
    """A filter whose choices say how many lines each has."""

    def counts(self) -> dict[str, int]:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [(word, f"{word} ({count})") for word, count in self.counts().items()]


class LevelFilter(_Counted):
    title, parameter_name = "level", "level"

    def counts(self) -> dict[str, int]:
        return COUNTS.get()[0]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(level=self.value()) if self.value() in applog.LEVELS else queryset


class SourceFilter(_Counted):
    title, parameter_name = "source", "source"

    def counts(self) -> dict[str, int]:
        return COUNTS.get()[1]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(source=self.value()) if self.value() else queryset


class AppLogAdmin(VerbAdmin[AppLog]):
    """No verb stands behind a write of one line, so none is permitted."""

    empty_text = "Nothing was said yet."
    list_display = ("time", "severity", "source", "text", "at_node")
    list_filter = (LevelFilter, SourceFilter, ("timestamp", DateFieldListFilter))
    search_fields = ("message",)
    search_help_text = "Message"
    ordering = ("-timestamp", "-id")
    sortable_by = ()
    show_full_result_count = False
    paginator = InfinitePaginator
    actions = None
    list_buttons = purge.buttons(
        "log line",
        ["Log lines go for good, on every node.", "Requests and their rows are not touched."],
        applog_api.purge,
    )
    readonly_fields = ("time", "severity", "source", "whole", "at_node", "row")
    fieldsets = ((None, {"fields": readonly_fields}),)

    def may_press(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("requestlogs.delete_applog"))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        applog.APP_LOG.flush()
        return super().changelist_view(request, extra_context)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        context = {"show_history": False, **(extra_context or {})}  # nobody edits a line
        return super().changeform_view(request, object_id, form_url, context)

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
