"""The headers of every answer: security, CORS, cookies; and what decides about TLS."""

import dataclasses
import ipaddress

import pytest

from modelhotel.core import environment
from modelhotel.core.headers import content_security_policy, cors_headers, origin_of, security_headers
from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import TOKEN, Caller

CSP = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)
ENV = environment.Environment(cors_origins=("http://localhost:5173", "https://a.example"))
ALLOW_HEADERS = "Content-Type, Authorization, x-api-key, anthropic-version, anthropic-beta, X-CSRF-Token"


def as_dict(pairs):
    return {name.decode(): value.decode() for name, value in pairs}


def test_the_security_headers_of_an_answer():
    """providers 11.6"""
    assert as_dict(security_headers(ENV)) == {
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "strict-origin-when-cross-origin",
        "content-security-policy": CSP,
    }


def test_pages_of_the_site_may_evaluate_and_nothing_else_is_loosened():
    """operations 10.7"""
    assert content_security_policy(admin=True, embed=False) == CSP.replace(
        "script-src 'self'", "script-src 'self' 'unsafe-eval'"
    )


def test_embedding_drops_both_rules_against_frames():
    env = dataclasses.replace(ENV, allow_embed=True)
    found = as_dict(security_headers(env))
    assert "x-frame-options" not in found
    assert found["content-security-policy"] == CSP.replace("frame-ancestors 'none'; ", "")


def test_hsts_is_sent_over_tls_only():
    found = as_dict(security_headers(ENV, tls=True))
    assert found["strict-transport-security"] == "max-age=63072000; includeSubDomains; preload"


def test_the_tuples_are_made_once():
    assert security_headers(ENV) is security_headers(dataclasses.replace(ENV, port=9))


@pytest.mark.parametrize("origin", [b"http://localhost:5173", b"https://a.example"])
def test_a_listed_origin_gets_the_cors_headers(origin):
    """providers 83"""
    assert as_dict(cors_headers(ENV, origin)) == {
        "access-control-allow-origin": origin.decode(),
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE, OPTIONS",
        "access-control-allow-headers": ALLOW_HEADERS,
        "access-control-max-age": "86400",
        "vary": "Origin",
    }


@pytest.mark.parametrize("origin", [b"http://localhost:5174", b"https://a.example/", b"null", b"*", b"", b"\xff"])
def test_another_origin_gets_vary_only(origin):
    assert cors_headers(ENV, origin) == [(b"vary", b"Origin")]


def test_without_an_origin_there_is_nothing_to_say():
    assert cors_headers(ENV, None) == []
    assert origin_of([(b"host", b"x"), (b"origin", b"http://y")]) == b"http://y"
    assert origin_of([(b"host", b"x")]) is None


def test_a_star_allows_nobody():
    """providers 83, settings 36"""
    env = environment.read({"CORS_ORIGINS": "*"})
    assert cors_headers(env, b"http://localhost:5173") == [(b"vary", b"Origin")]
    assert any("CORS_ORIGINS" in warning for warning in env.warnings)


# The Django side ---------------------------------------------------------------------------------------------


@pytest.fixture
def env(settings):
    """Changes the environment of the running process: ``env(cookie_secure="always")``."""

    def change(**values):
        settings.MH = dataclasses.replace(settings.MH, **values)

    return change


pages = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("path", ["/login/", "/", "/api/public-config", "/api/nope", "/api/settings", "/nope/"])
class TestEveryAnswer:
    pytestmark = pages

    def test_carries_the_security_headers(self, nobody, path):
        response = nobody.client.get(path)
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response["X-Frame-Options"] == "DENY"
        assert response["Referrer-Policy"] == "strict-origin-when-cross-origin"
        page = response["Content-Type"].startswith("text/html")
        assert response["Content-Security-Policy"] == content_security_policy(admin=page, embed=False)
        assert "Strict-Transport-Security" not in response

    def test_may_be_embedded_where_that_is_allowed(self, nobody, path, env):
        env(allow_embed=True)
        response = nobody.client.get(path)
        assert "X-Frame-Options" not in response
        assert "frame-ancestors" not in response["Content-Security-Policy"]

    def test_varies_with_the_origin(self, nobody, path):
        response = nobody.client.get(path, headers={"origin": "http://localhost:5173"})
        assert response["Access-Control-Allow-Origin"] == "http://localhost:5173"
        assert "Origin" in response["Vary"]
        response = nobody.client.get(path, headers={"origin": "http://evil.example"})
        assert "Access-Control-Allow-Origin" not in response
        assert "Origin" in response["Vary"]

    def test_is_204_to_a_preflight(self, nobody, path):
        """providers 83"""
        response = nobody.client.options(path, headers={"origin": "http://localhost:5173"})
        assert (response.status_code, response.content, "Content-Type" in response) == (204, b"", False)
        assert response["Access-Control-Allow-Headers"] == ALLOW_HEADERS
        response = nobody.client.options(path, headers={"origin": "http://evil.example"})
        assert response.status_code == 204
        assert "Access-Control-Allow-Origin" not in response


TRUSTED = (ipaddress.ip_network("10.0.0.0/8"),)
FORWARDED = {"HTTP_X_FORWARDED_PROTO": "https"}


@pytest.mark.parametrize(
    ("mode", "how", "secure"),
    [
        ("auto", {}, False),
        ("auto", {"secure": True}, True),
        ("auto", {"REMOTE_ADDR": "10.0.0.1", **FORWARDED}, True),
        ("auto", {"REMOTE_ADDR": "203.0.113.9", **FORWARDED}, False),
        ("always", {}, True),
        ("never", {"secure": True}, False),
    ],
)
class TestCookies:
    pytestmark = pages

    def test_are_secure_as_the_environment_says(self, token, env, mode, how, secure):
        """operations 10.2. README decision 53."""
        env(cookie_secure=mode, trusted_proxies=TRUSTED)
        response = Caller().post("/api/auth/admin-exchange", {"admin_token": TOKEN}, **how)
        assert bool(response.cookies["mh_session"]["secure"]) is secure
        assert bool(response.cookies["mh_csrf"]["secure"]) is secure


@pytest.mark.django_db(transaction=True)
def test_hsts_is_ours_to_send_only_where_we_speak_tls_ourselves(nobody, env):
    """providers 11.6"""
    env(trusted_proxies=TRUSTED)
    assert "Strict-Transport-Security" not in nobody.client.get("/login/", REMOTE_ADDR="10.0.0.1", **FORWARDED)
    response = nobody.client.get("/login/", secure=True)
    assert response["Strict-Transport-Security"] == "max-age=63072000; includeSubDomains; preload"


@pytest.mark.django_db(transaction=True)
def test_a_body_over_the_limit_is_413_in_one_line(token, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1024
    response = Caller(TOKEN).put("/api/settings", {"request_timeout": "1" * 2000})
    assert (response.status_code, response.content) == (413, b"request body too large")
