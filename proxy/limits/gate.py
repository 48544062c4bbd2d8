"""The gates of v1-api 2 that ask whether it is too much: address, request rate, tokens per minute, budget.

A request that finds its tokens costs a few microseconds and no turn of the event loop. All of it belongs to the event
loop, except for :meth:`Limiter.sweep`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from modelhotel.core import catalogue, options
from modelhotel.core.options import Options
from proxy import answers
from proxy.answers import Answer, Header
from proxy.exchange import DIRECT, Scope
from proxy.keys import KeyRow
from proxy.limits import buckets, caps
from proxy.limits.bucket import retry_after_of_rate, retry_after_of_tokens
from proxy.limits.buckets import Ask, Buckets, Live, Taken
from proxy.limits.budgets import Budgets
from proxy.limits.caps import Cap, Limits, Rules
from proxy.limits.money import Subject
from proxy.limits.shared import Shared
from requestlogs.draft import Draft

#: Seconds between two looks whether a held client is still there.
LOOK = 0.02
ADDRESS, KEY, OWNER = "address:", "key:", "owner:"
TOKENS, OWNER_TOKENS = "tokens:", "owner-tokens:"
KEY_RATE, OWNER_RATE = "rate limit exceeded", "user rate limit exceeded"
KEY_TPM, OWNER_TPM = "token rate limit exceeded", "user token rate limit exceeded"
NOTHING_PLACED: Sequence[Ask] = ()
#: Key lookups kept; beyond it all are made anew.
_KNOWN = 10_000


class Asker(Protocol):
    """A request at the gates. *base* are the headers of its answer, whatever that will be.

    *numbered*: where in *base* the numbers of a bucket stand, -1 for nowhere. *placed*: what is given back when it is
    over.
    """

    scope: Scope
    opts: Options
    base: list[Header]
    numbered: int
    placed: Sequence[Ask]

    @property
    def client(self) -> str: ...

    async def say(self, answer: Answer, *extra: Header) -> None: ...


class _Known:
    """What limits one key under certain rules. *simple*: its request rate and nothing else."""

    __slots__ = ("budgets", "cap", "generation", "rates", "row", "rules", "simple", "tokens")

    def __init__(self, row: KeyRow, rules: Rules, cap: Cap | None, rates: list[Ask], tokens: list[Ask]) -> None:
        self.row, self.rules, self.cap = row, rules, cap
        self.rates, self.tokens = rates, tokens
        subjects: list[tuple[Subject, str, str, Limits]] = [("key", row.id, row.name, row.limits)]
        if row.owner_user_id is not None and row.owner_limits is not None:
            subjects.append(("user", row.owner_user_id, row.owner_name, row.owner_limits))
        #: (kind, id, name, limits) of each that has one, the key first.
        self.budgets = [subject for subject in subjects if subject[3].budget_usd is not None]
        self.simple = not tokens and not self.budgets and all(ask.id.startswith(KEY) for ask in rates)
        self.generation = 0


class Limiter:
    """One per process."""

    def __init__(self) -> None:
        self.buckets = Buckets()
        self.budgets = Budgets()
        self.shared: Shared | None = None
        self._known: dict[str, _Known] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on = dict.fromkeys(_CLEARED, True)
        self._stale: list[str] = []
        options.SNAPSHOT.listeners.append(self._changed)

    # -- gate 1

    def address(self, call: Asker) -> Awaitable[bool] | None:
        """None: go on. Otherwise whether to go on; if not, the answer was given or nobody waits for it any more."""
        cap = caps.rules(call.opts).address
        if cap is None:
            return None
        if cap.unlimited:
            _number(call, cap, caps.UNLIMITED)
            call.base.append(caps.SCOPE)
            return None
        now, client = time.monotonic(), call.client
        live = self.buckets.get(ADDRESS + client, cap, {"limit": "requests", "client_ip": client}, now)
        if self.shared is None and _at_once(call, cap, live, now):
            call.base.append(caps.SCOPE)
            return None
        return self._address(call, [Ask(ADDRESS + client, cap, live)])

    async def _address(self, call: Asker, asks: list[Ask]) -> bool:
        passed = await self._rate(call, asks, [KEY_RATE], (caps.SCOPE,))
        if passed:
            call.base.append(caps.SCOPE)
        return passed

    # -- gates 3 to 5

    def admit(self, call: Asker, key: KeyRow, *, spends: bool) -> Awaitable[bool] | None:
        """As :meth:`address`. *spends*: False for what costs nothing, and is refused by no budget."""
        rules = caps.rules(call.opts)
        known = self._known.get(key.hash)
        if (
            known is None
            or known.row is not key
            or known.rules is not rules
            or known.generation != self.buckets.generation
        ):
            known = self._know(key, rules)
        cap = known.cap
        if known.simple:
            if cap is None:
                return None
            if cap.unlimited:
                _number(call, cap, caps.UNLIMITED)
                return None
            if self.shared is None and _at_once(call, cap, known.rates[0].live, time.monotonic()):
                return None
        return self._admit(call, known, spends)

    def _know(self, key: KeyRow, rules: Rules) -> _Known:
        now, id_of_owner = time.monotonic(), key.owner_user_id or ""
        cap = rules.of_key(key.limits) if rules.keys else None
        rates: list[Ask] = []
        tokens: list[Ask] = []
        if rules.keys:
            # The owner's first: it is the one named where both make wait equally long.
            wanted = [
                (rates, OWNER + id_of_owner, rules.of_owner(key.owner_limits)),
                (rates, KEY + key.hash, cap if cap and not cap.unlimited else None),
                (tokens, OWNER_TOKENS + id_of_owner, rules.tokens_of_owner(key.owner_limits)),
                (tokens, TOKENS + key.hash, None if key.session else rules.tokens_of_key(key.limits)),
            ]
            for asks, bucket_id, limit in wanted:
                if limit is not None:
                    who = {"limit": "requests" if asks is rates else "tokens"}
                    who |= {"key": key.name} if key.hash in bucket_id else {"user": key.owner_name}
                    asks.append(Ask(bucket_id, limit, self.buckets.get(bucket_id, limit, who, now)))
        if len(self._known) >= _KNOWN:
            self._known.clear()
        found = self._known[key.hash] = _Known(key, rules, cap, rates, tokens)
        found.generation = self.buckets.generation
        return found

    async def _admit(self, call: Asker, known: _Known, spends: bool) -> bool:
        rates = known.rates
        if rates:
            messages = [OWNER_RATE if ask.id.startswith(OWNER) else KEY_RATE for ask in rates]
            if not await self._rate(call, rates, messages):
                return False
        if known.cap is not None and known.cap.unlimited:
            _number(call, known.cap, caps.UNLIMITED)
        if known.tokens and not await self._tokens(call, known.tokens, spends):
            return False
        if known.budgets and spends:
            try:
                refusal = await self.budgets.refusal(known.budgets)
            except BaseException:
                self._leave(call)
                raise
            if refusal is not None:
                self._leave(call)
                await call.say(refusal)
                return False
        return True

    async def _rate(
        self, call: Asker, asks: Sequence[Ask], messages: Sequence[str], extra: Sequence[Header] = ()
    ) -> bool:
        """A token of each of *asks*, held until all are there; the last one's numbers are told."""
        longest = caps.rules(call.opts).longest_hold
        taken, share = await self._take(asks, longest)
        waits, now = taken.waits(asks, share), time.monotonic()
        wait = max(waits)
        if not taken.granted:
            at = waits.index(wait)
            asks[at].live.episode.refuse(now)
            _number(call, asks[at].cap, taken.tokens[at] + 1.0)
            call.base.extend(extra)
            await call.say(_refusal(messages[at], retry_after_of_rate(wait)))
            return False
        if wait > 0:
            if not await self._hold(call, wait, asks):
                return False
        else:
            for ask in asks:
                ask.live.episode.end(now)
        _number(call, asks[-1].cap, taken.tokens[-1])
        return True

    async def _tokens(self, call: Asker, asks: Sequence[Ask], spends: bool) -> bool:
        """One placeholder of each of *asks*, given back when the request is over."""
        taken, share = await self._take(asks, 0.0)
        now = time.monotonic()
        if taken.granted:
            for ask in asks:
                ask.live.episode.end(now)
            call.placed = asks
            if not spends:
                self._leave(call)
            return True
        waits = taken.waits(asks, share)
        at = next(at for at, wait in enumerate(waits) if wait > 0)
        asks[at].live.episode.refuse(now)
        message = OWNER_TPM if asks[at].id.startswith(OWNER_TOKENS) else KEY_TPM
        await call.say(_refusal(message, retry_after_of_tokens(waits[at])))
        return False

    async def _hold(self, call: Asker, seconds: float, asks: Sequence[Ask]) -> bool:
        """False when the client left meanwhile; its tokens were given back."""
        until = time.monotonic() + seconds
        direct = call.scope.get("extensions", {}).get(DIRECT)
        gone: Callable[[], bool] = getattr(direct, "gone", _never)
        here = False
        try:
            while (left := until - time.monotonic()) > 0 and not gone():
                await asyncio.sleep(min(left, LOOK))
            here = not gone()
        finally:
            if not here:
                self._spend(asks, -1.0)
        return here

    # -- what it came to

    def over(self, call: Asker, draft: Draft) -> None:
        """The request is over, its row on its way: what it cost counts against the budgets."""
        if call.placed:
            self._leave(call)
        dollars = draft.cost_usd
        if dollars:
            if draft.virtual_key_id is not None:
                self.budgets.finished("key", draft.virtual_key_id, dollars, draft.created_at)
            if draft.owner_user_id is not None:
                self.budgets.finished("user", draft.owner_user_id, dollars, draft.created_at)

    def _leave(self, call: Asker) -> None:
        """Its placeholders are free."""
        placed, call.placed = call.placed, NOTHING_PLACED
        if placed:
            self._spend(placed, -1.0)

    def debit(self, key: KeyRow, tokens: int) -> None:
        """*tokens* were used up with *key*: they count against its minute and its owner's."""
        known = self._known.get(key.hash) or self._know(key, caps.rules(options.current()))
        if known.tokens and tokens > 0:
            if known.generation != self.buckets.generation:
                known = self._know(known.row, known.rules)
            self._spend(known.tokens, float(tokens))

    # -- here, or in all processes together

    async def _take(self, asks: Sequence[Ask], longest: float) -> tuple[Taken, int]:
        """What was taken, and by how many processes the caps were divided for that."""
        shared = self.shared
        if shared is None:
            return buckets.take(asks, longest, 1, time.monotonic()), 1
        if self._stale:
            stale, self._stale = self._stale, []
            await shared.clear(stale)
        taken, share = await shared.take(asks, longest), max(shared.processes, 1)
        now = time.monotonic()
        if taken is None:
            taken = buckets.take(asks, longest, share, now)
            if taken.granted:
                self._owe(asks, 1.0)
            return taken, share
        back = 0.0 if taken.granted else 1.0
        for ask, left in zip(asks, taken.tokens, strict=True):
            ask.live.learn(ask.cap.share(share), (left + back - ask.live.owed) / share, now)
            if ask.live.owed:
                owed, ask.live.owed = ask.live.owed, 0.0
                self.later(self._spend_shared(shared, (ask,), owed))
        return taken, 1

    def _spend(self, asks: Sequence[Ask], amount: float) -> None:
        if self.shared is None:
            buckets.spend(asks, amount, 1, time.monotonic())
        else:
            self.later(self._spend_shared(self.shared, asks, amount))

    async def _spend_shared(self, shared: Shared, asks: Sequence[Ask], amount: float) -> None:
        if not await shared.spend(asks, amount):
            buckets.spend(asks, amount, shared.processes, time.monotonic())
            self._owe(asks, amount)

    @staticmethod
    def _owe(asks: Sequence[Ask], amount: float) -> None:
        for ask in asks:
            ask.live.owed += amount

    def later(self, work: Any) -> None:
        """*work* as a task that is kept until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- life

    def share(self, store: Shared) -> None:
        """Count together with other processes from here on."""
        self.shared, self.budgets.first = store, store.first

    async def aclose(self) -> None:
        """Before the event loop ends."""
        if self.shared is not None:
            await self.shared.aclose()

    def sweep(self) -> None:
        """From any thread, every few minutes."""
        self.buckets.sweep(time.monotonic())

    def reset(self) -> None:
        """Forget everything (tests)."""
        self.buckets, self.budgets, self.shared = Buckets(), Budgets(), None
        self._known, self._stale = {}, []
        self._on = dict.fromkeys(_CLEARED, True)

    def _changed(self, values: Options) -> None:
        """A limiter that was off starts fresh. Runs in the thread that brings the new settings."""
        for option, kinds in _CLEARED.items():
            was, self._on[option] = self._on[option], values[option]
            if values[option] and not was:
                self.buckets.forget(kinds)
                self._stale = [*self._stale, *kinds]


_CLEARED = {
    catalogue.RATE_LIMIT_ENABLED: (KEY, OWNER),
    catalogue.RATE_LIMIT_IP_ENABLED: (ADDRESS,),
}


def _never() -> bool:
    return False


def _at_once(call: Asker, cap: Cap, live: Live, now: float) -> bool:
    """Take the token that is there; False: there is none, and nothing happened."""
    bucket = live.under(cap, now)
    bucket.settle(now)
    if bucket.tokens < 1.0:
        return False
    bucket.tokens -= 1.0
    if live.episode.refused:
        live.episode.end(now)
    _number(call, cap, bucket.tokens)
    return True


def _number(call: Asker, cap: Cap, tokens: float) -> None:
    """The numbers of a bucket, in place of those of an earlier gate."""
    if call.numbered < 0:
        call.numbered = len(call.base)
        call.base += caps.shown(cap, tokens)
    else:
        call.base[call.numbered : call.numbered + 3] = caps.shown(cap, tokens)


def _refusal(message: str, retry_after: int) -> Answer:
    return answers.error(429, message, answers.RATE_LIMITED, retry_after=retry_after)


LIMITER = Limiter()
