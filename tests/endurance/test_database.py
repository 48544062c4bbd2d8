"""A database that does not answer for ten seconds under fifty streams: traffic goes on, every row arrives."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from modelhotel.ops import serving
from tests.endurance.load import Clients, Reply, call, either
from tests.endurance.rows import rows, times
from tests.pace import slower
from tests.upstream.server import answer, stream
from tests.wire.cut import Cut
from tests.wire.house import GROUP, House, house
from tests.wire.product import Product, eventually, fresh_postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

STREAMS = 50
OUTAGE = 10.0  # seconds
PACE = 0.1
#: A stream is as long as the outage and two seconds on either side.
WORDS = [f"{n} " for n in range(int((OUTAGE + 4) / PACE))]
#: The longest pause that a client may see, pace included: what a crowded machine adds, far less than the outage.
GAP = 3.0
#: What a provider of the tests reports for each answer.
TOKENS = 8
Freeze = Callable[[], AbstractContextManager[None]]


@contextmanager
def locked_sqlite(path: Path) -> Iterator[tuple[House, Freeze]]:
    @contextmanager
    def freeze() -> Iterator[None]:
        other = sqlite3.connect(path / "modelhotel.sqlite3", isolation_level=None, timeout=20)
        other.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")
            other.close()

    with house(path) as home:
        yield home, freeze


@contextmanager
def frozen_postgres(path: Path) -> Iterator[tuple[House, Freeze]]:
    with fresh_postgres() as url:
        place = urlsplit(url)
        with Cut(place.hostname or "", place.port or 5432) as cut:

            @contextmanager
            def freeze() -> Iterator[None]:
                cut.freeze()
                try:
                    yield
                finally:
                    cut.thaw()

            through = place._replace(netloc=f"{place.username}@127.0.0.1:{cut.port}").geturl()
            env = {"DATABASE_URL": through, "MASTER_KEY": "m" * 40, "ADMIN_TOKEN": "t0ken"}
            with house(path, env) as home:
                yield home, freeze


def health(product: Product) -> str:
    return product.get("/health").text


@pytest.mark.parametrize(
    ("outage", "shown"),
    [
        pytest.param(locked_sqlite, "OK", id="SQLite locked"),
        pytest.param(frozen_postgres, "DEGRADED", id="PostgreSQL frozen", marks=pytest.mark.postgres),
    ],
)
def test_traffic_goes_on_and_every_row_arrives_once(outage, shown: str, tmp_path: Path):
    """operations 3, operations 75: a lock lets SQLite's readers pass, so that its health stays good."""
    with outage(tmp_path) as (home, freeze), Clients() as clients:
        home.a.script(either(stream(WORDS, delay=PACE), answer("there")))
        product, key = home.product, home.key
        streams = clients.begin(STREAMS, product.url, key, model=GROUP).flowing()
        meanwhile: list[Reply] = []
        with freeze():
            began = time.monotonic()
            assert eventually(lambda: health(product) == shown, 3.5 * slower())
            while time.monotonic() - began < OUTAGE:
                meanwhile.append(clients.run(call(product.url, key, model=GROUP, stream=False)))
                time.sleep(0.05)
            assert product.get("/healthz").status_code == 200
        assert eventually(lambda: health(product) == "OK", 3.5 * slower())
        replies = streams.done()
        assert [(reply.whole, reply.text) for reply in replies] == [(True, "".join(WORDS))] * STREAMS
        print(f"longest gap {max(reply.longest_gap for reply in replies):.3f} s")
        assert max(reply.longest_gap for reply in replies) < GAP
        assert len(meanwhile) > OUTAGE
        assert {(reply.status, reply.text, reply.error) for reply in meanwhile} == {(200, "there", "")}
        print(f"longest of {len(meanwhile)} calls meanwhile {max(reply.longest_gap for reply in meanwhile):.3f} s")
        assert max(reply.longest_gap for reply in meanwhile) < GAP
        found = eventually(lambda: len(kept := rows(product)) >= STREAMS + len(meanwhile) and kept, 10)
        assert times(found) == {reply.id: 1 for reply in [*replies, *meanwhile]}
        assert {(row["state"], row["status_code"]) for row in found} == {("completed", 200)}
        counted = (STREAMS + len(meanwhile)) * TOKENS
        assert eventually(lambda: product.api("GET", "/api/virtual-keys").json()[0]["tokens_used"] == counted, 10)
        state = product.api("GET", "/api/logs/recorder").json()
        assert (state["lost"], state["spilled"]) == (0, 0)


@pytest.mark.postgres
def test_a_stop_while_the_database_is_frozen_ends_well_and_the_next_start_writes_the_rows(tmp_path: Path):
    with frozen_postgres(tmp_path) as (home, freeze), Clients() as clients:
        home.a.script(answer("there"))
        product = home.product
        with freeze():
            replies = [clients.run(call(product.url, home.key, model=GROUP, stream=False)) for _ in range(20)]
            assert {reply.status for reply in replies} == {200}
            assert product.stop(seconds=serving.BUDGET) == 0
        assert "lifecycle: stopped" in product.output
        with Product(tmp_path, product.env) as again:
            assert eventually(lambda: times(rows(again)) == {reply.id: 1 for reply in replies}, 10)
