"""Names: the list a key may see, and what a name that leads nowhere is answered with."""

import threading

import pytest

from failover import breaker, resolve
from failover.verdict import of_status
from modelhotel.core import snapshots
from modelhotel.models import Setting
from proxy import serving
from tests.proxy import world
from tests.proxy.asgi import call, chat

pytestmark = pytest.mark.django_db(transaction=True)

MODELS = "/v1/models"


@pytest.fixture
def served(monkeypatch):
    """(provider, model) candidates of each request that found some, answered with the first."""
    seen = []

    async def answer(exchange):
        seen.append([(c.provider.name, c.model.model_id) for c in exchange.resolution.candidates])
        exchange.draft.status_code = 200
        await exchange.answer(200, b"{}")

    monkeypatch.setattr(serving, "run", answer)
    return seen


class Hotel:
    """Providers A and "My Box", a model on each, group g of both, a key for everything."""

    def __init__(self):
        self.a, self.box = world.provider("A"), world.provider("My Box")
        self.m = world.model(self.a, "m", context_length=8192)
        self.glm = world.model(
            self.box,
            "z-ai/glm-4.6",
            display_name="GLM",
            name="glm",
            description="d",
            owned_by="zai",
            capabilities={"streaming": True},
            input_modalities=["text"],
            output_modalities=["text"],
            context_length=131072,
            max_output_tokens=4096,
            input_price_per_million=0.5,
            output_price_per_million=2.0,
        )
        self.g = world.group("g", self.m, self.glm)
        self.key = world.key()
        world.ready()

    def key_for(self, *providers, **given):
        plain = world.key("narrow", allowed_providers=[str(p.pk) for p in providers], **given)
        world.ready()
        return plain


@pytest.fixture
def hotel():
    return Hotel()


def ids(answer):
    assert answer.status == 200
    return [entry["id"] for entry in answer.json["data"]]


# -- GET /v1/models


def test_models_come_first_and_groups_after_them(hotel):
    answer = call("GET", MODELS, key=hotel.key)
    assert answer.json["object"] == "list"
    assert ids(answer) == ["A/m", "My-Box/z-ai/glm-4.6", "hotel/g"]
    glm = answer.json["data"][1]
    assert glm == {
        "id": "My-Box/z-ai/glm-4.6",
        "object": "model",
        "created": int(hotel.glm.created_at.timestamp()),
        "owned_by": "zai",
        "provider": "My Box",
        "name": "GLM",
        "description": "d",
        "modality": "chat",
        "context_length": 131072,
        "max_context_length": 131072,
        "max_output_tokens": 4096,
        "capabilities": {"streaming": True},
        "input_modalities": ["text"],
        "output_modalities": ["text"],
        "input_price_per_million": 0.5,
        "output_price_per_million": 2.0,
    }
    group = answer.json["data"][2]
    assert (group["provider"], group["context_length"], group["owned_by"]) == ("hotel", 8192, "A")
    assert world.rows() == []


def test_an_empty_catalogue_is_an_empty_list():
    plain = world.key()
    world.ready()
    assert call("GET", MODELS, key=plain).json == {"object": "list", "data": []}


def test_a_group_shows_itself_as_the_first_member_the_key_may_use(hotel, served):
    """v1-api 25"""
    plain = hotel.key_for(hotel.box)
    answer = call("GET", MODELS, key=plain)
    assert ids(answer) == ["My-Box/z-ai/glm-4.6", "hotel/g"]
    assert answer.json["data"][1]["context_length"] == 131072
    assert chat(plain, {"model": "hotel/g"}).status == 200
    assert served == [[("My Box", "z-ai/glm-4.6")]]


def test_two_lists_without_a_common_provider_allow_nothing(hotel, served):
    """v1-api 16"""
    owner = world.user("ann", allowed_providers=None)
    plain = hotel.key_for(hotel.a, owner_user_id=str(owner.pk))
    owner.allowed_providers = [str(hotel.box.pk)]
    owner.save()
    world.ready()
    assert ids(call("GET", MODELS, key=plain)) == []
    for name in ("hotel/g", "A/m", "My-Box/z-ai/glm-4.6", "m", "g"):
        answer = chat(plain, {"model": name})
        assert answer.said == (403, "virtual key does not have access to any provider for this model")
        assert (answer.error["code"], answer.error["type"]) == ("permission_denied", "permission_error")
    assert {(r.status_code, r.error_kind) for r in world.rows()} == {(403, "auth")}
    assert served == []


def test_deleting_the_only_allowed_provider_leaves_a_key_for_nothing(hotel):
    """v1-api 17"""
    from modelhotel.core.actor import ADMIN
    from providers import verbs as provider_verbs

    plain = hotel.key_for(hotel.a)
    provider_verbs.delete(str(hotel.a.pk), ADMIN)
    world.ready()
    assert world.stored("narrow").allowed_providers == []
    assert ids(call("GET", MODELS, key=plain)) == []
    assert chat(plain, {"model": "My-Box/z-ai/glm-4.6"}).status == 403
    # The deletion synced the groups: with one member left, g is off, and that is told first.
    assert chat(plain, {"model": "hotel/g"}).status == 404


@pytest.mark.parametrize(
    ("asked", "id"),
    [
        ("A/m", "A/m"),
        ("My-Box/z-ai/glm-4.6", "My-Box/z-ai/glm-4.6"),
        ("hotel/g", "hotel/g"),
        ("hotel/G", "hotel/g"),
        ("A/m/", "A/m"),
    ],
)
def test_one_model_is_described_as_in_the_list(hotel, asked, id):
    whole = {entry["id"]: entry for entry in call("GET", MODELS, key=hotel.key).json["data"]}
    assert call("GET", f"{MODELS}/{asked}", key=hotel.key).json == whole[id]


@pytest.mark.parametrize("asked", ["A/none", "m", "a/m", "Hotel/g", "hotel/none", "My Box/z-ai/glm-4.6"])
def test_one_model_that_is_not_listed_is_not_found(hotel, asked):
    answer = call("GET", f"{MODELS}/{asked}", key=hotel.key)
    assert answer.said == (404, f"model not found: {asked}")
    assert (answer.error["param"], answer.error["code"]) == ("model", "model_not_found")


def test_one_model_of_another_tenant_is_not_found(hotel):
    plain = hotel.key_for(hotel.box)
    assert call("GET", f"{MODELS}/A/m", key=plain).said == (404, "model not found: A/m")


def test_head_is_get_without_a_body(hotel):
    get, head = call("GET", MODELS, key=hotel.key), call("HEAD", MODELS, key=hotel.key)
    assert (head.status, head.body) == (200, b"")
    assert head.header("content-length") == get.header("content-length") == str(len(get.body))
    assert call("HEAD", MODELS, key="wrong").status == 401
    assert call("HEAD", f"{MODELS}/A/none", key=hotel.key).status == 404


def test_the_list_follows_the_catalogue_at_once(hotel):
    assert "hotel/g" in ids(call("GET", MODELS, key=hotel.key))
    hotel.g.group_enabled = False
    hotel.g.save()
    world.ready()
    assert ids(call("GET", MODELS, key=hotel.key)) == ["A/m", "My-Box/z-ai/glm-4.6"]
    hotel.a.enabled = False
    hotel.a.save()
    world.ready()
    assert ids(call("GET", MODELS, key=hotel.key)) == ["My-Box/z-ai/glm-4.6"]


def test_many_different_keys_do_not_make_the_cache_grow_without_end(hotel, monkeypatch):
    from proxy import model_list

    monkeypatch.setattr(model_list.Listing, "KEPT", 1000)  # bytes: two narrow lists, or the whole one
    for provider in (hotel.a, hotel.box, hotel.a):
        assert ids(call("GET", MODELS, key=hotel.key_for(provider)))
        world.stored("narrow").delete()
    assert ids(call("GET", MODELS, key=hotel.key)) == ["A/m", "My-Box/z-ai/glm-4.6", "hotel/g"]
    kept = model_list._listing._made.values()
    assert 0 < sum(len(whole) for whole, _ in kept) <= 1000


def test_a_list_is_made_once_and_not_on_the_event_loop(hotel, monkeypatch):
    from proxy import model_list

    made, plain = [], model_list.models_list

    def watched(*args):
        made.append(threading.current_thread())
        return plain(*args)

    monkeypatch.setattr(model_list, "models_list", watched)
    lists = [call("GET", MODELS, key=hotel.key) for _ in range(3)]
    assert len(made) == 1 and made[0] is not threading.main_thread()
    assert ids(lists[0]) == ids(lists[2])


def test_a_list_that_can_not_be_made_is_our_fault(hotel, monkeypatch):
    def broken():
        raise OSError("no database")

    snapshots.reset_all()
    monkeypatch.setattr(resolve.SNAPSHOT, "_build", broken)
    answer = call("GET", MODELS, key=hotel.key)
    assert answer.said == (500, "failed to list models")
    assert answer.error["code"] == "internal_error"
    chatted = chat(hotel.key, {"model": "hotel/g"})
    assert chatted.said == (500, "failed to resolve model")
    assert chatted.error["code"] == "internal_error"
    row = world.row()
    assert (row.status_code, row.error_kind, row.error_message) == (500, "internal", "failed to resolve model")


def test_an_unexpected_fault_of_resolution_says_nothing_on_the_wire(hotel, monkeypatch):
    def broken(*args, **kwargs):
        raise ValueError("secret detail")

    monkeypatch.setattr(resolve, "everyday", broken)
    monkeypatch.setattr(resolve, "resolve", broken)
    assert chat(hotel.key, {"model": "hotel/g"}).said == (500, "failed to resolve model")


# -- names that lead somewhere


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("hotel/G", [("A", "m"), ("My Box", "z-ai/glm-4.6")]),
        ("hotel/g", [("A", "m"), ("My Box", "z-ai/glm-4.6")]),
        ("My-Box/z-ai/glm-4.6", [("My Box", "z-ai/glm-4.6")]),
        ("My Box/z-ai/glm-4.6", [("My Box", "z-ai/glm-4.6")]),
        ("g", [("A", "m"), ("My Box", "z-ai/glm-4.6")]),
        ("m", [("A", "m")]),
    ],
)
def test_each_form_of_a_name_finds_its_candidates(hotel, served, name, candidates):
    """v1-api 19, v1-api 20"""
    assert chat(hotel.key, {"model": name}).status == 200
    assert served == [candidates]
    assert world.row().model_id == name


def test_a_bare_name_is_every_provider_that_has_exactly_this_model(hotel, served):
    """v1-api 21"""
    world.model(hotel.box, "m")
    world.ready()
    assert chat(hotel.key, {"model": "m"}).status == 200
    assert served == [[("A", "m"), ("My Box", "m")]]
    answer = chat(hotel.key, {"model": "gpt-4o"})
    assert answer.said == (404, "model not found: gpt-4o")
    assert (answer.error["param"], answer.error["code"]) == ("model", "model_not_found")


def test_bare_names_can_be_switched_off(hotel, served):
    """v1-api 21"""
    Setting.objects.create(key="bare_model_routing", value="false")
    world.ready()
    answer = chat(hotel.key, {"model": "m"})
    assert answer.said == (400, 'invalid model format: expected "provider/model" or "hotel/group"')
    assert (answer.error["param"], answer.error["code"]) == ("model", "invalid_value")
    assert served == []


# -- names that lead nowhere


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("Hotel/g", 404, "provider not found: Hotel"),
        ("hotel/None", 404, "model not found: hotel/none"),
        ("hotel/", 404, "model not found: hotel/"),
        ("none/m", 404, "provider not found: none"),
        ("A/none", 404, "model not found: none on provider A"),
        ("a/m", 404, "provider not found: a"),
        ("/", 404, "provider not found: "),
        ("hotel/empty", 404, "no entries in failover group"),
        ("hotel/off", 404, "failover group disabled"),
    ],
)
def test_a_name_that_leads_nowhere_is_answered_in_one_row(hotel, name, status, message):
    """v1-api 18"""
    world.group("empty")
    world.group("off", hotel.m, group_enabled=False)
    world.ready()
    answer = chat(hotel.key, {"model": name})
    assert answer.said == (status, message)
    assert (answer.error["param"], answer.error["code"]) == ("model", "model_not_found")
    row = world.row()
    assert (row.status_code, row.state, row.error_kind, row.model_id) == (status, "failed", "validation", name)
    assert row.attempts is None
    assert row.duration_ms > 0


def test_a_group_without_a_usable_member_says_why(hotel):
    hotel.a.enabled = hotel.box.enabled = False
    hotel.a.save()
    hotel.box.save()
    world.ready()
    answer = chat(hotel.key, {"model": "hotel/g"})
    assert answer.status == 502
    assert answer.error["message"].startswith("no available provider for hotel/g: A/m: provider disabled; ")
    assert answer.error["code"] == "provider_error"
    assert (world.row().error_kind, world.row().attempts) == ("provider_error", None)


def dark(hotel):
    """Open the circuits of both members of the group."""
    board = breaker.board()
    for provider, model in ((hotel.a, "m"), (hotel.box, "z-ai/glm-4.6")):
        for _ in range(5):
            board.record(str(provider.pk), model, of_status(500, moves_on=True, open_on_exhaustion=True))


def test_a_group_that_is_dark_says_when_to_come_back(hotel):
    """v1-api 26"""
    dark(hotel)
    for plain in (hotel.key, hotel.key_for(hotel.box)):
        answer = chat(plain, {"model": "hotel/g"})
        assert answer.status == 429
        assert answer.error["message"].startswith("no available provider for hotel/g: ")
        assert answer.error["code"] == "rate_limit_exceeded"
        assert 1 <= int(answer.header("retry-after")) <= 60
    row = world.rows()[0]
    assert (row.status_code, row.error_kind) == (429, "provider_saturated")
    assert [(e["attempt"], e["provider"], e["model"], e["breaker"], e["detail"]) for e in row.attempts] == [
        (-1, "A", "m", "skipped", "circuit breaker open"),
        (-1, "My Box", "z-ai/glm-4.6", "skipped", "circuit breaker open"),
    ]


def test_a_dark_group_is_a_502_without_a_wait_where_the_setting_says_so(hotel):
    """v1-api 26"""
    Setting.objects.create(key="failover_exhaustion_status_429", value="false")
    world.ready()
    dark(hotel)
    answer = chat(hotel.key, {"model": "hotel/g"})
    assert (answer.status, answer.header("retry-after"), answer.error["code"]) == (502, None, "provider_error")


def test_a_key_that_can_not_be_decrypted_is_named_without_being_shown(hotel):
    sealed = world.provider("Sealed", key="sk-upstream-secret-1")
    type(sealed).objects.filter(pk=sealed.pk).update(encrypted_key=b"x" * 40)
    world.model(sealed, "s")
    world.ready()
    answer = chat(hotel.key, {"model": "Sealed/s"})
    assert answer.said == (502, "failed to decrypt the key of provider Sealed (wrong master key?)")
