"""How log lines look (settings.md 7, LOG_FORMAT and DEBUG_LOG)."""

import json
import logging
import logging.config
import re
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from modelhotel.core import logformat


def record(
    message: str, level: int = logging.INFO, name: str = "proxy", attrs: Mapping[str, Any] | None = None, **more: Any
) -> logging.LogRecord:
    made = logging.LogRecord(name, level, "x.py", 1, message, more.get("args"), more.get("exc_info"))
    if attrs is not None:
        made.attrs = attrs
    return made


FAILOVER = {"attempt": 1, "provider": "My Prov"}


def test_a_text_line_has_time_level_message_and_the_attributes_in_their_order():
    """settings 34a."""
    line = logformat.TextFormatter().format(record("proxy: failover triggered", attrs=FAILOVER))
    assert re.fullmatch(
        r'time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=INFO msg="proxy: failover triggered"'
        r' attempt=1 provider="My Prov"',
        line,
    )


def test_a_json_line_is_one_object_with_the_same_names():
    """settings 34a."""
    line = logformat.JsonFormatter().format(record("proxy: failover triggered", attrs=FAILOVER))
    found = json.loads(line)
    assert list(found) == ["time", "level", "source", "msg", "attempt", "provider"]
    assert found | {"time": ""} == {
        "time": "",
        "level": "INFO",
        "source": "proxy",
        "msg": "proxy: failover triggered",
        "attempt": 1,
        "provider": "My Prov",
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("OpenRouter", "OpenRouter"),
        ("", '""'),
        ("a b", '"a b"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("a=b", '"a=b"'),
        ("line\nbreak\ttab\r", '"line\\nbreak\\ttab\\r"'),
        ("bell\x07", '"bell\\x07"'),
        ("back\\slash here", '"back\\\\slash here"'),
        ("http://x/y?z", "http://x/y?z"),
        ("Köln", "Köln"),
        ("\u2028", '"\\u2028"'),
        ("zero\u200bwidth", '"zero\\u200bwidth"'),
        (True, "true"),
        (None, "null"),
        (3, "3"),
        (1.5, "1.5"),
        (["a", 1], '"[\\"a\\",1]"'),
    ],
)
def test_an_attribute_is_quoted_where_it_could_be_misread(value: object, text: str):
    assert logformat.quoted(value) == text


def test_a_message_can_not_break_out_of_its_line():
    line = logformat.TextFormatter().format(record('evil\n time=1 level=INFO msg="x"'))
    assert "\n" not in line
    assert 'msg="evil\\n time=1 level=INFO msg=\\"x\\""' in line


@pytest.mark.parametrize(
    ("level", "word"),
    [
        (logging.DEBUG, "DEBUG"),
        (logging.INFO, "INFO"),
        (logging.WARNING, "WARN"),
        (logging.ERROR, "ERROR"),
        (logging.CRITICAL, "ERROR"),
    ],
)
def test_levels_have_four_names(level: int, word: str):
    assert f" level={word} " in logformat.TextFormatter().format(record("a: b", level)) + " "
    assert json.loads(logformat.JsonFormatter().format(record("a: b", level)))["level"] == word


def test_an_exception_stays_on_the_line():
    try:
        raise ValueError("broken thing")
    except ValueError:
        made = record("jobs: run failed", logging.ERROR, "jobs", exc_info=sys.exc_info())
    line = logformat.TextFormatter().format(made)
    assert 'error="ValueError: broken thing"' in line
    assert "\n" not in line
    assert "Traceback" in json.loads(logformat.JsonFormatter().format(made))["trace"]


def _broken(problem: BaseException, cause: BaseException) -> Any:
    try:
        try:
            raise cause
        except type(cause) as first:
            raise problem from first
    except type(problem):
        return sys.exc_info()


@pytest.mark.parametrize("name", ["proxy", "uvicorn.error"])
def test_an_exception_on_the_way_of_a_request_does_not_quote_it(name: str):
    """operations 17: a key that is not there, a value that is none, may be what somebody said."""
    said = "what-somebody-said"
    made = record("proxy: it broke", logging.ERROR, name, exc_info=_broken(KeyError(said), ValueError(f"no {said}")))
    for line in (logformat.TextFormatter().format(made), logformat.JsonFormatter().format(made), logformat.told(made)):
        assert said not in line
        assert "KeyError" in line and "ValueError" in line and "test_logformat.py" in line
    made = record("proxy: it broke", logging.ERROR, name, exc_info=_broken(KeyError(said), OSError(28, "disk full")))
    assert "OSError: [Errno 28] disk full" in logformat.told(made)


def test_an_attribute_never_hides_a_field_of_the_line():
    found = json.loads(logformat.JsonFormatter().format(record("a: b", attrs={"source": "x", "msg": "y"})))
    assert (found["source"], found["msg"], found["source_"], found["msg_"]) == ("a", "a: b", "x", "y")


@pytest.mark.parametrize(
    ("message", "name", "scope"),
    [
        ("Proxy: x", "other", "proxy"),
        ("circuit-breaker: opened", "failover", "circuit-breaker"),
        ("no colon", "django.request", "django.request"),
        ("http://x", "urls", "http"),
        ("%s: x", "jobs", "jobs"),
    ],
)
def test_the_scope_is_what_stands_before_the_first_colon(message: str, name: str, scope: str):
    assert logformat.scope(record(message, name=name)) == scope


def _printed(capsys: pytest.CaptureFixture[str], debug: bool, scopes: frozenset[str]) -> str:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in (*logformat.QUIET, *logformat.SILENT, "django")}
    try:
        logging.config.dictConfig(dict(logformat.config("text", debug=debug, scopes=scopes, server=True)))
        logging.getLogger("a").debug("Resolve: one")
        logging.getLogger("b").debug("circuit-breaker: two")
        logging.getLogger("c").debug("walk: three")
        logging.getLogger("c").info("walk: four")
        logging.getLogger("httpx").info("HTTP Request: GET https://x/?key=secret")
        request = logging.getLogger("django.request")
        request.error("%s: %s", "Internal Server Error", "/answered")
        request.error("%s: %s", "Internal Server Error", "/crashed", exc_info=ValueError("five"))
        root.handlers[-1].flush()
        return capsys.readouterr().out
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        for name, old in quiet.items():
            logging.getLogger(name).setLevel(old)
        request.filters.clear()


def test_debug_lines_of_named_scopes_only(capsys: pytest.CaptureFixture[str]):
    """settings 34b."""
    out = _printed(capsys, False, frozenset({"resolve", "circuit-breaker"}))
    assert [word for word in ("one", "two", "three", "four") if word in out] == ["one", "two", "four"]


def test_debug_log_opens_every_scope(capsys: pytest.CaptureFixture[str]):
    out = _printed(capsys, True, frozenset({"resolve"}))
    assert [word for word in ("one", "two", "three", "four") if word in out] == ["one", "two", "three", "four"]


def test_without_either_only_information_is_printed_and_never_a_library_s_addresses(capsys: pytest.CaptureFixture[str]):
    out = _printed(capsys, False, frozenset())
    assert "four" in out
    assert "one" not in out
    assert "secret" not in out


def test_a_page_that_crashed_is_an_error_and_an_answered_5xx_is_not(capsys: pytest.CaptureFixture[str]):
    out = _printed(capsys, False, frozenset())
    assert "Internal Server Error: /crashed" in out
    assert "ValueError: five" in out
    assert "/answered" not in out


def test_a_lean_record_prints_the_same_line():
    for arguments in (("walk: %s of %d", ("one", 2), None), ("walk: %(a)s", ({"a": "x"},), None)):
        full = logging.LogRecord("n", logging.INFO, "f.py", 1, *arguments)
        lean = logformat.LeanRecord("n", logging.INFO, "f.py", 1, *arguments)
        lean.created, lean.msecs = full.created, full.msecs
        for formatter in (logformat.TextFormatter(), logformat.JsonFormatter()):
            assert formatter.format(lean) == formatter.format(full)


def test_a_lean_record_keeps_its_traceback():
    try:
        raise ValueError("broken")
    except ValueError:
        record = logformat.LeanRecord("n", logging.ERROR, "", 0, "walk: failed", None, sys.exc_info())
    line = logformat.TextFormatter().format(record)
    assert 'error="ValueError: broken"' in line and "Traceback" in line


@pytest.mark.parametrize("took", [None, 0.0, 1.25, 81234.56])
@pytest.mark.parametrize("attrs", [FAILOVER, logformat.Told(FAILOVER)], ids=["plain", "kept"])
def test_what_the_hot_path_says_reads_like_any_other_line(attrs, took):
    """settings 34a: past the loggers or through them, as text, as JSON and in the app log."""
    straight: list[logging.LogRecord] = []
    through: list[logging.LogRecord] = []
    log = logging.Logger("proxy")
    log.handle = through.append  # type: ignore[method-assign, assignment]
    logformat.say(log, "proxy: failover triggered", attrs, took)
    logformat.straighten(straight.append)
    try:
        logformat.say(log, "proxy: failover triggered", attrs, took)
    finally:
        logformat.straighten(None)
    straight[0].created = through[0].created = 1790000000.25
    through[0].msecs = 250.0
    for form in (logformat.TextFormatter(), logformat.JsonFormatter()):
        assert form.format(straight[0]) == form.format(through[0])
    assert logformat.told(straight[0]) == logformat.told(through[0])
    assert ("duration_ms" in logformat.told(straight[0])) == (took is not None)
