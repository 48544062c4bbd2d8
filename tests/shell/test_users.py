"""Accounts: made and changed through ``/api/users``, signed in with a password, kept to what they were granted."""

import json
from dataclasses import replace

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from modelhotel.accounts import sessions, users
from modelhotel.core.actor import ADMIN
from modelhotel.core.faults import Refusal
from modelhotel.models import Session, User
from proxy.models import VirtualKey
from tests.proxy import world
from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import Caller, text

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

PASSWORD = "correct horse"
GRANTS = ["chat", "logs", "models", "usage", "virtual_keys"]


def told(response):
    return response.status_code, text(response)


def made(caller, name="ann", **given):
    response = caller.post("/api/users", {"username": name, "password": PASSWORD, **given})
    assert response.status_code == 201, text(response)
    return response.json()


def browser(name="ann", password=PASSWORD):
    """Somebody who signed in with a password."""
    caller = Caller()
    assert told(caller.post("/api/auth/login", {"username": name, "password": password})) == (200, '{"success": true}')
    return caller


def test_an_account_is_made_seen_and_changed(admin):
    account = made(admin, role="user", grants=["logs", "chat"], email="ann@example.org", rate_limit_rps=3)
    assert account["grants"] == ["chat", "logs"] and account["role"] == "user" and account["enabled"] is True
    assert account["rate_limit_rps"] == 3 and account["allowed_providers"] is None
    assert "password" not in json.dumps(account)
    changed = admin.put(f"/api/users/{account['id']}", {"role": "viewer", "display_name": "Ann B", "budget_usd": None})
    assert changed.status_code == 200, text(changed)
    assert changed.json() == {**account, "role": "viewer", "grants": [], "display_name": "Ann B"}
    assert admin.get(f"/api/users/{account['id']}").json() == changed.json()
    assert [one["username"] for one in admin.get("/api/users").json()] == ["ann"]
    assert [one["grant"] for one in admin.get("/api/users/grants").json()] == [
        "chat",
        "usage",
        "logs",
        "models",
        "virtual_keys",
    ]
    assert admin.delete(f"/api/users/{account['id']}").status_code == 204
    assert told(admin.get(f"/api/users/{account['id']}")) == (404, "user not found")


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"username": ""}, "username must be 1 to 64 characters without blanks or control characters"),
        ({"username": "a b"}, "username must be 1 to 64 characters without blanks or control characters"),
        ({"username": "x" * 65}, "username must be 1 to 64 characters without blanks or control characters"),
        ({"username": 5}, "invalid request body"),
        ({"password": "short"}, "password must be between 8 and 1024 characters"),
        ({"password": "x" * 1025}, "password must be between 8 and 1024 characters"),
        ({"role": "boss"}, "role must be admin, viewer or user"),
        ({"grants": ["chat", "everything"]}, 'grants: "everything" is none of chat, usage, logs, models, virtual_keys'),
        ({"email": "nowhere"}, "email must be an e-mail address"),
        (
            {"display_name": "x" * 129},
            "display_name must be at most 128 characters without control or invisible characters",
        ),
        ({"allowed_providers": []}, "allowed_providers must be null or contain at least one provider ID"),
        ({"allowed_providers": ["x"]}, 'allowed_providers: "x" is not a provider ID'),
        ({"rate_limit_rps": -1}, "rate_limit_rps must be >= 0"),
        ({"budget_usd": 5}, "budget_usd and budget_period go together: set both or neither"),
    ],
)
def test_what_an_account_can_not_be(admin, given, answer):
    response = admin.post("/api/users", {"username": "ann", "password": PASSWORD, **given})
    assert told(response) == (400, answer)
    assert not User.objects.exists()


def test_names_and_addresses_are_taken_in_any_letter_case(admin):
    made(admin, email="ann@example.org")
    other = made(admin, "bob")
    twice = admin.post("/api/users", {"username": "ANN", "password": PASSWORD})
    assert told(twice) == (409, "a user with this username already exists")
    same = admin.put(f"/api/users/{other['id']}", {"email": "Ann@Example.org"})
    assert told(same) == (409, "a user with this email already exists")
    assert told(admin.put("/api/users/x", {})) == (400, "invalid user ID")


def test_nobody_cuts_off_the_branch_it_sits_on(admin):
    """operations 10.3"""
    account = made(admin, "root2", role="admin")
    own = browser("root2")
    for body in ({"enabled": False}, {"role": "viewer"}):
        refused = own.put(f"/api/users/{account['id']}", body)
        assert told(refused) == (409, "you cannot disable or demote your own account")
    assert told(own.delete(f"/api/users/{account['id']}")) == (409, "you cannot delete your own account")
    assert own.put(f"/api/users/{account['id']}", {"display_name": "R"}).status_code == 200


@pytest.mark.parametrize(
    "taken",
    [
        lambda admin, one: admin.put(f"/api/users/{one}", {"enabled": False}),
        lambda admin, one: admin.put(f"/api/users/{one}", {"role": "user"}),
        lambda admin, one: admin.post(f"/api/users/{one}/password", {"password": "another secret"}),
        lambda admin, one: admin.delete(f"/api/users/{one}"),
    ],
)
def test_what_takes_something_away_ends_the_sessions(admin, taken):
    account = made(admin, role="viewer")
    caller = browser()
    assert caller.get("/api/providers").status_code == 200
    assert taken(admin, account["id"]).status_code in (200, 204)
    assert told(caller.get("/api/providers")) == (401, "Authorization header required (Bearer token)")
    assert not Session.objects.exists()


def test_a_password_signs_in_and_every_refusal_reads_the_same(admin, nobody):
    assert nobody.get("/api/auth/status").json() == {"enabled": False}
    account = made(admin, role="user", grants=["logs"])
    made(admin, "off", enabled=False)
    assert nobody.get("/api/auth/status").json() == {"enabled": True}
    for name, password in (("ann", "wrong password"), ("nobody", PASSWORD), ("off", PASSWORD)):
        refused = nobody.post("/api/auth/login", {"username": name, "password": password})
        assert told(refused) == (401, "invalid username or password")
    me = browser("ANN").get("/api/auth/me").json()
    assert me == {"username": "ann", "role": "user", "grants": ["logs"], "user_account": True}
    assert admin.get(f"/api/users/{account['id']}").json()["last_login_at"] is not None


def test_guessing_is_slowed_down_by_name_too(admin, nobody):
    made(admin)
    for _ in range(6):
        answer = nobody.post("/api/auth/login", {"username": "ann", "password": "wrong password"})
    locked = nobody.post("/api/auth/login", {"username": "ann", "password": PASSWORD})
    assert told(locked) == (429, "too many failed attempts, try again later"), told(answer)
    assert int(locked["Retry-After"]) >= 1


def test_ones_own_password_needs_the_old_one_and_ends_the_other_sessions(admin):
    made(admin, role="viewer")
    here, there = browser(), browser()
    asked = {"current_password": "wrong password", "new_password": "battery staple"}
    assert told(here.post("/api/auth/password", asked)) == (401, "the current password is wrong")
    asked["current_password"] = PASSWORD
    assert told(here.post("/api/auth/password", {**asked, "new_password": "short"})) == (
        400,
        "password must be between 8 and 1024 characters",
    )
    assert here.post("/api/auth/password", asked).json() == {"success": True}
    assert here.get("/api/auth/me").status_code == 200
    assert there.get("/api/auth/me").status_code == 401
    assert browser(password="battery staple")
    assert told(admin.post("/api/auth/password", asked))[0] == 400


def test_an_account_without_grants_gets_nowhere(admin):
    made(admin, role="user")
    caller = browser()
    for path in ("/api/virtual-keys", "/api/logs", "/api/stats", "/api/models", "/api/providers", "/api/users"):
        assert told(caller.get(path)) == (403, "insufficient permissions"), path


def test_an_account_sees_and_changes_its_own_keys_and_nobody_elses(admin):
    """v1-api 15"""
    mine, yours = made(admin, "ann", role="user", grants=["virtual_keys"]), made(admin, "bob")
    theirs = admin.post("/api/virtual-keys", {"name": "theirs", "owner_user_id": yours["id"]}).json()
    caller = browser()
    for method, body in (("GET", None), ("PUT", {"name": "x"}), ("DELETE", None)):
        refused = caller.call(method, f"/api/virtual-keys/{theirs['id']}", body)
        assert told(refused) == (404, "virtual key not found"), method
    own = caller.post("/api/virtual-keys", {"name": "own", "owner_user_id": yours["id"]})
    assert own.status_code == 201 and own.json()["owner_user_id"] == mine["id"]
    assert [key["name"] for key in caller.get("/api/virtual-keys").json()] == ["own"]
    renamed = caller.put(f"/api/virtual-keys/{own.json()['id']}", {"name": "mine", "owner_user_id": None})
    assert renamed.json()["owner_user_id"] == mine["id"]
    assert caller.delete(f"/api/virtual-keys/{own.json()['id']}").status_code == 204
    assert [key.name for key in VirtualKey.objects.all()] == ["theirs"]


def test_an_account_knows_of_the_providers_it_may_use_only(admin):
    alpha, beta = world.provider("Alpha"), world.provider("Beta", url="http://127.0.0.1:10/v1")
    world.model(alpha, "m")
    world.model(beta, "n")
    made(admin, role="user", grants=["models", "virtual_keys"], allowed_providers=[str(alpha.pk)])
    caller = browser()
    assert [(one["name"], one["total_tokens"]) for one in caller.get("/api/providers").json()] == [("Alpha", None)]
    assert caller.get(f"/api/providers/{alpha.pk}").status_code == 200
    assert told(caller.get(f"/api/providers/{beta.pk}")) == (404, "provider not found")
    assert told(caller.get(f"/api/providers/{alpha.pk}/dependents")) == (403, "insufficient permissions")
    assert told(caller.put(f"/api/providers/{alpha.pk}", {"name": "x"})) == (403, "insufficient permissions")
    assert [one["model_id"] for one in caller.get("/api/models").json()] == ["m"]
    page = caller.get("/api/models/cursor").json()
    assert [one["model_id"] for one in page["entries"]] == ["m"] and page["total"] == 1
    assert told(caller.post("/api/models/bulk-delete", {"ids": []})) == (403, "insufficient permissions")
    assert [one["name"] for one in admin.get("/api/providers").json()] == ["Beta", "Alpha"]


def test_a_viewer_looks_at_accounts_and_changes_none(viewer, viewer_user):
    assert [one["username"] for one in viewer.get("/api/users").json()] == ["vera"]
    assert told(viewer.post("/api/users", {"username": "x", "password": PASSWORD}))[0] == 403
    assert told(viewer.delete(f"/api/users/{viewer_user.pk}"))[0] == 403


def test_a_viewer_that_was_made_here_sees_every_page(admin):
    made(admin, role="viewer")
    client = page()
    for path in (
        "/providers/",
        "/models/",
        "/failover/",
        "/keys/",
        "/requests/",
        "/logs/",
        "/settings/",
        "/modelhotel/user/",
    ):
        assert client.get(path).status_code == 200, path
    assert sessions.of_account(User.objects.get(username="ann"))


def page(name="ann"):
    """The pages as the account *name* sees them."""
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client


@pytest.mark.parametrize("asked", ["password__startswith=argon2", "password__regex=a", "password=x"])
def test_no_list_tells_a_viewer_of_a_hash(admin, asked):
    made(admin, role="viewer")
    assert page().get(f"/modelhotel/user/?{asked}").status_code == 400
    assert page().get("/proxy/virtualkey/?key_hash__startswith=a").status_code == 400
    assert page().get("/providers/provider/?encrypted_key__startswith=a").status_code == 400
    assert page().get("/modelhotel/user/?q=ann").status_code == 200


def test_a_disabled_account_shows_its_grants_and_can_lose_them(admin):
    account = made(admin, role="user", grants=["chat", "logs"])
    off = admin.put(f"/api/users/{account['id']}", {"enabled": False})
    assert off.json()["grants"] == ["chat", "logs"]
    assert admin.put(f"/api/users/{account['id']}", {"grants": ["logs"]}).json()["grants"] == ["logs"]
    assert admin.put(f"/api/users/{account['id']}", {"grants": []}).json()["grants"] == []
    assert admin.put(f"/api/users/{account['id']}", {"enabled": True}).json()["grants"] == []


def test_a_list_of_accounts_asks_the_database_equally_often_whatever_its_length(admin):
    made(admin, "viv", role="viewer")

    def questions():
        with CaptureQueriesContext(connection) as by_api:
            assert admin.get("/api/users").status_code == 200
        with CaptureQueriesContext(connection) as by_page:
            assert page("viv").get("/modelhotel/user/").status_code == 200
        return len(by_api), len(by_page)

    made(admin, "u0", role="user", grants=["chat"])
    few = questions()
    for number in range(1, 12):
        made(admin, f"u{number}", role="user", grants=GRANTS)
    assert questions() == few
    assert admin.get("/api/users").json()[-2]["grants"] == GRANTS


@pytest.mark.parametrize("name", ["a\0b", "x" * 60_000, "%", "_nn", "ann\\", ""])
def test_no_name_or_password_breaks_the_sign_in(admin, nobody, name):
    made(admin)
    for body in ({"username": name, "password": PASSWORD}, {"username": "ann", "password": name}):
        assert told(nobody.post("/api/auth/login", body)) == (401, "invalid username or password")


def test_letter_case_is_that_of_every_script(admin, nobody):
    made(admin, "änne")
    again = admin.post("/api/users", {"username": "ÄNNE", "password": PASSWORD})
    assert told(again) == (409, "a user with this username already exists")
    assert browser("ÄNNE").get("/api/auth/me").json()["username"] == "änne"


@pytest.mark.parametrize("role", ["user", "viewer"])
def test_the_admin_token_makes_no_administrator_of_whoever_knows_a_password(admin, nobody, token, role):
    made(admin, "admin", role=role)
    own = browser("admin")
    assert nobody.post("/api/auth/admin-exchange", {"admin_token": token}).status_code == 200
    assert nobody.get("/api/auth/me").json()["role"] == "admin"
    assert own.get("/api/auth/me").status_code == 401
    refused = Caller().post("/api/auth/login", {"username": "admin", "password": PASSWORD})
    assert told(refused) == (401, "invalid username or password")


def test_accounts_are_deleted_together_or_not_at_all(admin):
    made(admin, "root", role="admin")
    for name in ("ann", "zoe"):
        made(admin, name)
    everybody = [str(pk) for pk in User.objects.values_list("pk", flat=True)]
    asked = {"action": "delete_selected", "_selected_action": everybody, "post": "yes"}
    told = page("root").post("/modelhotel/user/", asked, follow=True)
    assert "you cannot delete your own account" in told.content.decode()
    assert User.objects.count() == 3


def test_a_password_of_an_account_that_is_gone_is_told_so(admin):
    made(admin)
    user = User.objects.get()
    User.objects.all().delete()
    with pytest.raises(Refusal, match="user not found"):
        users.set_password(user, "another secret", ADMIN)


def test_streams_of_a_deleted_account_end_when_it_is_gone_not_before(admin, monkeypatch):
    account = made(admin, role="viewer")
    browser()
    seen = []
    monkeypatch.setattr(sessions, "ended", [lambda key: seen.append(User.objects.exists())])
    assert admin.delete(f"/api/users/{account['id']}").status_code == 204
    assert seen == [False]


def test_the_page_of_ones_own_password_asks_as_much_as_the_api(admin):
    made(admin, role="viewer")
    here, there = page(), browser()

    def change(old, new, again=None):
        form = {"old_password": old, "new_password1": new, "new_password2": new if again is None else again}
        answer = here.post("/password_change/", form)
        return answer.status_code, answer.content.decode()

    for old, new, again, words in (
        ("wrong password", "battery staple", None, "The current password is wrong"),
        (PASSWORD, "short", None, "Password must be between 8 and 1024 characters"),
        (PASSWORD, "battery staple", "battery stable", "match"),
    ):
        status, body = change(old, new, again)
        assert status == 200 and words in body, words
    assert there.get("/api/auth/me").status_code == 200
    assert change(PASSWORD, "battery staple")[0] == 302
    assert here.get("/password_change/").status_code == 200
    assert there.get("/api/auth/me").status_code == 401
    assert browser(password="battery staple")
    for _ in range(6):
        change("wrong password", "battery staple")
    assert "too many failed attempts" in change("battery staple", PASSWORD)[1].lower()


@pytest.mark.parametrize("origin", ["http://evil.example", "null"])
def test_no_page_of_another_site_signs_its_visitor_in(admin, token, origin):
    made(admin)
    foreign = {"origin": origin, "content-type": "text/plain"}
    for path, body in (
        ("login", {"username": "ann", "password": PASSWORD}),
        ("admin-exchange", {"admin_token": token}),
    ):
        refused = Caller().post(f"/api/auth/{path}", body, headers=foreign)
        assert told(refused) == (403, "CSRF token missing or invalid") and not refused.cookies
        own = Caller().post(f"/api/auth/{path}", body, headers={"origin": "http://testserver"})
        assert own.status_code == 200 and "mh_session" in own.cookies


def test_a_demo_takes_no_grant_away(admin, settings):
    made(admin, role="user", grants=["chat", "usage", "virtual_keys"])
    settings.MH = replace(settings.MH, demo_readonly=True)
    caller = browser()
    assert caller.get("/api/auth/me").json()["grants"] == ["chat", "usage", "virtual_keys"]
    assert caller.get("/api/virtual-keys").json() == []
    assert caller.post("/api/virtual-keys", {"name": "x"}).status_code == 403


def test_a_long_search_is_no_fault_of_ours(admin):
    made(admin, role="viewer")
    assert page().get("/modelhotel/user/", {"q": "x" * 60_000}).status_code == 200


def test_a_bearer_session_goes_on_after_its_own_change_of_password(admin):
    made(admin, role="viewer")
    there = browser()
    script = Caller(browser().client.cookies["mh_session"].value)
    asked = {"current_password": PASSWORD, "new_password": "battery staple"}
    assert script.post("/api/auth/password", asked).json() == {"success": True}
    assert script.get("/api/auth/me").status_code == 200
    assert there.get("/api/auth/me").status_code == 401
