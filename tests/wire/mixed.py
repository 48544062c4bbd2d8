"""A house with providers of every dialect: Alpha and Beta for chat, and those of ``tests/upstream/vendors_api.py``."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.providers.vendors import GEMINI
from tests.upstream.server import FakeProvider, reply
from tests.upstream.vendors_api import generated, message, response
from tests.wire.house import House, house

SHARED = "shared-1"  # a model of Alpha, Beta, Claude, Gateway and OpenAI: of hotel/shared-1
SLASHED = "z-ai/glm-4.6:free"  # of Alpha and Beta
CLAUDE, CHAT, GROUP = "Claude/claude-x", "Alpha/glm-4.6", f"hotel/{SHARED}"
GATEWAY, VERTEX, GOOGLE, GOOGLE_IMAGE = (
    "Gateway/claude-y",
    "Vertex/gemini-2.5-flash",
    "Google/gemini-3-flash",
    "Google/gemini-3-pro-image",
)
OPENAI, PRO = "OpenAI/gpt-5", "OpenAI/o3-pro"
_HOSTED = "http://api.openai.com/v1"


@dataclass
class Mixed:
    """*claude* is of type ``anthropic``, *gateway* ``anthropic-messages``, *vertex* ``vertex-express``, *google*
    ``google``; *openai* answers for ``api.openai.com``, which the product reaches through it as a proxy."""

    home: House
    claude: FakeProvider
    gateway: FakeProvider
    vertex: FakeProvider
    google: FakeProvider
    openai: FakeProvider
    group: dict[str, Any] = field(default_factory=dict)

    @property
    def a(self) -> FakeProvider:
        return self.home.a

    @property
    def b(self) -> FakeProvider:
        return self.home.b

    def order(self, *names: str) -> None:
        """Who stands first in ``hotel/shared-1``."""
        self.home.order(*names, group=self.group)

    def fresh(self) -> None:
        self.home.fresh()
        scripts = {"claude": message(), "gateway": message(), "openai": response()}
        for name in ("claude", "gateway", "vertex", "google", "openai"):
            vendor: FakeProvider = getattr(self, name)
            vendor.listen()
            vendor.script(scripts.get(name, generated()))
            vendor.forget()


def _listings(found: Mixed) -> None:
    found.vertex.route(
        "POST", "/v1/publishers/google/models/gemini-2.5-flash:countTokens", reply(200, {"totalTokens": 1})
    )
    listed = [{**GEMINI, "name": f"models/{model.partition('/')[2]}"} for model in (GOOGLE, GOOGLE_IMAGE)]
    found.google.route("GET", "/v1beta/models", reply(200, {"models": listed}))


@contextmanager
def mixed(data_dir: Path, env: Mapping[str, str] | None = None) -> Iterator[Mixed]:
    with ExitStack() as stack:
        vendors = {
            "claude": FakeProvider(models=["claude-x", SHARED]),
            "gateway": FakeProvider(models=["claude-y", SHARED]),
            "vertex": FakeProvider(models=[]),
            "google": FakeProvider(models=[]),
            "openai": FakeProvider(models=["gpt-5", "o3-pro", SHARED]),
        }
        for vendor in vendors.values():
            stack.enter_context(vendor)
        env = {
            **(env or {}),
            "TRUST_ENV_PROXY": "true",
            "HTTP_PROXY": vendors["openai"].origin,
            "NO_PROXY": "127.0.0.1,localhost",
            "ALLOWED_PROVIDER_HOSTS": "127.0.0.1,localhost,api.openai.com",
        }
        home = stack.enter_context(house(data_dir, env, more=(SHARED, SLASHED)))
        found = Mixed(home, **vendors)
        _listings(found)
        home.join("Claude", "anthropic", found.claude.url, key="sk-ant-0123456789abcdef")
        home.join("Gateway", "anthropic-messages", found.gateway.url, key="sk-ant-fedcba9876543210")
        home.join("Vertex", "vertex-express", found.vertex.origin, key="AQ.0123456789abcdef")
        home.join("Google", "google", f"{found.google.origin}/v1beta/openai", key="AIza0123456789abcdef")
        home.join("OpenAI", "openai", _HOSTED)
        home.admin("POST", "/api/failover-groups/sync")
        found.group = home.group_of(SHARED)
        yield found
