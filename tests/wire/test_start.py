"""The product as an operator starts it: first start, second start, and every server it must run under."""

import json
import re
import signal
import socket
import stat
from pathlib import Path

import httpx
import pytest

from modelhotel.ops.nodes import REFUSED
from modelhotel.ops.startup import SEVERAL
from tests.upstream.server import FakeProvider, stream
from tests.upstream.spoken import PROMPT
from tests.wire.product import Product, ProductFailed, eventually, free_port, fresh_postgres, manage

#: Two or three starts each, on a machine that may be doing something else.
pytestmark = pytest.mark.timeout(90)


def refusal(data_dir: Path, env: dict[str, str], *args: str) -> str:
    """The one line of a start that must fail; its exit code is not 0."""
    with Product(data_dir, env, args=args, wait=False) as product:
        assert product.exit_code() != 0
        (line,) = [line for line in product.output.splitlines() if "can not start" in line]
        assert "Traceback" not in product.output
        return line.partition("model hotel can not start: ")[2]


def test_a_first_start_needs_nothing_and_says_everything_once(tmp_path: Path):
    """settings 33a, settings 39, providers 22, providers 86."""
    with Product(tmp_path) as first:
        key_file = tmp_path / "master-key"
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
        assert first.output.count("master key created") == 1
        assert first.output.count("ADMIN TOKEN (save now") == 1
        assert key_file.read_text().strip() not in first.output
        token, password, key = first.token, first.password, key_file.read_text()
        assert re.fullmatch(r"[0-9a-f]{32}", token)
        assert password
        assert first.api("GET", "/api/settings").status_code == 200
        assert first.api("GET", "/api/settings", token="0" * 32).status_code == 401
        assert first.stop() == 0
    with Product(tmp_path, token=token) as second:
        assert second.api("GET", "/api/settings").status_code == 200
        for text in ("master key created", "ADMIN TOKEN", token, password, "database migrated"):
            assert text not in second.output
        assert key_file.read_text() == key
        assert second.stop() == 0


@pytest.mark.parametrize("server", ["serve", "daphne", "runserver"])
def test_every_plane_answers_under_every_server(tmp_path: Path, server: str):
    with Product(tmp_path, {"ADMIN_TOKEN": "t0ken", "ADMIN_PASSWORD": "pw"}, server=server) as product:
        for path in ("/health", "/healthz"):
            assert product.get(path).text == "OK"
            assert product.http.head(product.url + path).status_code == 200
        assert product.api("GET", "/api/settings").status_code == 200
        assert product.get("/api/nothing").status_code == 404
        assert product.get("/v1/models").json()["error"]["type"] == "authentication_error"
        assert product.get("/").headers["location"] == "/login/?next=/"
        css = product.get("/static/admin/css/base.css")
        assert (css.status_code, css.headers["content-type"]) == (200, 'text/css; charset="utf-8"')
        assert css.headers["x-content-type-options"] == "nosniff"
        assert product.get("/static/../settings.py").status_code in (302, 404)
        with product.http.stream(
            "GET", f"{product.url}/api/events", headers={"Authorization": f"Bearer {product.token}"}
        ) as events:
            text = events.iter_text()
            assert next(text) == ": connected\n\n"
            if server == "serve":
                product.process.send_signal(signal.SIGTERM)
                assert "".join(text) == ""
        if server == "serve":
            assert product.exit_code() == 0


def test_a_body_over_the_limit_is_refused_with_and_without_length(tmp_path: Path):
    """providers 84. The admin API's half."""
    with Product(tmp_path, {"ADMIN_TOKEN": "t0ken", "MAX_REQUEST_SIZE": "100000"}) as product:
        for content in (b"x" * 200_000, iter([b"x" * 50_000] * 40)):
            answer = product.api("PUT", "/api/settings", content=content)
            assert (answer.status_code, answer.text) == (413, "request body too large")
        assert product.api("PUT", "/api/settings", content=b"x" * 90_000).status_code == 400


def test_logs_are_json_where_asked_and_no_line_is_anything_else(tmp_path: Path):
    """settings 34a."""
    env = {"ADMIN_TOKEN": "t0ken", "ADMIN_PASSWORD": "pw-s3cret", "LOG_FORMAT": "json", "METRICS_TOKEN": "m-s3cret"}
    with Product(tmp_path, env) as product:
        product.get("/v1/models")
        product.stop()
        lines = [line for line in product.output.splitlines() if not line.startswith("Dashboard: ")]
        for line in map(json.loads, lines):
            assert {"time", "level", "source", "msg"} <= line.keys()
        assert "s3cret" not in product.output
        assert "t0ken" not in product.output


def test_a_second_node_on_the_same_data_directory_is_refused_until_the_first_is_gone(tmp_path: Path):
    """settings 33c, operations 86a. Also when the first was killed."""
    with Product(tmp_path) as first:
        assert refusal(tmp_path, {}) == REFUSED
        first.kill()
    with Product(tmp_path):
        pass


def test_a_missing_key_file_is_named_while_values_are_sealed_under_it(tmp_path: Path):
    """settings 33b, providers 22."""
    with Product(tmp_path) as product:
        body = {"name": "A", "base_url": "http://127.0.0.1:9", "provider_type": "custom", "api_key": "sk-abc"}
        assert product.api("POST", "/api/providers", json=body).status_code == 201
        product.kill()
    (tmp_path / "master-key").unlink()
    assert f"{tmp_path}/master-key is missing" in refusal(tmp_path, {})
    assert not (tmp_path / "master-key").exists()


@pytest.mark.parametrize(
    ("env", "args", "line"),
    [
        ({"DATABASE_URL": "postgresql://127.0.0.1:9/x"}, (), "MASTER_KEY is required"),
        ({}, ("--workers", "2"), SEVERAL),
        ({"FAILOVER_MAX_ATTEMPTS": "x"}, (), "FAILOVER_MAX_ATTEMPTS: failover_max_attempts must be a number"),
        ({"DATA_DIR": "/proc/x"}, (), "DATA_DIR: /proc/x can not be made: No such file or directory"),
        ({"DATA_DIR": "/etc/hostname/x"}, (), "DATA_DIR: /etc/hostname/x can not be made: Not a directory"),
        ({"PORT": "eighty"}, (), "PORT: 'eighty' is not a port such as 8080, :8080 or 127.0.0.1:8080"),
    ],
)
def test_a_start_that_can_not_be_is_one_line_and_no_open_port(
    tmp_path: Path, env: dict[str, str], args: tuple[str, ...], line: str
):
    """settings 33, settings 33c, providers 22."""
    assert refusal(tmp_path, env, *args) == line


def test_a_port_in_use_is_named(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refusal(tmp_path, {}, "--port", str(port))
        assert line == f"PORT: 127.0.0.1:{port} can not be listened on: Address already in use"


def test_a_refused_start_under_daphne_has_an_exit_code_too(tmp_path: Path):
    with pytest.raises(ProductFailed, match=r"exit code 1:[\s\S]*MASTER_KEY is required"):
        Product(tmp_path, {"DATABASE_URL": "postgresql://127.0.0.1:9/x"}, server="daphne")


def test_commands_need_no_master_key(tmp_path: Path):
    env = {"DATABASE_URL": f"postgresql://127.0.0.1:{free_port()}/x"}
    done = manage(tmp_path, "check", env=env)
    assert (done.returncode, done.stdout) == (0, "System check identified no issues (0 silenced).\n")


def test_the_deployment_check_is_clean_with_production_settings(tmp_path: Path):
    done = manage(tmp_path, "check", "--deploy", "--fail-level", "INFO", env={"MASTER_KEY": "m" * 40})
    assert done.returncode == 0, done.stderr
    assert "System check identified no issues" in done.stdout


def test_a_reset_token_works_at_once_in_the_running_product(tmp_path: Path):
    with Product(tmp_path) as product:
        done = product.manage("reset_admin_token")
        assert done.returncode == 0
        new = done.stdout.partition("Admin token:  ")[2][:32]
        assert product.api("GET", "/api/settings", token=new).status_code == 200
        assert product.api("GET", "/api/settings").status_code == 401


@pytest.mark.postgres
def test_it_runs_on_postgres_and_a_restart_finds_everything(tmp_path: Path):
    with fresh_postgres() as url:
        env = {"DATABASE_URL": url, "MASTER_KEY": "m" * 40}
        with Product(tmp_path, env) as first:
            token = first.token
            assert first.api("GET", "/api/settings").status_code == 200
            assert refusal(tmp_path / "other", env) == REFUSED
            assert first.stop() == 0
        with Product(tmp_path, env, token=token) as second:
            assert second.api("GET", "/api/settings").status_code == 200
            assert second.token == token
        assert not list(tmp_path.glob("*.sqlite3"))


@pytest.mark.postgres
def test_a_database_that_goes_away_degrades_readiness_and_nothing_else(tmp_path: Path):
    """operations 3, operations 75."""
    from tests.wire.cut import Cut
    from tests.wire.house import GROUP, MODEL, House

    with fresh_postgres() as url:
        target = httpx.URL(url)
        with Cut(target.host, target.port or 5432) as cut:
            through = url.replace(f"{target.host}:{target.port}", f"127.0.0.1:{cut.port}")
            env = {"DATABASE_URL": through, "MASTER_KEY": "m" * 40, "ADMIN_TOKEN": "t0ken"}
            with (
                FakeProvider(models=[MODEL]) as a,
                FakeProvider(models=[MODEL]) as b,
                Product(tmp_path, env) as product,
            ):
                house = House(product, a, b)
                a.script(stream([f"word{n} " for n in range(10)], delay=0.1))
                body = {"model": GROUP, "messages": [{"role": "user", "content": PROMPT}], "stream": True}
                with house.http.stream("POST", "/v1/chat/completions", json=body) as answer:
                    lines = answer.iter_lines()
                    next(lines)
                    cut.off()
                    rest = list(lines)
                assert answer.status_code == 200 and rest[-2:] == ["data: [DONE]", ""] and "word9" in "".join(rest)
                assert cut.within(3.5, lambda: product.get("/health").text == "DEGRADED")
                assert product.get("/health").status_code == 503
                assert product.get("/healthz").status_code == 200
                assert product.get("/v1/models").status_code == 401
                assert eventually(lambda: "requestlog: rows wait for the database" in product.output, 15)
                cut.on()
                assert cut.within(3.5, lambda: product.get("/health").text == "OK")
                assert product.api("GET", "/api/settings").status_code == 200
                assert eventually(lambda: house.row()["state"] == "completed", 10)
                house.close()
                assert product.stop() == 0
                assert product.output.count("requestlog: rows wait") == 1
