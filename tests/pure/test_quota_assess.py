"""Quota payloads of each type, and what they mean for routing (circuit-breaker 11.4 and 11.5)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.quota import values, windows
from providers.quota.assess import HEALTHY, UNKNOWN, Assessment, assess

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON, LATER, LAST = (NOW + timedelta(hours=hours) for hours in (2, 50, 400))
PAST = NOW - timedelta(minutes=1)
TYPES = ("zai-coding", "kimi-code", "minimax", "neuralwatt", "nanogpt", "opencode-go")


def ms(at):
    return round(at.timestamp() * 1000)


def text(at):
    return at.isoformat().replace("+00:00", "Z")


def out(deadline, source="advisor"):
    return Assessment(True, deadline, source)


def judged(provider_type, payload, reserve=0):
    return assess(provider_type, payload, reserve, NOW)


# --- Z.ai ---------------------------------------------------------------------------------------------------------


def zai(*limits):
    return {"code": 200, "success": True, "data": {"level": "pro", "limits": list(limits)}}


def limit(unit=3, kind="TOKENS_LIMIT", resets=SOON, **members):
    return {"type": kind, "unit": unit, "number": 5, "nextResetTime": resets and ms(resets), **members}


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (zai(limit(percentage=99), limit(6, percentage=12, resets=LATER)), HEALTHY),
        (zai(limit(percentage=100), limit(6, percentage=12, resets=LATER)), out(SOON)),
        (zai(limit(percentage=100), limit(6, percentage=100, resets=LATER)), out(SOON)),
        (zai(limit(percentage=40, remaining=0)), HEALTHY),
        (zai(limit(percentage=101, remaining=0)), out(SOON)),
        (zai(limit(percentage=-1, remaining=3)), HEALTHY),
        (zai(limit(remaining=0)), out(SOON)),
        (zai(limit(remaining=-5)), out(SOON)),
        (zai(limit()), UNKNOWN),
        (zai(limit(percentage=100, kind="TIME_LIMIT")), UNKNOWN),
        (zai(limit(1, percentage=100), limit(percentage=5)), HEALTHY),
        (zai(limit(percentage=100, resets=PAST)), HEALTHY),
        (zai(limit(percentage=100, resets=None)), UNKNOWN),
        (zai(limit(percentage=100, resets=None), limit(6, percentage=100, resets=LATER)), out(LATER)),
        (zai(), UNKNOWN),
        ({"data": {"limits": {"type": "TOKENS_LIMIT"}}}, UNKNOWN),
        ({"data": None}, UNKNOWN),
    ],
)
def test_zai_judges_its_token_windows_by_percentage_first(payload, found):
    """circuit-breaker 60"""
    assert judged("zai-coding", payload) == found


# --- Kimi ---------------------------------------------------------------------------------------------------------


def detail(resets=SOON, **members):
    return {"resetTime": text(resets), **members}


def kimi(usage, *details):
    return {"usage": usage, "limits": [{"window": {"duration": 300}, "detail": entry} for entry in details]}


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (kimi(detail(LATER, limit="100", used="40", remaining="60"), detail(limit="20", remaining="20")), HEALTHY),
        (kimi(detail(LATER, limit="100", used="100")), out(LATER)),
        (kimi(detail(LATER, limit="100", remaining="0")), out(LATER)),
        (kimi(detail(LATER, remaining="5"), detail(limit="20", used="20")), out(SOON)),
        (kimi(detail(LATER, limit=100, used=99)), HEALTHY),
        (kimi(detail(LATER, used="100")), UNKNOWN),
        (kimi(detail(LATER, limit="many", used="100"), detail(limit="20", used="1")), HEALTHY),
        (kimi({}), UNKNOWN),
        ({"limits": [None, {"detail": 5}, {"detail": detail(limit="2", used="2")}]}, out(SOON)),
    ],
)
def test_kimi_leaves_zero_members_out(payload, found):
    """circuit-breaker 60"""
    assert judged("kimi-code", payload) == found


# --- MiniMax ------------------------------------------------------------------------------------------------------


def minimax(*entries, code=0):
    return {"model_remains": list(entries), "base_resp": {"status_code": code, "status_msg": "success"}}


def remains(status=1, weekly=3, **members):
    named = {"model_name": "general", "end_time": ms(SOON), "weekly_end_time": ms(LATER)}
    states = {"current_interval_status": status, "current_weekly_status": weekly}
    return {**named, **states, **members}


def interval(total=None, used=None, percent=None, prefix="current_interval"):
    given = {"total_count": total, "usage_count": used, "remaining_percent": percent}
    return {f"{prefix}_{name}": value for name, value in given.items() if value is not None}


def weekly(**members):
    return interval(prefix="current_weekly", **members)


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (minimax(remains(**interval(percent=3))), HEALTHY),
        (minimax(remains(**interval(percent=0))), out(SOON)),
        (minimax(remains(3, **interval(percent=0))), UNKNOWN),
        (minimax(remains(3, 1, **interval(percent=0), **weekly(percent=40))), HEALTHY),
        (minimax(remains(1, 1, **interval(percent=9), **weekly(percent=0))), out(LATER)),
        (minimax(remains(**interval(total=100, used=100, percent=50))), out(SOON)),
        (minimax(remains(**interval(total=100, used=99, percent=0))), HEALTHY),
        (minimax(remains(**interval(total=0, used=0, percent=10))), HEALTHY),
        (minimax(remains(**interval(percent=-3))), UNKNOWN),
        (minimax(remains(**interval(percent=101))), UNKNOWN),
        (minimax(remains(**interval(percent=0)), code=1004), UNKNOWN),
        ({"model_remains": [remains(**interval(percent=0))]}, UNKNOWN),
    ],
)
def test_minimax_judges_what_is_in_the_plan(payload, found):
    """circuit-breaker 60"""
    assert judged("minimax", payload) == found


# --- Neuralwatt, NanoGPT, OpenCode ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("energy", "credits", "found"),
    [
        (0, 5, HEALTHY),
        (0, 0, out(SOON)),
        (-1, -0.5, out(SOON)),
        (3, 0, HEALTHY),
        (0, None, UNKNOWN),
        (None, 0, UNKNOWN),
    ],
)
def test_neuralwatt_is_spent_when_energy_and_credits_are(energy, credits, found):
    """circuit-breaker 60"""
    subscription = {"kwh_included": 50, "current_period_end": text(SOON)}
    if energy is not None:
        subscription["kwh_remaining"] = energy
    balance = {} if credits is None else {"credits_remaining_usd": credits}
    assert judged("neuralwatt", {"subscription": subscription, "balance": balance}) == found
    assert judged("neuralwatt", {"subscription": subscription, "balance": balance}, reserve=50) == found


def nanogpt(weekly_left, daily_left=10, overage=False):
    def counter(left, resets):
        return {"used": 100 - left, "remaining": left, "percentUsed": (100 - left) / 100, "resetAt": ms(resets)}

    return {
        "active": True,
        "allowOverage": overage,
        "dailyInputTokens": counter(daily_left, SOON),
        "weeklyInputTokens": counter(weekly_left, LATER),
    }


@pytest.mark.parametrize(
    ("payload", "reserve", "found"),
    [
        (nanogpt(40), 0, HEALTHY),
        (nanogpt(0), 0, out(LATER)),
        (nanogpt(40, 0), 0, out(SOON)),
        (nanogpt(0, 0), 0, out(SOON)),
        (nanogpt(0, overage=True), 0, HEALTHY),
        (nanogpt(0, overage=True), 10, out(LATER, "reserve")),
        (nanogpt(-20, overage=True), 10, out(LATER, "reserve")),
        (nanogpt(10), 10, out(LATER, "reserve")),
        (nanogpt(11), 10, HEALTHY),
        ({"allowOverage": False, "weeklyInputTokens": {"used": 3}}, 0, UNKNOWN),
    ],
)
def test_nanogpt_stops_at_its_windows_unless_overage_is_allowed(payload, reserve, found):
    """circuit-breaker 59"""
    assert judged("nanogpt", payload, reserve) == found


def opencode(**given):
    at = {"rolling": SOON, "weekly": LATER, "monthly": LAST}
    return {"usage": {name: {"resetsAt": text(at[name]), **members} for name, members in given.items()}}


OK = {"status": "ok", "percent": 10}


@pytest.mark.parametrize(
    ("payload", "reserve", "found"),
    [
        (opencode(rolling=OK, weekly=OK, monthly=OK), 0, HEALTHY),
        (opencode(rolling={"status": " OK ", "percent": 99.9}), 0, HEALTHY),
        (opencode(rolling={"status": "ok", "percent": 100}), 0, out(SOON)),
        (opencode(weekly={"status": "limited", "percent": 4}), 0, out(LATER)),
        (opencode(weekly={"status": "Exceeded"}), 0, out(LATER)),
        (opencode(weekly={}, monthly=OK), 0, HEALTHY),
        (opencode(weekly={"percent": "100"}), 0, out(LATER)),
        ({"usage": {}}, 0, UNKNOWN),
        (opencode(rolling={"status": "ok", "percent": 95}, monthly={"status": "ok", "percent": 79}), 20, HEALTHY),
        (opencode(monthly={"status": "ok", "percent": 80}), 20, out(LAST, "reserve")),
    ],
)
def test_opencode_has_three_windows(payload, reserve, found):
    assert judged("opencode-go", payload, reserve) == found


# --- reserve ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weekly_used", "hours_used", "reserve", "found"),
    [
        (80, 10, 20, out(LATER, "reserve")),
        (79, 10, 20, HEALTHY),
        (79, 85, 20, HEALTHY),
        (80, 10, 0, HEALTHY),
        (10, 10, 90, out(LATER, "reserve")),
        (80, 100, 20, out(LATER)),
        (100, 10, 20, out(LATER)),
        (79, 100, 20, out(SOON)),
    ],
)
def test_a_reserve_is_kept_of_the_longest_window_only(weekly_used, hours_used, reserve, found):
    """circuit-breaker 58"""
    payload = zai(limit(percentage=hours_used), limit(6, percentage=weekly_used, resets=LATER))
    assert judged("zai-coding", payload, reserve) == found


def test_a_reserve_needs_a_date_that_is_to_come():
    for resets in (None, PAST):
        assert judged("zai-coding", zai(limit(6, percentage=90, resets=resets)), 20) == HEALTHY


@pytest.mark.parametrize(
    ("provider_type", "payload", "found"),
    [
        ("kimi-code", kimi(detail(LATER, limit="100", remaining="20"), detail(limit="10", remaining="1")), LATER),
        ("minimax", minimax(remains(1, 1, **interval(percent=60), **weekly(total=10, used=8))), LATER),
        ("minimax", minimax(remains(1, 1, **interval(percent=60), **weekly(percent=20))), LATER),
    ],
)
def test_the_longest_window_of_each_type(provider_type, payload, found):
    assert judged(provider_type, payload, 20) == out(found, "reserve")
    assert judged(provider_type, payload, 10) == HEALTHY


def test_who_keeps_a_reserve():
    assert {name for name in (*TYPES, "openrouter", "custom") if windows.keeps_reserve(name)} == set(TYPES) - {
        "neuralwatt"
    }


# --- reading foreign values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (1_767_276_000, datetime(2026, 1, 1, 14, tzinfo=UTC)),
        (1_767_276_000_000, datetime(2026, 1, 1, 14, tzinfo=UTC)),
        ("1767276000", datetime(2026, 1, 1, 14, tzinfo=UTC)),
        ("1767276000000", datetime(2026, 1, 1, 14, tzinfo=UTC)),
        ("2026-01-01T15:00:00+01:00", datetime(2026, 1, 1, 14, tzinfo=UTC)),
        ("2026-01-01T14:00:00.000Z", datetime(2026, 1, 1, 14, tzinfo=UTC)),
        *((value, None) for value in (0, -5, "0", "soon", "", None, True, [], "2026-01-01T14:00:00", 1e30, "nan")),
    ],
)
def test_an_instant_is_read_or_it_is_none(value, found):
    assert values.instant(value) == found


@pytest.mark.parametrize("provider_type", ["openrouter", "deepseek", "ollama-cloud", "custom", ""])
def test_other_types_are_not_understood(provider_type):
    assert judged(provider_type, zai(limit(percentage=100)), 50) == UNKNOWN


NUMBERS = (0, -1, 100, 1e300, 10**400, float("nan"), float("inf"), ms(LATER))
WORDS = ("", "0", "-5", "x", "9" * 400, text(PAST), text(SOON), "9999-12-31T23:59:59Z", "0001-01-01")
THINGS = (None, True, [], [None], {}, [[]], {"usage": 3}, {"limits": [1]})
FOREIGN = st.sampled_from((*NUMBERS, *WORDS, *THINGS))
GOOD = {
    "zai-coding": zai(limit(percentage=100), limit(6, percentage=95, resets=LATER)),
    "kimi-code": kimi(detail(LATER, limit="9", used="9"), detail(limit="9", remaining="0")),
    "minimax": minimax(remains(1, 1, **interval(total=9, used=9), **weekly(percent=0))),
    "neuralwatt": {
        "subscription": {"kwh_remaining": 0, "current_period_end": text(SOON)},
        "balance": {"credits_remaining_usd": 0},
    },
    "nanogpt": nanogpt(0, 0),
    "opencode-go": opencode(rolling={"percent": 100}, monthly={"status": "no"}),
}


def _places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


def _with(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _with(value[path[0]], path[1:], new)
    return copy


@given(st.data())
def test_no_payload_breaks_the_judgement_and_every_deadline_is_to_come(data):
    provider_type = data.draw(st.sampled_from(TYPES))
    payload = GOOD[provider_type]
    for _ in range(data.draw(st.integers(0, 3))):
        payload = _with(payload, data.draw(st.sampled_from(list(_places(payload)))), data.draw(FOREIGN))
    found = judged(provider_type, payload, data.draw(st.sampled_from(range(0, 100, 10))))
    assert found.deadline is None or (found.understood and found.deadline > NOW)
    assert (found.deadline is None) == (found.source == "")


def _without_numbers(value):
    if isinstance(value, dict):
        return {key: _without_numbers(inner) for key, inner in value.items() if not _is_number(inner)}
    return [_without_numbers(entry) for entry in value] if isinstance(value, list) else value


def _is_number(value):
    return isinstance(value, int | float) or (isinstance(value, str) and value.isdigit())


@pytest.mark.parametrize("reserve", [0, 50])
@pytest.mark.parametrize("provider_type", TYPES)
def test_a_number_that_is_missing_is_never_taken_for_zero(provider_type, reserve):
    payload = _without_numbers(GOOD[provider_type])
    if provider_type == "opencode-go":
        del payload["usage"]["monthly"]["status"]
    assert judged(provider_type, payload, reserve) == UNKNOWN


@given(st.integers(0, 90).map(lambda n: n // 10 * 10), st.integers(0, 99), st.integers(0, 99))
def test_a_larger_reserve_never_frees_a_provider(reserve, weekly_used, hours_used):
    payload = zai(limit(percentage=hours_used), limit(6, percentage=weekly_used, resets=LATER))
    if judged("zai-coding", payload, reserve).deadline is not None:
        assert judged("zai-coding", payload, min(reserve + 10, 90)).deadline is not None


# --- the cases of the specification ---------------------------------------------------------------------------------


def test_zai_is_out_by_its_percentage_and_by_what_remains_only_without_one():
    """providers 66"""
    assert judged("zai-coding", zai(limit(percentage=40, remaining=0))) == HEALTHY
    assert judged("zai-coding", zai(limit(percentage=100))) == out(SOON)
    assert judged("zai-coding", zai(limit(percentage=140, remaining=0))) == out(SOON)
    assert judged("zai-coding", zai(limit(percentage=100, resets=PAST))) == HEALTHY


def test_kimi_and_minimax_are_judged_by_what_they_say_and_by_nothing_else():
    """providers 67"""
    assert judged("kimi-code", kimi(detail(LATER, limit="100", used="100"))) == out(LATER)
    assert judged("kimi-code", kimi(detail(LATER, limit="100"))) == UNKNOWN
    other = interval(percent=0) | weekly(percent=70)
    assert judged("minimax", minimax(remains(3, 1, **other))) == HEALTHY
    assert judged("minimax", minimax(remains(1, 1, **other), code=2062)) == UNKNOWN


def test_nanogpt_goes_on_into_overage_but_not_into_the_reserve():
    """providers 68"""
    assert judged("nanogpt", nanogpt(0, overage=True)) == HEALTHY
    assert judged("nanogpt", nanogpt(15, overage=True), 20) == out(LATER, "reserve")
    assert judged("nanogpt", nanogpt(40, 5), 20) == HEALTHY
