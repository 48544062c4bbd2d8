"""``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``, honoured only when ``TRUST_ENV_PROXY`` is set."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from providers.upstream.interface import FaultKind, UpstreamError


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy of the operator. *authorization* is the Proxy-Authorization value, empty without credentials."""

    host: str
    port: int
    authorization: bytes = b""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"Proxy-Authorization", self.authorization)] if self.authorization else []


class Proxies:
    """Which proxy a request goes through. *raw* is the environment; empty = always direct."""

    def __init__(self, raw: Mapping[str, str] | None = None) -> None:
        raw = raw or {}
        self._url = {scheme: _variable(raw, f"{scheme}_proxy") for scheme in ("http", "https")}
        self._bypass = {"no": _variable(raw, "no_proxy")}
        self.active = any(self._url.values())

    def of(self, scheme: str, host: str, port: int) -> Proxy | None:
        """None = direct. Raises UpstreamError when the variable names no HTTP proxy."""
        url = self._url[scheme]
        if not url or proxy_bypass_environment(f"{host}:{port}", self._bypass):
            return None
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme != "http" or not parts.hostname:
            # Going direct instead would break the operator's rule silently.
            raise UpstreamError(FaultKind.REFUSED, f"{scheme.upper()}_PROXY: only http:// proxies are supported")
        authorization = b""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = b"Basic " + base64.b64encode(pair.encode())
        return Proxy(parts.hostname, parts.port or 80, authorization)


def _variable(raw: Mapping[str, str], name: str) -> str:
    return (raw.get(name) or raw.get(name.upper()) or "").strip()
