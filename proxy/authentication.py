"""Gate 2: the virtual key behind a call (v1-api 3)."""

import asyncio
import logging
from collections.abc import Mapping

from proxy import answers, keys
from proxy.answers import Header
from proxy.call import INTERNAL, Call
from proxy.keys import KeyRow
from proxy.metering import METER

log = logging.getLogger("proxy")

#: Seconds a key lookup that needs the database may take.
LOOKUP_LIMIT = 10.0
MISSING_KEY = (
    'missing authorization header: expected "Authorization: Bearer <virtual key>" or "x-api-key: <virtual key>"'
)
INVALID_KEY = "invalid virtual key"
OWNER_DISABLED = "virtual key disabled: owner account is disabled"
_CLOSE: Header = (b"connection", b"close")


def presented(headers: Mapping[bytes, bytes]) -> bytes | None:
    """The key a request shows; a well-formed ``Bearer`` wins over ``x-api-key`` (v1-api 3)."""
    bearer = headers.get(b"authorization")
    if bearer is not None and bearer[:7] == b"Bearer " and bearer[7:8].strip():
        return bearer[7:]
    return headers.get(b"x-api-key") or None


def known(call: Call) -> KeyRow | None:
    """The key behind the request, where nothing is wrong with it; None: see :func:`authenticate`."""
    table = keys.SNAPSHOT.current
    key = presented(call.headers)
    row = table.by_hash.get(keys.hash_of(key)) if key is not None else None
    if row is None or row.owner_disabled:
        return None
    METER.touch(row)
    return row


async def authenticate(call: Call) -> KeyRow | None:
    """The key behind the request where the keys had to be read first; None when it was refused, and answered."""
    table = keys.SNAPSHOT.current
    if not table.ready:
        try:
            async with asyncio.timeout(LOOKUP_LIMIT):
                table = await asyncio.to_thread(keys.load)
        except Exception:
            log.exception("proxy: virtual key lookup failed")
            await call.say(INTERNAL)
            return None
        row = known(call)
        if row is not None:
            return row
    key = presented(call.headers)
    row = table.by_hash.get(keys.hash_of(key)) if key is not None else None
    if row is not None and row.owner_disabled:
        await _refuse(call, OWNER_DISABLED, row.name)
    else:
        await _refuse(call, MISSING_KEY if key is None else INVALID_KEY)
    return None


async def _refuse(call: Call, message: str, name: str = "") -> None:
    attrs = {"client_ip": call.client, "reason": message.partition(":")[0]}
    if name:
        attrs["key"] = name
    log.warning("proxy: virtual key refused", extra={"attrs": attrs})
    await call.say(answers.error(401, message, answers.INVALID_API_KEY), _CLOSE)
