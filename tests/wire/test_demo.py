"""``manage.py demo`` as a newcomer starts it."""

import re
import signal
import sys

import httpx
import pytest

from tests.wire.product import ROOT, Product, eventually

KEY = re.compile(r"Bearer (sk-[0-9a-f]{32})")
TOKEN = re.compile(r"Admin token:\s+(\S+)")
BASE_URLS = re.compile(r"http://127\.0\.0\.1:\d+/v1")


class Demo(Product):
    """The demo in the place of the server; its data are in ``<data_dir>/demo``."""

    def _command(self, server: str, args: tuple[str, ...]) -> list[str]:
        return [sys.executable, str(ROOT / "manage.py"), "demo", "--port", "0", *args]

    @property
    def key(self) -> str:
        found = KEY.search(self.output)
        assert found, self.output
        return found[1]

    def rows(self, path: str) -> list[dict]:
        return self.api("GET", path).json()

    def failed_over(self) -> dict | None:
        """A request that Flaky failed and Healthy served."""
        entries = self.api("GET", "/api/logs/cursor?limit=50").json()["entries"]
        for entry in entries:
            if entry["status_code"] == 200 and [a["provider"] for a in entry["attempts"] or []] == ["Flaky", "Healthy"]:
                return entry
        return None


def furniture(demo: Demo) -> dict:
    """Every record of the demo that must survive a restart, by identity."""
    groups = demo.api("GET", "/api/failover-groups").json()["groups"]
    return {
        "providers": sorted((row["name"], row["id"]) for row in demo.api("GET", "/api/providers").json()),
        "groups": [(g["display_model"], g["id"], [e["provider_name"] for e in g["entries"]]) for g in groups],
        "cooldown": demo.api("GET", "/api/settings").json()["circuit_breaker_cooldown"],
    }


@pytest.mark.timeout(60)
def test_a_newcomer_sees_a_failover_within_seconds_and_ends_it_with_ctrl_c(tmp_path):
    # What a real installation has in its environment stays out of the demo.
    real = {"MASTER_KEY": "real", "REDIS_URL": "redis://127.0.0.1:1/0", "DATABASE_URL": "postgresql://127.0.0.1:1/no"}
    with Demo(tmp_path, real) as demo:
        found = eventually(demo.failed_over, seconds=20.0)
        assert found, demo.output
        assert found["model_id"].endswith("demo")
        assert found["attempts"][0]["status"] == 500
        assert furniture(demo)["groups"][0][2] == ["Flaky", "Healthy", "Slow"]
        assert demo.stop(signal.SIGINT) == 0
    assert "Traceback" not in demo.output
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


@pytest.mark.timeout(60)
def test_a_second_start_reuses_what_is_there_and_makes_a_new_key(tmp_path):
    with Demo(tmp_path) as first:
        before, old, password = furniture(first), first.key, first.password
        assert first.stop() == 0
    with Demo(tmp_path) as second:
        assert furniture(second) == before
        assert (second.token, second.password) == (first.token, password)
        assert second.key != old
        listed = second.api("GET", "/api/virtual-keys").json()
        assert len(listed["keys"] if isinstance(listed, dict) else listed) == 1

        def models(key: str) -> httpx.Response:
            return second.get("/v1/models", headers={"Authorization": f"Bearer {key}"})

        assert models(old).status_code == 401
        assert models(second.key).status_code == 200
        assert second.stop() == 0
