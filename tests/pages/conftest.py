"""One product, one browser and two fake providers for each module; pages that complain fail their test."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

from tests.upstream.server import FakeProvider, answer
from tests.upstream.spoken import PROMPT
from tests.wire.product import Product

if TYPE_CHECKING:
    from tests.pages.boards import House, Seen

CHROMIUM = "/usr/bin/chromium"
#: Milliseconds an expectation is waited for; short only where that is what a test shows.
WAIT = 15_000
expect.set_options(timeout=WAIT)
VIEWER = """
from django.contrib.auth.models import Permission
from modelhotel.models import User
user = User.objects.create_user("vera", password="only-looking-1", is_staff=True)
user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
"""


@dataclass
class Hotel:
    """The running product and who stands behind it. *states* are the cookies of the signed-in people."""

    product: Product
    browser: Browser
    a: FakeProvider
    b: FakeProvider
    key: str = ""
    states: dict[str, Any] = field(default_factory=dict)
    contexts: dict[str, BrowserContext] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.product.url

    def add_provider(self, name: str, fake: FakeProvider) -> str:
        body = {"name": name, "base_url": fake.url, "provider_type": "openai", "api_key": f"sk-{name}"}
        made = self.product.api("POST", "/api/providers", json=body)
        assert made.status_code == 201, made.text
        found = self.product.api("POST", f"/api/providers/{made.json()['id']}/discover")
        assert found.status_code == 200, found.text
        return str(made.json()["id"])

    def chat(self, model: str, key: str = "") -> Any:
        """An answer of /v1 to one small question."""
        return self.product.http.post(
            f"{self.url}/v1/chat/completions",
            headers={"Authorization": f"Bearer {key or self.key}"},
            json={"model": model, "messages": [{"role": "user", "content": PROMPT}]},
        )

    def sign_in(self, page: Page, name: str, password: str) -> None:
        page.fill("#id_username", name)
        page.fill("#id_password", password)
        page.click("#login-form button[type=submit]")
        page.wait_for_url(lambda url: "/login/" not in url)


@pytest.fixture(scope="module")
def hotel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotel]:
    models = ("glm-4.6", "flaky")
    with (
        FakeProvider(models) as a,
        FakeProvider(models) as b,
        Product(tmp_path_factory.mktemp("house"), {"ADMIN_PASSWORD": "correct-horse-7"}) as product,
        sync_playwright() as playwright,
    ):
        a.script(answer("from A"))
        b.script(answer("from B"))
        args = ["--no-sandbox", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        found = Hotel(product, browser, a, b)
        found.add_provider("Alpha", a)
        found.add_provider("Beta", b)
        made = product.api("POST", "/api/virtual-keys", json={"name": "app"})
        found.key = made.json()["key"]
        yield found
        browser.close()


class Watched:
    """A page and everything it complained about."""

    def __init__(self, page: Page) -> None:
        self.complaints: list[str] = []
        page.set_default_timeout(WAIT)
        page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "response",
            lambda got: got.status >= 400 and self.complaints.append(f"{got.status} {got.url}"),
        )
        page.on("request", self._notice)

    def _notice(self, request: Request) -> None:
        # A violation of the content-security policy is told on the console; this is what a looser one would let out.
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.hostname != "127.0.0.1":
            self.complaints.append(f"a request to another host: {request.url}")


def _context(hotel: Hotel, name: str, password: str) -> BrowserContext:
    """The one context of *name*, as after signing in. Pages share what the browser has loaded and compiled."""
    if name not in hotel.contexts:
        context = hotel.browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.goto(f"{hotel.url}/login/")
        hotel.sign_in(page, name, password)
        page.goto(f"{hotel.url}/healthz")  # stays, and with it the process that has compiled the scripts
        hotel.contexts[name] = context
        hotel.states[name] = context.storage_state()
    return hotel.contexts[name]


def _page(hotel: Hotel, name: str, password: str) -> Iterator[Page]:
    context = _context(hotel, name, password)
    context.clear_permissions()
    context.clear_cookies()
    context.add_cookies(hotel.states[name]["cookies"])
    page = context.new_page()
    tools = context.new_cdp_session(page)
    tools.send("Storage.clearDataForOrigin", {"origin": hotel.url, "storageTypes": "local_storage"})
    tools.detach()
    watched = Watched(page)
    yield page
    for opened in context.pages[1:]:
        opened.close()
    assert watched.complaints == []


@pytest.fixture
def page(hotel: Hotel) -> Iterator[Page]:
    """A page of the administrator. Console errors (violations of the content-security policy are some), script errors,
    failed loads and requests to another host fail the test."""
    yield from _page(hotel, "admin", "correct-horse-7")


@pytest.fixture
def viewer_page(hotel: Hotel) -> Iterator[Page]:
    """A page of somebody who may only look."""
    if "vera" not in hotel.states:
        made = hotel.product.manage("shell", "-c", VIEWER)
        assert made.returncode == 0, made.stderr
    yield from _page(hotel, "vera", "only-looking-1")


def _apart(hotel: Hotel, forgiven: str = "$^") -> Iterator[Page]:
    """A page of the administrator in a context of its own; complaints that match *forgiven* are none."""
    context = hotel.browser.new_context(storage_state=hotel.states["admin"], viewport={"width": 1280, "height": 900})
    made = context.new_page()
    watched = Watched(made)
    yield made
    context.close()
    assert [said for said in watched.complaints if not re.search(forgiven, said)] == []


@pytest.fixture
def rough_page(hotel: Hotel, page: Page) -> Iterator[Page]:
    """A page of the administrator on which the API may refuse: a browser tells of every 4xx on its console."""
    yield from _apart(hotel, r"\b4(00|03|09)\b|status of 500|^500 ")


@pytest.fixture
def timed_page(hotel: Hotel, page: Page) -> Iterator[Page]:
    """A page of the administrator whose clock may be held: a clock is that of all pages of a context, also of later
    ones.
    """
    yield from _apart(hotel)


@pytest.fixture
def alpha_and_beta(hotel: Hotel) -> Iterator[None]:
    """Alpha and Beta only, after whatever happened."""
    yield
    for row in hotel.product.api("GET", "/api/providers?totals=false").json():
        if row["name"] not in ("Alpha", "Beta"):
            hotel.product.api("DELETE", f"/api/providers/{row['id']}")


@pytest.fixture(scope="module")
def board_house(hotel: Hotel) -> Iterator["House"]:
    from tests.pages.boards import house_of

    with house_of(hotel) as found:
        yield found


@pytest.fixture
def house(board_house: "House") -> "House":
    """Three providers and their groups, as on the first day."""
    board_house.fresh()
    return board_house


@pytest.fixture
def board(house: "House", page: Page) -> "Seen":
    """The failover board of the administrator."""
    from tests.pages.boards import Seen

    return Seen(house, page)
