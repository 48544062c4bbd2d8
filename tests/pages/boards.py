"""What the tests of the failover board share: three providers, groups in a known state, a page that stands."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.pages.conftest import Hotel, Watched
from tests.upstream.server import FakeProvider, answer

NAMES = ("Alpha", "Beta", "Gamma")


class House:
    """*hotel* with a third provider: the groups ``glm-4.6`` and ``flaky`` have three members each, ``pair`` has two."""

    def __init__(self, hotel: Hotel, stack: ExitStack) -> None:
        self.hotel = hotel
        self.fakes = {"Alpha": hotel.a, "Beta": hotel.b}
        self.fakes["Gamma"] = stack.enter_context(FakeProvider(["glm-4.6", "flaky", "pair", "solo"]))
        self.ids = {row["name"]: row["id"] for row in self.api("GET", "/api/providers")}
        self.ids["Gamma"] = hotel.add_provider("Gamma", self.fakes["Gamma"])
        delta = stack.enter_context(FakeProvider(["pair"]))
        self.ids["Delta"] = hotel.add_provider("Delta", delta)

    def api(self, method: str, path: str, **kwargs: Any) -> Any:
        answered = self.hotel.product.api(method, path, **kwargs)
        assert answered.status_code < 300, (path, answered.status_code, answered.text)
        return answered.json() if answered.content else None

    def group(self, name: str) -> dict[str, Any]:
        groups = self.api("GET", "/api/failover-groups")["groups"]
        found: dict[str, Any] = next(one for one in groups if one["display_model"] == name)
        return found

    def order(self, name: str) -> list[str]:
        return [entry["provider_name"] for entry in self.group(name)["entries"]]

    def put(self, name: str, **patch: Any) -> Any:
        return self.api("PUT", f"/api/failover-groups/{self.group(name)['id']}", json=patch)

    def reorder(self, name: str, *providers: str) -> None:
        self.put(name, priority_order=[self.member(name, provider) for provider in providers])

    def member(self, name: str, provider: str) -> str:
        entries = self.group(name)["entries"]
        return str(next(one["model_uuid"] for one in entries if one["provider_name"] == provider))

    def fresh(self) -> None:
        """Default order, every toggle and group on, no custom group, no circuit; every provider answers its name."""
        for fake_name, fake in self.fakes.items():
            fake.script(answer(f"from {fake_name}"))
            for model in ("glm-4.6", "flaky", "pair"):
                fake.script(answer(f"from {fake_name}"), model=model)
        groups = self.api("GET", "/api/failover-groups")["groups"]
        for group in groups:
            if not group["auto_created"]:
                self.api("DELETE", f"/api/failover-groups/{group['id']}")
        if {group["display_model"] for group in groups if group["group_enabled"]} != {"glm-4.6", "flaky", "pair"}:
            self.api("POST", "/api/failover-groups/sync")
            groups = self.api("GET", "/api/failover-groups")["groups"]
        for group in groups:
            entries = sorted(group["entries"], key=lambda entry: entry["provider_name"])
            if group["auto_created"] and (entries != group["entries"] or not all(one["enabled"] for one in entries)):
                patch = {"priority_order": [entry["model_uuid"] for entry in entries], "entry_enabled": {}}
                self.api("PUT", f"/api/failover-groups/{group['id']}", json=patch)
        self.api("POST", "/api/failover-groups/circuit-breaker/reset")

    def served_by(self, name: str) -> str:
        said: str = self.hotel.chat(f"hotel/{name}").json()["choices"][0]["message"]["content"]
        return said.removeprefix("from ")


@contextmanager
def house_of(hotel: Hotel) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(hotel, stack)


class Seen:
    """The board in a browser, and the writes it sends."""

    def __init__(self, house: House, page: Page, address: str = "/failover/") -> None:
        self.house, self.page = house, page
        self.writes: list[tuple[str, Any]] = []
        page.on("request", self._note)
        page.goto(house.hotel.url + address)
        expect(page.locator("#board[data-ready]")).to_be_attached()

    def _note(self, request: Any) -> None:
        if request.method != "GET" and "/api/failover-groups" in request.url:
            self.writes.append((request.method, request.post_data_json))

    def card(self, name: str) -> Locator:
        return self.page.locator(f"article[aria-label='hotel/{name}']")

    def row(self, name: str, provider: str) -> Locator:
        return self.card(name).locator(".mh-row").filter(has_text=f"{provider} /")

    def handle(self, name: str, provider: str) -> Locator:
        return self.row(name, provider).locator(".mh-handle")

    def order(self, name: str) -> list[str]:
        texts = self.card(name).locator(".mh-member-name").all_inner_texts()
        return [text.split(" / ")[0] for text in texts]

    def badges(self, name: str) -> list[str]:
        return self.card(name).locator(".mh-place").all_inner_texts()

    def expect_order(self, name: str, *providers: str, timeout: float | None = None) -> None:
        wanted = [f"{provider} / {name}" for provider in providers]
        expect(self.card(name).locator(".mh-member-name")).to_have_text(wanted, timeout=timeout)

    def drag(self, name: str, provider: str, onto: str) -> None:
        """With the mouse, from the handle of one member to the place of another."""
        self.lift(name, provider)
        start, end = self.row(name, provider).bounding_box(), self.row(name, onto).bounding_box()
        assert start and end
        beyond = 6 if end["y"] > start["y"] else -6
        self.page.mouse.move(start["x"] + 30, end["y"] + end["height"] / 2 + beyond, steps=8)
        self.page.mouse.up()

    def lift(self, name: str, provider: str) -> None:
        handle = self.handle(name, provider)
        handle.scroll_into_view_if_needed()
        box = handle.bounding_box()
        assert box
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x, y + 6, steps=2)
        expect(self.row(name, provider)).to_have_class("mh-row mh-lifted")


@contextmanager
def operator(house: House, name: str = "admin", *, address: str = "/failover/", **options: Any) -> Iterator[Seen]:
    """The board in a browser context of its own, signed in already as *name*; what it complains about fails."""
    state = house.hotel.states[name]
    context = house.hotel.browser.new_context(
        storage_state=state, **{"viewport": {"width": 1280, "height": 900}, **options}
    )
    page = context.new_page()
    watched = Watched(page)
    try:
        yield Seen(house, page, address)
    finally:
        context.close()
    assert watched.complaints == []


def toast(page: Page, text: str) -> None:
    expect(page.locator(".mh-toast", has_text=text)).to_be_visible()
