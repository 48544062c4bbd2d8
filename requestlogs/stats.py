"""Figures over the request log (operations 5): one statement each over the sums of ``rollup.py``.

A window that does not begin with a minute has its first seconds read from the rows, so figures are exact. Names are
those of today: a provider or key that was renamed counts under its new one.
"""

from collections.abc import Mapping

from django.db import connection

from providers.models import Provider
from requestlogs import ports, rollup, shares
from requestlogs.measures import MODELS, TRAFFIC
from requestlogs.statements import DAY, Row, Scope, Statement, Window, mean, rows

HOUR = 3600
#: ``period`` -> length of the window in seconds.
PERIODS = {"1h": HOUR, "24h": DAY, "7d": 7 * DAY}
#: ``metric`` -> the sum names are ranked by.
METRICS = {"requests": "requests", "tokens": "tokens_prompt + tokens_completion", "cost": "cost_e10"}
_DOLLAR = 1e10
DELETED = "Deleted"
TOP_MODELS, TOP_PROVIDERS, TOP_LATENCY, LATENCY_SAMPLES = 10, 5, 6, 3


_LABEL = """CASE
    WHEN LOWER(SUBSTR(model, 1, 6)) = 'hotel/' THEN LOWER(model)
    WHEN model = '' OR provider_name IS NULL THEN model
    WHEN resolved <> '' THEN provider_name || '/' || resolved
    ELSE provider_name || '/' || SUBSTR(model, {at} + 1) END"""


Parts = dict[str, Row]


def _traffic(scope: Scope, window: Window, *parts: str) -> dict[str, Parts]:
    """Sums of the window: ``total`` under the empty name, and as asked for by id of ``provider`` and of ``key``."""
    head, params = Statement(TRAFFIC, scope, window).known()
    sums = TRAFFIC.summed("known")
    key = f"CASE WHEN key = '' THEN '=' || key_name WHEN key IN (SELECT id FROM living) THEN key ELSE '{DELETED}' END"
    selects = {
        "total": f"SELECT 'total' AS part, '' AS name, {sums} FROM known",
        "provider": f"SELECT 'provider', provider, {sums} FROM known WHERE provider <> '' GROUP BY provider",
        "key": f"SELECT 'key', {key}, {sums} FROM known WHERE key <> '' OR key_name <> '' GROUP BY 2",
    }
    found: dict[str, Parts] = {part: {} for part in ("total", *parts)}
    for row in rows(head + " UNION ALL ".join(selects[part] for part in found), params):
        found[row.pop("part")][row.pop("name")] = row
    return found


def _models(scope: Scope, window: Window, metric: str) -> dict[str, float]:
    """The models with most of *metric*, under the names their providers have today."""
    head, params = Statement(MODELS, scope, window).known()
    at, collation = "INSTR(model, '/')", ""
    if connection.vendor != "sqlite":
        at, collation = "STRPOS(model, '/')", ' COLLATE "C"'
    sql = f"""{head}, offered AS MATERIALIZED (SELECT CAST(id AS text) AS id, name AS provider_name FROM providers),
    labelled AS (SELECT known.*, {_LABEL.format(at=at)} AS label
        FROM known LEFT JOIN offered ON offered.id = known.provider)
    SELECT label, SUM({METRICS[metric]}) AS value FROM labelled WHERE label <> '' GROUP BY label
    HAVING SUM({METRICS[metric]}) > 0 ORDER BY 2 DESC, label{collation} LIMIT {TOP_MODELS}"""
    return {row["label"]: _shown(int(row["value"]), metric) for row in rows(sql, params)}


def _by_name(parts: Mapping[str, Row]) -> Parts:
    """Sums by provider id as sums by name; without those of providers that are gone."""
    names = {rollup.as_text(str(key)): name for key, name in Provider.objects.values_list("pk", "name")}
    return {names[provider]: row for provider, row in parts.items() if provider in names}


def _value(row: Row, metric: str) -> int:
    if metric == "tokens":
        return int(row["tokens_prompt"] + row["tokens_completion"])
    return int(row["cost_e10" if metric == "cost" else "requests"])


def _shown(value: int, metric: str) -> float:
    """A sum as the API gives it: costs in dollars."""
    return value / _DOLLAR if metric == "cost" else value


def requests_in(scope: Scope, window: Window) -> int:
    """How many requests arrived."""
    head, params = Statement(TRAFFIC, scope, window).known()
    return int(rows(f"{head} SELECT COALESCE(SUM(requests), 0) AS found FROM known", params)[0]["found"])


def tokens_by_provider_id(now: float) -> dict[str, int]:
    """Of the whole log, by the id as the database writes it."""
    found = _traffic(Scope(None, False), Window.last(int(now), now), "provider")["provider"]
    return {provider: _value(row, "tokens") for provider, row in found.items()}


def tokens_by_model(window: Window) -> dict[str, int]:
    """Of requests under any key, by the name as it was asked for; without those that took none."""
    head, params = Statement(MODELS, Scope(None, False), window).known()
    tokens = f"SUM({METRICS['tokens']})"
    found = rows(f"{head} SELECT model, {tokens} AS total FROM known GROUP BY model HAVING {tokens} > 0", params)
    return {row["model"]: int(row["total"]) for row in found}


def _latency(providers: Mapping[str, Row]) -> list[Row]:
    """The providers with the most answers, of which there are at least LATENCY_SAMPLES."""
    found = [(name, row, int(row["good"])) for name, row in providers.items() if int(row["good"]) >= LATENCY_SAMPLES]
    found.sort(key=lambda each: (-each[2], each[0]))
    return [
        {
            "provider_name": name,
            "total_ms": mean(row["latency_good"] + row["overhead_good"], count),
            "overhead_ms": mean(row["overhead_good"], count),
            "provider_ms": mean(row["latency_good"], count),
            "request_count": count,
        }
        for name, row, count in found[:TOP_LATENCY]
    ]


def _figures(total: Row) -> Row:
    """Averages over no row are 0."""
    finished = int(total["finished"] or 0)
    return {
        "avg_latency_ms": mean(total["latency_good"], total["good"]),
        "error_rate": mean(total["errors"], finished),
        "avg_overhead_ms": mean(total["overhead"], finished),
        "avg_tokens_per_request": mean(
            (total["tokens_prompt"] or 0) + (total["tokens_completion"] or 0),
            finished,
        ),
        "avg_ttft_ms": mean(total["first_ms"], total["firsts"]),
        "total_tokens_prompt": int(total["tokens_prompt"] or 0),
        "total_tokens_completion": int(total["tokens_completion"] or 0),
        "total_tokens_cache_hit": int(total["tokens_cache_hit"] or 0),
        "total_cost_usd": int(total["cost_e10"]) / _DOLLAR if total["costed"] else None,
        "rate_limit_hits": int(total["rate_limited"] or 0),
    }


def _by_key(keys: Mapping[str, Row], metric: str) -> dict[str, float]:
    """Under the names that keys have today; built-in names as they are."""
    names = {rollup.as_text(str(key)): name for key, name in ports.key_names()}
    found: dict[str, int] = {}
    for key, row in keys.items():
        name = key[1:] if key.startswith("=") else names.get(key, DELETED)
        found[name] = found.get(name, 0) + _value(row, metric)
    return _ranked(found, metric)


def _ranked(values: Mapping[str, int], metric: str) -> dict[str, float]:
    """The largest first, equal ones by name, without those that have nothing."""
    found = [(name, value) for name, value in values.items() if value]
    return {name: _shown(value, metric) for name, value in sorted(found, key=lambda each: (-each[1], each[0]))}


def overview(scope: Scope, period: str, metric: str, now: float, *, latency: bool = False) -> Row:
    """What ``GET /api/stats`` answers. *now* in POSIX seconds."""
    window = Window.last(PERIODS[period], now)
    found = _traffic(scope, window, "provider", "key")
    total, providers = found["total"][""], _by_name(found["provider"])
    counts = {
        name: int(total["requests"] or 0) if name == period else requests_in(scope, Window.last(seconds, now))
        for name, seconds in PERIODS.items()
    }
    answer = {
        "total_requests_last_24h": counts["24h"],
        "total_requests_last_7d": counts["7d"],
        "requests_last_1h": counts["1h"],
        "by_model": _models(scope, window, metric),
        "by_provider": _ranked({name: _value(row, metric) for name, row in providers.items()}, metric),
        "by_virtual_key": _by_key(found["key"], metric),
        **_figures(total),
    }
    if latency:
        answer["by_provider_latency"] = _latency(providers)
    return answer


def distribution(scope: Scope, period: str, metric: str, now: float) -> list[Row]:
    """The providers with most, and their shares, which add up to 100.0."""
    found = _by_name(_traffic(scope, Window.last(PERIODS[period], now), "provider")["provider"])
    names = list(_ranked({name: _value(row, metric) for name, row in found.items()}, metric))[:TOP_PROVIDERS]
    percent = shares.percent([_value(found[name], metric) for name in names])
    return [
        {
            "name": name,
            "count": _value(found[name], "requests"),
            "tokens": _value(found[name], "tokens"),
            "cost_usd": _shown(_value(found[name], "cost"), "cost"),
            "share": share,
        }
        for name, share in zip(names, percent, strict=True)
    ]
