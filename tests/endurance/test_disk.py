"""A full disk: rows wait in memory, then are lost, counted and shown; nothing else stops; with room it goes on."""

import asyncio
import contextlib
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.endurance.load import Clients, Reply, call, either
from tests.endurance.rows import rows, times
from tests.endurance.watched import WatchedProduct
from tests.upstream.server import FakeProvider, answer, stream
from tests.wire.house import GROUP, MODEL, House
from tests.wire.product import Product, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

Full = Callable[[Product], AbstractContextManager[None]]
TMPFS = "16m"
#: Rows; the product's own 20,000 would take minutes to fill.
MEMORY = 300


@contextmanager
def full_tmpfs(product: Product) -> Iterator[None]:
    """Not one block is left on the file system of DATA_DIR."""
    balloon = product.data_dir / "balloon"
    with balloon.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        balloon.unlink()


@contextmanager
def no_longer_files(product: Product) -> Iterator[None]:
    """No file may grow: where nothing can be mounted."""
    before = resource.prlimit(product.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(product.process.pid, resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.prlimit(product.process.pid, resource.RLIMIT_FSIZE, before)


@contextmanager
def mounted(path: Path) -> Iterator[bool]:
    """A small file system at *path*; False where this may not be done here."""
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS}", "tmpfs", path], capture_output=True)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", path], check=True)


async def many(url: str, key: str, count: int) -> list[Reply]:
    """*count* calls from eight clients, one in ten a stream."""
    numbers = iter(range(count))

    async def client() -> list[Reply]:
        return [await call(url, key, model=GROUP, stream=number % 10 == 0) for number in numbers]

    tasks = [asyncio.create_task(client()) for _ in range(8)]
    return [reply for task in tasks for reply in await task]


def good(replies: list[Reply]) -> bool:
    return {(reply.status, reply.text, reply.error) for reply in replies} == {(200, "there", "")}


@pytest.mark.parametrize("kind", ["file system", "file size"])
def test_a_full_disk_costs_rows_and_nothing_else(kind: str, tmp_path: Path):
    path = tmp_path / "data"
    with mounted(path) as is_small, contextlib.ExitStack() as stack:
        full: Full = full_tmpfs if kind == "file system" and is_small else no_longer_files
        a, b = (stack.enter_context(FakeProvider(models=[MODEL])) for _ in range(2))
        clients = stack.enter_context(Clients())
        product = stack.enter_context(WatchedProduct(path, {"MH_TEST_MEMORY": str(MEMORY)}))
        home = House(product, a, b)
        stack.callback(home.close)
        a.script(either(stream(["the", "re"]), answer("there")))

        def state() -> dict[str, int]:
            return product.api("GET", "/api/logs/recorder").json()

        replies = clients.run(many(product.url, home.key, 50))
        assert eventually(lambda: len(rows(product)) == 50)
        with full(product):
            # Until a write fails SQLite still finds room in the log that it has.
            for _ in range(20):
                replies += clients.run(many(product.url, home.key, MEMORY))
                if eventually(lambda: state()["lost"], 1):
                    break
            assert state()["lost"] > 0
            product.wait_for_output("requestlog: rows lost")
            assert eventually(lambda: state()["behind_s"] > 1, 10)
            assert state()["queued"] <= 2 * MEMORY
            # Everything that needs no room is as ever; what does says so and breaks nothing.
            assert product.get("/health").text == "OK"
            assert product.get("/v1/models", headers=home.http.headers).status_code == 200
            assert product.api("GET", "/api/providers").status_code == 200
            refused = product.api("PUT", "/api/settings", json={"circuit_breaker_threshold": "7"})
            # A few bytes may still fit.
            assert refused.status_code == 200 or (refused.status_code, refused.text) == (500, "failed to save settings")
            more = clients.run(many(product.url, home.key, 50))
            assert good(more)
            replies += more
        assert good(replies)
        assert eventually(lambda: state()["behind_s"] < 1 and not state()["queued"], 15)
        replies += clients.run(many(product.url, home.key, 20))
        eventually(lambda: len(rows(product)) + state()["lost"] == len(replies), 10)
        found = times(rows(product))
        assert len(found) + state()["lost"] == len(replies)
        assert set(found.values()) == {1}
        assert set(found) <= {reply.id for reply in replies}
        assert {reply.id for reply in replies[-20:]} <= set(found)
        print(f"{len(replies)} requests, {state()['lost']} rows lost")
        assert product.api("PUT", "/api/settings", json={"circuit_breaker_threshold": "8"}).status_code == 200
        assert product.stop() == 0
