"""Runtime settings: one typed registry, one immutable snapshot of the values in force.

An :class:`Option` is declared once (``catalogue.py``) and is its own key for reading::

    current()[catalogue.REQUEST_TIMEOUT]      # -> 60.0, seconds

Reading never fails and never touches the database: an unreadable stored value reads as the last good value of
this process, else as the default, with one warning per key and distinct bad value.
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast

from modelhotel.core import durations
from modelhotel.core.snapshots import Snapshot

T = TypeVar("T")
Kind = Literal["bool", "int", "float", "duration", "enum", "csv"]
log = logging.getLogger("settings")

DAY = 86400.0
MAX_DURATION = 8760 * 3600.0
MAX_LENGTH = 500
#: What a variable says to switch something off, in any letter case.
_OFF = ("false", "0", "no")
_TRUE, _FALSE = {"true", "1", "t", "T", "TRUE", "True"}, {"false", "0", "f", "F", "FALSE", "False"}


class BadValue(ValueError):
    """A text that is no value of its option; ``str()`` is the full answer, the key included."""


@dataclass(frozen=True, slots=True, eq=False)
class Option(Generic[T]):
    """One runtime setting.

    *minimum*/*maximum* bound numbers (durations in seconds); *positive* means zero is refused. *env* names the
    environment variable that fixes the value, *env_default* the one that supplies its default, *kill_switch* the one
    that holds a bool at false while it is false itself. *slider* is what the page draws: (low, high, step). *notice*
    warns of what switching it on costs.
    """

    key: str
    kind: Kind
    default: str
    section: str
    label: str
    help: str
    group: str = ""
    minimum: float | None = None
    maximum: float | None = None
    positive: bool = False
    unit: str = ""
    choices: tuple[str, ...] = ()
    env: str | None = None
    env_default: str | None = None
    kill_switch: str | None = None
    slider: tuple[float, float, float] | None = None
    zero_word: str = ""
    tokens: Mapping[str, float] | None = None
    check: Callable[[str], None] | None = None
    in_form: bool = True
    notice: str = ""

    def parse(self, text: str, *, strict: bool = True) -> T:
        """The value that *text* spells. *strict* is the rule for writes, else the wider one for stored text.

        Raises BadValue.
        """
        return cast(T, _PARSERS[self.kind](self, text, strict))

    def in_range(self, value: float, show: Callable[[float], str]) -> None:
        if self.positive and value == 0 and self.kind == "duration":
            raise BadValue(f"{self.key} must be greater than 0s")
        low = self.minimum if self.minimum is not None else -math.inf
        high = self.maximum if self.maximum is not None else math.inf
        if not low <= value <= high:
            raise BadValue(f"{self.key} must be between {show(low)} and {show(high)}")


def _bool(option: Option[Any], text: str, strict: bool) -> bool:
    if text == "true" or (not strict and text in _TRUE):
        return True
    if text == "false" or (not strict and text in _FALSE):
        return False
    raise BadValue(f"{option.key} must be true or false")


def _plain(number: float) -> str:
    return f"{number:.10f}".rstrip("0").rstrip(".") if number % 1 else str(int(number))


def _int(option: Option[Any], text: str, strict: bool) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(text) > MAX_LENGTH:
        raise BadValue(f"{option.key} must be a number")
    if option.check:
        option.check(text)
    option.in_range(int(text), _plain)
    return int(text)


def _float(option: Option[Any], text: str, strict: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not text.isascii() or text != text.strip() or "_" in text:
        raise BadValue(f"{option.key} must be a number")
    option.in_range(value, _plain)
    return value


def show_duration(seconds: float) -> str:
    """``10m``, ``0s``, ``8760h``: a bound as the answer prints it."""
    return durations.short(seconds) if seconds else "0s"


def _duration(option: Option[Any], text: str, strict: bool) -> float:
    if option.tokens and text in option.tokens:
        return option.tokens[text]
    try:
        value = durations.parse(text)
    except ValueError:
        raise BadValue(f"{option.key} must be a duration such as 30s or 1m0s") from None
    option.in_range(value, show_duration)
    if option.check:
        option.check(text)
    return value


def _enum(option: Option[Any], text: str, strict: bool) -> str:
    if text not in option.choices:
        raise BadValue(f"{option.key} must be one of {', '.join(option.choices)}")
    return text


def _csv(option: Option[Any], text: str, strict: bool) -> tuple[str, ...]:
    items = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if option.check:
        for item in items:
            option.check(item)
    return items


_PARSERS: dict[str, Callable[[Option[Any], str, bool], object]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "duration": _duration,
    "enum": _enum,
    "csv": _csv,
}


class Options:
    """The values in force at one moment. Immutable; swapped whole when something changes.

    *texts* spells each of them as it was written; *stored* are the rows, good or bad.
    """

    __slots__ = ("_values", "stored", "texts")

    def __init__(
        self, values: dict[str, object], stored: dict[str, str], texts: Mapping[str, str] | None = None
    ) -> None:
        self._values = values
        self.stored = stored
        self.texts = texts or {}

    def __getitem__(self, option: Option[T]) -> T:
        return self._values[option.key]  # type: ignore[return-value]


class Registry:
    """Every option there is, and how the environment and the stored rows become values."""

    def __init__(self) -> None:
        self.options: dict[str, Option[Any]] = {}
        #: Key -> (text, value) of the last text that was a value.
        self._good: dict[str, tuple[str, object]] = {}
        self._warned: set[tuple[str, str]] = set()

    def forget(self) -> None:
        """Drop the last good values and what was warned about (tests)."""
        self._good.clear()
        self._warned.clear()

    def add(self, option: Option[T]) -> Option[T]:
        if option.key in self.options:
            raise ValueError(f"option declared twice: {option.key}")
        option.parse(option.default)
        self.options[option.key] = option
        return option

    def fixed(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Key -> text of the options that the environment fixes. Raises BadValue (the start then fails)."""
        found: dict[str, str] = {}
        for option in self.options.values():
            if option.kill_switch and environ.get(option.kill_switch, "").strip().lower() in _OFF:
                found[option.key] = "false"
            if option.env and (text := environ.get(option.env, "").strip()):
                text = _as_setting(option, text)
                try:
                    option.parse(text)
                except BadValue as problem:
                    raise BadValue(f"{option.env}: {problem}") from problem
                found[option.key] = text
        return found

    def default_of(self, option: Option[Any], environ: Mapping[str, str]) -> str:
        """What holds without a row: the environment's starting default, else the built-in one."""
        return (environ.get(option.env_default, "").strip() if option.env_default else "") or option.default

    def values(self, stored: Mapping[str, str], environ: Mapping[str, str]) -> Options:
        """What is in force: fixed by the environment, else stored, else the environment's default, else built in."""
        fixed = self.fixed(environ)
        found: dict[str, tuple[str, object]] = {}
        for key, option in self.options.items():
            text = fixed.get(key, stored.get(key, self.default_of(option, environ)))
            try:
                found[key] = self._good[key] = (text, option.parse(text, strict=False))
            except BadValue as problem:
                self._warn(key, text, problem)
                found[key] = self._good.get(key) or (option.default, option.parse(option.default))
        values = {key: value for key, (_, value) in found.items()}
        return Options(values, dict(stored), {key: text for key, (text, _) in found.items()})

    def _warn(self, key: str, text: str, problem: BadValue) -> None:
        """Once per key and distinct bad value, not per read."""
        if (key, text) in self._warned:
            return
        self._warned.add((key, text))
        log.warning("settings: stored value ignored", extra={"attrs": {"key": key, "problem": str(problem)}})


def _as_setting(option: Option[Any], text: str) -> str:
    """*text* of a variable in the form of the setting: the environment spells booleans and seconds more freely."""
    if option.kind == "bool":
        word = text.lower()
        return "true" if word in ("true", "1", "yes") else "false" if word in _OFF else text
    if option.kind == "duration" and text.isascii() and text.isdigit() and text != "0":
        return text + "s"
    return text


REGISTRY = Registry()

#: Where stored rows and the environment come from; the shell sets both before the first read.
load_stored: Callable[[], Mapping[str, str]] = dict
environ: Mapping[str, str] = {}


def configure(stored: Callable[[], Mapping[str, str]], env: Mapping[str, str]) -> None:
    """The shell hands over how to read the stored rows, and the environment."""
    global load_stored, environ
    load_stored, environ = stored, env


def _build() -> Options:
    return REGISTRY.values(load_stored(), environ)


SNAPSHOT: Snapshot[Options] = Snapshot("options", ("settings",), _build, lambda: REGISTRY.values({}, environ))


def current() -> Options:
    """The options in force; one attribute read, for the hot path."""
    return SNAPSHOT.current


def derived(read: Callable[[Options], T]) -> Callable[[Options], T]:
    """What *read* makes of options, made anew only when they are not those of the last call."""
    last: tuple[Options, T] | None = None

    def of(values: Options) -> T:
        nonlocal last
        kept = last
        if kept is None or kept[0] is not values:
            kept = last = values, read(values)
        return kept[1]

    return of


def on_change(option: Option[T], tell: Callable[[T], None]) -> Callable[[], None]:
    """Call *tell* with the new value whenever that of *option* changes; the returned callable ends it.

    *tell* runs in the thread that installs the snapshot and must not block.
    """
    last = current()[option]

    def compare(options: Options) -> None:
        nonlocal last
        value = options[option]
        if value != last:
            last = value
            tell(value)

    SNAPSHOT.listeners.append(compare)
    return lambda: SNAPSHOT.listeners.remove(compare) if compare in SNAPSHOT.listeners else None
