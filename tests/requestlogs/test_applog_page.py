"""The app log in the dashboard: who sees it, what its filters find, what its buttons delete."""

import html
import logging
import uuid
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.db import OperationalError
from django.test import Client

from modelhotel.accounts import audit
from modelhotel.core import clock, logformat
from modelhotel.models import AuditRow, User
from requestlogs import applog, applog_queries
from requestlogs.applog import APP_LOG
from requestlogs.models import AppLog
from requestlogs.recorder import RECORDER

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
LIST = "/requestlogs/applog/"


@pytest.fixture(autouse=True)
def _empty():
    APP_LOG.forget()
    applog_queries.forget_counts()
    yield
    APP_LOG.forget()
    audit.stop(5)


@pytest.fixture
def pages():
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def viewer():
    user = User.objects.create_user("vera", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client = Client()
    client.force_login(user)
    return client


def row(message, level="info", days=0):
    at = clock.SYSTEM.now() - timedelta(days=days)
    source = message.partition(":")[0]
    return AppLog.objects.create(
        id=uuid.uuid4(), timestamp=at, created_at=at, level=level, source=source, message=message, node="n1"
    )


def shown(pages, query=""):
    page = pages.get(LIST + query)
    assert page.status_code == 200
    return page.content.decode()


def test_an_empty_log_says_so(pages):
    assert "Nothing was said yet." in shown(pages)


def test_a_line_said_this_moment_is_on_the_page_with_its_level_and_source(pages):
    APP_LOG.take([logformat.LeanRecord("x", logging.ERROR, "", 0, "auth: <img src=x onerror=1>", (), None)])
    page = shown(pages)
    assert "auth: &lt;img src=x onerror=1&gt;" in page and "<img src=x" not in page
    assert "error (1)" in page and "auth (1)" in page


def test_filters_and_search_find_their_lines(pages):
    row("auth: refused", "warning")
    row("proxy: 100% odd", "error")
    for query, there, gone in (
        ("?level=warning", "auth: refused", "100% odd"),
        ("?source=proxy", "100% odd", "auth: refused"),
        ("?q=100%25", "100% odd", "auth: refused"),
        ("?q=REFUSED", "auth: refused", "100% odd"),
    ):
        page = shown(pages, query)
        assert there in page and gone not in page, query
    both = shown(pages, "?level=loud&q=%00")
    assert "100% odd" in both and "auth: refused" in both


def test_a_long_list_has_pages_and_a_long_message_its_own(pages):
    for n in range(60):
        row(f"a: {n:02d}" + " x" * 400, days=n)
    first, second = shown(pages), shown(pages, "?p=2")
    assert "a: 00 x" in first and "a: 59 x" not in first
    assert "a: 59 x" in second
    line = row("jobs: failed\nTraceback\n" + "y" * 900)
    page = html.unescape(shown(pages, f"{line.pk}/change/"))
    assert "Traceback\n" + "y" * 900 in page and 'data-copy="message"' in page
    assert "y" * 900 not in shown(pages)


def test_lines_older_than_chosen_are_deleted_after_a_question(pages):
    for days in (0, 2, 10, 40):
        row(f"a: {days}", days=days)
    question = pages.post(LIST + "do/older-than-week/")
    assert "Delete older than a week?" in question.content.decode()
    assert AppLog.objects.count() == 4
    answer = pages.post(LIST + "do/older-than-week/", {"confirmed": "yes"}, follow=True)
    assert "2 log lines deleted." in answer.content.decode()
    assert {line.message for line in AppLog.objects.all()} == {"a: 0", "a: 2"}
    pages.post(LIST + "do/everything/", {"confirmed": "yes"})
    assert AppLog.objects.count() == 0
    audit.WRITER.flush(5)
    assert [(r.path, r.status_code) for r in AuditRow.objects.order_by("created_at", "id")] == [
        (LIST + "do/older-than-week/", 200),
        (LIST + "do/everything/", 200),
    ]


def test_a_deletion_that_can_not_be_is_told(pages, monkeypatch):
    def refuse(found):
        raise OperationalError("locked")

    monkeypatch.setattr(applog, "_insert", refuse)
    row("a: 1")
    APP_LOG.take([logformat.LeanRecord("x", logging.INFO, "", 0, "a: waits", (), None)])
    answer = pages.post(LIST + "do/everything/", {"confirmed": "yes"}, follow=True)
    assert "try again" in answer.content.decode()
    assert AppLog.objects.count() == 1


def test_a_viewer_reads_and_deletes_nothing(viewer):
    line = row("a: 1")
    assert "a: 1" in shown(viewer) and "/do/" not in shown(viewer)
    assert "a: 1" in shown(viewer, f"{line.pk}/change/")
    assert viewer.post(LIST + "do/everything/", {"confirmed": "yes"}).status_code == 403
    assert AppLog.objects.count() == 1


def test_a_single_line_can_not_be_written_or_deleted(pages):
    line = row("a: 1")
    assert pages.get(LIST + "add/").status_code == 403
    assert pages.post(f"{LIST}{line.pk}/delete/", {"post": "yes"}).status_code == 403
    assert pages.post(f"{LIST}{line.pk}/change/", {"message": "b"}).status_code == 403
    assert AppLog.objects.get().message == "a: 1"


@pytest.mark.parametrize(("written", "total"), [(True, 0), (False, None)])
def test_the_page_of_requests_does_not_wait_for_a_writer_that_is_busy(pages, monkeypatch, written, total):
    """It comes without a total then, for which its script asks at once, with the rows that were on their way."""
    asked = []
    monkeypatch.setattr(RECORDER, "flush", lambda seconds: asked.append(seconds) or written)
    data = pages.get("/requests/").context_data["data"]
    assert (data["entries"], data["total"]) == ([], total)
    assert asked == [pytest.approx(0.2)]
