"""What each provider type is, as tables: addresses, headers, members of bodies, dialects."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from providers.addresses import built_in
from providers.kinds import derive, registry
from providers.kinds.base import Kind
from providers.kinds.xai import aspect_ratio
from providers.quota import windows
from proxy.dialects import chat

CHAT = "/chat/completions"
FOUNDRY = "https://r.services.ai.azure.com"
NANO = "https://nano-gpt.com/api"
BEARER = [(b"authorization", b"Bearer sk-1")]
GOOG = [(b"x-goog-api-key", b"sk-1")]
ANTHROPIC = [(b"x-api-key", b"sk-1"), (b"anthropic-version", b"2023-06-01")]
ALL = frozenset(registry.KINDS)


def kinds(holds: Callable[[Kind], Any]) -> set[str]:
    return {kind.type for kind in registry.KINDS.values() if holds(kind)}


def raw(body: str) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(body.encode(), type=dict[str, msgspec.Raw])


# ---------------------------------------------------------------- the table of types


def test_every_type_of_the_table_is_there_once():
    assert len(ALL) == 23
    labels = [kind.label for kind in registry.KINDS.values()]
    assert all(labels) and len(set(labels)) == 23
    assert all(name == kind.type for name, kind in registry.KINDS.items())


def test_an_address_is_preset_or_hinted():
    for kind in registry.KINDS.values():
        assert bool(kind.default_base_url) != bool(kind.base_url_hint) or kind.type == "custom"
        assert kind.default_base_url == "" or kind.default_base_url.startswith("https://")
    typed = {"custom", "anthropic-messages", "ollama", "lmstudio", "koboldcpp", "azure"}
    assert kinds(lambda kind: not kind.default_base_url) == typed


def test_the_blanks_of_an_address_are_those_a_form_asks_for():
    """Section 3.1: what a region, a resource or a project makes of the usual address."""
    assert kinds(lambda kind: kind.address_form) == {"azure", "bedrock"}
    for kind in registry.KINDS.values():
        names = [blank.name for blank in kind.blanks]
        assert re.findall(r"<(\w+)>", kind.address_form) == names
        filled = kind.address_form
        for blank in kind.blanks:
            filled = filled.replace(f"<{blank.name}>", blank.value or f"<{blank.name}>")
        assert filled == (kind.default_base_url or kind.base_url_hint) or not kind.address_form


def test_every_kind_that_keeps_a_reserve_exists_and_names_its_longest_window():
    assert set(windows.RESERVED) <= set(registry.KINDS)
    assert set(windows.RESERVED.values()) == {"weekly", "monthly"}


def test_preset_addresses_need_no_allowance_but_for_a_region():
    hosts = {Kind.host(kind.default_base_url) for kind in registry.KINDS.values() if kind.default_base_url}
    assert {host for host in hosts if not built_in(host)} == {"bedrock-mantle.us-east-1.api.aws"}


def test_who_may_do_without_a_key_and_who_is_probed():
    keyless = {"custom", "ollama", "lmstudio", "koboldcpp", "opencode-zen"}
    assert kinds(lambda kind: kind.keyless_allowed) == keyless
    assert kinds(lambda kind: kind.self_hosted) == {"ollama", "lmstudio", "koboldcpp"}


# ---------------------------------------------------------------- which type an address is


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://my.deepseek.com/x", "deepseek"),
        ("https://notdeepseek.com", "openai"),
        ("https://opencode.ai/zen/go/v1", "opencode-go"),
        ("https://opencode.ai/zen/v1", "opencode-zen"),
        ("https://opencode.ai/docs", "openai"),
        ("http://192.168.1.5:11434", "openai"),
        ("http://localhost:1234/v1", "openai"),
        ("https://us-central1-aiplatform.googleapis.com", "vertex-express"),
        ("https://aiplatform.googleapis.com", "vertex-express"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "google"),
        ("https://storage.googleapis.com", "openai"),
        ("https://api.minimaxi.com/v1", "openai"),
        ("https://api.minimax.io/v1", "minimax"),
        ("https://api.moonshot.ai/v1", "openai"),
        ("https://api.kimi.com/coding/v1", "kimi-code"),
        ("https://eu.api.openai.com/v1", "openai"),
        ("https://OpenRouter.AI./api/v1", "openrouter"),
        ("https://r.openai.azure.com", "azure"),
        ("https://r.services.ai.azure.com/api/projects/p", "azure"),
        ("https://services.ai.azure.com", "openai"),
        ("https://bedrock-mantle.us-east-1.api.aws/v1", "bedrock"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "openai"),
        ("https://bedrock-mantle.evil.example", "openai"),
        ("https://openrouter.ai.evil.net/", "openai"),
        ("https://api.cohere.ai/compatibility/v1", "cohere"),
        ("https://api.cohere.com/v2", "cohere"),
        ("https://nano-gpt.com/api/v1", "nanogpt"),
        ("https://api.nano-gpt.com", "nanogpt"),
        ("https://api.z.ai/api/coding/paas/v4", "zai-coding"),
        ("https://xyz.ai", "openai"),
        ("https://api.x.ai/v1", "xai"),
        ("https://max.ai", "openai"),
        ("https://api.anthropic.com", "anthropic"),
        ("https://ollama.com/v1", "ollama-cloud"),
        ("https://api.neuralwatt.com/v1", "neuralwatt"),
        ("https://[::1", "openai"),
        ("", "openai"),
    ],
)
def test_the_host_names_the_vendor(url: str, found: str):
    """providers 7"""
    assert derive.provider_type(url) == found


def test_every_preset_address_is_recognised_and_a_server_of_ones_own_never():
    for kind in registry.KINDS.values():
        if kind.default_base_url:
            assert derive.provider_type(kind.default_base_url) == kind.type
    own = {"ollama", "lmstudio", "koboldcpp", "anthropic-messages", "custom"}
    assert {rule.type for rule in derive.RULES} == ALL - own - {"openai"}


# ---------------------------------------------------------------- where endpoints are


@pytest.mark.parametrize(
    ("kind", "base", "path", "url"),
    [
        ("custom", "https://h/api/", CHAT, "https://h/api/chat/completions"),
        ("openai", "https://h/v1", "/embeddings", "https://h/v1/embeddings"),
        ("anthropic", "https://api.anthropic.com", CHAT, "https://api.anthropic.com/v1/chat/completions"),
        ("anthropic", "https://h/v1//", "/messages", "https://h/v1/messages"),
        ("anthropic-messages", "https://h/anthropic/", "/messages", "https://h/anthropic/v1/messages"),
        ("anthropic-messages", "https://h/V1", "/messages/count_tokens", "https://h/V1/messages/count_tokens"),
        ("koboldcpp", "http://h:5001/v1", CHAT, "http://h:5001/v1/chat/completions"),
        ("ollama-cloud", "https://ollama.com/v1", CHAT, "https://ollama.com/v1/chat/completions"),
        ("azure", FOUNDRY + "/api/projects/p", CHAT, FOUNDRY + "/openai/v1" + CHAT),
        ("azure", "https://r.openai.azure.com", CHAT, "https://r.openai.azure.com/openai/v1" + CHAT),
        ("azure", "https://r.openai.azure.com/openai/v1/", CHAT, "https://r.openai.azure.com/openai/v1" + CHAT),
        ("azure", "http://h:8443/x?y=1", "/embeddings", "http://h:8443/openai/v1/embeddings"),
        ("cohere", "https://api.cohere.ai/compatibility/v1", CHAT, "https://api.cohere.ai/compatibility/v1" + CHAT),
        ("cohere", "https://api.cohere.ai/compatibility/v1", "/rerank", "https://api.cohere.com/v2/rerank"),
        ("cohere", "https://API.cohere.ai/compatibility/v1/", "/rerank", "https://api.cohere.com/v2/rerank"),
        ("cohere", "https://api.cohere.com/compatibility/v1", "/rerank", "https://api.cohere.com/v2/rerank"),
        ("cohere", "https://api.cohere.com", "/rerank", "https://api.cohere.com/v2/rerank"),
        ("cohere", "https://api.cohere.ai:443/compatibility/v1", "/rerank", "https://api.cohere.ai:443/v2/rerank"),
        (
            "cohere",
            "https://api.cohere.ai.evil.example/compatibility/v1",
            "/rerank",
            "https://api.cohere.ai.evil.example/v2/rerank",
        ),
        ("custom", "https://h/x/compatibility/v1", "/rerank", "https://h/x/v2/rerank"),
        ("openai", "https://h/v1", "/rerank", "https://h/v1/rerank"),
        ("nanogpt", NANO + "/subscription/v1", CHAT, NANO + "/subscription/v1" + CHAT),
        ("nanogpt", NANO + "/subscription/v1", "/images/generations", NANO + "/v1/images/generations"),
        (
            "nanogpt",
            "https://h/subscription/subscription/v1/",
            "/images/edits",
            "https://h/subscription/v1/images/edits",
        ),
        ("nanogpt", NANO + "/v1", "/images/generations", NANO + "/v1/images/generations"),
        ("custom", "https://h/subscription/v1", "/images/generations", "https://h/subscription/v1/images/generations"),
    ],
)  # fmt: skip
def test_where_an_endpoint_is(kind: str, base: str, path: str, url: str):
    """part of providers 47, part of v1-api 93: the three shapes of an Azure base, and Cohere's rerank"""
    assert registry.get(kind).url(base, path) == url


@pytest.mark.parametrize(
    ("kind", "base", "root"),
    [
        ("vertex-express", "https://aiplatform.googleapis.com", "https://aiplatform.googleapis.com/v1/publishers/google"),
        ("vertex-express", "https://h/v1//", "https://h/v1/publishers/google"),
        ("google", "https://h/v1beta/openai", "https://h/v1beta"),
        ("google", "https://h/v1beta/openai/", "https://h/v1beta"),
        ("google", "https://h/v1beta", "https://h/v1beta"),
        ("opencode-zen", "https://opencode.ai/zen/v1/", "https://opencode.ai/zen/v1"),
    ],
)  # fmt: skip
def test_where_gemini_generates(kind: str, base: str, root: str):
    made = registry.get(kind)
    assert made.gemini_url(base, "gemini-3-x", stream=False) == root + "/models/gemini-3-x:generateContent"
    assert made.gemini_url(base, "../a?b", stream=True) == root + "/models/..%2Fa%3Fb:streamGenerateContent?alt=sse"


# ---------------------------------------------------------------- headers


@pytest.mark.parametrize("kind", sorted(ALL))
def test_a_keyless_provider_gets_no_auth_header(kind: str):
    made = registry.get(kind)
    for dialect in ("chat", "messages", "gemini"):
        assert made.headers("", dialect) == [(b"content-type", b"application/json")]


def test_how_each_type_is_shown_its_key():
    for kind in registry.KINDS.values():
        wanted = {"anthropic": ANTHROPIC, "anthropic-messages": ANTHROPIC, "vertex-express": GOOG}.get(
            kind.type, BEARER
        )
        assert kind.auth_headers("sk-1") == kind.headers("sk-1")[1:] == wanted
        native = GOOG if kind.type in ("google", "opencode-zen") else wanted
        assert kind.auth_headers("sk-1", "gemini") == native


# ---------------------------------------------------------------- bodies

_CLASSIC = {"top_p", "frequency_penalty", "presence_penalty", "min_p"}
STRIPPED = {
    "anthropic": _CLASSIC | {"reasoning_effort"},
    "anthropic-messages": _CLASSIC,
    "google": {
        "frequency_penalty",
        "presence_penalty",
        "logprobs",
        "top_logprobs",
        "min_p",
        "top_k",
        "reasoning_effort",
        "reasoning",
    },
    "cohere": {"logprobs", "top_logprobs", "min_p", "top_k", "reasoning_effort"},
    "openai": {"min_p", "top_k"},
    "xai": {"min_p", "top_k"},
    "deepseek": {"min_p", "top_k", "reasoning_effort"},
    **{
        kind: {"reasoning_effort"}
        for kind in (
            "ollama",
            "ollama-cloud",
            "koboldcpp",
            "lmstudio",
            "nanogpt",
            "zai-coding",
            "openrouter",
            "opencode-zen",
            "opencode-go",
        )
    },
}


def test_what_is_stripped_from_chat_bodies():
    assert {kind.type: set(kind.strip) for kind in registry.KINDS.values() if kind.strip} == STRIPPED


def body_for(kind: str, given: str, *, stream: bool = False) -> dict[str, Any]:
    made = chat.build_body(raw(given), given.encode(), model_id="m", kind=registry.get(kind), stream=stream)
    found: dict[str, Any] = msgspec.json.decode(made)
    return found


@pytest.mark.parametrize("kind", sorted(ALL))
def test_whose_own_stream_options_stay(kind: str):
    """v1-api 56: the others are asked for their usage, OpenAI-compatible endpoints of Anthropic and Google too."""
    sent = body_for(kind, '{"messages":[],"stream_options":{"include_usage":false,"x":1}}', stream=True)
    wanted = {"include_usage": False, "x": 1} if kind == "cohere" else {"include_usage": True}
    assert sent["stream_options"] == wanted


def test_what_is_injected_when_it_is_absent():
    thinking = {"type": "enabled", "clear_thinking": False}
    template = {"enable_thinking": True}
    added = {kind: extra for kind in ALL if (extra := body_for(kind, '{"messages":[]}').keys() - {"model", "messages"})}
    assert added == {"zai-coding": {"thinking"}, "opencode-go": {"chat_template_args"}}
    assert body_for("zai-coding", '{"messages":[]}')["thinking"] == thinking
    assert body_for("opencode-go", '{"messages":[]}')["chat_template_args"] == template
    assert body_for("zai-coding", '{"thinking":null}')["thinking"] is None
    assert body_for("opencode-go", '{"chat_template_args":{}}')["chat_template_args"] == {}


def test_who_knows_no_schemas():
    assert kinds(lambda kind: not kind.takes_json_schema) == {"deepseek", "zai-coding"}


# ---------------------------------------------------------------- dialects


def test_which_dialects_a_type_speaks():
    routes = {kind.type: kind.chat_route for kind in registry.KINDS.values() if kind.chat_route != "chat"}
    assert routes == {"anthropic-messages": "messages", "vertex-express": "gemini"}
    assert kinds(lambda kind: kind.speaks_messages) == {"anthropic", "anthropic-messages"}
    assert kinds(lambda kind: kind.messages_for_documents) == {"anthropic"}
    assert kinds(lambda kind: kind.heals_messages) == {"anthropic-messages"}
    assert kinds(lambda kind: kind.gemini_for_media) == {"google"}
    assert kinds(lambda kind: kind.reroutes_responses) == {"openai"}
    assert kinds(lambda kind: kind.session_header) == {"opencode-go"}
    assert kinds(lambda kind: kind.disguises_errors) == {"minimax"}


def test_opencode_speaks_gemini_to_its_gemini_family_only():
    for kind in registry.KINDS.values():
        assert kind.chat_dialect("glm-5") == kind.chat_route
        assert kind.chat_dialect("gemini-3-flash") == ("gemini" if kind.type == "opencode-zen" else kind.chat_route)
    assert registry.get("opencode-zen").chat_dialect("my-gemini-3") == "chat"


@pytest.mark.parametrize(
    ("kind", "base", "native"),
    [
        ("openai", "https://api.openai.com/v1", True),
        ("openai", "https://API.OpenAI.com/v1", True),
        ("openai", "https://eu.api.openai.com/v1", False),
        ("openai", "https://relay.example/v1", False),
        ("custom", "https://api.openai.com/v1", False),
    ],
)
def test_whose_responses_are_openais_own(kind: str, base: str, native: bool):
    assert registry.get(kind).native_responses(base) is native


@pytest.mark.parametrize(
    ("kind", "base", "limit"),
    [
        ("openai", "https://api.openai.com/v1", 40),
        ("openai", "https://eu.api.openai.com/v1", 40),
        ("openai", "https://notapi.openai.com.example/v1", None),
        ("openai", "https://relay.example/v1", None),
        ("azure", "https://r.services.ai.azure.com/api/projects/p", 40),
        ("openrouter", "https://openrouter.ai/api/v1", None),
        ("custom", "https://relay.example/v1", None),
    ],
)
def test_how_long_the_id_of_a_call_may_be(kind: str, base: str, limit: int | None):
    assert registry.get(kind).call_id_limit(base) == limit


def test_who_reads_signatures_of_gemini():
    assert kinds(lambda kind: kind.reads_signatures("m")) == {"google"}
    assert kinds(lambda kind: kind.reads_signatures("google/Gemini-3-pro")) == kinds(lambda kind: True)


# ---------------------------------------------------------------- images


@pytest.mark.parametrize(
    ("size", "ratio"),
    [
        ("1792x1024", "16:9"),
        ("1024x1024", "1:1"),
        ("1024x1536", "2:3"),
        ("1950x900", "19.5:9"),
        ("2000x900", "20:9"),
        ("1280x512", "5:2"),
        ("1100x1000", ""),
        ("1030x1000", "1:1"),
        ("1031x1000", ""),
        ("auto", ""),
        ("0x10", ""),
        ("10x", ""),
        (None, ""),
        (5, ""),
    ],
)
def test_a_size_is_the_ratio_it_is_near(size: object, ratio: str):
    assert aspect_ratio(size) == ratio


@pytest.mark.parametrize(
    ("model", "body", "sent"),
    [
        ("grok-imagine", '{"size":"1792x1024","n":1}', {"n": 1, "aspect_ratio": "16:9"}),
        ("grok-imagine", '{"size":"1792x1024","aspect_ratio":"1:1"}', {"aspect_ratio": "1:1"}),
        ("grok-imagine", '{"size":"1792x1024","aspect_ratio":null}', {"aspect_ratio": "16:9"}),
        ("grok-imagine", '{"size":"1100x1000"}', {}),
        ("grok-imagine", '{"n":2}', {"n": 2}),
        *(
            ("grok-imagine", f'{{"size":{odd},"n":2}}', {"n": 2})
            for odd in ("1e999", "9" * 400, "[1e999]", "5", "null")
        ),
        ("grok-2-image", '{"size":"1792x1024","aspect_ratio":"1:1","n":1}', {"n": 1}),
    ],
)
def test_what_xai_makes_of_an_image_body(model: str, body: str, sent: dict[str, Any]):
    """part of v1-api 92"""
    members = raw(body)
    registry.get("xai").image_body(members, model)
    assert msgspec.json.decode(msgspec.json.encode(members)) == sent


def test_nobody_else_touches_an_image_body():
    for kind in ALL - {"xai"}:
        members = raw('{"size":"1792x1024"}')
        registry.get(kind).image_body(members, "grok-imagine")
        assert members == raw('{"size":"1792x1024"}')


@pytest.mark.parametrize(
    "odd", [b"1e999", b"[" * 5000 + b"]" * 5000, b'[{"role":1e999},1e999,{"role":"assistant","a":%b}]']
)
def test_a_history_that_can_not_be_read_again_goes_to_deepseek_as_it_came(odd: bytes):
    messages = msgspec.Raw(odd.replace(b"%b", b"[" * 5000 + b"]" * 5000))
    body = {"messages": messages}
    registry.get("deepseek").inject(body, "deepseek-v4")
    assert body["messages"] is messages
