"""What a 400 teaches, what is remembered of it, and how it changes a body (failover-loop 6.3)."""

import json
from collections.abc import Container

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.kinds.base import Kind
from providers.kinds.registry import KINDS
from proxy import repairs
from proxy.dialects import chat
from proxy.repairs import NOTHING, SCHEMA, Learned, Repair, lesson, said

RENAME = frozenset({("max_tokens", "max_completion_tokens")})
NAMES = sorted(repairs._NAMES)


class _Any:
    """A body that has every member."""

    def __contains__(self, name: object) -> bool:
        return True


EVERYTHING = _Any()


def taught(message: str, *, sent_schema: bool = False, sent: Container[str] = EVERYTHING) -> tuple[set[str], bool]:
    """(rejected, whether the budget is renamed)"""
    found = lesson(message, sent, sent_schema=sent_schema)
    assert found.renames <= RENAME
    return set(found.rejected), bool(found.renames)


# -- what a message teaches


@pytest.mark.parametrize("quote", ["'", '"', "`"])
@pytest.mark.parametrize("name", [*NAMES, "top_z", "top_b"])
def test_a_name_in_quotes_of_any_kind_is_rejected(name: str, quote: str):
    assert taught(f"Unsupported parameter: {quote}{name}{quote} is not supported with this model.") == ({name}, False)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["{}", "'{}", '{}"', "'{}\"", "`{}'", "'x{}'", "'{}x'", "'{}_x'", "[{}]", "'TOP_P'"])
def test_a_name_that_is_not_in_a_matching_pair_is_not(name: str, form: str):
    assert taught(f"the parameter {form.format(name)} is refused") == (set(), False)


@pytest.mark.parametrize(
    ("message", "rejected"),
    [
        ("Unsupported value: 'temperature' does not support 0 with this model.", {"temperature"}),
        ("'reasoning_effort' is not supported", {"reasoning_effort"}),
        ("`reasoning` is not supported", {"reasoning"}),
        ("`temperature` and `top_p` cannot both be specified for this model. Please use only one.", {"top_p"}),
        ("temperature and top_p cannot both be specified", {"top_p"}),
        ("Extra inputs are not permitted: chat_template_args", {"chat_template_args"}),
        ("<chat_template_args> is unknown", {"chat_template_args"}),
        ("unknown fields \"top_k\", 'seed' and `stop`", {"top_k", "seed", "stop"}),
        ("top_p is refused, and so is 'min_p'", set()),
        ("'top_pp', 'top_1' and 'top_'", set()),
        ("max_tokens too large", set()),
        ("", set()),
    ],
)
def test_what_is_rejected(message: str, rejected: set[str]):
    assert taught(message) == (rejected, False)


@pytest.mark.parametrize(
    ("message", "rejected"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
            {"max_tokens"},
        ),
        ("Use 'max_completion_tokens' instead of 'max_tokens'", {"max_tokens"}),
        ("Use MAX_COMPLETION_TOKENS Instead of max_tokens", set()),
        ("max_tokens is not supported; instead, send max_completion_tokens", set()),
    ],
)
def test_a_budget_that_wants_another_name(message: str, rejected: set[str]):
    """part of failover-loop 28, part of v1-api 64"""
    assert taught(message) == (rejected, True)


@pytest.mark.parametrize(
    "message",
    [
        "max_completion_tokens must not exceed 4096",
        "max_tokens and max_completion_tokens can not be given together",
        "Unknown field 'max_completion_tokens'. Please use 'max_tokens' instead.",
        "max_completion_tokens is not known here, use `max_tokens` instead",
    ],
)
def test_what_only_mentions_the_new_name_or_wants_the_old_one_teaches_nothing(message: str):
    """part of failover-loop 29"""
    assert taught(message) == (set(), False)


@pytest.mark.parametrize(
    "message",
    [
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.",
        "Invalid 'stop': array too long. Expected an array with maximum length 4, but got one with length 5 instead.",
        "Invalid 'max_tokens': integer below minimum value, max_completion_tokens, but got 0 instead.",
        "Invalid type for 'seed': expected an integer, but got a string instead.",
        "Invalid value: 'max_tokens'. Supported values are: 'system', 'assistant' and 'user'.",
        "`max_tokens` must be less than or equal to `8192`",
        "'n' must be 1.50",
        "3 is greater than the maximum of 2 - 'temperature'",
        "'x' is not of type 'number' - 'top_p'",
        "'huge' is not one of ['low', 'high'] - 'reasoning_effort'",
        "{'loc': ('body', 'top_p'), 'msg': 'Input should be less than or equal to 1'}",
        "'seed' is out of range",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` "
        "is enabled, a final `assistant` message must start with a thinking block.",
    ],
)
def test_a_complaint_about_a_value_is_the_clients(message: str):
    assert taught(message) == (set(), False)


@pytest.mark.parametrize(
    "message",
    [
        "Completions.create() got an unexpected keyword argument 'seed'",
        "Additional properties are not allowed ('seed' was unexpected)",
        "Invalid parameter: 'seed' is unknown",
        "Unsupported value: 'seed' does not support 7 with this model. Only the default (1) value is supported.",
        'Invalid JSON payload received. Unknown name "seed": Cannot find field.',
        "`seed` is deprecated for this model.",
    ],
)
def test_a_refusal_in_the_words_of_many_vendors(message: str):
    assert taught(message) == ({"seed"}, False)
    assert not repairs.conditional(message)


@pytest.mark.parametrize(
    "message",
    [
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        "`temperature` may only be set to 1 when thinking is enabled",
        "Unsupported value: 'reasoning_effort' does not support 'xhigh'. Supported values are: 'low' and 'high'.",
        "'n' is not supported with tools",
    ],
)
def test_a_condition_repairs_one_request(message: str):
    assert taught(message)[0] and repairs.conditional(message)


@pytest.mark.parametrize(
    ("message", "sent", "expected"),
    [
        ("no 'temperature' here", {"temperature"}, ({"temperature"}, False)),
        ("no 'temperature' here", {"n"}, (set(), False)),
        ("no chat_template_args here", {"n"}, (set(), False)),
        ("temperature and top_p cannot both be specified", {"temperature"}, (set(), False)),
        ("Use 'max_completion_tokens' instead of 'max_tokens'", {"max_tokens"}, ({"max_tokens"}, True)),
        ("Use 'max_completion_tokens' instead of 'max_tokens'", {"max_completion_tokens"}, (set(), False)),
    ],
)
def test_what_was_not_sent_was_not_refused(message: str, sent: set[str], expected: tuple[set[str], bool]):
    assert taught(message, sent=sent) == expected


@pytest.mark.parametrize(
    "message",
    [
        "This response_format type is unavailable now",
        "response_format json_schema is not supported by this model",
        "`json_schema` is unsupported",
        "This model does not support response_format",
        "JSON_SCHEMA is not available",
        "response_format: not implemented",
    ],
)
def test_a_schema_that_is_refused(message: str):
    """part of failover-loop 33"""
    assert taught(message, sent_schema=True) == ({SCHEMA}, False)
    assert taught(message) == (set(), False)


@pytest.mark.parametrize(
    "message",
    [
        "Invalid schema for response_format 'x': not supported keyword",
        "response_format json_schema: invalid schema, unsupported",
        "response_format.json_schema.schema is unsupported",
        "response_format: schema.properties unsupported",
        "response_format is not supported when streaming",
        "json_schema is not supported with tools",
        "response_format must be an object",
        "this feature is not supported",
    ],
)
def test_a_complaint_about_one_schema_or_one_situation_teaches_nothing(message: str):
    """part of failover-loop 34, part of v1-api 66"""
    assert taught(message, sent_schema=True) == (set(), False)


@given(st.text(), st.booleans())
def test_no_message_breaks_it_or_teaches_what_it_does_not_name(message: str, sent_schema: bool):
    found = lesson(message, EVERYTHING, sent_schema=sent_schema)
    assert all(name in message for name in found.rejected - {SCHEMA, "top_p"})


QUOTES = ["'", '"', "`"]
TELLING = ["max_completion_tokens", "instead", "response_format", "json_schema", "unsupported", "chat_template_args"]
PHRASES = ["cannot both be specified", "invalid schema", " when ", " ", "top_q"]
words = st.sampled_from([*QUOTES, *NAMES, *TELLING, *PHRASES])


@given(st.lists(words, max_size=12).map("".join), st.booleans())
def test_no_combination_of_telling_words_teaches_what_it_does_not_name(message: str, sent_schema: bool):
    found = lesson(message, EVERYTHING, sent_schema=sent_schema)
    assert all(name in message for name in found.rejected - {SCHEMA, "top_p"})
    assert sent_schema or SCHEMA not in found.rejected
    assert not found.renames or {"max_tokens", "max_completion_tokens"} <= {
        name for name in ("max_tokens", "max_completion_tokens") if name in message
    }


# -- the text that is looked at


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"a"}}', "a"),
        (b'[{"error":{"message":"a"}},{"error":{"message":"b"}}]', "a\nb"),
        (b'[{"error":{"message":"a"}},5,{"error":"b"},{}]', "a"),
        (b'{"error":"a"}', ""),
        (b'{"message":"a"}', ""),
        (b'{"error":{"message":5}}', ""),
        (b'{"error":{"message":"a"}', ""),
        (b"'temperature'", ""),
        (b"[" * 100_000, ""),
        (b"\xff\xfe", ""),
        (b"", ""),
    ],
)
def test_only_the_message_of_an_error_object_is_looked_at(body: bytes, message: str):
    assert said(body) == message


@given(st.binary())
def test_no_body_breaks_it(body: bytes):
    assert isinstance(said(body), str)


# -- what is remembered


def test_what_was_learned_is_that_of_one_provider_and_one_model():
    learned = Learned()
    assert learned.of("p1", "m") is None
    assert learned.learn("p1", "m", Repair(frozenset({"n"})))
    assert learned.of("p1", "m") == Repair(frozenset({"n"}))
    assert learned.of("p2", "m") is None and learned.of("p1", "M") is None


def test_what_was_learned_is_only_ever_extended():
    learned = Learned()
    assert learned.learn("p", "m", Repair(frozenset({"n"})))
    assert learned.learn("p", "m", Repair(frozenset({"stop"}), RENAME))
    assert not learned.learn("p", "m", Repair(frozenset({"n"}), RENAME))
    assert learned.of("p", "m") == Repair(frozenset({"n", "stop"}), RENAME)


def test_what_two_lessons_have_in_common():
    one, other = Repair(frozenset({"n", "stop"}), RENAME, "budget"), Repair(frozenset({"n"}), thinking="budget")
    assert one & other == Repair(frozenset({"n"}), thinking="budget")
    assert one & Repair(renames=RENAME, thinking="adaptive") == Repair(renames=RENAME)


some_repairs = st.builds(
    Repair, st.frozensets(st.sampled_from([*NAMES, "top_q", SCHEMA])), st.sampled_from([frozenset(), RENAME])
)


@given(st.lists(some_repairs))
def test_learners_merge_in_any_order(lessons: list[Repair]):
    one, other = Learned(), Learned()
    for repair in lessons:
        one.learn("p", "m", repair)
    for repair in reversed(lessons):
        other.learn("p", "m", repair)
    assert one.of("p", "m") == other.of("p", "m")
    for repair in lessons:
        assert not repair - (one.of("p", "m") or NOTHING)


# -- how it changes a body


class Plain(Kind):
    type = "plain"
    label = "Plain"


def members_of(raw: bytes) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])


def built(
    raw: bytes, repair: Repair | None = None, *, kind: Kind | None = None, model_id: str = "m", stream: bool = False
) -> bytes:
    return chat.build_body(members_of(raw), raw, model_id=model_id, kind=kind or Plain(), stream=stream, repair=repair)


def test_what_was_rejected_is_left_out_and_nothing_else():
    out = built(b'{"model":"a","temperature":0.10,"n":1E2,"seed":9007199254740993}', Repair(frozenset({"n", "stop"})))
    assert out == b'{"model":"m","temperature":0.10,"seed":9007199254740993}'


def test_a_budget_moves_to_its_new_name_before_the_old_one_is_left_out():
    """failover-loop 28"""
    out = built(b'{"model":"a","max_tokens":50.0}', Repair(frozenset({"max_tokens"}), RENAME))
    assert out == b'{"model":"m","max_completion_tokens":50.0}'


@pytest.mark.parametrize(
    ("given_", "sent"),
    [
        (b'"max_tokens":50,"max_completion_tokens":60', {"max_completion_tokens": 60}),
        (b'"max_tokens":50,"max_completion_tokens":null', {"max_completion_tokens": 50}),
        (b'"max_completion_tokens":60', {"max_completion_tokens": 60}),
        (b'"max_tokens":null', {"max_completion_tokens": None}),
        (b'"n":1', {"n": 1}),
    ],
)
def test_a_budget_under_the_new_name_is_never_overwritten(given_: bytes, sent: dict[str, object]):
    out = built(b'{"model":"a",%s}' % given_, Repair(renames=RENAME))
    assert json.loads(out) == {"model": "m", **sent}


def test_what_the_gateway_adds_itself_is_left_out_too_once_it_was_refused():
    raw = b'{"model":"a","stream":true}'
    assert "stream_options" not in json.loads(built(raw, Repair(frozenset({"stream_options"})), stream=True))


def test_a_member_called_like_the_note_about_schemas_is_the_clients():
    raw = b'{"model":"a","response_format.json_schema":1}'
    assert json.loads(built(raw, Repair(frozenset({SCHEMA})))) == {"model": "m", "response_format.json_schema": 1}


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
names = st.sampled_from([*NAMES, "max_completion_tokens", "messages", "x", SCHEMA]) | st.text(max_size=4)
bodies = st.dictionaries(names, scalars | st.lists(scalars, max_size=2), max_size=8)


@given(bodies, some_repairs)
def test_a_repair_leaves_all_it_does_not_name_and_twice_is_once(body: dict[str, object], repair: Repair):
    raw = json.dumps({**body, "model": "m"}).encode()
    once = built(raw, repair)
    assert built(once, repair) == once
    before, after = members_of(raw), members_of(once)
    touched = set(repair.rejected - {SCHEMA}) | {name for pair in repair.renames for name in pair}
    assert {n: bytes(v) for n, v in before.items() if n not in touched} == {
        n: bytes(v) for n, v in after.items() if n not in touched
    }
    if repair.renames and "max_tokens" in before:
        expected = before.get("max_completion_tokens", msgspec.Raw(b"null"))
        if bytes(expected) == b"null":
            expected = before["max_tokens"]
        assert bytes(after["max_completion_tokens"]) == bytes(expected)
    assert not repair.rejected & after.keys() - {SCHEMA}


# -- a schema in words

ASKED = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "object"}}}
WORDS = 'Respond with a single JSON object and nothing else. It must conform to this JSON Schema:\n{"type": "object"}'
JSON_MODE = Repair(frozenset({SCHEMA}))


def folded(messages: object, repair: Repair | None = JSON_MODE, **more: object) -> dict[str, object]:
    body = {"model": "a", "messages": messages, "response_format": ASKED}
    return json.loads(built(json.dumps(body).encode(), repair, **more))  # type: ignore[arg-type]


HI = {"role": "user", "content": "hi"}


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize(
    ("content", "joined"),
    [
        ({"content": 'Be brief. \u00e9"\\'}, 'Be brief. \u00e9"\\\n\n' + WORDS),
        (
            {"content": [{"type": "text", "text": "a"}]},
            [{"type": "text", "text": "a"}, {"type": "text", "text": WORDS}],
        ),
        ({"content": []}, [{"type": "text", "text": WORDS}]),
        ({"content": None}, WORDS),
        ({}, WORDS),
    ],
)
def test_the_schema_joins_a_leading_system_message(role: str, content: dict[str, object], joined: object):
    """part of v1-api 65"""
    out = folded([{"role": role, **content}, HI])
    assert out["messages"] == [{"role": role, "content": joined}, HI]
    assert out["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize("first", [HI, {"role": "system", "content": 5}, {"role": 5}, 5, {"role": "assistant"}])
def test_without_one_it_becomes_one(first: object):
    """part of v1-api 65"""
    assert folded([first])["messages"] == [{"role": "system", "content": WORDS}, first]


def test_an_empty_history_and_none_at_all():
    assert folded([])["messages"] == [{"role": "system", "content": WORDS}]
    assert folded("hi")["messages"] == "hi"
    out = json.loads(built(json.dumps({"model": "a", "response_format": ASKED}).encode(), JSON_MODE))
    assert out == {"model": "m", "response_format": {"type": "json_object"}}


@pytest.mark.parametrize(("size", "written"), [(8192, True), (8193, False)])
def test_a_schema_over_8_kib_is_not_written_out(size: int, written: bool):
    """part of v1-api 65"""
    schema = '{"description":"%s"}' % ("x" * (size - 18))
    assert len(schema) == size
    raw = b'{"model":"a","messages":[],"response_format":{"type":"json_schema","json_schema":{"schema":%s}}}'
    out = json.loads(built(raw % schema.encode(), JSON_MODE))
    expected = "Respond with a single JSON object and nothing else."
    if written:
        expected += " It must conform to this JSON Schema:\n" + schema
    assert out["messages"][0]["content"] == expected


@pytest.mark.parametrize("schema", [{}, {"json_schema": None}, {"json_schema": {"schema": []}}, {"schema": {}}])
def test_without_a_schema_object_only_the_form_is_asked_for(schema: dict[str, object]):
    raw = json.dumps({"messages": [], "response_format": {"type": "json_schema", **schema}}).encode()
    content = json.loads(built(raw, JSON_MODE))["messages"][0]["content"]
    assert content == "Respond with a single JSON object and nothing else."


@pytest.mark.parametrize("asked", [{"type": "json_object"}, {"type": "text"}, {}, None, 5, "json_schema", []])
def test_other_formats_are_left_alone(asked: object):
    raw = json.dumps({"model": "m", "messages": [HI], "response_format": asked}).encode()
    assert json.loads(built(raw, JSON_MODE, kind=KINDS["deepseek"])) == json.loads(raw)


def test_a_type_without_schemas_gets_it_before_it_could_refuse():
    """failover-loop 32, v1-api 65"""
    out = folded([HI], None, kind=KINDS["deepseek"])
    assert out["messages"] == [{"role": "system", "content": WORDS}, HI]
    assert out["response_format"] == {"type": "json_object"}


def test_others_keep_it_until_they_refuse():
    out = folded([HI], None, kind=KINDS["openai"])
    assert (out["messages"], out["response_format"]) == ([HI], ASKED)


def test_a_glm_gets_it_in_words_beside_the_schema():
    out = folded([HI], None, model_id="z-ai/GLM-4.6")
    assert out["messages"] == [{"role": "system", "content": WORDS}, HI]
    assert out["response_format"] == ASKED
    assert folded([HI], None, model_id="glm-4.6", kind=KINDS["deepseek"])["response_format"] == {"type": "json_object"}
    assert folded([HI], JSON_MODE, model_id="glm-4.6")["response_format"] == {"type": "json_object"}


values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3), max_leaves=8
)
formats = st.one_of(values, st.fixed_dictionaries({"type": st.just("json_schema"), "json_schema": values}))


@given(
    values | st.lists(st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": values})), formats
)
def test_whatever_is_asked_the_body_stays_json_and_twice_is_once(messages: object, asked: object):
    raw = json.dumps({"model": "m", "messages": messages, "response_format": asked}).encode()
    once = built(raw, JSON_MODE)
    json.loads(once)
    assert built(once, JSON_MODE) == once
