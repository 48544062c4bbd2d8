"""How each type lists its models, against servers that answer as its vendor does."""

import logging
from typing import Any

import pytest

from providers import control
from providers.discovery import catalog, listing
from providers.discovery.listing import Fetched
from providers.kinds import registry
from providers.kinds.base import Listed
from tests.providers import vendors
from tests.upstream.server import Behaviour, FakeProvider, hang_up, reply, status

KEY = "AIza-very-secret-key-0001"
RETIRED = catalog.ids("google-retired")
CANDIDATES = catalog.ids("vertex-candidates")
FREE = [row.model_id for row in catalog.load("opencode-zen").rows if row.free]


def fetch(kind: str, base_url: str, key: str = KEY) -> Fetched:
    made = registry.get(kind)
    return control.LOOP.run(listing.fetch("P", made, made.normalise_base_url(base_url), key, seconds=20.0, attempts=1))


def models(kind: str, base_url: str, key: str = KEY) -> dict[str, Listed]:
    fetched = fetch(kind, base_url, key)
    assert not fetched.error, fetched.error
    return {model.model_id: model for model in fetched.models}


def on(model: Listed) -> set[str]:
    return {flag for flag, value in model.capabilities.items() if value}


# ---------------------------------------------------------------- Anthropic


@pytest.mark.parametrize("kind", ["anthropic", "anthropic-messages"])
def test_anthropic_is_read_page_by_page(kind: str):
    old = {"type": "model", "id": "claude-2", "display_name": "Claude 2", "created_at": "2023-07-11T00:00:00Z"}
    first = {"data": [vendors.CLAUDE], "has_more": True, "first_id": "x", "last_id": "claude/4 5"}
    pages = {
        "limit=100": first,
        "limit=100&after_id=claude%2F4%205": {"data": [old], "has_more": False, "last_id": "claude-2"},
    }
    with FakeProvider() as upstream:
        upstream.route("GET", "/v1/models", vendors.by_query(pages))
        found = models(kind, upstream.origin)
        headers = [request.headers for request in upstream.requests]
    assert list(found) == ["claude-sonnet-4-5-20250929", "claude-2"]
    new = found["claude-sonnet-4-5-20250929"]
    assert (new.display_name, new.owned_by) == ("Claude Sonnet 4.5", "anthropic")
    assert (new.context_length, new.max_output_tokens) == (200000, 64000)
    assert (new.input_modalities, new.output_modalities) == (("text", "image", "pdf"), ("text",))
    assert on(new) == {"streaming", "tool_calling", "vision", "pdf_upload", "structured_output", "reasoning"}
    assert on(found["claude-2"]) == {"streaming", "tool_calling"} and found["claude-2"].context_length is None
    assert {h["x-api-key"] for h in headers} == {KEY} and {h["anthropic-version"] for h in headers} == {"2023-06-01"}
    assert not any("authorization" in h for h in headers)


def test_a_page_that_fails_fails_the_listing_and_an_empty_page_ends_it():
    first = {"data": [vendors.CLAUDE], "has_more": True, "last_id": "a"}
    with FakeProvider() as upstream:
        upstream.route("GET", "/v1/models", vendors.by_query({"limit=100": first}))
        assert fetch("anthropic", upstream.origin).error.startswith("HTTP 400")
        empty = {"limit=100": first, "limit=100&after_id=a": {"data": [], "has_more": True}}
        upstream.route("GET", "/v1/models", vendors.by_query(empty))
        assert len(models("anthropic", upstream.origin)) == 1


def test_a_listing_without_an_end_is_left():
    endless = reply(200, {"data": [vendors.CLAUDE], "has_more": True, "last_id": "a"})
    with FakeProvider() as upstream:
        upstream.route("GET", "/v1/models", endless)
        assert len(models("anthropic", upstream.origin)) == 1
        assert len(upstream.requests) == 100


# ---------------------------------------------------------------- Google


def gemini(name: str, **more: Any) -> dict[str, Any]:
    return {**vendors.GEMINI, "name": f"models/{name}", "thinking": False, **more}


def test_google_is_read_page_by_page_with_the_key_in_a_header(caplog: pytest.LogCaptureFixture):
    """providers 50"""
    caplog.set_level(logging.DEBUG)
    pages = {
        "pageSize=1000": {"models": [vendors.GEMINI], "nextPageToken": "a/b="},
        "pageSize=1000&pageToken=a%2Fb%3D": {
            "models": [
                gemini("gemini-embedding-001", supportedGenerationMethods=["embedContent"]),
                gemini("gemini-3-pro-image"),
                gemini("gemini-2.5-flash-preview-tts"),
                gemini("veo-3", supportedGenerationMethods=["predictLongRunning"]),
                *(gemini(name) for name in sorted(RETIRED)),
            ]
        },
    }
    with FakeProvider() as upstream:
        upstream.route("GET", "/v1beta/models", vendors.by_query(pages))
        found = models("google", upstream.origin + "/v1beta/openai")
        assert {request.headers["x-goog-api-key"] for request in upstream.requests} == {KEY}
        assert not any("authorization" in request.headers for request in upstream.requests)
        assert not any(KEY in request.target for request in upstream.requests)
        upstream.route("GET", "/v1beta/models", reply(400, {"error": {"message": f"API key {KEY} not valid"}}))
        failed = fetch("google", upstream.origin + "/v1beta/openai")
    assert failed.error.startswith("HTTP 400") and KEY not in failed.error and KEY not in caplog.text
    assert list(found) == [
        "gemini-3-flash",
        "gemini-embedding-001",
        "gemini-3-pro-image",
        "gemini-2.5-flash-preview-tts",
    ]
    flash = found["gemini-3-flash"]
    assert (flash.display_name, flash.description, flash.owned_by) == (
        "Gemini 3 Flash",
        "Fast and versatile.",
        "google",
    )
    assert (flash.context_length, flash.max_output_tokens) == (1048576, 65536)
    assert on(flash) == {"streaming", "tool_calling", "structured_output", "vision", "reasoning"}
    assert (found["gemini-embedding-001"].modality, on(found["gemini-embedding-001"])) == ("embedding", set())
    image = found["gemini-3-pro-image"]
    assert (image.modality, image.output_modalities) == ("chat", ("text", "image"))
    speech = found["gemini-2.5-flash-preview-tts"]
    assert speech.output_modalities == ("text", "audio") and "tool_calling" not in on(speech)


def test_vertex_keeps_the_candidates_that_answer():
    """providers 49"""
    kept, gone, down = CANDIDATES[0], CANDIDATES[1], CANDIDATES[2]
    path = "/v1/publishers/google/models/{}:countTokens"
    with FakeProvider() as upstream:
        for model in (kept, down):
            upstream.route("POST", path.format(model), reply(200, {"totalTokens": 1}))
        upstream.route("POST", path.format(gone), status(404))
        upstream.route("POST", path.format(down), status(503))
        found = models("vertex-express", upstream.origin)
        assert len(upstream.requests) == len(CANDIDATES)
        assert {request.headers["x-goog-api-key"] for request in upstream.requests} == {KEY}
        assert upstream.requests[0].json["contents"][0]["role"] == "user"
    assert list(found) == [kept] and found[kept].owned_by == "google" and "streaming" in on(found[kept])


@pytest.mark.parametrize(("answer", "error"), [(status(401), "HTTP 401"), (status(403), "HTTP 403"), (hang_up(), "")])
def test_one_candidate_that_is_refused_fails_the_scan_of_vertex(answer: Behaviour, error: str):
    """providers 49"""
    path = "/v1/publishers/google/models/{}:countTokens"
    with FakeProvider() as upstream:
        for model in CANDIDATES:
            upstream.route("POST", path.format(model), reply(200, {"totalTokens": 1}))
        upstream.route("POST", path.format(CANDIDATES[-1]), answer)
        fetched = fetch("vertex-express", upstream.origin)
    assert fetched.error.startswith(error) and fetched.error and not fetched.models


# ---------------------------------------------------------------- Azure


def test_azure_lists_the_deployments_of_a_project():
    """part of providers 47"""
    with FakeProvider() as upstream:
        elsewhere = {
            "value": [{**vendors.DEPLOYMENT, "name": "second"}],
            "nextLink": "https://evil.example/deployments",
        }
        untyped = {"name": "prod-vec", "modelName": "text-embedding-3-small", "modelPublisher": "OpenAI"}
        pages = {
            "api-version=v1": {
                "value": [vendors.DEPLOYMENT, {"name": "index", "type": "SearchIndex"}, untyped],
                "nextLink": f"{upstream.origin}/api/projects/p/deployments?api-version=v1&skip=3",
            },
            "api-version=v1&skip=3": elsewhere,
        }
        upstream.route("GET", "/api/projects/p/deployments", vendors.by_query(pages))
        found = models("azure", upstream.origin + "/api/projects/p")
        assert {request.headers["authorization"] for request in upstream.requests} == {f"Bearer {KEY}"}
        assert len(upstream.requests) == 2
    assert list(found) == ["my-fast", "prod-vec", "second"]
    fast = found["my-fast"]
    assert (fast.name, fast.display_name, fast.owned_by) == ("gpt-4.1-mini", "my-fast", "OpenAI")
    assert (fast.modality, found["prod-vec"].modality) == ("chat", "embedding")


@pytest.mark.parametrize("path", ["", "/openai/v1", "/openai/v1/"])
def test_azure_lists_the_deployments_of_a_resource(path: str):
    data = [
        {"id": "my-fast", "model": "gpt-4.1-mini", "status": "succeeded", "object": "deployment"},
        {"id": "later", "model": "gpt-4.1", "status": "running"},
        {"id": "plain", "model": "gpt-4.1"},
    ]
    with FakeProvider() as upstream:
        answer = vendors.by_query({"api-version=2023-03-15-preview": {"data": data}})
        upstream.route("GET", "/openai/deployments", answer)
        found = models("azure", upstream.origin + path)
    assert {model.model_id: model.name for model in found.values()} == {"my-fast": "gpt-4.1-mini", "plain": "gpt-4.1"}


def test_a_resource_without_deployments_lists_nothing_and_says_so(caplog: pytest.LogCaptureFixture):
    with FakeProvider() as upstream:
        upstream.route("GET", "/openai/deployments", reply(200, {"data": []}))
        assert models("azure", upstream.origin) == {}
    assert [record.message for record in caplog.records] == ["discovery: no model is deployed"]


# ---------------------------------------------------------------- Cohere


def test_cohere_lists_chat_then_rerank():
    old = {**vendors.COMMAND, "name": "command-light", "is_deprecated": True}
    seeing = {"name": "command-a-vision", "context_length": 128000.0, "features": ["vision", "reasoning"]}
    rerank = {"name": "rerank-v3.5", "endpoints": ["rerank"], "context_length": 4096, "features": None}
    pages = {
        "endpoint=chat&page_size=100": {"models": [vendors.COMMAND, old], "next_page_token": "p=2"},
        "endpoint=chat&page_size=100&page_token=p%3D2": {"models": [seeing]},
        "endpoint=rerank&page_size=100": {"models": [rerank], "next_page_token": ""},
    }
    with FakeProvider() as upstream:
        upstream.route("GET", "/v1/models", vendors.by_query(pages))
        found = models("cohere", upstream.origin + "/compatibility/v1")
        del pages["endpoint=rerank&page_size=100"]
        assert list(models("cohere", upstream.origin + "/compatibility/v1")) == [
            "command-a-03-2025",
            "command-a-vision",
        ]
        assert {request.headers["authorization"] for request in upstream.requests} == {f"Bearer {KEY}"}
    assert list(found) == ["command-a-03-2025", "command-a-vision", "rerank-v3.5"]
    command = found["command-a-03-2025"]
    assert (command.owned_by, command.context_length, command.modality) == ("cohere", 256000, "chat")
    assert on(command) == {"streaming", "tool_calling", "structured_output"}
    assert on(found["command-a-vision"]) == {"streaming", "reasoning", "vision"}
    ranker = found["rerank-v3.5"]
    assert (ranker.modality, ranker.output_modalities) == ("rerank", ("rerank",))
    assert ranker.input_price_per_million is None and not on(ranker)


# ---------------------------------------------------------------- xAI


def test_xai_lists_language_models_with_prices_and_images():
    free = {**vendors.GROK, "id": "grok-code", "input_modalities": ["text"], "prompt_text_token_price": 0}
    with FakeProvider() as upstream:
        languages = {"/v1/language-models": {"models": [vendors.GROK, free]}}
        vendors.routes(upstream, **languages, **{"/v1/image-generation-models": {"models": [vendors.GROK_IMAGE]}})
        found = models("xai", upstream.url)
    assert list(found) == ["grok-4-0709", "grok-code", "grok-2-image-1212", *catalog.rows("xai")]
    grok = found["grok-4-0709"]
    assert (grok.input_price_per_million, grok.output_price_per_million) == (3.0, 15.0)
    assert grok.input_price_per_million_cache_hit == 0.75
    assert on(grok) == {"streaming", "tool_calling", "structured_output", "vision"}
    assert found["grok-code"].input_price_per_million is None and "vision" not in on(found["grok-code"])
    image = found["grok-2-image-1212"]
    assert (image.modality, image.params) == ("image", {"image_price": 7})


@pytest.mark.parametrize("broken", [reply(200, {"models": []}), status(404), status(500)])
def test_xai_falls_back_to_the_plain_listing(broken: Behaviour):
    with FakeProvider(models=["grok-3"]) as upstream:
        upstream.route("GET", "/v1/language-models", broken)
        found = models("xai", upstream.url)
    assert list(found) == ["grok-3", *catalog.rows("xai")] and found["grok-3"].owned_by == "fake"


@pytest.mark.parametrize("code", [403, 429])
@pytest.mark.parametrize("first", [None, "broken"])
def test_the_catalog_stands_in_where_the_key_may_not_list_at_xai(code: int, first: str | None):
    with FakeProvider(models=["grok-3"]) as upstream:
        upstream.route("GET", "/v1/language-models", status(500 if first else code))
        if first:
            upstream.route("GET", "/v1/models", status(code))
        fetched = fetch("xai", upstream.url)
    assert fetched.error == "" and [model.model_id for model in fetched.models] == list(catalog.rows("xai"))
    assert {model.live for model in fetched.models} <= {frozenset()}


def test_two_empty_listings_of_xai_are_an_empty_one():
    with FakeProvider(models=[]) as upstream:
        upstream.route("GET", "/v1/language-models", reply(200, {"models": []}))
        assert models("xai", upstream.url) == {}
        assert len(upstream.requests) == 2


# ---------------------------------------------------------------- KoboldCPP


def kobold(upstream: FakeProvider, **version: Any) -> None:
    vendors.routes(upstream, **{"/api/extra/version": {"result": "KoboldCpp", "version": "1.99", **version}})


def test_koboldcpp_tells_its_one_model():
    with FakeProvider(models=["koboldcpp/Qwen3-8B", "other"], face="koboldcpp") as upstream:
        kobold(upstream, vision=True, audio=True, transcribe=True, embeddings=True)
        vendors.routes(upstream, **{"/api/extra/true_max_context_length": {"value": 8192}})
        found = models("koboldcpp", upstream.origin, "")
        assert not any("authorization" in request.headers for request in upstream.requests)
        vendors.routes(upstream, **{"/api/extra/true_max_context_length": {"value": 0}})
        assert models("koboldcpp", upstream.url, "")["koboldcpp/Qwen3-8B"].context_length is None
        upstream.route("GET", "/api/extra/true_max_context_length", status(404))
        assert models("koboldcpp", upstream.url, "")["koboldcpp/Qwen3-8B"].context_length is None
    (model,) = found.values()
    assert (model.model_id, model.owned_by, model.context_length) == ("koboldcpp/Qwen3-8B", "koboldcpp", 8192)
    assert model.input_modalities == ("text", "image", "audio") and model.modality == "chat"
    assert on(model) == {"streaming", "vision", "audio_input"}


def test_koboldcpp_without_a_model_lists_nothing_and_another_server_is_refused():
    with FakeProvider(models=[], face="koboldcpp") as upstream:
        assert models("koboldcpp", upstream.url, "") == {}
        kobold(upstream, result="Other")
        assert "no KoboldCPP" in fetch("koboldcpp", upstream.url, "").error


# ---------------------------------------------------------------- NanoGPT

IMAGES = {
    "models": {
        "image": {
            "z-image": {"name": "Z", "cost": {"1024x1024": 0.02}, "subscription": {"included": True}},
            "a-edit": {"name": "A", "cost": {"auto": 0.1}, "iconLabel": "Image-to-Image"},
            "both": {"iconLabel": "both", "subscription": {"included": True, "note": "100 a day"}},
            "odd": 5,
        }
    },
    "meta": {"count": 4},
}


def nano(upstream: FakeProvider, base: str) -> None:
    listed = {"object": "list", "data": [vendors.NANO, {"id": "bare", "object": "model"}]}
    upstream.route("GET", base + "/models", vendors.by_query({"detailed=true": listed}))
    vendors.routes(upstream, **{"/api/models/image": IMAGES, base + "/usage": {"active": True}})


def test_nanogpt_has_one_rich_listing_and_the_images_of_the_subscription():
    with FakeProvider() as upstream:
        nano(upstream, "/api/subscription/v1")
        fetched = fetch("nanogpt", upstream.origin + "/api/subscription/v1")
        upstream.route("GET", "/api/models/image", status(404))
        alone = models("nanogpt", upstream.origin + "/api/subscription/v1")
        upstream.route("GET", "/api/subscription/v1/usage", status(401))
        refused = fetch("nanogpt", upstream.origin + "/api/subscription/v1")
    assert [model.model_id for model in fetched.models] == ["z-ai/glm-4.6", "bare", "both", "z-image"]
    assert list(alone) == ["z-ai/glm-4.6", "bare"]
    assert (fetched.access_problem, refused.access_problem[:8]) == ("", "HTTP 401") and not refused.error
    glm, bare, both, image = fetched.models
    assert (glm.display_name, glm.owned_by, glm.description) == ("GLM 4.6", "z-ai", "A coding model.")
    assert (glm.context_length, glm.max_output_tokens) == (200000, 65535)
    assert (glm.input_price_per_million, glm.output_price_per_million) == (0.4, 1.5)
    assert on(glm) == {"streaming", "reasoning", "tool_calling", "parallel_tool_calls"}
    assert glm.params == {"subscription_included": True, "subscription_note": "Included in the subscription"}
    assert bare.input_price_per_million is None and bare.params == {}
    assert (both.modality, both.input_modalities) == ("image", ("text", "image"))
    assert both.params == {"subscription_included": True, "subscription_note": "100 a day"}
    assert (image.input_modalities, image.params["image_cost"]) == (("text",), {"1024x1024": 0.02})


def test_nanogpt_without_the_subscription_lists_every_image_model():
    with FakeProvider() as upstream:
        nano(upstream, "/api/v1")
        found = models("nanogpt", upstream.origin + "/api/v1")
    assert list(found) == ["z-ai/glm-4.6", "bare", "a-edit", "both", "z-image"]
    assert found["a-edit"].input_modalities == ("text", "image")


# ---------------------------------------------------------------- OpenCode


def test_opencode_zen_without_a_key_offers_the_free_models_it_lists():
    """part of providers 49. OpenCode Zen."""
    free, *unlisted = FREE
    with FakeProvider(models=["claude-opus", free, "new-free"]) as upstream:
        keyless = models("opencode-zen", upstream.url, "")
        assert not any("authorization" in request.headers for request in upstream.requests)
        keyed = models("opencode-zen", upstream.url)
    assert list(keyless) == [free] and list(keyed) == ["claude-opus", free, "new-free", *unlisted]
    assert (keyed[free].input_price_per_million, keyed[free].output_price_per_million) == (0.0, 0.0)
    assert keyed["claude-opus"].input_price_per_million is None


def entitlement(message: str) -> Behaviour:
    return reply(403, {"type": "error", "error": {"type": message, "message": "no"}})


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (reply(200, {"usage": {}}), ""),
        (entitlement("EntitlementError"), ""),
        (entitlement("AuthError"), "HTTP 403"),
        (status(401), "HTTP 401"),
        (status(500), ""),
    ],
)
def test_opencode_go_is_asked_whether_the_key_works(answer: Behaviour, problem: str):
    with FakeProvider(models=["kimi-k2.5"]) as upstream:
        upstream.route("GET", "/v1/usage", answer)
        fetched = fetch("opencode-go", upstream.url)
    assert [model.model_id for model in fetched.models] == ["kimi-k2.5"]
    assert (fetched.access or "")[: len("HTTP 403")] == problem


@pytest.mark.parametrize(("code", "error"), [(404, ""), (500, "HTTP 500"), (401, "HTTP 401")])
def test_opencode_go_without_a_listing_has_no_models(code: int, error: str):
    with FakeProvider() as upstream:
        upstream.route("GET", "/v1/models", status(code))
        fetched = fetch("opencode-go", upstream.url)
    assert fetched.error[:8] == error and not fetched.models


# ---------------------------------------------------------------- the plainer ones


def test_ollama_cloud_lists_as_ollama_does_behind_a_key():
    with FakeProvider(models=["gpt-oss:120b"], face="ollama") as upstream:
        account = vendors.guarded("authorization", f"Bearer {KEY}", reply(200, {"plan": "pro"}))
        upstream.route("POST", "/api/me", account)
        fetched = fetch("ollama-cloud", upstream.url)
        wrong = fetch("ollama-cloud", upstream.url, "sk-of-somebody-else")
    (model,) = fetched.models
    assert (model.context_length, model.owned_by) == (131072, "llama") and "tool_calling" in on(model)
    assert fetched.access_problem == "" and wrong.access_problem.startswith("HTTP 401") and not wrong.error


def test_kimi_says_what_its_models_can():
    with FakeProvider(models=[vendors.KIMI, {"id": "plain"}]) as upstream:
        found = models("kimi-code", upstream.origin + "/coding/v1")
    kimi = found["kimi-for-coding"]
    assert (kimi.display_name, kimi.owned_by, kimi.context_length) == ("Kimi For Coding", "moonshotai", 262144)
    assert on(kimi) == {"streaming", "tool_calling", "reasoning", "vision"}
    assert kimi.input_modalities == ("text", "image")
    assert on(found["plain"]) == {"streaming", "tool_calling"} and found["plain"].owned_by == "moonshotai"


def test_bedrock_leaves_out_what_is_not_served_on_chat_completions():
    listed = ["openai.gpt-oss-120b", "anthropic.claude-3", "us.anthropic.claude-4", "global.anthropic.claude-5"]
    others = ["us.amazon.nova", "my.anthropic.like", "eu.anthropic.claude", "apac.anthropic.claude"]
    with FakeProvider(models=[*listed, *others]) as upstream:
        assert list(models("bedrock", upstream.url)) == ["openai.gpt-oss-120b", "us.amazon.nova", "my.anthropic.like"]


def test_zai_owns_its_models_as_zhipu_and_a_failing_listing_aborts():
    data = [{"id": "glm-4.6"}, {"id": "glm-5", "owned_by": "z-ai"}, {"id": "x", "owned_by": "o"}]
    with FakeProvider(models=data) as upstream:
        found = models("zai-coding", upstream.origin + "/api/coding/paas/v4")
        upstream.route("GET", "/v1/models", status(404))
        assert fetch("zai-coding", upstream.url).error.startswith("HTTP 404")
    owners = {model.model_id: model.owned_by for model in found.values()}
    assert owners == {**dict.fromkeys(catalog.rows("zai"), "zhipu"), "glm-4.6": "zhipu", "glm-5": "zhipu", "x": "o"}


@pytest.mark.parametrize("kind", ["neuralwatt", "minimax"])
def test_a_plain_listing_is_read_as_it_is(kind: str):
    with FakeProvider(models=["m"]) as upstream:
        (model,) = models(kind, upstream.url).values()
    assert (model.model_id, model.owned_by, on(model)) == ("m", "fake", {"streaming"})
