"""Log lines leave the event loop at once and are printed by a thread of their own."""

import io
import logging

import pytest

from modelhotel.core import logqueue
from modelhotel.core.logqueue import QueueHandler
from tests.wire.product import eventually


@pytest.fixture
def out():
    return io.StringIO()


@pytest.fixture
def logger(out):
    handler = QueueHandler(out)
    found = logging.Logger("test")
    found.addHandler(handler)
    yield found
    handler.close()


def test_lines_arrive_in_order_by_themselves(logger, out):
    for n in range(100):
        logger.info("line %d", n)
    assert eventually(lambda: out.getvalue().count("\n") == 100)
    assert out.getvalue().splitlines() == [f"line {n}" for n in range(100)]


def test_a_flush_prints_everything_at_once(logger, out):
    logger.info("one")
    logger.handlers[0].flush()
    assert out.getvalue() == "one\n"


def test_what_overflows_is_dropped_and_counted(logger, out, monkeypatch):
    monkeypatch.setattr(logqueue, "LIMIT", 3)
    handler = logger.handlers[0]
    with handler._writing:  # as while stdout blocks
        handler._thread = object()
        for n in range(5):
            logger.info("line %d", n)
    handler.flush()
    assert out.getvalue().splitlines() == ["line 0", "line 1", "line 2", "log: lines dropped"]


def test_a_filter_still_decides(logger, out):
    logger.handlers[0].addFilter(lambda record: record.levelno >= logging.INFO)
    logger.debug("quiet")
    logger.info("loud")
    logger.handlers[0].flush()
    assert out.getvalue() == "loud\n"


def test_a_record_that_can_not_be_formatted_costs_no_other(logger, out, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logger.info("%d", "no number")
    logger.info("fine")
    logger.handlers[0].flush()
    assert out.getvalue() == "fine\n"


def test_a_closed_stdout_stops_nothing(logger, out):
    out.close()
    logger.info("into the void")
    logger.handlers[0].flush()


@pytest.fixture
def heard():
    found = []
    logqueue.listen(found.extend)
    yield found
    logqueue.listen(None)


def test_a_listener_gets_what_is_printed_and_no_more(logger, out, heard, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logger.handlers[0].addFilter(lambda record: record.levelno >= logging.INFO)
    logger.debug("quiet")
    logger.info("%d", "no number")
    logger.info("loud")
    logger.handlers[0].flush()
    assert [record.getMessage() for record in heard] == ["loud"]


def test_a_listener_hears_of_dropped_lines_and_of_lines_nobody_reads(logger, out, heard, monkeypatch):
    monkeypatch.setattr(logqueue, "LIMIT", 1)
    handler = logger.handlers[0]
    out.close()
    with handler._writing:
        handler._thread = object()
        logger.info("one")
        logger.info("two")
    handler.flush()
    assert [record.getMessage() for record in heard] == ["one", "log: lines dropped"]


def test_a_listener_that_fails_stops_no_line(logger, out, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logqueue.listen(lambda records: 1 / 0)
    try:
        logger.info("fine")
        logger.handlers[0].flush()
    finally:
        logqueue.listen(None)
    assert out.getvalue() == "fine\n"
