"""The real product as a subprocess: what an operator starts, on a free port, with a data directory of its own.

::

    with Product(tmp_path) as product:
        product.api("GET", "/api/providers").status_code

Nothing waits without a deadline; a start that fails raises ProductFailed with everything that was printed. When it has
stopped, all that it wrote is searched for what was said through it (``tests/wire/written.py``).
"""

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.upstream.spoken import HEARD
from tests.wire import written

ROOT = Path(__file__).resolve().parents[2]
POSTGRES = os.environ.get("MH_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
REDIS = os.environ.get("MH_TEST_REDIS", "redis://127.0.0.1:6379/15")
START_SECONDS = 60.0  # a busy machine with two cores is slow to start
STOP_SECONDS = 20.0
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")
_DEFAULTS = {
    "ALLOW_HTTP_PROVIDERS": "true",
    "ALLOWED_PROVIDER_HOSTS": "127.0.0.1,localhost",
    # Tests and loads ask more of one key and one address than anybody is given; LIMITED is for those of the limits.
    "RATE_LIMIT_ENABLED": "false",
    # Nothing is fetched from the outside.
    "MODELSDEV_ENABLED": "false",
}
LIMITED = {"RATE_LIMIT_ENABLED": "true"}
_ADDRESS = re.compile(r"^Dashboard: (http://\S+?)/?$", re.MULTILINE)
_TOKEN = re.compile(r"Admin token:\s+([0-9a-f]{32})\b")
_PASSWORD = re.compile(r"user admin, password (\S+)")


class ProductFailed(AssertionError):
    """It did not come up, or did not go down; the text is what it printed."""


def environment(data_dir: Path, env: Mapping[str, str]) -> dict[str, str]:
    """What the subprocess sees: nothing of the test run's own settings."""
    own = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {
        **own,
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "DATA_DIR": str(data_dir),
        **_DEFAULTS,
        **env,
    }


def manage(data_dir: Path, *args: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``manage.py`` to its end beside (or instead of) a running product."""
    data_dir.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *args],
        env=environment(data_dir, env or {}),
        cwd=data_dir,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def eventually(check: Callable[[], Any], seconds: float = 15.0) -> Any:
    """The first true answer of *check*; its last one (asserted on by the caller) when the time is over."""
    deadline = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


@contextmanager
def fresh_postgres() -> Iterator[str]:
    """The address of an empty database that is dropped afterwards."""
    name = f"mh_wire_{secrets.token_hex(6)}"
    with psycopg.connect(POSTGRES, autocommit=True, connect_timeout=5) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{POSTGRES.rpartition('/')[0]}/{name}"
        finally:
            server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


class Product:
    """One running server. *server* is ``serve`` or ``daphne``; *args* go to ``manage.py serve``.

    *token* and *password* are read from what a first start prints (or from ADMIN_TOKEN, ADMIN_PASSWORD in *env*).
    """

    def __init__(
        self,
        data_dir: Path,
        env: Mapping[str, str] | None = None,
        *,
        server: str = "serve",
        args: tuple[str, ...] = (),
        wait: bool = True,
        token: str = "",
    ) -> None:
        self.data_dir = data_dir
        self._heard = HEARD.count
        self.env = dict(env or {})
        self.url = ""
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._token = token or self.env.get("ADMIN_TOKEN", "")
        data_dir.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            self._command(server, args),
            env=environment(data_dir, self.env),
            cwd=data_dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.http = httpx.Client(timeout=20.0, trust_env=False)
        if wait:
            try:
                self.wait_until_ready()
            except BaseException:
                self.__exit__()
                raise

    def _command(self, server: str, args: tuple[str, ...]) -> list[str]:
        if server == "serve":
            return [sys.executable, str(ROOT / "manage.py"), "serve", "--port", "0", *args]
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        if server == "daphne":
            return [sys.executable, "-m", "daphne", "-p", str(port), *args, "modelhotel.asgi:application"]
        command = [sys.executable, str(ROOT / "manage.py"), "runserver", "--noreload", f"127.0.0.1:{port}", *args]
        return command

    # -- what it prints -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def output(self) -> str:
        with self._changed:
            return "".join(self._lines)

    def wait_for_output(self, text: str, seconds: float = 10.0) -> None:
        """Raises ProductFailed when *text* is not printed in time."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while text not in "".join(self._lines):
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    raise ProductFailed(f"{text!r} was not printed:\n{''.join(self._lines)}")
                self._changed.wait(min(left, 0.2))

    @property
    def token(self) -> str:
        found = _TOKEN.search(self.output)
        return self._token or (found[1] if found else "")

    @property
    def password(self) -> str:
        found = _PASSWORD.search(self.output)
        return self.env.get("ADMIN_PASSWORD", "") or (found[1] if found else "")

    # -- its life -----------------------------------------------------------------------------------------------------

    def wait_until_ready(self, seconds: float = START_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                self._reader.join(2.0)
                raise ProductFailed(f"exit code {self.process.returncode}:\n{self.output}")
            if not self.url and (found := _ADDRESS.search(self.output)):
                self.url = found[1]
            if self.url and self._healthy():
                return
            time.sleep(0.02)
        self.kill()
        raise ProductFailed(f"not ready after {seconds} s:\n{self.output}")

    def _healthy(self) -> bool:
        try:
            return self.http.get(f"{self.url}/health", timeout=2.0).status_code == 200
        except httpx.TransportError:
            return False

    def exit_code(self, seconds: float = START_SECONDS) -> int:
        """Wait for a process that ends by itself; raises ProductFailed (and kills it) when it does not."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProductFailed(f"still running after {seconds} s:\n{self.output}") from None
        self._reader.join(2.0)
        self._search()
        return code

    def _search(self) -> None:
        """Nothing that was said while it ran may be in what it wrote."""
        since, self._heard = self._heard, HEARD.count
        found = written.search(HEARD.since(since), self.data_dir, self.output, self.env.get("DATABASE_URL", ""))
        assert found == [], f"prompts or answers were written: {found}"

    def stop(self, sig: int = signal.SIGTERM, seconds: float = STOP_SECONDS) -> int:
        """Send *sig* and wait; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.exit_code(seconds)

    def kill(self) -> None:
        """As a crash would."""
        self.process.kill()
        self.process.wait(10)
        self._reader.join(2.0)

    def __enter__(self) -> "Product":
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            if self.process.poll() is None:
                self.stop()
            else:
                self._search()
        finally:
            self.http.close()
            if self.process.stdout is not None:
                self._reader.join(2.0)
                self.process.stdout.close()

    # -- calls --------------------------------------------------------------------------------------------------------

    def api(self, method: str, path: str, *, token: str | None = None, **kwargs: Any) -> httpx.Response:
        """A call with the admin token as bearer; *kwargs* as of httpx (``json``, ``params``, ``headers``, ...)."""
        headers = {"Authorization": f"Bearer {self.token if token is None else token}", **kwargs.pop("headers", {})}
        return self.http.request(method, self.url + path, headers=headers, **kwargs)

    def admin(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        """:meth:`api`, for a call that has to go well."""
        response = self.api(method, path, **kwargs)
        assert response.status_code < 300, (path, response.status_code, response.text)
        return response

    def get(self, path: str, **kwargs: Any) -> httpx.Response:
        """A call without credentials."""
        return self.http.get(self.url + path, **kwargs)

    def manage(self, *args: str) -> subprocess.CompletedProcess[str]:
        """``manage.py`` with this product's environment."""
        return manage(self.data_dir, *args, env=self.env)
