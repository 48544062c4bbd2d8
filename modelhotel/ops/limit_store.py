"""The token buckets of all processes in Redis: one hash per bucket, with what it held, when, and its limits then.

``<prefix>:b:<id>`` holds a bucket and runs out by itself when it is full again and idle, ``<prefix>:alive`` who shares
them. Redis' own clock counts, so clocks of nodes may differ. Where Redis does not answer in time the caller decides
alone, on its share.
"""

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import redis
import redis.asyncio

from proxy.limits.buckets import Ask, Taken

#: Seconds a request waits for a shared decision, and a thread for Redis.
AT_ONCE, PATIENCE = 0.005, 1.0
#: Turns of the event loop from an answer's arrival to its reader.
TURNS = 5
#: Seconds for which Redis is not asked after it failed.
PAUSE = 1.0
#: Seconds for which it is not asked for a decision after one took too long: questions must not pile up.
HICCUP = 0.05
#: Seconds in which everything that nobody waits for was answered or given up.
LATEST = 3 * PATIENCE
#: Seconds for which a sign of life holds, and between two of them.
ALIVE, SIGN = 10, 1.0
#: Seconds without use after which a full bucket goes.
KEPT = 600
#: Seconds in which buckets are cleared once, however many processes ask for it.
ONCE = 5
log = logging.getLogger("limits")

# One bucket: HASH of t (tokens), a (seconds), r (rate), c (capacity). What came in since is counted at the old limits.
_SETTLE = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local function settle(key, rate, capacity)
  local was = redis.call('HMGET', key, 't', 'a', 'r', 'c')
  if not was[1] then return capacity end
  local tokens, old = tonumber(was[1]), tonumber(was[4])
  local passed = now - tonumber(was[2])
  if passed > 0 then tokens = math.max(math.min(tokens + passed * tonumber(was[3]), old), tokens) end
  return math.min(tokens, capacity)
end
local function store(key, tokens, rate, capacity, kept)
  local held, at = string.format('%.17g', tokens), string.format('%.6f', now)
  redis.call('HSET', key, 't', held, 'a', at, 'r', rate, 'c', capacity)
  redis.call('EXPIRE', key, math.ceil(math.min((capacity - tokens) / rate, 315360000)) + kept)
end
"""
# KEYS: the buckets. ARGV: longest wait, seconds to keep, then rate and capacity of each.
_TAKE = (
    _SETTLE
    + """
local granted, left = 1, {}
for i, key in ipairs(KEYS) do
  local rate, capacity = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  left[i] = settle(key, rate, capacity) - 1
  if left[i] < 0 and -left[i] / rate > tonumber(ARGV[1]) then granted = 0 end
end
local answer = {granted}
for i, key in ipairs(KEYS) do
  store(key, granted == 1 and left[i] or left[i] + 1, ARGV[2 * i + 1], ARGV[2 * i + 2], ARGV[2])
  answer[i + 1] = string.format('%.17g', left[i])
end
return answer
"""
)
# KEYS: the buckets. ARGV: the amount (below 0: given back), seconds to keep, then rate and capacity of each.
_SPEND = (
    _SETTLE
    + """
local amount = tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  local rate, capacity = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  local tokens = settle(key, rate, capacity)
  if amount < 0 then tokens = math.max(math.min(tokens - amount, capacity), tokens) else tokens = tokens - amount end
  store(key, tokens, ARGV[2 * i + 1], ARGV[2 * i + 2], ARGV[2])
end
return 1
"""
)


class RedisBuckets:
    """See ``proxy.limits.shared.Shared``. :meth:`start` and :meth:`stop` are for the life cycle of the process."""

    def __init__(self, url: str, prefix: str) -> None:
        self._url = url
        self._prefix = prefix
        self._me = secrets.token_hex(8)
        self._client: redis.asyncio.Redis | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._take: Any = None
        self._spend: Any = None
        self._late: set[asyncio.Task[Any]] = set()
        self._not_before = self._slow_until = 0.0
        self._away = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.processes = 1

    # -- in the event loop

    async def take(self, asks: Sequence[Ask], longest: float) -> Taken | None:
        if time.monotonic() < self._slow_until:
            return None

        def undo(answer: Any) -> None:
            if answer[0]:  # nobody waited for it any more: the request was judged without it
                self._keep(asyncio.ensure_future(self.spend(asks, -1.0)))

        answer = await self._asked(lambda: self._take(*self._words(asks, longest)), AT_ONCE, undo)
        if answer is None:
            self._slow_until = time.monotonic() + HICCUP
            return None
        return Taken(bool(answer[0]), [float(left) for left in answer[1:]])

    async def spend(self, asks: Sequence[Ask], amount: float) -> bool:
        # Nobody waits for it: what is late is done none the less.
        return await self._asked(lambda: self._spend(*self._words(asks, amount)), LATEST) is not None

    async def clear(self, kinds: Sequence[str]) -> None:
        name = f"{self._prefix}:cleared:{','.join(sorted(kinds))}"
        if not await self._asked(lambda: self._redis().set(name, self._me, nx=True, ex=ONCE), LATEST):
            return
        for kind in kinds:
            await self._asked(lambda kind=kind: self._forget(kind), LATEST)  # type: ignore[misc]

    async def _forget(self, kind: str) -> bool:
        async for key in self._redis().scan_iter(f"{self._prefix}:b:{kind}*", count=1000):
            await self._redis().unlink(key)
        return True

    async def first(self, name: str, seconds: float) -> bool:
        key, milliseconds = f"{self._prefix}:told:{name}", max(round(seconds * 1000), 1)

        async def claim() -> str:
            return "ours" if await self._redis().set(key, self._me, nx=True, px=milliseconds) else "theirs"

        return bool(await self._asked(claim, LATEST) != "theirs")

    def _words(self, asks: Sequence[Ask], first: float) -> tuple[list[str], list[Any]]:
        words: list[Any] = [repr(first), KEPT]
        for ask in asks:
            words += (repr(ask.cap.rate), ask.cap.capacity)
        return [f"{self._prefix}:b:{ask.id}" for ask in asks], words

    def _redis(self) -> redis.asyncio.Redis:
        """The client of the loop that runs."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            self._client = redis.asyncio.Redis.from_url(
                self._url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE
            )
            self._take = self._client.register_script(_TAKE)
            self._spend = self._client.register_script(_SPEND)
        return self._client

    async def _asked(
        self, question: Callable[[], Awaitable[Any]], seconds: float, late: Callable[[Any], None] | None = None
    ) -> Any:
        """The answer; None where it does not come within *seconds*. *late* gets one that comes after that."""
        if time.monotonic() < self._not_before:
            return None
        self._redis()
        task = asyncio.ensure_future(question())
        try:
            # Not cancelled when it takes too long: that would cost the connection.
            await asyncio.wait((task,), timeout=seconds)
            for _ in range(TURNS):  # an answer that is here already is not late because this loop was busy
                if task.done():
                    return self._answer(task)
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._await_late(task, late)
            raise
        if task.done():
            return self._answer(task)
        self._await_late(task, late)
        return None

    def _await_late(self, task: "asyncio.Future[Any]", late: Callable[[Any], None] | None) -> None:
        """Nobody waits for *task* any more."""
        self._keep(task)

        def come(task: "asyncio.Future[Any]") -> None:
            answer = self._answer(task)
            if answer is not None and late is not None:
                late(answer)

        task.add_done_callback(come)

    def _keep(self, task: "asyncio.Future[Any]") -> None:
        self._late.add(task)  # type: ignore[arg-type]
        task.add_done_callback(self._late.discard)

    def _answer(self, task: "asyncio.Future[Any]") -> Any:
        try:
            answer = task.result()
        except (redis.RedisError, OSError, asyncio.CancelledError) as problem:
            self._not_before = time.monotonic() + PAUSE
            if not self._away and not isinstance(problem, asyncio.CancelledError):
                self._away = True
                attrs = {"reason": type(problem).__name__, "processes": self.processes}
                log.warning("limits: shared counters unreachable, each process holds its share", extra={"attrs": attrs})
            return None
        if self._away:
            self._away = False
            log.info("limits: shared counters back")
        return answer

    async def aclose(self) -> None:
        """Before the event loop ends."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    # -- who shares

    def start(self) -> None:
        self._count()
        self._thread = threading.Thread(target=self._live, name="limits-shared", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The others get this process's share at once."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(SIGN)

    def _live(self) -> None:
        while not self._ended.wait(SIGN):
            self._count()
        self._said(lambda client: client.zrem(f"{self._prefix}:alive", self._me))

    def _count(self) -> None:
        """Say that this process lives, and see how many do."""

        def count(client: redis.Redis) -> int:
            key = f"{self._prefix}:alive"
            seconds, _ = client.time()
            client.zadd(key, {self._me: seconds + ALIVE})
            client.zremrangebyscore(key, "-inf", seconds)
            client.expire(key, 2 * ALIVE)
            return int(client.zcard(key))

        found = self._said(count)
        if found is not None:
            self.processes = max(int(found), 1)

    def _said(self, act: Callable[[redis.Redis], Any]) -> Any:
        client = redis.Redis.from_url(self._url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)
        try:
            return act(client)
        except (redis.RedisError, OSError):
            return None  # the next request says so
        finally:
            client.close()
