"""``kill -9`` at random moments, while an operator edits and clients ask: what was acknowledged is there afterwards.

The seed is printed; ``MH_TEST_SEED=<number>`` repeats the moments.
"""

import os
import random
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from requestlogs import columns
from requestlogs.draft import Draft
from requestlogs.recorder import INTERRUPTED
from requestlogs.spill import PATTERN, Spill
from tests.endurance.load import Clients, Reply, call, either
from tests.endurance.rows import rows, times
from tests.upstream.server import FakeProvider, after, answer, stream
from tests.wire.house import GROUP, MODEL, House
from tests.wire.product import REDIS, Product, fresh_postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

#: Seconds within which a row is written for certain: it is tried every 0.2.
WRITTEN = 1.5
STREAMS, PLAIN = 6, 2


class Editor(threading.Thread):
    """Edits as fast as answers come. What was asked and what was acknowledged, per thing that is edited."""

    def __init__(self, product: Product, known: "Known", home: House) -> None:
        super().__init__(daemon=True)
        self.product, self.known, self.home = product, known, home
        self.start()

    def run(self) -> None:
        try:
            while True:
                self.known.edits += 1
                number = self.known.edits
                self.put("/api/settings", "setting", f"{10 + number % 500}s")
                self.put(f"/api/failover-groups/{self.home.group['id']}", "order", number % 2)
                self.key(f"key {number}")
        except httpx.TransportError:  # it is dead
            pass

    def put(self, path: str, thing: str, value: Any) -> None:
        order = self.known.orders[value] if thing == "order" else None
        body = {"priority_order": order} if order else {"request_timeout": value}
        self.known.asked[thing] = value
        self.ok(self.product.api("PUT", path, json=body))
        self.known.acknowledged[thing] = value

    def key(self, name: str) -> None:
        made = self.ok(self.product.api("POST", "/api/virtual-keys", json={"name": name})).json()
        self.known.keys[name], self.known.ids[name] = made["key"], made["id"]
        if len(self.known.keys) > 5:
            oldest = next(iter(self.known.keys))
            gone = self.known.keys.pop(oldest)
            self.known.deleting = gone
            self.ok(self.product.api("DELETE", f"/api/virtual-keys/{self.known.ids.pop(oldest)}"))
            self.known.deleted.append(gone)

    def ok(self, answer: httpx.Response) -> httpx.Response:
        if answer.status_code >= 300:
            self.known.refusals.append((answer.status_code, answer.text))
        return answer


class Known:
    """What the operator knows to be so."""

    def __init__(self, home: House) -> None:
        ids = [entry["model_uuid"] for entry in home.group["entries"]]
        self.orders = [ids, ids[::-1]]
        self.edits = 0
        began = {"setting": None, "order": int(home.group["entries"][0]["provider_name"] != "Alpha")}
        self.asked: dict[str, Any] = dict(began)
        self.acknowledged: dict[str, Any] = dict(began)
        self.keys: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        self.deleted: list[str] = []
        self.deleting = ""
        self.refusals: list[tuple[int, str]] = []

    def holds(self, product: Product, home: House) -> None:
        """Every acknowledged edit is there; the one in flight may be there or not."""
        assert self.refusals == []
        settings = product.api("GET", "/api/settings").json()
        assert settings.get("request_timeout") in (self.acknowledged["setting"], self.asked["setting"])
        groups = product.api("GET", "/api/failover-groups").json()["groups"]
        (group,) = [group for group in groups if group["id"] == home.group["id"]]
        found = self.orders.index([entry["model_uuid"] for entry in group["entries"]])
        assert found in (self.acknowledged["order"], self.asked["order"])
        assert {row["name"] for row in product.api("GET", "/api/virtual-keys").json()} >= set(self.keys)
        for key in self.keys.values():
            assert models(product, key) == 200
        for key in self.deleted[-3:]:
            assert models(product, key) == 401
        # What was in flight is settled by now, one way or the other.
        self.acknowledged = {"setting": settings.get("request_timeout"), "order": found}
        self.deleted += [self.deleting] if self.deleting and models(product, self.deleting) == 401 else []


def models(product: Product, key: str) -> int:
    return product.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code


class Traffic:
    """Clients that ask again and again until the product is gone: (moment of the end, reply)."""

    def __init__(self, clients: Clients, product: Product, key: str) -> None:
        self.seen: list[tuple[float, Reply]] = []
        self._futures = [
            clients.begin_work(self.client(product.url, key, number < STREAMS)) for number in range(STREAMS + PLAIN)
        ]

    async def client(self, url: str, key: str, streaming: bool) -> None:
        while True:
            reply = await call(url, key, model=GROUP if streaming else f"Beta/{MODEL}", stream=streaming)
            if reply.status:
                self.seen.append((time.monotonic(), reply))
            if reply.error:
                return

    def done(self) -> list[tuple[float, Reply]]:
        for future in self._futures:
            future.result(15)
        return self.seen


def check_rows(found: list[dict[str, Any]], seen: list[tuple[float, Reply]], killed: float) -> None:
    assert not found or max(times(found).values()) == 1
    for row in found:
        if row["state"] == "completed":
            told = row["status_code"], row["tokens_prompt"], row["tokens_completion"], bool(row["attempts"])
            assert (told, row["provider_name"] in ("Alpha", "Beta")) == ((200, 3, 5, True), True)
        else:
            told = row["state"], row["error_kind"], row["error_message"], row["status_code"]
            assert told == ("failed", "internal", INTERRUPTED, None)
    states = {row["request_hash"]: row["state"] for row in found}
    for end, reply in seen:
        if reply.error:  # it ran when the end came
            assert states.get(reply.id) in (
                ["failed"] if reply.began < killed - WRITTEN else [None, "failed", "completed"]
            )
        else:
            assert reply.whole or reply.text == "Hello"
            assert states.get(reply.id) in (
                ["completed"] if end < killed - WRITTEN else [None, "failed", "completed"]
            ), killed - end


def leave_a_spill_file(path: Path) -> list[str]:
    """As a process leaves it that died while the database was away, its last line cut; the ids of its rows."""
    drafts = [Draft("chat", model_id=GROUP, state="completed", status_code=200, finished=True) for _ in range(700)]
    for draft in drafts:
        draft.tokens_prompt, draft.tokens_completion, draft.attempts = 3, 5, [{"attempt": 0}]
    spill = Spill(path)
    assert spill.append(columns.values(draft, "gone", time.time()) for draft in drafts) == (len(drafts), 0)
    spill.close()
    (left,) = path.glob(PATTERN)
    with left.open("ab") as cut:
        cut.write(b'["half a row')
    return [draft.id for draft in drafts]


@contextmanager
def environment(kind: str) -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        env = {"MASTER_KEY": "m" * 40, "ADMIN_TOKEN": "t0ken", "NODE_NAME": "one"}
        if kind == "postgres":
            env |= {"DATABASE_URL": stack.enter_context(fresh_postgres()), "REDIS_URL": REDIS}
        yield env


@pytest.mark.parametrize(
    ("kind", "rounds"),
    [("sqlite", 10), pytest.param("postgres", 4, marks=[pytest.mark.postgres, pytest.mark.redis])],
)
def test_nothing_acknowledged_is_lost_and_nothing_is_left_half_done(kind: str, rounds: int, tmp_path: Path):
    """operations 17."""
    seed = int(os.environ.get("MH_TEST_SEED", "0")) or secrets.randbelow(2**32)
    print(f"MH_TEST_SEED={seed}")
    moments = random.Random(seed)
    checked: set[str] = set()
    seen: list[tuple[float, Reply]] = []
    killed = 0.0
    with (
        environment(kind) as env,
        FakeProvider(models=[MODEL]) as a,
        FakeProvider(models=[MODEL]) as b,
        Clients() as clients,
    ):
        with Product(tmp_path, env) as product:
            home = House(product, a, b)
            home.close()
            known = Known(home)
        for provider in (a, b):
            provider.script(either(stream([f"{n} " for n in range(12)], delay=0.1), after(0.05, answer())))
        for number in range(rounds):
            spilled = leave_a_spill_file(tmp_path) if number == 1 else []
            with Product(tmp_path, env) as product:
                if number:
                    known.holds(product, home)
                    found = [row for row in rows(product) if row["id"] not in checked]
                    ours = {row["id"] for row in found} & set(spilled)
                    assert len(ours) == len(spilled)
                    check_rows([row for row in found if row["id"] not in ours], seen, killed)
                    checked |= {row["id"] for row in found}
                    assert not list(tmp_path.glob(PATTERN))
                traffic, editor = Traffic(clients, product, home.key), Editor(product, known, home)
                time.sleep(moments.uniform(0.3, 2.5))
                killed = time.monotonic()
                product.kill()
                seen = traffic.done()
                editor.join(15)
                assert not editor.is_alive()
