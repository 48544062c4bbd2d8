"""``/api/virtual-keys`` and the verbs behind it."""

import hashlib
import json
import re
import uuid
from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, transaction

from modelhotel.core import events
from modelhotel.core.actor import ADMIN, Actor
from modelhotel.core.faults import Refusal
from modelhotel.models import User
from proxy import keys, verbs
from proxy.models import VirtualKey
from requestlogs.models import RequestLog
from tests.proxy import world
from tests.proxy.asgi import call
from tests.shell.cast import (  # noqa: F401
    admin,
    clean_accounts,
    nobody,
    stranger,
    stranger_user,
    text,
    token,
    viewer,
    viewer_user,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

URL = "/api/virtual-keys"
NO_ID = "6f1c2a34-0b1d-4c59-9d6e-5a7f0c3b2e19"
MEMBERS = {
    "id",
    "name",
    "key_preview",
    "tokens_used",
    "last_used_at",
    "created_at",
    "rate_limit_rps",
    "rate_limit_burst",
    "rate_limit_tpm",
    "budget_usd",
    "budget_period",
    "budget_spent_usd",
    "allowed_providers",
    "strip_reasoning",
    "owner_user_id",
}


def made(admin, **given):  # noqa: F811
    answer = admin.post(URL, {"name": "app", **given})
    assert answer.status_code == 201, text(answer)
    return answer.json()


def refused(answer):
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    return answer.status_code, text(answer)


def test_a_new_key_is_shown_once(admin):  # noqa: F811
    """v1-api 9, providers 87"""
    new = made(admin, name="  my app ")
    assert set(new) == MEMBERS | {"key"}
    assert re.fullmatch(r"sk-[0-9a-f]{32}", new["key"])
    assert new["key_preview"] == "sk-..." + new["key"][-4:]
    row = VirtualKey.objects.get()
    assert new["key"] not in repr(VirtualKey.objects.values())
    assert row.key_hash == hashlib.sha256(new["key"].encode()).hexdigest()
    assert (row.name, new["name"]) == ("my app", "my app")
    for answer in (admin.get(f"{URL}/{new['id']}"), admin.put(f"{URL}/{new['id']}", {"name": "app"})):
        assert set(answer.json()) == MEMBERS
        assert new["key"] not in text(answer)
    assert [set(item) for item in admin.get(URL).json()] == [MEMBERS]
    assert row.key_hash not in text(admin.get(URL))


def test_a_new_key_starts_unrestricted_and_unused(admin):  # noqa: F811
    new = made(admin)
    assert (new["tokens_used"], new["last_used_at"], new["strip_reasoning"]) == (0, None, False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", new["created_at"])
    nullable = MEMBERS - {"id", "name", "key_preview", "tokens_used", "created_at", "strip_reasoning"}
    assert {name for name in nullable if new[name] is not None} == set()


def test_a_key_works_from_the_answer_that_made_it_until_the_one_that_deleted_it(admin):  # noqa: F811
    new = made(admin)
    assert call("GET", "/v1/models", key=new["key"]).status == 200
    answer = admin.delete(f"{URL}/{new['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert call("GET", "/v1/models", key=new["key"]).said == (401, "invalid virtual key")
    assert refused(admin.delete(f"{URL}/{new['id']}")) == (404, "virtual key not found")
    assert refused(admin.get(f"{URL}/{new['id']}")) == (404, "virtual key not found")


def test_keys_are_listed_newest_first(admin):  # noqa: F811
    assert admin.get(URL).json() == []
    for name in ("one", "two", "two"):
        made(admin, name=name)
    assert [key["name"] for key in admin.get(URL).json()] == ["two", "two", "one"]


def test_every_change_is_announced(admin):  # noqa: F811
    seen = []
    events.subscribe(lambda e: e.type == "config.changed" and seen.append(dict(e.metadata)))
    new = made(admin)
    admin.put(f"{URL}/{new['id']}", {"name": "other"})
    admin.put(f"{URL}/{new['id']}", {"name": "other"})
    admin.delete(f"{URL}/{new['id']}")
    assert [(m["kind"], m["id"], m["action"]) for m in seen] == [
        ("virtual_key", new["id"], action) for action in ("created", "updated", "deleted")
    ]


@pytest.mark.parametrize("name", ["chat", " Chat ", "ARENA", "completions", "Internal", "admin"])
def test_the_names_of_keyless_rows_are_reserved(admin, name):  # noqa: F811
    """v1-api 10"""
    expected = (400, f'name "{name.strip().lower()}" is reserved')
    assert refused(admin.post(URL, {"name": name})) == expected
    key = made(admin)
    assert refused(admin.put(f"{URL}/{key['id']}", {"name": name})) == expected
    assert VirtualKey.objects.get().name == "app"


@pytest.mark.parametrize("name", ["", "   ", "x" * 101, "a\nb", "a\u200bb", "a\x00b", None])
def test_a_bad_name_is_refused(admin, name):  # noqa: F811
    status, said = refused(admin.post(URL, {"name": name}))
    assert status == 400 and said.startswith("invalid name: ")
    assert refused(admin.post(URL, {}))[1].startswith("invalid name: ")
    key = made(admin, name="x" * 100)
    assert refused(admin.put(f"{URL}/{key['id']}", {"name": name}))[1].startswith("invalid name: ")
    assert refused(admin.put(f"{URL}/{key['id']}", {"strip_reasoning": True}))[1].startswith("invalid name: ")


def test_an_empty_provider_list_is_refused(admin):  # noqa: F811
    """v1-api 11"""
    expected = (400, "allowed_providers must be null or contain at least one provider ID")
    assert refused(admin.post(URL, {"name": "app", "allowed_providers": []})) == expected
    key = made(admin)
    assert refused(admin.put(f"{URL}/{key['id']}", {"name": "app", "allowed_providers": []})) == expected


def test_unknown_providers_are_accepted_and_malformed_ones_refused(admin):  # noqa: F811
    unknown = str(uuid.uuid4())
    assert made(admin, allowed_providers=[unknown.upper(), unknown])["allowed_providers"] == [unknown]
    for bad in ("P", "", unknown[:-1], unknown.replace("-", "")):
        status, said = refused(admin.post(URL, {"name": "app", "allowed_providers": [bad]}))
        assert (status, said) == (400, f'allowed_providers: "{bad}" is not a provider ID')


LIMITS = {
    "rate_limit_rps": 5,
    "rate_limit_burst": 10,
    "rate_limit_tpm": 100,
    "budget_usd": 25.0,
    "budget_period": "month",
}


def test_limits_are_stored_and_shown(admin):  # noqa: F811
    key = made(admin, **LIMITS)
    for answer in (key, admin.get(f"{URL}/{key['id']}").json(), admin.get(URL).json()[0]):
        assert {name: answer[name] for name in LIMITS} == LIMITS
        assert answer["budget_spent_usd"] == 0.0
    row = next(iter(keys.SNAPSHOT.current.by_hash.values()))
    assert (row.limits.rps, row.limits.burst, row.limits.tpm) == (5.0, 10, 100)
    assert (row.limits.budget_usd, row.limits.budget_period, row.owner_limits) == (25.0, "month", None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget_usd": 5}, "budget_usd and budget_period go together: set both or neither"),
        ({"rate_limit_burst": 0}, "rate_limit_burst must be >= 1 (use null to fall back to global settings)"),
        ({"rate_limit_burst": 5.5}, "invalid request body"),
        ({"rate_limit_rps": "5"}, "invalid request body"),
        ({"budget_usd": 5, "budget_period": "year"}, 'budget_period must be one of day, week, month; got "year"'),
    ],
)
def test_a_limit_out_of_bounds_is_refused(admin, given, said):  # noqa: F811
    """v1-api 12; the first half of v1-api 14"""
    assert refused(admin.post(URL, {"name": "app", **given})) == (400, said)
    key = made(admin)
    assert refused(admin.put(f"{URL}/{key['id']}", {"name": "app", **given})) == (400, said)
    assert admin.get(f"{URL}/{key['id']}").json()["rate_limit_burst"] is None


def test_zero_requests_per_second_are_taken_as_unlimited(admin):  # noqa: F811
    """v1-api 14"""
    key = made(admin)
    answer = admin.put(f"{URL}/{key['id']}", {"name": "app", "rate_limit_rps": 0})
    assert (answer.status_code, answer.json()["rate_limit_rps"]) == (200, 0.0)


def test_an_update_clears_rates_it_leaves_out_and_keeps_the_rest(admin):  # noqa: F811
    """v1-api 13"""
    listed = [str(world.provider("P").pk)]
    key = made(admin, **LIMITS, strip_reasoning=True, allowed_providers=listed)
    kept = admin.put(f"{URL}/{key['id']}", {"name": "x"}).json()
    assert [kept[name] for name in ("rate_limit_rps", "rate_limit_burst", "rate_limit_tpm")] == [None] * 3
    assert (kept["budget_usd"], kept["budget_period"]) == (25.0, "month")
    assert (kept["strip_reasoning"], kept["allowed_providers"]) == (True, listed)
    more = admin.put(f"{URL}/{key['id']}", {"name": "x", "budget_usd": 30}).json()
    assert (more["budget_usd"], more["budget_period"]) == (30.0, "month")
    gone = admin.put(f"{URL}/{key['id']}", {"name": "x", "budget_usd": None}).json()
    assert (gone["budget_usd"], gone["budget_period"], gone["budget_spent_usd"]) == (None, None, None)


@pytest.mark.parametrize(
    "bad",
    [
        {"rate_limit_rps": -1},
        {"rate_limit_rps": 10001},
        {"rate_limit_burst": 0},
        {"rate_limit_tpm": 0},
        {"budget_usd": 5},
        {"budget_period": "day"},
        {"budget_usd": 0, "budget_period": "day"},
        {"budget_usd": 5, "budget_period": "year"},
    ],
)
def test_the_database_holds_the_same_bounds(bad):
    for target, name in ((VirtualKey, "virtualkey_"), (User, "user_")):
        world.key(f"k{name}")
        world.user("ann")
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            target.objects.update(**bad)
        User.objects.all().delete()


def test_the_spend_of_the_running_period_is_shown(admin):  # noqa: F811
    now = datetime.now(UTC)
    key, other = made(admin, **LIMITS), made(admin, name="other", budget_usd=1, budget_period="month")
    for target, cost in ((key, "1.25"), (key, "0.5"), (key, None), (other, "0.1"), (other, "0.2")):
        RequestLog.objects.create(
            request_hash="x", created_at=now, state="completed", endpoint_type="chat", model_id="P/m",
            cost_usd=cost, virtual_key_id=target["id"],
        )  # fmt: skip
    RequestLog.objects.update(created_at=now)
    assert [row["budget_spent_usd"] for row in admin.get(URL).json()] == [pytest.approx(0.3), 1.75]
    assert admin.get(f"{URL}/{key['id']}").json()["budget_spent_usd"] == 1.75


def test_an_update_keeps_what_it_leaves_out_and_null_clears(admin):  # noqa: F811
    provider = str(world.provider("P").pk)
    owner = world.user("ann")
    key = made(admin, allowed_providers=[provider], strip_reasoning=True, owner_user_id=str(owner.pk))
    assert (key["owner_user_id"], key["owner_username"]) == (str(owner.pk), "ann")
    kept = admin.put(f"{URL}/{key['id']}", {"name": "x"}).json()
    assert (kept["name"], kept["allowed_providers"], kept["strip_reasoning"]) == ("x", [provider], True)
    assert (kept["rate_limit_rps"], kept["rate_limit_burst"], kept["rate_limit_tpm"]) == (None, None, None)
    assert kept["owner_username"] == "ann"
    cleared = admin.put(
        f"{URL}/{key['id']}",
        {"name": "x", "allowed_providers": None, "strip_reasoning": False, "owner_user_id": None},
    ).json()
    assert (cleared["allowed_providers"], cleared["strip_reasoning"], cleared["owner_user_id"]) == (None, False, None)
    assert "owner_username" not in cleared


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        ("ann", "invalid owner_user_id: not a UUID"),
        ("", "invalid owner_user_id: not a UUID"),
        (NO_ID, "owner_user_id does not match any user"),
    ],
)
def test_an_owner_must_exist(admin, owner, said):  # noqa: F811
    assert refused(admin.post(URL, {"name": "app", "owner_user_id": owner})) == (400, said)
    key = made(admin)
    assert refused(admin.put(f"{URL}/{key['id']}", {"name": "app", "owner_user_id": owner})) == (400, said)


def test_a_key_lives_on_when_its_owner_is_deleted(admin):  # noqa: F811
    owner = world.user("ann")
    key = made(admin, owner_user_id=str(owner.pk))
    owner.delete()
    found = admin.get(f"{URL}/{key['id']}").json()
    assert found["owner_user_id"] is None and "owner_username" not in found


def test_a_list_wider_than_the_owners_is_refused_for_admins_too(admin):  # noqa: F811
    inside, outside = world.provider("In"), world.provider("Out")
    owner = world.user("ann", allowed_providers=[str(inside.pk)])
    said = (
        "Out is outside ann's account provider access. Widen their account access or drop that provider from this key"
    )
    wide = {"allowed_providers": [str(inside.pk), str(outside.pk)], "owner_user_id": str(owner.pk)}
    assert refused(admin.post(URL, {"name": "app", **wide})) == (400, said)
    key = made(admin, allowed_providers=wide["allowed_providers"])
    path = f"{URL}/{key['id']}"
    assert refused(admin.put(path, {"name": "app", "owner_user_id": str(owner.pk)})) == (400, said)
    narrow = {"name": "app", "owner_user_id": str(owner.pk), "allowed_providers": [str(inside.pk)]}
    assert admin.put(path, narrow).status_code == 200
    assert refused(admin.put(path, {"name": "app", "allowed_providers": [str(outside.pk)]})) == (400, said)


def test_a_key_for_a_capped_owner_starts_with_the_owners_list(admin):  # noqa: F811
    inside = world.provider("In")
    owner = world.user("ann", allowed_providers=[str(inside.pk)])
    key = made(admin, owner_user_id=str(owner.pk))
    assert key["allowed_providers"] == [str(inside.pk)]
    nothing = world.user("bob", allowed_providers=[])
    assert made(admin, owner_user_id=str(nothing.pk))["allowed_providers"] == []


def test_a_rename_works_after_the_account_list_shrank(admin):  # noqa: F811
    one, two = world.provider("One"), world.provider("Two")
    owner = world.user("ann", allowed_providers=[str(one.pk), str(two.pk)])
    key = made(admin, owner_user_id=str(owner.pk))
    owner.allowed_providers = [str(one.pk)]
    owner.save()
    same = {"name": "renamed", "owner_user_id": str(owner.pk)}
    for body in ({"name": "again"}, same):
        assert admin.put(f"{URL}/{key['id']}", body).json()["name"] == body["name"]
    world.ready()
    row = keys.SNAPSHOT.current.by_hash[VirtualKey.objects.get().key_hash]
    assert row.allowed == {str(one.pk)}


BAD_BODIES = [
    b"",
    b"not json",
    b"[]",
    b"5",
    b"null",
    b'{"name":"app"} x',
    b'{"name":"app","strip_reasoning":NaN}',
    b'{"name":"\xff"}',
    b"[" * 5000,
    {"name": 5},
    {"name": ["app"]},
    {"name": "app", "strip_reasoning": "true"},
    {"name": "app", "strip_reasoning": 1},
    {"name": "app", "allowed_providers": "x"},
    {"name": "app", "allowed_providers": [5]},
    {"name": "app", "allowed_providers": [None]},
    {"name": "app", "allowed_providers": {}},
    {"name": "app", "owner_user_id": 5},
    {"name": "app", "rate_limit_rps": "5"},
    {"name": "app", "rate_limit_burst": 2.5},
    {"name": "app", "rate_limit_tpm": True},
    {"name": "app", "budget_usd": "25"},
    {"name": "app", "budget_period": 7},
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda b: json.dumps(b) if isinstance(b, dict) else repr(b[:30]))
def test_a_malformed_body_is_one_line_and_changes_nothing(admin, body):  # noqa: F811
    key = made(admin)
    before = VirtualKey.objects.values().get()
    assert refused(admin.post(URL, body)) == (400, "invalid request body")
    assert refused(admin.put(f"{URL}/{key['id']}", body)) == (400, "invalid request body")
    assert VirtualKey.objects.values().get() == before


@pytest.mark.parametrize("id", ["1", "abc", "sk-" + "0" * 32, "%00", NO_ID[:-1], NO_ID + "x"])
def test_an_id_that_is_no_uuid_is_reported_before_the_body(admin, id):  # noqa: F811
    assert refused(admin.get(f"{URL}/{id}")) == (400, "invalid virtual key ID")
    assert refused(admin.put(f"{URL}/{id}", b"not json")) == (400, "invalid virtual key ID")
    assert refused(admin.delete(f"{URL}/{id}")) == (400, "invalid virtual key ID")


def test_an_unknown_id_is_not_found(admin):  # noqa: F811
    id = uuid.uuid4()
    assert refused(admin.get(f"{URL}/{id}")) == (404, "virtual key not found")
    assert refused(admin.put(f"{URL}/{id}", {"name": "x"})) == (404, "virtual key not found")


def test_errors_are_json_for_who_accepts_it(admin):  # noqa: F811
    answer = admin.get(f"{URL}/x", headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()) == (400, {"error": "invalid virtual key ID"})


@pytest.mark.parametrize(
    ("verb", "call_it", "said"),
    [
        ("visible", lambda api, path: api.get(URL), "failed to list virtual keys"),
        ("create", lambda api, path: api.post(URL, {"name": "new one"}), 'failed to create virtual key "new one"'),
        ("update", lambda api, path: api.put(path, {"name": "x"}), "failed to update virtual key"),
        ("delete", lambda api, path: api.delete(path), "failed to delete virtual key"),
    ],
)
def test_a_fault_of_ours_is_a_fixed_line(admin, monkeypatch, verb, call_it, said):  # noqa: F811
    path = f"{URL}/{made(admin)['id']}"

    def broken(*args):
        raise OSError("secret detail")

    monkeypatch.setattr(verbs, verb, broken)
    assert refused(call_it(admin, path)) == (500, said)


def test_a_viewer_reads_and_changes_nothing(admin, viewer):  # noqa: F811
    key = made(admin)
    path = f"{URL}/{key['id']}"
    assert [item["id"] for item in viewer.get(URL).json()] == [key["id"]]
    assert viewer.get(path).status_code == 200
    for answer in (viewer.post(URL, {"name": "x"}), viewer.put(path, {"name": "x"}), viewer.delete(path)):
        assert refused(answer) == (403, "insufficient permissions")
    assert VirtualKey.objects.get().name == "app"


def test_strangers_see_nothing(admin, stranger, nobody):  # noqa: F811
    key = made(admin)
    path = f"{URL}/{key['id']}"
    for someone, status in ((stranger, 403), (nobody, 401)):
        calls = (
            someone.get(URL),
            someone.get(path),
            someone.post(URL, {"name": "x"}),
            someone.put(path, {"name": "x"}),
            someone.delete(path),
        )
        assert [answer.status_code for answer in calls] == [status] * 5
    assert VirtualKey.objects.count() == 1


def test_a_virtual_key_is_never_accepted_by_the_admin_api(admin):  # noqa: F811
    from tests.shell.cast import Caller

    assert Caller(made(admin)["key"]).get(URL).status_code == 401


def test_an_account_without_staff_rights_has_its_own_keys_only(admin):  # noqa: F811
    """part of v1-api 15"""
    mine, yours = world.user("me"), world.user("you")
    me = Actor("me", "user", str(mine.pk))
    theirs = made(admin, owner_user_id=str(yours.pk))
    for touch in (
        lambda: verbs.one(theirs["id"], me),
        lambda: verbs.update(theirs["id"], {"name": "x"}, me),
        lambda: verbs.delete(theirs["id"], me),
    ):
        with pytest.raises(Refusal) as problem:
            touch()
        assert (problem.value.status, problem.value.text) == (404, "virtual key not found")
    key, _ = verbs.create({"name": "own", "owner_user_id": str(yours.pk)}, me)
    assert key.owner_user_id == mine.pk
    changed = verbs.update(str(key.pk), {"name": "own", "owner_user_id": str(yours.pk)}, me)
    assert changed.owner_user_id == mine.pk
    assert [k.pk for k in verbs.visible(me)] == [key.pk]
    assert verbs.visible(ADMIN).count() == 2


def test_a_deleted_provider_leaves_every_list_and_an_empty_one_stays_empty():
    """v1-api 17"""
    from django.db import transaction

    p1, p2 = world.provider("P1"), world.provider("P2")
    only = world.key("only", allowed_providers=[str(p1.pk)])
    world.key("both", allowed_providers=[str(p2.pk), str(p1.pk)])
    world.key("all")
    with transaction.atomic():
        verbs.forget_provider_in_keys(str(p1.pk))
    lists = dict(VirtualKey.objects.values_list("name", "allowed_providers"))
    assert lists == {"only": [], "both": [str(p2.pk)], "all": None}
    row = keys.SNAPSHOT.current.by_hash[hashlib.sha256(only.encode()).hexdigest()]
    assert row.allowed == frozenset()


def test_forgetting_a_provider_that_no_list_names_rebuilds_nothing():
    from django.db import transaction

    world.key("only", allowed_providers=[str(uuid.uuid4())])
    before = keys.SNAPSHOT.current
    with transaction.atomic():
        verbs.forget_provider_in_keys(str(uuid.uuid4()))
    assert keys.SNAPSHOT.current is before
