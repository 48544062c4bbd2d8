"""Who may call ``/api``: the order of credentials, the texts of refusals, and how the API answers what it is not."""

import pytest

from modelhotel.accounts import admin_token, throttles
from modelhotel.accounts.throttles import BEARER
from modelhotel.core.clock import ManualClock
from modelhotel.core.throttle import Throttle
from modelhotel.models import AdminToken
from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import TOKEN, Caller, signed_in, text

pytestmark = pytest.mark.django_db(transaction=True)
ME = "/api/auth/me"
NO_CREDENTIALS = (401, "Authorization header required (Bearer token)")
WRONG = (401, "Invalid admin token")


def told(response):
    return response.status_code, text(response)


def test_without_credentials_the_answer_says_what_is_missing(nobody):
    """operations 64, providers 77"""
    assert told(nobody.get(ME)) == NO_CREDENTIALS
    response = nobody.get(ME, headers={"accept": "application/json"})
    assert (response.status_code, response.json()) == (401, {"error": NO_CREDENTIALS[1]})


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc", TOKEN])
def test_an_empty_token_and_another_scheme_count_as_none(nobody, header):
    """providers 77"""
    assert told(nobody.get(ME, headers={"authorization": header})) == NO_CREDENTIALS


def test_a_wrong_token_is_refused_and_logged_without_the_token(token, caplog):
    """operations 65, providers 77"""
    wrong = "wrong-" + "f" * 26
    assert told(Caller(wrong).get(ME, REMOTE_ADDR="203.0.113.9")) == WRONG
    lines = [(record.getMessage(), record.attrs) for record in caplog.records if record.name == "auth"]
    assert lines == [
        ("auth: request refused", {"ip": "203.0.113.9", "path": ME, "reason": "Invalid admin token"}),
    ]
    assert wrong not in caplog.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR "])
def test_the_admin_token_opens_the_api_whatever_the_case_of_the_scheme(nobody, scheme):
    """providers 77"""
    response = nobody.get(ME, headers={"authorization": f"{scheme} {TOKEN}"})
    assert response.json() == {"username": "admin", "role": "admin", "grants": [], "user_account": False}


def test_a_token_in_the_address_is_ignored(nobody):
    """providers 77"""
    assert told(nobody.get(f"{ME}?token={TOKEN}&admin_token={TOKEN}&access_token={TOKEN}")) == NO_CREDENTIALS


def test_a_virtual_key_never_opens_the_api(token):
    """operations 67"""
    assert told(Caller("sk-" + "0" * 32).get(ME)) == WRONG


def test_without_a_stored_token_no_token_matches(db):
    assert told(Caller("x").get(ME)) == WRONG
    assert not admin_token.matches("")
    with pytest.raises(ValueError, match="empty"):
        admin_token.store("")


def test_only_the_hash_of_the_token_is_stored_and_a_new_one_replaces_it(token):
    """providers 86"""
    stored = AdminToken.objects.get().token_hash
    assert stored.startswith("sha256:") and len(stored) == 71
    admin_token.store("another")
    assert told(Caller(TOKEN).get(ME)) == WRONG
    assert Caller("another").get(ME).status_code == 200


def test_the_session_cookie_comes_first_and_a_stale_one_gives_way_to_the_bearer(token, viewer_user):
    caller = signed_in(viewer_user)
    as_admin = {"authorization": f"Bearer {TOKEN}"}
    assert caller.get(ME, headers=as_admin).json()["username"] == "vera"
    caller.client.cookies["mh_session"] = "0" * 64
    assert caller.get(ME, headers=as_admin).json()["username"] == "admin"
    assert told(caller.get(ME)) == NO_CREDENTIALS


def test_a_session_token_works_as_a_bearer(token, viewer_user):
    cookie = signed_in(viewer_user).client.cookies["mh_session"].value
    response = Caller(cookie).get(ME)
    assert response.json() == {"username": "vera", "role": "viewer", "grants": [], "user_account": True}
    assert told(Caller(cookie).put("/api/settings", {})) == (403, "insufficient permissions")


def test_roles_follow_the_flags_of_the_account(admin, admin_user, viewer, stranger, stranger_user):
    stranger_user.display_name = "Stan the man"
    stranger_user.allowed_providers = ["p"]
    stranger_user.save()
    assert signed_in(admin_user).get(ME).json()["role"] == "admin"
    assert viewer.get(ME).json()["role"] == "viewer"
    assert stranger.get(ME).json() == {
        "username": "stan",
        "display_name": "Stan the man",
        "role": "user",
        "grants": [],
        "user_account": True,
        "allowed_providers": ["p"],
    }


def test_guessing_bearers_is_slowed_per_address_but_the_right_token_always_passes(token, monkeypatch):
    """operations 69. README decision 37."""
    clock = ManualClock()
    monkeypatch.setattr(throttles, "BEARER", Throttle(clock))
    wrong, right = Caller("wrong", REMOTE_ADDR="203.0.113.9"), Caller(TOKEN, REMOTE_ADDR="203.0.113.9")
    assert [wrong.get(ME).status_code for _ in range(8)] == [401] * 6 + [429] * 2
    response = wrong.get(ME)
    assert (told(response), response["Retry-After"]) == ((429, "too many failed attempts, try again later"), "1")
    assert Caller("wrong", REMOTE_ADDR="203.0.113.10").get(ME).status_code == 401
    clock.advance(1)
    assert wrong.get(ME).status_code == 401
    assert wrong.get(ME)["Retry-After"] == "2"
    assert right.get(ME).status_code == 200
    assert wrong.get(ME).status_code == 401


def test_guessed_bearers_do_not_lock_the_owner_out_of_signing_in(token):
    for _ in range(12):
        Caller("wrong").get(ME)
    assert BEARER.wait("ip:127.0.0.1") > 0
    assert Caller().post("/api/auth/admin-exchange", {"admin_token": TOKEN}).status_code == 200


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/nope", "/api/settings/nope/nope", "/api/auth", "/api/auth/x"])
def test_an_unknown_path_answers_404_as_text_to_everyone(path, admin, nobody):
    """operations 10.7"""
    for caller in (admin, nobody):
        response = caller.get(path)
        assert (told(response), response["Content-Type"]) == ((404, "not found"), "text/plain; charset=utf-8")
        assert told(caller.post(path, {})) == (404, "not found")
    assert admin.get(path, headers={"accept": "application/json"}).json() == {"error": "not found"}


def test_a_slash_at_the_end_makes_no_difference(admin):
    for path in ("/api/settings", "/api/settings/catalogue", ME, "/api/public-config"):
        plain, slashed = admin.get(path), admin.get(path + "/")
        assert plain.status_code == slashed.status_code == 200
        assert plain.content == slashed.content


def test_a_method_that_does_not_exist_answers_405_as_text(admin):
    response = admin.call("PATCH", "/api/settings")
    assert told(response) == (405, "method not allowed")
    assert set(response["Allow"].replace(" ", "").split(",")) == {"GET", "PUT", "DELETE"}
    assert told(admin.call("OPTIONS", "/api/settings")) == (405, "method not allowed")


def test_head_is_get_without_the_body(admin):
    full, head = admin.get("/api/settings"), admin.call("HEAD", "/api/settings")
    assert (head.status_code, head.content) == (200, b"")
    assert head["Content-Length"] == str(len(full.content))
    assert admin.call("HEAD", "/api/auth/logout").status_code == 405


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"admin_token":1}', b"{}", b"NaN"])
def test_a_body_of_the_wrong_shape_is_one_line(nobody, body):
    response = nobody.post("/api/auth/admin-exchange", body)
    assert (told(response), response["Content-Type"]) == (
        (400, "invalid request body"),
        "text/plain; charset=utf-8",
    )


def test_an_unexpected_error_is_a_short_line_and_its_detail_goes_to_the_log_only(admin, monkeypatch, caplog):
    from modelhotel import settings_verbs

    def broken():
        raise RuntimeError("detail-4711")

    monkeypatch.setattr(settings_verbs, "settings_map", broken)
    response = admin.get("/api/settings?secret=abc")
    assert told(response) == (500, "internal error")
    records = [record for record in caplog.records if record.getMessage() == "api: unexpected error"]
    assert [record.attrs["path"] for record in records] == ["/api/settings"]
    assert "detail-4711" in caplog.text


def test_every_answer_of_the_api_is_not_to_be_stored(admin, nobody):
    for response in (admin.get(ME), nobody.get(ME), nobody.get("/api/nope"), nobody.get("/api/public-config")):
        assert response["Cache-Control"] == "no-store"


def test_the_public_configuration_needs_no_credentials(nobody):
    assert nobody.get("/api/public-config").json() == {"read_only": False}


def test_the_description_of_the_api_is_for_staff(admin, viewer, stranger, nobody):
    for path in ("/api/docs", "/api/openapi.json"):
        assert told(nobody.get(path)) == NO_CREDENTIALS
        assert told(stranger.get(path)) == (403, "insufficient permissions")
        assert viewer.get(path).status_code == admin.get(path).status_code == 200
    response = nobody.get("/api/docs", headers={"accept": "text/html"})
    assert (response.status_code, response["Location"]) == (302, "/login/?next=/api/docs")
    schema = admin.get("/api/openapi.json").json()
    assert {"/api/settings", "/api/auth/me", "/api/logs"} <= set(schema["paths"])
    page = text(admin.get("/api/docs"))
    assert "/static/modelhotel/apidocs.js" in page
    assert "<script>" not in page


def test_every_endpoint_refuses_a_stranger_before_it_looks_at_anything(nobody, stranger, viewer, admin_user):
    """providers 11.2, providers 78. Viewers only read, and no cookie writes without its CSRF token."""
    from modelhotel.api import api

    public = {"/auth/admin-exchange", "/auth/login", "/auth/logout", "/auth/status", "/public-config", "/demo-login"}
    everybody = ("/auth/", "/version/")  # who is signed in
    caller = signed_in(admin_user)
    seen = 0
    for router in api._get_bound_routers():
        for path, view in router.path_operations.items():
            full = "/" + "/".join(part for part in f"{router.prefix}/{path}".split("/") if part)
            if full in public:
                continue
            address = "/api" + "/".join("x" if part.startswith("{") else part for part in full.split("/"))
            for method in {method for operation in view.operations for method in operation.methods}:
                assert told(nobody.call(method, address, "{")) == NO_CREDENTIALS, (method, address)
                if not full.startswith(everybody):
                    assert told(stranger.call(method, address, "{")) == (403, "insufficient permissions")
                    if method != "GET":
                        assert told(viewer.call(method, address, "{")) == (403, "insufficient permissions")
                if method != "GET":
                    bare = caller.call(method, address, "{", headers={"x-csrf-token": ""})
                    assert told(bare) == (403, "CSRF token missing or invalid"), (method, address)
                seen += 1
    assert seen >= 40
