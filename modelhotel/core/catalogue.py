"""The catalogue of runtime settings: the only place with keys, defaults, ranges, labels and help texts.

A setting stands here when something reads it; ``tests/shell/test_catalogue.py`` holds that both ways.
"""

import re
from collections.abc import Callable

from modelhotel.core import durations
from modelhotel.core.options import DAY, MAX_DURATION, REGISTRY, BadValue, Option, show_duration

AUTHENTICATION = "Authentication"
ALERTS = "Alerts"
PROXY = "Proxy"
BREAKER = "Circuit Breaker & Failover"
DISCOVERY = "Model Discovery"
STORAGE = "Data Storage and Logging"
RATES = "Rate Limiting"
SECTIONS = (AUTHENTICATION, ALERTS, DISCOVERY, STORAGE, RATES, BREAKER, PROXY)

_STATUS = re.compile(r"[1-5][0-9]{2}|[1-5]xx", re.IGNORECASE)


def _bool(
    key: str,
    default: bool,
    section: str,
    label: str,
    text: str,
    group: str = "",
    env: str | None = None,
    kill_switch: str | None = None,
    notice: str = "",
) -> Option[bool]:
    word = "true" if default else "false"
    return REGISTRY.add(
        Option(key, "bool", word, section, label, text, group=group, env=env, kill_switch=kill_switch, notice=notice)
    )


def _duration(
    key: str,
    default: str,
    section: str,
    label: str,
    text: str,
    *,
    group: str = "",
    positive: bool = False,
    maximum: float = MAX_DURATION,
    slider: tuple[float, float, float] | None = None,
    zero_word: str = "",
    tokens: dict[str, float] | None = None,
    in_form: bool = True,
    env: str | None = None,
    check: Callable[[str], None] | None = None,
) -> Option[float]:
    return REGISTRY.add(
        Option(
            key,
            "duration",
            default,
            section,
            label,
            text,
            group=group,
            minimum=0.0,
            maximum=maximum,
            positive=positive,
            unit="s",
            slider=slider,
            zero_word=zero_word,
            tokens=tokens,
            in_form=in_form,
            env=env,
            check=check,
        )
    )


def _int(
    key: str,
    default: int,
    low: int,
    high: int,
    section: str,
    label: str,
    text: str,
    *,
    group: str = "",
    unit: str = "",
    slider: tuple[float, float, float] | None = None,
    zero_word: str = "",
    env: str | None = None,
    env_default: str | None = None,
    in_form: bool = True,
    check: Callable[[str], None] | None = None,
) -> Option[int]:
    return REGISTRY.add(
        Option(
            key,
            "int",
            str(default),
            section,
            label,
            text,
            group=group,
            minimum=low,
            maximum=high,
            unit=unit,
            slider=slider,
            zero_word=zero_word,
            env=env,
            env_default=env_default,
            in_form=in_form,
            check=check,
        )
    )


def _float(
    key: str,
    default: str,
    low: float,
    high: float,
    section: str,
    label: str,
    text: str,
    *,
    slider: tuple[float, float, float],
    zero_word: str,
    env_default: str | None = None,
) -> Option[float]:
    return REGISTRY.add(
        Option(
            key,
            "float",
            default,
            section,
            label,
            text,
            minimum=low,
            maximum=high,
            slider=slider,
            zero_word=zero_word,
            env_default=env_default,
        )
    )


REQUEST_TIMEOUT = _duration(
    "request_timeout",
    "1m0s",
    PROXY,
    "Request Timeout",
    "Time for one non-streaming attempt; streams get ten times it, the whole request twice.",
    positive=True,
    slider=(30, 600, 30),
)
TTFT_TIMEOUT = _duration(
    "ttft_timeout",
    "1m0s",
    PROXY,
    "TTFT Timeout",
    "Streams: how long to wait for the first token before failing over. A proxy in front must allow this silence. "
    "Models that think without streaming it, and long prompts, need a longer wait.",
    slider=(0, 300, 5),
    zero_word="Disabled",
)
STREAM_STALL_TIMEOUT = _duration(
    "stream_stall_timeout",
    "30s",
    PROXY,
    "Stream Stall Timeout",
    "Longest silence inside a running stream; three times it after 50 chunks.",
    slider=(0, 600, 10),
    zero_word="Disabled",
)
KEY_CACHE_TTL = _duration(
    "key_cache_ttl",
    "10m0s",
    PROXY,
    "Key Cache TTL",
    "How long a decrypted provider key may stay in memory.",
    positive=True,
    slider=(60, 3600, 60),
)
BARE_MODEL_ROUTING = _bool(
    "bare_model_routing",
    True,
    PROXY,
    "Bare Model Names",
    "A model name without a slash is the failover group of that name, else every provider that has exactly this model.",
)
EXPOSE_USAGE_CHUNK = _bool(
    "expose_usage_chunk",
    False,
    PROXY,
    "Always Send the Usage Chunk",
    "Streams: send the usage chunk to clients that did not ask for it too. Metering is the same either way.",
)
ANSWER_HEADERS = _bool(
    "answer_headers",
    True,
    PROXY,
    "Answer Headers",
    "X-ModelHotel-Provider, -Model, -Attempts and -Overhead-Ms on /v1 answers.",
)

CIRCUIT_BREAKER_ENABLED = _bool(
    "circuit_breaker_enabled",
    True,
    BREAKER,
    "Enable Circuit Breaker",
    "Keeps models that fail out of hotel/ routing for a while. Off: circuits are neither read nor written.",
    "Failover",
)
FAILOVER_ON_RATE_LIMIT = _bool(
    "failover_on_rate_limit",
    True,
    BREAKER,
    "Failover on Rate Limit",
    "A 429 moves on to the next member. Off: the client gets it as the provider wrote it.",
    "Failover",
)
CIRCUIT_BREAKER_THRESHOLD = _int(
    "circuit_breaker_threshold",
    5,
    1,
    100,
    BREAKER,
    "Failure Threshold",
    "Consecutive failures that open a model's circuit.",
    group="Failover",
    slider=(1, 50, 1),
)
CIRCUIT_BREAKER_SPAN_MODELS = _int(
    "circuit_breaker_span_models",
    2,
    1,
    100,
    BREAKER,
    "Models Before Provider Skip",
    "How many models of one provider must be open before the provider is skipped for all of them.",
    group="Failover",
    slider=(1, 20, 1),
)
CIRCUIT_BREAKER_COOLDOWN = _duration(
    "circuit_breaker_cooldown",
    "1m0s",
    BREAKER,
    "Cooldown Period",
    "How long an open circuit waits before it lets one probe through. One good probe closes it.",
    group="Failover",
    positive=True,
    slider=(30, 600, 30),
)
CIRCUIT_BREAKER_PROBE_LEASE = _duration(
    "circuit_breaker_probe_lease",
    "15s",
    BREAKER,
    "Probe Lease",
    "How long one request may hold the probe of a half-open circuit while others go elsewhere.",
    group="Failover",
    maximum=600.0,
    slider=(0, 60, 5),
    zero_word="Everyone",
)
CIRCUIT_BREAKER_QUOTA_PIN_MAX = _duration(
    "circuit_breaker_quota_pin_max",
    "24h0m0s",
    BREAKER,
    "Quota Pin Limit",
    "Ceiling for stretching a cooldown to the reset of a spent quota. Switched off, pins in force stop governing.",
    group="Failover",
    slider=(0, 7 * DAY, 3600),
    zero_word="Disabled",
)
CIRCUIT_BREAKER_PIN_PROBE_INTERVAL = _duration(
    "circuit_breaker_pin_probe_interval",
    "1h0m0s",
    BREAKER,
    "Pin Probe Interval",
    "How often a circuit that waits on an answer's own claim of a spent quota lets one request try it. 0s: never.",
    group="Failover",
    in_form=False,
)
CIRCUIT_BREAKER_BACKOFF_MAX = _duration(
    "circuit_breaker_backoff_max",
    "15m0s",
    BREAKER,
    "Backoff Limit",
    "Ceiling for doubling the cooldown after each failed probe. At or below the cooldown it adds nothing.",
    group="Failover",
    slider=(0, 14400, 60),
    zero_word="Disabled",
)
HEDGING_ENABLED = _bool(
    "hedging_enabled",
    False,
    BREAKER,
    "Hedge Slow Streams",
    "Races a second member of a group when the first is slow to its first token. Streams only.",
    "Hedging",
    notice="A slow start then costs two upstream requests, and a backup that ignores cancellation may keep generating.",
)
HEDGE_DELAY = _duration(
    "hedge_delay",
    "4s",
    BREAKER,
    "Hedge Delay",
    "How long to wait for a first token before the next member is asked too; less counts as 100ms.",
    group="Hedging",
    slider=(1, 15, 1),
)
CIRCUIT_BREAKER_SLOW_CALL_THRESHOLD = _duration(
    "circuit_breaker_slow_call_threshold",
    "0s",
    BREAKER,
    "Slow Call Threshold",
    "An answer slower than this is charged to its circuit like a 5xx, although the client gets it. Streams: the first "
    "token. Long reasoning, image and audio calls count too; 60 s is a sensible first value.",
    group="Failover",
    zero_word="Disabled",
)
RATE_LIMIT_CLASSIFY_ENABLED = _bool(
    "rate_limit_classify_enabled",
    True,
    BREAKER,
    "Classify Rate Limits",
    "Tell a provider that is busy for seconds from one whose quota is spent. Off: every 429 is a plain failure.",
    "Rate Limit (429) Handling",
)
RATE_LIMIT_SATURATION_MAX_WAIT = _duration(
    "rate_limit_saturation_max_wait",
    "60s",
    BREAKER,
    "Busy Threshold",
    "A stated wait up to this means busy, a longer one a spent window. Also the longest wait for a busy provider.",
    group="Rate Limit (429) Handling",
    positive=True,
    slider=(5, 120, 5),
)
RATE_LIMIT_RECENT_SUCCESS_WINDOW = _duration(
    "rate_limit_recent_success_window",
    "60s",
    BREAKER,
    "Recent Success Window",
    "A 429 that can not be read counts as busy when the same model served within this time.",
    group="Rate Limit (429) Handling",
    slider=(10, 300, 10),
)
CIRCUIT_BREAKER_OPEN_ON_EXHAUSTION = _bool(
    "circuit_breaker_open_on_exhaustion",
    True,
    BREAKER,
    "Open on Exhaustion",
    "One answer that says the quota or balance is spent (429, 402) opens the model's circuit without waiting for the "
    "threshold.",
    "Rate Limit (429) Handling",
)
FAILOVER_EXHAUSTION_STATUS_429 = _bool(
    "failover_exhaustion_status_429",
    True,
    BREAKER,
    "Answer 429 When All Busy",
    "A group whose members are all busy or dark answers 429 with Retry-After instead of 502.",
    "Rate Limit (429) Handling",
)
SERVER_ERROR_RETRY_ENABLED = _bool(
    "server_error_retry_enabled",
    True,
    BREAKER,
    "Retry a Transient 5xx Once",
    "The last candidate may repeat once, after a short wait, on 500, 502, 503 and 504.",
    "Rate Limit (429) Handling",
)
RATE_LIMIT_WAIT_IN_PLACE = _duration(
    "rate_limit_wait_in_place",
    "0s",
    BREAKER,
    "Wait in Place",
    "A 429 whose stated wait is at most this long is waited out once on the same candidate, which keeps its prompt "
    "cache, instead of moving on.",
    group="Rate Limit (429) Handling",
    maximum=10.0,
    slider=(0, 10, 1),
    zero_word="Disabled",
)
SERVER_ERROR_RETRY_IN_PLACE = _bool(
    "server_error_retry_in_place",
    False,
    BREAKER,
    "Retry a 5xx in Place",
    "One quick repetition of a 500, 502 or 503 on the same candidate before moving on.",
    "Rate Limit (429) Handling",
)
INFLIGHT_LIMITER_ENABLED = _bool(
    "inflight_limiter_enabled",
    True,
    BREAKER,
    "Adaptive In-flight Limiter",
    "Learn each provider's real concurrency from its busy 429s. Off: learned caps are dropped and nothing is learned; "
    "the most requests at once of a provider still hold.",
    "Adaptive Concurrency",
)
INFLIGHT_GROW_AFTER = _int(
    "inflight_grow_after",
    20,
    1,
    1000,
    BREAKER,
    "Grow After",
    "Clean completions before a capped provider's allowance rises by one.",
    group="Adaptive Concurrency",
    slider=(5, 100, 5),
)
INFLIGHT_FORGET_AFTER = _duration(
    "inflight_forget_after",
    "10m",
    BREAKER,
    "Forget After",
    "Time without a busy signal until the allowance is unlimited again.",
    group="Adaptive Concurrency",
    positive=True,
    slider=(60, 3600, 60),
)
MIDSTREAM_RECOVERY_DEFAULT: Option[str] = REGISTRY.add(
    Option(
        "midstream_recovery_default",
        "enum",
        "off",
        BREAKER,
        "Mid-stream Recovery",
        "For groups that do not say: whether a stream that fails after output has reached the client is finished by "
        "the next candidate.",
        group="Mid-stream Recovery",
        choices=("off", "continue"),
    )
)
MIDSTREAM_RECOVERY_MAX = _int(
    "midstream_recovery_max",
    1,
    1,
    10,
    BREAKER,
    "Recoveries per Request",
    "At most this many recoveries of one request.",
    group="Mid-stream Recovery",
    slider=(1, 5, 1),
)
FAILOVER_ENABLED = _bool(
    "failover_enabled",
    True,
    BREAKER,
    "Failover",
    "Off: only the first candidate of a group is tried and its answer or error returned.",
    "Policy",
    env="FAILOVER_ENABLED",
)


def _check_attempts(text: str) -> None:
    if int(text) < 0:
        raise BadValue(f"failover.max_attempts: must be zero or positive, got {int(text)}")


FAILOVER_MAX_ATTEMPTS = _int(
    "failover_max_attempts",
    0,
    0,
    100,
    BREAKER,
    "Further Candidates",
    "How many further candidates may be contacted after the first.",
    group="Policy",
    zero_word="All",
    env="FAILOVER_MAX_ATTEMPTS",
    check=_check_attempts,
)


def _check_status(word: str) -> None:
    if not _STATUS.fullmatch(word):
        raise BadValue(f'failover.retry_on_statuses: "{word}" is not an HTTP status code or class such as 5xx')


def _check_phrase(phrase: str) -> None:
    if all(word.isdigit() or _STATUS.fullmatch(word) for word in phrase.split()):
        raise BadValue(f'failover.retry_on_errors: "{phrase}" must contain at least one non-numeric word')


FAILOVER_RETRY_ON_STATUSES: Option[tuple[str, ...]] = REGISTRY.add(
    Option(
        "failover_retry_on_statuses",
        "csv",
        "",
        BREAKER,
        "Statuses That Move On",
        "Status codes and classes such as 5xx. Empty: 5xx, 429, 401, 402, 403, 404, 499.",
        group="Policy",
        env="FAILOVER_RETRY_ON_STATUSES",
        check=_check_status,
    )
)
FAILOVER_RETRY_ON_ERRORS: Option[tuple[str, ...]] = REGISTRY.add(
    Option(
        "failover_retry_on_errors",
        "csv",
        "",
        BREAKER,
        "Error Texts That Move On",
        "Phrases that make an error move on whatever its status. Empty: the built-in phrases.",
        group="Policy",
        env="FAILOVER_RETRY_ON_ERRORS",
        check=_check_phrase,
    )
)

SESSION_IDLE_TIMEOUT_MINUTES = _int(
    "session_idle_timeout_minutes",
    60,
    0,
    240,
    AUTHENTICATION,
    "Sign out an idle tab after",
    "A browser in which nobody touches the dashboard for this long is signed out. Sessions elsewhere are not touched.",
    unit="min",
    slider=(0, 240, 5),
    zero_word="∞",
)

RATE_LIMIT_ENABLED = _bool(
    "rate_limit_enabled",
    True,
    RATES,
    "Enable Rate Limiting",
    "Requests per second and tokens per minute of each key and of each account. Budgets do not depend on it.",
    kill_switch="RATE_LIMIT_ENABLED",
)
RATE_LIMIT_RPS = _float(
    "rate_limit_rps",
    "10",
    0,
    10_000,
    RATES,
    "Requests per Second",
    "What a key may ask for in the long run, where it has no value of its own.",
    slider=(0, 200, 5),
    zero_word="Unlimited",
)
RATE_LIMIT_BURST = _int(
    "rate_limit_burst",
    20,
    1,
    10_000,
    RATES,
    "Burst Size",
    "Requests a key that was quiet may send at once.",
    slider=(5, 500, 5),
)
RATE_LIMIT_TPM = _int(
    "rate_limit_tpm",
    0,
    0,
    100_000_000,
    RATES,
    "Tokens per Minute",
    "What a key may use up, where it has no value of its own.",
    zero_word="No cap",
    in_form=False,
)
RATE_LIMIT_IP_ENABLED = _bool(
    "rate_limit_ip_enabled",
    True,
    RATES,
    "IP Rate Limiting",
    "Requests of one client address to the whole server, before it is known who asks.",
    kill_switch="RATE_LIMIT_ENABLED",
)
RATE_LIMIT_IP_RPS = _float(
    "rate_limit_ip_rps",
    "30",
    0,
    10_000,
    RATES,
    "IP Requests per Second",
    "What one address may ask for in the long run.",
    slider=(0, 200, 5),
    zero_word="Unlimited",
    env_default="RATE_LIMIT_IP_RPS",
)
RATE_LIMIT_IP_BURST = _int(
    "rate_limit_ip_burst",
    60,
    1,
    10_000,
    RATES,
    "IP Burst Size",
    "Requests an address that was quiet may send at once.",
    slider=(5, 500, 5),
    env_default="RATE_LIMIT_IP_BURST",
)
RATE_LIMIT_MAX_WAIT_MS = _int(
    "rate_limit_max_wait_ms",
    200,
    0,
    10_000,
    RATES,
    "Max Wait (ms)",
    "How long a request may be held until its turn comes, instead of being refused with 429.",
    unit="ms",
    slider=(0, 10_000, 100),
    zero_word="Refuse at once",
)

DISCOVERY_INTERVAL = _duration(
    "discovery_interval",
    "6h",
    DISCOVERY,
    "Discovery Interval",
    "How often the models of all providers are listed. A change counts from now.",
    slider=(0, 48 * 3600, 1800),
    zero_word="Disabled",
)
DISCOVERY_ON_STARTUP = _bool(
    "discovery_on_startup",
    True,
    DISCOVERY,
    "Discover on Startup",
    "The models of all providers are listed after a start, unless that was done less than five minutes ago.",
)
DISCOVERY_ON_PROVIDER_CREATE = _bool(
    "discovery_on_provider_create",
    True,
    DISCOVERY,
    "Discover on Provider Creation",
    "The dashboard lists a provider's models right after creating it.",
)

RECHECK_MIN = 5.0


def _recheck_interval(text: str) -> None:
    if 0 < durations.parse(text) < RECHECK_MIN:
        raise BadValue(f"provider_recheck_interval must be 0s or at least {show_duration(RECHECK_MIN)}")


PROVIDER_RECHECK_INTERVAL = _duration(
    "provider_recheck_interval",
    "60s",
    DISCOVERY,
    "Recheck Failed Providers",
    "How often the providers are asked again whose models could not be listed, or whose key was refused. "
    "At least 5 seconds.",
    slider=(0, 600, 5),
    zero_word="Disabled",
    env="PROVIDER_RECHECK_INTERVAL",
    check=_recheck_interval,
)

MODEL_PRUNE_DAYS = _int(
    "model_prune_days",
    7,
    0,
    180,
    DISCOVERY,
    "Prune unlisted models after",
    "A model that discovery switched off because its provider no longer lists it is deleted after this long.",
    unit="days",
    slider=(0, 180, 1),
    zero_word="Never",
)
#: Days over which the ups and downs of a model are counted; the age of an alert stays below.
CLAIM_WINDOW_DAYS = 30
DISCOVERY_CLAIM_ALERT_DAYS = _int(
    "discovery_claim_alert_days",
    7,
    1,
    CLAIM_WINDOW_DAYS - 1,
    ALERTS,
    "Unaddressed discrepancy alert (days)",
    "A model that is gone or refused, or a group that discovery switched off, is told once it has waited this long.",
    unit="days",
    slider=(1, CLAIM_WINDOW_DAYS - 1, 1),
)

LOG_RETENTION = _duration(
    "log_retention",
    "",
    STORAGE,
    "Log Retention",
    "Older request rows and log lines are deleted hourly. "
    "A retention shorter than a budget period lets purged spend drop out of it.",
    maximum=87600 * 3600.0,
    slider=(0, 30 * DAY, DAY),
    zero_word="Disabled",
    tokens={"": 0.0, "1d": DAY, "1w": 7 * DAY, "1m": 30 * DAY},
)
STALE_REQUEST_TIMEOUT = _duration(
    "stale_request_timeout",
    "30m0s",
    STORAGE,
    "Stale Request Timeout",
    "Rows left in flight longer than this are marked failed; checked every five minutes.",
    slider=(0, 7200, 300),
    zero_word="Disabled",
)
QUOTA_REFRESH_INTERVAL_MIN = _int(
    "quota_refresh_interval_min",
    5,
    0,
    30,
    STORAGE,
    "Refresh Interval",
    "How often the quotas of the providers are read. Disabled: every quota pin in force is released.",
    group="Quota Badges",
    unit="min",
    slider=(0, 30, 1),
    zero_word="Disabled",
)
AUDIT_RETENTION_DAYS = _int(
    "audit_retention_days",
    90,
    1,
    3650,
    STORAGE,
    "Audit Retention",
    "Audit rows older than this are deleted, at most one pass per hour.",
    unit="days",
    slider=(7, 365, 1),
)
