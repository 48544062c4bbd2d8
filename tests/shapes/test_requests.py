"""What a rich Messages and a rich Responses request become on their way to each vendor, member by member.

The rich chat request stands with each vendor's shapes.
"""

import pytest

from tests.shapes import anthropic, asked, azure, deepseek, gemini, ollama, openai, openai_responses, openrouter
from tests.shapes.house import House
from tests.shapes.table import Body, Vendor, text, use
from tests.upstream.server import events

PART = {"type": "text", "text": asked.QUESTION}
CACHED = {"cache_control": {"type": "ephemeral"}}
SYSTEM_MESSAGE = {"role": "system", "content": asked.SYSTEM}
FUNCTION = {"type": "function", "function": asked.WEATHER}
IN_WORDS = deepseek.IN_WORDS + asked.SCHEMA_TEXT

#: The arguments of a call are its input as the client wrote it, blanks and all.
AS_WRITTEN = asked.made("call_a", "get_weather", '{"city": "Rome"}')

# -- a Messages client's

MESSAGES: Body = {
    "system": [{**text(asked.SYSTEM), **CACHED}],
    "messages": [
        {
            "role": "user",
            "content": [
                {**text(asked.QUESTION), **CACHED},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": asked.PICTURE}},
                {"type": "image", "source": {"type": "url", "url": asked.LINK}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "A picture.", "signature": "EqQB"},
                text("I will look."),
                use("call_a", "get_weather", city="Rome"),
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_a", "content": [text('{"degrees": 21}')]},
                text("And as JSON?"),
            ],
        },
    ],
    "tools": [{"name": "get_weather", "description": "The weather of a city.", "input_schema": asked.PARAMETERS}],
    "tool_choice": {"type": "any"},
    "max_tokens": 5000,
    "temperature": 0.25,
    "top_p": 0.9,
    "top_k": 40,
    "stop_sequences": ["END", "STOP"],
    "metadata": {"user_id": "u-1"},
    "output_config": {"format": {"type": "json_schema", "schema": asked.SCHEMA}},
    "stream": True,
}
#: The same in chat form.
OF_MESSAGES: Body = {
    "messages": [
        SYSTEM_MESSAGE,
        {
            "role": "user",
            "content": [
                PART,
                {"type": "image_url", "image_url": {"url": asked.DATA_URI}},
                {"type": "image_url", "image_url": {"url": asked.LINK}},
            ],
        },
        {"role": "assistant", "content": "I will look.", "tool_calls": [AS_WRITTEN]},
        {"role": "tool", "tool_call_id": "call_a", "content": '{"degrees": 21}'},
        {"role": "user", "content": [{"type": "text", "text": "And as JSON?"}]},
    ],
    "tools": [FUNCTION],
    "tool_choice": "required",
    "max_tokens": 5000,
    "temperature": 0.25,
    "top_p": 0.9,
    "top_k": 40,
    "stop": ["END", "STOP"],
    "response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": asked.SCHEMA}},
    "stream": True,
    "stream_options": {"include_usage": True},
}

# -- a Responses client's

RESPONSES: Body = {
    "instructions": asked.SYSTEM,
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": asked.QUESTION},
                {"type": "input_image", "image_url": asked.DATA_URI, "detail": "low"},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I will look.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "call_a", "name": "get_weather", "arguments": '{"city":"Rome"}'},
        {"type": "function_call_output", "call_id": "call_a", "output": '{"degrees": 21}'},
        {"type": "message", "role": "user", "content": "And as JSON?"},
    ],
    "tools": [{"type": "function", **asked.WEATHER, "strict": True}, {"type": "web_search"}],
    "tool_choice": {"type": "function", "name": "get_weather"},
    "parallel_tool_calls": False,
    "max_output_tokens": 5000,
    "reasoning": {"effort": "high", "summary": "auto"},
    "text": {"format": {"type": "json_schema", "name": "forecast", "strict": True, "schema": asked.SCHEMA}},
    "temperature": 0.25,
    "top_p": 0.9,
    "metadata": {"trace": "t-1"},
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k-1",
    "truncation": "disabled",
    "store": False,
    "stream": True,
}
OF_RESPONSES: Body = {
    "messages": [
        SYSTEM_MESSAGE,
        {
            "role": "user",
            "content": [PART, {"type": "image_url", "image_url": {"url": asked.DATA_URI, "detail": "low"}}],
        },
        {"role": "assistant", "content": "I will look.", "tool_calls": [asked.CALL]},
        {"role": "tool", "tool_call_id": "call_a", "content": '{"degrees": 21}'},
        {"role": "user", "content": "And as JSON?"},
    ],
    "tools": [{"type": "function", "function": {**asked.WEATHER, "strict": True}}],
    "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    "parallel_tool_calls": False,
    "max_tokens": 5000,
    "reasoning_effort": "high",
    "response_format": asked.FORMAT,
    "temperature": 0.25,
    "top_p": 0.9,
    "metadata": {"trace": "t-1"},
    "stream": True,
    "stream_options": {"include_usage": True},
}


def but(body: Body, *without: str, **instead: object) -> Body:
    return {name: value for name, value in {**body, **instead}.items() if name not in without}


def of_deepseek(body: Body, *without: str) -> Body:
    """The schema in words; reasoning_content on the assistant's turn."""
    first, user, assistant, *rest = body["messages"]
    first = {**first, "content": first["content"] + IN_WORDS}
    messages = [first, user, {**assistant, "reasoning_content": ""}, *rest]
    return but(body, *without, messages=messages, response_format={"type": "json_object"})


async def sent(house: House, path: str, body: Body) -> Body:
    vendor = house.vendor
    house.upstream.script(events(*vendor.shapes["text"].frames))
    assert (await house.stage.say(path, "V/" + vendor.model, **body)).status == 200
    (call,) = house.upstream.calls
    assert call.target == (vendor.stream_path or vendor.path)
    found: Body = call.json
    # Gemini is told the model by the address.
    assert found.pop("model", vendor.model) == vendor.model
    return found


def named(*cases: tuple[Vendor, Body]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("vendor", "wanted"), cases, ids=[vendor.kind for vendor, _ in cases])


#: What Gemini gets of both, but for the choice of a tool and the settings.
CONTENTS = [
    {
        "role": "user",
        "parts": [{"text": asked.QUESTION}, {"inlineData": {"mimeType": "image/png", "data": asked.PICTURE}}],
    },
    {"role": "model", "parts": [{"text": "I will look."}, gemini.runs("get_weather", city="Rome")]},
    {"role": "user", "parts": [{"functionResponse": {"name": "get_weather", "response": {"degrees": 21}}}]},
    {"role": "user", "parts": [{"text": "And as JSON?"}]},
]
GEMINI: Body = {
    "systemInstruction": {"parts": [{"text": asked.SYSTEM}]},
    "contents": CONTENTS,
    "tools": gemini.VENDOR.sent["tools"],
    "generationConfig": {
        "maxOutputTokens": 5000,
        "temperature": 0.25,
        "topP": 0.9,
        "responseMimeType": "application/json",
        "responseJsonSchema": asked.SCHEMA,
    },
}


@named(
    (openai.VENDOR, but(OF_MESSAGES, "top_k")),
    (azure.VENDOR, OF_MESSAGES),
    (openrouter.VENDOR, OF_MESSAGES),
    (ollama.VENDOR, OF_MESSAGES),
    (deepseek.VENDOR, of_deepseek(OF_MESSAGES, "top_k")),
    (
        gemini.VENDOR,
        {
            **GEMINI,
            "contents": [
                {"role": "user", "parts": [*CONTENTS[0]["parts"], {"fileData": {"fileUri": asked.LINK}}]},
                *CONTENTS[1:],
            ],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
            "generationConfig": {**GEMINI["generationConfig"], "stopSequences": ["END", "STOP"]},
        },
    ),
    (anthropic.VENDOR, MESSAGES),
)
async def test_a_rich_messages_request(house: House, vendor: Vendor, wanted: Body):
    assert await sent(house, "/messages", MESSAGES) == wanted


@named(
    (openai.VENDOR, OF_RESPONSES),
    (azure.VENDOR, OF_RESPONSES),
    (openrouter.VENDOR, but(OF_RESPONSES, "reasoning_effort")),
    (ollama.VENDOR, but(OF_RESPONSES, "reasoning_effort")),
    (deepseek.VENDOR, of_deepseek(OF_RESPONSES, "reasoning_effort")),
    (
        gemini.VENDOR,
        {
            **GEMINI,
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}},
            "generationConfig": {**GEMINI["generationConfig"], "thinkingConfig": {"thinkingBudget": 24576}},
        },
    ),
    (
        anthropic.VENDOR,
        {
            "system": asked.SYSTEM,
            "messages": [
                {
                    "role": "user",
                    "content": [text(asked.QUESTION), MESSAGES["messages"][0]["content"][1]],
                },
                {"role": "assistant", "content": [text("I will look."), use("call_a", "get_weather", city="Rome")]},
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "call_a", "content": '{"degrees": 21}'},
                        text("And as JSON?"),
                    ],
                },
            ],
            "tools": MESSAGES["tools"],
            "tool_choice": {"type": "tool", "name": "get_weather"},
            "max_tokens": 5000,
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": asked.SCHEMA}},
            "stream": True,
        },
    ),
    (openai_responses.VENDOR, RESPONSES),
)
async def test_a_rich_responses_request(house: House, vendor: Vendor, wanted: Body):
    assert await sent(house, "/responses", RESPONSES) == wanted
