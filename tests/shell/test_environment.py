"""The environment as it is read once at start (settings.md 7)."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from modelhotel.core import environment
from modelhotel.core.environment import BadEnvironment, Environment

read = environment.read


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("PORT", "8090", "port", 8090),
        ("PORT", ":8090", "port", 8090),
        ("PORT", "10.0.0.1:8090", "host", "10.0.0.1"),
        ("PORT", "[::1]:8090", "host", "::1"),
        ("HOST", "0.0.0.0", "host", "0.0.0.0"),
        ("DATA_DIR", "/srv/mh", "data_dir", Path("/srv/mh")),
        ("DATABASE_MAX_CONNS", "7", "database_max_conns", 7),
        ("DATABASE_MAX_CONNS", "4", "database_min_conns", 4),
        ("NODE_NAME", " alpha ", "node_name", "alpha"),
        ("ADMIN_TOKEN", " t ", "admin_token", "t"),
        ("UPSTREAM_CLIENT", "HTTPX", "upstream_client", "httpx"),
        ("TRUST_ENV_PROXY", "Yes", "trust_env_proxy", True),
        ("ALLOW_HTTP_PROVIDERS", "1", "allow_http_providers", True),
        ("ALLOW_EMBED", "FALSE", "allow_embed", False),
        ("COOKIE_SECURE", "never", "cookie_secure", "never"),
        (
            "CORS_ORIGINS",
            "https://a.example/, https://b.example",
            "cors_origins",
            ("https://a.example", "https://b.example"),
        ),
        ("ALLOWED_PROVIDER_HOSTS", "Box.LAN, 127.0.0.1", "allowed_provider_hosts", frozenset({"box.lan", "127.0.0.1"})),
        ("DEBUG_LOG_SCOPES", "Resolve,circuit-breaker", "debug_log_scopes", frozenset({"resolve", "circuit-breaker"})),
        ("LOG_FORMAT", "json", "log_format", "json"),
        ("MAX_REQUEST_SIZE", "2048", "max_request_size", 2048),
        ("MODELSDEV_ENABLED", "no", "modelsdev_enabled", False),
        ("DEMO_READONLY", "true", "demo_readonly", True),
        ("ENABLE_PASSTHROUGH_ROUTES", "true", "enable_passthrough_routes", True),
        ("ALLOW_PASSTHROUGH_V1_ALIAS", "no", "allow_passthrough_v1_alias", False),
        ("ENABLED_PASSTHROUGH_PROVIDERS", "OpenAI, google,", "enabled_passthrough_providers", ("openai", "google")),
    ],
)
def test_a_variable_is_read(name: str, text: str, field: str, value: object):
    env = read({name: text})
    assert getattr(env, field) == value
    assert env.warnings == ()


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("DATABASE_MAX_CONNS", "abc", "database_max_conns", 25),
        ("DATABASE_MAX_CONNS", "5000", "database_max_conns", 1000),
        ("DATABASE_MIN_CONNS", "0", "database_min_conns", 1),
        ("MAX_REQUEST_SIZE", "1", "max_request_size", 1024),
        ("MAX_REQUEST_SIZE", "999999999", "max_request_size", 104_857_600),
        ("TRUST_ENV_PROXY", "on", "trust_env_proxy", False),
        ("COOKIE_SECURE", "sometimes", "cookie_secure", "always"),
        ("LOG_FORMAT", "xml", "log_format", "text"),
        ("CORS_ORIGINS", "*,https://a.example", "cors_origins", ("https://a.example",)),
        ("DEMO_SHOW_TOKEN", "true", "demo_show_token", False),
    ],
)
def test_what_can_not_be_read_is_one_warning_and_a_usable_value(name: str, text: str, field: str, value: object):
    """settings 32, settings 36."""
    env = read({name: text})
    assert getattr(env, field) == value
    (warning,) = env.warnings
    assert warning.startswith(f"{name}: ")


def test_a_bad_network_is_skipped_and_the_rest_kept():
    """settings 37."""
    env = read({"TRUSTED_PROXIES": "10.0.0.0/8,rubbish"})
    assert [str(network) for network in env.trusted_proxies] == ["10.0.0.0/8"]
    assert env.warnings == ("TRUSTED_PROXIES: 'rubbish' is not a network such as 10.0.0.0/8, skipped",)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({"PORT": "eighty"}, "PORT"),
        ({"PORT": "127.0.0.1:70000"}, "PORT"),
        ({"DATABASE_URL": "mysql://x/y"}, "DATABASE_URL"),
        ({"UPSTREAM_CLIENT": "curl"}, "UPSTREAM_CLIENT"),
    ],
)
def test_nonsense_stops_the_start_and_names_the_variable(raw: dict[str, str], named: str):
    with pytest.raises(BadEnvironment, match=f"^{named}: "):
        read(raw)


@pytest.mark.parametrize("missing", ["DEMO_READONLY", "ADMIN_TOKEN"])
def test_the_token_is_shown_only_where_it_opens_nothing_but_a_demo(missing: str):
    raw = {"DEMO_READONLY": "true", "DEMO_SHOW_TOKEN": "true", "ADMIN_TOKEN": "t"}
    assert read(raw).demo_show_token
    without = read({**raw, missing: ""})
    assert not without.demo_show_token
    assert without.warnings == ("DEMO_SHOW_TOKEN: ignored without DEMO_READONLY=true and ADMIN_TOKEN",)


def test_database_url_wins_over_the_postgres_parts():
    """settings 35."""
    raw = {"DATABASE_URL": "postgresql://a@one/x", "POSTGRES_HOST": "two", "POSTGRES_PASSWORD": "p"}
    assert read(raw).database_url == "postgresql://a@one/x"


def test_the_postgres_parts_make_an_address_with_everything_escaped():
    env = read({"POSTGRES_PASSWORD": "p@ss/w:rd", "POSTGRES_USER": "me", "POSTGRES_DB": "mh"})
    assert env.database_url == "postgresql://me:p%40ss%2Fw%3Ard@db:5432/mh"
    assert not env.sqlite


def test_without_any_variable_it_is_the_embedded_default():
    env = read({})
    assert (env.sqlite, env.redis_url, env.host, env.port) == (True, "", "127.0.0.1", 8080)
    assert (env.data_dir, env.cookie_secure, env.upstream_client) == (Path("data"), "auto", "native")
    assert env.cors_origins == ("http://localhost:5173", "http://localhost:8081")
    assert env.max_request_size == 52_428_800
    assert env.node_name


@pytest.mark.parametrize("name", ["PORT", "LOG_FORMAT", "DATA_DIR", "DATABASE_URL", "MASTER_KEY", "COOKIE_SECURE"])
def test_a_blank_value_is_no_value(name: str):
    env, bare = read({name: "  "}), read({})
    assert replace(env, raw={}) == replace(bare, raw={})


def test_the_process_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / ".env").write_text("METRICS_TOKEN=from-file\nNODE_NAME=from-file\n")
    monkeypatch.setenv("NODE_NAME", "from-process")
    monkeypatch.setenv("METRICS_TOKEN", "x")  # so that what the file sets is undone after the test
    monkeypatch.delenv("METRICS_TOKEN")
    env = read(environment.process_environ(tmp_path))
    assert (env.metrics_token, env.node_name) == ("from-file", "from-process")
    os.environ.pop("METRICS_TOKEN", None)


def test_a_missing_file_is_no_error(tmp_path: Path):
    assert "PATH" in environment.process_environ(tmp_path)


def test_secrets_do_not_show_in_its_repr():
    assert "s3cret-raw" not in repr(Environment(raw={"X": "s3cret-raw"}))


@pytest.mark.parametrize(
    ("name", "text", "seen", "warned"),
    [
        ("RATE_LIMIT_IP_BURST", "0", "1", "RATE_LIMIT_IP_BURST: 0 is outside 1 to 10000, clamped"),
        ("RATE_LIMIT_IP_BURST", "20000", "10000", "RATE_LIMIT_IP_BURST: 20000 is outside 1 to 10000, clamped"),
        ("RATE_LIMIT_IP_BURST", "2.5", "", "RATE_LIMIT_IP_BURST: '2.5' is not a number, using the default"),
        ("RATE_LIMIT_IP_RPS", "-1", "0", "RATE_LIMIT_IP_RPS: -1 is outside 0 to 10000, clamped"),
        ("RATE_LIMIT_IP_RPS", "nan", "", "RATE_LIMIT_IP_RPS: 'nan' is not a number, using the default"),
        ("RATE_LIMIT_IP_RPS", "2.5", "2.5", None),
        ("RATE_LIMIT_ENABLED", "NO", "false", None),
        ("RATE_LIMIT_ENABLED", "perhaps", "true", "RATE_LIMIT_ENABLED: 'perhaps' is not true or false, using true"),
    ],
)
def test_limits_of_the_environment_are_brought_into_their_range(name, text, seen, warned):
    """settings 31"""
    env = read({name: text})
    assert env.raw[name] == seen
    assert env.warnings == ((warned,) if warned else ())
