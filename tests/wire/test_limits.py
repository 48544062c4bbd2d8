"""Limits of a running product, with its limiters on as they are in one that nobody has configured."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.upstream.server import FakeProvider, answer
from tests.upstream.spoken import PROMPT
from tests.wire.house import GROUP, MODEL, House, house
from tests.wire.product import LIMITED, Product, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]
BODY = {"model": GROUP, "messages": [{"role": "user", "content": PROMPT}]}
#: The path that costs a provider nothing.
MODELS = "/v1/models"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory):
    with house(tmp_path_factory.mktemp("limits"), LIMITED) as found:
        yield found


def key(home: House, **limits) -> tuple[str, dict[str, str]]:
    """A new key: its id and the header that shows it."""
    made = home.admin("POST", "/api/virtual-keys", json={"name": "limited", **limits}).json()
    return made["id"], {"Authorization": f"Bearer {made['key']}"}


def without_address_limit(home: House) -> None:
    home.settings(rate_limit_ip_rps="0")


def test_a_product_nobody_configured_limits_each_key_and_each_address(home: House):
    """v1-api 4.1 and 4.5: 10 per second and 20 at once for a key, 30 and 60 for an address."""
    home.admin("DELETE", "/api/settings", json={"keys": []})
    _, auth = key(home)
    answers = [home.http.get(MODELS, headers=auth) for _ in range(2)]
    first = answers[0]
    assert first.status_code == 200
    names = ("limit", "remaining", "burst", "scope")
    assert [first.headers[f"x-ratelimit-{name}"] for name in names] == ["10", "19", "20", "ip"]
    api = home.product.api("GET", "/api/providers")
    assert (api.headers["x-ratelimit-limit"], api.headers["x-ratelimit-burst"]) == ("30", "60")
    assert "x-ratelimit-limit" not in home.product.get("/health").headers
    home.settings(rate_limit_max_wait_ms="0")
    statuses = [home.http.get(MODELS, headers=auth).status_code for _ in range(40)]
    assert statuses[:15] == [200] * 15 and 429 in statuses


async def _flood(url: str, auth: dict[str, str], per_second: float, seconds: float) -> tuple[int, float, list[int]]:
    """Requests at an even pace: how many were served, how long it took, what the refused were told to wait."""
    served, told = 0, []
    limits = httpx.Limits(max_connections=100)
    async with httpx.AsyncClient(base_url=url, headers=auth, trust_env=False, timeout=10, limits=limits) as client:

        async def one() -> None:
            nonlocal served
            found = await client.get(MODELS)
            if found.status_code == 200:
                served += 1
            else:
                assert found.json()["error"]["message"] == "rate limit exceeded"
                told.append(int(found.headers["retry-after"]))

        began, tasks = time.monotonic(), []
        for number in range(int(per_second * seconds)):
            await asyncio.sleep(max(began + number / per_second - time.monotonic(), 0))
            tasks.append(asyncio.create_task(one()))
        took = time.monotonic() - began
        await asyncio.gather(*tasks)
    return served, took, told


def test_ten_times_the_rate_lets_the_rate_and_the_burst_through_and_retry_after_is_true(home: House):
    """10 requests per second are allowed and 100 are asked for, for 5 s."""
    without_address_limit(home)
    home.settings(rate_limit_max_wait_ms="200")
    _, auth = key(home, rate_limit_rps=10, rate_limit_burst=20)
    served, took, told = asyncio.run(_flood(home.product.url, auth, 100, 5))
    # What was held at the end is served up to 0.2 s later.
    allowed = 10 * (took + 0.2) + 20
    assert allowed * 0.95 <= served <= allowed * 1.05 + 1
    assert told and set(told) == {1}
    time.sleep(told[-1])
    assert home.http.get(MODELS, headers=auth).status_code == 200


def test_an_edit_binds_the_next_request(home: House):
    """part of v1-api 34"""
    without_address_limit(home)
    ident, auth = key(home, rate_limit_rps=0.01, rate_limit_burst=1)
    assert [home.http.get(MODELS, headers=auth).status_code for _ in range(2)] == [200, 429]
    home.admin("PUT", f"/api/virtual-keys/{ident}", json={"name": "limited", "rate_limit_rps": 0})
    assert home.http.get(MODELS, headers=auth).headers["x-ratelimit-limit"] == "1000000"


def test_a_held_client_that_hangs_up_gets_its_token_back(home: House):
    without_address_limit(home)
    home.settings(rate_limit_max_wait_ms="5000")
    _, auth = key(home, rate_limit_rps=0.5, rate_limit_burst=1)
    before = len(home.a.calls)
    assert home.http.post("/v1/chat/completions", headers=auth, json=BODY).status_code == 200
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(httpx.ReadTimeout):
            home.http.post("/v1/chat/completions", headers=auth, json=BODY, timeout=0.2)
    # Had they kept their tokens this one would wait for eight seconds, that is, be refused.
    assert home.http.post("/v1/chat/completions", headers=auth, json=BODY).status_code == 200
    assert time.monotonic() - began < 5
    assert len(home.a.calls) == before + 2
    home.settings(rate_limit_max_wait_ms="200")


def test_refusals_have_no_row_and_one_line_per_episode(home: House):
    """operations 4.3"""
    without_address_limit(home)
    ident, auth = key(home, rate_limit_rps=0.01, rate_limit_burst=1)
    assert [home.http.post("/v1/chat/completions", headers=auth, json=BODY).status_code for _ in range(5)] == [
        200,
        *[429] * 4,
    ]

    def entries(query: str) -> list[dict[str, object]]:
        return home.admin("GET", f"/api/logs/{query}").json()["entries"]

    assert eventually(lambda: len(entries(f"cursor?virtual_key_id={ident}")) == 1)
    lines = eventually(lambda: entries("app?history=true&source=limits&search=throttling"))
    assert len([line for line in lines if "key=limited" in str(line)]) >= 1


def test_a_spent_budget_survives_a_restart(tmp_path: Path):
    """v1-api 4.4: spend is what the request log says, whatever the process remembers."""
    with FakeProvider(models=[MODEL]) as a, FakeProvider(models=[MODEL]) as b:
        for provider in (a, b):
            provider.script(answer("hi", usage={"prompt_tokens": 1_000_000, "completion_tokens": 0}))
        with Product(tmp_path, {**LIMITED, "MASTER_KEY": "m" * 40}) as product:
            home = House(product, a, b)
            for row in home.admin("GET", "/api/models").json():
                home.admin("PATCH", f"/api/models/{row['id']}", json={"input_price_per_million": 0.75})
            ident, auth = key(home, budget_usd=1.0, budget_period="month")
            statuses = [home.http.post("/v1/chat/completions", headers=auth, json=BODY) for _ in range(3)]
            assert [found.status_code for found in statuses] == [200, 200, 429]
            said = "key budget exceeded: $1.50 of $1.00 spent this month"
            assert statuses[2].json()["error"] == {
                "message": said,
                "type": "rate_limit_error",
                "param": None,
                "code": "insufficient_quota",
            }
            now = datetime.now(UTC)
            end = (now.replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=32)).replace(day=1)
            assert abs(int(statuses[2].headers["retry-after"]) - (end - now).total_seconds()) < 10
            path = f"/api/virtual-keys/{ident}"
            assert eventually(lambda: home.admin("GET", path).json()["budget_spent_usd"] == 1.5)
            token = product.token
            home.close()
            assert product.stop() == 0
        with Product(tmp_path, {**LIMITED, "MASTER_KEY": "m" * 40}, token=token) as product:
            found = product.http.post(f"{product.url}/v1/chat/completions", headers=auth, json=BODY)
            assert (found.status_code, found.json()["error"]["message"]) == (429, said)
            assert product.http.get(f"{product.url}{MODELS}", headers=auth).status_code == 200
            raised = product.api("PUT", f"/api/virtual-keys/{ident}", json={"name": "limited", "budget_usd": 2})
            assert raised.status_code == 200
            found = product.http.post(f"{product.url}/v1/chat/completions", headers=auth, json=BODY)
            assert found.status_code == 200
