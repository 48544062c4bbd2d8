"""The admin API and the data plane on each other: what a change means for traffic, and several who change at once."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.upstream.server import after, answer, status
from tests.wire.house import GROUP, House
from tests.wire.product import Product, fresh_postgres

PARTS = (
    "parse_ms",
    "failover_lookup_ms",
    "model_lookup_ms",
    "provider_lookup_ms",
    "key_decrypt_ms",
    "settings_read_ms",
    "dial_ms",
)


def test_the_breaker_can_be_switched_off_and_on_under_an_open_circuit(home: House):
    """settings 58."""
    home.a.script(status(500))
    home.settings(circuit_breaker_threshold="1", circuit_breaker_enabled="true")
    try:
        assert home.ask().status_code == 200
        assert home.circuit("Alpha")["state"] == "open"
        home.settings(circuit_breaker_enabled="false")
        home.a.script(answer("from A"))
        assert "from A" in home.ask().text
        home.settings(circuit_breaker_enabled="true")
        assert home.ask().status_code == 200
    finally:
        home.admin("DELETE", "/api/settings", json={"keys": ["circuit_breaker_threshold", "circuit_breaker_enabled"]})


def test_a_running_request_keeps_its_budget_and_the_next_has_the_new_one(home: House):
    """settings 56."""
    home.settings(request_timeout="30s")
    home.a.script(after(1.5, answer("late")))
    found: list[httpx.Response] = []
    running = threading.Thread(target=lambda: found.append(home.ask()))
    try:
        running.start()
        home.a.wait_calls(1)
        home.settings(request_timeout="1s")
        running.join(10)
        assert (found[0].status_code, "late" in found[0].text) == (200, True)
        home.b.script(after(1.5, answer("late")))
        late = home.ask()
        assert late.status_code == 504
        assert home.trail()[0][3] == "failover_timeout"
    finally:
        home.admin("DELETE", "/api/settings", json={"keys": ["request_timeout"]})


def test_a_row_names_what_was_asked_and_what_was_answered(home: House):
    """operations 14, operations 21."""
    home.ask()
    row = home.row()
    assert (row["model_id"], row["resolved_model_id"]) == (GROUP, "glm-4.6")
    assert row["latency_ms"] >= 0
    assert sum(row[name] or 0 for name in PARTS) == pytest.approx(row["proxy_overhead_ms"], abs=0.01)


def test_an_unknown_key_leaves_no_row(home: House):
    """part of operations 20."""
    home.ask()
    before = home.admin("GET", "/api/logs/cursor?limit=1").json()["total"]
    for _ in range(20):
        home.product.http.post(
            f"{home.product.url}/v1/chat/completions", json={"model": GROUP}, headers={"Authorization": "Bearer sk-no"}
        )
    assert home.admin("GET", "/api/logs/cursor?limit=1").json()["total"] == before


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def product(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    data_dir = tmp_path_factory.mktemp("control")
    if request.param == "sqlite":
        with Product(data_dir) as found:
            yield found
        return
    with fresh_postgres() as url, Product(data_dir, {"DATABASE_URL": url, "MASTER_KEY": "m" * 40}) as found:
        yield found


def at_once(product: Product, count: int, call: Callable[[httpx.Client, int], httpx.Response]) -> list[httpx.Response]:
    """What *count* callers get that start at the same moment."""
    found: list[Any] = [None] * count
    start = threading.Barrier(count)

    def run(number: int) -> None:
        headers = {"Authorization": f"Bearer {product.token}"}
        with httpx.Client(base_url=product.url, headers=headers, timeout=20.0, trust_env=False) as client:
            start.wait(10)
            found[number] = call(client, number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(25)
    return found


def statuses(answers: list[httpx.Response]) -> Counter[int]:
    return Counter(answer.status_code for answer in answers)


PROVIDER = {"name": "Race", "base_url": "https://127.0.0.1:1/v1", "provider_type": "custom", "api_key": "sk-12345678"}


def test_of_six_who_create_one_provider_one_wins_and_of_six_who_delete_it_too(product: Product):
    """providers 2."""
    made = at_once(product, 6, lambda client, _: client.post("/api/providers", json=PROVIDER))
    assert statuses(made) == {201: 1, 409: 5}
    path = next(f"/api/providers/{answer.json()['id']}" for answer in made if answer.status_code == 201)
    changed = at_once(product, 6, lambda client, n: client.put(path, json={"max_in_flight": n + 1, "enabled": n > 2}))
    assert statuses(changed) == {200: 6}
    gone = at_once(product, 6, lambda client, _: client.delete(path))
    assert statuses(gone) == {204: 1, 404: 5}


def test_a_key_that_one_changes_and_another_deletes_is_gone(product: Product):
    path = f"/api/virtual-keys/{product.api('POST', '/api/virtual-keys', json={'name': 'k'}).json()['id']}"
    answers = at_once(
        product, 6, lambda client, n: client.delete(path) if n % 2 else client.put(path, json={"name": f"k{n}"})
    )
    assert set(statuses(answers)) <= {200, 204, 404}
    assert statuses(answers)[204] == 1
    assert product.api("GET", path).status_code == 404


def test_settings_written_by_six_at_once_are_all_stored(product: Product):
    keys = [
        "request_timeout",
        "ttft_timeout",
        "stream_stall_timeout",
        "key_cache_ttl",
        "log_retention",
        "audit_retention",
    ]
    known = {one["key"] for one in product.api("GET", "/api/settings/catalogue").json()["settings"]}
    keys = [key for key in keys if key in known]
    answers = at_once(product, len(keys), lambda client, n: client.put("/api/settings", json={keys[n]: "77s"}))
    assert statuses(answers) == {200: len(keys)}
    stored = product.api("GET", "/api/settings").json()
    assert {key: stored.get(key) for key in keys} == dict.fromkeys(keys, "77s")


@pytest.mark.parametrize("text", ["a\0b", "\0", "\u200b", "x" * 100_000])
def test_text_that_no_name_may_hold_is_a_400_everywhere(product: Product, text: str):
    for path, body in (
        ("/api/providers", {**PROVIDER, "name": text}),
        ("/api/providers", {**PROVIDER, "base_url": text}),
        ("/api/providers", {**PROVIDER, "provider_type": text}),
        ("/api/virtual-keys", {"name": text}),
        ("/api/virtual-keys", {"name": "k", "allowed_providers": [text]}),
        ("/api/virtual-keys", {"name": "k", "owner_user_id": text}),
        ("/api/failover-groups", {"display_model": text, "entry_ids": [text, text]}),
        ("/api/models/bulk-delete", {"ids": [text]}),
    ):
        answer = product.api("POST", path, json=body)
        assert (answer.status_code, len(answer.text) < 200_000) == (400, True), (path, body.keys())
    for query in ("model_id", "client_ip", "provider_id", "cursor"):
        found = product.api("GET", "/api/logs/cursor", params={query: text[:2000]})
        assert found.status_code in (200, 400), query
    assert "unexpected error" not in product.output
