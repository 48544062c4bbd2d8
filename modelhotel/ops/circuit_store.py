"""The circuits of all processes in Redis: one hash per provider, a field per model.

``<prefix>:<provider id>`` holds the records, ``<prefix>`` the providers that have one, ``<prefix>:resets`` when pairs
were cleared by hand, ``<prefix>:lease:<provider id>:<model>`` who probes; that one runs out by itself.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import redis

from failover.breaker.store import ANYTHING, StoreAway

T = TypeVar("T")

#: Seconds that a thread waits for Redis, and a request for the probe.
PATIENCE, AT_ONCE = 1.0, 0.05
#: Seconds after which nothing that was written last can matter any more: longer than any pin.
KEPT = 400 * 86_400
#: Seconds for which a process may be cut off and still learn of a reset.
RESETS_KEPT = 7 * 86_400

# KEYS: the hash, the set. ARGV: provider id, seconds to keep, then model, old, new of each change; old is "*" for
# whatever is there and "" for nothing, new is "" for nothing.
_SWAP = """
for i = 3, #ARGV, 3 do
  local old = ARGV[i + 1]
  if old ~= '*' and (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= old then return 0 end
end
for i = 3, #ARGV, 3 do
  if ARGV[i + 2] == '' then redis.call('HDEL', KEYS[1], ARGV[i])
  else redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2]) end
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  redis.call('SADD', KEYS[2], ARGV[1])
else redis.call('SREM', KEYS[2], ARGV[1]) end
return 1
"""
_GIVE_BACK = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class RedisStore:
    """See ``failover.breaker.store.Store``."""

    def __init__(self, url: str, prefix: str) -> None:
        self._prefix = prefix
        self._client = _client(url, PATIENCE)
        self._quick = _client(url, AT_ONCE)

    def read(self, provider_id: str, models: Collection[str] | None) -> dict[str, bytes]:
        if models is None:
            return self._records(provider_id)
        names = list(models)
        found: Any = self._asked(lambda: self._client.hmget(self._hash(provider_id), names))
        return {name: data for name, data in zip(names, found, strict=True) if data is not None}

    def read_all(self) -> dict[str, dict[str, bytes]]:
        ids: Any = self._asked(lambda: self._client.smembers(self._prefix))
        return {provider_id: self._records(provider_id) for provider_id, _ in _named(dict.fromkeys(ids))}

    def _records(self, provider_id: str) -> dict[str, bytes]:
        found: Any = self._asked(lambda: self._client.hgetall(self._hash(provider_id)))
        return dict(_named(found))

    def swap(self, provider_id: str, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> bool:
        words: list[bytes | str | int] = [provider_id, KEPT]
        for model, (old, new) in changes.items():
            words += [model, ANYTHING if old == ANYTHING else old or b"", new or b""]
        keys = (self._hash(provider_id), self._prefix)
        return bool(self._asked(lambda: self._client.eval(_SWAP, len(keys), *keys, *words)))

    def forget(self, provider_id: str) -> None:
        def both() -> None:
            self._client.delete(self._hash(provider_id))
            self._client.srem(self._prefix, provider_id)

        self._asked(both)

    def note_reset(self, provider_id: str, models: Collection[str], at: float) -> None:
        key = f"{self._prefix}:resets"

        def note() -> None:
            self._client.hset(key, mapping={f"{provider_id}\n{model}": f"{at:.3f}" for model in models})
            self._client.expire(key, RESETS_KEPT)

        self._asked(note)

    def resets(self) -> dict[tuple[str, str], float]:
        found: Any = self._asked(lambda: self._client.hgetall(f"{self._prefix}:resets"))
        resets: dict[tuple[str, str], float] = {}
        for name, at in _named(found):
            provider_id, _, model = name.partition("\n")
            with suppress(ValueError):
                resets[provider_id, model] = float(at)
        return resets

    def lend(self, provider_id: str, model: str, token: str, seconds: float) -> bool:
        key, ms = self._lease(provider_id, model), max(round(seconds * 1000), 1)
        return bool(self._asked(lambda: self._quick.set(key, token, nx=True, px=ms)))

    def give_back(self, provider_id: str, model: str, token: str) -> None:
        self._asked(lambda: self._client.eval(_GIVE_BACK, 1, self._lease(provider_id, model), token))

    def close(self) -> None:
        self._client.close()
        self._quick.close()

    def _hash(self, provider_id: str) -> str:
        return f"{self._prefix}:{provider_id}"

    def _lease(self, provider_id: str, model: str) -> str:
        return f"{self._prefix}:lease:{provider_id}:{model}"

    @staticmethod
    def _asked(question: Callable[[], T]) -> T:
        try:
            return question()
        except (redis.RedisError, OSError) as problem:
            raise StoreAway(type(problem).__name__) from problem


def _named(found: Mapping[bytes, T]) -> Iterator[tuple[str, T]]:
    """*found* by its names as text; what has no such name is none of ours."""
    for name, value in found.items():
        with suppress(UnicodeDecodeError):
            yield name.decode(), value


def _client(url: str, seconds: float) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=seconds, socket_connect_timeout=seconds, retry_on_timeout=False)
