"""The rich chat request that every vendor type is sent, and the pieces of it that stand in what becomes of it."""

from tests.shapes.table import Body

SYSTEM = "Answer in short sentences."
QUESTION = "What is in the picture, and what will the weather there be?"
PICTURE = "iVBORw0KGgo="
DATA_URI = "data:image/png;base64,iVBORw0KGgo="
LINK = "https://pictures.example/rome.jpg"
PARTS = [
    {"type": "text", "text": QUESTION},
    {"type": "image_url", "image_url": {"url": DATA_URI, "detail": "low"}},
    {"type": "image_url", "image_url": {"url": LINK}},
]
CALL = {"id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Rome"}'}}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "The weather of a city.", "parameters": PARAMETERS}
SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "string"}, "degrees": {"type": "number"}},
    "required": ["place", "degrees"],
    "additionalProperties": False,
}
#: The schema as the gateway quotes it to a model that takes none.
SCHEMA_TEXT = (
    '{"type": "object", "properties": {"place": {"type": "string"}, "degrees": {"type": "number"}}, '
    '"required": ["place", "degrees"], "additionalProperties": false}'
)
FORMAT = {"type": "json_schema", "json_schema": {"name": "forecast", "strict": True, "schema": SCHEMA}}
MESSAGES = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": PARTS},
    {"role": "assistant", "content": "I will look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_a", "content": '{"degrees": 21}'},
    {"role": "assistant", "content": "Rome, 21 degrees.", "tool_calls": []},
    {"role": "user", "content": "And as JSON?"},
]
#: The messages as a vendor gets them who is asked in chat form: without the empty list of calls (v1-api 10.2, 9).
CHAT_MESSAGES = [*MESSAGES[:4], {"role": "assistant", "content": "Rome, 21 degrees."}, MESSAGES[5]]

RICH: Body = {
    "messages": MESSAGES,
    "tools": [{"type": "function", "function": WEATHER}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning_effort": "high",
    "response_format": FORMAT,
    "max_completion_tokens": 5000,
    "temperature": 0.25,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.05,
    "frequency_penalty": 0.5,
    "presence_penalty": -0.5,
    "stop": ["END", "STOP"],
    "seed": 9007199254740993,
    "n": 1,
    "logprobs": True,
    "top_logprobs": 2,
    "user": "u-1",
    "metadata": {"trace": "t-1"},
    "stream": True,
    "stream_options": {"include_usage": False, "include_obfuscation": False},
}


def chat(model: str, *without: str, **instead: object) -> Body:
    """The rich request in chat form, for *model*: *without* these members, and with others *instead*."""
    asked = {"model": model, **RICH, "messages": CHAT_MESSAGES, "stream_options": {"include_usage": True}}
    return {name: value for name, value in {**asked, **instead}.items() if name not in without}


def made(id: str, name: str, arguments: str) -> Body:
    """A tool call as a chat vendor writes it."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
