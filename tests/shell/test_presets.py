"""``POST /api/settings/preset``: named sets of the failover settings (beyond 5, settings 5.7)."""

import pytest

from modelhotel.core import events, options
from modelhotel.core.options import REGISTRY
from modelhotel.models import Setting
from modelhotel.presets import PRESETS
from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import text

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/settings/preset"
RESILIENT = {
    "ttft_timeout": "10s",
    "rate_limit_wait_in_place": "3s",
    "server_error_retry_in_place": "true",
    "circuit_breaker_cooldown": "15s",
    "circuit_breaker_backoff_max": "15s",
    "midstream_recovery_default": "continue",
}


def rows():
    return dict(Setting.objects.exclude(key__startswith="_").values_list("key", "value"))


@pytest.fixture
def heard():
    seen = []
    leave = events.subscribe(seen.append)
    yield seen
    leave()


def test_a_preset_is_in_force_at_once_and_another_one_takes_it_back(admin, heard):
    """settings 65f"""
    answer = admin.post(URL, {"name": "resilient"})
    assert answer.status_code == 200
    told = answer.json()
    assert (told["name"], told["applied"]) == ("resilient", True)
    assert {change["key"]: change["to"] for change in told["changes"]} == RESILIENT
    assert {change["key"]: change["from"] for change in told["changes"]}["ttft_timeout"] == "1m0s"
    assert rows() == RESILIENT
    assert {key: options.current().texts[key] for key in RESILIENT} == RESILIENT
    assert admin.post(URL, {"name": "balanced"}).status_code == 200
    assert rows() == {}
    changed = [event.metadata for event in heard if event.type == "config.changed"]
    assert [(one["kind"], one["id"], one["action"]) for one in changed] == [("setting", "", "updated")] * 2


def test_what_a_preset_does_not_name_is_left_alone(admin):
    admin.put("/api/settings", {"circuit_breaker_threshold": "3", "hedging_enabled": "true"})
    admin.post(URL, {"name": "sticky"})
    assert rows() == {
        "circuit_breaker_threshold": "3",
        "rate_limit_wait_in_place": "3s",
        "server_error_retry_in_place": "true",
    }


def test_a_dry_run_tells_and_writes_nothing(admin, heard):
    answer = admin.post(URL + "?dryRun=1", {"name": "fast"}).json()
    assert answer == {
        "name": "fast",
        "applied": False,
        "changes": [
            {"key": "hedging_enabled", "from": "false", "to": "true"},
            {"key": "ttft_timeout", "from": "1m0s", "to": "15s"},
        ],
    }
    assert rows() == {} and not heard


def test_a_preset_in_force_changes_nothing(admin, heard):
    assert admin.post(URL, {"name": "balanced"}).json()["changes"] == []
    assert not heard


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"name": "x"}, "unknown preset: x"),
        ({"name": ""}, "unknown preset: "),
        ({}, "invalid request body"),
        ({"name": 1}, "invalid request body"),
        ([], "invalid request body"),
    ],
)
def test_what_is_no_preset_is_refused(admin, body, said):
    """settings 65f"""
    answer = admin.post(URL, body)
    assert (answer.status_code, text(answer)) == (400, said)
    assert rows() == {}


def test_a_viewer_may_not_apply_one(viewer):
    assert viewer.post(URL, {"name": "fast"}).status_code == 403
    assert rows() == {}


def test_every_value_of_every_preset_is_one_its_setting_takes_and_shows():
    for preset in PRESETS.values():
        for key, value in preset.values.items():
            REGISTRY.options[key].parse(value)
            assert options.current().texts.keys() >= {key}
