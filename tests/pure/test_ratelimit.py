"""Reading a 429: the phrase table, the waits that answers state, and which of the two wins (failover-loop 7)."""

import json
import math
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from failover import ratelimit
from failover.ratelimit import DAY, PAID, WEEK, WINDOW, RateClass

NOW = 1_790_000_000.0
CEILING = 60.0
HOUR, MINUTE = 3600.0, 60.0


def reading(body="", ceiling=CEILING, now=NOW, **headers):
    """The reading of a 429; *headers* with underscores for hyphens."""
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return ratelimit.read(body.encode(), given, now=now, ceiling=ceiling)


def brief(found):
    """(class, phrase, the wait that goes with the class)"""
    return found.kind.value, found.phrase, found.retry_after or found.pin_hint


def at(seconds):
    """An HTTP date *seconds* after NOW."""
    return format_datetime(datetime.fromtimestamp(NOW + seconds, UTC), usegmt=True)


# -- the table

EXHAUSTED_ROWS = [
    # body, phrase, hint, entitled, account
    ("code 1113: Insufficient balance or no resource package", "no resource package", PAID, True, False),
    ("Insufficient balance", "insufficient balance", PAID, True, True),
    ("Please recharge", "please recharge", PAID, True, True),
    ('{"error":{"code":"insufficient_quota"}}', "insufficient_quota", PAID, True, True),
    ("You exceeded your current quota, check your plan", "exceeded your current quota", PAID, True, True),
    ("Billing hard limit has been reached", "billing hard limit", PAID, True, True),
    ("Your credit balance is too low", "credit balance is too low", PAID, True, True),
    ("Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-10-01", "limit exhausted", WEEK, False, False),
    ("you have reached your weekly usage limit, upgrade", "weekly usage limit", WEEK, False, False),
    ("Usage limit reached for 5 hour", "usage limit reached", WINDOW, False, False),
    ("session usage limit", "session usage limit", WINDOW, False, False),
    ("you hit a usage limit; upgrade for more", "usage limit", WINDOW, False, False),
    ("overage_limit", "overage_limit", WINDOW, False, False),
    ('{"base_resp":{"status_code": 1008}}', "minimax status_code 1008", PAID, True, True),
    ('{"base_resp":{"status_code":1039}}', "minimax status_code 1039", WINDOW, False, False),
]
SATURATED_ROWS = [
    ("concurrent_budget_exceeded", "concurrent_budget_exceeded"),
    ('{"type":"rate_limit_error","message":"Concurrency reached"}', "rate_limit_error"),
    ('{"error":"Too many concurrent requests"}', "too many concurrent"),
    ("Concurrency limit exhausted, retry shortly", "concurrency limit"),
    ("Rate limit exceeded: free-models-per-min", "rate limit exceeded"),
    ("Limit 3 requests per minute", "requests per minute"),
    ("on tokens per minute (TPM)", "tokens per minute"),
    ("Please try again in a moment", "please try again in"),
    ("Overloaded", "overloaded"),
    ("Slow down", "slow down"),
]


@pytest.mark.parametrize(("body", "phrase", "hint", "entitled", "account"), EXHAUSTED_ROWS)
def test_a_spent_row(body, phrase, hint, entitled, account):
    """part of failover-loop 39, part of failover-loop 40, failover-loop 42"""
    found = reading(body)
    assert brief(found) == ("exhausted", phrase, hint)
    assert (found.entitled, found.account, found.retry_after) == (entitled, account, 0)


@pytest.mark.parametrize(("body", "phrase"), SATURATED_ROWS)
def test_a_busy_row(body, phrase):
    """part of failover-loop 38, failover-loop 41"""
    found = reading(body)
    assert brief(found) == ("saturated", phrase, 2.0)
    assert (found.entitled, found.account, found.pin_hint) == (False, False, 0)


def test_every_row_of_the_table_is_shown_above():
    shown = {row[1] for row in (*EXHAUSTED_ROWS, *SATURATED_ROWS)}
    assert shown == set(ratelimit.PHRASES) and len(ratelimit.PHRASES) == 25


@pytest.mark.parametrize(
    ("body", "phrase"),
    [
        ("rate limit exceeded, and insufficient_quota", "insufficient_quota"),
        ("weekly usage limit, session usage limit", "weekly usage limit"),
        ("overloaded, too many concurrent", "too many concurrent"),
        ('{"status_code": 1039, "other": {"status_code": 1008}}', "minimax status_code 1008"),
        ('{"status_code": 1008, "msg": "slow down"}', "slow down"),
    ],
)
def test_the_first_row_decides_not_the_first_word(body, phrase):
    assert reading(body).phrase == phrase


@pytest.mark.parametrize(
    "body",
    [
        "",
        "go away",
        "limit exhausted",
        "usage limit",
        "rate_limit_error",
        '{"status_code": 1002}',
        '{"status_code": 10081}',
    ],
)
def test_what_no_row_knows_is_unknown(body):
    assert reading(body) == ratelimit.Reading(RateClass.UNKNOWN)


def test_a_body_is_read_to_its_sixteenth_kibibyte():
    assert reading("x" * 9000 + "slow down").phrase == "slow down"
    assert reading("x" * 16 * 1024 + "slow down").phrase == ""
    assert ratelimit.read(b"\xff\xfe slow down \xc3", [], now=NOW, ceiling=CEILING).phrase == "slow down"


# -- waits in headers


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("30", ("saturated", "", 30)),
        ("60", ("saturated", "", 60)),
        ("61", ("exhausted", "", 61)),
        ("1.5", ("saturated", "", 2)),
        ("60.5", ("exhausted", "", 61)),
        ("0", ("unknown", "", 0)),
        ("-5", ("unknown", "", 0)),
        ("0.0", ("unknown", "", 0)),
        (at(-5), ("unknown", "", 0)),
        (at(20), ("saturated", "", 20)),
        (at(600), ("exhausted", "", 600)),
        ("99999999", ("exhausted", "", 99999999)),
        ("soon", ("unknown", "", 0)),
        ("99999999999999999999x", ("unknown", "", 0)),
        ("", ("unknown", "", 0)),
        ("1e3", ("unknown", "", 0)),
        ("inf", ("unknown", "", 0)),
        ("nan", ("unknown", "", 0)),
        ("٣٠", ("unknown", "", 0)),
        ("5 seconds", ("unknown", "", 0)),
        ("9" * 5000, ("exhausted", "", ratelimit.HEADER_WAIT_MAX)),
        ("-" + "9" * 5000, ("unknown", "", 0)),
    ],
)
def test_retry_after_of_an_unrecognised_429(value, wanted):
    """failover-loop 43, part of failover-loop 104"""
    found = ratelimit.read(b"", [(b"retry-after", value.encode("utf-8"))], now=NOW, ceiling=CEILING)
    assert brief(found) == wanted
    assert not found.entitled and not found.account


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"])
def test_every_form_of_an_http_date_is_read(form):
    """part of failover-loop 104"""
    value = datetime.fromtimestamp(NOW + 17, UTC).strftime(form)
    assert ratelimit.retry_after(value.encode(), now=NOW) == 17


@pytest.mark.parametrize(
    ("values", "wait"), [(("soon", "7"), 7), (("7", "9"), 7), (("0", "9"), 0), (("soon", "never"), 0)]
)
def test_of_two_retry_after_the_first_that_reads_counts(values, wait):
    headers = [(b"retry-after", value.encode()) for value in values]
    assert ratelimit.header_wait(headers, now=NOW) == wait


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({"x_ratelimit_reset_requests": "1s", "x_ratelimit_reset_tokens": "6m0s"}, ("exhausted", "", 6 * MINUTE)),
        ({"x_ratelimit_reset": str(int((NOW + 10) * 1000))}, ("saturated", "", 10)),
        ({"x_ratelimit_reset": str(int(NOW + 10))}, ("saturated", "", 10)),
        ({"x_ratelimit_reset": str(int(NOW - 10))}, ("unknown", "", 0)),
        ({"x_ratelimit_reset": "45"}, ("saturated", "", 45)),
        ({"x_ratelimit_reset": "999999999"}, ("exhausted", "", ratelimit.HEADER_WAIT_MAX)),
        ({"x_ratelimit_reset": "20ms"}, ("saturated", "", 0.02)),
        ({"x_ratelimit_reset": "1.5s"}, ("saturated", "", 1.5)),
        ({"x_ratelimit_reset": "-3"}, ("unknown", "", 0)),
        ({"x_ratelimit_reset": "-3s"}, ("unknown", "", 0)),
        ({"x_ratelimit_reset": "tomorrow"}, ("unknown", "", 0)),
        ({"retry_after": "5", "x_ratelimit_reset": "50"}, ("saturated", "", 5)),
        ({"retry_after": "0", "x_ratelimit_reset": "50"}, ("saturated", "", 50)),
        ({"retry_after": "soon", "x_ratelimit_reset": "50"}, ("saturated", "", 50)),
        ({"x_ratelimit_limit_requests": "5"}, ("unknown", "", 0)),
    ],
)
def test_resets_count_where_retry_after_says_nothing(headers, wanted):
    """failover-loop 50, failover-loop 51"""
    assert brief(reading("", **headers)) == wanted


@pytest.mark.parametrize("value", ["0"])
@pytest.mark.parametrize("suffix", ["", "-requests", "-tokens"])
def test_a_remaining_count_of_zero_is_a_signal(suffix, value):
    headers = [(b"content-type", b"0"), (f"x-ratelimit-remaining{suffix}".encode(), value.encode())]
    assert ratelimit.remaining_zero(headers)


@pytest.mark.parametrize("value", ["00", "0.0", "", "1", "-0", " 0"])
def test_any_other_remaining_count_is_none(value):
    """part of failover-loop 61"""
    assert not ratelimit.remaining_zero([(b"x-ratelimit-remaining", value.encode()), (b"x-ratelimit-limit", b"0")])


# -- waits in bodies


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ("please try again in 20ms", 0.02),
        ("Please try again in 6h23m12s.", 6 * HOUR + 23 * MINUTE + 12),
        ("Please retry in 2h35m3.27s.", 2 * HOUR + 35 * MINUTE + 3.27),
        ("retry after 2d", 2 * DAY),
        ("try again after 30 seconds", 30),
        ("try again in 1 sec", 1),
        ("try again in 2.5 minutes", 150),
        ("try again in 3 mins", 180),
        ("retry in 1 hour", HOUR),
        ("retry in 3 days", 3 * DAY),
        ("retry in 5 minutes", 5 * MINUTE),
        ("retry in 31 days, or retry in 2 hours", 2 * HOUR),
        ("retry in 800h, retry in 90s", 90),
        ("retry in 5 minutes; retry in 7s", 7),  # the compound form is read first
    ],
)
def test_free_text_names_a_wait(body, seconds):
    """part of failover-loop 47"""
    found = ratelimit.body_wait(body.lower())
    assert (found.seconds, found.structured) == (pytest.approx(seconds), False)


@pytest.mark.parametrize(
    "body",
    [
        "retry in 20msec",
        "retry in 5minutes",
        "retry in 1h30minutes",
        "retry in 1h30",
        "retry in 5",
        "retry in a minute",
        "retry in 0s",
        "retry in 0 seconds",
        "retry in 31 days",
        "entry in 5s",
        "retry soon, in 5s",
        "retry-after: 5s",
        "retry in 5 fortnights",
        "retry in ٣s",
        "20s",
        "x-retry in" + " " * 9000,
    ],
)
def test_what_is_no_wait_is_none(body):
    assert ratelimit.body_wait(body.lower()) == (0, False)


def test_a_retry_delay_is_read_as_a_member_and_only_so():
    """failover-loop 52"""

    def wait(text):
        return ratelimit.body_wait(text.lower())

    google = {"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "20.5s"}]}}
    assert wait(json.dumps(google)) == (20.5, True)
    assert wait('{"retryDelay" : "0s", "message": "Please retry in 40s"}') == (40, False)
    assert wait('{"retryDelay":"0s","details":{"retryDelay":"7s"}}') == (7, True)
    assert wait('{"retryDelay":"2592001s"}') == (0, False)
    assert wait('{"message":"retryDelay: 5s"}') == (0, False)
    assert wait(json.dumps({"message": json.dumps({"retryDelay": "5s"})})) == (0, False)
    assert wait('{"retryDelay": 5}') == (0, False)


# -- a phrase and a wait


@pytest.mark.parametrize(
    ("body", "headers", "wanted", "entitled", "account"),
    [
        # A short wait in a header or in free text changes nothing.
        ("insufficient_quota", {"retry_after": "5"}, ("exhausted", "insufficient_quota", PAID), True, True),
        (
            "insufficient balance ... try again in 30 seconds",
            {},
            ("exhausted", "insufficient balance", PAID),
            True,
            True,
        ),
        ("session usage limit", {"x_ratelimit_reset": "5"}, ("exhausted", "session usage limit", WINDOW), False, False),
        # A long one in a header is the hint, and a person must still pay.
        ("insufficient_quota", {"retry_after": "7200"}, ("exhausted", "insufficient_quota", 2 * HOUR), True, True),
        # A long one in the body is the hint, and says that nobody has to.
        (
            "exceeded your current quota. Please retry in 2h35m3.27s",
            {},
            ("exhausted", "exceeded your current quota", 9303.27),
            False,
            False,
        ),
        (
            'exceeded your current quota {"retryDelay": "7200s"}',
            {"retry_after": "5"},
            ("exhausted", "exceeded your current quota", 2 * HOUR),
            False,
            False,
        ),
        # The header goes first.
        (
            'exceeded your current quota {"retryDelay": "20s"}',
            {"retry_after": "7200"},
            ("exhausted", "exceeded your current quota", 2 * HOUR),
            True,
            True,
        ),
        # A short one in a machine's words makes it a slot.
        (
            'exceeded your current quota {"retryDelay": "20s"}',
            {},
            ("saturated", "exceeded your current quota", 20),
            False,
            False,
        ),
        (
            'exceeded your current quota {"retryDelay": "60s"}',
            {"retry_after": "5"},
            ("saturated", "exceeded your current quota", 60),
            False,
            False,
        ),
    ],
)
def test_a_stated_wait_beside_a_spent_phrase(body, headers, wanted, entitled, account):
    """failover-loop 44, failover-loop 45, failover-loop 46"""
    found = reading(body, **headers)
    assert brief(found) == (*wanted[:2], pytest.approx(wanted[2]))
    assert (found.entitled, found.account) == (entitled, account)


@pytest.mark.parametrize(
    ("body", "headers", "wanted"),
    [
        ("please try again in 6h23m12s", {}, ("exhausted", "please try again in", 22992)),
        ("please try again in 20ms", {}, ("saturated", "please try again in", 0.02)),
        ("slow down, retry in 3 hours", {"retry_after": "2"}, ("exhausted", "slow down", 3 * HOUR)),
        ("slow down, retry in 10s", {"retry_after": "2"}, ("saturated", "slow down", 10)),
        ("slow down, retry in 10s", {"retry_after": "20"}, ("saturated", "slow down", 20)),
        ("slow down", {"retry_after": "61"}, ("exhausted", "slow down", 61)),
        ("slow down", {"retry_after": "60"}, ("saturated", "slow down", 60)),
        ("slow down", {"retry_after": "0"}, ("saturated", "slow down", 2)),
        ("slow down", {"retry_after": at(-9)}, ("saturated", "slow down", 2)),
    ],
)
def test_a_stated_wait_beside_a_busy_phrase(body, headers, wanted):
    """failover-loop 47, failover-loop 48, part of failover-loop 104"""
    found = reading(body, **headers)
    assert brief(found) == wanted
    assert not found.entitled and not found.account


def test_the_ceiling_is_the_line_between_a_slot_and_a_window():
    for wait in (4, 5, 6, 120, 121):
        for ceiling in (5.0, 120.0):
            kind = reading("", ceiling=ceiling, retry_after=str(wait)).kind
            assert kind is (RateClass.SATURATED if wait <= ceiling else RateClass.EXHAUSTED)


def test_a_default_wait_is_none_that_was_stated():
    assert reading("slow down").stated == 0
    assert reading("slow down", retry_after="3").stated == 3
    assert reading("", retry_after="3").stated == 3
    assert reading('insufficient_quota {"retryDelay": "3s"}').stated == 3
    assert ratelimit.unread([(b"retry-after", b"3")], now=NOW) == ratelimit.Reading(RateClass.UNKNOWN, stated=3)


# -- whatever comes

anything = st.binary(max_size=300) | st.text(max_size=200).map(lambda words: words.encode("utf-8", "surrogatepass"))
numbers = (
    st.integers(-(10**30), 10**30).map(str) | st.floats().map(repr) | st.from_regex(r"[0-9.]{0,40}", fullmatch=True)
)
weekdays = st.sampled_from(["Mon, ", "Tuesday, ", "Sun "])
values = (
    numbers
    | st.from_regex(r"(-?[0-9]{1,9}(\.[0-9]{1,3})?(ms|s|m|h|d)){0,4}", fullmatch=True)
    | st.builds(str.__add__, weekdays, st.text("0123456789 :-+JanFebGMTZ,", max_size=40))
    | st.text(max_size=30)
)
names = st.sampled_from(
    ["retry-after", "x-ratelimit-reset", "x-ratelimit-reset-tokens", "x-ratelimit-reset-requests", "x"]
)
headers = st.lists(
    st.tuples(names.map(str.encode), values.map(lambda v: v.encode("utf-8", "surrogatepass"))), max_size=5
)
phrases = st.sampled_from(["", *(row.name + " " + row.also for row in ratelimit.TABLE), '"status_code":1008'])
bodies = st.builds(
    lambda phrase, lead, run, rest: f"{phrase} {lead}{run} {rest}".encode("utf-8", "surrogatepass"),
    phrases,
    st.sampled_from(["", "retry in ", "try again after ", '"retryDelay":"']),
    values,
    st.text(max_size=30),
)


@given(anything | bodies, headers, st.floats(0, 4e9), st.floats(0.001, 3.2e7))
@example(b'"retryDelay":"' + b"9" * 400 + b's"', [], NOW, CEILING)
@example(b"", [(b"retry-after", b"Sun, 99 Foo 99999999 99:99:99 +9999")], NOW, CEILING)
def test_no_answer_makes_it_raise_and_no_wait_is_out_of_bounds(body, given, now, ceiling):
    found = ratelimit.read(body, given, now=now, ceiling=ceiling)
    for wait in (found.retry_after, found.pin_hint, found.stated):
        assert math.isfinite(wait) and 0 <= wait <= ratelimit.HEADER_WAIT_MAX
    if found.kind is RateClass.SATURATED:
        assert 0 < found.retry_after <= max(ceiling, ratelimit.DEFAULT_WAIT) and found.pin_hint == 0
        assert not found.entitled and not found.account
    elif found.kind is RateClass.EXHAUSTED:
        assert found.pin_hint > 0 and found.retry_after == 0
        assert found.entitled or not found.account
    else:
        assert found == ratelimit.Reading(RateClass.UNKNOWN)


@given(
    st.integers(1, 10**9),
    st.sampled_from(["retry in ", "Try again after "]),
    st.sampled_from(["", ".", ")", ' "', ","]),
)
def test_milliseconds_are_never_minutes(number, lead, end):
    found = ratelimit.body_wait(f"{lead}{number}ms{end}".lower())
    assert found.seconds == pytest.approx(number / 1000)


@given(st.integers(0, 500), st.integers(0, 59), st.integers(0, 59_999), st.sampled_from(["retry in ", "retry after "]))
def test_a_compound_duration_is_the_sum_of_its_parts(hours, minutes, millis, lead):
    wait = hours * HOUR + minutes * MINUTE + millis / 1000
    found = ratelimit.body_wait(f"{lead}{hours}h{minutes}m{millis / 1000}s")
    assert found.seconds == (pytest.approx(wait) if wait else 0)


@given(st.integers(1, 10**6), st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=1))
def test_a_duration_that_goes_on_as_a_word_is_none(number, letter):
    body = f"retry in {number}m{letter}".lower()
    if body[-1] != "s":  # "ms" is a unit
        assert ratelimit.body_wait(body).seconds == 0


@given(st.integers(-(10**6), 10**7))
def test_a_date_is_the_time_left_until_it(seconds):
    found = ratelimit.retry_after(at(seconds).encode(), now=NOW)
    assert found == max(seconds, 0)
