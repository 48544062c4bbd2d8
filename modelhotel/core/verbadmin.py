"""Admin pages whose every write is a verb.

A write that bypasses its verb leaves stale snapshots and no ``config.changed``. So a :class:`VerbAdmin` hands each
save, delete and bulk delete to a verb; the form shows the verb's refusal at the field it names. Django's own
transaction around the view is left out: verbs hold their own, and some of them talk to the network before it.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import NON_FIELD_ERRORS, ImproperlyConfigured
from django.db import models
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect
from unfold.admin import ModelAdmin

from modelhotel.core.actor import Actor
from modelhotel.core.faults import Refusal

M = TypeVar("M", bound=models.Model)

#: Records one write of an admin form: request, route, entity id, status. The shell sets it.
record_audit: Callable[[HttpRequest, str, str, int], None] = lambda request, route, entity_id, status: None  # noqa: E731


def configure(audit: Callable[[HttpRequest, str, str, int], None]) -> None:
    global record_audit
    record_audit = audit


def actor_of(request: HttpRequest) -> Actor:
    actor: Actor = request.user.actor  # type: ignore[union-attr]
    return actor


class VerbForm(ModelForm):  # type: ignore[type-arg]
    """A form that is valid only once its verb has done the change; the verb's refusal is the form's error."""

    apply: ClassVar[Callable[["VerbForm"], models.Model]]

    def _post_clean(self) -> None:
        """The instance is not touched and the model not validated: both are the verb's business."""

    def is_valid(self) -> bool:
        if not super().is_valid():
            return False
        if not hasattr(self, "_applied"):
            try:
                self._applied = self.instance = type(self).apply(self)
            except Refusal as refusal:
                field = refusal.field if refusal.field in self.fields else NON_FIELD_ERRORS
                self.add_error(None if field == NON_FIELD_ERRORS else field, refusal.text)
                return False
        return True

    def save(self, commit: bool = True) -> Any:
        return self.instance

    def save_m2m(self) -> None:
        """Nothing: verbs write relations too."""


class VerbAdmin(ModelAdmin, Generic[M]):  # type: ignore[misc]
    """Subclasses say which verb stands behind each write; one that is not offered is not permitted."""

    form = VerbForm
    list_per_page = 50

    def __init__(self, model: type[M], admin_site: Any) -> None:
        super().__init__(model, admin_site)
        if self.list_editable or self.inlines:
            raise ImproperlyConfigured(f"{type(self).__name__}: list_editable and inlines would bypass the verbs")

    # -- the verbs ------------------------------------------------------------------------------------------------

    def verb_create(self, request: HttpRequest, data: dict[str, Any]) -> M:
        """*data* are the cleaned fields. Returns the new object; raises Refusal."""
        raise Refusal(405, "this can not be created here")

    def verb_update(self, request: HttpRequest, obj: M, data: dict[str, Any]) -> M:
        """*data* holds only what changed. Returns the object as stored; raises Refusal."""
        raise Refusal(405, "this can not be changed here")

    def verb_delete(self, request: HttpRequest, objects: list[M]) -> int:
        """Deletes all of *objects*; returns how many. Raises Refusal."""
        raise Refusal(405, "this can not be deleted here")

    # -- Django's hooks -------------------------------------------------------------------------------------------

    def get_form(self, request: HttpRequest, obj: M | None = None, change: bool = False, **kwargs: Any) -> Any:
        base = super().get_form(request, obj, change, **kwargs)

        def apply(form: VerbForm) -> models.Model:
            if obj is None:
                return self.verb_create(request, form.cleaned_data)
            changed = {name: form.cleaned_data[name] for name in form.changed_data if name in form.cleaned_data}
            return self.verb_update(request, obj, changed)

        return type(base.__name__, (base,), {"apply": apply})

    def save_model(self, request: HttpRequest, obj: M, form: Any, change: bool) -> None:
        """The verb has written already, in ``VerbForm.is_valid``."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """There are no formsets, see ``__init__``."""

    def delete_model(self, request: HttpRequest, obj: M) -> None:
        self.verb_delete(request, [obj])

    def delete_queryset(self, request: HttpRequest, queryset: "models.QuerySet[M]") -> None:
        self.verb_delete(request, list(queryset))

    @method_decorator(csrf_protect)
    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        response: HttpResponse = self._changeform_view(request, object_id, form_url, extra_context)
        if request.method == "POST":
            # A form shown again (200) was refused; a redirect means that the verb has written.
            status = 400 if response.status_code == 200 else 200
            self._audit(request, "change" if object_id else "add", unquote(object_id) if object_id else "", status)
        return response

    @method_decorator(csrf_protect)
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            response: HttpResponse = self._delete_view(request, object_id, extra_context)
        except Refusal as refusal:
            self.message_user(request, refusal.text, messages.ERROR)
            self._audit(request, "delete", unquote(object_id), refusal.status)
            return HttpResponseRedirect(request.get_full_path())
        if request.method == "POST":
            self._audit(request, "delete", unquote(object_id), 200)
        return response

    def response_action(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        """An action of the change list (bulk delete and others); a refusal becomes a message."""
        try:
            response: HttpResponse | None = super().response_action(request, queryset)
        except Refusal as refusal:
            self.message_user(request, refusal.text, messages.ERROR)
            self._audit(request, request.POST.get("action", "action"), "", refusal.status)
            return HttpResponseRedirect(request.get_full_path())
        if response is None or response.status_code != 200:
            self._audit(request, request.POST.get("action", "action"), "", 200)
        return response

    def _audit(self, request: HttpRequest, route: str, entity_id: str, status: int) -> None:
        record_audit(request, f"{self.opts.app_label}/{self.opts.model_name}/{route}", entity_id, status)
