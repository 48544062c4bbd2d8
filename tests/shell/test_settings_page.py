"""How the settings page lays out the breaker: columns, groups, controls, and what its switches make moot."""

from modelhotel.core import catalogue
from modelhotel.core.options import REGISTRY
from modelhotel.site import settings_page
from modelhotel.site.settings_page import Row

BREAKER, CLASSIFY, HEDGING = "circuit_breaker_enabled", "rate_limit_classify_enabled", "hedging_enabled"
LIMITER, FAILOVER = "inflight_limiter_enabled", "failover_enabled"
HOUR = 3600
# group: [(key, slider in the setting's unit, word of a zero, switches that make it moot)], by column.
LEFT = {
    "Failover": [
        ("circuit_breaker_enabled", None, "", []),
        ("failover_on_rate_limit", None, "", []),
        ("circuit_breaker_threshold", (1, 50, 1), "", [BREAKER]),
        ("circuit_breaker_span_models", (1, 20, 1), "", [BREAKER]),
        ("circuit_breaker_cooldown", (30, 600, 30), "", [BREAKER]),
        ("circuit_breaker_probe_lease", (0, 60, 5), "Everyone", [BREAKER]),
        ("circuit_breaker_quota_pin_max", (0, 168 * HOUR, HOUR), "Disabled", [BREAKER]),
        ("circuit_breaker_backoff_max", (0, 240 * 60, 60), "Disabled", [BREAKER]),
        ("circuit_breaker_slow_call_threshold", None, "Disabled", [BREAKER]),
    ],
    "Rate Limit (429) Handling": [
        ("rate_limit_classify_enabled", None, "", []),
        ("rate_limit_saturation_max_wait", (5, 120, 5), "", [CLASSIFY]),
        ("rate_limit_recent_success_window", (10, 300, 10), "", [CLASSIFY]),
        ("circuit_breaker_open_on_exhaustion", None, "", [BREAKER, CLASSIFY]),
        ("failover_exhaustion_status_429", None, "", []),
        ("server_error_retry_enabled", None, "", []),
        ("rate_limit_wait_in_place", (0, 10, 1), "Disabled", []),
        ("server_error_retry_in_place", None, "", []),
    ],
    "Policy": [
        ("failover_enabled", None, "", []),
        ("failover_max_attempts", None, "All", [FAILOVER]),
        ("failover_retry_on_statuses", None, "", []),
        ("failover_retry_on_errors", None, "", []),
    ],
}
RIGHT = {
    "Hedging": [("hedging_enabled", None, "", []), ("hedge_delay", (1, 15, 1), "", [HEDGING])],
    "Adaptive Concurrency": [
        ("inflight_limiter_enabled", None, "", []),
        ("inflight_grow_after", (5, 100, 5), "", [LIMITER]),
        ("inflight_forget_after", (60, 3600, 60), "", [LIMITER]),
    ],
    "Mid-stream Recovery": [
        ("midstream_recovery_default", None, "", []),
        ("midstream_recovery_max", (1, 5, 1), "", []),
    ],
}


def test_the_breakers_section_has_its_groups_in_two_columns_and_each_control_as_specified():
    """settings 3.2 and 6; the interval of the pin probes has no control."""
    rows = [
        Row(option, option.default, option.default, False, "", "", settings_page.switches_of(option.key))
        for option in REGISTRY.options.values()
    ]
    (columns,) = [one["columns"] for one in settings_page.sections(rows) if one["title"] == catalogue.BREAKER]
    shown = [
        [
            (group, [(row.option.key, row.option.slider, row.option.zero_word, row.switches) for row in inside])
            for group, inside in column
        ]
        for column in columns
    ]
    assert shown == [list(LEFT.items()), list(RIGHT.items())]


def test_a_switch_that_costs_something_warns_of_it():
    notice = catalogue.HEDGING_ENABLED.notice
    assert "two upstream requests" in notice and "ignores cancellation" in notice
    assert "image and audio calls count too" in catalogue.CIRCUIT_BREAKER_SLOW_CALL_THRESHOLD.help
