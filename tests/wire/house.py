"""A whole house for wire tests: the real product, provider A scripted, provider B healthy, a key, a group."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai

from tests.upstream.server import FakeProvider, answer
from tests.upstream.spoken import PROMPT
from tests.wire.product import Product

MODEL = "glm-4.6"
GROUP = f"hotel/{MODEL}"
QUICK = {"request_timeout": "2s", "ttft_timeout": "400ms", "stream_stall_timeout": "400ms"}


class House:
    """*a* stands first in the group, *b* second; ``ask`` and ``stream`` speak raw HTTP, ``client`` is the SDK."""

    def __init__(self, product: Product, a: FakeProvider, b: FakeProvider) -> None:
        self.product, self.a, self.b = product, a, b
        self.ids: dict[str, str] = {}
        for name, provider in (("Alpha", a), ("Beta", b)):
            made = self.admin(
                "POST",
                "/api/providers",
                json={"name": name, "base_url": provider.url, "api_key": f"sk-{name.lower()}-0123456789abcdef"},
            )
            self.ids[name] = made.json()["id"]
        self.admin("POST", "/api/providers/discover-all")
        self.group = self.admin("GET", "/api/failover-groups").json()["groups"][0]
        self.order("Alpha", "Beta")
        self.key = self.admin("POST", "/api/virtual-keys", json={"name": "wire"}).json()["key"]
        self.http = httpx.Client(
            base_url=product.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=15.0, trust_env=False
        )
        self.client = openai.OpenAI(base_url=f"{product.url}/v1", api_key=self.key, max_retries=0, timeout=15.0)

    def admin(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        return self.product.admin(method, path, **kwargs)

    def order(self, *names: str, group: dict[str, Any] | None = None) -> None:
        found = group or self.group
        entries = found["entries"]
        ids = [entry["model_uuid"] for name in names for entry in entries if entry["provider_name"] == name]
        self.admin("PUT", f"/api/failover-groups/{found['id']}", json={"priority_order": ids})

    def join(self, name: str, kind: str, base_url: str, *, key: str = "") -> None:
        """One more provider, of any type; what it lists is found at once."""
        key = key or f"sk-{name.lower()}-0123456789abcdef"
        body = {"name": name, "provider_type": kind, "base_url": base_url, "api_key": key}
        made = self.admin("POST", "/api/providers", json=body).json()
        self.ids[name] = made["id"]
        self.admin("POST", f"/api/providers/{made['id']}/discover")

    def group_of(self, model: str) -> dict[str, Any]:
        """The group ``hotel/<model>``."""
        groups = self.admin("GET", "/api/failover-groups").json()["groups"]
        found: dict[str, Any] = next(one for one in groups if one["display_model"] == model)
        return found

    def settings(self, **values: str) -> None:
        self.admin("PUT", "/api/settings", json=values)

    def ask(self, model: str = GROUP, *, content: str = PROMPT, **members: Any) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": content}], **members}
        return self.http.post("/v1/chat/completions", json=body)

    def row(self) -> dict[str, Any]:
        """The newest request row."""
        entries = self.admin("GET", "/api/logs/cursor?limit=1").json()["entries"]
        found: dict[str, Any] = entries[0]
        return found

    def trail(self) -> list[tuple[Any, ...]]:
        """(attempt, provider, status, error kind, breaker word) of the newest row."""
        return [
            (one["attempt"], one["provider"], one.get("status"), one.get("error_kind"), one.get("breaker"))
            for one in self.row()["attempts"]
        ]

    def circuit(self, name: str) -> dict[str, Any]:
        status = self.admin("GET", "/api/failover-groups/circuit-breaker-status?detail=1").json()
        for provider in status.get("providers", []):
            if provider["provider_name"] == name:
                found: dict[str, Any] = provider["circuits"][0]
                return found
        return {"state": "untracked", "consecutive_fails": 0}

    def fresh(self) -> None:
        """Circuits closed, scripts healthy, counts at zero."""
        self.admin("POST", "/api/failover-groups/circuit-breaker/reset")
        for provider, text in ((self.a, "from A"), (self.b, "from B")):
            provider.listen()
            provider.script(answer(text))
            provider.forget()

    def close(self) -> None:
        self.http.close()
        self.client.close()


@contextmanager
def house(
    data_dir: Path, env: dict[str, str] | None = None, *, more: tuple[str, ...] = (), **options: Any
) -> Iterator[House]:
    """*more*: models of both providers beside the usual one; their names sort behind it."""
    with ExitStack() as stack:
        a = stack.enter_context(FakeProvider(models=[MODEL, *more]))
        b = stack.enter_context(FakeProvider(models=[MODEL, *more]))
        product = stack.enter_context(Product(data_dir, env, **options))
        found = House(product, a, b)
        stack.callback(found.close)
        yield found
