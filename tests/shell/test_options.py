"""How texts become values: formats, ranges, precedence, and what a bad stored text reads as."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelhotel.core import catalogue, environment, options
from modelhotel.core.options import BadValue, Option, Registry, show_duration


def option(kind, default, **more):
    return Option("key", kind, default, "Section", "Label", "Help.", **more)


@pytest.mark.parametrize("text", ["true", "false"])
def test_a_bool_is_written_one_way(text):
    assert option("bool", "true").parse(text) is (text == "true")


@pytest.mark.parametrize("text", ["1", "0", "t", "f", "T", "F", "TRUE", "FALSE", "True", "False"])
def test_a_bool_stored_in_an_older_form_is_read_but_not_written(text):
    """settings 24"""
    assert option("bool", "true").parse(text, strict=False) is (text in ("1", "t", "T", "TRUE", "True"))
    with pytest.raises(BadValue, match=r"^key must be true or false$"):
        option("bool", "true").parse(text)


@pytest.mark.parametrize("text", ["yes", "on", "", " true", "tRUE", "no"])
def test_other_words_are_no_bool(text):
    for strict in (True, False):
        with pytest.raises(BadValue):
            option("bool", "true").parse(text, strict=strict)


@pytest.mark.parametrize("text", ["5.0", "0x10", "1e3", "", " 5", "5 ", "+", "-", "1_000", "1,000", "٣", "²"])
def test_what_is_no_whole_number(text):
    """settings 6"""
    with pytest.raises(BadValue, match=r"^key must be a number$"):
        option("int", "1", minimum=0, maximum=100).parse(text)


@given(st.integers(-(10**30), 10**30))
def test_whole_numbers_are_read_or_refused_by_their_range(number):
    one = option("int", "1", minimum=-5, maximum=1000)
    if -5 <= number <= 1000:
        assert one.parse(str(number)) == number
        assert one.parse(f"{number:+d}") == number
    else:
        with pytest.raises(BadValue, match=r"^key must be between -5 and 1000$"):
            one.parse(str(number))


@pytest.mark.parametrize(("text", "value"), [("10", 10.0), ("0.5", 0.5), ("1e2", 100.0), ("-0.0", 0.0), (".5", 0.5)])
def test_decimal_numbers(text, value):
    assert option("float", "1", minimum=0, maximum=10000).parse(text) == value


@pytest.mark.parametrize("text", ["NaN", "nan", "inf", "-Infinity", "", "1_0", " 1", "1 ", "0x1p3", "٣", "1e999"])
def test_what_is_no_decimal_number(text):
    """part of settings 26"""
    with pytest.raises(BadValue, match=r"^key must be a number$"):
        option("float", "1", minimum=0, maximum=10000).parse(text)


def test_bounds_are_printed_without_trailing_zeros():
    with pytest.raises(BadValue, match=r"^key must be between 0.5 and 10000$"):
        option("float", "1", minimum=0.5, maximum=10000.0).parse("0.25")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1m0s", 60),
        ("1h30m", 5400),
        ("24h0m0s", 86400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("5ns", 5e-9),
        ("1d", 86400),
        ("1d12h", 129600),
        ("30s1m", 90),
        ("1s1s", 2),
        ("0", 0),
        ("0s", 0),
    ],
)
def test_durations(text, seconds):
    """settings 16, part of settings 18"""
    assert math.isclose(option("duration", "1s", minimum=0, maximum=1e9).parse(text), seconds)


@pytest.mark.parametrize(
    "text", ["60", "", "1 s", " 1s", "s", "1x", "1h 30m", "12h1d", "--1s", "1e3s", "٣s", "1m0", "00"]
)
def test_what_is_no_duration(text):
    """settings 13"""
    with pytest.raises(BadValue, match=r"^key must be a duration such as 30s or 1m0s$"):
        option("duration", "1s", minimum=0, maximum=1e9).parse(text)


@given(st.integers(1, 10**6), st.sampled_from(["ms", "s", "m", "h"]))
def test_a_duration_is_inside_its_range_or_refused_with_it(number, unit):
    one = option("duration", "1s", minimum=0.0, maximum=600.0)
    seconds = number * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]
    if seconds <= 600:
        assert math.isclose(one.parse(f"{number}{unit}"), seconds)
    else:
        with pytest.raises(BadValue, match=r"^key must be between 0s and 10m$"):
            one.parse(f"{number}{unit}")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0s"), (600, "10m"), (10, "10s"), (31536000, "8760h"), (90, "1m30s")]
)
def test_bounds_of_durations_are_printed_in_the_settings_own_form(seconds, shown):
    assert show_duration(seconds) == shown


def test_an_enum_is_one_of_its_words_in_their_letter_case():
    """part of settings 65e"""
    one = option("enum", "off", choices=("off", "continue"))
    assert one.parse("continue") == "continue"
    for text in ("on", "Off", "", " off"):
        with pytest.raises(BadValue, match=r"^key must be one of off, continue$"):
            one.parse(text)


@given(st.lists(st.text("abc ,", max_size=5), max_size=8))
def test_a_list_is_trimmed_and_each_item_counts_once(parts):
    items = option("csv", "").parse(",".join(parts))
    assert all(item and item == item.strip() and "," not in item for item in items)
    assert len(set(items)) == len(items)


@given(st.sampled_from(["bool", "int", "float", "duration", "csv"]), st.text(max_size=30), st.booleans())
def test_no_text_makes_reading_fail_in_another_way(kind, text, strict):
    default = {"bool": "true", "csv": ""}.get(kind, "1s" if kind == "duration" else "1")
    try:
        option(kind, default, minimum=0, maximum=100).parse(text, strict=strict)
    except BadValue as problem:
        assert str(problem).startswith("key must be ")


def registry(*options):
    made = Registry()
    for one in options:
        made.add(one)
    return made


def test_the_environment_wins_over_the_row_and_the_row_over_the_environments_default():
    """part of settings 30, settings 65a"""
    made = registry(
        Option("fixed", "int", "0", "S", "L", "H", minimum=0, maximum=100, env="FIXED"),
        Option("starts", "int", "30", "S", "L", "H", minimum=0, maximum=100, env_default="STARTS"),
    )
    read = made.values({"fixed": "5", "starts": "20"}, {"FIXED": "2", "STARTS": "50"})
    assert [read[one] for one in made.options.values()] == [2, 20]
    read = made.values({"fixed": "5"}, {"STARTS": "50"})
    assert [read[one] for one in made.options.values()] == [5, 50]
    assert dict(read.texts) == {"fixed": "5", "starts": "50"}
    assert [made.values({}, {})[one] for one in made.options.values()] == [0, 30]


@pytest.mark.parametrize(("text", "value"), [("YES", True), ("1", True), ("true", True), ("No", False), ("0", False)])
def test_the_environment_spells_booleans_freely(text, value):
    one = Option("key", "bool", "true", "S", "L", "H", env="NAME")
    assert registry(one).values({}, {"NAME": text})[one] is value


@pytest.mark.parametrize(("text", "value"), [("30", 30.0), ("2m", 120.0), ("0", 0.0), (" 5s ", 5.0)])
def test_the_environment_may_spell_a_duration_in_seconds(text, value):
    """part of settings 65b"""
    one = Option("key", "duration", "60s", "S", "L", "H", minimum=0, maximum=1000, env="NAME")
    assert registry(one).values({}, {"NAME": text})[one] == value


def test_a_bad_variable_stops_the_start_with_its_name():
    made = registry(Option("key", "int", "0", "S", "L", "H", minimum=0, maximum=9, env="NAME"))
    with pytest.raises(BadValue, match=r"^NAME: key must be between 0 and 9$"):
        made.fixed({"NAME": "10"})
    assert made.fixed({"NAME": "  "}) == {}


def test_a_bad_row_reads_as_the_last_good_value_else_as_the_default(caplog):
    """settings 25"""
    one = option("int", "7", minimum=0, maximum=100)
    made = registry(one)
    assert made.values({"key": "nonsense"}, {})[one] == 7
    assert made.values({"key": "9"}, {})[one] == 9
    for _ in range(1000):
        read = made.values({"key": "nonsense"}, {})
    assert (read[one], read.texts["key"], read.stored["key"]) == (9, "9", "nonsense")
    made.values({"key": "101"}, {})
    assert len(caplog.records) == 2


def test_an_option_whose_default_is_no_value_can_not_be_declared():
    with pytest.raises(BadValue):
        registry(option("int", "200", minimum=0, maximum=100))
    with pytest.raises(ValueError, match="twice"):
        registry(option("csv", ""), option("csv", ""))


def test_what_is_derived_of_options_is_made_once_for_each_set_of_them():
    made = []
    of = options.derived(lambda values: made.append(values) or len(made))
    one, other = options.REGISTRY.values({}, {}), options.REGISTRY.values({}, {})
    assert [of(one), of(one), of(other), of(other), of(one)] == [1, 1, 2, 2, 3]
    assert made == [one, other, one]


def test_a_kill_switch_holds_its_settings_at_false_and_lets_them_be_stored():
    """settings 1.5; settings 29"""
    off = options.REGISTRY.values({"rate_limit_enabled": "true"}, {"RATE_LIMIT_ENABLED": "No"})
    assert not off[catalogue.RATE_LIMIT_ENABLED] and not off[catalogue.RATE_LIMIT_IP_ENABLED]
    on = options.REGISTRY.values({"rate_limit_enabled": "false"}, {"RATE_LIMIT_ENABLED": "true"})
    assert not on[catalogue.RATE_LIMIT_ENABLED] and on[catalogue.RATE_LIMIT_IP_ENABLED]


def test_the_address_limit_starts_with_what_the_environment_says():
    """settings 30"""
    environ = environment.read({"RATE_LIMIT_IP_RPS": " 50 "}).raw
    for stored, value in (({}, 50.0), ({"rate_limit_ip_rps": "20"}, 20.0), ({}, 50.0)):
        assert options.REGISTRY.values(stored, environ)[catalogue.RATE_LIMIT_IP_RPS] == value
    assert options.REGISTRY.values({}, environ)[catalogue.RATE_LIMIT_IP_BURST] == 60
