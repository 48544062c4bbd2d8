"""What is summed up over request rows, and by what rows are told apart: SQL text, the same for both databases. Pure.

Two kinds of sums, because their names multiply if told apart together: TRAFFIC by provider and key, MODELS by model.
Requests in flight count as requests and as nothing else (operations 5).
"""

from collections.abc import Mapping
from dataclasses import dataclass

#: Seconds of the spans that sums are kept for, each a whole multiple of the one before.
SPANS = (60, 300, 3600, 86400)
MINUTE = SPANS[0]

_FINISHED = "state IN ('completed', 'failed')"
#: An interrupted row has no status and counts as one that broke.
_ERROR = f"{_FINISHED} AND (COALESCE(status_code, 0) = 0 OR status_code >= 400)"
_GOOD = f"{_FINISHED} AND status_code BETWEEN 1 AND 399"
_FIRST = "CASE WHEN streaming AND ttft_ms > 0 THEN ttft_ms ELSE response_header_ms END"


def _where(condition: str, value: str = "1", zero: str = "0") -> str:
    return f"SUM(CASE WHEN {condition} THEN {value} ELSE {zero} END)"


def _float(condition: str, value: str) -> str:
    return _where(condition, value, "0.0")


#: Column of ``stat_traffic`` -> aggregate over rows of ``request_logs``. Money in 10^-10 dollars, times in ms.
_ALL = {
    "requests": "COUNT(*)",
    "finished": _where(_FINISHED),
    "errors": _where(_ERROR),
    "good": _where(_GOOD),
    "rate_limited": _where(f"{_FINISHED} AND status_code = 429"),
    "tokens_prompt": _where(_FINISHED, "tokens_prompt"),
    "tokens_completion": _where(_FINISHED, "tokens_completion"),
    "tokens_cache_hit": _where(_FINISHED, "tokens_prompt_cache_hit"),
    "tokens_cache_miss": _where(_FINISHED, "tokens_prompt_cache_miss"),
    "cost_e10": _where(f"{_FINISHED} AND cost_usd IS NOT NULL", "CAST(ROUND(cost_usd * 10000000000) AS BIGINT)"),
    "costed": _where(f"{_FINISHED} AND cost_usd IS NOT NULL"),
    "duration_good": _float(_GOOD, "duration_ms"),
    "latency_good": _float(_GOOD, "latency_ms"),
    "overhead_good": _float(_GOOD, "proxy_overhead_ms"),
    "overhead": _float(_FINISHED, "proxy_overhead_ms"),
    "first_ms": _float(f"{_FINISHED} AND {_FIRST} IS NOT NULL", _FIRST),
    "firsts": _where(f"{_FINISHED} AND {_FIRST} IS NOT NULL"),
}
#: Columns a change of which changes a sum. Not the provider's id: it changes where a provider is deleted, and one that
#: is gone counts as none anyway.
WATCHED = (
    "state", "status_code", "error_kind", "streaming", "model_id", "resolved_model_id",
    "virtual_key_id", "owner_user_id", "created_at",
    "ttft_ms", "response_header_ms", "duration_ms", "latency_ms", "proxy_overhead_ms", "cost_usd", "tokens_prompt",
    "tokens_completion", "tokens_prompt_cache_hit", "tokens_prompt_cache_miss",
)  # fmt: skip

_OWNER = "COALESCE(CAST(owner_user_id AS text), '')"
_PROVIDER = "COALESCE(CAST(provider_id AS text), '')"
#: For statements that begin with ``living``, the ids of existing keys.
_GONE = "virtual_key_id IS NOT NULL AND CAST(virtual_key_id AS text) NOT IN (SELECT id FROM living)"


@dataclass(frozen=True, slots=True)
class Kind:
    """*names*: column of ``<table>_names`` -> what it is in a row. *measures*: column of ``<table>`` -> aggregate.

    *flags*: further columns of a name, from its others; they tell nothing apart.
    """

    table: str
    names: Mapping[str, str]
    measures: Mapping[str, str]
    flags: Mapping[str, str]

    @property
    def named(self) -> str:
        return ", ".join(self.names)

    @property
    def measured(self) -> str:
        return ", ".join(self.measures)

    def summed(self, alias: str) -> str:
        """Sums of sums, column by column."""
        return ", ".join(f"SUM({alias}.{name}) AS {name}" for name in self.measures)


TRAFFIC = Kind(
    "stat_traffic",
    {
        "provider": _PROVIDER,
        "key": "COALESCE(CAST(virtual_key_id AS text), '')",
        "key_name": "CASE WHEN virtual_key_id IS NULL THEN virtual_key_name ELSE '' END",
        "owner": _OWNER,
    },
    _ALL,
    {"gone": "key <> '' AND key NOT IN (SELECT id FROM living)"},
)
#: A refused name is no model: clients make such names up.
MODELS = Kind(
    "stat_models",
    {
        "model": "CASE WHEN error_kind = 'validation' THEN '' ELSE model_id END",
        "resolved": "COALESCE(resolved_model_id, '')",
        "provider": _PROVIDER,
        "gone": f"CASE WHEN {_GONE} THEN 'gone' ELSE '' END",
        "owner": _OWNER,
    },
    {name: _ALL[name] for name in ("requests", "tokens_prompt", "tokens_completion", "cost_e10")},
    {},
)
KINDS = (TRAFFIC, MODELS)
_USED = (
    "state", "status_code", "streaming", "ttft_ms", "response_header_ms", "duration_ms", "latency_ms",
    "proxy_overhead_ms", "cost_usd", "tokens_prompt", "tokens_completion", "tokens_prompt_cache_hit",
    "tokens_prompt_cache_miss",
)  # fmt: skip
_BETWEEN = "FROM request_logs WHERE created_at >= %s AND created_at < %s"


def minute_of(vendor: str, column: str) -> str:
    """The minute of a time as text."""
    if vendor == "sqlite":
        return f"substr({column}, 1, 16)"
    return f"to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI')"


def minute_at(vendor: str, column: str) -> str:
    """The same of POSIX seconds; ``%`` doubled for a statement with parameters."""
    if vendor == "sqlite":
        return f"strftime('%%Y-%%m-%%d %%H:%%M', {column}, 'unixepoch')"
    return minute_of(vendor, f"to_timestamp({column})")


def _start_of(vendor: str) -> str:
    """The first second of a row's minute."""
    if vendor == "sqlite":
        # Not of the whole text: the function rounds, and 59.999999 seconds are the next minute then.
        return "CAST(strftime('%%s', substr(created_at, 1, 16)) AS INTEGER)"
    return f"CAST(FLOOR(EXTRACT(EPOCH FROM created_at) / {MINUTE}) * {MINUTE} AS BIGINT)"


def _digest(vendor: str, kind: Kind) -> str:
    """One text for a name; hashed where an index takes no long texts."""
    joined = " || chr(31) || ".join(kind.names)
    return joined.replace("chr(", "char(") if vendor == "sqlite" else f"md5({joined})"


def living(vendor: str) -> str:
    """A CTE of the ids of existing keys, as text; one parameter, the ids as a JSON list."""
    each = "json_each(%s)" if vendor == "sqlite" else "jsonb_array_elements_text(%s::jsonb)"
    return f"living(id) AS MATERIALIZED (SELECT value FROM {each})"


def between(kind: Kind, start: str = "") -> str:
    """Rows between two moments (parameters) by name, summed up; needs :func:`living`."""
    told = ", ".join(f"{text} AS {name}" for name, text in kind.names.items())
    made = ", ".join(f"{text} AS {name}" for name, text in kind.measures.items())
    by = f"start, {kind.named}" if start else kind.named
    inner = f"SELECT {f'{start} AS start, ' if start else ''}{told}, {', '.join(_USED)} {_BETWEEN}"
    return f"SELECT {by}, {made} FROM ({inner}) AS some_rows GROUP BY {by}"


def by_minute(vendor: str, kind: Kind) -> str:
    """The same by minute, with the names' digests."""
    return f"SELECT {_digest(vendor, kind)} AS digest, g.* FROM ({between(kind, _start_of(vendor))}) AS g"


def new_names(vendor: str, kind: Kind) -> str:
    """An INSERT of the names of rows between two moments (parameters: living keys, the moments) that are not known."""
    told = ", ".join(f"{text} AS {name}" for name, text in kind.names.items())
    flags = "".join(f", {text}" for text in kind.flags.values())
    columns = ", ".join(("digest", *kind.names, *kind.flags))
    return (
        f"WITH {living(vendor)}, found AS (SELECT {_digest(vendor, kind)} AS digest, {kind.named} "
        f"FROM (SELECT DISTINCT {told} {_BETWEEN}) AS some_rows) "
        f"INSERT INTO {kind.table}_names ({columns}) SELECT digest, {kind.named}{flags} FROM found "
        f"WHERE NOT EXISTS (SELECT 1 FROM {kind.table}_names AS n WHERE n.digest = found.digest)"
    )


def new_minutes(vendor: str, kind: Kind) -> str:
    """An INSERT of the sums of rows between two moments (parameters: living keys, the moments)."""
    return (
        f"WITH {living(vendor)} INSERT INTO {kind.table} (span, start, name, {kind.measured}) "
        f"SELECT {MINUTE}, g.start, n.id, {', '.join('g.' + name for name in kind.measures)} "
        f"FROM ({by_minute(vendor, kind)}) AS g JOIN {kind.table}_names AS n ON n.digest = g.digest"
    )


def longer(kind: Kind) -> str:
    """An INSERT of one longer span (parameters: span, start, shorter span, start, end)."""
    return (
        f"INSERT INTO {kind.table} (span, start, name, {kind.measured}) "
        f"SELECT %s, %s, s.name, {kind.summed('s')} FROM {kind.table} AS s "
        "WHERE s.span = %s AND s.start >= %s AND s.start < %s GROUP BY s.name"
    )
