"""The two ways in: the sign-in page and the exchange of the admin token."""

import re

import pytest
from django.contrib.auth.hashers import make_password

from modelhotel.accounts import throttles, verbs
from modelhotel.core import events
from modelhotel.core.clock import ManualClock
from modelhotel.core.throttle import Throttle
from modelhotel.models import Session, User
from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import TOKEN, Caller, signed_in, text

pytestmark = pytest.mark.django_db(transaction=True)
EXCHANGE = "/api/auth/admin-exchange"
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def throttle(monkeypatch):
    clock = ManualClock()
    made = Throttle(clock)
    made.clock = clock
    monkeypatch.setattr(throttles, "SIGN_IN", made)
    return made


@pytest.fixture(autouse=True)
def cheap_passwords(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def anna(token):
    return User.objects.create(username="Anna", password=make_password(PASSWORD), is_staff=True, is_superuser=True)


class Browser(Caller):
    """Fills in the page's own form, hidden fields included."""

    def page(self, address="/login/"):
        return self.client.get(address, headers={"accept": "text/html"}, **self.defaults)

    def submit(self, page, address="/login/", **fields):
        hidden = dict(re.findall(r'name="(csrfmiddlewaretoken|next)" value="([^"]*)"', text(page)))
        return self.client.post(address, {**hidden, **fields}, headers={"accept": "text/html"}, **self.defaults)

    def sign_in(self, address="/login/", **fields):
        return self.submit(self.page(address), address, **fields)


def test_the_page_offers_user_and_password_and_the_token_folded_away(token):
    """README decision 52."""
    page = text(Browser().page())
    assert 'name="username"' in page and 'name="password"' in page
    assert re.search(r"<details[^>]*>\s*<summary", page)
    field = re.search(r'<input[^>]*name="admin_token"[^>]*>', page)[0]
    assert 'type="password"' in field and 'autocomplete="current-password"' in field
    assert "<script>" not in page and "onclick" not in page
    assert "modelhotel/login.js" in page


def test_user_and_password_sign_in_whatever_the_case_of_the_name(anna):
    browser = Browser()
    response = browser.sign_in(username="anna", password=PASSWORD)
    assert (response.status_code, response["Location"]) == (302, "/")
    assert browser.get("/api/auth/me").json() == {
        "username": "Anna",
        "role": "admin",
        "grants": [],
        "user_account": True,
    }
    assert browser.client.get("/").status_code == 200


def test_the_admin_token_signs_in_the_account_admin(token):
    """README decision 51. One sign-in serves the site and the API."""
    browser = Browser()
    response = browser.sign_in(admin_token=f" {TOKEN} ")
    assert (response.status_code, response["Location"]) == (302, "/")
    assert browser.client.get("/").status_code == 200
    assert browser.get("/api/auth/me").json() == {
        "username": "admin",
        "role": "admin",
        "grants": [],
        "user_account": False,
    }
    user = User.objects.get()
    assert (user.username, user.is_superuser, user.has_usable_password()) == ("admin", True, False)


def test_after_signing_in_the_address_first_asked_for_is_shown(anna):
    """operations 3.1"""
    browser = Browser()
    asked = browser.page("/modelhotel/user/?q=x")
    assert asked.status_code == 302
    response = browser.sign_in(asked["Location"], username="Anna", password=PASSWORD)
    assert (response.status_code, response["Location"]) == (302, "/modelhotel/user/?q=x")


def test_what_an_account_may_not_open_is_said_so_inside_the_site(token):
    """Section 2.1 of operations."""
    visitor = signed_in(User.objects.create_user("vera", is_staff=True))
    page = visitor.client.get("/settings/", headers={"accept": "text/html"})
    assert page.status_code == 403
    assert "Not available for your account" in text(page) and 'id="logout-form"' in text(page)
    assert text(visitor.get("/settings/")) == "insufficient permissions"


def test_an_address_without_a_page_is_a_page_of_the_site_and_a_stranger_signs_in_first(token):
    """Section 10.7 of operations."""
    visitor = signed_in(User.objects.create_user("vera", is_staff=True))
    page = visitor.client.get("/nonsense", headers={"accept": "text/html"})
    assert page.status_code == 404
    assert "There is no page at this address." in text(page) and 'id="logout-form"' in text(page)
    assert Browser().page("/nonsense")["Location"] == "/login/?next=/nonsense"


def test_a_foreign_address_is_not_gone_to_after_signing_in(anna):
    browser = Browser()
    response = browser.sign_in("/login/?next=https://evil.example/", username="Anna", password=PASSWORD)
    assert response.status_code == 302
    assert "evil.example" not in response["Location"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"username": "Anna", "password": "wrong"}, "Invalid user name or password"),
        ({"username": "nobody", "password": "wrong"}, "Invalid user name or password"),
        ({"username": "stan", "password": PASSWORD}, "Invalid user name or password"),
        ({"username": "off", "password": PASSWORD}, "Invalid user name or password"),
        ({"admin_token": "wrong"}, "Invalid admin token"),
    ],
)
def test_what_is_wrong_is_said_in_the_same_words_for_every_reason(anna, fields, words, caplog):
    """operations 3.1"""
    User.objects.create(username="stan", password=make_password(PASSWORD))
    User.objects.create(username="off", password=make_password(PASSWORD), is_staff=True, is_active=False)
    browser = Browser()
    response = browser.sign_in(**fields)
    assert response.status_code == 200
    assert words in text(response)
    assert not Session.objects.exists()
    assert not any(value in caplog.text for value in (PASSWORD, "wrong"))


def test_six_failures_lock_the_name_and_the_address_for_a_second(anna, throttle):
    """operations 69"""
    browser = Browser(REMOTE_ADDR="203.0.113.9")
    for _ in range(6):
        assert browser.sign_in(username="Anna", password="wrong").status_code == 200
    locked = browser.sign_in(username="Anna", password=PASSWORD)
    assert (locked.status_code, locked["Retry-After"]) == (429, "1")
    assert 'data-retry-after="1"' in text(locked)
    assert "Too many failed attempts, try again in 1 s" in text(locked)
    elsewhere = Browser(REMOTE_ADDR="203.0.113.10")
    assert elsewhere.sign_in(username="ANNA", password=PASSWORD).status_code == 429
    assert elsewhere.sign_in(username="other", password="wrong").status_code == 200
    throttle.clock.advance(1)
    assert browser.sign_in(username="Anna", password=PASSWORD).status_code == 302
    assert len(throttle) == 2  # the other name and the other address


def test_the_form_without_its_csrf_token_is_refused_with_a_page(anna):
    response = Browser().client.post(
        "/login/", {"username": "Anna", "password": PASSWORD}, headers={"accept": "text/html"}
    )
    assert response.status_code == 403
    assert "CSRF token missing or invalid" in text(response)
    assert not Session.objects.exists()


def test_an_ended_session_is_explained_on_the_sign_in_page(anna, session_clock):
    """operations 3.1"""
    browser = Browser()
    browser.sign_in(username="Anna", password=PASSWORD)
    session_clock.advance(73 * 3600)
    response = browser.page("/modelhotel/user/")
    assert (response.status_code, response["Location"]) == (302, "/login/?next=/modelhotel/user/&expired=1")
    page = browser.page(response["Location"])
    assert "Your session has expired" in text(page)
    response = browser.submit(page, response["Location"], username="Anna", password=PASSWORD)
    assert (response.status_code, response["Location"]) == (302, "/modelhotel/user/")
    assert "Your session has expired" not in text(Browser().page())


def test_the_exchange_sets_both_cookies(token):
    """operations 10.2"""
    response = Caller().post(EXCHANGE, {"admin_token": TOKEN})
    assert (response.status_code, response.json()) == (200, {"success": True})
    session, csrf = response.cookies["mh_session"], response.cookies["mh_csrf"]
    assert bool(session["httponly"]) and not csrf["httponly"]
    for one in (session, csrf):
        assert (one["samesite"], one["path"], one["max-age"]) == ("Strict", "/", 72 * 3600)
    assert not session["secure"]


def test_a_wrong_token_is_not_exchanged(token, caplog):
    """operations 10.2"""
    response = Caller().post(EXCHANGE, {"admin_token": "wrong-4711"})
    assert (response.status_code, text(response)) == (401, "unauthorized")
    assert not response.cookies
    assert "wrong-4711" not in caplog.text


def test_six_wrong_exchanges_lock_the_address(token, throttle):
    """providers 81"""
    caller = Caller(REMOTE_ADDR="203.0.113.9")
    assert [caller.post(EXCHANGE, {"admin_token": "x"}).status_code for _ in range(6)] == [401] * 6
    response = caller.post(EXCHANGE, {"admin_token": TOKEN})
    assert (response.status_code, text(response)) == (429, "too many failed attempts, try again later")
    assert response["Retry-After"] == "1"
    assert Caller(REMOTE_ADDR="203.0.113.10").post(EXCHANGE, {"admin_token": TOKEN}).status_code == 200
    throttle.clock.advance(1)
    assert caller.post(EXCHANGE, {"admin_token": TOKEN}).status_code == 200
    assert caller.post(EXCHANGE, {"admin_token": "x"}).status_code == 401


def test_a_proxy_that_is_not_trusted_can_not_move_a_failure_to_another_address(token):
    """operations 74"""
    for number in range(6):
        Caller().post(EXCHANGE, {"admin_token": "x"}, HTTP_X_FORWARDED_FOR=f"198.51.100.{number}")
    assert Caller().post(EXCHANGE, {"admin_token": "x"}, HTTP_X_FORWARDED_FOR="1.1.1.1").status_code == 429


def test_the_account_admin_is_made_once_and_told_of(token):
    heard = []
    events.subscribe(heard.append)
    for _ in range(2):
        Caller().post(EXCHANGE, {"admin_token": TOKEN})
    assert [(event.metadata["kind"], event.metadata["action"]) for event in heard] == [("user", "created")]
    assert User.objects.count() == 1


def test_a_disabled_account_admin_comes_back_without_its_old_password(token):
    user = User.objects.create(username="Admin", password=make_password(PASSWORD), is_staff=True, is_active=False)
    caller = Caller()
    assert caller.post(EXCHANGE, {"admin_token": TOKEN}).status_code == 200
    assert caller.get("/api/auth/me").json()["role"] == "admin"
    user.refresh_from_db()
    assert (user.is_active, user.is_superuser, user.has_usable_password()) == (True, True, False)


def test_the_password_of_an_account_that_exists_is_left_alone(db):
    verbs.ensure_admin(PASSWORD)
    verbs.ensure_admin("another")
    assert User.objects.get().check_password(PASSWORD)


def test_someone_signed_in_without_staff_status_sees_the_sign_in_page(stranger_user):
    response = signed_in(stranger_user).client.get("/")
    assert (response.status_code, response["Location"]) == (302, "/login/?next=/")
