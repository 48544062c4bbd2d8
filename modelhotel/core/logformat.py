"""How a log record is printed: one line of text or one JSON object, and which debug lines are kept.

A record's *scope* is the text before the first ``:`` of its message (``proxy: failover triggered``), else the name of
its logger. Attributes travel in ``extra={"attrs": {...}}`` and keep their order.
"""

import logging
import re
import time
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

LEVELS = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "ERROR",
}
#: Libraries that narrate at INFO or DEBUG what our own lines say already, or addresses that hold credentials.
QUIET = (
    "apscheduler",
    "asyncio",
    "channels",
    "channels_redis",
    "concurrent",
    "daphne",
    "django.db.backends",
    "django.template",
    "httpcore",
    "httpx",
    "redis",
    "urllib3",
    "uvicorn",
    "websockets",
)
#: Silent below ERROR: a pool without its database warns once per attempt, Django warns once per 4xx.
SILENT = ("psycopg.pool", "django.request")
#: A stranger's malformed Host header is answered with a 400 and deserves no traceback.
MUTE = ("django.security.DisallowedHost",)
#: Loggers of what carries requests. An exception there may quote a prompt or an answer (a key that is not there, a
#: value that is none), so that only its type is told; of the machine and the database its text as well.
CARRIERS = ("proxy", "uvicorn.error")
_LINKS = 10  # of a chain of exceptions
_SPEAKING = ("django.db", "psycopg", "redis", "sqlite3")
_SCOPE = re.compile(r"([A-Za-z][A-Za-z0-9_. -]{0,39}):")
#: Longest text whose quoted form is kept.
_REMEMBERED = 200
_BARE = re.compile(r'[^\s"=\x00-\x1f\x7f]+')
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Said(Struct, gc=False):
    """An INFO line without arguments: what the hot path says. A record to those who print and keep lines."""

    levelno: ClassVar[int] = logging.INFO
    args: ClassVar[None] = None
    exc_info: ClassVar[None] = None
    stack_info: ClassVar[None] = None

    name: str
    msg: str
    told: Mapping[str, object]
    took: float | None
    created: float
    line: Any = None  # of the app log

    @property
    def attrs(self) -> Mapping[str, object]:
        return self.told if self.took is None else _with_duration(self.told, self.took)

    @property
    def msecs(self) -> float:
        return self.created % 1 * 1000

    def getMessage(self) -> str:
        return self.msg

    @property
    def tail(self) -> str:
        tail = _tail(self.told)
        return tail if self.took is None else f"{tail} duration_ms={self.took:.1f}"

    def printed(self) -> str:
        """As :class:`TextFormatter` prints it."""
        created = self.created
        milliseconds = int(created % 1 * 1000)
        return f'time={_second(int(created))}.{milliseconds:03d}Z level=INFO msg="{_message(self.msg)}"{self.tail}'


Record = logging.LogRecord | Said


def scope(record: Record) -> str:
    """Lower case, so that it compares with DEBUG_LOG_SCOPES."""
    return _scope(record.msg, record.name) if isinstance(record.msg, str) else record.name.lower()


@lru_cache(maxsize=1024)
def _scope(message: str, name: str) -> str:
    found = _SCOPE.match(message)
    return (found[1] if found else name).lower()


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        return str(value)
    return msgspec.json.encode(value, enc_hook=str).decode()


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    # Names and ids come again with every line.
    if _BARE.fullmatch(text) and text.isprintable():
        return text
    return '"' + "".join(map(_escape, text)) + '"'


def quoted(value: object) -> str:
    """*value* as it stands after ``key=``: in double quotes where it could be misread, never with a line break."""
    kind = type(value)
    if kind is int or kind is float:
        return str(value)
    text: str = value if kind is str else _plain(value)  # type: ignore[assignment]
    return _quoted(text) if len(text) <= _REMEMBERED else _quoted.__wrapped__(text)


def _named(problem: BaseException) -> str:
    """The type of *problem*, and its text where that is not of a request."""
    kind = type(problem)
    speaks = isinstance(problem, OSError) or kind.__module__.startswith(_SPEAKING)
    return f"{kind.__name__}: {problem}" if speaks else kind.__name__


def _unquoted(problem: BaseException) -> str:
    """The traceback of *problem*, and of what it came of, in the words of :func:`_named`."""
    links: list[str] = []
    link: BaseException | None = problem
    while link is not None and len(links) < _LINKS:
        frames = "".join(traceback.format_tb(link.__traceback__))
        links.append(f"Traceback (most recent call last):\n{frames}{_named(link)}")
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "\n\n".join(reversed(links))


def _attributes(record: Record, formatter: logging.Formatter) -> dict[str, Any]:
    attrs: dict[str, Any] = getattr(record, "attrs", None) or {}
    if not record.exc_info:
        return attrs
    attrs = dict(attrs)
    if record.exc_info and record.exc_info[0] is not None:
        if record.name in CARRIERS and isinstance(record.exc_info[1], BaseException):
            attrs["error"] = _named(record.exc_info[1])
            attrs["trace"] = _unquoted(record.exc_info[1])
        else:
            attrs["error"] = f"{record.exc_info[0].__name__}: {record.exc_info[1]}"
            attrs["trace"] = formatter.formatException(record.exc_info)
    return attrs


@lru_cache(maxsize=4)
def _second(moment: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))


def _moment(record: Record) -> str:
    """RFC 3339, UTC, milliseconds."""
    return f"{_second(int(record.created))}.{int(record.msecs):03d}Z"


@lru_cache(maxsize=1024)
def _message(text: str) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(map(_escape, text))


class Told(dict[str, object]):
    """Attributes that come again with line after line: how they are printed is made once. Not to be changed."""

    __slots__ = ("tail",)

    def __init__(self, attrs: Mapping[str, object]) -> None:
        super().__init__(attrs)
        self.tail = _printed(attrs)


def _printed(attrs: Mapping[str, Any]) -> str:
    return "".join([f" {key}={quoted(value)}" for key, value in attrs.items()])


def _tail(attrs: Mapping[str, Any]) -> str:
    return attrs.tail if type(attrs) is Told else _printed(attrs)


class TextFormatter(logging.Formatter):
    """``time=… level=INFO msg="proxy: failover triggered" attempt=1 provider="My Prov"``"""

    def format(self, record: Record) -> str:
        if isinstance(record, Said):
            return record.printed()
        record.tail = tail = _tail(_attributes(record, self))
        return (
            f"time={_moment(record)} level={LEVELS.get(record.levelno, 'INFO')}"
            f' msg="{_message(record.getMessage())}"{tail}'
        )


class JsonFormatter(logging.Formatter):
    """One object: ``time``, ``level``, ``source`` (the scope), ``msg``, then the attributes."""

    def format(self, record: Record) -> str:
        line: dict[str, Any] = {
            "time": _moment(record),
            "level": LEVELS.get(record.levelno, "INFO"),
            "source": scope(record),
            "msg": record.getMessage(),
        }
        for key, value in _attributes(record, self).items():
            line[f"{key}_" if key in line else key] = value
        return msgspec.json.encode(line, enc_hook=str).decode()


_plain_formatter = logging.Formatter()


def told(record: Record) -> str:
    """The message with its attributes, as the app log keeps it; a trace on lines of its own."""
    if record.exc_info and record.exc_info[0] is not None:
        attrs = dict(_attributes(record, _plain_formatter))
        trace = attrs.pop("trace")
        return f"{record.getMessage()}{_tail(attrs)}\n{trace}"
    tail: str | None = getattr(record, "tail", None)  # the printed line has made it already
    return record.getMessage() + (_tail(_attributes(record, _plain_formatter)) if tail is None else tail)


class ScopeFilter(logging.Filter):
    """Lets debug records through only when everything or their scope is being debugged."""

    def __init__(self, everything: bool, scopes: frozenset[str]) -> None:
        super().__init__()
        self.everything = everything
        self.scopes = scopes

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.INFO or self.everything or scope(record) in self.scopes


class CrashFilter(logging.Filter):
    """Lets through what has a traceback. Django reports every 5xx as an error, also those that a view answered on
    purpose and explained in a line of its own."""

    def filter(self, record: logging.LogRecord) -> bool:
        return bool(record.exc_info)


class LeanRecord(logging.LogRecord):
    """A record that knows only what our lines show; the rest are defaults of the class."""

    pathname = filename = module = funcName = threadName = processName = levelname = ""
    lineno = thread = process = relativeCreated = 0
    exc_text = None

    def __init__(
        self,
        name: str,
        level: int,
        pathname: str,
        lineno: int,
        msg: object,
        args: Any,
        exc_info: Any,
        func: str | None = None,
        sinfo: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.name, self.levelno, self.msg = name, level, str(msg)
        self.args = args[0] if args and len(args) == 1 and isinstance(args[0], Mapping) and args[0] else args
        self.exc_info, self.stack_info = exc_info, sinfo
        self.created = time.time()
        self.msecs = self.created % 1 * 1000


def _with_duration(attrs: Mapping[str, object], took: float) -> dict[str, object]:
    return {**attrs, "duration_ms": round(took, 1)}


#: Takes the lines of :func:`say` in a server, whose only handler it belongs to.
_straight: Callable[[Record], object] | None = None


def straighten(take: Callable[[Record], object] | None) -> None:
    """From now on *take* gets every line that :func:`say` says, past the loggers; None ends it."""
    global _straight
    _straight = take


def say(log: logging.Logger, message: str, attrs: Mapping[str, object], took: float | None = None) -> None:
    """An INFO line of the hot path, without ``Logger``'s detours. *took*: a last attribute ``duration_ms``, apart from
    *attrs* because it alone differs from line to line.
    """
    if _straight is not None:  # a server, which prints every INFO line of ours
        _straight(Said(log.name, message, attrs, took, time.time()))
        return
    if not log.isEnabledFor(logging.INFO):
        return
    record = logging.getLogRecordFactory()(log.name, logging.INFO, "", 0, message, None, None)
    record.attrs = attrs if took is None else _with_duration(attrs, took)
    log.handle(record)


def spare() -> None:
    """Leave out what no line of ours shows: source position, thread, process. That halves a record's cost.

    (Python's logging HOWTO, "Optimization".)
    """
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.setLogRecordFactory(LeanRecord)


def config(form: str, *, debug: bool, scopes: frozenset[str], server: bool) -> Mapping[str, Any]:
    """For ``logging.config.dictConfig``. *form*: ``text`` or ``json``. Lines of a *server* go to stdout by a thread of
    their own; a command's stdout is its answer, so its lines go to stderr."""
    quiet = {name: {"level": "WARNING"} for name in QUIET}
    silent: dict[str, dict[str, Any]] = {name: {"level": "ERROR"} for name in SILENT} | {
        name: {"level": "CRITICAL"} for name in MUTE
    }
    silent["django.request"] |= {"filters": ["crashes"]}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": JsonFormatter if form == "json" else TextFormatter}},
        "filters": {
            "scopes": {"()": ScopeFilter, "everything": debug, "scopes": scopes},
            "crashes": {"()": CrashFilter},
        },
        "handlers": {
            "out": {
                "class": "modelhotel.core.logqueue.QueueHandler" if server else "logging.StreamHandler",
                "formatter": "line",
                "filters": ["scopes"],
            }
        },
        "root": {"level": "DEBUG" if debug or scopes else "INFO", "handlers": ["out"]},
        # Django's own handlers (console in debug mode, mail to administrators) would print a second time.
        "loggers": {**quiet, **silent, "django": {"handlers": [], "level": "INFO", "propagate": True}},
    }
