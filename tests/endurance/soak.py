"""Mixed load with 5 % faults: ``python -m tests.endurance.soak [seconds]`` (default 600) prints what it measured.

Afterwards sockets, tasks and memory are back where they were after the warm-up, every answer was right and every
request has exactly one row.
"""

import asyncio
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.endurance.load import Reply, call, either
from tests.endurance.watched import WatchedProduct
from tests.upstream.behaviours import Behaviour, Wire
from tests.upstream.server import FakeProvider, after, answer, cut_after, reset, status, stream
from tests.wire.house import GROUP, MODEL, House
from tests.wire.product import eventually

CLIENTS = 24
#: Seconds between two calls of a client: the load shall last, not press.
PAUSE = 0.08
FAULTS = 0.05
SAMPLE = 30.0
WORDS = ["All ", "is ", "well"]
TEXT = "".join(WORDS)
GOOD = either(stream(WORDS, delay=0.02), answer(TEXT))
#: What every provider does to such a request, and what only the first one does.
EVERYWHERE: dict[str, Behaviour] = {
    "cut": cut_after(3),
    "leaves": stream(WORDS * 50, delay=0.05),
    "leaves early": after(2.0, answer()),
}
FIRST: dict[str, Behaviour] = {"reset": reset(), "500": status(500)}
LONELY = "lonely"


@dataclass(frozen=True)
class Kind:
    """What a client does, whether its answer is right, and what its row says (None: it has no row)."""

    right: Callable[[Reply], bool]
    row: tuple[str, int | None, str | None] | None = ("completed", 200, None)
    streaming: bool = False
    leave_after: int | None = None
    key: str = ""
    model: str = GROUP


def _well(reply: Reply) -> bool:
    return (reply.status, reply.error, reply.text) == (200, "", TEXT)


def _by_the_second(reply: Reply) -> bool:
    return _well(reply) and reply.headers["x-modelhotel-provider"] == "Beta"


def _cut(reply: Reply) -> bool:
    return not reply.error and reply.events[-1].startswith('{"error":{"message":"stream ')


GOOD_KINDS = {
    "stream": Kind(lambda reply: _well(reply) and reply.whole, streaming=True),
    "plain": Kind(_well),
}
FAULT_KINDS = {
    "reset": Kind(_by_the_second),
    "500": Kind(_by_the_second, streaming=True),
    "cut": Kind(_cut, ("failed", 0, "provider_error"), streaming=True),
    "leaves": Kind(lambda reply: reply.left, ("failed", 0, "client_disconnect"), streaming=True, leave_after=2),
    "leaves early": Kind(lambda reply: reply.left, ("failed", 499, "client_disconnect"), leave_after=0),
    "bad key": Kind(lambda reply: reply.status == 401, None, key="sk-nobody"),
    "dead provider": Kind(lambda reply: reply.status == 502, ("failed", 502, "provider_error"), model=f"Dead/{LONELY}"),
}
KINDS = {**GOOD_KINDS, **FAULT_KINDS}


def scripted(faults: dict[str, Behaviour]) -> Behaviour:
    """The content of the request says which fault it meets."""

    async def behave(wire: Wire) -> None:
        await faults.get(wire.request.json["messages"][0]["content"], GOOD)(wire)

    return behave


@dataclass(frozen=True)
class State:
    sockets: int
    files: int
    threads: int
    tasks: dict[str, int]
    memory: float

    def __str__(self) -> str:
        tasks = sum(self.tasks.values())
        return (
            f"{self.sockets} sockets, {self.files} files, {self.threads} threads, {tasks} tasks, {self.memory:.1f} MB"
        )


@dataclass
class Report:
    before: State
    after: State
    asked: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    rows_wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        count = sum(self.asked.values())
        faults = count - self.asked["stream"] - self.asked["plain"]
        return (
            f"{count:,} requests in {self.seconds:.0f} s, {faults:,} with a fault: {dict(self.asked)}\n"
            f"wrong answers: {len(self.wrong)} {self.wrong[:3]}\n"
            f"wrong rows: {len(self.rows_wrong)} {self.rows_wrong[:3]}\n"
            f"after the warm-up: {self.before}\nat the end: {self.after}"
        )


class Soak:
    def __init__(self, path: Path, seed: int) -> None:
        self._stack = ExitStack()
        self._chance = random.Random(seed)
        enter = self._stack.enter_context
        self.a, self.b = enter(FakeProvider(models=[MODEL])), enter(FakeProvider(models=[MODEL]))
        self.dead = enter(FakeProvider(models=[LONELY]))
        self.product = enter(WatchedProduct(path))
        self.home = House(self.product, self.a, self.b)
        self._stack.callback(self.home.close)
        self.home.admin("POST", "/api/providers", json={"name": "Dead", "base_url": self.dead.url, "api_key": "sk-1"})
        self.home.admin("POST", "/api/providers/discover-all")
        self.dead.refuse()
        self.a.script(scripted({**EVERYWHERE, **FIRST}))
        self.b.script(scripted(EVERYWHERE))
        self.asked: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.kinds: dict[str, str] = {}  # request_hash -> kind

    def __enter__(self) -> "Soak":
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    async def _client(self, until: float) -> None:
        while time.monotonic() < until:
            names = FAULT_KINDS if self._chance.random() < FAULTS else GOOD_KINDS
            name = self._chance.choice(list(names))
            kind = names[name]
            reply = await call(
                self.product.url,
                kind.key or self.home.key,
                model=kind.model,
                stream=kind.streaming,
                leave_after=kind.leave_after,
                content=name,
            )
            self.asked[name] += 1
            if reply.id and kind.row:
                self.kinds[reply.id] = name
            if not kind.right(reply):
                self.wrong.append(f"{name}: {reply.status} {reply.error} {reply.body[-300:]!r}")
            await asyncio.sleep(PAUSE)

    async def _load(self, seconds: float, say: Callable[[str], object]) -> None:
        began = time.monotonic()
        clients = [asyncio.create_task(self._client(began + seconds)) for _ in range(CLIENTS)]
        while (done := time.monotonic() - began) < seconds:
            await asyncio.sleep(min(SAMPLE, seconds - done))
            for provider in (self.a, self.b):
                provider.forget()
            say(f"{time.monotonic() - began:.0f} s: {sum(self.asked.values()):,} requests, {self._state()}")
        await asyncio.gather(*clients)

    def _state(self) -> State:
        product = self.product
        return State(product.sockets(), product.files(), product.threads(), product.tasks(), product.memory())

    def settled(self) -> State:
        """Once nothing runs: connections to providers that only rest are closed first."""
        for provider in (self.a, self.b):
            provider.drop_connections()
        self.product.api("GET", "/api/logs/recorder")
        last = self._state()
        for _ in range(40):
            time.sleep(0.25)
            now = self._state()
            if (now.sockets, now.tasks) == (last.sockets, last.tasks) and now.sockets <= 16:
                return now
            last = now
        return last

    def run(self, warm: float, seconds: float, say: Callable[[str], object] = lambda line: None) -> Report:
        asyncio.run(self._load(warm, say))
        before = self.settled()
        asyncio.run(self._load(seconds, say))
        return Report(before, self.settled(), self.asked, self.wrong, self._wrong_rows(), warm + seconds)

    def _wrong_rows(self) -> list[str]:
        expected = {name: sum(kind == name for kind in self.kinds.values()) for name in KINDS}
        count = sum(expected.values()) + self.asked["leaves early"]
        eventually(lambda: len(self._rows()) == count, 15)
        found, wrong, early = self._rows(), [], 0
        for request, told in found:
            name = self.kinds.pop(request, "leaves early")
            early += name == "leaves early"
            if told != KINDS[name].row:
                wrong.append(f"{name}: {told}")
        wrong += [f"{name}: no row" for name in self.kinds.values()]
        doubled = len(found) - len({request for request, _ in found})
        # Whoever leaves before its request was read has none.
        return wrong + ["two rows"] * doubled + ["a row too many"] * max(early - self.asked["leaves early"], 0)

    def _rows(self) -> list[tuple[str, tuple[str, int | None, str | None]]]:
        path = self.product.data_dir / "modelhotel.sqlite3"
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20) as database:
            found = database.execute("SELECT request_hash, state, status_code, error_kind FROM request_logs").fetchall()
        database.close()
        return [(request, (state, code, kind)) for request, state, code, kind in found]


def main(seconds: float) -> int:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder, Soak(Path(folder) / "data", seed) as soak:
        report = soak.run(min(60.0, seconds / 4), seconds, lambda line: print(line, flush=True))
    print(report)
    return int(bool(report.wrong or report.rows_wrong))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 600.0))
