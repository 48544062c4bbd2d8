"""A product with two providers, one of which lists what a test says."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.upstream.server import FakeProvider, answer
from tests.upstream.spoken import PROMPT
from tests.wire.product import Product, eventually

MODELS = ["kept-1", "kept-2", "kept-3"]
KEY = "sk-hostile-0123456789abcdef"
PATH = ("GET", "/v1/models")
MEGABYTE = 10**6
SWEPT = "discovery: sweep complete"


class Yard:
    """One product; *bad* lists what a test says, *good* is well."""

    def __init__(self, product: Product, bad: FakeProvider, good: FakeProvider) -> None:
        self.product, self.bad, self.good = product, bad, good
        self.ids: dict[str, str] = {}
        for name, upstream in (("Bad", bad), ("Good", good)):
            self.add(name, upstream)
        self.key = self.admin("POST", "/api/virtual-keys", json={"name": "yard"}).json()["key"]

    def admin(self, method: str, path: str, **kwargs: Any) -> Any:
        return self.product.admin(method, path, timeout=200.0, **kwargs)

    def add(self, name: str, upstream: FakeProvider) -> None:
        body = {"name": name, "provider_type": "custom", "base_url": upstream.url, "api_key": KEY}
        self.ids[name] = self.admin("POST", "/api/providers", json=body).json()["id"]
        self.admin("POST", f"/api/providers/{self.ids[name]}/discover")

    def discover(self, name: str = "Bad") -> int:
        path = f"/api/providers/{self.ids[name]}/discover"
        return self.product.api("POST", path, timeout=200.0).status_code

    def shown(self, name: str = "Bad") -> dict[str, Any]:
        rows = self.admin("GET", "/api/providers").json()
        found: dict[str, Any] = next(row for row in rows if row["name"] == name)
        return found

    def on(self, name: str = "Bad") -> list[str]:
        """The ids of the provider's models, all of which are on."""
        rows = self.admin("GET", f"/api/models?provider_id={self.ids[name]}").json()
        assert all(row["enabled"] for row in rows)
        return [row["model_id"] for row in rows]

    def serves(self, name: str = "Bad") -> bool:
        body = {"model": f"{name}/{MODELS[0]}", "messages": [{"role": "user", "content": PROMPT}]}
        headers = {"Authorization": f"Bearer {self.key}"}
        return self.product.http.post(f"{self.product.url}/v1/chat/completions", json=body, headers=headers).is_success

    def sweep(self, seconds: float = 30.0) -> None:
        """One that is scheduled, from its beginning to its end."""
        before = self.product.output.count(SWEPT)
        for upstream in (self.bad, self.good):
            upstream.forget()
        self.admin("PUT", "/api/settings", json={"discovery_interval": "1s"})
        assert eventually(lambda: any(upstream.requests for upstream in (self.bad, self.good)))
        self.admin("PUT", "/api/settings", json={"discovery_interval": "0"})
        assert eventually(lambda: self.product.output.count(SWEPT) > before, seconds)

    def mend(self) -> None:
        for upstream in (self.bad, self.good):
            upstream.listen()
            upstream._routes.pop(PATH, None)

    def memory(self) -> float:
        """Resident, MB."""
        text = Path(f"/proc/{self.product.process.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0]) * 1024 / MEGABYTE


@contextmanager
def opened(directory: Path) -> Iterator[Yard]:
    """Nothing is swept in it, and no failed listing asked for again, until somebody says so."""
    with ExitStack() as stack:
        bad, good = (stack.enter_context(FakeProvider(models=MODELS)) for _ in range(2))
        for upstream in (bad, good):
            upstream.script(answer("here"))
        env = {"MODELSDEV_ENABLED": "false", "PROVIDER_RECHECK_INTERVAL": "0"}
        made = Yard(stack.enter_context(Product(directory, env)), bad, good)
        made.admin("PUT", "/api/settings", json={"discovery_interval": "0"})
        yield made
