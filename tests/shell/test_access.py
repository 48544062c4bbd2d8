"""Access lines: one for every answer of dashboard and API; what is polled, and secrets of the address, leave none."""

import logging

import pytest

from tests.shell.cast import admin, clean_accounts, nobody, token  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.DEBUG, "access")

    def found(level):
        return [
            (r.attrs["method"], r.attrs["path"], r.attrs["status"])
            for r in caplog.records
            if r.name == "access" and r.levelno == level
        ]

    return found


def test_an_answer_leaves_a_line_with_who_what_and_how_long(admin, lines, caplog):  # noqa: F811
    admin.get("/api/settings?key=sk-secret-0123456789abcdef")
    assert lines(logging.INFO) == [("GET", "/api/settings", 200)]
    (line,) = [r for r in caplog.records if r.name == "access"]
    assert list(line.attrs) == ["method", "path", "status", "duration_ms", "ip"]
    assert 0 < line.attrs["duration_ms"] < 10_000 and line.attrs["ip"] == "127.0.0.1"


def test_a_refused_caller_leaves_one_too(nobody, lines):  # noqa: F811
    nobody.call("HEAD", "/api/providers")
    nobody.get("/settings/")
    assert lines(logging.INFO) == [("HEAD", "/api/providers", 401), ("GET", "/settings/", 302)]


@pytest.mark.parametrize("path", ["/api/logs", "/api/logs/app?history=true", "/api/logs/cursor"])
def test_what_is_asked_for_every_few_seconds_is_a_debug_line(admin, lines, path):  # noqa: F811
    admin.get(path)
    assert lines(logging.INFO) == []
    assert lines(logging.DEBUG) == [("GET", path.partition("?")[0], 200)]


def test_a_deletion_is_never_a_debug_line(admin, lines):  # noqa: F811
    admin.delete("/api/logs/app")
    assert lines(logging.INFO) == [("DELETE", "/api/logs/app", 200)]
