"""The process environment, read once: every variable, its default and its range.

Booleans are ``true``/``1``/``yes`` and ``false``/``0``/``no`` in any letter case. Numbers are clamped to their range.
An unreadable bool or number is a warning and the default; what must stop the start raises :class:`BadEnvironment`.
"""

import ipaddress
import math
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import environ
from django.conf import settings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
MIN_REQUEST_SIZE, MAX_REQUEST_SIZE, DEFAULT_REQUEST_SIZE = 1024, 104_857_600, 52_428_800

#: Provider types whose own API may be called where that is switched on (v1-api 21).
PASSTHROUGH_PROVIDERS = "openai,anthropic,openrouter,zai-coding"


class BadEnvironment(Exception):
    """The start can not go on; the text is one line that names the variable."""


@dataclass(frozen=True)
class Environment:
    """All of it, typed. *raw* is what it was read from, rates within their ranges; *warnings* are lines for the log."""

    master_key: str = ""
    old_master_key: str = ""
    database_url: str = ""
    database_max_conns: int = 25
    database_min_conns: int = 5
    redis_url: str = ""
    node_name: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    data_dir: Path = Path("data")
    admin_token: str = ""
    admin_password: str = ""
    upstream_client: Literal["native", "httpx"] = "native"
    trust_env_proxy: bool = False
    cookie_secure: Literal["auto", "always", "never"] = "auto"
    cors_origins: tuple[str, ...] = ()
    allow_embed: bool = False
    trusted_proxies: tuple[Network, ...] = ()
    known_proxies: tuple[Network, ...] = ()
    allowed_provider_hosts: frozenset[str] = frozenset()
    allow_http_providers: bool = False
    max_request_size: int = DEFAULT_REQUEST_SIZE
    metrics_token: str = ""
    modelsdev_enabled: bool = True
    enable_passthrough_routes: bool = False
    allow_passthrough_v1_alias: bool = True
    enabled_passthrough_providers: tuple[str, ...] = ()
    demo_readonly: bool = False
    demo_show_token: bool = False
    releases_url: str = ""
    debug_log: bool = False
    debug_log_scopes: frozenset[str] = frozenset()
    log_format: Literal["text", "json"] = "text"
    raw: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def sqlite(self) -> bool:
        return not self.database_url


class _Reader:
    def __init__(self, raw: Mapping[str, str]) -> None:
        self.raw = raw
        self.warnings: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        value = self.raw.get(name, "")
        return value if value.strip() else default

    def flag(self, name: str, default: bool) -> bool:
        word = self.text(name).strip().lower()
        if word in ("true", "1", "yes"):
            return True
        if word in ("false", "0", "no"):
            return False
        if word:
            self.warnings.append(f"{name}: {word!r} is not true or false, using {str(default).lower()}")
        return default

    def number(self, name: str, default: int, low: int, high: int) -> int:
        word = self.text(name).strip()
        if not word:
            return default
        try:
            value = int(word)
        except ValueError:
            self.warnings.append(f"{name}: {word!r} is not a number, using {default}")
            return default
        if not low <= value <= high:
            self.warnings.append(f"{name}: {value} is outside {low} to {high}, clamped")
        return min(max(value, low), high)

    def starting(self, name: str, low: float, high: float, *, whole: bool) -> dict[str, str]:
        """The starting default of a setting as it is read later: within its range, absent where unreadable."""
        word = self.text(name).strip()
        if not word:
            return {}
        try:
            value = float(int(word)) if whole else float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self.warnings.append(f"{name}: {word!r} is not a number, using the default")
            return {name: ""}
        if not low <= value <= high:
            self.warnings.append(f"{name}: {word} is outside {low:g} to {high:g}, clamped")
            return {name: f"{min(max(value, low), high):g}"}
        return {}

    def items(self, name: str, default: str = "") -> tuple[str, ...]:
        return tuple(part.strip() for part in self.text(name, default).split(",") if part.strip())

    def networks(self, name: str) -> tuple[Network, ...]:
        found: list[Network] = []
        for part in self.items(name):
            try:
                found.append(ipaddress.ip_network(part, strict=False))
            except ValueError:
                self.warnings.append(f"{name}: {part!r} is not a network such as 10.0.0.0/8, skipped")
        return tuple(found)

    def word(self, name: str, words: tuple[str, ...], default: str, fallback: str) -> str:
        value = self.text(name).strip().lower()
        if not value:
            return default
        if value in words:
            return value
        self.warnings.append(f"{name}: {value!r} is none of {', '.join(words)}, using {fallback}")
        return fallback


def _listen(reader: _Reader) -> tuple[str, int]:
    host = reader.text("HOST", "127.0.0.1").strip()
    text = reader.text("PORT", ":8080").strip()
    named, _, digits = text.rpartition(":")
    if not digits.isdigit() or not 0 <= int(digits) <= 65535:
        raise BadEnvironment(f"PORT: {text!r} is not a port such as 8080, :8080 or 127.0.0.1:8080")
    return (named.strip("[]") or host), int(digits)


def _database_url(reader: _Reader) -> str:
    if url := reader.text("DATABASE_URL").strip():
        if url.split(":", 1)[0] not in ("postgres", "postgresql"):
            raise BadEnvironment("DATABASE_URL: only postgresql:// addresses; leave it out for SQLite in DATA_DIR")
        return url
    if password := reader.text("POSTGRES_PASSWORD"):
        user = quote(reader.text("POSTGRES_USER", "modelhotel"), safe="")
        host = reader.text("POSTGRES_HOST", "db")
        name = quote(reader.text("POSTGRES_DB", "modelhotel"), safe="")
        return f"postgresql://{user}:{quote(password, safe='')}@{host}:5432/{name}"
    return ""


def _origins(reader: _Reader) -> tuple[str, ...]:
    found = reader.items("CORS_ORIGINS", "http://localhost:5173,http://localhost:8081")
    if "*" in found:
        reader.warnings.append("CORS_ORIGINS: '*' is ignored, name the origins")
    return tuple(origin.rstrip("/") for origin in found if origin != "*")


def _releases_url(reader: _Reader) -> str:
    url = reader.text("RELEASES_URL").strip()
    if url and not url.startswith(("https://", "http://")):
        reader.warnings.append("RELEASES_URL: not an http or https address, ignored")
        return ""
    return url


def _demo(reader: _Reader, admin_token: str) -> tuple[bool, bool]:
    """Whether nothing may be changed, and whether the sign-in page shows the token, which everybody then knows."""
    readonly, shown = reader.flag("DEMO_READONLY", False), reader.flag("DEMO_SHOW_TOKEN", False)
    if shown and not (readonly and admin_token):
        reader.warnings.append("DEMO_SHOW_TOKEN: ignored without DEMO_READONLY=true and ADMIN_TOKEN")
    return readonly, shown and readonly and bool(admin_token)


def _limits(reader: _Reader) -> dict[str, str]:
    """The variables of the rate limiter in the form in which the settings read them."""
    return {
        "RATE_LIMIT_ENABLED": str(reader.flag("RATE_LIMIT_ENABLED", True)).lower(),
        **reader.starting("RATE_LIMIT_IP_RPS", 0, 10_000, whole=False),
        **reader.starting("RATE_LIMIT_IP_BURST", 1, 10_000, whole=True),
    }


def read(raw: Mapping[str, str]) -> Environment:
    """Raises BadEnvironment."""
    reader = _Reader(raw)
    seen = {**raw, **_limits(reader)}
    host, port = _listen(reader)
    client = reader.text("UPSTREAM_CLIENT", "native").strip().lower()
    if client not in ("native", "httpx"):
        raise BadEnvironment(f"UPSTREAM_CLIENT: {client!r} is neither native nor httpx")
    admin_token = reader.text("ADMIN_TOKEN").strip()
    demo_readonly, demo_show_token = _demo(reader, admin_token)
    most_connections = reader.number("DATABASE_MAX_CONNS", 25, 1, 1000)
    values: dict[str, object] = {
        "master_key": reader.text("MASTER_KEY"),
        "old_master_key": reader.text("OLD_MASTER_KEY"),
        "database_url": _database_url(reader),
        "database_max_conns": most_connections,
        "database_min_conns": min(reader.number("DATABASE_MIN_CONNS", 5, 1, 1000), most_connections),
        "redis_url": reader.text("REDIS_URL").strip(),
        "node_name": reader.text("NODE_NAME", socket.gethostname()).strip(),
        "host": host,
        "port": port,
        "data_dir": Path(reader.text("DATA_DIR", "./data")).expanduser(),
        "admin_token": admin_token,
        "admin_password": reader.text("ADMIN_PASSWORD"),
        "upstream_client": client,
        "trust_env_proxy": reader.flag("TRUST_ENV_PROXY", False),
        "cookie_secure": reader.word("COOKIE_SECURE", ("auto", "always", "never"), "auto", "always"),
        "cors_origins": _origins(reader),
        "allow_embed": reader.flag("ALLOW_EMBED", False),
        "trusted_proxies": reader.networks("TRUSTED_PROXIES"),
        "known_proxies": reader.networks("KNOWN_PROXIES"),
        "allowed_provider_hosts": frozenset(h.lower() for h in reader.items("ALLOWED_PROVIDER_HOSTS")),
        "allow_http_providers": reader.flag("ALLOW_HTTP_PROVIDERS", False),
        "max_request_size": reader.number("MAX_REQUEST_SIZE", DEFAULT_REQUEST_SIZE, MIN_REQUEST_SIZE, MAX_REQUEST_SIZE),
        "metrics_token": reader.text("METRICS_TOKEN").strip(),
        "modelsdev_enabled": reader.flag("MODELSDEV_ENABLED", True),
        "enable_passthrough_routes": reader.flag("ENABLE_PASSTHROUGH_ROUTES", False),
        "allow_passthrough_v1_alias": reader.flag("ALLOW_PASSTHROUGH_V1_ALIAS", True),
        "enabled_passthrough_providers": tuple(
            word.lower() for word in reader.items("ENABLED_PASSTHROUGH_PROVIDERS", PASSTHROUGH_PROVIDERS)
        ),
        "demo_readonly": demo_readonly,
        "demo_show_token": demo_show_token,
        "releases_url": _releases_url(reader),
        "debug_log": reader.flag("DEBUG_LOG", False),
        "debug_log_scopes": frozenset(scope.lower() for scope in reader.items("DEBUG_LOG_SCOPES")),
        "log_format": reader.word("LOG_FORMAT", ("text", "json"), "text", "text"),
    }
    return Environment(**values, raw=seen, warnings=tuple(reader.warnings))  # type: ignore[arg-type]


def process_environ(directory: Path | None = None) -> dict[str, str]:
    """The process environment over a ``.env`` file of the working directory (a missing one is fine)."""
    file = (directory or Path.cwd()) / ".env"
    if file.is_file():
        environ.Env.read_env(file, overwrite=False)
    return dict(os.environ)


def current() -> Environment:
    """The environment this process was started with."""
    env: Environment = settings.MH
    return env
