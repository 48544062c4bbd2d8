"""How a draft becomes a row of plain values: no model instance, no ORM compilation on the way to the table."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from requestlogs.draft import Draft

COLUMNS = (
    "id",
    "request_hash",
    "created_at",
    "state",
    "endpoint_type",
    "streaming",
    "model_id",
    "resolved_model_id",
    "provider_id",
    "virtual_key_id",
    "virtual_key_name",
    "owner_user_id",
    "client_ip",
    "status_code",
    "error_kind",
    "error_message",
    "failover_attempt",
    "attempts",
    "duration_ms",
    "latency_ms",
    "response_header_ms",
    "ttft_ms",
    "proxy_overhead_ms",
    "parse_ms",
    "failover_lookup_ms",
    "model_lookup_ms",
    "provider_lookup_ms",
    "key_decrypt_ms",
    "settings_read_ms",
    "dial_ms",
    "cache_hits",
    "tokens_prompt",
    "tokens_completion",
    "tokens_completion_reasoning",
    "tokens_prompt_cache_hit",
    "tokens_prompt_cache_miss",
    "tokens_per_second",
    "cost_usd",
    "node",
    "heartbeat_at",
)
#: What a row whose request was inserted while in flight does: never a second row of one id.
UPDATE = "DO UPDATE SET " + ", ".join(f'"{n}" = excluded."{n}"' for n in COLUMNS if n not in ("id", "created_at"))

_MODEL_LENGTH, _NAME_LENGTH, _TEXT_LENGTH = 520, 100, 10_001
_MAX_TOKENS = 2**31 - 1
_encode = msgspec.json.Encoder().encode


def _text(value: str | None, limit: int) -> str | None:
    """PostgreSQL refuses NUL, and one row must not cost a batch."""
    return None if value is None else value.replace("\x00", "�")[:limit]


#: The same for texts that come again with row after row.
_name = lru_cache(maxsize=1024)(_text)


def _count(value: int) -> int:
    return value if 0 <= value <= _MAX_TOKENS else 0


def values(draft: Draft, node: str, now: float) -> tuple[Any, ...]:
    """The row of *draft* in the order of :data:`COLUMNS`, with types any database takes: times as POSIX seconds."""
    tokens: tuple[int, ...] = (
        draft.tokens_prompt,
        draft.tokens_completion,
        draft.tokens_completion_reasoning,
        draft.tokens_prompt_cache_hit,
        draft.tokens_prompt_cache_miss,
    )
    if min(tokens) < 0 or max(tokens) > _MAX_TOKENS:
        tokens = tuple(map(_count, tokens))
    return (
        draft.id,
        draft.request_hash,
        draft.created_at,
        draft.state,
        draft.endpoint_type,
        draft.streaming,
        _name(draft.model_id, _MODEL_LENGTH),
        _name(draft.resolved_model_id, 512),
        draft.provider_id,
        draft.virtual_key_id,
        _name(draft.virtual_key_name, _NAME_LENGTH),
        draft.owner_user_id,
        draft.client_ip,
        draft.status_code if draft.finished else None,
        draft.error_kind,
        _text(draft.error_message, _TEXT_LENGTH),
        draft.failover_attempt,
        None if draft.attempts is None else _encode(draft.attempts).decode().replace("\\u0000", "�"),
        draft.duration_ms,
        draft.latency_ms,
        draft.response_header_ms,
        draft.ttft_ms,
        draft.proxy_overhead_ms,
        draft.parse_ms,
        draft.failover_lookup_ms,
        draft.model_lookup_ms,
        draft.provider_lookup_ms,
        draft.key_decrypt_ms,
        draft.settings_read_ms,
        draft.dial_ms,
        _encode(draft.cache_hits).decode(),
        *tokens,
        draft.tokens_per_second,
        None if draft.cost_usd is None else f"{draft.cost_usd:.10f}",
        node,
        now,
    )


_ID = COLUMNS.index("id")
_OTHER_IDS = tuple(COLUMNS.index(name) for name in ("provider_id", "virtual_key_id", "owner_user_id"))
_CREATED, _HEARTBEAT = COLUMNS.index("created_at"), COLUMNS.index("heartbeat_at")


@lru_cache(maxsize=64)
def _second(moment: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment))


def _sqlite_time(value: float) -> str:
    whole = int(value)
    return f"{_second(whole)}.{int((value - whole) * 1e6):06d}"


def _postgres_time(value: float) -> datetime:
    return datetime.fromtimestamp(value, UTC)


@lru_cache(maxsize=1024)
def _digits(identity: str) -> str:
    return identity.replace("-", "")


def moment_of(vendor: str) -> Callable[[float], Any]:
    """What turns POSIX seconds into a parameter of *vendor*."""
    return _sqlite_time if vendor == "sqlite" else _postgres_time


def adapter(vendor: str) -> Callable[[tuple[Any, ...]], Sequence[Any]]:
    """What turns :func:`values` into parameters of *vendor* (``sqlite``: ids as 32 hex digits, times as text)."""
    sqlite = vendor == "sqlite"
    time_of = moment_of(vendor)

    last: tuple[float, Any] = (0.0, time_of(0.0))

    def adapt(row: tuple[Any, ...]) -> Sequence[Any]:
        nonlocal last
        found = list(row)
        found[_CREATED] = time_of(found[_CREATED])
        heartbeat = found[_HEARTBEAT]
        if heartbeat != last[0]:  # the same in all rows of a batch
            last = heartbeat, time_of(heartbeat)
        found[_HEARTBEAT] = last[1]
        if sqlite:
            found[_ID] = found[_ID].replace("-", "")
            for at in _OTHER_IDS:
                if found[at] is not None:
                    found[at] = _digits(found[at])
        return found

    return adapt
