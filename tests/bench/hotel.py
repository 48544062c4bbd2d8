"""The product under the bench: the whole of it, set up through its own API."""

import sys
from pathlib import Path
from typing import Any

import httpx

from tests.bench.machine import BenchFailed
from tests.wire.product import LIMITED, ROOT, environment

UPSTREAM_KEY = "sk-upstream-0123456789"
UPSTREAM_MODEL = "up-model"
ADMIN_TOKEN = "bench-admin-token-bench-admin-token"
ADMIN_PASSWORD = "bench-admin-password-1"
MODEL = f"hotel/{UPSTREAM_MODEL}"


def serve(port: int, *args: str) -> list[str]:
    return [sys.executable, str(ROOT / "manage.py"), "serve", "--port", str(port), *args]


def surroundings(data_dir: Path, **env: str) -> dict[str, str]:
    """The environment of one product; its data are in *data_dir*. Limits are looked at, and let everything through."""
    own = {"ADMIN_TOKEN": ADMIN_TOKEN, "ADMIN_PASSWORD": ADMIN_PASSWORD, "RATE_LIMIT_IP_RPS": "0"}
    return environment(data_dir, {**own, **LIMITED, **env})


class Admin:
    """The admin API of the product at *port*."""

    def __init__(self, port: int) -> None:
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}/api",
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
            timeout=20,
            trust_env=False,
        )

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """What it answers; None where that is nothing. Raises BenchFailed."""
        answer = self._client.request(method, path, json=body)
        if answer.status_code >= 300:
            raise BenchFailed(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer.json() if answer.content else None

    def provider(self, name: str, kind: str, upstream: str) -> str:
        """Its id; its models are known then."""
        data = {"name": name, "provider_type": kind, "base_url": upstream, "api_key": UPSTREAM_KEY}
        made: str = self.call("POST", "/providers", data)["id"]
        self.call("POST", f"/providers/{made}/discover")
        return made


def set_up(port: int, upstream: str) -> str:
    """Two providers, their models and group, one virtual key, all through the API: the key. Raises BenchFailed."""
    with Admin(port) as admin:
        for name in ("bench-one", "bench-two"):
            admin.provider(name, "custom", upstream)
        groups = [group["display_model"] for group in admin.call("GET", "/failover-groups")["groups"]]
        if UPSTREAM_MODEL not in groups:
            raise BenchFailed(f"no group {UPSTREAM_MODEL} formed: {groups}")
        return str(admin.call("POST", "/virtual-keys", {"name": "bench", "rate_limit_rps": 0})["key"])
