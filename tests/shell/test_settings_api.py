"""``/api/settings``: what may be read, changed and reset, by whom, and in which words it is refused."""

import json
import threading

import pytest
from django.db import DatabaseError, connections

from modelhotel import settings_verbs
from modelhotel.accounts import audit
from modelhotel.config_store import read_versions
from modelhotel.core import catalogue, events, options, snapshots
from modelhotel.core.actor import ADMIN
from modelhotel.models import AuditRow, Setting
from proxy import policy
from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import signed_in, text

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
URL = "/api/settings"
READ_ONLY = {
    "app_version",
    "app_commit",
    "log_export_json",
    "log_export_metrics",
    "log_export_otel",
    "discovery_claim_window_days",
}


@pytest.fixture
def environ(monkeypatch):
    """The environment of the registry, to fix settings with."""
    values = {}
    monkeypatch.setattr(options, "environ", values)
    return values


@pytest.fixture
def heard():
    seen = []
    events.subscribe(seen.append)
    return seen


def test_a_fresh_install_shows_only_the_read_only_keys(admin):
    """settings 1"""
    response = admin.get(URL)
    assert response.status_code == 200
    assert set(response.json()) == READ_ONLY
    assert all(isinstance(value, str) for value in response.json().values())
    assert not Setting.objects.exists()


def test_a_stored_value_is_a_string_in_the_map_and_in_force_at_once(admin):
    """settings 2"""
    response = admin.put(URL, {"circuit_breaker_threshold": "3"})
    assert response.status_code == 200
    assert response.json()["circuit_breaker_threshold"] == "3"
    assert options.current()[catalogue.CIRCUIT_BREAKER_THRESHOLD] == 3


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"circuit_breaker_threshold":3}',
        b'{"circuit_breaker_enabled":true}',
        b'{"log_retention":null}',
        b'{"log_retention":["1d"]}',
        b'{"request_timeout":"2s","log_retention":{}}',
        b'{"failover_retry_on_errors":"a\\u0000b"}',
        b"[" * 20_000,
    ],
)
def test_a_body_that_is_no_object_of_strings_is_refused(admin, body):
    """settings 3"""
    response = admin.put(URL, body)
    assert (response.status_code, text(response)) == (400, "invalid request body")
    assert not Setting.objects.exists()


REFUSED = [
    ({"circuit_breaker_threshold": "0"}, "circuit_breaker_threshold must be between 1 and 100"),
    ({"circuit_breaker_threshold": "101"}, "circuit_breaker_threshold must be between 1 and 100"),
    ({"circuit_breaker_threshold": "9" * 400}, "circuit_breaker_threshold must be between 1 and 100"),
    ({"circuit_breaker_threshold": "5.0"}, "circuit_breaker_threshold must be a number"),
    ({"circuit_breaker_threshold": ""}, "circuit_breaker_threshold must be a number"),
    ({"circuit_breaker_threshold": " 5"}, "circuit_breaker_threshold must be a number"),
    ({"circuit_breaker_threshold": "0x10"}, "circuit_breaker_threshold must be a number"),
    ({"circuit_breaker_threshold": "٣"}, "circuit_breaker_threshold must be a number"),
    ({}, "no settings provided"),
    ({f"k{n}": "1" for n in range(51)}, "too many settings in one request"),
    ({"nope": "1"}, "unknown setting: nope"),
    ({"app_version": "9"}, "unknown setting: app_version"),
    ({"_instance_id": "x"}, "unknown setting: _instance_id"),
    ({"circuit_breaker_quota_pin_enabled": "false"}, "unknown setting: circuit_breaker_quota_pin_enabled"),
    ({"log_retention": "1" * 501}, "value for log_retention too long (max 500 characters)"),
    ({"request_timeout": "60"}, "request_timeout must be a duration such as 30s or 1m0s"),
    ({"request_timeout": ""}, "request_timeout must be a duration such as 30s or 1m0s"),
    ({"request_timeout": "٣s"}, "request_timeout must be a duration such as 30s or 1m0s"),
    ({"request_timeout": "0s"}, "request_timeout must be greater than 0s"),
    ({"request_timeout": "8761h"}, "request_timeout must be between 0s and 8760h"),
    ({"stream_stall_timeout": "-5s"}, "stream_stall_timeout must be between 0s and 8760h"),
    ({"midstream_recovery_default": "on"}, "midstream_recovery_default must be one of off, continue"),
    ({"midstream_recovery_max": "11"}, "midstream_recovery_max must be between 1 and 10"),
    ({"circuit_breaker_probe_lease": "11m"}, "circuit_breaker_probe_lease must be between 0s and 10m"),
    ({"hedging_enabled": "yes"}, "hedging_enabled must be true or false"),
    ({"hedging_enabled": "1"}, "hedging_enabled must be true or false"),
    ({"failover_max_attempts": "-1"}, "failover.max_attempts: must be zero or positive, got -1"),
    ({"failover_max_attempts": "101"}, "failover_max_attempts must be between 0 and 100"),
    (
        {"failover_retry_on_statuses": "5xx,6xx"},
        'failover.retry_on_statuses: "6xx" is not an HTTP status code or class such as 5xx',
    ),
    (
        {"rate_limit_saturation_max_wait": "0s"},
        "rate_limit_saturation_max_wait must be greater than 0s",
    ),
    ({"rate_limit_wait_in_place": "11s"}, "rate_limit_wait_in_place must be between 0s and 10s"),
    (
        {"failover_retry_on_errors": "404"},
        'failover.retry_on_errors: "404" must contain at least one non-numeric word',
    ),
    (
        {"failover_retry_on_errors": "4xx 12345"},
        'failover.retry_on_errors: "4xx 12345" must contain at least one non-numeric word',
    ),
]


@pytest.mark.parametrize(("body", "words"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_bad_value_is_refused_in_the_listed_words_and_nothing_is_written(admin, body, words):
    """settings 4, settings 5, settings 6, settings 7, settings 8, settings 9, settings 10, settings 12, settings 13,
    settings 15, settings 17, settings 23, settings 24, settings 65, settings 65c, settings 65d, settings 65e,
    routing 79."""
    response = admin.put(URL, body)
    assert (response.status_code, text(response)) == (400, words)
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert not Setting.objects.exists()


@pytest.mark.parametrize(
    ("key", "value", "option", "read"),
    [
        ("circuit_breaker_threshold", "100", catalogue.CIRCUIT_BREAKER_THRESHOLD, 100),
        ("circuit_breaker_threshold", "+7", catalogue.CIRCUIT_BREAKER_THRESHOLD, 7),
        ("ttft_timeout", "0s", catalogue.TTFT_TIMEOUT, 0.0),
        ("ttft_timeout", "0", catalogue.TTFT_TIMEOUT, 0.0),
        ("request_timeout", "1d12h", catalogue.REQUEST_TIMEOUT, 129600.0),
        ("request_timeout", "30s1m", catalogue.REQUEST_TIMEOUT, 90.0),
        ("circuit_breaker_probe_lease", "0s", catalogue.CIRCUIT_BREAKER_PROBE_LEASE, 0.0),
        ("rate_limit_wait_in_place", "10s", catalogue.RATE_LIMIT_WAIT_IN_PLACE, 10.0),
        ("rate_limit_recent_success_window", "0s", catalogue.RATE_LIMIT_RECENT_SUCCESS_WINDOW, 0.0),
        ("circuit_breaker_probe_lease", "10m0s", catalogue.CIRCUIT_BREAKER_PROBE_LEASE, 600.0),
        ("log_retention", "1m", catalogue.LOG_RETENTION, 30 * 86400.0),
        ("log_retention", "60s", catalogue.LOG_RETENTION, 60.0),
        ("log_retention", "1w", catalogue.LOG_RETENTION, 7 * 86400.0),
        ("log_retention", "", catalogue.LOG_RETENTION, 0.0),
        ("failover_retry_on_statuses", "5XX, 408,,408", catalogue.FAILOVER_RETRY_ON_STATUSES, ("5XX", "408")),
        ("failover_retry_on_errors", "a" * 500, catalogue.FAILOVER_RETRY_ON_ERRORS, ("a" * 500,)),
    ],
)
def test_a_good_value_is_stored_as_sent_and_read_as_meant(admin, key, value, option, read):
    """settings 5, settings 12, settings 14, settings 16, settings 65d. The longest value has 500 characters."""
    assert admin.put(URL, {key: value}).status_code == 200
    assert admin.get(URL).json()[key] == value
    assert options.current()[option] == read


def test_a_duration_is_not_rewritten(admin):
    """settings 14"""
    admin.put(URL, {"request_timeout": "90s"})
    assert admin.get(URL).json()["request_timeout"] == "90s"


def test_the_first_bad_key_of_the_body_is_the_one_reported_and_nothing_is_written(admin):
    """part of settings 11"""
    body = '{"request_timeout":"2m0s","ttft_timeout":"x","nope":"1","circuit_breaker_threshold":"0"}'
    response = admin.put(URL, body)
    assert text(response) == "ttft_timeout must be a duration such as 30s or 1m0s"
    swapped = '{"nope":"1","ttft_timeout":"x"}'
    assert text(admin.put(URL, swapped)) == "unknown setting: nope"
    assert not Setting.objects.exists()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("rate_limit_burst", "0", "rate_limit_burst must be between 1 and 10000"),
        ("rate_limit_rps", "NaN", "rate_limit_rps must be a number"),
        ("rate_limit_rps", "10000.5", "rate_limit_rps must be between 0 and 10000"),
    ],
)
def test_a_limit_that_is_none_changes_nothing(admin, key, value, said):
    """settings 11, settings 26"""
    answer = admin.put(URL, {"request_timeout": "2m0s", key: value})
    assert (answer.status_code, text(answer)) == (400, said)
    assert not Setting.objects.exists()


def test_fifty_keys_in_one_request_are_looked_at(admin):
    """settings 8"""
    assert text(admin.put(URL, {f"k{n}": "1" for n in range(50)})) == "unknown setting: k0"


def test_a_stored_word_of_an_older_version_reads_as_true(admin):
    """settings 24"""
    Setting.objects.create(key="hedging_enabled", value="1")
    snapshots.refresh(["settings"])
    assert options.current()[catalogue.HEDGING_ENABLED] is True
    assert admin.get(URL).json()["hedging_enabled"] == "1"


def test_a_stored_value_that_is_none_reads_as_the_default_with_one_warning(admin, caplog):
    """settings 21, settings 25"""
    Setting.objects.create(key="log_retention", value="soon")
    Setting.objects.create(key="hedging_enabled", value="maybe")
    for _ in range(5):
        snapshots.refresh(["settings"])
    assert {policy.of(options.current()).hedge for _ in range(1000)} == {0.0}
    assert options.current()[catalogue.LOG_RETENTION] == 0.0
    assert admin.get(URL).json()["log_retention"] == "soon"
    assert len([record for record in caplog.records if "ignored" in record.message]) == 2


def test_a_stored_zero_keeps_the_key_cache_ttl_that_was_in_force(admin):
    """settings 60"""
    admin.put(URL, {"key_cache_ttl": "5m"})
    Setting.objects.filter(key="key_cache_ttl").update(value="0s")
    snapshots.refresh(["settings"])
    assert options.current()[catalogue.KEY_CACHE_TTL] == 300.0


def test_a_reset_deletes_the_row_and_the_default_is_in_force(admin, heard):
    """settings 48"""
    admin.put(URL, {"circuit_breaker_threshold": "9", "request_timeout": "9s"})
    response = admin.delete(URL, {"keys": ["circuit_breaker_threshold"]})
    assert response.status_code == 200
    assert "circuit_breaker_threshold" not in response.json()
    assert response.json()["request_timeout"] == "9s"
    assert options.current()[catalogue.CIRCUIT_BREAKER_THRESHOLD] == 5
    assert heard[-1].metadata == {
        "kind": "setting",
        "id": "circuit_breaker_threshold",
        "action": "reset",
        "actor": "admin",
    }


def test_resetting_everything_spares_the_internal_rows(admin):
    """settings 49"""
    Setting.objects.create(key="_instance_id", value="x")
    admin.post("/api/failover-groups/sync")
    synced = admin.get("/api/failover-groups").json()["last_synced_at"]
    admin.put(URL, {"request_timeout": "9s"})
    response = admin.delete(URL, {"keys": []})
    assert set(response.json()) == READ_ONLY | {"failover_last_synced_at"}
    assert set(Setting.objects.values_list("key", flat=True)) == {"_instance_id", "failover_last_synced_at"}
    assert admin.get("/api/failover-groups").json()["last_synced_at"] == synced is not None


@pytest.mark.parametrize("body", [None, b"", b"{}", b"[]", b'{"keys":null}', b'{"keys":"all"}', b'{"keys":[1]}'])
def test_a_reset_without_keys_is_no_reset_of_everything(admin, body):
    """settings 50"""
    admin.put(URL, {"request_timeout": "9s"})
    response = admin.delete(URL, body)
    assert (response.status_code, text(response)) == (400, "invalid request body")
    assert Setting.objects.count() == 1


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["request_timeout", "nope"], "unknown setting: nope"),
        (["app_version"], "unknown setting: app_version"),
        (["_instance_id"], "unknown setting: _instance_id"),
        ([f"k{n}" for n in range(51)], "too many keys in one request"),
    ],
)
def test_a_reset_of_what_is_no_setting_resets_nothing(admin, keys, words):
    """settings 51"""
    admin.put(URL, {"request_timeout": "9s"})
    response = admin.delete(URL, {"keys": keys})
    assert (response.status_code, text(response)) == (400, words)
    assert Setting.objects.filter(key="request_timeout").exists()


def test_resetting_what_has_no_row_is_fine_and_silent(admin, heard):
    """settings 51"""
    assert admin.delete(URL, {"keys": ["request_timeout"]}).status_code == 200
    assert heard == []


def test_writing_what_is_stored_already_changes_nothing(admin, heard):
    """part of settings 71"""
    admin.put(URL, {"request_timeout": "9s"})
    told = []
    leave = options.on_change(catalogue.REQUEST_TIMEOUT, told.append)
    before, stamp = read_versions(), Setting.objects.get(key="request_timeout").updated_at
    heard.clear()
    assert admin.put(URL, {"request_timeout": "9s"}).json()["request_timeout"] == "9s"
    leave()
    assert (heard, told, read_versions()) == ([], [], before)
    assert Setting.objects.get(key="request_timeout").updated_at == stamp


def test_one_event_tells_of_a_change_without_its_value(admin, heard):
    """part of operations 41a"""
    admin.put(URL, {"request_timeout": "77s"})
    admin.put(URL, {"request_timeout": "78s", "ttft_timeout": "79s"})
    assert [event.metadata["id"] for event in heard] == ["request_timeout", ""]
    assert {event.type for event in heard} == {"config.changed"}
    assert all(event.metadata["actor"] == "admin" and event.metadata["action"] == "updated" for event in heard)
    assert not any(word in event.json() for event in heard for word in (b"77s", b"78s", b"79s"))


def test_a_component_hears_of_its_own_setting_only(admin):
    told = []
    leave = options.on_change(catalogue.KEY_CACHE_TTL, told.append)
    admin.put(URL, {"request_timeout": "9s"})
    assert told == []
    admin.put(URL, {"key_cache_ttl": "2m"})
    admin.delete(URL, {"keys": ["key_cache_ttl"]})
    leave()
    admin.put(URL, {"key_cache_ttl": "3m"})
    assert told == [120.0, 600.0]


def test_rechecks_are_off_or_not_too_often_and_a_variable_fixes_them(admin, environ):
    """settings 65b"""
    words = "provider_recheck_interval must be 0s or at least 5s"
    response = admin.put(URL, {"provider_recheck_interval": "2s"})
    assert (response.status_code, text(response)) == (400, words)
    for value, seconds in (("0", 0), ("5s", 5)):
        assert admin.put(URL, {"provider_recheck_interval": value}).status_code == 200
        assert options.current()[catalogue.PROVIDER_RECHECK_INTERVAL] == seconds
    environ["PROVIDER_RECHECK_INTERVAL"] = "30"
    snapshots.refresh_all()
    response = admin.put(URL, {"provider_recheck_interval": "5s"})
    words = "provider_recheck_interval is fixed by environment variable PROVIDER_RECHECK_INTERVAL"
    assert (response.status_code, text(response)) == (409, words)
    assert options.current()[catalogue.PROVIDER_RECHECK_INTERVAL] == 30


def test_a_setting_fixed_by_the_environment_answers_409(admin, environ):
    """settings 65a"""
    environ["FAILOVER_MAX_ATTEMPTS"] = "2"
    response = admin.put(URL, {"failover_max_attempts": "5"})
    words = "failover_max_attempts is fixed by environment variable FAILOVER_MAX_ATTEMPTS"
    assert (response.status_code, text(response)) == (409, words)
    snapshots.refresh(["settings"])
    assert options.current()[catalogue.FAILOVER_MAX_ATTEMPTS] == 2


def test_a_refusal_is_json_where_json_is_accepted(admin):
    """settings 65g, operations 64"""
    response = admin.put(URL, {"nope": "1"}, headers={"accept": "application/json"})
    assert response.status_code == 400
    assert response.json() == {"error": "unknown setting: nope"}
    assert response["Content-Type"] == "application/json"


def test_who_may_read_and_who_may_write(admin, viewer, stranger, nobody):
    """settings 62, operations 55b"""
    assert admin.get(URL).status_code == 200
    assert viewer.get(URL).status_code == viewer.get(URL + "/catalogue").status_code == 200
    for method in ("put", "delete"):
        response = getattr(viewer, method)(URL, {"keys": []})
        assert (response.status_code, text(response)) == (403, "insufficient permissions")
    for response in (stranger.get(URL), stranger.put(URL, {}), stranger.get(URL + "/catalogue")):
        assert (response.status_code, text(response)) == (403, "insufficient permissions")
    for response in (nobody.get(URL), nobody.put(URL, {}), nobody.delete(URL, {"keys": []})):
        assert response.status_code == 401


def test_a_cookie_write_without_the_csrf_header_is_refused(admin_user):
    """settings 63"""
    caller = signed_in(admin_user)
    response = caller.put(URL, {"request_timeout": "9s"}, headers={"x-csrf-token": ""})
    assert (response.status_code, text(response)) == (403, "CSRF token missing or invalid")
    assert not Setting.objects.exists()
    assert caller.put(URL, {"request_timeout": "9s"}).status_code == 200


def test_two_administrators_change_different_settings_at_once(admin):
    """settings 70"""
    start = threading.Barrier(2)
    answers = []

    def change(key):
        start.wait(5)
        answers.append(settings_verbs.update({key: "9s"}, ADMIN))
        connections.close_all()

    threads = [threading.Thread(target=change, args=(key,)) for key in ("request_timeout", "ttft_timeout")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(answers) == [["request_timeout"], ["ttft_timeout"]]
    assert Setting.objects.count() == 2
    assert options.current()[catalogue.REQUEST_TIMEOUT] == options.current()[catalogue.TTFT_TIMEOUT] == 9.0


def test_a_refresh_that_read_before_a_change_does_not_win_over_it(admin, monkeypatch):
    """settings 55"""
    reading, go_on = threading.Event(), threading.Event()
    real = options.load_stored

    def slow():
        found = real()
        if threading.current_thread().name == "slow":
            reading.set()
            go_on.wait(10)
        return found

    monkeypatch.setattr(options, "load_stored", slow)

    def refresh():
        snapshots.refresh(["settings"])
        connections.close_all()

    thread = threading.Thread(target=refresh, name="slow")
    thread.start()
    assert reading.wait(10)
    threading.Timer(0.2, go_on.set).start()
    admin.put(URL, {"request_timeout": "9s"})
    thread.join(10)
    assert options.current()[catalogue.REQUEST_TIMEOUT] == 9.0


def test_a_database_that_fails_is_a_500_with_the_short_text_and_changes_nothing(admin, monkeypatch, caplog):
    def broken(*args, **kwargs):
        raise DatabaseError("secret detail")

    monkeypatch.setattr(settings_verbs, "stored_settings", broken)
    response = admin.get(URL)
    assert (response.status_code, text(response)) == (500, "failed to load settings")
    response = admin.put(URL, {"request_timeout": "9s"})
    assert (response.status_code, text(response)) == (500, "failed to save settings")
    monkeypatch.setattr(settings_verbs.transaction, "atomic", broken)
    response = admin.put(URL, {"request_timeout": "9s"})
    assert (response.status_code, text(response)) == (500, "failed to begin transaction")
    monkeypatch.undo()
    assert not Setting.objects.exists()


def test_settings_go_on_with_the_last_values_while_the_database_is_away(admin, monkeypatch, caplog):
    """settings 54"""
    admin.put(URL, {"request_timeout": "9s"})

    def broken():
        raise DatabaseError("away")

    monkeypatch.setattr(options, "load_stored", broken)
    snapshots.refresh(["settings"])
    assert options.current()[catalogue.REQUEST_TIMEOUT] == 9.0


def test_the_catalogue_says_what_is_in_force_and_what_forces_it(admin, environ):
    environ["FAILOVER_ENABLED"] = "no"
    admin.put(URL, {"request_timeout": "90s"})
    found = {entry["key"]: entry for entry in admin.get(URL + "/catalogue").json()["settings"]}
    assert list(found) == list(options.REGISTRY.options)
    assert found["request_timeout"] == {
        "key": "request_timeout",
        "kind": "duration",
        "default": "1m0s",
        "min": 0,
        "max": 31536000,
        "choices": None,
        "unit": "s",
        "section": "Proxy",
        "label": "Request Timeout",
        "secret": False,
        "stored": "90s",
        "effective": "90s",
        "forced_by": None,
        "group": "",
        "help": catalogue.REQUEST_TIMEOUT.help,
    }
    assert (found["failover_enabled"]["effective"], found["failover_enabled"]["forced_by"]) == (
        "false",
        "FAILOVER_ENABLED",
    )
    assert (found["ttft_timeout"]["stored"], found["ttft_timeout"]["effective"]) == (None, "1m0s")
    assert found["circuit_breaker_enabled"]["min"] is None


def test_a_refused_change_leaves_an_audit_row_without_the_value(admin, viewer):
    """operations 73"""
    admin.put(URL, {"request_timeout": "marker-4711"})
    viewer.put(URL, {"request_timeout": "marker-4711"})
    admin.put(URL, {"request_timeout": "12s"})
    audit.stop(5)
    rows = AuditRow.objects.order_by("created_at").values_list("actor", "actor_role", "method", "route", "status_code")
    assert list(rows) == [
        ("admin", "admin", "PUT", "/api/settings", 400),
        ("vera", "viewer", "PUT", "/api/settings", 403),
        ("admin", "admin", "PUT", "/api/settings", 200),
    ]
    assert "marker-4711" not in json.dumps(list(AuditRow.objects.values()), default=str)
