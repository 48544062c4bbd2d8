"""Sums of the request log by minute, five minutes, hour and day, kept in step with its rows.

Triggers note the minutes whose rows were added, changed or deleted, whoever did it and in the same transaction. A pass
sums such a minute up anew from its rows, in SQL, in one transaction with taking the note away, so a change that comes
meanwhile leaves a note of its own. Longer spans are sums of shorter ones; one whose minutes changed is stale until a
pass has made it anew, and readers (``stats.py``) use the shorter ones until then. The span that is not over is left to
its parts, so a pass costs what has changed since the last one.
"""

import calendar
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.db import DatabaseError, connection, transaction

from modelhotel.core import clock
from requestlogs import measures, plan, ports
from requestlogs.measures import KINDS, MINUTE, SPANS, TRAFFIC
from requestlogs.models import StatMark, StatStale

#: Key of the advisory lock under which sums are written ("mhstats").
_LOCK = 0x6D687374617473
#: Notes read at once.
_NOTES = 20_000
#: Seconds after which a transaction ends: on SQLite all other writers wait for it.
_HOLD = 0.05
#: Seconds of one run of the job, which comes every minute, and how long it keeps others out at a time.
TURN, SLICE = 10.0, 0.5
#: Seconds a reader spends at most on rows that are not summed up yet; the job does the rest of a large backlog.
READERS = 0.3
#: Names in one statement.
_NAMES = 500
_one_at_a_time = threading.Lock()
log = logging.getLogger("requestlog")

_CHANGED = "CASE WHEN TG_OP = 'DELETE' THEN OLD.created_at ELSE NEW.created_at END"
_FUNCTION = f"""
CREATE OR REPLACE FUNCTION request_logs_mark() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE found text := {measures.minute_of("postgresql", f"({_CHANGED})")};
DECLARE told text := txid_current() || ' ' || found;
BEGIN
    -- once per transaction and minute, as far as rows of a minute come together
    IF current_setting('modelhotel.marked', true) IS DISTINCT FROM told THEN
        INSERT INTO stat_marks (minute) VALUES (found);
        PERFORM set_config('modelhotel.marked', told, true);
    END IF;
    RETURN NULL;
END $$"""


def _events() -> Iterator[tuple[str, str, str]]:
    """(name, when, the row that knows its time)"""
    yield "stat_insert", "INSERT", "NEW"
    yield "stat_update", f"UPDATE OF {', '.join(measures.WATCHED)}", "NEW"
    yield "stat_delete", "DELETE", "OLD"


def install(**_: object) -> None:
    """Have the triggers there. After every migration: SQLite loses them where a migration makes a table anew."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for name, when, row in _events():
                minute = measures.minute_of("sqlite", f"{row}.created_at")
                cursor.execute(
                    f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {when} ON request_logs "
                    f"WHEN NOT EXISTS (SELECT 1 FROM stat_marks WHERE minute = {minute}) "
                    f"BEGIN INSERT INTO stat_marks (minute) VALUES ({minute}); END"
                )
            return
        cursor.execute(_FUNCTION)
        for name, when, _row in _events():
            cursor.execute(
                f"CREATE OR REPLACE TRIGGER {name} AFTER {when} ON request_logs "
                "FOR EACH ROW EXECUTE FUNCTION request_logs_mark()"
            )


@contextmanager
def _alone() -> Iterator[Any]:
    """A transaction in which nobody else writes sums: on SQLite because nobody else writes at all."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor != "sqlite":
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        yield cursor


def living() -> str:
    """The parameter of ``measures.living``."""
    return msgspec.json.encode([as_text(str(key)) for key in ports.live_key_ids()]).decode()


def as_text(identity: str) -> str:
    """A UUID as the database writes it as text."""
    return identity.replace("-", "").lower() if connection.vendor == "sqlite" else identity.lower()


def catch_up(seconds: float = 3600.0) -> bool:
    """Sum up minutes whose rows changed, newest first, for about *seconds*; False when some are left.

    Only minutes: what a reader needs. A reader does not wait longer than that for somebody else who does it. Raises
    DatabaseError.
    """
    until = time.monotonic() + seconds
    if not _one_at_a_time.acquire(timeout=seconds):
        return False
    try:
        _note_keys()
        while marks := list(StatMark.objects.order_by("-minute").values_list("minute", flat=True).distinct()[:_NOTES]):
            for _ in _in_short_transactions(_sum_up, plan.runs(_seconds(minute) for minute in marks)):
                if time.monotonic() >= until:
                    return not StatMark.objects.exists()
    finally:
        _one_at_a_time.release()
    return True


def help_readers() -> bool:
    """:func:`catch_up` before figures are read: where sums can not be written (a full disk) those there are count."""
    try:
        return catch_up(READERS)
    except DatabaseError as problem:
        log.warning("requestlog: sums not written", extra={"attrs": {"problem": type(problem).__name__}})
        return False


def turn() -> None:
    """The job: a part of what waits; a stop waits for it no longer than that. Raises DatabaseError."""
    settle(seconds=TURN)


def settle(now: clock.Clock = clock.SYSTEM, seconds: float = 3600.0) -> None:
    """Everything that :func:`catch_up` does, then the longer spans that are over, for about *seconds*.

    Raises DatabaseError.
    """
    until = time.monotonic() + seconds
    # In short turns: a reader gets its own between them.
    while not catch_up(SLICE) and time.monotonic() < until:
        pass
    moment = int(now.now().timestamp())
    with _one_at_a_time:
        for span in SPANS[1:]:
            over = StatStale.objects.filter(span=span, start__lte=moment - span).order_by("-start")
            for _ in _in_short_transactions(_gather, list(over.values_list("span", "start"))):
                if time.monotonic() >= until:
                    return


def _in_short_transactions(work: Callable[[Any, int, int], None], pairs: Sequence[tuple[int, int]]) -> Iterator[None]:
    """*work* on each pair, as many in one transaction as begin within :data:`_HOLD`; yields between transactions."""
    at = 0
    while at < len(pairs):
        with _alone() as cursor:
            until = time.monotonic() + _HOLD
            while at < len(pairs):
                work(cursor, *pairs[at])
                at += 1
                if time.monotonic() >= until:
                    break
        yield


def forget_names() -> int:
    """Drop the names that no sum uses any more; returns how many."""
    count = 0
    with _one_at_a_time, _alone() as cursor:
        for kind in KINDS:
            cursor.execute(f"DELETE FROM {kind.table}_names WHERE id NOT IN (SELECT name FROM {kind.table})")
            count += cursor.rowcount
    return count


def _note_keys() -> None:
    """Models are summed up with and without the rows of keys that are gone: again, where a key went since."""
    names, vendor = f"{TRAFFIC.table}_names", connection.vendor
    gone = "(key <> '' AND key NOT IN (SELECT id FROM living))"
    keys = living()
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {measures.living(vendor)} SELECT id FROM {names} WHERE gone <> {gone}", [keys])
        changed = [name for (name,) in cursor.fetchall()]
    for at in range(0, len(changed), _NAMES):
        some = changed[at : at + _NAMES]
        which = ", ".join(["%s"] * len(some))
        with _alone() as cursor:
            cursor.execute(
                f"INSERT INTO stat_marks (minute) SELECT DISTINCT {measures.minute_at(vendor, 'start')} "
                f"FROM {TRAFFIC.table} WHERE span = {MINUTE} AND name IN ({which})",
                some,
            )
            cursor.execute(f"UPDATE {names} SET gone = NOT gone WHERE id IN ({which})", some)


def _seconds(minute: str) -> int:
    return calendar.timegm(time.strptime(minute, "%Y-%m-%d %H:%M"))


def moment_param(seconds: int) -> Any:
    """A whole second as a parameter. On SQLite without a fraction: times are compared as text."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S") if connection.vendor == "sqlite" else moment


def _sum_up(cursor: Any, first: int, end: int) -> None:
    """The minutes of ``first <= time < end`` from their rows."""
    vendor = connection.vendor
    params = [living(), moment_param(first), moment_param(end)]
    _take_notes(cursor, first, end)
    for kind in KINDS:
        cursor.execute(
            f"DELETE FROM {kind.table} WHERE span = {MINUTE} AND start >= %s AND start < %s",
            [first, end],
        )
        cursor.execute(measures.new_names(vendor, kind), params)
        cursor.execute(measures.new_minutes(vendor, kind), params)
    _make_stale(first, end)


def _take_notes(cursor: Any, first: int, end: int) -> None:
    """Before the rows are read: a note that comes later stays."""
    low, high = (time.strftime("%Y-%m-%d %H:%M", time.gmtime(moment)) for moment in (first, end))
    cursor.execute("DELETE FROM stat_marks WHERE minute >= %s AND minute < %s", [low, high])


def _make_stale(first: int, end: int) -> None:
    longer = [
        StatStale(span=span, start=start)
        for span in SPANS[1:]
        for start in range(plan.floor(first, span), plan.ceil(end, span), span)
    ]
    StatStale.objects.bulk_create(longer, ignore_conflicts=True)


def _gather(cursor: Any, span: int, start: int) -> None:
    """One longer span from the next shorter ones; left stale while one of those is."""
    part, end = SPANS[SPANS.index(span) - 1], start + span
    if StatStale.objects.filter(span=part, start__gte=start, start__lt=end).exists():
        return
    for kind in KINDS:
        cursor.execute(f"DELETE FROM {kind.table} WHERE span = %s AND start = %s", [span, start])
        cursor.execute(measures.longer(kind), [span, start, part, start, end])
    StatStale.objects.filter(span=span, start=start).delete()


def stale() -> dict[int, Sequence[int]]:
    """The longer spans that readers must not use."""
    return dict(plan.by_span(StatStale.objects.values_list("span", "start")))
