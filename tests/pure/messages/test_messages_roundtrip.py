"""What both dialects can say survives the way to the other one and back: requests, answers and streams."""

import itertools
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects.messages import egress, ingress, writer
from tests.pure.messages.shapes import (
    ID,
    PDF,
    PNG,
    chat_frames,
    chunk,
    joined,
    members,
    message_of,
    pieces,
    plain,
    raw,
    read,
    values,
    written,
)

words = st.text(min_size=1, max_size=8)
names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
ids = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)  # what Anthropic takes
objects = st.dictionaries(st.text(max_size=4), values, max_size=3)
media = st.sampled_from(("image/png", "image/jpeg", "image/gif", "image/webp"))


def source(kind, **said):
    return {"type": kind, "source": said}


# -- a request of the Messages API

text_blocks = words.map(lambda text: {"type": "text", "text": text})
user_blocks = (
    text_blocks
    | media.map(lambda kind: source("image", type="base64", media_type=kind, data=PNG))
    | words.map(lambda text: source("image", type="url", url=f"https://x.example/{text}"))
    | st.just(source("document", type="base64", media_type="application/pdf", data=PDF))
)
uses = st.builds(
    lambda call_id, name, given: {"type": "tool_use", "id": call_id, "name": name, "input": given},
    ids,
    names,
    objects,
)
results = st.builds(
    lambda call_id, text: {"type": "tool_result", "tool_use_id": call_id, "content": text}, ids, st.text(max_size=8)
)
user_turns = words | st.builds(
    lambda before, after: before + after, st.lists(results, max_size=2), st.lists(user_blocks, min_size=1, max_size=3)
)
assistant_turns = words | st.builds(
    lambda said, calls: [*([said] if said else []), *calls],
    st.none() | text_blocks,
    st.lists(uses, min_size=1, max_size=3),
)
tools = st.lists(
    st.fixed_dictionaries({"name": names, "input_schema": objects}, optional={"description": st.text(max_size=8)}),
    min_size=1,
    max_size=2,
)
choices = st.sampled_from(({"type": "auto"}, {"type": "any"})) | names.map(lambda name: {"type": "tool", "name": name})
numbers = st.floats(0, 1) | st.integers(1, 10)


def turns(pairs):
    found = []
    for user, assistant in pairs:
        found += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    return found


requests = st.fixed_dictionaries(
    {
        "max_tokens": st.integers(1, 10**6),
        "messages": st.lists(st.tuples(user_turns, assistant_turns), min_size=1, max_size=2).map(turns),
    },
    optional={
        "system": words,
        "temperature": numbers,
        "top_k": st.integers(1, 100),
        "stop_sequences": st.lists(words, min_size=1, max_size=2),
        "tools": tools,
        "output_config": objects.map(lambda schema: {"format": {"type": "json_schema", "schema": schema}}),
    },
)


@settings(max_examples=40)
@given(requests, st.booleans(), choices)
def test_a_messages_request_survives_the_chat_form(request, stream, choice):
    own = {"model": "m", **request, **({"stream": True} if stream else {})}
    if "tools" in request and (choice["type"] != "tool" or choice["name"] in [t["name"] for t in request["tools"]]):
        own["tool_choice"] = choice
    asked = ingress.parse(raw(own))
    assert asked.stream is stream
    assert json.loads(egress.build(asked.members, model="m", stream=stream)) == own


# -- a chat request

user_parts = (
    words.map(lambda text: {"type": "text", "text": text})
    | media.map(lambda kind: {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{PNG}"}})
    | words.map(lambda text: {"type": "image_url", "image_url": {"url": f"https://x.example/{text}"}})
    | st.just({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}})
)


def call(call_id, name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": call_id, "type": "function", "function": function}


calls = st.lists(st.builds(call, ids, names, objects), min_size=1, max_size=3)


def said(content, tool_calls):
    message = {"role": "assistant"} if content is None else {"role": "assistant", "content": content}
    return {**message, "tool_calls": tool_calls} if tool_calls else message


def exchange(user, assistant, outputs):
    """A user's message, the answer, and a result for each call of it."""
    tool_calls = assistant.get("tool_calls", ())
    results = [
        {"role": "tool", "tool_call_id": one["id"], "content": text}
        for one, text in zip(tool_calls, outputs, strict=False)
    ]
    closing = [{"role": "assistant", "content": "."}] if results else []
    return [{"role": "user", "content": user}, assistant, *results, *closing]


exchanges = st.builds(
    exchange,
    words | st.lists(user_parts, min_size=1, max_size=3),
    st.builds(said, words, st.none()) | st.builds(said, st.none() | words, calls),
    st.lists(st.text(max_size=8), min_size=3, max_size=3),
)
functions = st.lists(
    st.fixed_dictionaries({"name": names, "parameters": objects}, optional={"description": st.text(max_size=8)}).map(
        lambda function: {"type": "function", "function": function}
    ),
    min_size=1,
    max_size=2,
)
chats = st.fixed_dictionaries(
    {
        "max_tokens": st.integers(1, 10**6),
        "messages": st.builds(
            lambda system, parts: [
                *([{"role": "system", "content": system}] if system else []),
                *itertools.chain(*parts),
            ],
            st.none() | words,
            st.lists(exchanges, min_size=1, max_size=2),
        ),
    },
    optional={
        "temperature": numbers,
        "top_k": st.integers(1, 100),
        "stop": st.lists(words, min_size=1, max_size=2),
        "tools": functions,
        "tool_choice": st.sampled_from(("auto", "required")),
        "response_format": objects.map(
            lambda schema: {"type": "json_schema", "json_schema": {"name": "response", "schema": schema}}
        ),
    },
)


@settings(max_examples=40)
@given(chats)
def test_a_chat_request_survives_the_messages_form(chat):
    built = egress.build(members(**chat), model="m", stream=False)
    assert plain(ingress.parse(built).members) == {"model": "m", **chat}


# -- answers

some = st.integers(1, 10**6)
message_blocks = st.lists(st.builds(dict, type=st.just("text"), text=words), max_size=1)
answers = st.builds(
    lambda content, calls, reason, counts: {
        "id": f"msg_{ID}",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [*content, *calls],
        "stop_reason": "tool_use" if calls and reason == "end_turn" else reason,  # nobody uses a tool and has ended
        "stop_sequence": None,
        "usage": counts,
    },
    message_blocks,
    st.lists(uses, max_size=3),
    st.sampled_from(("end_turn", "max_tokens", "tool_use")),
    st.fixed_dictionaries(
        {"input_tokens": some, "output_tokens": some},
        optional={
            "cache_read_input_tokens": some,
            "output_tokens_details": st.fixed_dictionaries({"thinking_tokens": some}),
        },
    ),
)


@settings(max_examples=40)
@given(answers)
def test_an_answer_survives_the_chat_form_whole_and_streamed(answer):
    chat = egress.to_chat(raw(answer), model="m")
    assert json.loads(writer.Writer({}, new_id=lambda: ID).whole(chat, "m")) == answer
    completion = json.loads(chat)
    message = completion["choices"][0]["message"]
    chunks = [chunk({"content": text}) for text in pieces(message["content"] or "")]
    for at, one in enumerate(message.get("tool_calls", ())):
        function = one["function"]
        chunks.append(chunk({"tool_calls": [{**one, "index": at, "function": {**function, "arguments": ""}}]}))
        for piece in pieces(function["arguments"]):
            chunks.append(chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}))
    chunks.append(chunk({}, completion["choices"][0]["finish_reason"], usage=completion["usage"]))
    assert message_of(written(chat_frames(*chunks))) == answer


@settings(max_examples=40)
@given(st.text(max_size=20), st.lists(st.builds(call, ids, names, objects), max_size=3))
def test_a_chat_stream_survives_the_messages_form(text, tool_calls):
    chunks = [chunk({"content": piece}) for piece in pieces(text)]
    for at, one in enumerate(tool_calls):
        chunks.append(chunk({"tool_calls": [{"index": at, **one}]}))
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    finish = "tool_calls" if tool_calls else "length"
    one = writer.Writer({})
    out = one.feed(chat_frames(*chunks, chunk({}, finish, usage=usage)))
    found = joined(read(out))
    expected = {"role": "assistant", "content": text or (None if tool_calls else "")}
    if tool_calls:
        expected["tool_calls"] = tool_calls
    assert found["choices"] == [{"index": 0, "message": expected, "finish_reason": finish}]
    assert found["usage"] == usage
