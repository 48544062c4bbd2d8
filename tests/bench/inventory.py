"""Many models: 10,000 of them over 40 providers, swept, shown and rebuilt in memory while a stream runs.

    python -m tests.bench.inventory [--providers 40] [--models 250] [--postgres] [--json]

Starts a product of its own and, in this process, one server that is all the providers and answers at once. Prints a
table; exit code 1 where a target is missed (:data:`TARGETS`). ``tests/bench/test_inventory.py`` holds such figures
with room for a machine that has other work.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.bench import hotel, machine
from tests.bench.dashboards import signed_in
from tests.upstream.server import Behaviour as Behaviour
from tests.upstream.server import FakeProvider, Recorded, reply, stream
from tests.wire.product import ROOT, Product, environment, fresh_postgres

PROVIDERS, EACH, SWEEPS = 40, 250, 3
PAGES = ("/models/", "/api/models/cursor", "/api/models/cursor?limit=200&search=model-1&sort_by=provider")
TRIES = 7  # of each page
BEGIN_SECONDS, SWEEP_SECONDS = 30.0, 240.0  # after which no sweep is waited for
SWEPT = "discovery: sweep complete"
REST = 0.2  # seconds between two edits
WATCHED = 8.0  # seconds of the stream
PACE = 0.005  # seconds between two chunks of the watched stream
CHUNKS = 2000
#: What must hold: seconds, milliseconds, and MB that a further sweep may add.
TARGETS = {"sweep_s": 60.0, "growth_mb": 15.0, "page_ms": 300.0, "rebuild_ms": 300.0, "stall_ms": 20.0}


def names(provider: int, each: int) -> list[str]:
    """The models of two neighbours bear the same names, so that groups of two form."""
    return [f"house-{provider // 2:02}-model-{n:03}" for n in range(each)]


def _rich(model_id: str) -> dict[str, Any]:
    """What a router says of a model: everything."""
    return {
        "id": model_id,
        "name": f"House: {model_id}",
        "description": "A model that is described in a sentence or two, as listings do. " * 4,
        "context_length": 131072,
        "architecture": {"modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"]},
        "pricing": {"prompt": "0.0000004", "completion": "0.00000175", "input_cache_read": "0.00000011"},
        "top_provider": {"context_length": 131072, "max_completion_tokens": 65536},
        "supported_parameters": ["tools", "reasoning", "structured_outputs"],
    }


class Street(FakeProvider):
    """All providers in one server: that of number *n* is at ``/n/v1``; even ones list ids, odd ones everything."""

    def __init__(self, providers: int, each: int) -> None:
        super().__init__()
        self.listings = []
        self.listed: list[float] = []  # when one was asked for, monotonic
        for n in range(providers):
            rows = [_rich(name) if n % 2 else {"id": name, "owned_by": "house"} for name in names(n, each)]
            self.listings.append(json.dumps({"object": "list", "data": rows}).encode())

    def _behaviour(self, request: Recorded) -> Behaviour:
        number, _, rest = request.path.strip("/").partition("/")
        if rest == "v1/models":
            self.listed.append(request.at)
            return reply(200, self.listings[int(number)])
        if rest == "v1/key":
            return reply(200, {"data": {"label": "house"}})
        return super()._behaviour(request)


@dataclass
class Figures:
    """*sweeps_s*, *rss_mb*: one after another, the first sweep stores everything. *pages_ms*: path -> median."""

    providers: int
    models: int
    groups: int = 0
    sweeps_s: list[float] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)
    pages_ms: dict[str, float] = field(default_factory=dict)
    edits_ms: list[float] = field(default_factory=list)
    rebuilds_ms: list[float] = field(default_factory=list)
    rebuilds_cpu_ms: list[float] = field(default_factory=list)
    calm_ms: list[float] = field(default_factory=list)
    gaps_ms: list[float] = field(default_factory=list)

    @property
    def growth_mb(self) -> float:
        """What the sweeps after the second have added; the second one still fills caches."""
        return self.rss_mb[-1] - self.rss_mb[1]

    @property
    def page_ms(self) -> float:
        return max(self.pages_ms.values())

    @property
    def sweep_s(self) -> float:
        return max(self.sweeps_s)

    @property
    def rebuild_ms(self) -> float:
        return statistics.median(self.rebuilds_ms) if self.rebuilds_ms else 0.0

    @property
    def stall_ms(self) -> float:
        """The longest wait for a chunk beyond its pace while the tables were rebuilt, in the median edit: the longest
        of all is the machine's own, as those without an edit show."""
        return statistics.median(self.gaps_ms) - PACE * 1000

    def told(self) -> str:
        def plain(values: list[float]) -> str:
            return ", ".join(f"{value:,.1f}" for value in values)

        median = statistics.median
        return "\n".join(
            (
                f"{self.models:,} models over {self.providers} providers, {self.groups:,} groups",
                f"sweeps, s: {plain(self.sweeps_s)}; RSS after each, MB: {plain(self.rss_mb)}",
                *(f"{path}: {took:.0f} ms" for path, took in self.pages_ms.items()),
                f"an edit, ms: {median(self.edits_ms):.0f} (median)",
                f"both tables built anew, ms: {median(self.rebuilds_ms):.0f}, "
                f"of which the processor {median(self.rebuilds_cpu_ms):.0f}",
                f"longest gap of a stream of {PACE * 1000:.0f} ms chunks, ms, median and most of {len(self.gaps_ms)}: "
                f"during an edit {median(self.gaps_ms):.1f}, {max(self.gaps_ms):.1f}; "
                f"without {median(self.calm_ms):.1f}, {max(self.calm_ms):.1f}",
                f"missed: {', '.join(self.missed()) or 'nothing'}",
            )
        )

    def missed(self, room: float = 1.0) -> list[str]:
        """The targets that do not hold, each stretched by *room*."""
        return [name for name, limit in TARGETS.items() if getattr(self, name) > limit * room]


class Bench:
    def __init__(self, product: Product, street: Street, found: Figures) -> None:
        self.product, self.street, self.found = product, street, found

    def admin(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        answer = self.product.api(method, path, timeout=300.0, **kwargs)
        if answer.status_code >= 300:
            raise machine.BenchFailed(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer

    def rss(self) -> float:
        return machine.rss(machine.family(self.product.process.pid))

    def providers(self) -> None:
        for n in range(self.found.providers):
            body = {
                "name": f"house {n:02}",
                "provider_type": "openrouter" if n % 2 else "custom",
                "api_key": "sk-house",
            }
            self.admin("POST", "/api/providers", json={**body, "base_url": f"{self.street.origin}/{n}/v1"})

    def sweep(self) -> None:
        """A scheduled one, by the product itself."""
        before = self.product.output.count(SWEPT)
        self.street.listed.clear()
        self.admin("PUT", "/api/settings", json={"discovery_interval": "1s"})
        self.street.wait_for(lambda: bool(self.street.listed), BEGIN_SECONDS)
        self.admin("PUT", "/api/settings", json={"discovery_interval": "0"})
        began = self.street.listed[0]
        while self.product.output.count(SWEPT) == before:
            if time.monotonic() > began + SWEEP_SECONDS:
                raise machine.BenchFailed(f"no sweep within {SWEEP_SECONDS} s")
            time.sleep(0.05)
        self.found.sweeps_s.append(time.monotonic() - began)
        states = self.admin("GET", "/api/providers/status").json()["summary"]
        stored = self.admin("GET", "/api/models/cursor?limit=1").json()["total"]
        if states["healthy"] != self.found.providers or stored != self.found.models:
            raise machine.BenchFailed(f"sweep: {states}, {stored} models")
        self.found.rss_mb.append(self.rss())

    def pages(self) -> None:
        with closing(signed_in(self.product.url)) as person:
            for path in (
                "/models/",
                "/api/models/cursor",
                "/api/models/cursor?limit=200&search=model-1&sort_by=provider",
            ):
                took = []
                for _ in range(TRIES):
                    began = time.monotonic()
                    person.get(path).raise_for_status()
                    took.append((time.monotonic() - began) * 1000)
                self.found.pages_ms[path] = statistics.median(took)

    def gaps(self, seconds: float, beside: Callable[[], object]) -> list[float]:
        """The longest wait for a chunk of a paced stream in ms, for each time that *beside* is called meanwhile."""
        arrivals: list[float] = []
        over = threading.Event()
        model = f"house-00/{names(0, 1)[0]}"
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True}

        def listen() -> None:
            url, headers = f"{self.product.url}/v1/chat/completions", {"Authorization": f"Bearer {self.key}"}
            with httpx.stream("POST", url, json=body, headers=headers, timeout=60.0, trust_env=False) as answer:
                if answer.status_code != 200:
                    raise machine.BenchFailed(answer.read().decode()[:300])
                for _ in answer.iter_raw():
                    arrivals.append(time.monotonic())
                    if over.is_set():
                        return

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        windows = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(REST)
            began = time.monotonic()
            beside()
            windows.append((began, time.monotonic() + REST / 2))
        over.set()
        listener.join(30)
        pairs = list(itertools.pairwise(arrivals))
        return [max((b - a) * 1000 for a, b in pairs if b > start and a < end) for start, end in windows]

    def edits(self) -> None:
        self.key = self.admin("POST", "/api/virtual-keys", json={"name": "bench"}).json()["key"]
        self.street.script(stream(["x"] * CHUNKS, delay=PACE))
        model = self.admin("GET", "/api/models/cursor?limit=1").json()["entries"][0]
        names = itertools.count()

        def edit() -> None:
            began = time.monotonic()
            self.admin("PATCH", f"/api/models/{model['id']}", json={"display_name": f"Renamed {next(names)}"})
            self.found.edits_ms.append((time.monotonic() - began) * 1000)

        self.found.calm_ms = self.gaps(WATCHED, lambda: time.sleep(0.1))
        self.found.gaps_ms = self.gaps(WATCHED, edit)

    def rebuilds(self) -> None:
        """In a process of its own, beside the product."""
        argv = [sys.executable, "-m", "tests.bench.rebuild"]
        env = environment(self.product.data_dir, self.product.env)
        done = subprocess.run(argv, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise machine.BenchFailed(done.stderr[-500:])
        told = json.loads(done.stdout)
        self.found.rebuilds_ms, self.found.rebuilds_cpu_ms = told["wall_ms"], told["cpu_ms"]


def run(directory: Path, providers: int = PROVIDERS, each: int = EACH, *, postgres: bool = False) -> Figures:
    """Raises BenchFailed where something does not work at all."""
    found = Figures(providers, providers * each)
    with ExitStack() as stack:
        street = stack.enter_context(Street(providers, each))
        env = {"ADMIN_TOKEN": hotel.ADMIN_TOKEN, "ADMIN_PASSWORD": hotel.ADMIN_PASSWORD}
        env |= {"MODELSDEV_ENABLED": "false", "PROVIDER_RECHECK_INTERVAL": "0"}
        if postgres:
            env |= {"DATABASE_URL": stack.enter_context(fresh_postgres()), "MASTER_KEY": hotel.ADMIN_TOKEN}
        product = stack.enter_context(Product(directory, env))
        bench = Bench(product, street, found)
        bench.providers()
        for _ in range(SWEEPS):
            bench.sweep()
        found.groups = len(bench.admin("GET", "/api/failover-groups").json()["groups"])
        bench.pages()
        bench.edits()
        bench.rebuilds()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--providers", type=int, default=PROVIDERS)
    parser.add_argument("--models", type=int, default=EACH, help="of each provider")
    parser.add_argument("--postgres", action="store_true", help="instead of SQLite")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mh-inventory-") as scratch:
        found = run(Path(scratch), asked.providers, asked.models, postgres=asked.postgres)
    print(found.told() if not asked.json else json.dumps(asdict(found), indent=1))
    return 1 if found.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
