"""Sessions: what the database keeps of them, how long they live, and what counts as use."""

import hashlib
from datetime import timedelta

import pytest

from modelhotel.accounts import sessions
from modelhotel.accounts.identity import Credentials, who
from modelhotel.accounts.sessions import SessionStore
from modelhotel.core import events
from modelhotel.models import Session, User
from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import TOKEN, Caller, signed_in, text

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
ME = "/api/auth/me"
HOUR, DAY = 3600, 86400


@pytest.fixture
def caller(viewer_user, session_clock):
    return signed_in(viewer_user)


def cookie(caller):
    return caller.client.cookies["mh_session"].value


def test_the_cookie_is_32_random_bytes_and_the_database_knows_its_hash_only(caller):
    """providers 79"""
    token = cookie(caller)
    assert len(bytes.fromhex(token)) == 32
    row = Session.objects.get()
    assert row.session_key == hashlib.sha256(token.encode()).hexdigest()
    everything = repr(Session.objects.values())
    assert token not in everything
    assert Caller(row.session_key).get(ME).status_code == 401


def test_a_session_unused_for_73_hours_is_over(caller, session_clock):
    """providers 79"""
    session_clock.advance(71 * HOUR)
    assert caller.get(ME).status_code == 200
    session_clock.advance(73 * HOUR)
    assert caller.get(ME).status_code == 401


def test_a_session_used_daily_is_over_after_thirty_days(caller, session_clock):
    """providers 79"""
    answers = []
    for _ in range(31):
        session_clock.advance(DAY - 1)
        answers.append(caller.get(ME).status_code)
    assert answers == [200] * 30 + [401]


def test_the_absolute_end_is_checked_on_reading_too(caller, session_clock):
    Session.objects.update(expire_date=session_clock.now() + timedelta(days=400))
    session_clock.advance(30 * DAY + 1)
    assert caller.get(ME).status_code == 401


def test_use_is_written_at_most_every_five_minutes(caller, session_clock):
    """providers 11.2"""
    start = Session.objects.get().last_seen_at
    session_clock.advance(299)
    response = caller.get(ME)
    assert Session.objects.get().last_seen_at == start
    assert "mh_session" not in response.cookies
    session_clock.advance(1)
    response = caller.get(ME)
    row = Session.objects.get()
    assert row.last_seen_at == start + timedelta(seconds=300)
    assert row.expire_date == row.last_seen_at + timedelta(hours=72)
    assert response.cookies["mh_session"]["max-age"] == 72 * HOUR
    assert response.cookies["mh_session"].value == cookie(caller)
    assert response["Cache-Control"] == "no-store"


def test_a_use_that_gains_less_than_a_minute_is_not_written(caller, session_clock):
    """providers 11.2. Near the thirtieth day the end does not move any more."""
    for _ in range(29):
        session_clock.advance(DAY)
        caller.get(ME)
    before = Session.objects.get().last_seen_at
    session_clock.advance(HOUR)
    response = caller.get(ME)
    assert response.status_code == 200
    assert "mh_session" not in response.cookies
    assert Session.objects.get().last_seen_at == before


def test_sliding_renews_the_csrf_cookie_and_keeps_a_value_of_the_right_shape(caller, session_clock):
    """providers 11.2"""
    session_clock.advance(HOUR)
    kept = caller.get(ME).cookies["mh_csrf"]
    assert (kept.value, kept["samesite"], kept["path"]) == ("a" * 32, "Strict", "/")
    caller.client.cookies["mh_csrf"] = "tampered!"
    session_clock.advance(HOUR)
    minted = caller.get(ME).cookies["mh_csrf"].value
    assert minted != "tampered!" and len(minted) == 32


def test_checks_of_the_event_stream_never_count_as_use(caller, session_clock):
    """providers 79. An open dashboard tab with heartbeats only expires after 72 hours."""
    before = Session.objects.values().get()
    credentials = Credentials(session=cookie(caller))
    for _ in range(71):
        session_clock.advance(HOUR)
        assert who(credentials).actor.name == "vera"
    assert Session.objects.values().get() == before
    session_clock.advance(2 * HOUR)
    assert who(credentials) is None


def test_a_disabled_account_is_signed_out_at_once(caller, viewer_user):
    """part of operations 71"""
    User.objects.filter(pk=viewer_user.pk).update(is_active=False)
    assert caller.get(ME).status_code == 401
    assert who(Credentials(session=cookie(caller))) is None


def test_a_new_password_ends_every_session(caller, viewer_user):
    viewer_user.set_unusable_password()
    viewer_user.save()
    assert who(Credentials(session=cookie(caller))) is None
    assert caller.get(ME).status_code == 401


def test_signing_in_notes_where_from_and_with_what(token, session_clock):
    """providers 11.2. At most 256 bytes of valid UTF-8."""
    caller = Caller(REMOTE_ADDR="203.0.113.9")
    agent = "é" * 200
    caller.post("/api/auth/admin-exchange", {"admin_token": TOKEN}, HTTP_USER_AGENT=agent)
    row = Session.objects.get()
    assert (row.ip, row.user_agent, row.created_at) == ("203.0.113.9", "é" * 128, session_clock.now())
    assert row.user.username == "admin"


def test_user_agents_of_any_bytes_are_storable():
    assert sessions.user_agent("a\x00b\udcff" + "x" * 300) == "ab?" + "x" * 253


def test_signing_in_again_makes_a_new_session_with_a_new_token(token):
    caller = Caller()
    caller.post("/api/auth/admin-exchange", {"admin_token": TOKEN})
    first = cookie(caller)
    caller.post("/api/auth/admin-exchange", {"admin_token": TOKEN})
    assert cookie(caller) != first
    assert Session.objects.count() == 1
    assert who(Credentials(session=first)) is None


def test_logout_ends_the_session_and_clears_both_cookies(caller):
    """operations 10.2"""
    token = cookie(caller)
    response = caller.post("/api/auth/logout")
    assert (response.status_code, response.json()) == (200, {"success": True})
    for name in ("mh_session", "mh_csrf"):
        assert (response.cookies[name].value, response.cookies[name]["max-age"]) == ("", 0)
    assert not Session.objects.exists()
    assert who(Credentials(session=token)) is None


def test_a_bare_call_of_logout_signs_nobody_out(nobody):
    """providers 80"""
    response = nobody.post("/api/auth/logout")
    assert (response.status_code, response.json()) == (200, {"success": True})
    assert not response.cookies


def test_logout_ends_the_session_that_came_as_a_bearer(caller):
    token = cookie(caller)
    response = Caller(token).post("/api/auth/logout")
    assert response.status_code == 200
    assert response.cookies["mh_session"]["max-age"] == 0
    assert who(Credentials(session=token)) is None


def test_logout_with_credentials_that_are_no_good_is_a_success_too(nobody):
    nobody.client.cookies["mh_session"] = "0" * 64
    assert nobody.post("/api/auth/logout", headers={"authorization": "Bearer x"}).status_code == 200
    nobody.client.cookies.clear()
    nobody.client.cookies["mh_csrf"] = "a" * 32
    response = nobody.post("/api/auth/logout")
    assert response.cookies["mh_csrf"]["max-age"] == 0


@pytest.mark.parametrize("value", ["", "x", "0" * 63, "0" * 65, "G" * 64, "é" * 64, "' OR 1=1 --"])
def test_a_cookie_of_another_shape_is_no_session(nobody, value):
    nobody.client.cookies["mh_session"] = value
    assert text(nobody.get(ME)) == "Authorization header required (Bearer token)"


def test_a_session_ended_while_a_request_runs_stays_ended(caller, session_clock):
    store = SessionStore(cookie(caller))
    assert store.get("_auth_user_id")
    Session.objects.all().delete()
    session_clock.advance(HOUR)
    assert store.wants_slide()
    assert store.slide() is False
    assert not Session.objects.exists()


def test_expired_rows_are_cleared(caller, session_clock):
    SessionStore.clear_expired()
    assert Session.objects.count() == 1
    session_clock.advance(73 * HOUR)
    SessionStore.clear_expired()
    assert not Session.objects.exists()


def test_a_tampered_row_signs_nobody_in(caller):
    Session.objects.update(session_data="eyJfYXV0aF91c2VyX2lkIjoiMSJ9:forged:signature")
    assert caller.get(ME).status_code == 401


def listed(caller):
    return caller.get("/api/auth/sessions").json()["sessions"]


def test_an_account_sees_its_own_sessions_only(caller, stranger, viewer_user, session_clock):
    """providers 11.2"""
    session_clock.advance(60)
    other = signed_in(viewer_user)
    rows = listed(caller)
    assert [row["current"] for row in rows] == [False, True]
    assert rows[0]["created_at"] == "2026-01-01T12:01:00Z"
    assert set(rows[0]) == {"id", "user_agent", "ip", "created_at", "last_seen_at", "current"}
    assert [row["current"] for row in listed(other)] == [True, False]
    assert len(listed(stranger)) == 1
    assert cookie(other) not in str(rows)


def test_another_session_can_be_ended_but_not_the_current_one(caller, stranger, viewer_user, session_clock):
    """providers 11.2"""
    session_clock.advance(60)
    other = signed_in(viewer_user)
    theirs, mine = listed(caller)
    response = caller.delete(f"/api/auth/sessions/{mine['id']}")
    assert response.status_code == 409
    assert text(response) == "cannot sign out the current session; use logout instead"
    for bad in ("x", "not-a-uuid", mine["id"].replace("-", "")):
        response = caller.delete(f"/api/auth/sessions/{bad}")
        assert (response.status_code, text(response)) == (400, "invalid session id")
    response = stranger.delete(f"/api/auth/sessions/{theirs['id']}")
    assert (response.status_code, text(response)) == (404, "session not found")
    assert caller.delete(f"/api/auth/sessions/{theirs['id']}").status_code == 204
    assert other.get(ME).status_code == 401
    assert caller.get(ME).status_code == 200
    assert caller.delete(f"/api/auth/sessions/{theirs['id']}").status_code == 404


def test_all_other_sessions_of_the_account_can_be_ended(caller, stranger, viewer_user):
    """providers 11.2"""
    others = [signed_in(viewer_user) for _ in range(3)]
    heard, ended = [], []
    events.subscribe(heard.append)
    sessions.ended.append(ended.append)
    response = caller.post("/api/auth/sessions/revoke-others", {"user_id": "someone else"})
    sessions.ended.remove(ended.append)
    assert response.json() == {"revoked": 3}
    assert len(ended) == 3
    assert [(event.type, event.metadata) for event in heard] == [("auth.sessions_revoked", {"revoked": 3})]
    assert [one.get(ME).status_code for one in (caller, stranger, *others)] == [200, 200, 401, 401, 401]
    assert caller.post("/api/auth/sessions/revoke-others").json() == {"revoked": 0}


def test_the_admin_token_sees_the_sessions_it_opened(admin):
    assert listed(admin) == []
    Caller().post("/api/auth/admin-exchange", {"admin_token": TOKEN})
    assert [row["current"] for row in listed(admin)] == [False]
    assert admin.post("/api/auth/sessions/revoke-others").json() == {"revoked": 1}
