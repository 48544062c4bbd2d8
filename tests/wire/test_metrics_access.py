"""Who may scrape, with and without METRICS_TOKEN, under both servers, and during a stop."""

import signal
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.pace import slower
from tests.upstream.server import stream
from tests.wire.cut import Cut
from tests.wire.house import GROUP, house
from tests.wire.product import Product, eventually, fresh_postgres
from tests.wire.scraping import numbers, scrape

pytestmark = pytest.mark.slow

TOKEN = "scrape-me-" * 3


def ask(
    product: Product, authorization: str | bytes = "", method: str = "GET", path: str = "/metrics"
) -> httpx.Response:
    headers = {"Authorization": authorization} if authorization else {}
    return httpx.request(method, product.url + path, headers=headers, trust_env=False)


@pytest.fixture(scope="module", params=["serve", "daphne"])
def guarded(request, tmp_path_factory):
    data_dir = tmp_path_factory.mktemp(request.param)
    with Product(data_dir, {"METRICS_TOKEN": TOKEN, "ADMIN_TOKEN": "t0ken"}, server=request.param) as found:
        yield found


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer t0ken", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, b"Bearer \xff"],
)
def test_with_a_token_nothing_else_opens_it(guarded, authorization):
    """operations 78, providers 85."""
    refused = ask(guarded, authorization)
    assert (refused.status_code, refused.text) == (401, "invalid metrics token")
    assert refused.headers["content-type"] == "text/plain; charset=utf-8"


def test_the_token_opens_it_in_the_header_and_never_in_the_address(guarded):
    """operations 78, providers 85."""
    found = ask(guarded, f"Bearer {TOKEN}")
    assert found.status_code == 200
    assert numbers(found.text).of("modelhotel_requests_inflight") == 0
    assert found.headers["cache-control"] == "no-store"
    assert found.headers["x-content-type-options"] == "nosniff"
    for query in (f"token={TOKEN}", f"access_token={TOKEN}"):
        refused = ask(guarded, path=f"/metrics?{query}")
        assert (refused.status_code, refused.text) == (401, "invalid metrics token")


def test_a_session_does_not_open_it_where_there_is_a_token(guarded):
    """operations 78."""
    signed_in = httpx.post(f"{guarded.url}/api/auth/admin-exchange", json={"admin_token": "t0ken"}, trust_env=False)
    cookie = {"Cookie": f"mh_session={signed_in.cookies['mh_session']}"}
    assert httpx.get(f"{guarded.url}/metrics", headers=cookie, trust_env=False).status_code == 401


def test_head_is_get_without_a_body_and_nothing_else_is_allowed(guarded):
    head = ask(guarded, f"Bearer {TOKEN}", "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        refused = ask(guarded, f"Bearer {TOKEN}", method)
        assert (refused.status_code, refused.text) == (405, "method not allowed")
        assert refused.headers["allow"] == "GET, HEAD"


def test_the_settings_map_says_whether_there_is_a_token(guarded):
    assert guarded.api("GET", "/api/settings").json()["log_export_metrics"] == "true"


def test_without_a_token_it_takes_an_administrator(home):
    product = home.product
    for token, text in (("", "Authorization header required (Bearer token)"), ("wrong", "Invalid admin token")):
        refused = ask(product, f"Bearer {token}" if token else "")
        assert (refused.status_code, refused.text) == (401, text)
    assert ask(product, f"Bearer {home.key}").status_code == 401
    assert scrape(product)
    signed_in = httpx.post(
        f"{product.url}/api/auth/admin-exchange", json={"admin_token": product.token}, trust_env=False
    )
    cookie = {"Cookie": f"mh_session={signed_in.cookies['mh_session']}"}
    assert httpx.get(f"{product.url}/metrics", headers=cookie, trust_env=False).status_code == 200
    assert home.admin("GET", "/api/settings").json()["log_export_metrics"] == "false"


def test_who_guesses_is_slowed_and_the_right_token_always_passes(home):
    """README decision 37 holds at this door too."""
    answers = [ask(home.product, f"Bearer wrong-{number}").status_code for number in range(8)]
    assert answers[0] == 401
    assert answers[-1] == 429
    assert scrape(home.product)


def test_a_scrape_is_answered_while_the_last_streams_run_out(tmp_path: Path):
    with house(tmp_path, {"METRICS_TOKEN": TOKEN}) as home:
        home.a.script(stream([f"{n} " for n in range(30)], delay=0.05))
        with home.http.stream("POST", "/v1/chat/completions", json={"model": GROUP, "stream": True}) as response:
            lines = response.iter_lines()
            next(lines)
            home.product.process.send_signal(signal.SIGTERM)
            home.product.wait_for_output("serve: stopping")
            found = scrape(home.product, token=TOKEN)
            assert found.of("modelhotel_streams_inflight") == 1
            assert [line for line in lines if line][-1] == "data: [DONE]"
        assert home.product.exit_code() == 0


@pytest.mark.postgres
def test_a_scrape_is_answered_and_complete_while_the_database_is_not(tmp_path: Path):
    with fresh_postgres() as url:
        place = urlsplit(url)
        with Cut(place.hostname or "", place.port or 5432) as cut:
            through = place._replace(netloc=f"{place.username}@127.0.0.1:{cut.port}").geturl()
            env = {"DATABASE_URL": through, "MASTER_KEY": "m" * 40, "METRICS_TOKEN": TOKEN}
            with house(tmp_path, env) as home:
                cut.freeze()
                try:
                    assert eventually(lambda: home.product.get("/health").text == "DEGRADED")
                    assert [home.ask().status_code for _ in range(3)] == [200] * 3
                    began = time.monotonic()
                    found = scrape(home.product, token=TOKEN)
                    assert time.monotonic() - began < 2 * slower()
                    labels = {"provider": "Alpha", "model": GROUP, "status_class": "2xx", "error_kind": ""}
                    assert found.of("modelhotel_requests_total", **labels) == 3
                    assert eventually(lambda: scrape(home.product, token=TOKEN).of("modelhotel_request_rows_waiting"))
                finally:
                    cut.thaw()
