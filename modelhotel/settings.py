"""Django settings, made from the environment (``modelhotel/core/environment.py``)."""

import sys
from pathlib import Path
from typing import Any

import environ

from modelhotel.core.environment import BadEnvironment, process_environ, read

BASE_DIR = Path(__file__).resolve().parent.parent
try:
    MH = read(process_environ())
except BadEnvironment as problem:
    sys.exit(f"model hotel can not start: {problem}")

DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "modelhotel.urls"
ASGI_APPLICATION = "modelhotel.asgi.application"
AUTH_USER_MODEL = "modelhotel.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
SECRET_KEY = "set-by-the-start-sequence-from-the-master-key"

INSTALLED_APPS = [
    "modelhotel",
    "providers",
    "failover",
    "requestlogs",
    "proxy",
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
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
if MH.sqlite:
    MH.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    DATABASES: dict[str, dict[str, Any]] = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(MH.data_dir / "modelhotel.sqlite3"),
            "CONN_MAX_AGE": None,
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    }
else:
    postgres: dict[str, Any] = dict(environ.Env.db_url_config(MH.database_url))
    DATABASES = {"default": {**postgres, "CONN_MAX_AGE": 60}}

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
