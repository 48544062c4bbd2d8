"""Admin pages whose every write is a verb.

A write that bypasses its verb leaves stale snapshots and no ``config.changed``. So a :class:`VerbAdmin` hands each
save, delete and bulk delete to a verb; the form shows the verb's refusal at the field it names. Django's own
transaction around the views is left out: verbs hold their own, and some of them talk to the network before it.
What else can be done to an object or a list is a :class:`Button`, always a POST.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

from django.contrib import messages
from django.contrib.admin import ModelAdmin as DjangoModelAdmin
from django.contrib.admin import ShowFacets
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import NON_FIELD_ERRORS, ImproperlyConfigured, PermissionDenied
from django.db import models
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.text import capfirst
from django.views.decorators.csrf import csrf_protect
from unfold.admin import ModelAdmin
from unfold.decorators import display

from modelhotel.core.actor import Actor
from modelhotel.core.faults import Refusal

M = TypeVar("M", bound=models.Model)
F = TypeVar("F", bound=Callable[..., object])

#: Characters of a search that are looked for; SQLite refuses to compare with very long ones.
SEARCH_LIMIT = 500

#: Records the write that a request is: request, status, id of the object. The shell sets it.
record_audit: Callable[[HttpRequest, int, str], None] = lambda request, status, entity_id: None  # noqa: E731


def configure(audit: Callable[[HttpRequest, int, str], None]) -> None:
    global record_audit
    record_audit = audit


def actor_of(request: HttpRequest) -> Actor:
    actor: Actor = request.user.actor  # type: ignore[union-attr]
    return actor


def many(count: int, noun: str) -> str:
    """``1 model``, ``3 models``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def column(
    title: str, *, order: str | None = None, colours: dict[str, str] | None = None, empty: str | None = None
) -> Callable[[F], F]:
    """Makes a method of an admin page a column. *colours*: the text, or the first of two, -> unfold's colour word."""
    decorate: Callable[[F], F] = display(description=title, ordering=order, label=colours, empty_value=empty)
    return decorate


def value_column(name: str, title: str, show: Callable[[Any], Any] = str, *, order: bool = False) -> Callable[..., Any]:
    """A column for the field *name*, shown by *show*; nothing where the field holds none."""

    @column(title, order=name if order else None, empty="-")
    def cell(page: Any, obj: Any) -> Any:
        value = getattr(obj, name)
        return None if value is None or value == "" else show(value)

    return cell


def moment(value: datetime) -> str:
    """An instant in UTC; the site's script turns it into the browser's zone."""
    text = value.astimezone(UTC)
    return format_html('<time datetime="{}">{} UTC</time>', text.isoformat(), f"{text:%Y-%m-%d %H:%M:%S}")


@dataclass(frozen=True, slots=True)
class Button:
    """What can be done to one object (*run* gets it) or to the whole list (*run* gets None), besides save and delete.

    *run* tells its outcome by messages and raises Refusal. *ask* gives the lines of the question that comes first;
    None asks nothing. *shown* says whether it makes sense for this object.
    """

    name: str
    label: str
    run: Callable[["VerbAdmin[Any]", HttpRequest, Any], object]
    icon: str = ""
    ask: Callable[[Any], list[str]] | None = None
    shown: Callable[[Any], bool] = lambda obj: True


#: ``app.model`` -> what apps above add to the pages of a model below them.
_buttons: dict[str, list[Button]] = {}
_effects: dict[str, list[Callable[[Sequence[Any]], list[str]]]] = {}


def add_button(model: str, button: Button) -> None:
    """*button* for each object of *model* (``providers.provider``)."""
    _buttons.setdefault(model, []).append(button)


def before_delete(model: str, effects: Callable[[Sequence[Any]], list[str]]) -> None:
    """*effects* says, a line each, what deleting some objects of *model* does elsewhere."""
    _effects.setdefault(model, []).append(effects)


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


class _NoTransaction(DjangoModelAdmin):  # type: ignore[type-arg]
    """Django's views without ``transaction.atomic`` around them; stands below unfold's in the method order."""

    @method_decorator(csrf_protect)
    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        return self._changeform_view(request, object_id, form_url, extra_context)  # type: ignore[attr-defined]

    @method_decorator(csrf_protect)
    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        return self._delete_view(request, object_id, extra_context)  # type: ignore[attr-defined]


class VerbAdmin(ModelAdmin, _NoTransaction, Generic[M]):  # type: ignore[misc]
    """Subclasses say which verb stands behind each write; one that is not offered is not permitted."""

    form = VerbForm
    list_per_page = 50
    list_fullwidth = True
    show_facets = ShowFacets.NEVER  # a count for each choice of each filter, over the whole table
    change_form_template = "modelhotel/change_form.html"
    change_list_template = "modelhotel/change_list.html"
    delete_confirmation_template = "modelhotel/delete.html"
    delete_selected_confirmation_template = "modelhotel/delete.html"
    #: What the list says when there is nothing at all (a filter that finds nothing says so itself).
    empty_text: ClassVar[str] = ""
    #: Columns that no parameter of the address may ask about: whoever sees the list would read them bit by bit.
    secret_fields: ClassVar[frozenset[str]] = frozenset()
    object_buttons: ClassVar[tuple[Button, ...]] = ()
    list_buttons: ClassVar[tuple[Button, ...]] = ()

    def __init__(self, model: type[M], admin_site: Any) -> None:
        super().__init__(model, admin_site)
        if self.list_editable or self.inlines or self.ordering_field:
            raise ImproperlyConfigured(f"{type(self).__name__}: list_editable and inlines would bypass the verbs")

    # -- the verbs

    def verb_create(self, request: HttpRequest, data: dict[str, Any]) -> M:
        """*data* are the cleaned fields. Returns the new object; raises Refusal."""
        raise Refusal(405, "this can not be created here")

    def verb_update(self, request: HttpRequest, obj: M, data: dict[str, Any]) -> M:
        """*data* holds only what changed, and something did. Returns the object as stored; raises Refusal."""
        raise Refusal(405, "this can not be changed here")

    def verb_delete(self, request: HttpRequest, objects: list[M]) -> int:
        """Deletes all of *objects*; returns how many. Raises Refusal."""
        raise Refusal(405, "this can not be deleted here")

    def _offers(self, verb: str) -> bool:
        return getattr(type(self), verb) is not getattr(VerbAdmin, verb)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._offers("verb_create") and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._offers("verb_update") and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._offers("verb_delete") and super().has_delete_permission(request, obj)

    # -- saving

    def get_form(self, request: HttpRequest, obj: M | None = None, change: bool = False, **kwargs: Any) -> Any:
        base = super().get_form(request, obj, change, **kwargs)

        def apply(form: VerbForm) -> models.Model:
            try:
                return self._apply(request, obj, form)
            except Refusal as refusal:
                request.refused_with = refusal.status  # type: ignore[attr-defined]
                raise

        return type(base.__name__, (base,), {"apply": apply})

    def _apply(self, request: HttpRequest, obj: M | None, form: VerbForm) -> M:
        if obj is None:
            made = self.verb_create(request, form.cleaned_data)
        else:
            changed = {name: form.cleaned_data[name] for name in form.changed_data if name in form.cleaned_data}
            made = self.verb_update(request, obj, changed) if changed else obj
        request.applied_to = str(made.pk)  # type: ignore[attr-defined]
        return made

    def save_model(self, request: HttpRequest, obj: M, form: Any, change: bool) -> None:
        """The verb has written already, in ``VerbForm.is_valid``."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """There are no formsets, see ``__init__``."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        context = {"object_buttons": self._object_buttons(request, object_id), **(extra_context or {})}
        response = super().changeform_view(request, object_id, form_url, context)
        if request.method == "POST":
            done = getattr(request, "applied_to", None)
            # A form shown again is a 200 to the browser and was refused all the same.
            status = getattr(request, "refused_with", 400) if done is None else 200
            if done is not None or response.status_code == 200:
                record_audit(request, status, done or (unquote(object_id) if object_id else ""))
        return response

    # -- deleting

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """What goes, in words: the verbs know of effects that Django's collector does not see."""
        objects = list(objs)
        lines = [line for effects in _effects.get(self.opts.label_lower, ()) for line in effects(objects)]
        counts = {capfirst(self.opts.verbose_name_plural): len(objects)}
        lacking = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        return [*map(str, objects), *lines], counts, lacking, []

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """Called before the deletion, which may yet be refused: see :meth:`_delete`."""
        return None

    def _delete(self, request: HttpRequest, objects: list[M]) -> None:
        self.verb_delete(request, objects)
        super().log_deletions(request, objects)  # type: ignore[arg-type]

    def delete_model(self, request: HttpRequest, obj: M) -> None:
        self._delete(request, [obj])

    def delete_queryset(self, request: HttpRequest, queryset: "models.QuerySet[M]") -> None:
        self._delete(request, list(queryset))

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        try:
            response = super().delete_view(request, object_id, extra_context)
        except Refusal as refusal:
            return self._refused(request, refusal, request.get_full_path(), unquote(object_id))
        if request.method == "POST":
            record_audit(request, 200, unquote(object_id))
        return response

    # -- the list and its actions

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        found: tuple[Any, bool] = super().get_search_results(request, queryset, search_term[:SEARCH_LIMIT])
        return found

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        asked = self.secret_fields.intersection(lookup.split("__"))
        return not asked and bool(super().lookup_allowed(lookup, value, request))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        context = {
            "list_buttons": self.list_buttons if self.may_press(request) else (),
            "empty_text": self.empty_text,
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def response_action(self, request: HttpRequest, queryset: Any, *args: Any, **kwargs: Any) -> HttpResponse | None:
        """An action of the change list (bulk delete and others); a refusal becomes a message."""
        try:
            response: HttpResponse | None = super().response_action(request, queryset, *args, **kwargs)
        except Refusal as refusal:
            return self._refused(request, refusal, request.get_full_path())
        if response is None or response.status_code != 200:
            record_audit(request, 200, "")
        return response

    def question(self, request: HttpRequest, queryset: Any, action: str, title: str, lines: list[str]) -> Any:
        """The page that asks before the bulk *action*; None when it was answered with yes."""
        if "confirmed" in request.POST:
            return None
        pks = [str(pk) for pk in queryset.values_list("pk", flat=True)]
        hidden = [("action", action), ("index", "0"), *((ACTION_CHECKBOX_NAME, pk) for pk in pks)]
        return self._question(request, title, lines, hidden, request.get_full_path())

    def each(self, request: HttpRequest, queryset: Any, run: Callable[[Any], object], done: str) -> None:
        """Run a verb for each row and say how many it did; refusals are told one by one."""
        count = 0
        for obj in queryset:
            try:
                run(obj)
                count += 1
            except Refusal as refusal:
                self.message_user(request, f"{obj}: {refusal.text}", messages.ERROR)
        if count:
            self.message_user(request, f"{many(count, str(self.opts.verbose_name))} {done}.", messages.SUCCESS)

    # -- buttons

    def may_press(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the buttons of *obj* (None: of the list) are there for this user."""
        return self.has_change_permission(request, obj)

    def get_urls(self) -> list[URLPattern]:
        base = f"{self.opts.app_label}_{self.opts.model_name}"
        view = self.admin_site.admin_view(self.button_view)
        own = [
            path("do/<slug:name>/", view, name=f"{base}_do"),
            path("<path:object_id>/do/<slug:name>/", view, name=f"{base}_do_object"),
        ]
        return [*own, *super().get_urls()]

    def _object_buttons(self, request: HttpRequest, object_id: str | None) -> list[tuple[Button, str]]:
        """Each with the address it posts to."""
        obj = self.get_object(request, unquote(object_id)) if object_id else None
        if obj is None or not self.may_press(request, obj):
            return []
        found = [button for button in self._all_buttons() if button.shown(obj)]
        return [(button, self._address("do_object", quote(obj.pk), button.name)) for button in found]

    def _all_buttons(self) -> Iterable[Button]:
        return (*self.object_buttons, *_buttons.get(self.opts.label_lower, ()))

    def _address(self, view: str, *args: str) -> str:
        return reverse(f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_{view}", args=args)

    def button_view(self, request: HttpRequest, name: str, object_id: str | None = None) -> HttpResponse:
        offered = self.list_buttons if object_id is None else self._all_buttons()
        button = next((button for button in offered if button.name == name), None)
        obj = self.get_object(request, unquote(object_id)) if object_id else None
        if button is None or (object_id is not None and (obj is None or not button.shown(obj))):
            raise Http404("no such button")
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.may_press(request, obj):
            raise PermissionDenied
        back = self._address("changelist") if obj is None else self._address("change", quote(obj.pk))
        if button.ask is not None and "confirmed" not in request.POST:
            return self._question(request, f"{button.label}?", button.ask(obj), [], back)
        try:
            button.run(self, request, obj)
        except Refusal as refusal:
            return self._refused(request, refusal, back, str(obj.pk) if obj else "")
        record_audit(request, 200, str(obj.pk) if obj else "")
        return HttpResponseRedirect(back)

    def _question(
        self, request: HttpRequest, title: str, lines: list[str], hidden: list[tuple[str, str]], back: str
    ) -> TemplateResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            "lines": lines,
            "hidden": [*hidden, ("confirmed", "yes")],
            "back": back,
        }
        return TemplateResponse(request, "modelhotel/question.html", context)

    def _refused(self, request: HttpRequest, refusal: Refusal, back: str, entity_id: str = "") -> HttpResponse:
        self.message_user(request, refusal.text, messages.ERROR)
        record_audit(request, refusal.status, entity_id)
        return HttpResponseRedirect(back)
