"""A request-log row while it is lived: filled by the proxy, handed to the recorder, never content."""

import time
from typing import Any

from msgspec import Struct, field

from modelhotel.core.ids import hex16, uuid7_text
from modelhotel.core.metrics import UNRESOLVED


class Draft(Struct, eq=False):
    """One request. *created_at* is a POSIX time, *arrival* the monotonic clock of the same moment; ids are text."""

    endpoint_type: str
    id: str = field(default_factory=uuid7_text)
    request_hash: str = field(default_factory=hex16)
    created_at: float = field(default_factory=time.time)
    arrival: float = field(default_factory=time.monotonic)
    state: str = "pending"
    streaming: bool = False
    model_id: str = ""
    #: The name asked for as metrics call it (routing A13); empty = no client's request, and not counted there.
    label: str = UNRESOLVED
    resolved_model_id: str | None = None
    provider_id: str | None = None
    provider_name: str = ""
    virtual_key_id: str | None = None
    virtual_key_name: str = ""
    owner_user_id: str | None = None
    client_ip: str | None = None
    status_code: int | None = None
    error_kind: str | None = None
    error_message: str | None = None
    failover_attempt: int = 0
    attempts: list[dict[str, Any]] | None = None
    duration_ms: float = 0.0
    latency_ms: float = 0.0
    response_header_ms: float | None = None
    ttft_ms: float | None = None
    proxy_overhead_ms: float = 0.0
    parse_ms: float = 0.0
    failover_lookup_ms: float = 0.0
    model_lookup_ms: float = 0.0
    provider_lookup_ms: float = 0.0
    key_decrypt_ms: float = 0.0
    settings_read_ms: float = 0.0
    dial_ms: float = 0.0
    cache_hits: dict[str, bool] = field(default_factory=dict)
    tokens_prompt: int = 0
    tokens_completion: int = 0
    tokens_completion_reasoning: int = 0
    tokens_prompt_cache_hit: int = 0
    tokens_prompt_cache_miss: int = 0
    tokens_per_second: float = 0.0
    cost_usd: float | None = None
    finished: bool = False
    #: The recorder's own: the state last written for a request still in flight, and when (monotonic).
    written_state: str = ""
    written_at: float = 0.0

    def elapsed_ms(self) -> float:
        return (time.monotonic() - self.arrival) * 1000.0
