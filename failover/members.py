"""The members of a group as a form field: an ordered list that is editable without a script.

Each row has a position number, an on/off box and a box that takes it out; selects below add members. The page's script
only adds buttons that move rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.template.loader import render_to_string

#: Selects for new members that the form offers without a script.
BLANKS = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One member as the form shows it; *circuit* is empty where nothing is known."""

    id: str
    label: str
    on: bool = True
    note: str = ""
    circuit: str = ""


@dataclass(frozen=True, slots=True)
class Members:
    """What a form holds: member ids in priority order, and those that are switched off."""

    order: tuple[str, ...] = ()
    off: frozenset[str] = field(default_factory=frozenset)

    @property
    def toggles(self) -> dict[str, bool]:
        return {member: member not in self.off for member in self.order}


def read(data: Mapping[str, Any], names: Sequence[str], added: Sequence[str], prefix: str) -> Members:
    """The members of a submitted form: *names* were shown, *added* were chosen anew. Raises ValidationError.

    Equal positions keep the order they were shown in.
    """
    placed: list[tuple[float, int, str]] = []
    for index, member in enumerate(names):
        if data.get(f"{prefix}-{member}-out"):
            continue
        text = str(data.get(f"{prefix}-{member}-at", "")).strip()
        if not text.isascii() or not text.isdigit() or len(text) > 6:
            raise ValidationError("A position must be a whole number.")
        placed.append((int(text), index, member))
    order = [member for _, _, member in sorted(placed)]
    order += [member for member in dict.fromkeys(added) if member and member not in order]
    off = frozenset(member for member in names if not data.get(f"{prefix}-{member}-on"))
    return Members(tuple(order), off & set(order))


class MembersWidget(forms.Widget):
    """*rows* and *choices* are set by the form: rows by id, and (id, label) of what may be added."""

    template_name = "failover/members.html"
    rows: Callable[[Sequence[str]], list[Row]]
    choices: Sequence[tuple[str, str]] = ()

    class Media:
        js = ("modelhotel/members.js",)

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, value, attrs)
        members = value if isinstance(value, Members) else Members()
        shown = set(members.order)
        context["rows"] = [
            (at, row, row.id not in members.off) for at, row in enumerate(self.rows(members.order), start=1)
        ]
        context["choices"] = [choice for choice in self.choices if choice[0] not in shown]
        context["blanks"] = range(BLANKS)
        return context

    def _render(self, template_name: str, context: dict[str, Any], renderer: Any = None) -> Any:
        """By the project's templates; the renderer of forms only knows those of installed apps."""
        return render_to_string(template_name, context)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        try:
            return read(data, data.getlist(name), data.getlist(f"{name}-add"), name)
        except ValidationError as problem:
            return problem

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        return False


class MembersField(forms.Field):
    widget = MembersWidget

    def to_python(self, value: Any) -> Members:
        if isinstance(value, ValidationError):
            raise value
        return value if isinstance(value, Members) else Members()

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(initial != data)
