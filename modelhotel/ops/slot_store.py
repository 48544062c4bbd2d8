"""Slots under operators' ceilings, counted over all processes in Redis.

``<prefix>:<provider id>`` holds how many each process has, ``<prefix>:alive:<process>`` that it lives: what a dead one
had is nobody's after :data:`ALIVE` seconds. Counts are absolute and come from one event loop, so nothing can add up
wrongly, and a Redis that lost them has them again with the next request.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable

import redis

#: Seconds for which a sign of life holds, and between two of them.
ALIVE, SIGN = 30, 10.0
#: Seconds that the event loop waits for Redis, and for which it does not ask after it waited in vain.
AT_ONCE, PAUSE = 0.05, 1.0
#: Seconds after which the counts of a provider that nobody asks any more go.
KEPT = 2 * 86_400
log = logging.getLogger("proxy")

# KEYS: the counts, our sign of life. ARGV: us, how many we have, ceiling, beginning of signs of life, ALIVE, KEPT.
_CLAIM = """
local others = 0
local counts = redis.call('HGETALL', KEYS[1])
for i = 1, #counts, 2 do
  if counts[i] ~= ARGV[1] then
    if redis.call('EXISTS', ARGV[4] .. counts[i]) == 1 then others = others + tonumber(counts[i + 1])
    else redis.call('HDEL', KEYS[1], counts[i]) end
  end
end
redis.call('SET', KEYS[2], '1', 'EX', ARGV[5])
local mine = tonumber(ARGV[2])
local granted = others + mine < tonumber(ARGV[3])
redis.call('HSET', KEYS[1], ARGV[1], granted and mine + 1 or mine)
redis.call('EXPIRE', KEYS[1], ARGV[6])
return granted and 1 or 0
"""


class RedisClaims:
    """See ``failover.windows.Claims``. *tell* brings the id of a provider with a freed slot to the other processes."""

    def __init__(self, url: str, prefix: str, tell: Callable[[str], None]) -> None:
        self._prefix = prefix
        self._tell = tell
        self._me = secrets.token_hex(8)
        self._client = redis.Redis.from_url(url, socket_timeout=AT_ONCE, socket_connect_timeout=AT_ONCE)
        self._not_before = 0.0
        self._away = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def claim(self, provider_id: str, held: int, ceiling: int) -> bool | None:
        beginning = f"{self._prefix}:alive:"
        keys = (f"{self._prefix}:{provider_id}", beginning + self._me)
        words = (self._me, held, ceiling, beginning, ALIVE, KEPT)
        granted = self._asked(lambda: self._client.eval(_CLAIM, len(keys), *keys, *words))
        return None if granted is None else bool(granted)

    def give_back(self, provider_id: str, held: int) -> None:
        self._asked(lambda: self._client.hset(f"{self._prefix}:{provider_id}", self._me, str(held)))
        self._tell(provider_id)

    def _asked(self, question: Callable[[], object]) -> object:
        """None where Redis does not answer; then it is left alone for a moment."""
        if time.monotonic() < self._not_before:
            return None
        try:
            answer = question()
        except (redis.RedisError, OSError):
            self._not_before = time.monotonic() + PAUSE
            if not self._away:
                self._away = True
                log.warning("proxy: shared slots unreachable, ceilings hold in each process")
            return None
        if self._away:
            self._away = False
            log.info("proxy: shared slots back")
        return answer

    # -- life

    def start(self) -> None:
        self._thread = threading.Thread(target=self._live, name="slots", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """What this process had is free at once."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(SIGN)
        self._client.close()

    def _live(self) -> None:
        sign = f"{self._prefix}:alive:{self._me}"
        while not self._ended.wait(SIGN):
            self._quietly(lambda: self._client.set(sign, "1", ex=ALIVE))
        self._quietly(lambda: self._client.delete(sign))

    @staticmethod
    def _quietly(act: Callable[[], object]) -> None:
        try:
            act()
        except (redis.RedisError, OSError):
            return  # the next claim says so, and brings a sign of life of its own
