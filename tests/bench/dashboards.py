"""People at the dashboard, as a process of its own: sessions that reload the main pages, without a browser.

    python -m tests.bench.dashboards URL SESSIONS

Each signs in as ``admin``, keeps ``/api/events`` open as a page does, and loads one page a second with what its scripts
ask for (:data:`PAGES`; ``tests/pages/test_bench_pages.py`` holds that against a browser). Scripts and styles are not
loaded again, as a browser has them. Prints ``ready`` when all are signed in and one line of JSON when standard input
ends: pages loaded, milliseconds, wrong answers.
"""

import json
import re
import statistics
import sys
import threading
import time
from typing import Any

import httpx

from tests.bench.hotel import ADMIN_PASSWORD

EVERY = 1.0  # seconds between two page loads of one person
#: What every page asks for: the state of the circuits, what changed of the models, the quotas, the shelf of failures,
#: the machine, the newest release.
FRAME = (
    "/api/discovery/status?brief=1",
    "/api/providers/quotas",
    "/api/failover-groups/circuit-breaker-status?detail=1",
    "/api/logs/cursor?status_code=5xx&limit=15",
    "/api/logs/cursor?status_code=0&limit=15",
    "/api/logs/app?history=true&level=error&per_page=15",
    "/api/system",
    "/api/version/latest",
)
#: A page -> what it asks for besides; a list comes with its first view.
PAGES: dict[str, tuple[str, ...]] = {
    "/": (
        "/api/stats?period=24h&metric=requests&exclude_deleted=false&include_latency=true",
        "/api/stats/timeseries?period=24h&exclude_deleted=false",
        "/api/stats/provider-distribution?period=24h&metric=requests&exclude_deleted=false",
    ),
    "/requests/": (),
    "/models/": (),
}
_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


def signed_in(url: str) -> httpx.Client:
    """A client with a session. Raises RuntimeError when the sign-in page refuses."""
    client = httpx.Client(base_url=url, timeout=30, trust_env=False)
    page = client.get("/login/").raise_for_status().text
    token = _TOKEN.search(page)
    form = {"username": "admin", "password": ADMIN_PASSWORD, "next": "/"}
    form["csrfmiddlewaretoken"] = token[1] if token else ""
    answer = client.post("/login/", data=form, headers={"Referer": f"{url}/login/"})
    if answer.status_code != 302:
        raise RuntimeError(f"sign-in answered {answer.status_code}")
    return client


class Person(threading.Thread):
    def __init__(self, url: str, number: int, leaving: threading.Event) -> None:
        super().__init__(daemon=True)
        self.client = signed_in(url)
        self.number, self.leaving = number, leaving
        self.took: list[float] = []
        self.wrong: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Until the process ends, or the server closes."""
        try:
            with self.client.stream("GET", "/api/events", timeout=httpx.Timeout(30, read=None)) as answer:
                for _ in answer.iter_bytes():
                    pass
        except httpx.HTTPError:
            return

    def _get(self, path: str) -> None:
        answer = self.client.get(path)
        if answer.status_code != 200:
            self.wrong.append(f"{path}: {answer.status_code}")

    def run(self) -> None:
        at = self.number
        while not self.leaving.is_set():
            began = time.monotonic()
            page = list(PAGES)[at % len(PAGES)]
            for path in (page, *FRAME, *PAGES[page]):
                self._get(path)
            spent = time.monotonic() - began
            self.took.append(spent * 1000)
            at += 1
            self.leaving.wait(max(0.0, EVERY - spent))


def main() -> int:
    leaving = threading.Event()
    people = [Person(sys.argv[1], number, leaving) for number in range(int(sys.argv[2]))]
    print("ready", flush=True)
    for person in people:
        person.start()
    sys.stdin.read()
    leaving.set()
    for person in people:
        person.join(30)
    took = [ms for person in people for ms in person.took]
    found: dict[str, Any] = {
        "pages": len(took),
        "page_ms": statistics.median(took),
        "page_max_ms": max(took),
        "wrong": [text for person in people for text in person.wrong],
    }
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
