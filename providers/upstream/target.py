"""URLs and headers on their way into a request: parsed, checked and encoded once."""

from collections.abc import Iterable
from urllib.parse import quote, urlsplit

from providers.upstream.interface import Headers, Steady

_DEFAULT_PORTS = {"http": 80, "https": 443}
_SAFE = "/%:@!$&'()*+,;=~-._[]?"


class Target:
    """Where one URL leads. *host* is what is resolved and named to TLS, *authority* the Host header."""

    __slots__ = ("_lines", "authority", "host", "path", "port", "scheme")

    def __init__(self, scheme: str, host: str, port: int, path: str) -> None:
        self.scheme = scheme
        self.host = host
        self.port = port
        self.path = path
        name = f"[{host}]" if ":" in host else host
        self.authority = name if port == _DEFAULT_PORTS[scheme] else f"{name}:{port}"
        self._lines: dict[tuple[str, bool], bytes] = {}

    @property
    def origin(self) -> tuple[str, str, int]:
        return (self.scheme, self.host, self.port)

    def opening(self, method: str, *, absolute: bool = False) -> bytes:
        """Request line, Host and Accept-Encoding; *absolute* for a request to an HTTP proxy."""
        line = self._lines.get((method, absolute))
        if line is None:
            if not (method.isascii() and method.isalpha()):
                raise ValueError("not an HTTP method")
            path = f"{self.scheme}://{self.authority}{self.path}" if absolute else self.path
            line = f"{method} {path} HTTP/1.1\r\nHost: {self.authority}\r\nAccept-Encoding: identity\r\n".encode(
                "ascii"
            )
            self._lines[method, absolute] = line
        return line


def parse(url: str) -> Target:
    """Raises ValueError for anything but an absolute http(s) URL without user info. The text never quotes the URL."""
    if any(ch <= " " or ch == "\x7f" for ch in url):
        raise ValueError("URL with blanks or control characters")
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError("URL is neither http nor https")
    if not parts.hostname or "@" in parts.netloc:
        raise ValueError("URL without a host, or with user info")
    host = parts.hostname.rstrip(".")
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    path = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        path += "?" + quote(parts.query, safe=_SAFE)
    return Target(parts.scheme, host, parts.port or _DEFAULT_PORTS[parts.scheme], path)


def encode_headers(headers: Headers) -> bytes:
    """The header lines. Raises ValueError where a name or value would break out of its line."""
    steady = headers if type(headers) is Steady else None
    if steady is not None and steady.block:
        return steady.block
    block = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    count = len(headers)
    if block.count(b"\n") != count or block.count(b"\r") != count or b"\0" in block:
        raise ValueError("header with a line break")
    if steady is not None:
        steady.block = block
    return block


def first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """First value of the lower-case *name*."""
    for key, value in headers:
        if key == name:
            return value
    return None
