"""What a restart keeps, and what a restart with another master key says."""

from pathlib import Path

import httpx
import pytest

from tests.upstream.server import FakeProvider
from tests.upstream.spoken import PROMPT
from tests.wire.house import GROUP, MODEL, House
from tests.wire.product import Product, eventually, manage

OVERDUE = """
from providers.models import Provider
Provider.objects.filter(name="Alpha").update(scheduled_disable_on="2026-01-01")
"""
RIGHT, WRONG = "right-master-key-" * 2, "wrong-master-key-" * 2


def everything(product: Product) -> dict[str, object]:
    """What an operator has made, as the API shows it."""
    paths = ("providers", "models", "failover-groups", "virtual-keys", "settings", "logs/cursor")
    found = {path: product.api("GET", f"/api/{path}").json() for path in paths}
    # Every start syncs the groups and says when.
    found["failover-groups"].pop("last_synced_at")
    found["settings"].pop("failover_last_synced_at")
    for group in found["failover-groups"]["groups"]:
        group.pop("updated_at")
    return found


def ask(product: Product, key: str, model: str = GROUP) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": PROMPT}]}
    return product.http.post(
        f"{product.url}/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"}
    )


def sign_in(product: Product, token: str) -> str:
    """The cookie of a new session."""
    answer = httpx.post(f"{product.url}/api/auth/admin-exchange", json={"admin_token": token}, trust_env=False)
    cookie: str = answer.cookies["mh_session"]
    return cookie


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_a_restart_keeps_everything_and_a_wrong_master_key_loses_nothing(tmp_path: Path):
    """providers 24."""
    with FakeProvider(models=[MODEL]) as a, FakeProvider(models=[MODEL]) as b:
        with Product(tmp_path, {"MASTER_KEY": RIGHT}) as product:
            house = House(product, a, b)
            house.order("Beta", "Alpha")
            house.settings(request_timeout="31s")
            assert house.ask().status_code == 200
            key, token = house.key, product.token
            session = sign_in(product, token)
            assert eventually(lambda: house.admin("GET", "/api/virtual-keys").json()[0]["tokens_used"])
            before = everything(product)
            house.close()
            assert product.stop() == 0
        secrets = (key, token, "sk-alpha-0123456789abcdef", "sk-beta-0123456789abcdef", session)
        for path in (path for path in tmp_path.rglob("*") if path.is_file()):
            content = path.read_bytes()
            assert not [secret for secret in secrets if secret.encode() in content], path
        assert not [secret for secret in secrets if secret != token and secret in product.output]

        with Product(tmp_path, {"MASTER_KEY": RIGHT}, token=token) as product:
            assert everything(product) == before
            me = product.get("/api/auth/me", headers={"Cookie": f"mh_session={session}"})
            assert me.json()["username"] == "admin"
            assert (ask(product, key).status_code, len(b.calls)) == (200, 2)

        with Product(tmp_path, {"MASTER_KEY": WRONG}, token=token) as product:
            calls = len(a.calls), len(b.calls)
            answer = ask(product, key)
            assert answer.status_code == 502
            text = "all 2 candidate(s) failed key decryption (wrong master key?)"
            assert answer.json()["error"]["message"] == text
            direct = ask(product, key, f"Alpha/{MODEL}")
            assert direct.status_code == 502
            assert "Alpha" in direct.json()["error"]["message"]
            assert (len(a.calls), len(b.calls)) == calls
            status = product.api("GET", "/api/failover-groups/circuit-breaker-status?detail=1").json()
            assert not status.get("providers")
            rows = product.api("GET", "/api/providers")
            assert rows.status_code == 200
            assert {row["name"] for row in rows.json()} == {"Alpha", "Beta"}
            alpha = next(row["id"] for row in rows.json() if row["name"] == "Alpha")
            again = product.api("PUT", f"/api/providers/{alpha}", json={"api_key": "sk-alpha-0123456789abcdef"})
            assert again.status_code == 200
            assert ask(product, key).status_code == 200
            assert WRONG not in product.output
            assert RIGHT not in product.output

        with Product(tmp_path, {"MASTER_KEY": RIGHT}, token=token) as product:
            # Beta's key was never touched; Alpha's is sealed under the wrong key now.
            assert ask(product, key, f"Beta/{MODEL}").status_code == 200
            assert ask(product, key, f"Alpha/{MODEL}").status_code == 502


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_a_day_that_came_while_nobody_ran_takes_effect_at_the_start(tmp_path: Path):
    """part of providers 15"""
    with FakeProvider(models=[MODEL]) as a, FakeProvider(models=[MODEL]) as b:
        with Product(tmp_path) as product:
            house = House(product, a, b)
            key, token = house.key, product.token
            house.close()
        done = manage(tmp_path, "shell", "-c", OVERDUE)
        assert done.returncode == 0, done.stderr
        with Product(tmp_path, token=token) as product:
            rows = {row["name"]: row for row in product.api("GET", "/api/providers").json()}
            assert [rows[name]["enabled"] for name in ("Alpha", "Beta")] == [False, True]
            assert rows["Alpha"]["scheduled_disable_on"] is None
            before = len(a.calls)
            assert ask(product, key, MODEL).status_code == 200
            assert (len(a.calls), product.output.count("switched off as scheduled")) == (before, 1)
