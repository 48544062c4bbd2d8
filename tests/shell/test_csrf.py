"""Writes by cookie need the token of the cookie; writes by bearer do not."""

import pytest

from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import TOKEN, Caller, signed_in, text

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/settings"
BODY = {"request_timeout": "9s"}
FAILED = (403, "CSRF token missing or invalid")


@pytest.fixture
def caller(admin_user):
    return signed_in(admin_user)


@pytest.mark.parametrize("sent", ["", "b" * 32, "a" * 31, "a" * 32 + "b" * 32, "é", "a" * 10_000])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_missing_or_wrong_token_is_refused(caller, sent, method):
    """operations 66, providers 78"""
    response = caller.call(method, URL, {"keys": []}, headers={"x-csrf-token": sent})
    assert (response.status_code, text(response)) == FAILED
    json = caller.call(method, URL, {}, headers={"x-csrf-token": sent, "accept": "application/json"})
    assert json.json() == {"error": FAILED[1]}


def test_the_value_of_the_cookie_is_the_token(caller):
    """providers 78"""
    assert caller.put(URL, BODY, headers={"x-csrf-token": "a" * 32}).status_code == 200


def test_reading_needs_no_token(caller):
    """providers 78"""
    assert caller.get(URL).status_code == 200
    assert caller.call("HEAD", URL).status_code == 200


def test_without_the_cookie_no_header_helps(caller):
    del caller.client.cookies["mh_csrf"]
    response = caller.put(URL, BODY, headers={"x-csrf-token": "a" * 32})
    assert (response.status_code, text(response)) == FAILED


def test_a_bearer_without_a_cookie_needs_none(token):
    """operations 66, providers 78"""
    assert Caller(TOKEN).put(URL, BODY).status_code == 200


def test_a_good_cookie_is_not_excused_by_a_bearer_beside_it(caller, token):
    sent = {"authorization": f"Bearer {TOKEN}", "x-csrf-token": ""}
    assert caller.put(URL, BODY, headers=sent).status_code == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://testserver", 200),
        ("https://testserver", 200),
        ("http://localhost:5173", 200),
        ("http://evil.example", 403),
        ("http://testserver.evil.example", 403),
        ("http://testserver:81", 403),
        ("null", 403),
        ("ftp://testserver", 403),
        ("http://[", 403),
    ],
)
def test_a_write_from_another_site_is_refused_whatever_its_token(caller, origin, status):
    assert caller.put(URL, BODY, headers={"origin": origin}).status_code == status


def test_over_tls_a_script_needs_no_referer(caller):
    assert caller.put(URL, BODY, secure=True).status_code == 200


def test_a_failed_check_leaves_a_warning_and_no_audit_row(caller, caplog):
    """Section 11 of operations."""
    from modelhotel.accounts import audit
    from modelhotel.models import AuditRow

    caller.put(URL, BODY, headers={"x-csrf-token": "secret-token-4711"})
    audit.stop(5)
    assert not AuditRow.objects.exists()
    assert [r.attrs["path"] for r in caplog.records if r.getMessage() == "auth: CSRF check failed"] == [URL]
    assert "4711" not in caplog.text
