"""Status and reset over HTTP, on real rows and the board of the process."""

import uuid

import pytest
from django.test import Client

from failover import breaker, table, verdict
from failover.breaker import health
from failover.models import FailoverGroup
from modelhotel.accounts import admin_token
from modelhotel.core import snapshots
from modelhotel.models import Setting
from providers import ports
from providers.models import Model, Provider

NO_ID = "6f1c2a34-0b1d-4c59-9d6e-5a7f0c3b2e19"

pytestmark = [pytest.mark.django_db, pytest.mark.database]

BASE = "/api/failover-groups"
BAD = verdict.of_status(503, moves_on=True, open_on_exhaustion=True)
SPENT = verdict.of_status(402, moves_on=True, open_on_exhaustion=True)


class World:
    """Two providers in a group (B's entry is switched off), a third outside of it."""

    def __init__(self):
        rows = [
            Provider.objects.create(name=n, base_url="https://upstream.test/v1", provider_type="custom") for n in "ABC"
        ]
        self.a, self.b, self.c = (str(row.id) for row in rows)
        models = [Model.objects.create(provider=row, model_id="m1", display_name="m1") for row in rows]
        self.group = FailoverGroup.objects.create(
            display_model="glm53",
            priority_order=[str(models[0].id), str(models[1].id), str(uuid.uuid4())],
            entry_enabled={str(models[1].id): False},
            updated_at=rows[0].created_at,
        )
        self.board = breaker.reset_board()
        snapshots.refresh_all()
        assert table.SNAPSHOT.current.ready

    def say(self, *judgements, provider=None, model="m1"):
        for judgement in judgements:
            self.board.record(provider or self.a, model, judgement)


@pytest.fixture
def world(db):
    yield World()
    breaker.reset_board()


@pytest.fixture
def api(world):
    admin_token.store("the-admin-token")
    return Client(headers={"Authorization": "Bearer the-admin-token"})


@pytest.fixture
def status(api):
    return lambda query="": api.get(f"{BASE}/circuit-breaker-status{query}").json()


def test_every_member_counts_once_and_strangers_by_their_circuits(world, status):
    """circuit-breaker 65"""
    assert status() == {"closed": 2, "half_open": 0, "open": 0}
    assert status("?detail=1") == {"closed": 2, "half_open": 0, "open": 0}
    world.say(SPENT, provider=world.c)
    assert status() == {"closed": 2, "half_open": 0, "open": 1}


def test_detail_is_one_or_nothing(world, status):
    world.say(*[BAD] * 5)
    for query in ("", "?detail=0", "?detail=true", "?detail=", "?detail=11"):
        assert status(query) == {"closed": 1, "half_open": 0, "open": 1}
    [row] = status("?detail=1")["providers"]
    assert (row["provider_id"], row["provider_name"], row["state"]) == (world.a, "A", "open")
    assert row["circuits"][0]["last_cause"] == "upstream status 503"


def test_the_current_name_of_the_provider_is_shown(world, status):
    world.say(BAD, provider=world.c)
    Provider.objects.filter(id=world.c).update(name="C two")
    snapshots.refresh_all()
    assert [row["provider_name"] for row in status("?detail=1")["providers"]] == ["C two"]


def test_with_the_breaker_off_all_members_are_closed(world, status):
    """circuit-breaker 70"""
    world.say(*[BAD] * 5)
    Setting.objects.create(key="circuit_breaker_enabled", value="false")
    snapshots.refresh_all()
    assert status("?detail=1") == {"closed": 2, "half_open": 0, "open": 0}
    Setting.objects.all().delete()
    snapshots.refresh_all()
    assert status()["open"] == 1


def test_the_settings_in_force_govern_the_board(world):
    Setting.objects.create(key="circuit_breaker_threshold", value="2")
    Setting.objects.create(key="circuit_breaker_cooldown", value="5m")
    snapshots.refresh_all()
    world.say(BAD, BAD)
    [row] = world.board.status({}, True)["providers"]
    assert (row["state"], row["cooldown_ms"]) == ("open", 300_000)


def test_resetting_what_has_no_circuit_is_a_success(world, api):
    """circuit-breaker 66"""
    unknown = str(uuid.uuid4())
    answer = api.post(f"{BASE}/circuit-breaker/{unknown}/reset")
    assert answer.status_code == 200
    assert answer.json() == {"provider_id": unknown, "previous_state": "closed", "reset": False}


def test_a_provider_is_reset_once(world, api, status):
    """circuit-breaker 66"""
    world.say(*[BAD] * 5)
    world.say(BAD, model="m2")
    path = f"{BASE}/circuit-breaker/{world.a}/reset"
    assert api.post(path).json() == {"provider_id": world.a, "previous_state": "open", "reset": True}
    assert api.post(path).json() == {"provider_id": world.a, "previous_state": "closed", "reset": False}
    assert "providers" not in status("?detail=1")


@pytest.mark.parametrize(
    "word", ["abc", "reset", "circuit-breaker", "1234", "%20", "00000000-0000-0000-0000-00000000000g"]
)
def test_what_is_no_provider_id_is_named(api, word):
    """circuit-breaker 66"""
    answer = api.post(f"{BASE}/circuit-breaker/{word}/reset")
    assert (answer.status_code, answer.content) == (400, b"invalid provider ID")
    answer = api.post(f"{BASE}/circuit-breaker/{word}/reset", headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()) == (400, {"error": "invalid provider ID"})


def test_an_id_in_capitals_is_the_same_provider(world, api):
    world.say(*[BAD] * 5)
    answer = api.post(f"{BASE}/circuit-breaker/{world.a.upper()}/reset")
    assert answer.json() == {"provider_id": world.a, "previous_state": "open", "reset": True}


def test_one_model_is_reset_and_its_sibling_kept(world, api, status):
    """circuit-breaker 67"""
    world.say(*[BAD] * 5)
    world.say(BAD, BAD, BAD, model="m2")
    answer = api.post(f"{BASE}/circuit-breaker/{world.a}/reset?model=m1")
    assert answer.json() == {"provider_id": world.a, "previous_state": "open", "reset": True, "model": "m1"}
    [row] = status("?detail=1")["providers"]
    assert [(c["model"], c["consecutive_fails"]) for c in row["circuits"]] == [("m2", 3)]


def test_an_empty_model_equals_none(world, api):
    world.say(*[BAD] * 5)
    answer = api.post(f"{BASE}/circuit-breaker/{world.a}/reset?model=")
    assert answer.json() == {"provider_id": world.a, "previous_state": "open", "reset": True}


def test_a_model_with_slashes_and_blanks_is_reset_by_its_exact_id(world, api):
    world.say(*[BAD] * 5, model="org/Model One+x")
    path = f"{BASE}/circuit-breaker/{world.a}/reset"
    assert api.post(f"{path}?model=org%2Fmodel%20One%2Bx").json()["reset"] is False
    assert api.post(f"{path}?model=org%2FModel%20One%2Bx").json()["reset"] is True


def test_a_group_reset_clears_exactly_its_pairs(world, api, status):
    """circuit-breaker 67"""
    world.say(*[BAD] * 5)
    world.say(BAD, provider=world.b)
    world.say(BAD, model="m2")
    world.say(BAD, provider=world.c)
    answer = api.post(f"{BASE}/{world.group.id}/circuit-breaker/reset")
    assert answer.json() == {
        "group_id": str(world.group.id),
        "display_model": "glm53",
        "entries": 2,
        "cleared": 2,
        "recovered": 1,
    }
    rows = status("?detail=1")["providers"]
    assert [(r["provider_name"], [c["model"] for c in r["circuits"]]) for r in rows] == [("A", ["m2"]), ("C", ["m1"])]
    assert api.post(f"{BASE}/{world.group.id}/circuit-breaker/reset").json()["cleared"] == 0


@pytest.mark.parametrize(
    ("word", "code", "text"),
    [
        (NO_ID, 404, b"failover group not found"),
        ("glm53", 400, b"invalid failover group ID"),
        ("sync", 400, b"invalid failover group ID"),
    ],
)
def test_what_is_no_group_is_named(api, word, code, text):
    """circuit-breaker 67"""
    answer = api.post(f"{BASE}/{word}/circuit-breaker/reset")
    assert (answer.status_code, answer.content) == (code, text)


def test_reset_all_is_never_read_as_an_id_and_shows_at_once(world, api, status):
    """circuit-breaker 68"""
    for n in range(5):
        world.say(BAD, model=f"m{n}")
    world.say(SPENT, model="dark")
    world.say(SPENT, provider=world.b)
    assert status()["open"] == 2
    answer = api.post(f"{BASE}/circuit-breaker/reset")
    assert (answer.status_code, answer.json()) == (200, {"cleared": 7, "recovered": 2})
    assert status("?detail=1") == {"closed": 2, "half_open": 0, "open": 0}


def test_a_reset_model_is_served_until_it_fails_as_often_again(world, api):
    world.say(*[BAD] * 5)
    api.post(f"{BASE}/circuit-breaker/{world.a}/reset")
    world.say(*[BAD] * 4)
    assert world.board.gate(world.a, "m1").state == "free"
    world.say(BAD)
    assert world.board.gate(world.a, "m1").state == "blocked"


def test_a_stranger_neither_reads_nor_resets(world):
    world.say(*[BAD] * 5)
    stranger = Client()
    for answer in (
        stranger.get(f"{BASE}/circuit-breaker-status"),
        stranger.post(f"{BASE}/circuit-breaker/reset"),
        stranger.post(f"{BASE}/circuit-breaker/{world.a}/reset"),
        stranger.post(f"{BASE}/{world.group.id}/circuit-breaker/reset"),
    ):
        assert answer.status_code == 401
    assert world.board.gate(world.a, "m1").state == "blocked"


@pytest.mark.parametrize("path", ["circuit-breaker-status", "circuit-breaker-status/"])
def test_a_slash_at_the_end_is_optional(api, path):
    assert api.get(f"{BASE}/{path}").status_code == 200


def test_a_deleted_provider_is_forgotten_with_the_next_catalogue(world, status):
    world.say(SPENT, provider=world.c)
    world.say(SPENT)
    Provider.objects.filter(id=world.c).delete()
    snapshots.refresh(["providers"])
    assert [row["provider_id"] for row in status("?detail=1")["providers"]] == [world.a]


def test_the_health_of_a_provider_comes_from_its_circuits(world):
    assert health.health(world.a) == ports.CircuitHealth()
    world.say(SPENT)
    assert health.health(world.a) == ports.CircuitHealth(any_open=True)
    world.say(SPENT, model="m2")
    assert health.health(world.a) == ports.CircuitHealth(provider_open=True, any_open=True)
    health.forget(world.a)
    assert health.health(world.a) == ports.CircuitHealth()
