"""Ids of tool calls for providers that take less in them: what is changed in a chat body, and what is not."""

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects import callids

HEX = "0123456789abcdef" * 2
GEMINI, NAMELESS = f"call_chatcmpl-{HEX}_0", f"toolu_msg_{HEX}_12"
FOREIGN = "call_abc__thought__" + "Q" * 60
SIGNED = {"google": {"thought_signature": "c2ln"}}


def talk(call_id, **more):
    call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}, **more}
    return [
        {"role": "user", "content": f'"tool_call_id": "{call_id}"'},
        {"role": "assistant", "content": None, "tool_calls": [call, {**call, "id": "call_2"}]},
        {"role": "tool", "tool_call_id": call_id, "content": call_id},
        {"role": "tool", "tool_call_id": "call_2", "content": "r"},
    ]


def fitted(messages, *, limit=None, translated=False, signatures=True):
    """The messages as they go out; None where the body stays what it was."""
    raw = json.dumps({"messages": messages}).encode()
    body = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    out = callids.for_chat(body, None if translated else raw, limit=limit, signatures=signatures)
    return None if out is body else json.loads(bytes(out["messages"]))


@pytest.mark.parametrize("translated", [True, False])
@pytest.mark.parametrize(
    ("call_id", "limit"), [(GEMINI, None), (NAMELESS, None), (GEMINI, 40), (FOREIGN, 40), ("é" * 41, 40)]
)
def test_a_long_id_is_shortened_the_same_in_the_call_and_in_its_result(call_id, limit, translated):
    out = fitted(talk(call_id), limit=limit, translated=translated)
    short = out[2]["tool_call_id"]
    assert len(short) == 40 and short.startswith(call_id[:23])
    wanted = talk(call_id)
    wanted[1]["tool_calls"][0]["id"] = wanted[2]["tool_call_id"] = short
    assert out == wanted
    assert fitted(talk(call_id), limit=limit) == out  # and in every turn
    assert callids.shortened(call_id[:-1] + "x", 40) != short


@pytest.mark.parametrize(
    ("call_id", "limit"),
    [("x" * 40, 40), ("x" * 40, None), ("functions.get_weather:0", 40)],
)
def test_a_short_id_costs_nothing(call_id, limit):
    assert fitted(talk(call_id), limit=limit) is None


def test_a_relay_gets_back_the_ids_it_gave():
    messages = talk(FOREIGN)
    assert fitted(messages) == messages
    raw = b'{"messages":[ {"role":"tool","tool_call_id":"%b","n":1.10 }]}' % FOREIGN.encode()
    body = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    assert bytes(callids.for_chat(body, raw, limit=None, signatures=True)["messages"]) == bytes(body["messages"])


def test_signatures_that_we_restored_go_to_who_understands_them():
    messages = talk("call_1", extra_content=SIGNED)
    assert fitted(messages, translated=True, signatures=True) is None
    assert fitted(messages, translated=True, signatures=False) == talk("call_1")
    assert fitted(messages, translated=False, signatures=False) is None  # the client's own


@given(st.text(), st.integers(40, 64))
def test_an_id_keeps_within_its_limit_and_stays_itself_where_it_did(call_id, limit):
    short = callids.shortened(call_id, limit)
    assert len(short) <= limit and (short == call_id) == (len(call_id) <= limit)
    assert callids.shortened(short, limit) == short


ODD = [b'[1,null,"x",{"tool_calls":7,"tool_call_id":[]}]', b'{"tool_call_id":"' + b"x" * 50 + b'"}', b"7"]


@pytest.mark.parametrize("odd", [*ODD, b'[{"tool_calls":[7,{"id":null}]}]'])
def test_odd_messages_pass(odd):
    more = b'"tool_call_id":"' + b"x" * 41 + b'"'
    body = {"messages": msgspec.Raw(odd)}
    for raw in (more, None):
        out = callids.for_chat(body, raw, limit=40, signatures=False)
        assert json.loads(bytes(out["messages"])) == json.loads(odd)


def test_a_list_that_nothing_changes_is_the_same_object():
    raw = msgspec.Raw(b"[1, 2]")
    assert callids.each(raw, lambda item: item) is raw
    assert bytes(callids.each(raw, lambda item: None if bytes(item) == b"1" else item)) == b"[2]"
    broken = msgspec.Raw(b"[1,")
    assert callids.each(broken, lambda item: None) is broken


def test_anywhere():
    then = re.compile(rb"\s*1")
    assert callids.anywhere(b"a a 1", b"a", then)
    assert not callids.anywhere(b"a 2 b 1", b"a", then)
    assert not callids.anywhere(b"", b"a", then)
