"""Reading what a provider reported, and estimating what it did not."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import usage as usages
from proxy.usage import MAX_COUNT, Usage


def read(**members):
    return usages.read(msgspec.Raw(json.dumps(members).encode()))


def test_counts_may_be_strings_and_floats():
    """v1-api 67"""
    assert read(prompt_tokens="12", completion_tokens=3.0) == Usage(prompt=12, completion=3)


def test_reasoning_is_part_of_the_completion():
    """v1-api 68"""
    found = read(prompt_tokens=100, completion_tokens=50, completion_tokens_details={"reasoning_tokens": 30})
    assert (found.reasoning, found.total) == (30, 150)


@pytest.mark.parametrize("count", [True, -1, 2.5, "", "many", "1 000", None, [], {}, "nan", "1e999", "٣"])
def test_an_unreadable_count_costs_only_itself(count):
    assert read(prompt_tokens=count, completion_tokens=7) == Usage(completion=7)


def test_a_number_beyond_every_float_costs_only_itself():
    raw = msgspec.Raw(b'{"prompt_tokens":1e999,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":1e999}}')
    assert usages.read(raw) == Usage(completion=7)


@pytest.mark.parametrize("count", [MAX_COUNT + 1, 10**30, 1e18, "9" * 30])
def test_an_absurd_count_is_cut(count):
    assert read(prompt_tokens=count).prompt == MAX_COUNT


@pytest.mark.parametrize("raw", [b"null", b"{}", b"[]", b'"x"', b'{"total_tokens":3}', b'{"prompt_tokens":"x"}', b"{"])
def test_no_readable_count_is_no_usage(raw):
    assert usages.read(msgspec.Raw(raw)) is None


@pytest.mark.parametrize(
    ("members", "hit"),
    [
        ({"prompt_cache_hit_tokens": 4}, 4),
        ({"cache_read_input_tokens": 5}, 5),
        ({"prompt_tokens_details": {"cached_tokens": 6}}, 6),
        ({"prompt_cache_hit_tokens": 0, "cache_read_input_tokens": 5}, 5),
        ({"prompt_cache_hit_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}}, 4),
        ({"prompt_tokens_details": {"cached_tokens": 0}}, 0),
    ],
)
def test_the_first_cache_figure_above_zero_counts(members, hit):
    found = read(prompt_tokens=10, **members)
    assert (found.cache_hit, found.cache_miss, found.cached) == (hit, 10 - hit, True)


def test_without_a_cache_field_nothing_is_said_about_the_cache():
    found = read(prompt_tokens=10, completion_tokens=1, prompt_tokens_details={"audio_tokens": 0})
    assert (found.cache_hit, found.cache_miss, found.cached) == (0, 0, False)


def test_more_cached_than_asked_leaves_no_negative_miss():
    assert read(prompt_tokens=3, prompt_cache_hit_tokens=5).cache_miss == 0


def test_the_later_usage_of_a_stream_wins_but_keeps_cache_figures():
    first = read(prompt_tokens=10, completion_tokens=1, prompt_cache_hit_tokens=4)
    second = read(prompt_tokens=12, completion_tokens=9)
    assert usages.later(first, second) == Usage(12, 9, 0, 4, 8, True)
    third = read(prompt_tokens=12, completion_tokens=9, prompt_cache_hit_tokens=0)
    assert usages.later(first, third).cache_hit == 0
    assert usages.later(None, second) == second
    assert usages.later(first, None) == first
    assert usages.later(None, None) is None


counts = st.none() | st.integers(-3, MAX_COUNT + 3)


@given(counts, counts, counts, counts, counts, counts)
def test_the_fast_reading_says_what_the_tolerant_one_says(prompt, completion, hit, read_hit, cached, reasoning):
    members = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_cache_hit_tokens": hit,
        "cache_read_input_tokens": read_hit,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    text = json.dumps(members).encode()
    try:
        plain = msgspec.json.decode(text, type=usages.Plain)
    except msgspec.ValidationError:
        return
    assert usages.of_plain(plain) == usages.read(msgspec.Raw(text))


def test_a_prompt_is_estimated_from_message_text_and_tools():
    body = {
        "messages": msgspec.Raw(
            json.dumps(
                [
                    {"role": "system", "content": "ab"},
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "é"},
                            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                        ],
                    },
                    {"role": "assistant", "content": None},
                    "nonsense",
                ]
            ).encode()
        ),
        "tools": msgspec.Raw(b'[{"a":1}]'),
    }
    assert usages.prompt_bytes(body) == 2 + 2 + 9
    assert usages.prompt_bytes({}) == 0
    assert usages.prompt_bytes({"messages": msgspec.Raw(b"5"), "tools": msgspec.Raw(b"null")}) == 0


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, 1), (4, 1), (5, 2)])
def test_four_bytes_are_a_token_rounded_up(size, expected):
    assert usages.tokens(size) == expected
