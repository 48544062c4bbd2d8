"""Every quota in one form: what the dashboard and the metrics are given of each type's payload."""

from datetime import UTC, datetime, timedelta

import pytest

from providers.quota import view

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON = NOW + timedelta(hours=2)
MS, TEXT = round(SOON.timestamp() * 1000), "2026-01-01T14:00:00Z"


def line(name, percent=None, used=None, limit=None, remaining=None, unit="", resets=None):
    return {
        "name": name,
        "used_percent": percent,
        "used": used,
        "limit": limit,
        "remaining": remaining,
        "unit": unit,
        "resets_at": resets,
    }


ZAI = {
    "data": {
        "level": "pro",
        "limits": [
            {"type": "TIME_LIMIT", "unit": 5, "percentage": 1, "usage": 100, "currentValue": 1},
            {"type": "TOKENS_LIMIT", "unit": 3, "percentage": 40, "nextResetTime": MS},
            {"type": "TOKENS_LIMIT", "unit": 6, "usage": 200, "currentValue": 50, "remaining": 150},
        ],
    }
}
KIMI = {
    "user": {"membership": {"level": "LEVEL_BASIC"}},
    "usage": {"limit": "2048", "used": "512", "remaining": "1536", "resetTime": TEXT},
    "limits": [
        {"window": {"duration": 300, "timeUnit": "TIME_UNIT_MINUTE"}, "detail": {"limit": "200", "used": "200"}},
        {"window": {"duration": 7, "timeUnit": "TIME_UNIT_DAY"}, "detail": {"limit": "10", "remaining": "10"}},
        {"window": {"duration": 5, "timeUnit": "TIME_UNIT_FORTNIGHT"}, "detail": {"limit": "10", "remaining": "5"}},
    ],
}
MINIMAX = {
    "base_resp": {"status_code": 0},
    "model_remains": [
        {
            "model_name": "general",
            "current_interval_status": 1,
            "current_interval_remaining_percent": 42,
            "end_time": MS,
            "current_weekly_status": 1,
            "current_weekly_total_count": 200,
            "current_weekly_usage_count": 250,
        }
    ],
}
NANOGPT = {
    "active": True,
    "limits": {"weeklyInputTokens": 1000, "dailyInputTokens": None},
    "dailyInputTokens": None,
    "weeklyInputTokens": {"used": 250, "remaining": 750, "percentUsed": 0.25, "resetAt": MS},
}
NEURALWATT = {
    "balance": {"credits_remaining_usd": 1.5, "total_credits_usd": 6, "credits_used_usd": 4.5},
    "subscription": {"plan": "standard", "kwh_included": 20, "kwh_used": 25, "kwh_remaining": 0},
}
OPENCODE = {"usage": {"rolling": {"status": "ok", "percent": 12.5, "resetsAt": TEXT}, "weekly": {"status": "limited"}}}
OPENROUTER = {"credits_total": 20, "credits_used": 5, "credits_remaining": 15, "usage": 900, "is_free_tier": True}
CAPPED = {"usage": 900, "limit": 10, "limit_remaining": 2.5, "limit_reset": "monthly"}
DEEPSEEK = {
    "is_available": True,
    "balance_infos": [
        {"currency": "CNY", "total_balance": "110.00"},
        {"currency": "USD", "total_balance": "0.50"},
        {"currency": "EUR"},
    ],
}


@pytest.mark.parametrize(
    ("provider_type", "payload", "lines"),
    [
        (
            "zai-coding",
            ZAI,
            [
                line("5h", 40.0, unit="tokens", resets="2026-01-01T14:00:00Z"),
                line("weekly", 25.0, 50.0, 200.0, 150.0, "tokens"),
            ],
        ),
        (
            "kimi-code",
            KIMI,
            [
                line("cycle", 25.0, 512.0, 2048.0, 1536.0, resets="2026-01-01T14:00:00Z"),
                line("5h", 100.0, 200.0, 200.0),
                line("7d", 0.0, 0.0, 10.0, 10.0),
                line("limit 3", 50.0, 5.0, 10.0, 5.0),
            ],
        ),
        (
            "minimax",
            MINIMAX,
            [
                line("general interval", 58.0, resets="2026-01-01T14:00:00Z"),
                line("general weekly", 125.0, 250.0, 200.0, -50.0, "requests"),
            ],
        ),
        ("minimax", {**MINIMAX, "base_resp": {"status_code": 2062}}, []),
        ("nanogpt", NANOGPT, [line("weekly", 25.0, 250.0, 1000.0, 750.0, "tokens", "2026-01-01T14:00:00Z")]),
        (
            "neuralwatt",
            NEURALWATT,
            [line("energy", 125.0, 25.0, 20.0, 0.0, "kWh"), line("credits", 75.0, 4.5, 6.0, 1.5, "USD")],
        ),
        (
            "opencode-go",
            OPENCODE,
            [line("rolling", 12.5, resets="2026-01-01T14:00:00Z"), line("weekly", 100.0)],
        ),
        (
            "openrouter",
            OPENROUTER,
            [line("credits", 25.0, 5.0, 20.0, 15.0, "USD"), line("key", used=900.0, unit="USD")],
        ),
        ("openrouter", CAPPED, [line("key", 75.0, 7.5, 10.0, 2.5, "USD")]),
        (
            "deepseek",
            DEEPSEEK,
            [
                line("balance CNY", remaining=110.0, unit="CNY"),
                line("balance USD", remaining=0.5, unit="USD"),
            ],
        ),
        ("ollama-cloud", {"plan": "pro"}, []),
        ("custom", ZAI, []),
        ("zai-coding", None, []),
        ("nanogpt", {"weeklyInputTokens": {"used": None, "remaining": None}}, []),
    ],
)
def test_each_type_in_the_form_of_all(provider_type, payload, lines):
    assert view.lines(provider_type, payload) == lines


@pytest.mark.parametrize(
    ("provider_type", "payload", "plan"),
    [
        ("zai-coding", ZAI, "pro"),
        ("kimi-code", KIMI, "LEVEL_BASIC"),
        ("neuralwatt", NEURALWATT, "standard"),
        ("neuralwatt", {"subscription": None}, None),
        ("ollama-cloud", {"plan": "pro"}, "pro"),
        ("ollama-cloud", {"plan": 3}, None),
        ("openrouter", OPENROUTER, "free"),
        ("openrouter", CAPPED, None),
        ("deepseek", DEEPSEEK, None),
        ("kimi-code", None, None),
        ("openrouter", [], None),
    ],
)
def test_the_name_of_the_plan_where_one_is_given(provider_type, payload, plan):
    assert view.plan(provider_type, payload) == plan


@pytest.mark.parametrize(
    ("provider_type", "payload", "measured"),
    [
        ("zai-coding", ZAI, [("5h", 0.4, SOON.timestamp()), ("weekly", 0.25, None)]),
        ("minimax", MINIMAX, [("general interval", 0.58, SOON.timestamp()), ("general weekly", 1.25, None)]),
        ("neuralwatt", NEURALWATT, [("energy", 1.25, None), ("credits", 0.75, None)]),
        ("opencode-go", OPENCODE, [("rolling", 0.125, SOON.timestamp()), ("weekly", 1.0, None)]),
        ("opencode-go", {"usage": {"rolling": {"percent": -3, "resetsAt": 4e9}}}, [("rolling", None, None)]),
        ("openrouter", OPENROUTER, []),
        ("deepseek", DEEPSEEK, []),
    ],
)
def test_what_is_measured_is_a_ratio_and_a_date_that_makes_sense(provider_type, payload, measured):
    assert list(view.measured(provider_type, payload, NOW)) == measured
