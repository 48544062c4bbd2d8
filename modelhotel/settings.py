"""Django settings, made from the environment (``modelhotel/core/environment.py``)."""

import sys
from pathlib import Path
from typing import Any

import environ

from modelhotel import master
from modelhotel.core import logformat
from modelhotel.core.environment import BadEnvironment, process_environ, read
from modelhotel.ops import demo_environment
from modelhotel.site import look

BASE_DIR = Path(__file__).resolve().parent.parent
#: The management command that runs, empty under daphne and other servers.
COMMAND = sys.argv[1] if Path(sys.argv[0]).name == "manage.py" and len(sys.argv) > 1 else ""
try:
    MH = read(demo_environment.of(process_environ()) if COMMAND == "demo" else process_environ())
    if MH.sqlite:
        MH.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The start sequence sets it again where it makes the master key.
    SECRET_KEY = master.secret_key(master.known(MH))
except BadEnvironment as problem:
    sys.exit(f"model hotel can not start: {problem}")
except OSError as problem:
    sys.exit(f"model hotel can not start: DATA_DIR: {problem.filename} can not be made: {problem.strerror}")

DEBUG = False
ALLOWED_HOSTS = ["*"]  # health checks come by address; no link is ever made from the Host header
ROOT_URLCONF = "modelhotel.urls"
ASGI_APPLICATION = "modelhotel.asgi.application"
AUTH_USER_MODEL = "modelhotel.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

INSTALLED_APPS = [
    # Costs 28 MB; serve does without.
    *(["daphne"] if COMMAND == "runserver" else []),
    "modelhotel",
    "providers",
    "failover",
    "requestlogs",
    "proxy",
    "unfold.apps.BasicAppConfig",
    "modelhotel.site.apps.SiteConfig",  # django.contrib.admin with our site
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "ninja",  # the script and the style of the OpenAPI page
]
# The two of django-prometheus measure the control plane; the data plane never comes here.
MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "modelhotel.accounts.middleware.Edge",
    "django.middleware.security.SecurityMiddleware",
    "modelhotel.accounts.middleware.Sessions",
    "django.middleware.common.CommonMiddleware",
    "modelhotel.accounts.csrf.CsrfMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    # Outside of Use, where it costs no change of threads.
    "django_prometheus.middleware.PrometheusAfterMiddleware",
    "modelhotel.accounts.middleware.Use",
    "django.contrib.messages.middleware.MessageMiddleware",
    *([] if MH.allow_embed else ["django.middleware.clickjacking.XFrameOptionsMiddleware"]),
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
# Under ASGI each request runs in a thread of its own, so a connection that outlived its request would be lost in it.
if MH.sqlite:
    DATABASES: dict[str, dict[str, Any]] = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(MH.data_dir / "modelhotel.sqlite3"),
            "CONN_MAX_AGE": 0,
            "OPTIONS": {
                "timeout": 20,
                # Deferred, a transaction that reads and then writes fails at once beside the writer thread.
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    }
else:
    postgres: dict[str, Any] = dict(environ.Env.db_url_config(MH.database_url))
    # The server puts a pool in front (modelhotel/ops/database.py); commands connect once.
    DATABASES = {"default": {**postgres, "CONN_MAX_AGE": 0, "OPTIONS": {**postgres.get("OPTIONS", {})}}}

DATA_UPLOAD_MAX_MEMORY_SIZE = MH.max_request_size  # held while reading by modelhotel/ops/front.py
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000  # bulk actions over long lists

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]

if MH.redis_url:
    CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [MH.redis_url], "prefix": "modelhotel"},
        }
    }
else:
    CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

SERVER = COMMAND in ("", "serve", "demo", "runserver")
if SERVER:
    logformat.spare()
LOGGING = logformat.config(MH.log_format, debug=MH.debug_log, scopes=MH.debug_log_scopes, server=SERVER)

# Sent over TLS only (providers.md 11.4).
SECURE_HSTS_SECONDS = 63_072_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SECURE_REFERRER_POLICY = "strict-origin-when-cross-origin"
X_FRAME_OPTIONS = "DENY"
# What "auto" means for one answer is decided where the cookie is written, from that request's scheme.
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = MH.cookie_secure != "never"
# W008: TLS and the redirect to it are the front proxy's; the gateway itself speaks plain HTTP.
# W003: looks for Django's CSRF middleware by name; ours is a subclass of it.
SILENCED_SYSTEM_CHECKS = ["security.W008", "security.W003"]

PASSWORD_HASHERS = ["modelhotel.accounts.hashers.Argon2"]

PROMETHEUS_LATENCY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds

# Sign-in (operations.md 10.2).
SESSION_ENGINE = "modelhotel.accounts.sessions"
SESSION_COOKIE_NAME = "mh_session"
SESSION_COOKIE_AGE = CSRF_COOKIE_AGE = 72 * 3600
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Strict"
CSRF_COOKIE_NAME = "mh_csrf"
CSRF_HEADER_NAME = "HTTP_X_CSRF_TOKEN"
CSRF_TRUSTED_ORIGINS = [origin for origin in MH.cors_origins if "://" in origin]
CSRF_FAILURE_VIEW = "modelhotel.accounts.csrf.failure"
LOGIN_URL, LOGIN_REDIRECT_URL = "/login/", "/"

UNFOLD = look.UNFOLD
