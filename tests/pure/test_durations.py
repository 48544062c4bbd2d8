import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelhotel.core import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1m0s", 60), ("1h30m", 5400), ("24h0m0s", 86400), ("1.5h", 5400), ("250ms", 0.25), ("1d", 86400),
     ("1d12h", 129600), ("0", 0), ("0s", 0), ("30s1m", 90), ("-5s", -5), ("1µs", 1e-6)],
)  # fmt: skip
def test_a_duration_is_read(text, seconds):
    assert durations.parse(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "60", "1", "abc", "1 m", "1m 30s", "m", "1x", "5.5.5s", "1m30", "--5s", "s1"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError):
        durations.parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(60, "1m0s"), (90, "1m30s"), (3600, "1h0m0s"), (86400, "24h0m0s"), (30, "30s"), (0, "0s"), (0.25, "250ms"),
     (1.5, "1.5s")],
)  # fmt: skip
def test_the_canonical_form(seconds, text):
    assert durations.canonical(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(45, "45s"), (90, "1m30s"), (240, "4m"), (3600, "1h"), (5400, "1h30m"), (0.25, "250ms")]
)
def test_the_short_form_never_ends_in_zero_seconds(seconds, text):
    assert durations.short(seconds) == text


@given(st.integers(min_value=0, max_value=10**7))
def test_what_is_written_reads_back(seconds):
    assert durations.parse(durations.canonical(seconds)) == seconds
