"""The app log: lines wait in memory, are written in batches, and are lost only in numbers that are told."""

import gc
import logging
import threading
import uuid
import weakref

import pytest
from django.db import DatabaseError, OperationalError

from modelhotel.core import logformat
from modelhotel.core.clock import ManualClock
from requestlogs import applog
from requestlogs.models import AppLog
from tests.wire.product import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
SECRET = "sk-live-0123456789abcdefghij"


def record(message, level=logging.INFO, name="proxy", exc_info=None, **attrs):
    made = logformat.LeanRecord(name, level, "", 0, message, (), exc_info)
    if attrs:
        made.attrs = attrs
    return made


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def lines(clock):
    found = applog.Lines(clock, lambda: ("plain-provider-key",))
    found.node = "n1"
    yield found
    found.stop(5)


@pytest.fixture
def said(caplog):
    """What the app log says about itself, level and attributes."""
    caplog.set_level(logging.DEBUG, "applog")
    return lambda: [(r.getMessage(), r.attrs) for r in caplog.records if r.name == "applog"]


def rows():
    return list(AppLog.objects.order_by("timestamp", "id"))


def test_a_line_becomes_a_row(lines):
    made = record("proxy: failover triggered", logging.WARNING, attempt=1, provider="My Prov")
    lines.take([made])
    assert lines.flush()
    (row,) = rows()
    assert (row.level, row.source, row.node) == ("warning", "proxy", "n1")
    assert row.message == 'proxy: failover triggered attempt=1 provider="My Prov"'
    assert abs(row.timestamp.timestamp() - made.created) < 1e-5
    assert row.id.version == 7


def test_a_line_of_the_hot_path_becomes_a_row_as_it_was_printed(lines):
    said = []
    logformat.straighten(said.append)
    try:
        logformat.say(logging.getLogger("proxy"), "proxy: routing to provider", {"provider": "A B"}, 4.25)
    finally:
        logformat.straighten(None)
    lines.take(said)
    (recent,) = lines.recent()
    assert lines.flush()
    (row,) = rows()
    assert recent.message == row.message == 'proxy: routing to provider provider="A B" duration_ms=4.2'
    assert logformat.TextFormatter().format(said[0]).endswith(f'msg="proxy: routing to provider"{row.message[26:]}')


@pytest.mark.parametrize(
    ("level", "word"),
    [
        (logging.DEBUG, "debug"),
        (logging.INFO, "info"),
        (logging.WARNING, "warning"),
        (logging.ERROR, "error"),
        (logging.CRITICAL, "error"),
    ],
)
def test_levels_have_four_words(lines, level, word):
    lines.take([record("a: b", level)])
    assert lines.recent()[0].level == word


def test_a_printed_line_and_a_json_line_are_kept_alike(lines):
    printed, plain = record("a: b", x="y z"), record("a: b", x="y z")
    logformat.TextFormatter().format(printed)
    logformat.JsonFormatter().format(plain)
    lines.take([printed, plain])
    assert [line.message for line in lines.recent()] == ['a: b x="y z"'] * 2


def test_a_trace_stands_on_lines_of_its_own(lines):
    try:
        raise ValueError("broken thing")
    except ValueError as problem:
        lines.take([record("jobs: failed", logging.ERROR, "jobs", (ValueError, problem, problem.__traceback__))])
    head, *trace = lines.recent()[0].message.splitlines()
    assert head == 'jobs: failed error="ValueError: broken thing"'
    assert (trace[0], trace[-1]) == ("Traceback (most recent call last):", "ValueError: broken thing")


def test_a_kept_trace_keeps_nothing_else(lines):
    """What the failed code held (the body of a request, say) is not held by its line."""

    class Body:
        pass

    def fail():
        body = Body()
        held.append(weakref.ref(body))
        raise ValueError("broken thing")

    held = []
    try:
        fail()
    except ValueError as problem:
        lines.take([record("jobs: failed", logging.ERROR, "jobs", (ValueError, problem, problem.__traceback__))])
    gc.collect()
    assert held[0]() is None
    assert "broken thing" in lines.recent()[0].message


def test_keys_are_masked_in_memory_and_in_the_table(lines):
    """settings 72. Whatever a line was given by mistake: a provider's key, anything shaped like a key."""
    lines.take([record("proxy: odd", detail=f"key {SECRET} and plain-provider-key"), record("proxy: nul\0")])
    lines.flush()
    told = [line.message for line in lines.recent()] + [row.message for row in rows()]
    assert told[0] == told[2] == 'proxy: odd detail="key [redacted] and [redacted]"'
    assert told[1] == told[3] == "proxy: nul�"


def test_a_placeholder_for_a_key_leaves_the_lines_readable():
    """A local server takes any key, so people give it one such as x."""
    told = applog.masked("proxy: next candidate for ollama", ["plain-provider-key", "ollama", "x"])
    assert told == "proxy: next candidate for ollama"


def test_the_ids_of_one_process_sort_by_time(lines):
    lines.take([record(f"a: {n}") for n in range(300)])
    found = lines.recent()
    by_time = sorted(found, key=lambda line: line.at)
    assert [line.id[:13] for line in sorted(found)] == [line.id[:13] for line in by_time]
    assert len({line.id for line in found}) == 300


def test_memory_keeps_the_newest(lines, monkeypatch):
    lines.take([record(f"a: {n}") for n in range(applog.KEEP + 3)])
    found = [line.message for line in lines.recent()]
    assert (len(found), found[0], found[-1]) == (applog.KEEP, "a: 3", f"a: {applog.KEEP + 2}")


def test_a_full_queue_loses_the_oldest_debug_and_info_lines_first_and_counts_them(lines, monkeypatch):
    monkeypatch.setattr(applog, "LIMIT", 4)
    lines.take([record("a: old error", logging.ERROR), *(record(f"a: {n}") for n in range(4))])
    lines.take([record("a: new warning", logging.WARNING)])
    assert (lines.queued, lines.lost) == (4, 2)
    lines.flush()
    assert [row.message for row in rows()] == ["a: old error", "a: 2", "a: 3", "a: new warning"]
    lines.take([record(f"a: error {n}", logging.ERROR) for n in range(6)])
    lines.flush()
    assert lines.lost == 4
    assert rows()[-1].message == "a: error 5"


def test_what_is_lost_is_told_once_a_minute(lines, monkeypatch, clock, said):
    monkeypatch.setattr(applog, "LIMIT", 1)
    for _ in range(3):
        lines.take([record("a: 1"), record("a: 2")])
        lines._turn()
    assert said() == [("applog: lines lost", {"count": 1, "total": 1})]
    clock.advance(60)
    lines._turn()
    assert said()[1:] == [("applog: lines lost", {"count": 2, "total": 3})]


def test_a_database_that_is_away_costs_nothing_but_waiting(lines, monkeypatch, clock, said):
    """Lines wait, the trouble is told once a minute, and nothing is written twice afterwards."""
    monkeypatch.setattr(applog, "LIMIT", 5)
    real, away = applog._insert, [True]

    def insert(found):
        if away[0]:
            raise OperationalError(f"database is locked {SECRET}")
        real(found)

    monkeypatch.setattr(applog, "_insert", insert)
    for n in range(4):
        lines.take([record(f"a: {n}"), record(f"b: {n}", logging.ERROR)])
        assert not lines.flush()
    assert [text for text, _ in said()] == ["applog: lines wait for the database"]
    assert SECRET not in str(said())
    assert (lines.queued, lines.lost) == (5, 3)
    away[0] = False
    assert lines.flush()
    assert [row.message for row in rows()] == ["b: 0", "b: 1", "b: 2", "a: 3", "b: 3"]


def test_what_the_app_log_says_of_itself_does_not_feed_on_itself(lines, monkeypatch, clock):
    """A day without a database, every complaint taken in again: one line a minute and kind, never more."""

    def refuse(found):
        raise OperationalError("no disk left")

    monkeypatch.setattr(applog, "_insert", refuse)
    handler = logging.Handler()
    handler.emit = lambda made: lines.take([made])
    applog.log.addHandler(handler)
    try:
        lines.take([record("a: first")])
        for _ in range(600):
            lines._turn()
            clock.advance(0.5)
    finally:
        applog.log.removeHandler(handler)
    assert lines.queued == 1 + 5


def test_a_line_the_database_refuses_costs_no_other(lines, monkeypatch):
    real = applog._insert

    def insert(found):
        if any(row[4] == "a: bad" for row in found):
            raise DatabaseError("can not be stored")
        real(found)

    monkeypatch.setattr(applog, "_insert", insert)
    lines.take([record("a: 1"), record("a: bad"), record("a: 2")])
    assert lines.flush()
    assert ([row.message for row in rows()], lines.lost) == (["a: 1", "a: 2"], 1)


def test_a_batch_written_again_after_a_lost_answer_is_there_once(lines, monkeypatch):
    real, answers = lines._write, [OperationalError("connection lost after the commit")]

    def write(found):
        real(found)
        if answers:
            raise answers.pop()

    monkeypatch.setattr(lines, "_write", write)
    lines.take([record("a: 1")])
    assert not lines.flush()
    assert lines.flush()
    assert len(rows()) == 1


def test_the_thread_writes_by_itself_and_a_stop_writes_the_rest(lines):
    lines.take([record("a: before the start")])
    lines.run("n2")
    assert eventually(lambda: AppLog.objects.filter(node="n2").count() == 1)
    lines.take([record("a: last words")])
    lines.stop(5)
    assert {row.message for row in rows()} == {"a: before the start", "a: last words"}


def test_a_flush_waits_for_the_thread_and_not_longer_than_told(lines, monkeypatch):
    held, real = threading.Event(), applog._insert

    def insert(found):
        held.wait(10)
        real(found)

    lines.run("n1")
    lines.take([record("a: 1")])
    assert lines.flush(5)
    monkeypatch.setattr(applog, "_insert", insert)
    lines.take([record("a: 2")])
    assert not lines.flush(0.05)
    held.set()
    assert lines.flush(5)
    assert len(rows()) == 2


def test_many_lines_are_a_few_statements(lines, django_assert_max_num_queries):
    lines.take([record(f"a: {n}") for n in range(applog.LIMIT)])
    with django_assert_max_num_queries(20):
        lines.flush()
    assert AppLog.objects.count() == applog.LIMIT
    assert len({row.id for row in AppLog.objects.all()}) == applog.LIMIT
    assert isinstance(AppLog.objects.first().id, uuid.UUID)
