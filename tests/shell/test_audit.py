"""The audit trail: one row per write that passed authentication, whatever its outcome, and never what was written."""

import json
import threading
from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import path, resolve

from modelhotel.accounts import audit
from modelhotel.accounts.audit import Writer
from modelhotel.core import actor as actors
from modelhotel.core import snapshots
from modelhotel.models import AuditRow, Setting
from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import TOKEN, Caller, signed_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
URL = "/api/settings"


def rows(*fields):
    assert audit.stop(5)
    found = AuditRow.objects.order_by("created_at")
    return list(found.values_list(*fields)) if fields else list(found)


def test_a_row_says_who_did_what_from_where_with_which_outcome(admin, session_clock):
    """providers 88"""
    admin.put(URL + "/?secret=1", {"request_timeout": "9s"}, REMOTE_ADDR="203.0.113.9")
    (row,) = rows()
    assert (row.actor, row.actor_role, row.method, row.route) == ("admin", "admin", "PUT", "/api/settings")
    assert (row.path, row.entity_id, row.status_code, row.remote_addr) == ("/api/settings/", "", 200, "203.0.113.9")
    assert row.created_at is not None


def test_a_refused_write_is_recorded_with_the_status_of_the_refusal(admin, viewer):
    """operations 73, providers 88"""
    admin.put(URL, {"nope": "1"})
    viewer.delete(URL, {"keys": []})
    admin.delete("/api/logs/purge", {"older_than": "nonsense"})
    assert rows("actor", "method", "status_code") == [
        ("admin", "PUT", 400),
        ("vera", "DELETE", 403),
        ("admin", "DELETE", 400),
    ]


def test_what_failed_authentication_and_what_only_reads_is_not_recorded(token, admin, nobody):
    """Section 11 of operations."""
    nobody.put(URL, {"request_timeout": "9s"})
    Caller("wrong").put(URL, {"request_timeout": "9s"})
    admin.get(URL)
    admin.call("HEAD", URL)
    admin.call("PATCH", URL)
    admin.put("/api/nope", {})
    nobody.post("/api/auth/admin-exchange", {"admin_token": TOKEN})
    assert rows() == []


def test_the_address_is_the_resolved_one(admin, settings):
    """operations 74, providers 88"""
    admin.put(URL, {}, REMOTE_ADDR="203.0.113.9", HTTP_X_FORWARDED_FOR="1.2.3.4")
    assert rows("remote_addr") == [("203.0.113.9",)]


def test_signing_out_is_recorded_for_who_was_signed_in(admin_user):
    signed_in(admin_user).post("/api/auth/logout")
    assert rows("actor", "route", "status_code") == [("root", "/api/auth/logout", 200)]


def test_a_write_in_the_forms_of_the_site_is_recorded_too(admin_user, token):
    """Section 11 of operations."""
    caller = signed_in(admin_user)
    page = caller.client.post("/logout/", {"csrfmiddlewaretoken": "a" * 32}, headers={"accept": "text/html"})
    assert page.status_code in (200, 302)
    refused = signed_in(admin_user).client.post("/logout/", headers={"accept": "text/html"})
    assert refused.status_code == 403
    assert all(row.status_code != 403 for row in rows())


def test_a_view_that_knows_better_records_its_own_outcome_once(admin_user):
    request = RequestFactory().post("/api/x")
    request.actor = admin_user.actor
    request.client_address = "203.0.113.9"
    request.resolver_match = None
    audit.of_request(request, 409, "some-id")
    audit.of_request(request, 200)
    assert rows("status_code", "entity_id", "route") == [(409, "some-id", "/api/x")]


def view(request, **kwargs):
    return HttpResponse()


urlpatterns = [
    path("api/things/<id>", view),
    path("api/things/<uuid:thing_id>/parts/<part_id>/", view),
    path("api/things/<str:thing_uuid>/rest", view),
    path("api/words/<word>", view),
]


@pytest.mark.parametrize(
    ("address", "route", "entity"),
    [
        ("/api/things/7", "/api/things/{id}", "7"),
        (
            "/api/things/6fa459ea-ee8a-3ca4-894e-db77e160355e/parts/p1/",
            "/api/things/{thing_id}/parts/{part_id}",
            "p1",
        ),
        ("/api/things/abc/rest", "/api/things/{thing_uuid}/rest", "abc"),
        ("/api/words/secret", "/api/words/{word}", ""),
    ],
)
def test_the_route_is_the_pattern_and_the_entity_its_innermost_id(admin_user, address, route, entity):
    """Section 13 of providers."""
    request = RequestFactory().delete(address)
    request.actor = admin_user.actor
    request.resolver_match = resolve(address, urlconf=__name__)
    audit.of_request(request, 204)
    assert rows("route", "path", "entity_id") == [(route, address, entity)]


def test_no_body_no_token_and_no_query_is_ever_recorded(token):
    """operations 73, settings 72"""
    admin = Caller(TOKEN)
    marker = "marker-4711"
    admin.put(f"{URL}?x={marker}", {"request_timeout": marker})
    admin.put(URL, {"failover_retry_on_errors": marker})
    assert Setting.objects.get().value == marker
    assert audit.stop(5)
    everything = json.dumps(list(AuditRow.objects.values()), default=str)
    assert marker not in everything and TOKEN not in everything


def test_texts_longer_than_their_column_are_cut_and_a_nul_does_not_cost_the_row(db):
    audit.record(actors.Actor("a" * 200, "admin"), "DELETE", "/r" * 200, "/p\x00" * 500, 204, "1" * 100, "e\x00" * 200)
    (row,) = rows()
    assert [len(text) for text in (row.actor, row.route, row.path, row.entity_id, row.remote_addr)] == [
        150,
        200,
        500,
        100,
        64,
    ]


def row():
    return AuditRow(created_at="2026-01-01T00:00:00Z", actor="a", actor_role="admin", status_code=200)


def test_a_database_that_refuses_for_a_while_costs_no_row(db, monkeypatch):
    writer, failures = Writer(), [DatabaseError("away")] * 2
    monkeypatch.setattr(audit, "RETRY_AFTER", 0.01)
    real = AuditRow.objects.bulk_create

    def flaky(batch, **kwargs):
        if failures:
            raise failures.pop()
        return real(batch, **kwargs)

    monkeypatch.setattr(AuditRow.objects, "bulk_create", flaky)
    writer.put(row())
    assert writer.stop(5)
    assert (AuditRow.objects.count(), writer.lost) == (1, 0)


def test_a_lost_row_is_a_warning_and_never_a_failed_action(admin, monkeypatch, caplog):
    """Section 11 of operations."""
    monkeypatch.setattr(audit, "RETRY_AFTER", 0.001)

    def broken(batch, **kwargs):
        raise DatabaseError("away")

    monkeypatch.setattr(AuditRow.objects, "bulk_create", broken)
    assert admin.put(URL, {"request_timeout": "9s"}).status_code == 200
    audit.stop(5)
    lost = [record for record in caplog.records if record.getMessage() == "audit: rows lost"]
    assert [record.attrs for record in lost] == [{"count": 1, "reason": "DatabaseError"}]


def test_a_full_queue_loses_rows_instead_of_blocking(db, monkeypatch, caplog):
    monkeypatch.setattr(audit, "QUEUE_ROWS", 2)
    writer, release = Writer(), threading.Event()
    monkeypatch.setattr(writer, "_write", lambda batch: release.wait(10))
    for _ in range(10):
        writer.put(row())
    assert writer.lost >= 6
    release.set()
    assert writer.stop(5)


def test_a_stop_that_may_not_wait_says_what_is_lost(db, monkeypatch, caplog):
    """Section 11 of operations."""
    writer, release = Writer(), threading.Event()
    monkeypatch.setattr(writer, "_write", lambda batch: release.wait(10))
    writer.put(row())
    threading.Timer(0.3, release.set).start()
    assert writer.stop(0.05) is False
    assert "rows lost" in caplog.text


def test_a_row_after_a_stop_starts_the_writer_anew(db):
    for _ in range(3):
        audit.record(actors.ADMIN, "PUT", "/r", "/p", 200, "")
        assert audit.stop(5)
    assert AuditRow.objects.count() == 3


def test_rows_older_than_the_setting_are_deleted(admin, clock):
    """Section 11 of operations."""
    admin.put(URL, {"audit_retention_days": "10"})
    snapshots.refresh(["settings"])
    audit.stop(5)
    AuditRow.objects.all().delete()
    for days in (9, 11, 400):
        AuditRow.objects.create(
            created_at=clock.now() - timedelta(days=days), actor="a", actor_role="admin", status_code=days
        )
    assert audit.retention(clock) == 2
    assert [row.status_code for row in AuditRow.objects.all()] == [9]
