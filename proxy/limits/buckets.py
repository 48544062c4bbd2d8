"""The live buckets of this process, by what they limit. Of the event loop; :meth:`Buckets.sweep` is for any thread."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from proxy.limits.bucket import Bucket, wait_of
from proxy.limits.caps import Cap
from proxy.limits.episodes import Episode

#: Seconds without use after which a bucket is dropped, and between two sweeps.
IDLE, SWEEP_EVERY = 600.0, 300.0
#: Buckets above which full ones are dropped before their time: addresses cost an attacker nothing.
MANY = 50_000
#: Seconds between two such sweeps.
_CROWDED_EVERY = 1.0


class Live:
    """A bucket in use, under the cap it was last asked with.

    *owed*: tokens that were spent here while the other processes could not be told.
    """

    __slots__ = ("bucket", "cap", "episode", "owed", "used_at")

    def __init__(self, cap: Cap, who: Mapping[str, str], now: float) -> None:
        self.cap = cap
        self.bucket = Bucket(cap.rate, cap.capacity, now)
        self.episode = Episode(who)
        self.owed = 0.0
        self.used_at = now

    def under(self, cap: Cap, now: float) -> Bucket:
        """The bucket with *cap* in force."""
        self.used_at = now
        if cap is not self.cap:
            self.cap = cap
            self.bucket.change(cap.rate, cap.capacity, now)
        return self.bucket

    def learn(self, cap: Cap, tokens: float, now: float) -> None:
        """What is left here of a bucket that others use too, should they be out of reach next."""
        bucket = self.under(cap, now)
        bucket.settle(now)
        bucket.tokens = min(tokens, float(cap.capacity))


class Ask(NamedTuple):
    """One bucket of which a token is wanted; *live* is its share of this process."""

    id: str
    cap: Cap
    live: Live


class Taken(NamedTuple):
    """The balances after one token was taken from each; where not *granted* they got it back."""

    granted: bool
    tokens: Sequence[float]

    def waits(self, asks: Sequence[Ask], share: int = 1) -> list[float]:
        return [wait_of(left, ask.cap.share(share).rate) for left, ask in zip(self.tokens, asks, strict=True)]


class Buckets:
    def __init__(self) -> None:
        self._live: dict[str, Live] = {}
        self._crowded_at = 0.0
        #: How often buckets were dropped: who keeps one must get it anew after that.
        self.generation = 0

    def __len__(self) -> int:
        return len(self._live)

    def get(self, bucket_id: str, cap: Cap, who: Mapping[str, str], now: float) -> Live:
        live = self._live.get(bucket_id)
        if live is None:
            if len(self._live) >= MANY and now - self._crowded_at >= _CROWDED_EVERY:
                self._crowded_at = now
                self.sweep(now, idle=0.0)
            live = self._live[bucket_id] = Live(cap, who, now)
        return live

    def sweep(self, now: float, idle: float = IDLE) -> None:
        """Drop what was not used for *idle* seconds and is full again: a debt is not forgiven."""
        for bucket_id, live in list(self._live.items()):
            if now - live.used_at >= idle and not live.owed and live.bucket.full(now):
                self._live.pop(bucket_id, None)
                self.generation += 1
                live.episode.end(now)

    def forget(self, kinds: tuple[str, ...]) -> None:
        """Buckets whose ids begin with one of *kinds* start fresh."""
        self._live = {
            bucket_id: live for bucket_id, live in list(self._live.items()) if not bucket_id.startswith(kinds)
        }
        self.generation += 1


def take(asks: Sequence[Ask], longest: float, share: int, now: float) -> Taken:
    """A token of each, if none of them takes longer than *longest* seconds to come; else none of any.

    *share*: how many processes share the caps without being able to ask each other.
    """
    buckets = [ask.live.under(ask.cap.share(share), now) for ask in asks]
    waits = [bucket.take(now) for bucket in buckets]
    tokens = [bucket.tokens for bucket in buckets]
    if max(waits) <= longest:
        return Taken(True, tokens)
    for bucket in buckets:
        bucket.give_back(now)
    return Taken(False, tokens)


def spend(asks: Iterable[Ask], amount: float, share: int, now: float) -> None:
    """*amount* of each, whether it is there or not; below 0 it is given back."""
    for ask in asks:
        bucket = ask.live.under(ask.cap.share(share), now)
        if amount < 0:
            bucket.give_back(now, -amount)
        else:
            bucket.spend(now, amount)
