"""What a refusal repairs now, and what of it is remembered for everybody (failover-loop 6.3)."""

import json

import msgspec
import pytest

from providers.kinds.registry import KINDS
from proxy import egress, lessons, reasons
from proxy.repairs import SCHEMA, THIS_SCHEMA, Repair, Taught
from proxy.terminal import Refused

FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
USER = {"role": "user", "content": "hi"}


def of(message: str, sent: dict[str, object], *, kind: str = "openai", spoken: egress.Egress = egress.CHAT) -> Taught:
    whole = json.dumps({"model": "m", "messages": [USER], **sent}).encode()
    body = json.dumps({"error": {"message": message}}).encode()
    chat = msgspec.json.decode(whole, type=dict[str, msgspec.Raw])
    return lessons.of(spoken, KINDS[kind], Refused(400, 400, body, reasons.read(body)), whole, chat)


def names(repair: Repair) -> set[str]:
    return set(repair.rejected) | {old for old, _ in repair.renames}


def role(text: str) -> dict[str, object]:
    return {"messages": [{"role": text, "content": "x"}]}


USAGE = {"include_usage": True}
NO_USAGE = "'stream_options' is not supported"


@pytest.mark.parametrize(
    ("message", "sent", "now", "later"),
    [
        # what the provider says in its own words
        ("'seed' is not supported", {"seed": 1}, {"seed"}, {"seed"}),
        ("'seed' is not supported", {"seed": 1, **role("a")}, {"seed"}, {"seed"}),
        ("Use 'max_completion_tokens' instead of 'max_tokens'", {"max_tokens": 1}, {"max_tokens"}, {"max_tokens"}),
        ("response_format is not supported", {"response_format": FORMAT}, {SCHEMA}, {SCHEMA}),
        ("`json_schema` is unsupported", {"response_format": FORMAT}, {SCHEMA}, {SCHEMA}),
        # what the client says through the provider
        ("role 'seed' is not supported", {"seed": 1, **role("seed")}, {"seed"}, set()),
        ("role: no 'seed' today", {"seed": 1, **role("no 'seed' today")}, {"seed"}, set()),
        ("no role json_schema", {"response_format": FORMAT, **role("x")}, set(), set()),
        (
            "bad role json_schema is not supported",
            {"response_format": FORMAT, **role("json_schema is not supported")},
            {SCHEMA},
            set(),
        ),
        (
            "no role max_completion_tokens instead of max_tokens",
            {"max_tokens": 5, **role("max_completion_tokens instead of max_tokens")},
            {"max_tokens"},
            set(),
        ),
        ("Unknown parameter: 'seed'", {"seed": 1, "messages": [{**USER, "seed": 1}]}, {"seed"}, set()),
        # what holds of this request
        ("'temperature' may only be set when you do not think", {"temperature": 0}, {"temperature"}, set()),
        ("Invalid 'temperature': above maximum value", {"temperature": 3}, set(), set()),
        # what makes streams tell their usage
        (NO_USAGE, {"stream": True, "stream_options": USAGE}, {"stream_options"}, {"stream_options"}),
        (NO_USAGE, {"stream_options": USAGE}, {"stream_options"}, set()),
        (NO_USAGE, {"stream": False, "stream_options": USAGE}, {"stream_options"}, set()),
        (NO_USAGE, {"stream": True, "stream_options": {**USAGE, "x": 1}}, {"stream_options"}, set()),
        (NO_USAGE + ", nor 'n'", {"stream_options": USAGE, "n": 1}, {"stream_options", "n"}, {"n"}),
        # what is too large to be looked through, or no number of ours
        ("'seed' is not supported", {"seed": 1, **role("x" * 1024 * 1024)}, {"seed"}, set()),
        ("'seed' is not supported" + " so" * 1000, {"seed": 1}, {"seed"}, set()),
    ],
)
def test_what_repairs_and_what_lasts(message: str, sent: dict[str, object], now: set[str], later: set[str]):
    found = of(message, sent)
    assert (names(found.now), names(found.later)) == (now, later)
    assert not found.later - found.now


def test_the_way_of_thinking_is_learned_of_the_provider_alone():
    sent: dict[str, object] = {"thinking": {"type": "adaptive"}, "max_tokens": 9}
    said = "adaptive thinking is not supported on this model"
    ask = {"kind": "anthropic-messages", "spoken": egress.MESSAGES}
    assert of(said, sent, **ask) == Taught(Repair(thinking="budget"), Repair(thinking="budget"))
    named = {"tool_choice": {"type": "tool", "name": said}}
    assert of(f"no tool '{said}'", {**sent, **named}, **ask) == Taught(Repair(thinking="budget"), Repair())


def test_a_body_that_can_not_be_read_teaches_nothing():
    body = b'{"error":{"message":"no \'seed\'"}}'
    refused = Refused(400, 400, body, reasons.read(body))
    assert not lessons.of(egress.CHAT, KINDS["openai"], refused, b"{", {}).now
    huge = lessons.of(egress.CHAT, KINDS["openai"], refused, b'{"seed":1,"x":1e999}', {})
    assert huge == Taught(Repair(frozenset({"seed"})), Repair())


@pytest.mark.parametrize(
    ("message", "now", "later"),
    [
        ("'m' does not support output format", SCHEMA, {SCHEMA}),
        ("output_config.format.schema: property 'minimum' is not supported", THIS_SCHEMA, set()),
    ],
)
def test_one_requests_schema_is_never_remembered(message: str, now: str, later: set[str]):
    found = of(message, {"response_format": FORMAT}, kind="anthropic-messages", spoken=egress.MESSAGES)
    assert (names(found.now), names(found.later)) == ({now}, later)
