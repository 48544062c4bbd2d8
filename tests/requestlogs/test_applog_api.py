"""``/api/logs/app`` over the whole control plane: memory, history, cursor, deletion, and who may."""

import logging
import uuid
from datetime import timedelta

import pytest
from django.db import OperationalError

from modelhotel.core import clock, logformat
from requestlogs import applog, applog_queries
from requestlogs.applog import APP_LOG
from requestlogs.models import AppLog
from tests.shell.cast import (  # noqa: F401
    admin,
    admin_user,
    clean_accounts,
    nobody,
    signed_in,
    stranger,
    stranger_user,
    text,
    token,
    viewer,
    viewer_user,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
PATHS = ("/api/logs/app", "/api/logs/app?history=true", "/api/logs/app/cursor")
NOW = clock.SYSTEM.now()


@pytest.fixture(autouse=True)
def _empty():
    APP_LOG.forget()
    applog_queries.forget_counts()
    yield
    APP_LOG.forget()


def row(message, level="info", age=timedelta(), source=None):
    return AppLog.objects.create(
        id=uuid.uuid4(),
        timestamp=NOW - age,
        created_at=NOW,
        level=level,
        source=source or message.partition(":")[0],
        message=message,
        node="n1",
    )


def say(message, level=logging.INFO):
    APP_LOG.take([logformat.LeanRecord("proxy", level, "", 0, message, (), None)])


def messages(answer):
    return [entry["message"] for entry in answer.json()["entries"]]


@pytest.mark.parametrize("path", PATHS)
def test_administrators_and_viewers_read_it_and_nobody_else(admin, viewer, stranger, nobody, path):  # noqa: F811
    assert admin.get(path).status_code == viewer.get(path).status_code == 200
    assert stranger.get(path).status_code == 403
    assert nobody.get(path).status_code == 401


def test_memory_shows_the_newest_first(admin):  # noqa: F811
    for n in range(4):
        say(f"a: {n}")
    found = admin.get("/api/logs/app?limit=3").json()
    assert [entry["message"] for entry in found] == ["a: 3", "a: 2", "a: 1"]
    assert set(found[0]) == {"id", "timestamp", "level", "source", "message", "node"}
    assert (found[0]["level"], found[0]["source"]) == ("info", "a")


def test_memory_after_a_moment_shows_only_what_is_newer(admin):  # noqa: F811
    say("a: 1")
    say("a: 2")
    assert len(admin.get("/api/logs/app?after=2020-01-01T00:00:00Z").json()) == 2
    assert admin.get("/api/logs/app?after=2999-01-01T00:00:00Z").json() == []


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "after=yesterday", "limit=99999", "after=%00"])
def test_a_malformed_question_to_memory_is_ignored(admin, query):  # noqa: F811
    say("a: 1")
    assert len(admin.get(f"/api/logs/app?{query}").json()) == 1


def test_history_has_pages_and_counts_and_what_was_just_said(admin):  # noqa: F811
    row("proxy: x", age=timedelta(hours=1))
    row("auth: y", "error", age=timedelta(hours=2))
    say("proxy: now")
    answer = admin.get("/api/logs/app?history=true&per_page=2").json()
    assert [entry["message"] for entry in answer.pop("entries")] == ["proxy: now", "proxy: x"]
    assert answer == {
        "total": 3,
        "page": 1,
        "per_page": 2,
        "level_counts": {"debug": 0, "info": 2, "warning": 0, "error": 1},
        "source_counts": {"auth": 1, "proxy": 2},
    }
    assert messages(admin.get("/api/logs/app?history=true&per_page=2&page=2")) == ["auth: y"]
    clamped = admin.get("/api/logs/app?history=true&per_page=1000&page=0").json()
    assert (clamped["per_page"], clamped["page"]) == (100, 1)


def test_an_empty_log_is_an_empty_page(admin):  # noqa: F811
    answer = admin.get("/api/logs/app?history=true").json()
    assert (answer["entries"], answer["total"], answer["source_counts"]) == ([], 0, {})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("level=error", ["b: 100% odd"]),
        ("level=loud", ["a: one", "b: 100% odd", "c: three_"]),
        ("source=a", ["a: one"]),
        ("source=A%00", ["a: one", "b: 100% odd", "c: three_"]),
        ("search=ONE", ["a: one"]),
        ("search=%25", ["b: 100% odd"]),
        ("search=_", ["c: three_"]),
        ("search=nothing", []),
        ("from=yesterday&to=%FF", ["a: one", "b: 100% odd", "c: three_"]),
        ("sort_by=time&sort_dir=asc", ["c: three_", "b: 100% odd", "a: one"]),
        ("sort_by=level", ["b: 100% odd", "c: three_", "a: one"]),
        ("sort_by=level&sort_dir=asc", ["a: one", "c: three_", "b: 100% odd"]),
        ("sort_by=source", ["c: three_", "b: 100% odd", "a: one"]),
        ("sort_by=message&sort_dir=asc", ["a: one", "b: 100% odd", "c: three_"]),
        ("sort_by=mood", ["a: one", "b: 100% odd", "c: three_"]),
    ],
)
def test_each_filter_and_order(admin, query, expected):  # noqa: F811
    row("a: one")
    row("b: 100% odd", "error", timedelta(minutes=1))
    row("c: three_", "warning", timedelta(minutes=2))
    assert messages(admin.get(f"/api/logs/app?history=true&{query}")) == expected


def test_from_is_inclusive_and_to_is_not(admin):  # noqa: F811
    for n in range(3):
        row(f"a: {n}", age=timedelta(minutes=n))
    first, last = (clock.rfc3339(made.timestamp).replace("Z", "") for made in AppLog.objects.order_by("timestamp")[:2])
    micro = f"{NOW.microsecond:06d}"
    found = admin.get(f"/api/logs/app?history=true&from={first}.{micro}Z&to={last}.{micro}Z")
    assert messages(found) == ["a: 2"]


def test_cursor_pages_lose_and_repeat_no_line_of_equal_time(admin):  # noqa: F811
    for n in range(5):
        row(f"a: {n}")
    row("b: other")
    seen, cursor = [], ""
    while True:
        answer = admin.get(f"/api/logs/app/cursor?source=a&limit=2{cursor}")
        seen += messages(answer)
        page = answer.json()
        assert page["total"] == 5 and page["has_after"] == (page["next_cursor"] is not None)
        if not page["has_after"]:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert sorted(seen) == [f"a: {n}" for n in range(5)]
    back = admin.get(f"/api/logs/app/cursor?source=a&limit=10&direction=before&cursor={page['prev_cursor']}")
    assert messages(back) == seen[:4]


def test_a_cursor_that_is_none_is_a_400(admin):  # noqa: F811
    answer = admin.get("/api/logs/app/cursor?cursor=xyz")
    assert (answer.status_code, text(answer)) == (400, "invalid cursor")


def test_deleting_takes_what_waits_too_and_says_how_much(admin, viewer, stranger):  # noqa: F811
    row("a: stored")
    say("a: waiting")
    assert viewer.delete("/api/logs/app").status_code == stranger.delete("/api/logs/app").status_code == 403
    assert AppLog.objects.count() == 1
    answer = admin.delete("/api/logs/app")
    assert (answer.status_code, answer.json()) == (200, {"deleted": 2})
    assert AppLog.objects.count() == 0


@pytest.mark.parametrize("how", ["body", "address"])
def test_an_age_deletes_only_what_is_older(admin, how):  # noqa: F811
    row("a: old", age=timedelta(days=2))
    row("a: young", age=timedelta(hours=2))
    assert admin.get("/api/logs/app?history=true").json()["level_counts"]["info"] == 2
    if how == "body":
        answer = admin.delete("/api/logs/app", {"older_than": "1d"})
    else:
        answer = admin.delete("/api/logs/app?older_than=1d")
    assert answer.json() == {"deleted": 1}
    left = admin.get("/api/logs/app?history=true")
    assert (messages(left), left.json()["level_counts"]["info"]) == (["a: young"], 1)


@pytest.mark.parametrize("body", [{"older_than": "2h"}, {"older_than": 5}, [], "{"])
def test_what_is_no_age_deletes_nothing(admin, body):  # noqa: F811
    row("a: 1")
    assert admin.delete("/api/logs/app", body).status_code == 400
    assert admin.delete("/api/logs/app?older_than=2h").status_code == 400
    assert AppLog.objects.count() == 1


def test_deleting_is_refused_while_lines_can_not_be_written(admin, monkeypatch):  # noqa: F811
    def refuse(found):
        raise OperationalError("locked")

    row("a: stored")
    say("a: waiting")
    monkeypatch.setattr(applog, "_insert", refuse)
    answer = admin.delete("/api/logs/app")
    assert answer.status_code == 503
    assert "try again" in text(answer)
    assert AppLog.objects.count() == 1
