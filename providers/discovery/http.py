"""The HTTP rules of discovery: 30 s per attempt, three attempts on what may pass, errors as text for the operator."""

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from providers import sanitize
from providers.control import Answer, exchange
from providers.kinds.base import Header, ListingError
from providers.upstream.interface import Client, FaultKind, UpstreamError

log = logging.getLogger("discovery")

ATTEMPTS = 3
ATTEMPT_SECONDS = 30.0
WAIT_SECONDS = 3.0  # times the attempt, plus as much again by chance
#: Of one answer. The longest listings known are of one to three MB; eight providers are asked at once.
LIMIT_BYTES = 16 * 1024 * 1024
#: Commas of one answer: what is decoded takes many times the room of its text when there is little between them.
LIMIT_COMMAS = 500_000
#: Final at the first try: asking again can not change it.
_FINAL = frozenset({FaultKind.FORBIDDEN, FaultKind.TOO_LARGE, FaultKind.PROTOCOL})


def _passing(status: int) -> bool:
    return status == 429 or status >= 500


class DiscoveryHttp:
    """The ``Http`` that listings are given. *keys* are masked in every text; *sleep* and *chance* are injected.

    *attempts* 1 tells at once what is wrong: somebody looks on. *scope* names whose calls these are in the log;
    *limit*: bytes of an answer.
    """

    def __init__(
        self,
        client: Client,
        keys: Iterable[str] = (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        attempts: int = ATTEMPTS,
        scope: str = "discovery",
        limit: int | None = None,
    ) -> None:
        self._client = client
        self._keys = tuple(keys)
        self._sleep = sleep
        self._chance = chance
        self._attempts = attempts
        self._scope = scope
        self._limit = LIMIT_BYTES if limit is None else limit

    async def get(self, url: str, headers: Iterable[Header]) -> Any:
        return await self._json("GET", url, headers, b"")

    async def post(self, url: str, headers: Iterable[Header], body: Any) -> Any:
        return await self._json("POST", url, headers, json.dumps(body).encode())

    async def _json(self, method: str, url: str, headers: Iterable[Header], body: bytes) -> Any:
        answer = await self._call(method, url, list(headers), body)
        if answer.status != 200:
            said = sanitize.clean(answer.body, sanitize.DISCOVERY_CHARACTERS, self._keys)
            raise ListingError(f"HTTP {answer.status}" + (f": {said}" if said else ""), answer.status)
        if answer.cut or answer.body.count(b",") > LIMIT_COMMAS:
            raise ListingError("the answer is too large", 200)
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            raise ListingError("the answer is not JSON", 200) from None

    async def _call(self, method: str, url: str, headers: list[Header], body: bytes) -> Answer:
        for attempt in range(1, self._attempts + 1):
            try:
                answer = await exchange(
                    self._client, method, url, headers, body, seconds=ATTEMPT_SECONDS, limit=self._limit
                )
            except UpstreamError as problem:
                if problem.kind in _FINAL or attempt == self._attempts:
                    raise ListingError(
                        sanitize.clean(str(problem), sanitize.DISCOVERY_CHARACTERS, self._keys)
                    ) from None
                reason = str(problem)
            else:
                if not _passing(answer.status) or attempt == self._attempts:
                    return answer
                reason = f"HTTP {answer.status}: {answer.body[:4096].decode('utf-8', 'replace')}"
            wait = WAIT_SECONDS * attempt + self._chance() * WAIT_SECONDS
            attrs = {
                "host": urlsplit(url).hostname,
                "attempt": attempt,
                "wait_ms": round(wait * 1000),
                "reason": sanitize.clean(reason, sanitize.RETRY_CHARACTERS, self._keys),
            }
            log.info(f"{self._scope}: call repeated", extra={"attrs": attrs})
            await self._sleep(wait)
        raise AssertionError("unreachable")
