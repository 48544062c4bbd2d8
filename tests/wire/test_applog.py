"""The app log of the running product: from the first line of a start to the last one of a stop."""

import json
import sqlite3
import time
from contextlib import closing, contextmanager

import pytest

from tests.pace import slower
from tests.upstream.server import status
from tests.wire.house import house
from tests.wire.product import Product, eventually

pytestmark = pytest.mark.slow


def told(product, query=""):
    return product.api("GET", f"/api/logs/app?history=true&per_page=100{query}").json()["entries"]


def messages(product, query=""):
    return [entry["message"] for entry in told(product, query)]


@contextmanager
def held(product):
    """The database as it is while somebody else writes and does not finish."""
    with closing(sqlite3.connect(product.data_dir / "modelhotel.sqlite3", isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


def test_a_start_traffic_and_a_stop_are_in_the_table(tmp_path):
    with house(tmp_path / "data", {"NODE_NAME": "n1"}) as home:
        home.a.script(status(500, {"error": {"message": "bad key sk-live-0123456789abcdef"}}))
        assert home.ask().status_code == 200
        assert eventually(lambda: any("failover triggered" in m for m in messages(home.product, "&source=proxy")))
        line = next(e for e in told(home.product) if "failover triggered" in e["message"])
        assert (line["source"], line["node"]) == ("proxy", "n1")
        assert "provider=Alpha" in line["message"]
        assert {"start", "lifecycle", "access"} <= {entry["source"] for entry in told(home.product)}
        access = messages(home.product, "&source=access&search=discover-all")
        assert "method=POST path=/api/providers/discover-all status=200 duration_ms=" in access[0]
        assert access[0].endswith("ip=127.0.0.1")
        recent = home.admin("GET", "/api/logs/app?limit=1000").json()
        assert "failover triggered" in json.dumps(recent)
        kept = json.dumps([recent, told(home.product)])
        for secret in ("0123456789abcdef", home.key):
            assert secret not in kept + home.product.output
        assert home.product.token not in kept  # printed once, and never a line of the log
        token, key = home.product.token, home.key
    with Product(tmp_path / "data", token=token) as again:
        found = messages(again)
        assert any(message.startswith("serve: stopping") for message in found)
        assert any(message.startswith("lifecycle: ready") for message in found)
        assert key not in json.dumps(found)


def test_a_locked_database_holds_no_request_up_and_the_lines_come_later(tmp_path):
    with house(tmp_path / "data") as home:
        home.ask()
        with held(home.product):
            began = time.monotonic()
            for _ in range(20):
                assert home.ask().status_code == 200
            assert time.monotonic() - began < 5 * slower()
            time.sleep(0.7)  # the writers run into the lock
        wanted = "&search=non-streaming+completed"
        assert eventually(lambda: len(messages(home.product, wanted)) >= 21, 15)
        assert len(messages(home.product, wanted)) == 21
