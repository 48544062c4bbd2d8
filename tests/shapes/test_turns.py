"""The next turn, with what the vendor has to find in it again; what its refusals teach; what its answers cost."""

import pytest

from tests.shapes import anthropic, asked, deepseek, gemini, gemini_chat, openai, openrouter
from tests.shapes.house import USER, House
from tests.shapes.table import Body, Vendor, compact, text, use
from tests.upstream.server import events, reply

TOOLS = [{"type": "function", "function": asked.WEATHER}]
RESULTS = [
    {"role": "tool", "tool_call_id": "?", "content": "21"},
    {"role": "tool", "tool_call_id": "?", "content": "9"},
]


def answers(message: Body) -> list[Body]:
    """A result for each call of *message*."""
    ids = [one["id"] for one in message["tool_calls"]]
    return [{**result, "tool_call_id": id} for result, id in zip(RESULTS, ids, strict=True)]


async def two_turns(house: House, shape: str) -> tuple[Body, Body]:
    """The message of an answer with calls, and the body of the next turn that sends it back with their results."""
    house.upstream.script(reply(200, house.vendor.shapes[shape].whole))
    first = (await house.ask("chat", tools=TOOLS)).json["choices"][0]["message"]
    said = [*USER, first, *answers(first)]
    assert (await house.stage.say("/chat/completions", "V/" + house.vendor.model, messages=said)).status == 200
    return first, house.upstream.calls[-1].json


@pytest.mark.parametrize(
    ("vendor", "shape", "kept"),
    [
        (
            deepseek.VENDOR,
            "tools",
            {"reasoning_content": "Two cities."},
        ),
        (
            openrouter.VENDOR,
            "reasoning and tools",
            {
                "reasoning": "Two cities.",
                "reasoning_details": [openrouter.detail("Two cities.", signature="EqQB")],
                "reasoning_content": "Two cities.",
            },
        ),
        (gemini_chat.VENDOR, "tools", {"tool_calls": gemini_chat.CALLS}),
    ],
    ids=["deepseek", "openrouter", "gemini chat"],
)
async def test_what_a_chat_vendor_signed_comes_back_as_it_was(house: House, vendor: Vendor, shape: str, kept: Body):
    first, sent = await two_turns(house, shape)
    assert sent["messages"] == [*USER, first, *answers(first)]
    assert {name: sent["messages"][1].get(name) for name in kept} == kept


@pytest.mark.parametrize("vendor", [gemini.VENDOR])
async def test_a_signature_goes_back_into_geminis_part(house: House, vendor: Vendor):
    _, sent = await two_turns(house, "tools")
    assert sent["contents"] == [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [gemini.ROME, gemini.runs("get_time")]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "get_weather", "response": {"result": "21"}}},
                {"functionResponse": {"name": "get_time", "response": {"result": "9"}}},
            ],
        },
    ]


@pytest.mark.parametrize("vendor", [anthropic.VENDOR])
async def test_thinking_goes_back_to_anthropic_signed_and_sealed(house: House, vendor: Vendor):
    """A Messages client's own turn; what chat has no words for would be lost on the way."""
    content = vendor.shapes["thinking and tools"].whole["content"]
    results = [{"type": "tool_result", "tool_use_id": id, "content": "21"} for id in ("toolu_01A", "toolu_01B")]
    said = [*USER, {"role": "assistant", "content": content}, {"role": "user", "content": results}]
    house.upstream.script(reply(200, vendor.shapes["text"].whole))
    got = await house.stage.say("/messages", "V/" + vendor.model, max_tokens=9, messages=said)
    assert got.status == 200
    assert house.upstream.calls[0].json == {"model": vendor.model, "max_tokens": 9, "messages": said}


@pytest.mark.parametrize("vendor", [anthropic.VENDOR])
async def test_a_chat_turn_goes_back_to_anthropic_as_blocks(house: House, vendor: Vendor):
    """Without its signature a thought is none; the calls and their results stay together."""
    _, sent = await two_turns(house, "thinking and tools")
    assert sent["messages"] == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                text("I will look."),
                use("toolu_01A", "get_weather", city="Rome"),
                use("toolu_01B", "get_time"),
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01A", "content": "21"},
                {"type": "tool_result", "tool_use_id": "toolu_01B", "content": "9"},
            ],
        },
    ]


# -- what a refusal teaches, in the vendor's words

INVALID = "invalid_request_error"
RENAMED = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
ONLY_ONE = (
    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported."
)
NO_ADAPTIVE = "thinking.type: adaptive is not supported by this model."
HIGH = {"type": "enabled", "budget_tokens": 8192}


@pytest.mark.parametrize(
    ("vendor", "words", "given", "first", "second"),
    [
        (
            openai.VENDOR,
            openai.refused(RENAMED, INVALID, "unsupported_parameter", "max_tokens"),
            {"max_tokens": 50},
            {"max_tokens": 50},
            {"max_completion_tokens": 50},
        ),
        (
            openai.VENDOR,
            openai.refused(ONLY_ONE, INVALID, "unsupported_value", "temperature"),
            {"temperature": 0.2},
            {"temperature": 0.2},
            {},
        ),
        (
            anthropic.VENDOR,
            anthropic.refused(NO_ADAPTIVE, INVALID),
            {"reasoning_effort": "high", "max_tokens": 9000},
            {"max_tokens": 9000, "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
            {"max_tokens": 9000, "thinking": HIGH},
        ),
    ],
    ids=["openai max_tokens", "openai temperature", "anthropic thinking"],
)
async def test_a_refusal_teaches(house: House, vendor: Vendor, words: Body, given: Body, first: Body, second: Body):
    """The request is repaired in place, and the next one goes out right at once."""
    house.upstream.script(reply(400, words), reply(200, vendor.shapes["text"].whole))
    for _ in range(2):
        assert (await house.ask("chat", **given)).status == 200
    plain = {"model": vendor.model, "messages": USER}
    assert [call.json for call in house.upstream.calls] == [plain | first, plain | second, plain | second]
    assert house.stage.state("V") == "closed"


# -- what it costs


@pytest.mark.parametrize(
    ("vendor", "dollars"),
    [(openrouter.VENDOR, 20 * 3.0 / 1e6), (anthropic.VENDOR, 1112 * 3.0 / 1e6), (gemini.VENDOR, 2000 * 3.0 / 1e6)],
    ids=["openrouter", "anthropic", "gemini"],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_cost_is_the_catalogues(house: House, vendor: Vendor, dollars: float, stream: bool):
    """A vendor's own figure passes to the client and is not booked."""
    house.stage.price("V", 3.0)
    shape = vendor.shapes["text"]
    house.upstream.script(events(*shape.frames) if stream else reply(200, compact(shape.whole)))
    got = await house.ask("chat", stream=stream, **({"stream_options": {"include_usage": True}} if stream else {}))
    assert house.stage.row.cost_usd == pytest.approx(dollars)
    assert (b'"cost":0.000135' in got.body) is (vendor is openrouter.VENDOR)
