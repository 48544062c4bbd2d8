"""Where the gateway may send requests: the check of a provider's address, and the guard of every dial.

The check when a provider is saved can be outrun by DNS; the guard can not: it resolves once, drops what is blocked
and hands out the checked addresses themselves.
"""

import asyncio
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import Any
from urllib.parse import SplitResult, urlsplit

from modelhotel.core.environment import Environment
from modelhotel.core.faults import Refusal
from providers import addresses
from providers.upstream.interface import FaultKind, UpstreamError

Address = tuple[int, tuple[Any, ...]]
#: (host, port) -> addresses in order of preference; raises OSError.
Resolver = Callable[[str, int], list[Address]]

CODE = "provider_url_rejected"
HTTPS_TEXT = "base_url must use HTTPS (set ALLOW_HTTP_PROVIDERS=true for HTTP)"
RESOLVE_SECONDS = 5.0
_ODD = re.compile(r"[\x00-\x20\x7f-\xa0\\\s]")
_names = ThreadPoolExecutor(8, thread_name_prefix="dns")


def system_resolver(host: str, port: int) -> list[Address]:
    """Blocking. Raises OSError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as problem:  # a label that is empty or too long
        raise OSError(str(problem)) from None
    return [(family, sockaddr) for family, _, _, _, sockaddr in found]


def _reject(text: str) -> Refusal:
    return Refusal(400, text, code=CODE, field="base_url")


def _split(url: str) -> SplitResult:
    if _ODD.search(url):
        raise _reject("base_url must not contain blanks, backslashes or control characters")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise _reject("base_url is not a valid URL") from None
    return parts


def _shape(url: str, env: Environment) -> str:
    """The host of a well-formed address. Raises Refusal."""
    parts = _split(url)
    if parts.scheme not in ("http", "https") or not addresses.plain_host(parts.hostname or ""):
        raise _reject("base_url must be an http or https URL with a host")
    if "@" in parts.netloc:
        raise _reject("base_url must not contain user info")
    if parts.query or "?" in url:
        raise _reject("base_url must not contain a query")
    if parts.fragment or "#" in url:
        raise _reject("base_url must not contain a fragment")
    if parts.scheme == "http" and not env.allow_http_providers:
        raise Refusal(400, HTTPS_TEXT, field="base_url")
    return addresses.plain_host(parts.hostname or "")


def check_url(url: str, env: Environment, resolver: Resolver = system_resolver) -> None:
    """Refuse an address that providers may not have. Resolves the name (5 s at most): never inside a transaction.

    Raises Refusal: plain text for the missing https, else code ``provider_url_rejected``.
    """
    host = _shape(url, env)
    if addresses.built_in(host):
        return
    if env.allowed_provider_hosts:
        if host not in {addresses.plain_host(allowed) for allowed in env.allowed_provider_hosts}:
            raise _reject(f'provider host "{host}" is not in ALLOWED_PROVIDER_HOSTS allowlist')
        return
    if host in addresses.LOOPBACK_NAMES:
        raise _reject("loopback addresses are not allowed as provider URLs (add to ALLOWED_PROVIDER_HOSTS to permit)")
    try:
        found = _names.submit(resolver, host, urlsplit(url).port or 443).result(RESOLVE_SECONDS)
    except (OSError, Late):
        return  # the guard decides when it is dialled
    for _, sockaddr in found:
        if addresses.refused(str(sockaddr[0]), env.known_proxies):
            raise _reject(
                f'host "{host}" resolves to private/reserved address {sockaddr[0]}: not allowed as provider URL '
                "(add to ALLOWED_PROVIDER_HOSTS to permit)"
            )


async def _loop_resolver(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, sockaddr) for family, _, _, _, sockaddr in found]


class Guard:
    """What every connection to a provider asks before it dials. *resolver* is for tests; blocking, run in a thread."""

    def __init__(self, env: Environment, resolver: Resolver | None = None) -> None:
        self._known = env.known_proxies
        self._free = addresses.BUILT_IN_HOSTS | {addresses.plain_host(h) for h in env.allowed_provider_hosts}
        self._resolver = resolver

    async def resolve(self, host: str, port: int) -> list[Address]:
        """The addresses that may be dialled, in order. Raises UpstreamError, DNS or FORBIDDEN."""
        try:
            if self._resolver is not None:
                found = await asyncio.to_thread(self._resolver, host, port)
            else:
                found = await _loop_resolver(host, port)
        except (OSError, UnicodeError):
            raise UpstreamError(FaultKind.DNS, f"the name {host} does not resolve") from None
        if not found:
            raise UpstreamError(FaultKind.DNS, f"the name {host} does not resolve")
        if addresses.plain_host(host) in self._free:
            return found
        allowed = [pair for pair in found if not addresses.refused(str(pair[1][0]), self._known)]
        if not allowed:
            text = f"refused connection to private/reserved IP {found[0][1][0]} for host {host}"
            raise UpstreamError(FaultKind.FORBIDDEN, text)
        return allowed
