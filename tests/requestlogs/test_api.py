"""``/api/logs`` over the whole control plane: pages, filters, who sees what, deletion."""

import uuid
from datetime import timedelta

import pytest

from modelhotel.core import clock
from requestlogs import api
from requestlogs.models import RequestLog
from requestlogs.recorder import RECORDER, Recorder
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


@pytest.fixture(autouse=True)
def _no_old_answers():
    api.forget_cache()
    yield
    api.forget_cache()


def row(state="completed", age=timedelta(), **fields):
    values = {"request_hash": uuid.uuid4().hex[:16], "state": state, "endpoint_type": "chat", "model_id": "m"}
    values["created_at"] = clock.SYSTEM.now() - age
    return RequestLog.objects.create(id=uuid.uuid4(), **{**values, **fields})


def test_a_page_has_at_most_200_rows_and_starts_at_1(admin):  # noqa: F811
    """operations 22"""
    row()
    page = admin.get("/api/logs?per_page=1000&page=0").json()
    assert (page["per_page"], page["page"], page["total"], len(page["entries"])) == (200, 1, 1, 1)


@pytest.mark.parametrize("query", ["status_code=abc", "from=yesterday", "provider_id=x", "client_ip=%00", "to=%FF"])
def test_a_malformed_filter_is_ignored(admin, query):  # noqa: F811
    """operations 23"""
    row()
    for path in ("/api/logs", "/api/logs/cursor"):
        answer = admin.get(f"{path}?{query}")
        assert (answer.status_code, answer.json()["total"]) == (200, 1)


def test_a_cursor_that_is_none_is_a_400(admin):  # noqa: F811
    """operations 28"""
    answer = admin.get("/api/logs/cursor?cursor=xyz")
    assert (answer.status_code, text(answer)) == (400, "invalid cursor")


@pytest.mark.parametrize("wanted", ["not-a-uuid", "3f0c2a52-6b1e-4f0e-9d7a-52f1f6a4c8b1", "%00"])
def test_a_row_that_is_not_there_is_a_404(admin, wanted):  # noqa: F811
    answer = admin.get(f"/api/logs/{wanted}")
    assert (answer.status_code, text(answer)) == (404, "log not found")


def test_an_answer_from_memory_stays_with_its_audience(admin, viewer, stranger, nobody):  # noqa: F811
    """operations 31. Whoever may not read the log gets nothing of it, cached or not."""
    row()
    assert admin.get("/api/logs")["X-Cache"] == "MISS"
    assert admin.get("/api/logs")["X-Cache"] == "HIT"
    assert viewer.get("/api/logs").json()["total"] == 1
    assert stranger.get("/api/logs").status_code == 403
    assert nobody.get("/api/logs").status_code == 401


def test_only_listed_ages_can_be_purged(admin):  # noqa: F811
    """operations 32"""
    row(age=timedelta(days=3))
    answer = admin.delete("/api/logs/purge", {"older_than": "2h"})
    assert (answer.status_code, text(answer)) == (400, "invalid older_than value, use: 1h, 1d, 1w, 1m, all")
    for body in ({}, [], None, {"older_than": 5}, "{"):
        assert admin.delete("/api/logs/purge", body).status_code == 400
    assert RequestLog.objects.count() == 1


def test_a_purge_of_everything_leaves_what_is_still_running(admin, viewer):  # noqa: F811
    """operations 33"""
    row(age=timedelta(days=3))
    running = row("streaming", age=timedelta(days=3))
    assert viewer.delete("/api/logs/purge", {"older_than": "all"}).status_code == 403
    assert RequestLog.objects.count() == 2
    assert admin.delete("/api/logs/purge", {"older_than": "all"}).status_code == 204
    assert list(RequestLog.objects.values_list("id", flat=True)) == [running.id]


def test_an_age_deletes_only_what_is_older(admin):  # noqa: F811
    row(age=timedelta(days=2))
    young = row(age=timedelta(hours=2))
    assert admin.get("/api/logs").json()["total"] == 2
    assert admin.delete("/api/logs/purge", {"older_than": "1d"}).status_code == 204
    assert [one["id"] for one in admin.get("/api/logs").json()["entries"]] == [str(young.id)]


def test_what_waits_and_what_is_lost_is_shown_to_operators_only(admin, viewer, admin_user, stranger, monkeypatch):  # noqa: F811
    told = admin.get("/api/logs/recorder").json()
    assert told == {"node": "", "queued": 0, "spilled": 0, "lost": 0, "behind_s": 0.0}
    monkeypatch.setattr(RECORDER, "lost", 1234)
    assert viewer.get("/api/logs/recorder").json()["lost"] == 1234
    assert stranger.get("/api/logs/recorder").status_code == 403
    monkeypatch.setattr(Recorder, "behind", 12.3)
    browser = signed_in(admin_user)
    for page in ("/", "/requestlogs/requestlog/"):
        shown = text(browser.get(page))
        assert "1,234 request rows were lost since this process started" in shown
        assert "The database has not taken all request rows for 12 s: 0 wait in memory" in shown
    monkeypatch.setattr(RECORDER, "lost", 0)
    monkeypatch.setattr(Recorder, "behind", 0.2)
    assert "request rows" not in text(browser.get("/requestlogs/requestlog/"))
