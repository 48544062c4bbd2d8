"""The pages of the dashboard as forms: each write goes through its verb, so /v1 sees it at once."""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest
from django.contrib import admin as site
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from failover import breaker
from failover.members import Members
from failover.models import FailoverGroup
from failover.verdict import Judgement, Verdict
from modelhotel import settings_verbs
from modelhotel.accounts import audit
from modelhotel.core import options
from modelhotel.core.actor import ADMIN
from modelhotel.core.clock import SYSTEM
from modelhotel.core.faults import Refusal
from modelhotel.core.verbadmin import VerbAdmin
from modelhotel.models import AuditRow, Session, Setting, User
from providers import ports
from providers import verbs as provider_verbs
from providers.models import Model, Provider
from proxy import keys
from proxy.models import VirtualKey
from requestlogs.draft import Draft
from requestlogs.models import AppLog, RequestLog
from requestlogs.recorder import RECORDER
from tests.proxy import world
from tests.proxy.asgi import call

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


@pytest.fixture(autouse=True)
def _quiet():
    breaker.reset_board()
    RECORDER._finished.clear()
    RECORDER._rows.clear()
    yield
    audit.stop(5)
    breaker.reset_board()


@pytest.fixture
def pages():
    """A browser that is signed in as an administrator."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def viewer():
    user = User.objects.create_user("vera", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client = Client()
    client.force_login(user)
    return client


@dataclass
class House:
    """Two providers with two models each, a group over the shared one, two keys; *key* sees everything, *other* is
    owned by ann."""

    alpha: Provider
    beta: Provider
    key: str
    other: str

    def listed(self, key=None):
        """The ids that /v1/models lists."""
        answer = call("GET", "/v1/models", key=key or self.key)
        assert answer.status == 200, answer.body
        return {entry["id"] for entry in answer.json["data"]}


@pytest.fixture
def house():
    alpha, beta = world.provider("Alpha"), world.provider("Beta", url="http://127.0.0.1:10/v1")
    for owner in (alpha, beta):
        world.model(owner, "glm-4.6")
        world.model(owner, "solo")
    shared = list(Model.objects.filter(model_id="glm-4.6").order_by("provider__name"))
    world.group("glm-4.6", *shared)
    world.group("second", *shared)
    world.ready()
    ann = world.user("ann")
    return House(alpha, beta, world.key("app"), world.key("other", owner_user_id=str(ann.pk)))


def url(obj, view):
    """The address of *view* (add, changelist: of a model; change, delete: of an object)."""
    name = f"admin:{obj._meta.app_label}_{obj._meta.model_name}_{view}"
    return reverse(name) if isinstance(obj, type) else reverse(name, args=[obj.pk])


def filled(client, address):
    """What a browser would send of the form at *address*, untouched."""
    form = client.get(address).context["adminform"].form
    data: dict[str, Any] = {}
    for name in form.fields:
        value = form[name].value()
        if isinstance(value, Members):
            data[name] = list(value.order)
            for at, member in enumerate(value.order, start=1):
                data[f"{name}-{member}-at"] = at
                data[f"{name}-{member}-on"] = "1"
        elif value not in (None, False, ""):
            data[name] = "on" if value is True else value
        elif value is not False:
            data[name] = ""
    return data


def save(client, obj, **changes):
    """Send the form of *obj* with *changes*; None leaves a field out, as an empty checkbox does."""
    data = {**filled(client, url(obj, "change")), **changes}
    return client.post(url(obj, "change"), {name: value for name, value in data.items() if value is not None})


def delete(client, obj):
    return client.post(url(obj, "delete"), {"post": "yes"})


def bulk(client, model, objects, action="delete_selected", **more):
    data = {"action": action, "index": "0", "_selected_action": [str(obj.pk) for obj in objects], **more}
    return client.post(url(model, "changelist"), data)


def audited():
    assert audit.WRITER.flush(5)
    return list(AuditRow.objects.order_by("created_at").values_list("path", "status_code", "actor"))


def errors(response):
    assert response.status_code == 200
    return {name: [str(text) for text in texts] for name, texts in response.context["adminform"].form.errors.items()}


# -- the walk


def change_provider(pages, house):
    save(pages, house.alpha, enabled=None)
    # The groups lost the second of two members, so they were switched off with it.
    assert house.listed() == {"Beta/glm-4.6", "Beta/solo"}


def change_model(pages, house):
    save(pages, house.alpha.models.get(model_id="solo"), enabled=None)
    assert "Alpha/solo" not in house.listed() and "Beta/solo" in house.listed()


def change_group(pages, house):
    save(pages, FailoverGroup.objects.get(display_model="glm-4.6"), display_model="renamed")
    assert "hotel/renamed" in house.listed() and "hotel/glm-4.6" not in house.listed()


def change_key(pages, house):
    save(pages, world.stored("app"), every_provider=None, allowed_providers=[str(house.beta.pk)])
    assert house.listed() == {"Beta/glm-4.6", "Beta/solo", "hotel/glm-4.6", "hotel/second"}


def change_user(pages, house):
    save(pages, User.objects.get(username="ann"), enabled=None, allowed_providers=None)
    refused = call("GET", "/v1/models", key=house.other)
    assert (refused.status, refused.error["message"]) == (401, "virtual key disabled: owner account is disabled")


def no_provider(house, names):
    assert not {name for name in house.listed() if name.partition("/")[0] in names}


def no_model(house, names):
    assert not {name for name in house.listed() if name.partition("/")[2] in names and not name.startswith("hotel/")}


def no_group(house, names):
    assert not {f"hotel/{name}" for name in names} & house.listed()


def no_key(house, names):
    for name in names:
        refused = call("GET", "/v1/models", key=house.key if name == "app" else house.other)
        assert (refused.status, refused.error["message"]) == (401, "invalid virtual key")


def no_user(house, names):
    assert house.listed(house.other) == house.listed()
    assert world.stored("other").owner_user is None


def rows_of(model):
    """All there are; of accounts those but the one that is signed in, which can not delete itself."""
    rows = model.objects.exclude(username="root") if model is User else model.objects.all()
    return rows.order_by("pk")


#: Model -> (changes an object and asserts what /v1 says, asserts that those of these names are gone, name of one)
WALK = {
    Provider: (change_provider, no_provider, lambda row: row.name),
    Model: (change_model, no_model, lambda row: row.model_id),
    FailoverGroup: (change_group, no_group, lambda row: row.display_model),
    VirtualKey: (change_key, no_key, lambda row: row.name),
    User: (change_user, no_user, lambda row: row.username),
}
READ_ONLY = {RequestLog, AppLog}


def test_every_page_of_the_registry_writes_by_verbs_or_not_at_all():
    registry = site.site._registry
    assert set(registry) == set(WALK) | READ_ONLY
    for model, page in registry.items():
        assert isinstance(page, VerbAdmin)
        offers = page._offers("verb_update") and page._offers("verb_delete")
        assert offers is (model in WALK)


@pytest.mark.parametrize("model", WALK, ids=lambda model: model.__name__)
def test_a_change_through_the_page_is_in_force_for_the_next_request(pages, house, model):
    change, _, _ = WALK[model]
    change(pages, house)


@pytest.mark.parametrize("model", WALK, ids=lambda model: model.__name__)
def test_a_deletion_through_the_page_is_in_force_for_the_next_request(pages, house, model):
    _, gone, name = WALK[model]
    obj = model.objects.filter(name="app").get() if model is VirtualKey else rows_of(model).first()
    wanted = name(obj)
    same = [row for row in rows_of(model) if name(row) == wanted]
    for row in same:
        assert delete(pages, row).status_code == 302
    gone(house, {wanted})
    assert not model.objects.filter(pk__in=[row.pk for row in same]).exists()


@pytest.mark.parametrize("model", WALK, ids=lambda model: model.__name__)
def test_a_bulk_deletion_is_in_force_for_the_next_request(pages, house, model):
    _, gone, name = WALK[model]
    objects = list(rows_of(model))
    names = {name(obj) for obj in objects}
    asked = bulk(pages, model, objects)
    assert asked.status_code == 200 and rows_of(model).count() == len(objects)
    assert bulk(pages, model, objects, post="yes").status_code == 302
    assert not rows_of(model).exists()
    if model is VirtualKey:
        gone(house, names)
    else:
        gone(House(house.alpha, house.beta, house.key, house.other), names)


def test_the_request_log_can_be_read_and_not_written(pages, house):
    RECORDER.finish(Draft("chat", model_id="hotel/glm-4.6", status_code=200))
    assert RECORDER.flush()
    row = RequestLog.objects.get()
    assert pages.get(url(RequestLog, "add")).status_code == 403
    assert pages.post(url(row, "change"), {"model_id": "x"}).status_code == 403
    assert delete(pages, row).status_code == 403
    bulk(pages, RequestLog, [row], post="yes")
    assert RequestLog.objects.get().model_id == "hotel/glm-4.6"


@pytest.mark.parametrize(
    ("asked", "shown"),
    [("", {"one", "two"}), ("embeddings", {"two"}), ("chat", {"one"}), ("telepathy", {"one", "two"})],
)
def test_requests_say_which_endpoint_they_went_to_and_are_filtered_by_it(pages, house, asked, shown):
    RECORDER.finish(Draft("chat", model_id="one", status_code=200))
    RECORDER.finish(Draft("embeddings", model_id="two", status_code=200))
    page = pages.get(url(RequestLog, "changelist"), {"endpoint_type": asked} if asked else {})
    assert page.status_code == 200
    rows = {row.model_id: row.endpoint_type for row in page.context["cl"].result_list}
    assert rows == {name: {"one": "chat", "two": "embeddings"}[name] for name in shown}
    text = page.content.decode()
    table = text[text.index('id="result_list"') :].partition("</table>")[0]
    assert ("embeddings" in table) == ("two" in shown)


def test_old_requests_are_deleted_after_a_question_and_running_ones_stay(pages, house):
    now = SYSTEM.now()
    for days, state in ((0, "completed"), (2, "completed"), (9, "failed"), (9, "streaming")):
        at = now - timedelta(days=days)
        RequestLog.objects.create(created_at=at, state=state, request_hash="a" * 16, endpoint_type="chat", model_id="m")
    address = reverse("admin:requestlogs_requestlog_do", args=["older-than-week"])
    assert "Running requests stay." in pages.post(address).content.decode()
    assert RequestLog.objects.count() == 4
    answer = pages.post(address, {"confirmed": "yes"}, follow=True)
    assert "1 request deleted." in answer.content.decode()
    pages.post(reverse("admin:requestlogs_requestlog_do", args=["everything"]), {"confirmed": "yes"})
    assert [row.state for row in RequestLog.objects.all()] == ["streaming"]


# -- what a form does with a refusal


def test_the_words_of_a_verb_stand_at_the_field_they_are_about(pages, house):
    data = {"name": "Alpha", "provider_type": "openai", "base_url": "nonsense", "api_key": "k"}
    assert errors(pages.post(url(Provider, "add"), data)) == {
        "base_url": ["base_url must be an http or https URL with a host"]
    }
    data["base_url"] = "https://api.openai.com/v1"
    assert errors(pages.post(url(Provider, "add"), data)) == {"name": ["a provider with this name already exists"]}
    data |= {"name": "New", "api_key": ""}
    assert errors(pages.post(url(Provider, "add"), data)) == {"api_key": ["api_key is required for this provider type"]}
    assert Provider.objects.count() == 2


def test_a_refused_form_keeps_what_was_typed_but_never_the_key(pages, house):
    data = {"name": "New one", "provider_type": "openai", "base_url": "nonsense", "api_key": "sk-very-secret-123"}
    page = pages.post(url(Provider, "add"), data).content.decode()
    assert "New one" in page and "nonsense" in page and "sk-very-secret" not in page


def test_every_outcome_of_a_form_is_in_the_audit_log(pages, house):
    save(pages, house.alpha, base_url="nonsense")
    save(pages, house.alpha, name="Alpha Two")
    delete(pages, house.beta)
    change, gone = url(house.alpha, "change"), url(house.beta, "delete")
    assert audited() == [(change, 400, "root"), (change, 200, "root"), (gone, 200, "root")]
    row = AuditRow.objects.order_by("created_at").first()
    assert row.entity_id == str(house.alpha.pk)


def test_a_deletion_that_is_refused_leaves_no_trace_of_itself(pages, house, monkeypatch):
    def refuse(*args, **kwargs):
        raise Refusal(500, "the database sleeps")

    monkeypatch.setattr(provider_verbs, "delete", refuse)
    answer = pages.post(url(house.alpha, "delete"), {"post": "yes"}, follow=True)
    assert "the database sleeps" in answer.content.decode()
    bulk(pages, Provider, [house.alpha], post="yes")
    assert Provider.objects.count() == 2 and not LogEntry.objects.exists()
    assert [status for _, status, _ in audited()] == [500, 500]


def test_a_form_sent_unchanged_writes_nothing(pages, house):
    before = Provider.objects.get(pk=house.alpha.pk).updated_at
    assert save(pages, house.alpha).status_code == 302
    assert Provider.objects.get(pk=house.alpha.pk).updated_at == before


# -- providers and models


def test_a_key_is_kept_when_its_field_stays_empty_and_removed_only_when_asked(pages, house):
    def stored():
        return Provider.objects.get(pk=house.alpha.pk)

    save(pages, house.alpha, api_key="sk-first-key-000")
    assert stored().masked_key and not stored().keyless
    sealed = bytes(stored().encrypted_key)
    save(pages, house.alpha, name="Alpha Two", api_key="")
    assert bytes(stored().encrypted_key) == sealed
    refused = save(pages, house.alpha, api_key="sk-second-key", remove_key="on")
    assert errors(refused) == {"remove_key": ["give a new key or remove the key, not both"]}
    save(pages, house.alpha, remove_key="on")
    assert stored().keyless


def test_the_ceiling_of_a_provider_is_set_cleared_and_refused_beside_its_field(pages, house):
    def stored():
        return Provider.objects.get(pk=house.alpha.pk).max_in_flight

    settings_verbs.update({"discovery_on_provider_create": "false"}, ADMIN)  # nobody answers at C
    assert save(pages, house.alpha, max_in_flight="2").status_code == 302 and stored() == 2
    for bad in ("0", "10001"):
        refused = save(pages, house.alpha, max_in_flight=bad)
        assert errors(refused) == {"max_in_flight": ["max_in_flight must be between 1 and 10000"]}
    assert save(pages, house.alpha, max_in_flight="").status_code == 302 and stored() is None
    data = {"name": "C", "provider_type": "custom", "base_url": "http://127.0.0.1:11/v1", "max_in_flight": "3"}
    pages.post(url(Provider, "add"), data)
    assert Provider.objects.get(name="C").max_in_flight == 3


def test_a_provider_s_day_to_switch_off_is_set_refused_and_cleared(pages, house):
    def stored():
        return Provider.objects.get(pk=house.alpha.pk).scheduled_disable_on

    assert save(pages, house.alpha, scheduled_disable_on="2999-12-31").status_code == 302
    assert stored() == date(2999, 12, 31)
    assert 'value="2999-12-31"' in pages.get(url(house.alpha, "change")).content.decode()
    refused = save(pages, house.alpha, scheduled_disable_on="2020-01-01")
    assert errors(refused) == {"scheduled_disable_on": ["scheduled_disable_on must not be in the past"]}
    assert save(pages, house.alpha, scheduled_disable_on="").status_code == 302 and stored() is None


def test_a_reserve_is_asked_for_where_the_type_reads_it_or_a_leftover_waits(pages, house):
    def asked():
        return "quota_reserve_percent" in filled(pages, url(house.alpha, "change"))

    assert not asked()
    Provider.objects.filter(pk=house.alpha.pk).update(quota_reserve_percent=30)
    assert asked() and "Choose 0 % to clear it" in pages.get(url(house.alpha, "change")).content.decode()
    assert save(pages, house.alpha, quota_reserve_percent="0").status_code == 302
    assert not asked()
    Provider.objects.filter(pk=house.alpha.pk).update(provider_type="opencode-go")
    assert "Share of the monthly window" in pages.get(url(house.alpha, "change")).content.decode()
    assert save(pages, house.alpha, quota_reserve_percent="20").status_code == 302
    assert Provider.objects.get(pk=house.alpha.pk).quota_reserve_percent == 20


def test_the_page_of_a_provider_says_what_it_takes_at_once(pages, house, monkeypatch):
    monkeypatch.setattr(ports, "inflight_limits", lambda: {str(house.alpha.pk): 3})
    assert "3 at once" in pages.get(url(house.alpha, "change")).content.decode()
    assert "3 at once" not in pages.get(url(house.beta, "change")).content.decode()


def test_creating_a_provider_lists_its_models_and_says_so(pages, provider_a):
    data = {"name": "A", "provider_type": "openai", "base_url": provider_a.url, "api_key": "sk-a"}
    answer = pages.post(url(Provider, "add"), data, follow=True).content.decode()
    assert "A: 2 models found (2 added)" in answer
    assert set(Model.objects.values_list("model_id", flat=True)) == set(provider_a.models)


def test_without_the_setting_a_new_provider_is_not_scanned(pages, provider_a):
    settings_verbs.update({"discovery_on_provider_create": "false"}, ADMIN)
    data = {"name": "A", "provider_type": "openai", "base_url": provider_a.url, "api_key": "sk-a"}
    assert pages.post(url(Provider, "add"), data).status_code == 302
    assert not Model.objects.exists() and not provider_a.requests


def test_a_listing_that_fails_is_told_and_the_provider_stays(pages, provider_a):
    provider_a.models = []
    data = {"name": "A", "provider_type": "openai", "base_url": provider_a.url, "api_key": "sk-a"}
    answer = pages.post(url(Provider, "add"), data, follow=True).content.decode()
    assert "A: 0 models found" in answer and Provider.objects.get().name == "A"


def test_deleting_a_provider_says_what_goes_with_it(pages, house):
    save(pages, world.stored("app"), every_provider=None, allowed_providers=[str(house.alpha.pk)])
    page = pages.get(url(house.alpha, "delete")).content.decode()
    assert "2 models: glm-4.6, solo" in page
    assert "hotel/glm-4.6 loses 1 of its 2 members" in page
    assert "The key app keeps 0 allowed providers" in page


def test_disabling_in_bulk_asks_first(pages, house):
    objects = [house.alpha, house.beta]
    asked = bulk(pages, Provider, objects, "disable_selected")
    assert "will not be routed to" in asked.content.decode() and Provider.objects.filter(enabled=True).count() == 2
    bulk(pages, Provider, objects, "disable_selected", confirmed="yes")
    assert house.listed() == set()
    bulk(pages, Provider, objects, "enable_selected")
    assert "Alpha/solo" in house.listed()


def test_an_open_circuit_is_reset_by_its_button_after_a_question(pages, house):
    board = breaker.board()
    pair = (str(house.alpha.pk), "glm-4.6")
    for _ in range(5):
        board.record(*pair, Judgement(Verdict.CHARGE, cause="server error", status=500))
    assert board.gate(*pair).state == "blocked"
    group = FailoverGroup.objects.get(display_model="glm-4.6")
    assert "circuit open" in pages.get(url(group, "change")).content.decode()
    address = reverse("admin:providers_provider_do_object", args=[house.alpha.pk, "reset"])
    assert pages.get(address).status_code == 405
    assert pages.post(address).status_code == 200 and board.gate(*pair).state == "blocked"
    told = pages.post(address, {"confirmed": "yes"}, follow=True).content.decode()
    assert "1 circuit reset, back in rotation." in told and board.gate(*pair).state == "free"


def test_a_model_is_tested_from_its_page(pages, provider_a):
    owner = world.provider("A", url=provider_a.url)
    row = world.model(owner, "glm-4.6")
    world.ready()
    address = reverse("admin:providers_model_do_object", args=[row.pk, "test"])
    assert "glm-4.6 answered in" in pages.post(address, follow=True).content.decode()


def test_editing_a_price_pins_it_and_emptying_a_field_is_refused(pages, house):
    row = house.alpha.models.get(model_id="solo")
    save(pages, row, input_price_per_million="1.5")
    row.refresh_from_db()
    assert (row.input_price_per_million, row.price_customized) == (1.5, True)
    assert errors(save(pages, row, input_price_per_million="")) == {
        "input_price_per_million": ["a value can be changed here, not removed"]
    }
    save(pages, row, price_customized=None)
    row.refresh_from_db()
    assert (row.input_price_per_million, row.price_customized) == (None, False)


# -- groups


def test_positions_of_the_form_become_the_order_of_the_group(pages, house):
    group = FailoverGroup.objects.get(display_model="glm-4.6")
    first, second = group.priority_order
    save(pages, group, **{f"priority_order-{first}-at": "9"})
    group.refresh_from_db()
    assert group.priority_order == [second, first]
    third = str(house.alpha.models.get(model_id="solo").pk)
    save(pages, group, **{"priority_order-add": [third, ""], f"priority_order-{second}-out": "1"})
    group.refresh_from_db()
    assert group.priority_order == [first, third]


def test_a_position_that_is_no_number_is_refused_at_the_members(pages, house):
    group = FailoverGroup.objects.get(display_model="glm-4.6")
    answer = save(pages, group, **{f"priority_order-{group.priority_order[0]}-at": "first"})
    assert errors(answer) == {"priority_order": ["A position must be a whole number."]}


def test_switching_off_the_second_last_member_is_refused(pages, house):
    group = FailoverGroup.objects.get(display_model="glm-4.6")
    answer = save(pages, group, **{f"priority_order-{group.priority_order[0]}-on": None})
    assert errors(answer) == {"priority_order": ["At least 2 members must stay active."]}


def test_a_custom_group_is_made_of_the_chosen_members(pages, house):
    members = [str(pk) for pk in Model.objects.filter(model_id="solo").values_list("pk", flat=True)]
    data = {"display_model": "Duo", "display_name": "", "description": "", "priority_order-add": members[:1]}
    assert errors(pages.post(url(FailoverGroup, "add"), data)) == {
        "priority_order": ["at least 2 entries required for failover group"]
    }
    data["priority_order-add"] = members
    assert pages.post(url(FailoverGroup, "add"), data).status_code == 302
    assert FailoverGroup.objects.get(display_model="duo").priority_order == members
    assert "hotel/duo" in house.listed()


def test_the_form_says_whether_broken_streams_are_recovered(pages, house):
    """part of beyond 1 (routing B2)"""
    group = FailoverGroup.objects.get(display_model="glm-4.6")
    for chosen, stored in (("continue", "continue"), ("off", "off"), ("", None)):
        save(pages, group, midstream_recovery=chosen)
        group.refresh_from_db()
        assert group.midstream_recovery == stored
    answer = save(pages, group, midstream_recovery="on")
    assert list(errors(answer)) == ["midstream_recovery"]


def test_a_sync_reports_what_it_did(pages, house):
    told = pages.post(reverse("admin:failover_failovergroup_do", args=["sync"]), follow=True).content.decode()
    assert "hotel/solo created with 2 members" in told and "hotel/solo" in house.listed()
    told = pages.post(reverse("admin:failover_failovergroup_do", args=["sync"]), follow=True).content.decode()
    assert "nothing to change" in told


# -- the navigation


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("/", "Overview"),
        ("/providers/", "Providers"),
        ("/providers/provider/", "Providers"),
        ("/providers/provider/{provider}/change/", "Providers"),
        ("/models/", "Models"),
        ("/providers/model/", "Models"),
        ("/providers/model/{model}/change/", "Models"),
        ("/failover/", "Failover"),
        ("/failover/failovergroup/add/", "Failover"),
        ("/keys/", "Virtual keys"),
        ("/proxy/virtualkey/", "Virtual keys"),
        ("/proxy/virtualkey/add/", "Virtual keys"),
        ("/proxy/virtualkey/{key}/history/", "Virtual keys"),
        ("/requests/", "Requests"),
        ("/requestlogs/requestlog/", "Requests"),
        ("/logs/", "App logs"),
        ("/requestlogs/applog/", "App logs"),
        ("/modelhotel/user/", "Users"),
        ("/settings/", "Settings"),
        ("/password_change/", None),
    ],
)
def test_the_navigation_shows_where_a_page_belongs(pages, house, path, entry):
    ids = {"provider": house.alpha.pk, "model": Model.objects.first().pk, "key": VirtualKey.objects.first().pk}
    shown = pages.get(path.format(**ids)).content.decode()
    marked = re.findall(r'aria-current="page"[^>]*>\s*<span [^>]*>\w+</span>\s*<span>([^<]+)</span>', shown)
    assert marked == ([entry] if entry else [])


# -- keys


def test_a_new_key_is_in_one_answer_and_nowhere_else(pages, house):
    data = {"name": "laptop", "every_provider": "on"}
    sent = pages.post(url(VirtualKey, "add"), data)
    row = world.stored("laptop")
    assert (sent.status_code, sent["Location"]) == (302, url(row, "new"))
    waiting = str(pages.session["new_keys"])
    assert pages.head(sent["Location"]).status_code == 405, "and uses nothing up"
    answer = pages.get(sent["Location"])
    assert answer.status_code == 200 and "no-store" in answer["Cache-Control"]
    plain = set(re.findall(r"sk-[0-9a-f]{32}", answer.content.decode()))
    assert len(plain) == 1
    key = plain.pop()
    assert "enc:v1:" in waiting and key not in waiting
    assert house.listed(key) == house.listed()
    assert row.key_hash == keys.hash_of(key.encode())
    for address in (url(VirtualKey, "changelist"), url(row, "change"), f"/proxy/virtualkey/{row.pk}/history/", "/"):
        assert key not in pages.get(address).content.decode()
    assert not any(key in cookie.value for cookie in pages.cookies.values())
    assert not Session.objects.filter(session_data__contains=key[3:]).exists()
    assert not any(key in str(values) for model in (LogEntry, VirtualKey) for values in model.objects.values_list())
    assert [status for _, status, _ in audited()] == [200]


def test_the_page_of_a_new_key_makes_none_when_it_is_loaded_again(pages, viewer):
    """nor does it show the key again, or to anybody else"""
    sent = pages.post(url(VirtualKey, "add"), {"name": "laptop", "every_provider": "on"})
    stranger = Client()
    stranger.force_login(User.objects.create_superuser("other"))
    assert viewer.get(sent["Location"]).status_code == 403
    assert stranger.get(sent["Location"])["Location"] == url(VirtualKey, "changelist")
    assert re.search(r"sk-[0-9a-f]{32}", pages.get(sent["Location"]).content.decode())
    again = pages.get(sent["Location"], follow=True)
    assert again.redirect_chain == [(url(VirtualKey, "changelist"), 302)]
    assert "A new key is shown once. If nobody saved it" in again.content.decode()
    assert not re.search(r"sk-[0-9a-f]{32}", again.content.decode())
    assert VirtualKey.objects.count() == 1 and pages.session["new_keys"] == {}


def test_a_new_key_waits_five_minutes_for_its_page(pages, monkeypatch):
    sent = pages.post(url(VirtualKey, "add"), {"name": "laptop", "every_provider": "on"})
    held = pages.session
    held["new_keys"] = {key: {**kept, "at": kept["at"] - 301} for key, kept in held["new_keys"].items()}
    held.save()
    assert pages.get(sent["Location"])["Location"] == url(VirtualKey, "changelist")


def test_a_key_needs_at_least_one_provider_when_it_may_not_use_every_one(pages, house):
    refused = pages.post(url(VirtualKey, "add"), {"name": "laptop"})
    assert list(errors(refused)) == ["allowed_providers"]
    assert not VirtualKey.objects.filter(name="laptop").exists()


# -- requests


def test_the_form_of_a_key_takes_and_shows_its_limits(pages):
    form = {"name": "limited", "every_provider": "on", "rate_limit_rps": "2.5", "rate_limit_tpm": "1000"}
    assert pages.post(url(VirtualKey, "add"), {**form, "budget_usd": "5", "budget_period": "week"}).status_code == 302
    row = VirtualKey.objects.get(name="limited")
    limits = row.rate_limit_rps, row.rate_limit_burst, row.rate_limit_tpm, row.budget_usd, row.budget_period
    assert limits == (2.5, None, 1000, 5.0, "week")
    shown = pages.get(url(VirtualKey, "changelist")).content.decode()
    assert "2.5 rps, 1000 tpm" in shown and "$5.00 per week" in shown
    kept = pages.post(url(row, "change"), {**form, "budget_usd": "6", "budget_period": "week", "rate_limit_burst": "7"})
    row.refresh_from_db()
    assert (kept.status_code, row.rate_limit_burst, row.budget_usd, row.rate_limit_rps) == (302, 7, 6.0, 2.5)
    cleared = pages.post(url(row, "change"), {"name": "limited", "every_provider": "on"})
    row.refresh_from_db()
    assert (cleared.status_code, row.rate_limit_rps, row.budget_usd, row.budget_period) == (302, None, None, None)
    refused = pages.post(url(VirtualKey, "add"), {**form, "name": "half", "budget_usd": "5"})
    assert b"budget_usd and budget_period go together: set both or neither" in refused.content
    assert not VirtualKey.objects.filter(name="half").exists()


def test_the_list_of_requests_counts_nothing_and_finds_what_is_filtered(pages, house):
    for model, status, kind in (("hotel/glm-4.6", 200, None), ("Beta/solo", 502, "provider_error")):
        draft = Draft("chat", model_id=model, status_code=status, error_kind=kind, provider_id=str(house.beta.pk))
        draft.attempts = [{"attempt": 0, "provider": "Beta", "model": "solo", "status": status, "breaker": "charge"}]
        RECORDER.finish(draft)
    with CaptureQueriesContext(connection) as asked:
        page = pages.get(url(RequestLog, "changelist")).content.decode()
    assert "hotel/glm-4.6" in page and "Beta/solo" in page
    about = [query["sql"] for query in asked.captured_queries if "request_logs" in query["sql"]]
    assert about and not any("COUNT(" in sql or "DISTINCT" in sql for sql in about)
    for query in ("status=5", "error_kind=provider_error", "q=beta/s"):
        found = pages.get(f"{url(RequestLog, 'changelist')}?{query}").content.decode()
        assert "Beta/solo" in found and "hotel/glm-4.6" not in found, query
    both = pages.get(f"{url(RequestLog, 'changelist')}?provider={house.beta.pk}&state=completed").content.decode()
    assert "hotel/glm-4.6" in both


def test_the_attempts_stand_in_their_order_with_their_words(pages, house):
    draft = Draft("chat", model_id="hotel/glm-4.6", status_code=200)
    model = {"model": "glm-4.6"}
    failed = {"status": 503, "error_kind": "provider_error", "detail": "<b>down</b>", "duration_ms": 1500.0}
    draft.attempts = [
        {"attempt": -1, "provider": "Gamma", "detail": "circuit breaker open", "breaker": "skipped", **model},
        {"attempt": 0, "provider": "Alpha", "breaker": "charge", **failed, **model},
        {"attempt": 1, "provider": "Beta", "status": 200, "breaker": "success", **model},
    ]
    RECORDER.finish(draft)
    assert RECORDER.flush()
    page = pages.get(url(RequestLog.objects.get(), "change")).content.decode()
    places = [page.index(word) for word in ("Gamma / glm-4.6", "Alpha / glm-4.6", "Beta / glm-4.6")]
    assert places == sorted(places)
    for word in ("skipped", "circuit breaker open", "provider error", "1.5 s", "&lt;b&gt;down&lt;/b&gt;"):
        assert word in page


# -- settings


def test_a_setting_that_the_environment_fixes_names_the_variable_and_can_not_be_typed(pages, db, monkeypatch):
    monkeypatch.setattr(options, "environ", {"FAILOVER_ENABLED": "false"})
    options.SNAPSHOT.refresh()
    page = pages.get("/settings/").content.decode()
    assert "Fixed by the environment variable <code>FAILOVER_ENABLED</code>" in page
    assert re.search(r'id="id_failover_enabled"[^>]* disabled', page)


def test_what_hedging_costs_is_said_beside_its_switch_and_its_delay_waits_for_it(pages, db):
    page = pages.get("/settings/").content.decode()
    assert "A slow start then costs two upstream requests" in page
    assert re.search(r'id="id_hedge_delay"[^>]* disabled', page)
    assert not re.search(r'id="id_hedging_enabled"[^>]* disabled', page)


def test_what_only_a_read_429_can_mean_waits_for_the_reading(pages, db):
    """settings 3.4. The next three controls are greyed while classification is off, and two stay as they are."""
    greyed = (
        "rate_limit_saturation_max_wait",
        "rate_limit_recent_success_window",
        "circuit_breaker_open_on_exhaustion",
    )
    for stored, usable in (("true", 3), ("false", 0)):
        Setting.objects.update_or_create(key="rate_limit_classify_enabled", defaults={"value": stored})
        options.SNAPSHOT.refresh()
        page = pages.get("/settings/").content.decode()
        assert sum(not re.search(rf'id="id_{key}"[^>]* disabled', page) for key in greyed) == usable
        assert not re.search(r'id="id_server_error_retry_enabled"[^>]* disabled', page)


# -- who may


def test_a_viewer_sees_everything_and_may_write_nothing(viewer, house):
    RECORDER.finish(Draft("chat", model_id="hotel/glm-4.6", status_code=200))
    assert RECORDER.flush()
    AppLog.objects.create(timestamp=SYSTEM.now(), created_at=SYSTEM.now(), level="info", source="a", message="a: b")
    assert viewer.get("/").status_code == viewer.get("/settings/").status_code == 200
    for model in [*WALK, *READ_ONLY]:
        obj = model.objects.order_by("pk").first()
        for address in (url(model, "changelist"), url(obj, "change")):
            page = viewer.get(address)
            assert page.status_code == 200, address
            text = page.content.decode()
            assert "_save" not in text and "/do/" not in text and "/add/" not in text and "/delete/" not in text
            assert 'name="action"' not in text
        assert viewer.get(url(model, "add")).status_code == 403
        assert viewer.post(url(obj, "change"), {"name": "x"}).status_code == 403
        assert delete(viewer, obj).status_code == 403
        bulk(viewer, model, [obj], post="yes")
        assert model.objects.filter(pk=obj.pk).exists()
    address = reverse("admin:providers_provider_do_object", args=[house.alpha.pk, "reset"])
    assert viewer.post(address, {"confirmed": "yes"}).status_code == 403
    assert viewer.post("/settings/").status_code == 405


def test_without_a_sign_in_every_page_leads_to_the_sign_in(house):
    for model in [*WALK, *READ_ONLY]:
        answer = Client().get(url(model, "changelist"))
        assert answer.status_code == 302 and answer["Location"].startswith("/login/?next=")
    assert Client().get("/settings/")["Location"].startswith("/login/?next=")


def test_an_account_without_a_permission_finds_neither_link_nor_page(house):
    user = User.objects.create_user("half", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_provider"))
    client = Client()
    client.force_login(user)
    start = client.get("/").content.decode()
    assert 'href="/providers/"' in start and "/keys/" not in start and "/settings/" not in start
    assert client.get("/settings/").status_code == 403
    assert client.get(url(VirtualKey, "changelist")).status_code == 403


def test_the_start_page_of_an_empty_house_says_what_to_do_next(pages, db):
    page = pages.get("/").content.decode()
    assert "/providers/?add=1" in page and "Add a provider" in page
    assert "No providers yet" in pages.get(url(Provider, "changelist")).content.decode()


def test_a_page_that_would_write_past_its_verbs_is_refused_when_it_is_registered():
    from django.core.exceptions import ImproperlyConfigured

    class Sneaky(VerbAdmin[Provider]):
        list_display = ("name", "enabled")
        list_editable = ("enabled",)

    with pytest.raises(ImproperlyConfigured):
        Sneaky(Provider, site.site)
