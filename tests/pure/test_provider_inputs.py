"""Fields of a provider: what they may hold."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelhotel.core.faults import Refusal
from providers import inputs, sanitize


@pytest.mark.parametrize(
    "name",
    ["a\u200bb", "a\nb", "\nab", "a\u00a0b", "\u00a0a", "x" * 101, "   ", "", "a/b", "a\u2060b", "\ufeffa", "a\u3000"],
)
def test_names_that_can_not_be_asked_for_are_refused(name: str):
    """providers 3"""
    with pytest.raises(Refusal, match="invalid name"):
        inputs.name(name)


@pytest.mark.parametrize("name", ["hotel", "Hotel", " HOTEL "])
def test_hotel_is_reserved(name: str):
    """providers 3"""
    with pytest.raises(Refusal, match='name "hotel" is reserved'):
        inputs.name(name)


def test_a_name_is_trimmed():
    assert inputs.name("  My Prov ") == "My Prov"
    assert inputs.name("x" * 100) == "x" * 100


def test_a_key_is_trimmed_and_holds_no_control_characters():
    """providers 16"""
    assert inputs.trim_key(" sk-abcdef12\r\n") == "sk-abcdef12"
    assert inputs.trim_key("\x00\x1b \t") == ""
    for key in ("sk-abc\ndef", "sk\tabc", "sk\x7fabc"):
        with pytest.raises(Refusal, match="must not contain control characters"):
            inputs.key(key, "long")
    with pytest.raises(Refusal, match="long"):
        inputs.key("k" * 501, "long")


@given(st.text(max_size=40))
def test_trimming_a_key_twice_changes_nothing(text: str):
    once = inputs.trim_key(text)
    assert inputs.trim_key(once) == once and once in text


def test_a_day_to_switch_off_on_is_a_day_from_today_on():
    today = date(2026, 5, 5)
    assert inputs.disable_on("2026-05-05", today) == today
    assert inputs.disable_on(None, today) is None
    with pytest.raises(Refusal, match="must not be in the past"):
        inputs.disable_on("2026-05-04", today)
    for word in ("2026-02-30", "tomorrow", "", "20260505", "2026-05-05T00:00:00", "2026-W20-1"):
        with pytest.raises(Refusal, match="invalid scheduled_disable_on"):
            inputs.disable_on(word, today)


@pytest.mark.parametrize(("given_", "stored"), [("0", "0s"), ("0s", "0s"), ("90s", "1m30s"), (None, None)])
def test_a_slow_call_threshold_is_a_duration(given_: str | None, stored: str | None):
    assert inputs.slow_call(given_) == stored


@pytest.mark.parametrize("word", ["-1s", "soon", "", "5"])
def test_no_duration_no_threshold(word: str):
    with pytest.raises(Refusal):
        inputs.slow_call(word)


def test_text_of_a_provider_is_masked_before_it_is_cut():
    key = "sk-verysecret-1234567890"
    body = f'{{"error": "key {key} of 0d9e0b9e-1111-4222-8333-444455556666\n is bad"}}'.encode()
    for limit in range(1, 120):
        shown = sanitize.clean(body, limit, (key,))
        assert len(shown) <= limit and "verysecret" not in shown and "444455556666" not in shown and "\n" not in shown
    assert sanitize.clean(body, 200, (key,)) == '{"error": "key [REDACTED] of [REDACTED] is bad"}'
