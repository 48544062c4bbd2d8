"""``manage.py demo`` as a newcomer starts it."""

import re
import signal
import sys

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.pages.conftest import CHROMIUM, Watched
from tests.upstream.spoken import PROMPT
from tests.wire.product import ROOT, Product, eventually

KEY = re.compile(r"Bearer (sk-[0-9a-f]{32})")


class Demo(Product):
    """The demo in the place of the server; its data are in ``<data_dir>/demo``."""

    def _command(self, server: str, args: tuple[str, ...]) -> list[str]:
        return [sys.executable, str(ROOT / "manage.py"), "demo", "--port", "0", *args]

    @property
    def key(self) -> str:
        found = KEY.search(self.output)
        assert found, self.output
        return found[1]

    def failed_over(self) -> dict | None:
        """A request that Flaky failed and Healthy served."""
        entries = self.api("GET", "/api/logs/cursor?limit=50").json()["entries"]
        for entry in entries:
            if entry["status_code"] == 200 and [a["provider"] for a in entry["attempts"] or []] == ["Flaky", "Healthy"]:
                return entry
        return None


def watch(demo: Demo) -> None:
    """What the printed guide tells a newcomer to look at: within a minute each page shows the failover by itself."""
    guide = dict(re.findall(r"^  (Failover|Requests|Overview): +(http\S+)", demo.output, re.MULTILINE))
    with sync_playwright() as playwright:
        args = ["--no-sandbox", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        watched = Watched(page)
        page.goto(f"{demo.url}/login/")
        page.fill("#id_username", "admin")
        page.fill("#id_password", demo.password)
        page.click("#login-form button[type=submit]")
        page.wait_for_url(lambda url: "/login/" not in url)
        badge = page.get_by_role("link", name="Failover").first.get_by_text(re.compile("^[123]$")).first
        # On a crowded machine more than one circuit may be open.
        board = page.locator("[data-group]").filter(has_text="hotel/demo")
        flaky = board.get_by_text(re.compile("^(open|probe due)$")).first
        failover = page.get_by_label(re.compile(r"^failover, \d attempts$")).first
        for title, sign in (("Overview", badge), ("Failover", flaky), ("Requests", failover)):
            page.goto(guide.pop(title))
            expect(sign).to_be_visible(timeout=60_000)
        browser.close()
    assert guide == {}
    assert watched.complaints == []


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(120)
def test_a_newcomer_sees_a_failover_within_seconds_and_ends_it_with_ctrl_c(tmp_path):
    # What a real installation has in its environment stays out of the demo.
    real = {"MASTER_KEY": "real", "REDIS_URL": "redis://127.0.0.1:1/0", "DATABASE_URL": "postgresql://127.0.0.1:1/no"}
    with Demo(tmp_path, real) as demo:
        found = eventually(demo.failed_over, seconds=20.0)
        assert found, demo.output
        assert found["model_id"].endswith("demo")
        assert found["attempts"][0]["status"] == 500
        answer = demo.http.post(
            f"{demo.url}/v1/chat/completions",
            headers={"Authorization": f"Bearer {demo.key}"},
            json={"model": "hotel/demo", "messages": [{"role": "user", "content": PROMPT}]},
        )
        assert answer.status_code == 200
        answer = demo.http.post(
            f"{demo.url}/v1/embeddings",
            headers={"Authorization": f"Bearer {demo.key}"},
            json={"model": "hotel/demo-embedding", "input": ["one", "two"]},
        )
        assert (answer.status_code, len(answer.json()["data"])) == (200, 2)
        watch(demo)
        assert demo.stop(signal.SIGINT) == 0
    assert "Traceback" not in demo.output
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
