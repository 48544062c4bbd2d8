"""What models.dev knows about models: its document read into indexes, and the rules that match an id. Pure.

The document is ``{<provider id>: {"models": {<model id>: {...}}}}`` (models.dev, ``packages/core/src/schema.ts``):
prices in USD per million tokens, limits in tokens. Ids are compared without regard to case.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from providers.discovery.classify import LEGACY, STATED, by_names
from providers.kinds.base import Listed, positive
from providers.kinds.reading import price

_YEAR = re.compile(r"-\d{4}$")
_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_DIGITS = re.compile(r"[-_.:@]?\d{6,}$")
#: What may follow a known id and its ``-``: one number of four digits or more, a month, a day.
_VERSION = re.compile(r"\d{4,}|\d{4}-\d{1,2}(-\d{1,2})?")
_VERSION_PARTS = 3
_WRITES_NO_TEXT = frozenset({"embedding", "rerank", "image", "tts"})


class BadDocument(ValueError):
    """Not a document of models.dev; the text is one line."""


class _Limit(msgspec.Struct, frozen=True, gc=False):
    context: float | None = None
    output: float | None = None


class _Cost(msgspec.Struct, frozen=True, gc=False):
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None


class _Modalities(msgspec.Struct, frozen=True, gc=False):
    input: tuple[str, ...] | None = None
    output: tuple[str, ...] | None = None


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One model as one provider of models.dev has it, by the document's own names."""

    name: str | None = None
    family: str | None = None
    attachment: bool | None = None
    reasoning: bool | None = None
    #: True, or what exactly it can.
    tool_call: bool | dict[str, Any] | None = None
    structured_output: bool | None = None
    modalities: _Modalities | None = None
    cost: _Cost | None = None
    limit: _Limit | None = None

    @property
    def calls_tools(self) -> bool:
        said = self.tool_call
        return said.get("supported") is True if isinstance(said, dict) else said is True

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.modalities and self.modalities.input) or ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.modalities and self.modalities.output) or ()


class _Section(msgspec.Struct):
    models: dict[str, msgspec.Raw] = {}


_sections = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_section = msgspec.json.Decoder(_Section).decode
_entry = msgspec.json.Decoder(Entry).decode


class Index:
    """Entries by id, and the rules by which an id that is not among them still finds one."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, model_id: str) -> Entry | None:
        """The entry of the first candidate that is known."""
        return next((self._entries[name] for name in candidates(model_id) if name in self._entries), None)


def candidates(model_id: str) -> Iterator[str]:
    """The ids under which *model_id* may be known, lower case, nearest first.

    Itself; without leading dot segments (``openai.gpt-oss-120b``); without a year or date; without a run of six digits
    or more; then the longest id before something that is only a date or a version, so that ``gpt-5-search-api`` is
    never ``gpt-5``.
    """
    name = model_id.lower()
    yield name
    rest = name
    while "." in rest:
        rest = rest.partition(".")[2]
        if rest:
            yield rest
    for suffix in (_YEAR, _DATE, _DIGITS):
        if (short := suffix.sub("", name)) != name and short:
            yield short
    cut = len(name)
    for _ in range(_VERSION_PARTS):
        cut = name.rfind("-", 0, cut)
        if cut <= 0:
            return
        if _VERSION.fullmatch(name, cut + 1):
            yield name[:cut]


@dataclass(frozen=True, slots=True)
class Known:
    """The document as two indexes: by its providers, and by model id across all of them."""

    sections: Mapping[str, Index] = field(default_factory=dict)
    everywhere: Index = field(default_factory=lambda: Index({}))

    def find(self, section: str, only: bool, model_ids: Iterable[str]) -> Entry | None:
        """What is known under the first of *model_ids* that is known at all.

        *section*: the provider to ask first, "" = none; *only*: a miss there ends the lookup.
        """
        indexes = [index for index in (self.sections.get(section), None if only else self.everywhere) if index]
        asked = ((model_id, index) for model_id in dict.fromkeys(model_ids) for index in indexes)
        return next((found for model_id, index in asked if (found := index.find(model_id)) is not None), None)


NOTHING = Known()


def read(document: bytes, rank: Callable[[str], int]) -> Known:
    """*document* as indexes. Where several providers have an id, the lowest *rank* of a provider counts, then its id.

    A model or provider that does not fit the schema is left out. Raises BadDocument when nothing fits.
    """
    try:
        raw = _sections(document)
    except (msgspec.DecodeError, RecursionError):
        raise BadDocument("the document is not JSON by provider") from None
    sections: dict[str, dict[str, Entry]] = {}
    everywhere: dict[str, Entry] = {}
    for provider in sorted(raw, key=lambda name: (rank(name), name)):
        if found := dict(_models(raw[provider])):
            sections[provider] = found
            for model_id, entry in found.items():
                everywhere.setdefault(model_id, entry)
    if not everywhere:
        raise BadDocument("the document names no models")
    return Known({provider: Index(found) for provider, found in sections.items()}, Index(everywhere))


def _models(raw: msgspec.Raw) -> Iterator[tuple[str, Entry]]:
    try:
        section = _section(raw)
    except (msgspec.DecodeError, RecursionError):
        return
    for model_id, said in section.models.items():
        try:
            yield model_id.lower(), _entry(said)
        except (msgspec.DecodeError, RecursionError):
            continue


def fill(model: Listed, entry: Entry) -> Listed:
    """*model* with what it does not say itself out of *entry*; the same object when there was nothing to fill."""
    found: dict[str, Any] = dict([*_texts(model, entry), *_numbers(model, entry), *_modalities(model, entry)])
    flags = {flag for flag, on in _flags(entry).items() if on and not model.capabilities.get(flag)}
    if flags:
        found["capabilities"] = {**model.capabilities, **dict.fromkeys(sorted(flags), True)}
    return replace(model, **found) if found else model


def _texts(model: Listed, entry: Entry) -> Iterator[tuple[str, Any]]:
    if entry.name and entry.name != model.display_name and model.display_name in ("", model.model_id):
        yield "display_name", entry.name
    if entry.family and not model.owned_by:
        yield "owned_by", entry.family


def _numbers(model: Listed, entry: Entry) -> Iterator[tuple[str, Any]]:
    limit, cost = entry.limit or _Limit(), entry.cost or _Cost()
    said = {
        "context_length": positive(limit.context),
        "max_output_tokens": positive(limit.output),
        # 0 is how models.dev writes both "free" and "not sold this way".
        "input_price_per_million": price(cost.input) or None,
        "input_price_per_million_cache_hit": price(cost.cache_read) or None,
        "output_price_per_million": price(cost.output) or None,
    }
    return ((name, value) for name, value in said.items() if value is not None and getattr(model, name) is None)


def _modalities(model: Listed, entry: Entry) -> Iterator[tuple[str, Any]]:
    """Not where the provider said it in another form: a class that is final, an arrow, a word for its input."""
    inputs, outputs = entry.inputs, entry.outputs
    said = model.modality.strip().lower()
    if said in STATED or "->" in said:
        return
    if inputs and not model.input_modalities and said not in LEGACY:
        yield "input_modalities", inputs
    # Embedders are written there as "text to text"; their name says more.
    if outputs and not model.output_modalities and not ("text" in outputs and by_names(model) in _WRITES_NO_TEXT):
        yield "output_modalities", outputs


def _flags(entry: Entry) -> dict[str, bool]:
    return {
        "reasoning": entry.reasoning is True,
        "tool_calling": entry.calls_tools,
        "structured_output": entry.structured_output is True,
        "vision": entry.attachment is True and ("image" in entry.inputs or not entry.inputs),
    }
