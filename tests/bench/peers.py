"""Who is measured beside the product: nginx, LiteLLM and Portkey, in a scratch folder outside of the repository.

    python -m tests.bench.peers         (make bench-peers)

installs what is missing into ``$BENCH_DIR`` (``~/.cache/model-hotel-bench``). A peer that is not there is left out of
the bench, and the table names it. Versions are pinned, so that two runs compare the same things.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import hotel

#: 1.82.7 and 1.82.8 were withdrawn after somebody else had published them: never these.
LITELLM = "litellm[proxy]==1.108.7"
PORTKEY = "1.15.2"
#: Later ones break its streams on Node 20.
HONO_SERVER = "1.3.3"
INSTALL_SECONDS = 1200.0
KEY = "sk-gateway-0123456789"


class LeftOut(Exception):
    """Why a peer is not there."""


@dataclass
class Side:
    """One server that the load goes to. *argv* empty: the mock itself. *header* is one more line of each request.

    A *slow* one gets longer windows and fewer rounds, and is frozen while others are under load.
    """

    name: str
    version: str = ""
    argv: list[str] = field(default_factory=list)
    env: dict[str, str] | None = None
    port: int = 0
    path: str = ""
    model: str = hotel.UPSTREAM_MODEL
    key: str = KEY
    header: str = ""
    slow: bool = False


def folder() -> Path:
    return Path(os.environ.get("BENCH_DIR") or "~/.cache/model-hotel-bench").expanduser()


def _run(*argv: str | Path, cwd: Path | None = None) -> str:
    """Output of a command. Raises LeftOut with the end of what it complained about."""
    try:
        done = subprocess.run(
            [str(arg) for arg in argv], cwd=cwd, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise LeftOut(f"{Path(argv[0]).name}: {problem}") from None
    if done.returncode:
        raise LeftOut(f"{Path(argv[0]).name}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout + done.stderr


# -- nginx ------------------------------------------------------------------------------------------------------------

_NGINX = """worker_processes 1; pid {work}/nginx.pid; error_log {work}/nginx.err warn; daemon off;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 100000000; client_body_buffer_size 1m;
  client_body_temp_path {work}/body; proxy_temp_path {work}/proxy; fastcgi_temp_path {work}/fastcgi;
  uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
  upstream mock {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Authorization "Bearer {key}"; proxy_buffering off;
    }}
  }}
}}
"""


def _nginx() -> str:
    own = folder() / "nginx/usr/sbin/nginx"
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if not (found or own.exists()):
        raise LeftOut("no nginx binary")
    return found or str(own)


def _install_nginx() -> None:
    """The distribution's, unpacked but not installed: needs no root."""
    work = folder() / "nginx"
    work.mkdir(parents=True, exist_ok=True)
    _run("apt-get", "download", "nginx", cwd=work)
    for package in work.glob("*.deb"):
        _run("dpkg-deb", "-x", package, work)


def nginx(port: int, upstream: int, work: Path) -> Side:
    binary = _nginx()
    version = _run(binary, "-v").strip().rpartition("/")[2]
    work.mkdir(parents=True, exist_ok=True)
    conf = work / "nginx.conf"
    conf.write_text(_NGINX.format(port=port, upstream=upstream, work=work, key=hotel.UPSTREAM_KEY))
    return Side("nginx", version, [binary, "-e", str(work / "nginx.err"), "-c", str(conf)], port=port)


# -- LiteLLM ----------------------------------------------------------------------------------------------------------

_LITELLM = """model_list:
  - model_name: gateway-model
    litellm_params: {{ model: openai/{model}, api_base: "http://127.0.0.1:{upstream}/v1", api_key: {upstream_key} }}
general_settings: {{ master_key: {key} }}
litellm_settings: {{ telemetry: false, num_retries: 0, set_verbose: false }}
"""
_LITELLM_ENV = {
    "LITELLM_LOG": "ERROR",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_TELEMETRY": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "NO_PROXY": "*",
}


def _litellm_bin() -> Path:
    found = folder() / "litellm/bin"
    if not (found / "litellm").exists():
        raise LeftOut(f"not in {folder()}")
    return found


def _install_litellm() -> None:
    where = folder() / "litellm"
    _run(sys.executable, "-m", "venv", where)
    _run(where / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", LITELLM)


def litellm(port: int, upstream: int, work: Path) -> Side:
    found = _litellm_bin()
    shown = _run(found / "python", "-c", "from importlib.metadata import version; print(version('litellm'))")
    work.mkdir(parents=True, exist_ok=True)
    conf = work / "litellm.yaml"
    told = {"model": hotel.UPSTREAM_MODEL, "upstream_key": hotel.UPSTREAM_KEY, "key": KEY, "upstream": upstream}
    conf.write_text(_LITELLM.format(**told))
    argv = [str(found / "litellm"), "--config", str(conf), "--host", "127.0.0.1", "--port", str(port)]
    env = {"HOME": str(work), "PATH": f"{found}:{os.environ.get('PATH', '')}", **_LITELLM_ENV}
    side = Side("LiteLLM", shown.strip(), [*argv, "--num_workers", "1"], env, port, "/health/liveliness", slow=True)
    side.model = "gateway-model"
    return side


# -- Portkey ----------------------------------------------------------------------------------------------------------


def _portkey() -> Path:
    found = folder() / "portkey/node_modules/@portkey-ai/gateway"
    if not (found / "build/start-server.js").exists():
        raise LeftOut(f"not in {folder()}")
    return found


def _install_portkey() -> None:
    where = folder() / "portkey"
    where.mkdir(parents=True, exist_ok=True)
    wanted = {"@portkey-ai/gateway": PORTKEY, "@hono/node-server": HONO_SERVER}
    package = {"private": True, "dependencies": wanted, "overrides": {"@hono/node-server": HONO_SERVER}}
    (where / "package.json").write_text(json.dumps(package))
    _run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", cwd=where)


def portkey(port: int, upstream: int, work: Path) -> Side:
    found = _portkey()
    version = json.loads((found / "package.json").read_text())["version"]
    config = {
        "provider": "openai",
        "custom_host": f"http://127.0.0.1:{upstream}/v1",
        "api_key": hotel.UPSTREAM_KEY,
        "override_params": {"model": hotel.UPSTREAM_MODEL},
    }
    node = shutil.which("node")
    if node is None:
        raise LeftOut("no node binary")
    argv = [node, str(found / "build/start-server.js"), "--headless", f"--port={port}"]
    env = {"HOME": str(work), "NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
    header = "x-portkey-config: " + json.dumps(config, separators=(",", ":"))
    shown = f"{version} on Node {_run(node, '--version').strip().lstrip('v')}"
    return Side("Portkey", shown, argv, env, port, model="gateway-model", header=header, slow=True)


#: name -> (how it is started on a port in front of the mock's, how it gets here)
PEERS: dict[str, tuple[Callable[[int, int, Path], Side], Callable[[], None]]] = {
    "nginx": (nginx, _install_nginx),
    "Portkey": (portkey, _install_portkey),
    "LiteLLM": (litellm, _install_litellm),
}


def main() -> int:
    missing = 0
    for name, (side, install) in PEERS.items():
        try:
            try:
                found = side(1, 1, folder() / "work")
            except LeftOut:
                print(f"{name}: installing into {folder()} ...", flush=True)
                install()
                found = side(1, 1, folder() / "work")
            print(f"{name} {found.version}: there")
        except LeftOut as why:
            missing += 1
            print(f"{name}: left out, {why}")
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
