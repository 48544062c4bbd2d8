"""The catalogue against the specification and against the code that reads it."""

import ast
import functools
from pathlib import Path

import pytest

from modelhotel.core import catalogue, options
from modelhotel.core.options import Option

ROOT = Path(catalogue.__file__).resolve().parents[2]
PACKAGES = ("modelhotel", "providers", "failover", "proxy", "requestlogs")
CONSTANTS = {value.key: name for name, value in vars(catalogue).items() if isinstance(value, Option)}
DAY, HOUR = 86400, 3600

# key: (kind, default, low, high, section, label), from the tables of the specification.
SPECIFIED = {
    "request_timeout": ("duration", "1m0s", ">0", 8760 * HOUR, "Proxy", "Request Timeout"),
    "ttft_timeout": ("duration", "1m0s", 0, 8760 * HOUR, "Proxy", "TTFT Timeout"),
    "stream_stall_timeout": ("duration", "30s", 0, 8760 * HOUR, "Proxy", "Stream Stall Timeout"),
    "key_cache_ttl": ("duration", "10m0s", ">0", 8760 * HOUR, "Proxy", "Key Cache TTL"),
    "bare_model_routing": ("bool", "true", None, None, "Proxy", "Bare Model Names"),
    "expose_usage_chunk": ("bool", "false", None, None, "Proxy", "Always Send the Usage Chunk"),
    "answer_headers": ("bool", "true", None, None, "Proxy", "Answer Headers"),
    "circuit_breaker_enabled": ("bool", "true", None, None, catalogue.BREAKER, "Enable Circuit Breaker"),
    "failover_on_rate_limit": ("bool", "true", None, None, catalogue.BREAKER, "Failover on Rate Limit"),
    "circuit_breaker_threshold": ("int", "5", 1, 100, catalogue.BREAKER, "Failure Threshold"),
    "circuit_breaker_span_models": ("int", "2", 1, 100, catalogue.BREAKER, "Models Before Provider Skip"),
    "circuit_breaker_cooldown": ("duration", "1m0s", ">0", 8760 * HOUR, catalogue.BREAKER, "Cooldown Period"),
    "circuit_breaker_probe_lease": ("duration", "15s", 0, 600, catalogue.BREAKER, "Probe Lease"),
    "circuit_breaker_quota_pin_max": ("duration", "24h0m0s", 0, 8760 * HOUR, catalogue.BREAKER, "Quota Pin Limit"),
    "circuit_breaker_pin_probe_interval": ("duration", "1h0m0s", 0, 8760 * HOUR, catalogue.BREAKER, None),
    "circuit_breaker_backoff_max": ("duration", "15m0s", 0, 8760 * HOUR, catalogue.BREAKER, "Backoff Limit"),
    "hedging_enabled": ("bool", "false", None, None, catalogue.BREAKER, "Hedge Slow Streams"),
    "hedge_delay": ("duration", "4s", 0, 8760 * HOUR, catalogue.BREAKER, "Hedge Delay"),
    "circuit_breaker_slow_call_threshold": (
        "duration",
        "0s",
        0,
        8760 * HOUR,
        catalogue.BREAKER,
        "Slow Call Threshold",
    ),
    "rate_limit_classify_enabled": ("bool", "true", None, None, catalogue.BREAKER, "Classify Rate Limits"),
    "rate_limit_saturation_max_wait": ("duration", "60s", ">0", 8760 * HOUR, catalogue.BREAKER, "Busy Threshold"),
    "rate_limit_recent_success_window": (
        "duration",
        "60s",
        0,
        8760 * HOUR,
        catalogue.BREAKER,
        "Recent Success Window",
    ),
    "rate_limit_wait_in_place": ("duration", "0s", 0, 10, catalogue.BREAKER, "Wait in Place"),
    "server_error_retry_in_place": ("bool", "false", None, None, catalogue.BREAKER, "Retry a 5xx in Place"),
    "circuit_breaker_open_on_exhaustion": ("bool", "true", None, None, catalogue.BREAKER, "Open on Exhaustion"),
    "failover_exhaustion_status_429": ("bool", "true", None, None, catalogue.BREAKER, "Answer 429 When All Busy"),
    "server_error_retry_enabled": ("bool", "true", None, None, catalogue.BREAKER, "Retry a Transient 5xx Once"),
    "inflight_limiter_enabled": ("bool", "true", None, None, catalogue.BREAKER, "Adaptive In-flight Limiter"),
    "inflight_grow_after": ("int", "20", 1, 1000, catalogue.BREAKER, "Grow After"),
    "inflight_forget_after": ("duration", "10m", ">0", 8760 * HOUR, catalogue.BREAKER, "Forget After"),
    "midstream_recovery_default": ("enum", "off", None, None, catalogue.BREAKER, "Mid-stream Recovery"),
    "midstream_recovery_max": ("int", "1", 1, 10, catalogue.BREAKER, "Recoveries per Request"),
    "failover_enabled": ("bool", "true", None, None, catalogue.BREAKER, None),
    "failover_max_attempts": ("int", "0", 0, 100, catalogue.BREAKER, None),
    "failover_retry_on_statuses": ("csv", "", None, None, catalogue.BREAKER, None),
    "failover_retry_on_errors": ("csv", "", None, None, catalogue.BREAKER, None),
    "rate_limit_enabled": ("bool", "true", None, None, "Rate Limiting", "Enable Rate Limiting"),
    "rate_limit_rps": ("float", "10", 0, 10_000, "Rate Limiting", "Requests per Second"),
    "rate_limit_burst": ("int", "20", 1, 10_000, "Rate Limiting", "Burst Size"),
    "rate_limit_tpm": ("int", "0", 0, 100_000_000, "Rate Limiting", None),
    "rate_limit_ip_enabled": ("bool", "true", None, None, "Rate Limiting", "IP Rate Limiting"),
    "rate_limit_ip_rps": ("float", "30", 0, 10_000, "Rate Limiting", "IP Requests per Second"),
    "rate_limit_ip_burst": ("int", "60", 1, 10_000, "Rate Limiting", "IP Burst Size"),
    "rate_limit_max_wait_ms": ("int", "200", 0, 10_000, "Rate Limiting", "Max Wait (ms)"),
    "session_idle_timeout_minutes": ("int", "60", 0, 240, "Authentication", "Sign out an idle tab after"),
    "discovery_interval": ("duration", "6h", 0, 8760 * HOUR, "Model Discovery", "Discovery Interval"),
    "discovery_on_startup": ("bool", "true", None, None, "Model Discovery", "Discover on Startup"),
    "provider_recheck_interval": (
        "duration",
        "60s",
        0,
        8760 * HOUR,
        "Model Discovery",
        "Recheck Failed Providers",
    ),
    "discovery_on_provider_create": (
        "bool",
        "true",
        None,
        None,
        "Model Discovery",
        "Discover on Provider Creation",
    ),
    "model_prune_days": ("int", "7", 0, 180, "Model Discovery", "Prune unlisted models after"),
    "discovery_claim_alert_days": ("int", "7", 1, 29, "Alerts", "Unaddressed discrepancy alert (days)"),
    "log_retention": ("duration", "", 0, 87600 * HOUR, "Data Storage and Logging", "Log Retention"),
    "stale_request_timeout": (
        "duration",
        "30m0s",
        0,
        8760 * HOUR,
        "Data Storage and Logging",
        "Stale Request Timeout",
    ),
    "quota_refresh_interval_min": ("int", "5", 0, 30, "Data Storage and Logging", "Refresh Interval"),
    "audit_retention_days": ("int", "90", 1, 3650, "Data Storage and Logging", "Audit Retention"),
}
FIXABLE = {
    "failover_enabled": "FAILOVER_ENABLED",
    "failover_max_attempts": "FAILOVER_MAX_ATTEMPTS",
    "failover_retry_on_statuses": "FAILOVER_RETRY_ON_STATUSES",
    "failover_retry_on_errors": "FAILOVER_RETRY_ON_ERRORS",
    "provider_recheck_interval": "PROVIDER_RECHECK_INTERVAL",
}


@pytest.mark.parametrize("key", options.REGISTRY.options)
def test_a_setting_is_as_the_specification_has_it(key):
    """part of settings 66. Kind, default, range, section and label."""
    option = options.REGISTRY.options[key]
    kind, default, low, high, section, label = SPECIFIED[key]
    assert (option.kind, option.default, option.section) == (kind, default, section)
    assert (option.positive, option.minimum) == ((True, 0) if low == ">0" else (False, low))
    assert option.maximum == high
    assert label in (None, option.label)
    assert option.env == FIXABLE.get(key)


def test_every_setting_that_is_specified_by_now_is_there():
    assert set(SPECIFIED) == set(options.REGISTRY.options) == set(CONSTANTS)


def test_every_setting_can_be_drawn():
    for option in options.REGISTRY.options.values():
        assert option.label and option.help.endswith(".")
        assert option.section in catalogue.SECTIONS
        assert len(option.default) <= options.MAX_LENGTH
        if option.slider:
            low, high, step = option.slider
            assert low < high and step > 0
            assert option.minimum is not None and option.minimum <= low
            assert option.maximum is not None and high <= option.maximum


@functools.cache
def _read_constants() -> set[str]:
    """Every ``catalogue.NAME`` in the code outside of the catalogue and of the pages that show all of them."""
    found: set[str] = set()
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            if file.name in ("catalogue.py", "options.py") or "migrations" in file.parts:
                continue
            tree = ast.parse(file.read_text())
            imported = {
                alias.asname or alias.name: alias.name
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and node.module == "modelhotel.core.catalogue"
                for alias in node.names
            }
            for node in ast.walk(tree):
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and "catalogue" in node.value.id
                ):
                    found.add(node.attr)
                elif isinstance(node, ast.Name) and node.id in imported:
                    found.add(imported[node.id])
    return found


@pytest.mark.parametrize("key", sorted(CONSTANTS))
def test_a_setting_is_read_by_something(key):
    """settings 1.3"""
    assert CONSTANTS[key] in _read_constants()


def test_nothing_reads_a_setting_that_is_not_in_the_catalogue():
    """settings 1.3"""
    named = {name for name in _read_constants() if name.isupper()}
    unknown = {name for name in named if not hasattr(catalogue, name)}
    assert unknown == set()


@pytest.mark.parametrize("variable", FIXABLE.values())
def test_a_bad_variable_names_itself(variable):
    words = {"FAILOVER_ENABLED": "maybe", "FAILOVER_MAX_ATTEMPTS": "-1", "PROVIDER_RECHECK_INTERVAL": "2"}
    bad = words.get(variable, "404,6xx")
    with pytest.raises(options.BadValue, match=f"^{variable}: "):
        options.REGISTRY.fixed({variable: bad})
