"""Where a request came from: one resolver for throttling, access lines, warnings, audit rows and sessions.

Pure. Headers count only when the peer itself is inside ``TRUSTED_PROXIES``; without that list they are never read.
"""

import ipaddress
from collections.abc import Iterable, Sequence

from modelhotel.core.environment import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Headers = Iterable[tuple[bytes, bytes]]
_MAPPED = "::ffff:"


def _parse(text: str) -> Address | None:
    """The address that *text* spells; an IPv4 one written in IPv6 form counts as IPv4."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_trusted(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in trusted)


def _peer_is_trusted(peer: str, trusted: Sequence[Network]) -> bool:
    address = _parse(peer)
    return address is not None and _is_trusted(address, trusted)


def _values(headers: Headers, name: bytes) -> list[str]:
    """The comma-separated items of every header called *name* (lower case), in the order they came."""
    found = ",".join(value.decode("latin-1") for key, value in headers if key.lower() == name)
    return [part.strip() for part in found.split(",") if part.strip()]


def client_address(peer: str, headers: Headers, trusted: Sequence[Network]) -> str:
    """The client's address without a port; *peer* as it stands when nothing better is known.

    A trusted peer is believed about ``X-Forwarded-For``: the right-most entry that is an address and not itself
    trusted; when every entry is a trusted address the left-most one; otherwise (entries like ``unknown``) the
    ``X-Real-IP``.
    """
    if not trusted or not _peer_is_trusted(peer, trusted):
        return peer[len(_MAPPED) :] if peer.startswith(_MAPPED) and "." in peer else peer
    headers = list(headers)
    forwarded = [_parse(text) for text in _values(headers, b"x-forwarded-for")]
    for address in reversed(forwarded):
        if address and not _is_trusted(address, trusted):
            return str(address)
    if forwarded and all(forwarded):
        return str(forwarded[0])
    for text in _values(headers, b"x-real-ip"):
        if real := _parse(text):
            return str(real)
    return str(_parse(peer))


def is_https(peer: str, scheme: str, headers: Headers, trusted: Sequence[Network]) -> bool:
    """Whether the client speaks TLS: the connection itself, or what a trusted proxy says about its own."""
    if scheme == "https":
        return True
    if not trusted or not _peer_is_trusted(peer, trusted):
        return False
    return [word.lower() for word in _values(headers, b"x-forwarded-proto")[:1]] == ["https"]
