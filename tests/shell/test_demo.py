"""The records of ``manage.py demo``: made once, reused at every later start."""

import stat
from dataclasses import replace

import pytest

from modelhotel.core import environment

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


@pytest.fixture
def demo():
    from modelhotel.ops import demo
    from providers import control

    yield demo
    control.LOOP.stop()


@pytest.fixture
def stage(demo):
    with demo.Stage(lambda: 0.0) as found:
        yield found


GROUPS = [(name, ["Flaky", "Healthy", "Slow"]) for name in ("demo", "demo-embedding")]


def records() -> dict:
    from failover.models import FailoverGroup
    from modelhotel.config_store import stored_settings
    from providers.models import Model, Provider

    names = {str(row.pk): row.provider.name for row in Model.objects.select_related("provider")}
    return {
        "providers": sorted(Provider.objects.values_list("name", "pk")),
        "groups": [
            (group.display_model, group.pk, [names[member] for member in group.priority_order])
            for group in FailoverGroup.objects.order_by("display_model")
        ],
        "settings": stored_settings(),
    }


def provider_id(name: str) -> str:
    from providers.models import Provider

    return str(Provider.objects.get(name=name).pk)


def test_a_first_start_makes_providers_a_group_in_order_a_key_and_short_circuits(demo, stage):
    from proxy.models import VirtualKey

    key = demo.furnish(stage.addresses)
    made = records()
    assert [name for name, _ in made["providers"]] == ["Flaky", "Healthy", "Slow"]
    assert [(name, order) for name, _, order in made["groups"]] == GROUPS
    assert made["settings"]["circuit_breaker_cooldown"] == "10s"
    assert VirtualKey.objects.get().key_preview.endswith(key[-4:])


def test_what_the_demo_s_providers_say_has_a_price_of_their_own(demo, stage):
    from providers.models import Model

    demo.furnish(stage.addresses)
    said = Model.objects.filter(model_id="demo").order_by("provider__name")
    prices = [(row.input_price_per_million, row.output_price_per_million) for row in said]
    assert prices == [(0.5, 1.5), (1, 3), (0.25, 0.75)]


def test_a_second_start_reuses_the_records_at_new_addresses_and_makes_a_new_key(demo, stage):
    from providers.models import Provider
    from proxy.models import VirtualKey

    old = demo.furnish(stage.addresses)
    before = records()
    with demo.Stage(lambda: 0.0) as second:
        new = demo.furnish(second.addresses)
        assert dict(Provider.objects.values_list("name", "base_url")) == second.addresses
    assert records() == before
    assert new != old
    assert VirtualKey.objects.get().key_preview.endswith(new[-4:])


def test_what_somebody_changed_stays(demo, stage):
    from failover import verbs as groups
    from failover.models import FailoverGroup
    from modelhotel import settings_verbs
    from modelhotel.core.actor import ADMIN
    from providers import verbs as providers

    demo.furnish(stage.addresses)
    group = FailoverGroup.objects.get(display_model="demo")
    groups.update(str(group.pk), {"priority_order": group.priority_order[::-1]}, ADMIN)
    settings_verbs.update({"circuit_breaker_cooldown": "30s"}, ADMIN)
    providers.update(provider_id("Slow"), {"max_in_flight": 3}, ADMIN)
    before = records()
    demo.furnish(stage.addresses)
    assert records() == before
    assert before["groups"][0][2] == ["Slow", "Healthy", "Flaky"]


def test_what_somebody_deleted_comes_back(demo, stage):
    from failover import verbs as groups
    from failover.models import FailoverGroup
    from modelhotel.core.actor import ADMIN
    from providers import verbs as providers

    demo.furnish(stage.addresses)
    providers.delete(provider_id("Flaky"), ADMIN)
    groups.delete(str(FailoverGroup.objects.get(display_model="demo").pk), ADMIN)
    demo.furnish(stage.addresses)
    assert [(name, order) for name, _, order in records()["groups"]] == GROUPS


def test_the_login_is_made_once_and_kept_from_other_users(demo, tmp_path):
    env = replace(environment.current(), data_dir=tmp_path)
    first = demo.with_login(env)
    assert (first.admin_token, first.admin_password) != ("", "")
    second = demo.with_login(env)
    assert (second.admin_token, second.admin_password) == (first.admin_token, first.admin_password)
    assert stat.S_IMODE((tmp_path / demo.LOGIN_FILE).stat().st_mode) == 0o600


def test_a_broken_login_file_is_refused_by_name(demo, tmp_path):
    from modelhotel.ops.faults import StartRefused

    (tmp_path / demo.LOGIN_FILE).write_text("half")
    with pytest.raises(StartRefused, match=demo.LOGIN_FILE):
        demo.with_login(replace(environment.current(), data_dir=tmp_path))


def test_a_demo_of_an_older_version_gets_the_model_it_lacks(demo, stage):
    from failover import verbs as groups
    from failover.models import FailoverGroup
    from modelhotel.core.actor import ADMIN
    from providers.models import Model

    demo.furnish(stage.addresses)
    groups.delete(str(FailoverGroup.objects.get(display_model="demo-embedding").pk), ADMIN)
    Model.objects.filter(model_id="demo-embedding").delete()
    demo.furnish(stage.addresses)
    assert [(name, order) for name, _, order in records()["groups"]] == GROUPS
    assert set(Model.objects.values_list("model_id", "modality")) == {("demo", "chat"), ("demo-embedding", "embedding")}


def test_the_trickle_mixes_streams_and_asks_the_slow_provider_now_and_then(demo):
    calls = [demo.call(number, lambda: 0.4) for number in range(1, 17)]
    assert [c.model for c in calls].count("Slow/demo") == 2
    assert {c.model for c in calls} == {"hotel/demo", "Slow/demo", "hotel/demo-embedding"}
    vectors = [c for c in calls if c.path == "/v1/embeddings"]
    assert len(vectors) == 3 and all(set(c.body) == {"model", "input"} for c in vectors)
    assert demo.call(1, lambda: 0.4).stream
    assert not demo.call(1, lambda: 0.6).stream
