"""The security and CORS headers of every answer, as byte pairs ready for ASGI.

The tuples are made once per process and variant, so that the data plane pays nothing for them.
"""

from collections.abc import Iterable
from functools import lru_cache

from modelhotel.core.environment import Environment

Pairs = tuple[tuple[bytes, bytes], ...]

#: Two years, as the preload lists ask for.
HSTS = b"max-age=63072000; includeSubDomains; preload"
CORS_METHODS = b"GET, POST, PUT, PATCH, DELETE, OPTIONS"
CORS_HEADERS = b"Content-Type, Authorization, x-api-key, anthropic-version, anthropic-beta, X-CSRF-Token"
#: Seconds a browser may remember a preflight answer.
CORS_MAX_AGE = b"86400"
_VARY_ORIGIN = (b"vary", b"Origin")


def content_security_policy(*, admin: bool, embed: bool) -> str:
    """Nothing from elsewhere, no inline script. *admin* pages may evaluate: Alpine reads its attributes that way."""
    scripts = "script-src 'self' 'unsafe-eval'" if admin else "script-src 'self'"
    parts = ["default-src 'self'", scripts, "style-src 'self' 'unsafe-inline'", "img-src 'self' data: blob:"]
    parts.append("connect-src 'self'")
    if not embed:
        parts.append("frame-ancestors 'none'")
    return "; ".join([*parts, "base-uri 'self'", "form-action 'self'"])


@lru_cache(maxsize=8)
def _security(embed: bool, admin: bool, tls: bool) -> Pairs:
    pairs = [
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"strict-origin-when-cross-origin"),
        (b"content-security-policy", content_security_policy(admin=admin, embed=embed).encode()),
    ]
    if not embed:
        pairs.append((b"x-frame-options", b"DENY"))
    if tls:
        pairs.append((b"strict-transport-security", HSTS))
    return tuple(pairs)


def security_headers(env: Environment, *, admin: bool = False, tls: bool = False) -> Pairs:
    """For every answer. *admin*: a page of the admin site; *tls*: the connection itself is TLS (a proxy's is not)."""
    return _security(env.allow_embed, admin, tls)


@lru_cache(maxsize=64)
def _allowed(origin: bytes) -> Pairs:
    return (
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-credentials", b"true"),
        (b"access-control-allow-methods", CORS_METHODS),
        (b"access-control-allow-headers", CORS_HEADERS),
        (b"access-control-max-age", CORS_MAX_AGE),
        _VARY_ORIGIN,
    )


def cors_headers(env: Environment, origin: bytes | None) -> list[tuple[bytes, bytes]]:
    """For an answer to a request with *origin* as its ``Origin``; empty without one.

    An origin that is not listed gets ``Vary`` only; a preflight (``OPTIONS`` with ``Origin``) is 204 either way.
    """
    if origin is None:
        return []
    if origin.decode("latin-1") in env.cors_origins:
        return list(_allowed(origin))
    return [_VARY_ORIGIN]


def origin_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The ``Origin`` among ASGI *headers* (names in lower case), or None."""
    for name, value in headers:
        if name == b"origin":
            return value
    return None
