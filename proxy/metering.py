"""What a request cost: to the key's counter, to the request row, in dollars.

The hot path only adds numbers in memory. One thread writes them about once a second, one statement per key and
provider, whatever the number of requests; what can not be written waits for the next turn.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from modelhotel.core import events
from providers.cache import ModelRow
from proxy.exchange import Exchange
from proxy.keys import KeyRow, close_connection, write_counters
from proxy.limits.gate import LIMITER
from proxy.usage import MAX_COUNT, Usage

#: Seconds between two writes.
INTERVAL = 1.0
#: Seconds between two attempts while the database does not answer.
RETRY_AFTER = 5.0

log = logging.getLogger("tokens")


class _Spent:
    """Of one key, since the last write. *used_at* is a POSIX time."""

    __slots__ = ("name", "tokens", "used_at")

    def __init__(self, name: str) -> None:
        self.name = name
        self.tokens = 0
        self.used_at = 0.0


class Meter:
    """One per process. ``add``, ``touch`` and ``touch_provider`` are for the hot path, from any thread."""

    def __init__(self) -> None:
        # Appending needs no lock; the writer takes from the other end and adds up.
        self._uses: deque[tuple[KeyRow, int]] = deque()
        # Stamps say "now" whenever they are written, so the last one of each is enough.
        self._touched: dict[str, KeyRow] = {}
        self._asked: dict[str, None] = {}
        self._keys: dict[str, _Spent] = {}
        self._providers: dict[str, float] = {}
        self._failing: set[str] = set()
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False

    # -- the hot path

    def add(self, key: KeyRow, tokens: int) -> None:
        """*tokens* go to the key's running total, together with "used now"; 0 or less writes nothing."""
        if tokens > 0 and not key.session:
            self._uses.append((key, tokens))

    def touch(self, key: KeyRow) -> None:
        """The key was used now (give or take :data:`INTERVAL`)."""
        self._touched[key.id] = key

    def touch_provider(self, provider_id: str) -> None:
        """A request is being sent to the provider now."""
        self._asked[provider_id] = None

    # -- the writer

    def start(self) -> None:
        self._stopping = False
        self._wake.clear()
        self._thread = threading.Thread(target=self._loop, name="metering", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Write what is left and end the thread. Seconds."""
        thread, self._thread = self._thread, None
        self._stopping = True
        self._wake.set()
        if thread is not None:
            thread.join(timeout)

    def _loop(self) -> None:
        wait = INTERVAL
        while not self._stopping:
            self._wake.wait(wait)
            wait = INTERVAL if self.flush() else RETRY_AFTER
        close_connection()

    def flush(self) -> bool:
        """Write now, in this thread. False when the database refused; nothing is lost then."""
        with self._writing:
            self._collect()
            if not self._keys and not self._providers:
                return True
            try:
                write_counters({k: (spent.tokens, spent.used_at) for k, spent in self._keys.items()}, self._providers)
            except Exception as problem:
                self._report(problem)
                return False
            self._keys, self._providers = {}, {}
            self._failing.clear()
            return True

    def _collect(self) -> None:
        """Add up what the hot path noted; what could not be written before is still there."""
        now = time.time()
        uses, touched, asked = self._uses, self._touched, self._asked
        while touched:  # one at a time: others add to it meanwhile
            self._of(touched.popitem()[1]).used_at = now
        for key, tokens in [uses.popleft() for _ in range(len(uses))]:
            spent = self._of(key)
            spent.tokens += tokens
            spent.used_at = now
        while asked:
            self._providers[asked.popitem()[0]] = now

    def _of(self, key: KeyRow) -> _Spent:
        spent = self._keys.get(key.id)
        if spent is None:
            spent = self._keys[key.id] = _Spent(key.name)
        return spent

    def _report(self, problem: Exception) -> None:
        """One event per key and outage; a stamp that failed is only logged."""
        log.warning("tokens: counters not written", extra={"attrs": {"problem": type(problem).__name__}})
        for key_id, spent in self._keys.items():
            if spent.tokens and key_id not in self._failing:
                self._failing.add(key_id)
                events.publish(
                    "tokens.error",
                    "error",
                    "proxy",
                    f'Token counting failed for key "{spent.name}"',
                    {"error": type(problem).__name__, "key": spent.name},
                )

    def reset(self) -> None:
        """Forget everything (tests)."""
        with self._writing:
            self._collect()
            self._keys, self._providers = {}, {}
            self._failing.clear()


METER = Meter()


# -- what one answer costs


def cost(model: ModelRow, usage: Usage, searches: int = 0) -> float | None:
    """Dollars at the model's prices; None when it has no price. Cached prompt tokens at the cache price if known.

    *searches*: the units a reranker billed, which cost what a search does where that is known (v1-api 17.3).
    """
    tokens = _tokens_cost(model, usage)
    if not searches or model.search_price_per_thousand is None:
        return tokens
    return (tokens or 0.0) + searches * model.search_price_per_thousand / 1000


def _tokens_cost(model: ModelRow, usage: Usage) -> float | None:
    price, cached_price = model.input_price_per_million, model.input_price_per_million_cache_hit
    if price is None and model.output_price_per_million is None:
        return None
    hit = min(usage.cache_hit, usage.prompt) if cached_price is not None else 0
    dollars = (usage.prompt - hit) * (price or 0.0) + hit * (cached_price or 0.0)
    return (dollars + usage.completion * (model.output_price_per_million or 0.0)) / 1_000_000


def charge(exchange: Exchange, model: ModelRow, usage: Usage | None, delivered: int, searches: int = 0) -> None:
    """The answer that served, or what of it went out: once per attempt.

    *delivered* are the bytes of text, reasoning and tool calls that were (or would have been) the client's; where they
    are there, a side missing from *usage* is estimated for the key's counter. The row keeps what was reported.
    *searches*: see :func:`cost`.
    """
    draft = exchange.draft
    reported = usage or NOTHING
    kept = reported
    if reported.prompt >= MAX_COUNT or reported.completion >= MAX_COUNT:
        kept = _believable(reported, model)
    draft.tokens_prompt += kept.prompt
    draft.tokens_completion += kept.completion
    draft.tokens_completion_reasoning += kept.reasoning
    draft.tokens_prompt_cache_hit += kept.cache_hit
    draft.tokens_prompt_cache_miss += kept.cache_miss
    _add_cost(exchange, cost(model, kept, searches))
    prompt, completion = _estimated(exchange, reported, delivered)
    _count(exchange.key, prompt + completion)


def _believable(reported: Usage, model: ModelRow) -> Usage:
    """What the row and the cost get of counts of which one is absurd: 0 in its place (operations 4.5)."""
    log.warning("tokens: absurd usage reported", extra={"attrs": {"model": model.model_id}})
    prompt, completion = reported.prompt < MAX_COUNT, reported.completion < MAX_COUNT
    return Usage(
        reported.prompt if prompt else 0,
        reported.completion if completion else 0,
        reported.reasoning if completion else 0,
        reported.cache_hit if prompt else 0,
        reported.cache_miss if prompt else 0,
        reported.cached,
    )


def billed(exchange: Exchange, usage: Usage | None, delivered: int) -> Usage:
    """What :func:`charge` adds to the key's counter for the same answer."""
    reported = usage or NOTHING
    prompt, completion = _estimated(exchange, reported, delivered)
    return msgspec.structs.replace(reported, prompt=prompt, completion=completion)


def _estimated(exchange: Exchange, reported: Usage, delivered: int) -> tuple[int, int]:
    """(prompt, completion) with an estimate where something was *delivered* and not *reported*."""
    prompt, completion = reported.prompt, reported.completion
    if delivered:
        prompt = prompt or exchange.endpoint.prompt_tokens(exchange.body)
        completion = completion or exchange.endpoint.completion_tokens(delivered)
    return prompt, completion


def charge_rejected(exchange: Exchange, model: ModelRow, usage: Usage | None) -> None:
    """A 2xx that did not serve: the provider read the prompt (failover-loop 9.4 and 12.6).

    The reported prompt is added to the row, an estimate only to the key's counter and the cost.
    """
    if usage is not None and usage.prompt:
        prompt = usage.prompt
        exchange.draft.tokens_prompt += prompt
    else:
        prompt = exchange.endpoint.prompt_tokens(exchange.body)
    _add_cost(exchange, cost(model, Usage(prompt=prompt)))
    _count(exchange.key, prompt)


def _count(key: KeyRow, tokens: int) -> None:
    """To the key's running total, and against the tokens per minute of the key and of its owner."""
    METER.add(key, tokens)
    LIMITER.debit(key, tokens)


def _add_cost(exchange: Exchange, dollars: float | None) -> None:
    if dollars is not None:
        exchange.draft.cost_usd = (exchange.draft.cost_usd or 0.0) + dollars


NOTHING = Usage()

#: For the life cycle of the process: after the database is ready, and when requests have ended.
start: Callable[[], None] = METER.start
stop: Callable[..., None] = METER.stop
