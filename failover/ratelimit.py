"""What a 429 says: busy for a moment, spent for longer, or nothing we can read (failover-loop 7). Pure.

The phrase table decides first, then the wait that the answer itself states. Phrases are looked for in the lower-cased
beginning of the body; waits are read from ``Retry-After`` and ``X-RateLimit-Reset-*``, from a ``retryDelay`` member,
and from words such as ``try again in 20ms``. Nothing here raises, whatever a provider sends. All waits are seconds.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import NamedTuple

from modelhotel.core import durations, text

#: Bytes of a body that are looked at, and characters of what they say.
BODY_READ = 16 * 1024
TEXT_READ = 10_000

DAY = 24 * 3600.0
#: What the rows of the phrase table claim: until someone pays, a week's window, a window of hours.
PAID = 90 * DAY
WEEK = 2 * 3600.0
WINDOW = 30 * 60.0
#: The wait of a busy provider that names none.
DEFAULT_WAIT = 2.0
#: A body that asks for more than this is not believed; a header is, but nothing longer than the second is handed on.
BODY_WAIT_MAX = 30 * DAY
HEADER_WAIT_MAX = 3650 * DAY

Headers = Iterable[tuple[bytes, bytes]]
"""Names lower-cased."""


class RateClass(StrEnum):
    SATURATED = "saturated"  # a slot or a per-minute budget is full: seconds
    EXHAUSTED = "exhausted"  # a usage window or the balance is spent
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reading:
    """*phrase*: the row of the table that matched, empty where a wait decided. *retry_after*: how long a saturated
    provider wants to be left alone; *pin_hint*: how long an exhausted one claims to stay so. *stated*: the wait that
    an answer which is not exhausted names itself, 0 = none. *entitled*: a person must pay or change plan; *account*:
    every model of the provider is meant.
    """

    kind: RateClass
    phrase: str = ""
    retry_after: float = 0.0
    pin_hint: float = 0.0
    stated: float = 0.0
    entitled: bool = False
    account: bool = False


class Row(NamedTuple):
    """*name* stands in the body, and so does *also*. *hint*: what an exhausted row claims; 0 = a saturated row."""

    name: str
    also: str = ""
    hint: float = 0.0
    entitled: bool = False
    account: bool = False


#: In this order: what is spent before what is busy, long windows before short ones. "limit exhausted" needs its second
#: text, or "concurrency limit exhausted, retry shortly" would never reach its own row.
TABLE: tuple[Row, ...] = (
    Row("no resource package", hint=PAID, entitled=True),  # this model is outside the plan, the others are not
    Row("insufficient balance", hint=PAID, entitled=True, account=True),
    Row("please recharge", hint=PAID, entitled=True, account=True),
    Row("insufficient_quota", hint=PAID, entitled=True, account=True),
    Row("exceeded your current quota", hint=PAID, entitled=True, account=True),
    Row("billing hard limit", hint=PAID, entitled=True, account=True),
    Row("credit balance is too low", hint=PAID, entitled=True, account=True),
    Row("limit exhausted", also="reset", hint=WEEK),
    Row("weekly usage limit", hint=WEEK),
    Row("usage limit reached", hint=WINDOW),
    Row("session usage limit", hint=WINDOW),
    Row("usage limit", also="upgrade", hint=WINDOW),
    Row("overage_limit", hint=WINDOW),
    Row("concurrent_budget_exceeded"),
    Row("rate_limit_error", also="concurr"),
    Row("too many concurrent"),
    Row("concurrency limit"),
    Row("rate limit exceeded"),
    Row("requests per minute"),
    Row("tokens per minute"),
    Row("please try again in"),
    Row("overloaded"),
    Row("slow down"),
)
#: MiniMax says what happened with a number; looked for after the phrases, in this order.
MINIMAX: tuple[tuple[str, Row], ...] = (
    ("1008", Row("minimax status_code 1008", hint=PAID, entitled=True, account=True)),
    ("1039", Row("minimax status_code 1039", hint=WINDOW)),
)
#: Every name a reading's *phrase* can have.
PHRASES: tuple[str, ...] = (*(row.name for row in TABLE), *(row.name for _, row in MINIMAX))
#: Those that need a person to pay.
ENTITLED: tuple[str, ...] = tuple(row.name for row in TABLE if row.entitled)

_MINIMAX_CODE = re.compile(r'"status_code"\s*:\s*(1008|1039)(?![0-9.])')


def read(body: bytes, headers: Headers, *, now: float, ceiling: float) -> Reading:
    """The class of a 429. *now* is POSIX time; a wait above *ceiling* is a window, one up to it a slot."""
    said = lowered(body)
    header, stated = header_wait(headers, now=now), body_wait(said)
    row = _row(said)
    if row is None:
        return _by_wait(header or stated.seconds, ceiling)
    if row.hint:
        return _exhausted(row, header, stated, ceiling)
    longest = max(header, stated.seconds)
    if longest > ceiling:
        return Reading(RateClass.EXHAUSTED, row.name, pin_hint=longest)
    return Reading(RateClass.SATURATED, row.name, retry_after=longest or DEFAULT_WAIT, stated=longest)


def unread(headers: Headers, *, now: float) -> Reading:
    """A 429 while classification is off: the body is left alone."""
    return Reading(RateClass.UNKNOWN, stated=header_wait(headers, now=now))


def busy() -> Reading:
    """Nobody said for how long: an unrecognised 429 of a circuit that served a moment ago, or no room to ask at all."""
    return Reading(RateClass.SATURATED, retry_after=DEFAULT_WAIT)


def lowered(body: bytes) -> str:
    """The beginning of *body* as the table is matched against it: sanitised, lower case."""
    whole = body[:BODY_READ].decode("utf-8", "replace")
    return text.clip(text.without_uuids(whole), TEXT_READ).lower()


def _row(said: str) -> Row | None:
    for row in TABLE:
        if row.name in said and row.also in said:
            return row
    codes = {found[1] for found in _MINIMAX_CODE.finditer(said)}
    return next((row for code, row in MINIMAX if code in codes), None)


def _by_wait(wait: float, ceiling: float) -> Reading:
    if wait <= 0:
        return Reading(RateClass.UNKNOWN)
    if wait <= ceiling:
        return Reading(RateClass.SATURATED, retry_after=wait, stated=wait)
    return Reading(RateClass.EXHAUSTED, pin_hint=wait)


def _exhausted(row: Row, header: float, body: "BodyWait", ceiling: float) -> Reading:
    """A refusal that names its own reopening is a window, not a bill; one of seconds, in a machine's words, a slot."""
    if header <= ceiling and body.seconds > ceiling:
        return Reading(RateClass.EXHAUSTED, row.name, pin_hint=body.seconds)
    if header <= ceiling and body.structured:
        return Reading(RateClass.SATURATED, row.name, retry_after=body.seconds, stated=body.seconds)
    hint = header if header > ceiling else row.hint
    return Reading(RateClass.EXHAUSTED, row.name, pin_hint=hint, entitled=row.entitled, account=row.account)


# -- waits stated in headers

_RETRY_AFTER = b"retry-after"
_RESETS = frozenset((b"x-ratelimit-reset-requests", b"x-ratelimit-reset-tokens", b"x-ratelimit-reset"))
_NOTHING_LEFT = frozenset(
    (name, b"0")
    for name in (b"x-ratelimit-remaining-requests", b"x-ratelimit-remaining-tokens", b"x-ratelimit-remaining")
)
_SECONDS = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_INTEGER = re.compile(r"-?[0-9]+")
_DATE = re.compile(r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? ", re.IGNORECASE)
#: An integer below the first is seconds from now, below the second Unix seconds, else Unix milliseconds.
_UNIX_SECONDS = 1e9
_UNIX_MILLISECONDS = 1e12


def header_wait(headers: Headers, *, now: float) -> float:
    """The wait that *headers* state, 0 = none: ``Retry-After``, else the longest reset."""
    after: float | None = None
    longest = 0.0
    for name, value in headers:
        if name == _RETRY_AFTER and after is None:
            after = retry_after(value, now=now)
        elif name in _RESETS:
            longest = max(longest, _reset(value, now=now))
    return after if after is not None and after > 0 else longest


def retry_after(value: bytes, *, now: float) -> float | None:
    """Seconds of one ``Retry-After``; 0 for none, none left, or a date that has passed. None: it can not be read."""
    words = value.decode("latin-1").strip()
    if _SECONDS.fullmatch(words):
        return math.ceil(_bounded(float(words)))
    if not _DATE.match(words):
        return None
    try:
        moment = parsedate_to_datetime(words)
        return _bounded((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _reset(value: bytes, *, now: float) -> float:
    words = value.decode("latin-1").strip()
    if _INTEGER.fullmatch(words):
        number = float(words)
        if number < _UNIX_SECONDS:
            return _bounded(number)
        return _bounded((number if number < _UNIX_MILLISECONDS else number / 1000) - now)
    try:
        return _bounded(durations.parse(words))
    except ValueError:
        return 0.0


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), HEADER_WAIT_MAX)


def remaining_zero(headers: Headers) -> bool:
    """Whether a response says that nothing is left of some budget: a remaining count of exactly ``0``."""
    return not _NOTHING_LEFT.isdisjoint(headers)  # asked of every answer


# -- waits stated in a body


class BodyWait(NamedTuple):
    """*structured*: a machine's member said it, not free text."""

    seconds: float = 0.0
    structured: bool = False


_NONE = BodyWait()
_DELAY = re.compile(r'(?<!\\)"retrydelay"\s*:\s*"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)s"')
_LEAD = r"\b(?:retry|try again)\s+(?:in|after)\s+"
#: "20ms" is no "20m": what follows the run must not go on as a word or a number.
_RUN = re.compile(_LEAD + r"((?:[0-9]+(?:\.[0-9]+)?(?:ms|[dhms]))+)(?![^\W_])")
_WORDS = re.compile(_LEAD + r"([0-9]+(?:\.[0-9]+)?) (second|sec|minute|min|hour|day)s?\b")
_UNITS = {"sec": 1.0, "min": 60.0, "hou": 3600.0, "day": DAY}


def body_wait(said: str) -> BodyWait:
    """The first plausible wait in *said*, a lower-cased body; an implausible one does not hide the next."""
    for found in _DELAY.finditer(said):
        if _plausible(seconds := float(found[1])):
            return BodyWait(seconds, structured=True)
    for found in _RUN.finditer(said):
        if _plausible(seconds := _run(found[1])):
            return BodyWait(seconds)
    for found in _WORDS.finditer(said):
        if _plausible(seconds := float(found[1]) * _UNITS[found[2][:3]]):
            return BodyWait(seconds)
    return _NONE


def _plausible(seconds: float) -> bool:
    return 0 < seconds <= BODY_WAIT_MAX


_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[dhms])")
_PART_UNITS = {"d": DAY, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}


def _run(words: str) -> float:
    return sum(float(number) * _PART_UNITS[unit] for number, unit in _PART.findall(words))
