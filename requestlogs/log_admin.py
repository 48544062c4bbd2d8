"""What the admin pages of both logs share: newest first, read only but for deletion by age."""

from typing import Any, ClassVar, TypeVar

from django.db.models import Model
from django.http import HttpRequest
from unfold.paginator import InfinitePaginator

from modelhotel.core.verbadmin import VerbAdmin

M = TypeVar("M", bound=Model)


class LogAdmin(VerbAdmin[M]):
    """No verb stands behind a write of one row, so none is permitted."""

    #: Who may press the buttons that delete.
    deletion: ClassVar[str]
    sortable_by = ()
    show_full_result_count = False
    paginator = InfinitePaginator
    actions = None

    def may_press(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm(self.deletion))

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        context = {"show_history": False, **(extra_context or {})}  # nobody edits a row
        return super().changeform_view(request, object_id, form_url, context)
