"""``/api/models``: list, pages, edit, delete, test."""

import json
from typing import Any

import pytest

from modelhotel.core import events
from providers import cache, model_pages, ports
from providers.cache import ProviderRow
from providers.models import Model, Provider
from tests.providers.conftest import Api, Ports
from tests.upstream.server import FakeProvider, answer, empty_choices, half_json, reply, reset, silence, status

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
NOBODY = "0d9e0b9e-1111-4222-8333-444455556666"


def text(response: Any) -> str:
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    return response.content.decode()


@pytest.fixture
def owner(api: Api) -> Provider:
    return Provider.objects.get(pk=api.provider(name="Own Er")["id"])


def model(owner: Provider, model_id: str, **more: Any) -> Model:
    return Model.objects.create(provider=owner, model_id=model_id, **more)


# ---------------------------------------------------------------- list


def test_the_list_is_ordered_and_filtered(api: Api, owner: Provider):
    other = Provider.objects.get(pk=api.provider(name="off")["id"])
    Provider.objects.filter(pk=other.pk).update(enabled=False)
    model(owner, "b", capabilities={"vision": True}, output_modalities=["text"])
    model(other, "a")
    listed = api.get("/models").json()
    assert [m["model_id"] for m in listed] == ["a", "b"]
    assert listed[1]["capabilities"] == '{"vision":true}' and listed[1]["output_modalities"] == '["text"]'
    assert (listed[1]["provider_name"], listed[1]["provider_enabled"], listed[0]["provider_enabled"]) == (
        "Own Er",
        True,
        False,
    )
    assert [m["model_id"] for m in api.get(f"/models?provider_id={owner.pk}").json()] == ["b"]
    assert [m["model_id"] for m in api.get("/models?provider_enabled=false").json()] == ["a"]
    assert text(api.get("/models?provider_id=x")) == "invalid provider_id"
    assert text(api.get("/models?provider_enabled=yes")) == "invalid provider_enabled"
    assert api.get("/models?provider_id=x").status_code == 400


@pytest.mark.parametrize("sort_by", ["name", "discovered", "context", "output", "provider", "status"])
@pytest.mark.parametrize("sort_dir", ["asc", "desc"])
def test_pages_go_there_and_back_without_loss(api: Api, owner: Provider, sort_by: str, sort_dir: str):
    for number in range(11):
        model(
            owner,
            f"m{number:02}",
            context_length=(number % 3) * 1000 or None,
            max_output_tokens=number % 2 or None,
            enabled=number % 4 != 0,
            display_name="Same" if number % 2 else "",
        )
    path = f"/models/cursor?limit=4&sort_by={sort_by}&sort_dir={sort_dir}"
    whole = [m["id"] for m in api.get(path.replace("limit=4", "limit=200")).json()["entries"]]
    pages, cursor = [], ""
    while True:
        page = api.get(f"{path}&cursor={cursor}").json()
        pages.append([m["id"] for m in page["entries"]])
        assert page["total"] == 11 and page["has_before"] is (len(pages) > 1)
        if not page["has_after"]:
            break
        cursor = page["next_cursor"]
    assert [len(page) for page in pages] == [4, 4, 3] and [i for page in pages for i in page] == whole
    assert page["next_cursor"] is None
    back = api.get(f"{path}&direction=before&cursor={page['prev_cursor']}").json()
    assert [m["id"] for m in back["entries"]] == pages[1] and back["has_before"] and back["has_after"]
    first = api.get(f"{path}&direction=before&cursor={back['prev_cursor']}").json()
    assert [m["id"] for m in first["entries"]] == pages[0]
    assert (first["has_before"], first["prev_cursor"]) == (False, None)


def test_the_order_that_a_cursor_was_made_in_wins(api: Api, owner: Provider):
    for number in range(3):
        model(owner, f"m{number}", context_length=3000 - number * 1000)
    page = api.get("/models/cursor?limit=1&sort_by=context").json()
    assert [m["model_id"] for m in page["entries"]] == ["m2"]
    following = api.get(f"/models/cursor?limit=1&sort_by=name&cursor={page['next_cursor']}").json()
    assert [m["model_id"] for m in following["entries"]] == ["m1"]
    decoded = json.loads(model_pages.base64.urlsafe_b64decode(page["next_cursor"]))
    assert decoded == {"sort_by": "context", "context": 1000, "id": page["entries"][0]["id"]}


@pytest.mark.parametrize(
    "body",
    [
        b"x",
        b"[]",
        b"{}",
        b'{"sort_by":"evil","evil":1,"id":"0d9e0b9e-1111-4222-8333-444455556666"}',
        b'{"sort_by":"name","name":5,"id":"0d9e0b9e-1111-4222-8333-444455556666"}',
        b'{"sort_by":"name","name":"a","id":"x"}',
        b'{"sort_by":"name","name":"a\\u0000","id":"0d9e0b9e-1111-4222-8333-444455556666"}',
        b'{"sort_by":"context","context":true,"id":"0d9e0b9e-1111-4222-8333-444455556666"}',
        b'{"sort_by":"discovered","discovered":"yesterday","id":"0d9e0b9e-1111-4222-8333-444455556666"}',
        b'{"sort_by":"discovered","discovered":"2026-01-01T00:00:00","id":"0d9e0b9e-1111-4222-8333-444455556666"}',
        b'{"sort_by":["name"],"id":"0d9e0b9e-1111-4222-8333-444455556666"}',
    ],
)
def test_a_cursor_of_another_make_is_refused(api: Api, body: bytes):
    refused = api.get("/models/cursor?cursor=" + model_pages.base64.urlsafe_b64encode(body).decode())
    assert (refused.status_code, text(refused)) == (400, "invalid cursor")
    assert api.get("/models/cursor?cursor=%C3%A4").status_code == 400


def found(api: Api, query: str) -> set[str]:
    return {m["model_id"] for m in api.get("/models/cursor?" + query).json()["entries"]}


def test_pages_are_filtered(api: Api, owner: Provider):
    other = Provider.objects.get(pk=api.provider(name="other")["id"])
    model(owner, "gpt_4", capabilities={"vision": True, "reasoning": True}, output_modalities=["text", "image"])
    model(owner, "gptx4", capabilities={"vision": True}, output_modalities=["text"], name="Odd 50%")
    model(other, "flux", output_modalities=["image"], display_name="FLUX Pro", enabled=False)
    assert found(api, "search=gpt_4") == {"gpt_4"}
    assert found(api, "search=50%25") == {"gptx4"}
    assert found(api, "search=flux%20pro") == {"flux"}
    assert found(api, "capabilities=vision") == {"gpt_4", "gptx4"}
    assert found(api, "capabilities=vision,reasoning") == {"gpt_4"}
    assert found(api, "capabilities=pk") == set()
    assert found(api, "outputs=image") == {"gpt_4", "flux"}
    assert found(api, "outputs=image,text,smell") == {"gpt_4"}
    assert found(api, f"provider_id={other.pk},nonsense") == {"flux"}
    assert found(api, "provider_id=nonsense") == {"gpt_4", "gptx4", "flux"}
    assert found(api, "enabled=false") == {"flux"}
    for limit in ("0", "201", "x", "-1", "1.5", "\u0663"):
        assert len(found(api, f"limit={limit}&provider_enabled=true")) == 3
    Provider.objects.filter(pk=owner.pk).update(enabled=False)
    page = api.get("/models/cursor?limit=1").json()
    assert [page[n] for n in ("total", "enabled_total", "parked_total", "disabled_total")] == [3, 0, 2, 1]


# ---------------------------------------------------------------- edit


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, "no fields to update"),
        ({"model_id": "x"}, "no fields to update"),
        ({"display_name": "x" * 129}, "invalid display name"),
        ({"display_name": "a\u200b"}, "invalid display name"),
        ({"context_length": 255}, "invalid context length"),
        ({"context_length": 2_000_001}, "invalid context length"),
        ({"max_output_tokens": 0}, "invalid max output_tokens"),
        ({"max_output_tokens": 128_001}, "invalid max output_tokens"),
        ({"input_price_per_million": -0.1}, "invalid input price"),
        ({"input_price_per_million_cache_hit": 1000.1}, "invalid cached input price"),
        ({"output_price_per_million": 1e300}, "invalid output price"),
        ({"search_price_per_thousand": -1}, "invalid search price"),
        ({"context_length": "4096"}, "invalid request body"),
        ({"context_length": 4096.0}, "invalid request body"),
        ({"enabled": "yes"}, "invalid request body"),
        ({"enabled": None}, "invalid request body"),
        ({"input_price_per_million": "1"}, "invalid request body"),
        ({"display_name": None}, "invalid request body"),
        ([], "invalid request body"),
    ],
)
def test_an_edit_is_checked(api: Api, owner: Provider, change: Any, problem: str):
    row = model(owner, "m")
    refused = api.patch(f"/models/{row.pk}", change)
    assert (refused.status_code, text(refused)) == (400, problem)


def test_an_edit_needs_a_model(api: Api):
    refused = api.patch("/models/x", {"enabled": True})
    assert (refused.status_code, text(refused)) == (400, "invalid model ID")
    refused = api.patch(f"/models/{NOBODY}", {"enabled": True})
    assert (refused.status_code, text(refused)) == (404, "model not found")


def test_an_edit_is_effective_before_the_answer(api: Api, owner: Provider, told: list[events.Event]):
    row = model(owner, "m")
    told.clear()
    edited = api.patch(
        f"/models/{row.pk}",
        {"display_name": " Mine ", "context_length": 256, "max_output_tokens": 1, "input_price_per_million": 0},
    ).json()
    assert (edited["display_name"], edited["context_length"], edited["max_output_tokens"]) == ("Mine", 256, 1)
    assert (edited["input_price_per_million"], edited["price_customized"]) == (0.0, True)
    assert cache.SNAPSHOT.current.by_pair[str(owner.pk), "m"].context_length == 256
    assert [(e.type, e.metadata["kind"], e.metadata["id"]) for e in told] == [("config.changed", "model", str(row.pk))]
    row.refresh_from_db()
    assert row.display_name_customized
    api.patch(f"/models/{row.pk}", {"display_name": ""})
    row.refresh_from_db()
    assert (row.display_name, row.display_name_customized) == ("", False)


def test_unpinning_a_price_wins_over_prices_of_the_same_edit(api: Api, owner: Provider):
    """providers 41"""
    row = model(owner, "m", price_customized=True, input_price_per_million=2.5, output_price_per_million=1.0)
    pinned = api.patch(f"/models/{row.pk}", {"price_customized": True}).json()
    assert (pinned["input_price_per_million"], pinned["price_customized"]) == (2.5, True)
    edited = api.patch(f"/models/{row.pk}", {"price_customized": False, "input_price_per_million": 1}).json()
    assert edited["price_customized"] is False
    assert {edited[name] for name in edited if "price_per" in name} == {None}


def test_what_a_search_costs_is_a_price_like_the_others(api: Api, owner: Provider):
    row = model(owner, "rerank-v3.5")
    edited = api.patch(f"/models/{row.pk}", {"search_price_per_thousand": 2}).json()
    assert (edited["search_price_per_thousand"], edited["price_customized"]) == (2.0, True)
    assert cache.SNAPSHOT.current.by_pair[str(owner.pk), "rerank-v3.5"].search_price_per_thousand == 2.0
    edited = api.patch(f"/models/{row.pk}", {"price_customized": False}).json()
    assert edited["search_price_per_thousand"] is None


def test_the_operator_switches_a_model_and_the_stamps_follow(api: Api, owner: Provider):
    row = model(
        owner, "m", enabled=False, auto_retired_at="2026-01-01T00:00:00Z", discovery_dismissed_at="2026-01-01T00:00:00Z"
    )
    assert api.patch(f"/models/{row.pk}", {"enabled": True}).json()["enabled"] is True
    row.refresh_from_db()
    assert row.manually_enabled_at and not row.disabled_manually
    assert row.auto_retired_at is None and row.discovery_dismissed_at is None
    assert api.patch(f"/models/{row.pk}", {"enabled": False}).json()["disabled_manually"] is True
    row.refresh_from_db()
    assert row.manually_enabled_at is None and not row.enabled


# ---------------------------------------------------------------- delete


def test_a_deleted_model_leaves_the_groups(api: Api, owner: Provider, behind: Ports):
    row = model(owner, "m")
    assert api.delete(f"/models/{row.pk}").status_code == 204
    assert behind.calls[-2:] == [("sync_models", ["m"]), ("prune_models", [str(row.pk)])]
    behind.calls.clear()
    assert api.delete(f"/models/{row.pk}").status_code == 204
    assert behind.calls == []
    refused = api.delete("/models/x")
    assert (refused.status_code, text(refused)) == (400, "invalid model ID")


def test_many_models_are_deleted_with_one_sync(api: Api, owner: Provider, behind: Ports, told: list[events.Event]):
    rows = [model(owner, f"m{number % 3}-{number}") for number in range(7)]
    told.clear()
    ids = [str(row.pk) for row in rows[:5]]
    answer_ = api.post("/models/bulk-delete", {"ids": [*ids, NOBODY]}).json()
    assert answer_ == {"requested": 6, "deleted": 5}
    assert Model.objects.count() == 2 == len(cache.SNAPSHOT.current.models)
    assert behind.named("sync_models") == [sorted(row.model_id for row in rows[:5])]
    assert [sorted(pruned) for pruned in behind.named("prune_models")] == [sorted(ids)]
    assert [(e.metadata["id"], e.metadata["action"]) for e in told] == [("", "deleted")]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"ids": []}, "ids must not be empty"),
        ({"ids": ["x"]}, "invalid model ID: x"),
        ({"ids": [NOBODY] * 10_001}, "too many ids (max 10000)"),
        ({"ids": [5]}, "invalid request body"),
        ({"ids": "x"}, "invalid request body"),
        ({}, "invalid request body"),
    ],
)
def test_a_bulk_delete_is_checked(api: Api, body: Any, problem: str):
    refused = api.post("/models/bulk-delete", body)
    assert (refused.status_code, text(refused)) == (400, problem)


def test_a_failing_group_sync_does_not_fail_the_delete(api: Api, owner: Provider, behind: Ports):
    row = model(owner, "m")
    behind.broken = True
    assert api.delete(f"/models/{row.pk}").status_code == 204
    assert [name for name, _ in behind.calls[-2:]] == ["sync_models", "prune_models"]


# ---------------------------------------------------------------- test


@pytest.fixture
def upstream() -> Any:
    with FakeProvider() as made:
        yield made


def run_test(api: Api, upstream: FakeProvider, path: str = "", **more: Any) -> tuple[Any, Any]:
    made = api.provider(upstream, api_key="sk-abcdef12")
    row = Model.objects.create(provider_id=made["id"], model_id="vendor/m", **more)
    return api.post(f"/models/{row.pk}/test{path}"), row


def test_a_model_is_tested_with_one_small_request(api: Api, upstream: FakeProvider, behind: Ports):
    upstream.script(answer("Hi", usage={"prompt_tokens": 11, "completion_tokens": 2}))
    response, row = run_test(api, upstream)
    body = response.json()
    assert (body["success"], body["streaming"], body["response"]) == (True, False, "Hi") and "error" not in body
    assert 0 <= body["response_header_ms"] <= body["duration_ms"]
    (call,) = upstream.calls
    assert call.json == {
        "model": "vendor/m",
        "messages": [{"role": "user", "content": "Respond only with `Hi`"}],
        "max_tokens": 10,
        "stream": False,
    }
    assert call.headers["authorization"] == "Bearer sk-abcdef12"
    (run,) = behind.named("test")
    assert (run.virtual_key_name, run.state, run.status_code, run.model_id) == (
        "internal",
        "completed",
        200,
        "vendor/m",
    )
    assert (run.provider_id, run.tokens_prompt, run.tokens_completion) == (str(row.provider_id), 11, 2)


EMBEDS = {"modality": "embedding", "output_modalities": ["embedding"]}


def test_an_embedding_model_is_tested_with_one_embedding(api: Api, upstream: FakeProvider, behind: Ports):
    response, _ = run_test(api, upstream, **EMBEDS)
    body = response.json()
    assert (body["success"], body["response"]) == (True, "a vector of 3 numbers") and "error" not in body
    (call,) = upstream.calls
    assert (call.path, call.json) == ("/v1/embeddings", {"model": "vendor/m", "input": "Hi"})
    (run,) = behind.named("test")
    assert (run.endpoint_type, run.state, run.tokens_prompt, run.tokens_completion) == ("embeddings", "completed", 4, 0)


@pytest.mark.parametrize(
    ("answered", "success"),
    [
        (reply(200, {"data": []}), True),
        (reply(200, {"data": [5]}), True),
        (reply(200, {"data": [{"embedding": "AAAA"}]}), True),
        (reply(200, b"nonsense"), False),
        (status(404), False),
    ],
    ids=range(5),
)
def test_odd_answers_to_an_embedding_test(api: Api, upstream: FakeProvider, answered: Any, success: bool):
    upstream.script(answered)
    body = run_test(api, upstream, **EMBEDS)[0].json()
    assert (body["success"], body["response"]) == (success, "")
    assert ("error" in body) != success


def test_a_test_is_spoken_and_read_like_traffic(api: Api, upstream: FakeProvider, monkeypatch: pytest.MonkeyPatch):
    asked: list[Any] = []

    def build(provider: ProviderRow, model_id: str, outputs: tuple[str, ...], *rest: Any) -> ports.ChatCall:
        asked.append((model_id, provider.kind.type, outputs))
        call = ports.plain_chat(provider, model_id, outputs, *rest)
        return call._replace(read=lambda payload: payload.replace(b"Hello", b"translated"))

    monkeypatch.setattr(ports, "build_chat", build)
    body = run_test(api, upstream, output_modalities=["text"])[0].json()
    assert asked == [("vendor/m", "custom", ("text",))] and body["response"] == "translated"


def test_what_is_no_answer_in_its_dialect_is_no_success(
    api: Api, upstream: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    def build(*given: Any) -> ports.ChatCall:
        def read(payload: bytes) -> bytes:
            raise ports.NoAnswer("the answer has no candidates")

        return ports.plain_chat(*given)._replace(read=read)

    monkeypatch.setattr(ports, "build_chat", build)
    body = run_test(api, upstream)[0].json()
    assert (body["success"], body["error"]) == (False, "the answer has no candidates")


@pytest.mark.parametrize("empty", [empty_choices(), answer(""), answer(None)])
def test_an_empty_answer_is_a_success(api: Api, upstream: FakeProvider, empty: Any):
    upstream.script(empty)
    body = run_test(api, upstream)[0].json()
    assert (body["success"], body["response"]) == (True, "")


def test_an_upstream_error_is_shown_without_secrets(api: Api, upstream: FakeProvider, behind: Ports):
    upstream.script(status(401, {"error": {"message": f"key sk-abcdef12 of {NOBODY} is bad"}}))
    body = run_test(api, upstream)[0].json()
    assert body["success"] is False and body["error"].startswith("HTTP 401: ")
    assert "abcdef12" not in body["error"] and NOBODY not in body["error"]
    (run,) = behind.named("test")
    assert (run.state, run.status_code) == ("failed", 401) and "abcdef12" not in run.error
    assert len(upstream.calls) == 1, "a test is not repeated"


@pytest.mark.parametrize("broken", [reset(), silence()])
def test_no_answer_is_a_502_in_the_log(
    api: Api, upstream: FakeProvider, behind: Ports, monkeypatch: pytest.MonkeyPatch, broken: Any
):
    monkeypatch.setattr("providers.model_test.SECONDS", 0.3)
    upstream.script(broken)
    response, _ = run_test(api, upstream)
    assert response.status_code == 200 and response.json()["success"] is False and response.json()["error"]
    assert [(run.state, run.status_code) for run in behind.named("test")] == [("failed", 502)]


def test_half_an_answer_is_no_success(api: Api, upstream: FakeProvider):
    upstream.script(half_json())
    assert run_test(api, upstream)[0].json()["success"] is False


def test_a_redirected_test_is_not_followed(api: Api, upstream: FakeProvider):
    from tests.upstream.server import redirect

    upstream.script(redirect(upstream.url + "/elsewhere"))
    body = run_test(api, upstream)[0].json()
    assert body["success"] is False and body["error"].startswith("HTTP 302")
    assert len(upstream.requests) == 1


def test_a_disabled_model_is_tested_only_on_demand(api: Api, upstream: FakeProvider):
    response, row = run_test(api, upstream, enabled=False)
    assert (response.status_code, text(response)) == (400, "model is disabled")
    assert api.post(f"/models/{row.pk}/test?allow_disabled=true").json()["success"] is True
    for path, code, problem in (("x", 400, "invalid model ID"), (NOBODY, 404, "model not found")):
        refused = api.post(f"/models/{path}/test")
        assert (refused.status_code, text(refused)) == (code, problem)


def test_a_key_that_can_not_be_read_fails_the_test(api: Api, upstream: FakeProvider):
    _, row = run_test(api, upstream)
    Provider.objects.update(key_salt=b"s" * 32)
    refused = api.post(f"/models/{row.pk}/test")
    assert (refused.status_code, text(refused)) == (500, "failed to decrypt API key")
