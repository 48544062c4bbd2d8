"""``invalid request body`` names the member at fault and what it must be: in a header, and beside the text in JSON."""

from typing import Any

import pytest

from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import text

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
TEXT = "invalid request body"
NOBODY = "00000000-0000-4000-8000-000000000000"
CASES: list[tuple[str, str, Any, str, str]] = [
    ("post", "providers", {"name": 5}, "name", "name must be a string"),
    ("post", "providers", {"name": None}, "name", "name must be a string"),
    (
        "post",
        "providers",
        {"max_in_flight": "4"},
        "max_in_flight",
        "max_in_flight must be a whole number",
    ),
    (
        "post",
        "providers",
        {"max_in_flight": 4.5},
        "max_in_flight",
        "max_in_flight must be a whole number",
    ),
    ("put", f"providers/{NOBODY}", {"enabled": "no"}, "enabled", "enabled must be true or false"),
    ("post", "providers/test", {"base_url": []}, "base_url", "base_url must be a string"),
    ("patch", f"models/{NOBODY}", {"enabled": None}, "enabled", "enabled must be true or false"),
    (
        "patch",
        f"models/{NOBODY}",
        {"input_price_per_million": {}},
        "input_price_per_million",
        "input_price_per_million must be a number",
    ),
    ("post", "models/bulk-delete", {}, "ids", "ids is required"),
    ("post", "models/bulk-delete", {"ids": ["x", 5]}, "ids[1]", "ids[1] must be a string"),
    ("post", "discovery/dismiss", {"model_ids": "x"}, "model_ids", "model_ids must be a list"),
    (
        "post",
        "virtual-keys",
        {"name": "a", "budget_usd": "5"},
        "budget_usd",
        "budget_usd must be a number",
    ),
    ("post", "users", {"username": 5}, "username", "username must be a string"),
    ("delete", "logs/purge", {"older_than": 1}, "older_than", "older_than must be a string"),
    ("delete", "settings", {}, "keys", "keys is required"),
    ("delete", "settings", {"keys": None}, "keys", "keys must be a list"),
    (
        "put",
        "settings",
        {"request_timeout": "9s", "circuit_breaker_threshold": 3},
        "circuit_breaker_threshold",
        "circuit_breaker_threshold must be a string: settings are sent in quotes",
    ),
    (
        "put",
        "settings",
        {"failover_retry_on_errors": "a\0b"},
        "failover_retry_on_errors",
        "failover_retry_on_errors must hold no NUL character",
    ),
    ("post", "settings/preset", {"name": 1}, "name", "name must be a string"),
]


@pytest.mark.parametrize(("method", "path", "body", "field", "hint"), CASES)
def test_a_member_of_another_type_is_named(admin, method, path, body, field, hint):
    plain = admin.call(method.upper(), f"/api/{path}", body)
    assert (plain.status_code, text(plain), plain["X-Error-Hint"]) == (400, TEXT, hint)
    coded = admin.call(method.upper(), f"/api/{path}", body, headers={"Accept": "application/json"})
    assert coded.json() == {"error": TEXT, "field": field, "hint": hint}


@pytest.mark.parametrize("path", ["providers", "virtual-keys", "settings/preset"])
@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (b"[]", "the body must be a JSON object"),
        (b"null", "the body must be a JSON object"),
        (b"", "the body must be a JSON object"),
        (b'{"name": }', "the body must be a JSON object: no JSON at byte 9"),
        (b'{"name": "\xff"}', "the body must be a JSON object"),
        (b"[" * 100_000, "the body must be a JSON object"),
    ],
)
def test_a_body_that_is_no_object_is_told_so(admin, path, body, hint):
    refused = admin.post(f"/api/{path}", body, headers={"Accept": "application/json"})
    assert (refused.status_code, refused.json()["error"]) == (400, TEXT)
    assert refused["X-Error-Hint"].startswith("the body must be a JSON object"), refused["X-Error-Hint"]
    assert refused.json()["hint"] == hint


def test_groups_say_it_in_the_header_alone(admin):
    refused = admin.post("/api/failover-groups", {"entry_ids": "a"}, headers={"Accept": "application/json"})
    assert refused.json() == {"error": TEXT}
    assert refused["X-Error-Hint"] == "entry_ids must be a list"
    refused = admin.put(f"/api/failover-groups/{NOBODY}", {"entry_enabled": {"a": 1}})
    assert refused["X-Error-Hint"] == "entry_enabled.a must be true or false"


def test_a_name_of_the_clients_own_stays_short_and_in_the_line(admin):
    refused = admin.put("/api/settings", {"é\r\nX-Evil: 1" + "x" * 500: 1})
    assert (refused.status_code, text(refused)) == (400, TEXT)
    hint = refused["X-Error-Hint"]
    assert hint.isascii() and "\n" not in hint and len(hint) < 200 and not refused.has_header("X-Evil")


def test_null_is_absent_where_a_member_is_optional(admin):
    given = {"name": "a", "base_url": "https://api.openai.com/v1", "provider_type": None, "api_key": None}
    refused = admin.post("/api/providers", given)
    assert (refused.status_code, text(refused)) == (400, "api_key is required for this provider type")
    made = admin.post("/api/providers", {**given, "api_key": "sk-1", "quota_reserve_percent": None})
    assert (made.status_code, made.json()["provider_type"]) == (201, "openai")
    path = f"/api/providers/{made.json()['id']}"
    names = (
        "name",
        "base_url",
        "provider_type",
        "api_key",
        "enabled",
        "autodiscovery_enabled",
        "quota_reserve_percent",
    )
    kept = admin.put(path, dict.fromkeys(names))
    assert kept.status_code == 200
    assert {**kept.json(), "updated_at": ""} == {**made.json(), "updated_at": ""}
    account = admin.post("/api/users", {"username": "una", "password": "long-enough-1", "email": None, "role": None})
    assert (account.status_code, account.json()["role"], account.json()["email"]) == (201, "user", "")
