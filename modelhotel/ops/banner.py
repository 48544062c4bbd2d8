"""What a start prints: the configuration with its secrets masked, and the box that holds what is shown once. Pure."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from modelhotel.core import catalogue
from modelhotel.core.environment import Environment
from modelhotel.core.version import VERSION

MASK = "********"
TOKEN_TITLE = "ADMIN TOKEN (save now, it is not shown again)"


def without_password(url: str) -> str:
    """*url* with its password and query masked; the mask alone when it can not be taken apart."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:
        return MASK
    user = ""
    if "@" in parts.netloc:
        user = f"{parts.username or ''}:{MASK}@" if parts.password else f"{parts.username}@"
    query = f"?{MASK}" if parts.query else ""
    return f"{parts.scheme}://{user}{f'[{host}]' if ':' in host else host}{port}{parts.path}{query}"


def _csv(items: Iterable[object]) -> str:
    return ",".join(sorted(map(str, items)))


def configuration(env: Environment) -> dict[str, object]:
    """Variable -> value in force, in the order of the documentation; never a key, token or password."""
    return {
        "MASTER_KEY": MASK if env.master_key else "",
        "DATABASE_URL": without_password(env.database_url) if env.database_url else "",
        "DATABASE_MAX_CONNS": env.database_max_conns,
        "DATABASE_MIN_CONNS": env.database_min_conns,
        "REDIS_URL": without_password(env.redis_url) if env.redis_url else "",
        "NODE_NAME": env.node_name,
        "HOST": env.host,
        "PORT": env.port,
        "DATA_DIR": str(env.data_dir),
        "ADMIN_TOKEN": MASK if env.admin_token else "",
        "ADMIN_PASSWORD": MASK if env.admin_password else "",
        "UPSTREAM_CLIENT": env.upstream_client,
        "TRUST_ENV_PROXY": env.trust_env_proxy,
        "COOKIE_SECURE": env.cookie_secure,
        "CORS_ORIGINS": ",".join(env.cors_origins),
        "ALLOW_EMBED": env.allow_embed,
        "TRUSTED_PROXIES": _csv(env.trusted_proxies),
        "KNOWN_PROXIES": _csv(env.known_proxies),
        "ALLOWED_PROVIDER_HOSTS": _csv(env.allowed_provider_hosts),
        "ALLOW_HTTP_PROVIDERS": env.allow_http_providers,
        "RATE_LIMIT_ENABLED": env.raw.get("RATE_LIMIT_ENABLED", "true"),
        "RATE_LIMIT_IP_RPS": env.raw.get("RATE_LIMIT_IP_RPS") or catalogue.RATE_LIMIT_IP_RPS.default,
        "RATE_LIMIT_IP_BURST": env.raw.get("RATE_LIMIT_IP_BURST") or catalogue.RATE_LIMIT_IP_BURST.default,
        "MAX_REQUEST_SIZE": env.max_request_size,
        "METRICS_TOKEN": MASK if env.metrics_token else "",
        "MODELSDEV_ENABLED": env.modelsdev_enabled,
        "DEMO_READONLY": env.demo_readonly,
        "DEMO_SHOW_TOKEN": env.demo_show_token,
        "DEBUG_LOG": env.debug_log,
        "DEBUG_LOG_SCOPES": _csv(env.debug_log_scopes),
        "LOG_FORMAT": env.log_format,
    }


def text(env: Environment) -> str:
    """For people (LOG_FORMAT=text)."""
    lines = [f"Model Hotel {VERSION}"]
    for name, value in configuration(env).items():
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        lines.append(f"  {name:<24}{shown}".rstrip())
    return "\n".join(lines)


def box(title: str, lines: Iterable[str]) -> str:
    """A frame that stands out of a log; plain ASCII, because a console may know no more."""
    body = ["", *lines, ""]
    width = max(len(line) for line in (title, *body)) + 4
    rule = "+" + "-" * width + "+"
    return "\n".join([rule, f"|  {title:<{width - 2}}|", rule, *(f"|  {line:<{width - 2}}|" for line in body), rule])


def credentials(token: str, account: str, password: str) -> str:
    """The box for what a first start made; empty when it made nothing."""
    lines = [f"Admin token:  {token}"] if token else []
    if password:
        lines.append(f"Dashboard:    user {account}, password {password}")
    title = TOKEN_TITLE if token else "FIRST ACCOUNT (save now, it is not shown again)"
    return box(title, lines) if lines else ""
