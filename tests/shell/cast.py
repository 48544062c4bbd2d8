"""The people of the admin API tests: administrator, viewer, a signed-in stranger, and one with a wrong token."""

import json

import pytest
from django.test import Client

from modelhotel.accounts import admin_token, audit, sessions, throttles
from modelhotel.core.clock import ManualClock
from modelhotel.models import User

TOKEN = "0123456789abcdef0123456789abcdef"


class Caller:
    """Someone who calls the API over Django's whole stack, CSRF checks included."""

    def __init__(self, token=None, **defaults):
        self.client = Client(enforce_csrf_checks=True, raise_request_exception=False)
        self.headers = {"authorization": f"Bearer {token}"} if token else {}
        self.defaults = defaults

    def call(self, method, path, body=None, headers=None, **extra):
        data = body if isinstance(body, bytes | str) else None
        kwargs = {"content_type": "application/json"}
        if body is not None and data is None:
            data = json.dumps(body)
        sent = {**self.headers, **self._csrf(method), **(headers or {})}
        return self.client.generic(method, path, data or "", headers=sent, **kwargs, **self.defaults, **extra)

    def _csrf(self, method):
        cookie = self.client.cookies.get("mh_csrf")
        return {"x-csrf-token": cookie.value} if cookie and method not in ("GET", "HEAD") else {}

    def get(self, path, **kw):
        return self.call("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.call("POST", path, body, **kw)

    def put(self, path, body=None, **kw):
        return self.call("PUT", path, body, **kw)

    def delete(self, path, body=None, **kw):
        return self.call("DELETE", path, body, **kw)


def text(response):
    return response.content.decode()


def signed_in(user, **defaults):
    """A caller with a session of *user*, as a browser has it after the sign-in page."""
    caller = Caller(**defaults)
    caller.client.force_login(user)
    caller.get("/api/auth/me")
    caller.client.cookies["mh_csrf"] = "a" * 32
    return caller


@pytest.fixture(autouse=True)
def clean_accounts():
    throttles.SIGN_IN.clear()
    throttles.BEARER.clear()
    yield
    audit.stop(5)
    throttles.SIGN_IN.clear()
    throttles.BEARER.clear()


@pytest.fixture
def token(db):
    admin_token.store(TOKEN)
    return TOKEN


@pytest.fixture
def admin(token):
    return Caller(token)


@pytest.fixture
def admin_user(db):
    return User.objects.create_superuser("root")


@pytest.fixture
def viewer_user(db):
    return User.objects.create_user("vera", is_staff=True)


@pytest.fixture
def stranger_user(db):
    return User.objects.create_user("stan")


@pytest.fixture
def viewer(viewer_user):
    return signed_in(viewer_user)


@pytest.fixture
def stranger(stranger_user):
    return signed_in(stranger_user)


@pytest.fixture
def nobody(token):
    return Caller()


@pytest.fixture
def session_clock(monkeypatch):
    clock = ManualClock()
    monkeypatch.setattr(sessions, "clock", clock)
    return clock
