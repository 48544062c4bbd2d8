"""Provider types: addresses, auth, chat body quirks, listings."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from providers import inputs, probe
from providers.kinds import registry
from providers.kinds.base import Header, Listed, ListingError
from providers.kinds.deepseek import wants_reasoning


class Canned:
    """An ``Http`` that answers from a table; what is missing fails with 404."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, list[Header]]] = []
        self.at_once = self.peak = 0

    async def get(self, url: str, headers: Iterable[Header]) -> Any:
        self.asked.append(("GET", url, list(headers)))
        return self._answer(url)

    async def post(self, url: str, headers: Iterable[Header], body: Any) -> Any:
        self.asked.append(("POST", url, list(headers)))
        self.at_once += 1
        self.peak = max(self.peak, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return self._answer(body["model"])

    def _answer(self, name: str) -> Any:
        for end, answer in self.answers.items():
            if name.rstrip("/").endswith(end):
                if isinstance(answer, Exception):
                    raise answer
                return answer
        raise ListingError("HTTP 404", 404)


def listing(kind: str, base_url: str, key: str = "", **answers: Any) -> list[Listed]:
    return asyncio.run(registry.get(kind).list_models(Canned(**answers), base_url, key))


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize("kind", ["ollama", "lmstudio", "koboldcpp"])
@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("http://box:11434/", "http://box:11434/v1"),
        (" http://box:11434 ", "http://box:11434/v1"),
        ("http://box:11434/V1", "http://box:11434/V1"),
        ("http://box:11434/v1//", "http://box:11434/v1"),
        ("http://box/proxy///", "http://box/proxy/v1"),
        ("http://[::1]:1/", "http://[::1]:1/v1"),
        ("http://[::1", "http://[::1"),
        ("http://bo\nx", "http://bo\nx"),
    ],
)
def test_a_self_hosted_address_ends_in_one_v1(kind: str, given: str, stored: str):
    """providers 8"""
    made = registry.get(kind)
    assert made.normalise_base_url(given) == stored
    if "\n" not in given and stored.startswith("http://box:11434"):
        assert made.url(stored, "/chat/completions").lower() == "http://box:11434/v1/chat/completions"
        assert made.origin(stored) == "http://box:11434"


def test_other_addresses_stay_as_they_are_given():
    for kind in ("custom", "openai", "openrouter", "deepseek"):
        made = registry.get(kind)
        assert made.normalise_base_url(" https://h/api/ ") == "https://h/api/"
        assert made.url("https://h/api/", "/chat/completions") == "https://h/api/chat/completions"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("HTTP://BOX:1234/v1/", "http://box:1234/v1", True),
        ("http://box:1234", "http://box:1234/V1", True),
        ("http://box/v1", "http://box:80", True),
        ("https://box/v1", "http://box/v1", False),
        ("http://box:1/v1", "http://box:2/v1", False),
        ("http://box/a/v1", "http://box/v1", False),
    ],
)
def test_one_server_is_recognised_in_any_spelling(one: str, other: str, same: bool):
    """providers 11"""
    assert (inputs.address(one) == inputs.address(other)) is same


# ---------------------------------------------------------------- bodies


def raw(body: str) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(body.encode(), type=dict[str, msgspec.Raw])


def test_deepseek_reasoners_get_their_reasoning_back():
    body = raw(
        '{"messages": [{"role":"user","content":1.10}, {"role":"assistant","content":"a"},'
        ' {"role":"assistant","reasoning_content":null}, "odd"]}'
    )
    registry.get("deepseek").inject(body, "deepseek-reasoner")
    assert bytes(body["messages"]) == (
        b'[{"role":"user","content":1.10},{"role":"assistant","content":"a","reasoning_content":""},'
        b'{"role":"assistant","reasoning_content":null},"odd"]'
    )


@pytest.mark.parametrize("text", ['{"messages": 5}', '{"messages": [[1]]}', '{"messages": []}', "{}"])
def test_a_body_that_is_no_chat_stays_as_it_came(text: str):
    body = raw(text)
    registry.get("deepseek").inject(body, "deepseek-r1")
    assert body == raw(text)


def test_which_deepseek_models_reason():
    assert [
        m
        for m in ("deepseek-chat", "DeepSeek-R1", "deepseek-v4", "deepseek-reasoner", "x-reasoner")
        if wants_reasoning(m)
    ] == [
        "DeepSeek-R1",
        "deepseek-v4",
        "deepseek-reasoner",
    ]


# ---------------------------------------------------------------- listings


@pytest.mark.parametrize("kind", ["custom", "openai", "deepseek"])
def test_a_plain_listing_gives_stubs(kind: str):
    found = listing(kind, "https://h/v1/", **{"h/v1/models": {"data": [{"id": "a", "owned_by": "me"}, {"id": 5}, 7]}})
    assert found == [Listed("a", "a", "a", owned_by="me", capabilities={"streaming": True})]


@pytest.mark.parametrize("payload", [[], {"data": None}, {"data": {}}, "x", None, {}])
def test_an_answer_without_a_list_is_an_error(payload: Any):
    with pytest.raises(ListingError, match="no list named data"):
        listing("custom", "https://h/v1", models=payload)


def test_openrouter_prices_are_per_token_strings():
    """providers 42"""
    entry = {
        "id": "z-ai/glm-4.6",
        "name": "GLM 4.6",
        "context_length": 0,
        "architecture": {"modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"]},
        "top_provider": {"context_length": 200000, "max_completion_tokens": 4096},
        "pricing": {"prompt": "0.0000006", "completion": "0", "input_cache_read": ""},
        "supported_parameters": ["tools", "structured_outputs"],
    }
    skipped = [
        {**entry, "id": "~hidden"},
        {**entry, "id": "pic", "architecture": {"modality": "text->image", "output_modalities": ["image"]}},
        {**entry, "id": "silent", "architecture": None},
    ]
    (found,) = listing("openrouter", "https://openrouter.ai/api/v1", models={"data": [entry, *skipped]})
    assert (found.input_price_per_million, found.output_price_per_million) == (0.6, 0.0)
    assert found.input_price_per_million_cache_hit is None
    assert (found.context_length, found.max_output_tokens, found.owned_by) == (200000, 4096, "z-ai")
    assert found.capabilities == {"streaming": True, "tool_calling": True, "structured_output": True}
    assert (found.model_id, found.display_name) == ("z-ai/glm-4.6", "GLM 4.6")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"data": {}}, ""),
        (ListingError("HTTP 401", 401), "HTTP 401"),
        (ListingError("no connection"), "no connection"),
        (ListingError("HTTP 500", 500), ""),
    ],
)
def test_openrouter_is_asked_whether_the_key_works(answer: Any, problem: str):
    kind = registry.get("openrouter")
    assert asyncio.run(kind.check_access(Canned(**{"/key": answer}), "https://openrouter.ai/api/v1", "k")) == problem
    assert asyncio.run(registry.get("openai").check_access(Canned(), "https://h", "k")) is None


def test_ollama_tells_what_a_model_can_and_a_failing_show_keeps_it():
    """providers 48"""
    shows = {
        "one": {"capabilities": ["completion", "tools", "vision"], "model_info": {"llama.context_length": 8192}},
        "two": {"capabilities": ["embedding"]},
        "three": ListingError("HTTP 500", 500),
        "four": {"capabilities": ["thinking"], "model_info": {"x.context_length": 0}},
        "five": [],
    }
    tags = [{"name": name, "details": {"family": "llama"}} for name in shows]
    http = Canned(**{"/api/tags": {"models": [*tags, {"name": ""}]}, **shows})
    found = asyncio.run(registry.get("ollama").list_models(http, "http://box:11434/v1", ""))
    by_id = {model.model_id: model for model in found}
    assert list(by_id) == list(shows) and {model.owned_by for model in found} == {"llama"}
    assert by_id["one"].capabilities == {"streaming": True, "tool_calling": True, "vision": True}
    assert (by_id["one"].context_length, by_id["one"].output_modalities) == (8192, ("text",))
    assert by_id["two"].output_modalities == ("embedding",)
    assert by_id["three"].capabilities == {"streaming": True} and by_id["three"].context_length is None
    assert by_id["four"].capabilities == {"streaming": True, "reasoning": True} and by_id["four"].context_length is None
    assert http.asked[0][1] == "http://box:11434/api/tags"


def test_ollama_shows_at_most_five_models_at_once():
    names = [f"m{n}" for n in range(30)]
    http = Canned(**{"/api/tags": {"models": [{"name": name} for name in names]}})
    found = asyncio.run(registry.get("ollama").list_models(http, "http://box/v1", ""))
    assert [model.model_id for model in found] == names and {model.owned_by for model in found} == {"ollama"}
    assert http.peak == 5


def test_lmstudio_prefers_its_own_listing():
    data = [
        {"id": "a", "type": "llm", "publisher": "meta", "max_context_length": 4096},
        {"id": "b", "type": "vlm", "max_context_length": 0},
        {"id": "c", "type": "embeddings"},
    ]
    a, b, c = listing("lmstudio", "http://box:1234/v1", **{"/api/v0/models": {"data": data}})
    assert (a.owned_by, a.context_length, a.capabilities["structured_output"]) == ("meta", 4096, True)
    assert (b.owned_by, b.context_length, b.input_modalities) == ("lmstudio", None, ("text", "image"))
    assert b.capabilities["vision"] and c.output_modalities == ("embedding",)


@pytest.mark.parametrize("native", [{"data": []}, {"error": "no"}, ListingError("HTTP 500", 500)])
def test_lmstudio_falls_back_to_the_openai_listing(native: Any):
    answers = {"/api/v0/models": native, "/v1/models": {"data": [{"id": "a"}]}}
    (found,) = listing("lmstudio", "http://box:1234/v1", **answers)
    assert (found.model_id, found.capabilities) == ("a", {"streaming": True, "structured_output": True})


# ---------------------------------------------------------------- probes


@pytest.mark.parametrize(
    ("payload", "families"),
    [
        ({"result": "koboldCPP", "version": "1.9"}, {"koboldcpp"}),
        ({"data": []}, {"lmstudio"}),
        ({"data": [{"id": "a", "arch": "llama"}]}, {"lmstudio"}),
        ({"data": [{"id": "a", "object": "model"}]}, set()),
        ({"models": []}, {"ollama"}),
        ({"error": "Unexpected endpoint", "data": [], "models": []}, set()),
        ([], set()),
        (None, set()),
        ({"result": 5, "models": "x"}, set()),
    ],
)
def test_the_body_says_which_family_answered(payload: Any, families: set[str]):
    checks = {"koboldcpp": probe.is_koboldcpp, "lmstudio": probe.is_lmstudio, "ollama": probe.is_ollama}
    assert {family for family, matches in checks.items() if matches(payload)} == families
