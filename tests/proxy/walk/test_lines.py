"""The log lines of one attempt and what they carry, in order (failover-loop 19 and 10.3)."""

import asyncio
import logging
from typing import Any
from unittest.mock import ANY

import pytest

from tests.proxy.walk.stage import Stage
from tests.upstream.server import (
    Behaviour,
    FakeProvider,
    answer,
    cut_after,
    empty_stream,
    first_event_error,
    half_json,
    silence,
    status,
    stream,
)

A = "00000000-0000-4000-8000-000000000065"
WHO = {"provider": "A", "provider_id": A}
ASKED = {"model": "A/m", "provider": "A"}
STREAMED = {"chunks": ANY, "error_kind": "", "duration_ms": ANY}


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog: pytest.LogCaptureFixture) -> Stage:
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    caplog.set_level(logging.INFO)
    return stage


def said(caplog: pytest.LogCaptureFixture, message: str) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Level and attributes, in order, of each line with *message*."""
    return [(r.levelname, list(r.attrs.items())) for r in caplog.records if r.getMessage() == message]  # type: ignore[attr-defined]


LINES: dict[str, tuple[Behaviour, bool, str, dict[str, Any]]] = {
    "non-streaming completed": (
        answer("Hello"),
        False,
        "INFO",
        {**ASKED, "status": 200, "attempt": 1, "duration_ms": ANY},
    ),
    "streaming finished": (stream(["Hello"]), True, "INFO", {**ASKED, "state": "completed", **STREAMED}),
    "TTFT probe found first token": (stream(["Hello"]), True, "INFO", {**WHO, "ttft_ms": ANY}),
    "TTFT probe saw [DONE] before any first token": (empty_stream(), True, "WARNING", WHO),
    "TTFT probe saw an error envelope instead of a first token": (
        first_event_error(),
        True,
        "WARNING",
        {**WHO, "message_bytes": ANY},
    ),
    "TTFT probe failed": (
        empty_stream(done=False),
        True,
        "WARNING",
        {
            "attempt": 1,
            "provider": "A",
            "client_gone": False,
            "elapsed": ANY,
            "kind": "provider_error",
            "charged": True,
            "error": ANY,
        },
    ),
    "stream truncated before completion": (
        cut_after(2, clean=True),
        True,
        "WARNING",
        {"model": "m", "provider": "A", "chunks": ANY},
    ),
    "terminal error frame sent": (
        cut_after(2),
        True,
        "INFO",
        {"model": "m", "provider": "A", "error_kind": "provider_error"},
    ),
    "upstream body translation failed": (
        half_json(),
        False,
        "WARNING",
        {"adapter": "chat", "error": ANY, "model": "m", "provider": "A"},
    ),
    "last candidate answered a retryable server error, retrying it once": (
        status(503),
        False,
        "INFO",
        {**WHO, "status": 503, "attempt": 1},
    ),
}


@pytest.mark.parametrize("line", LINES)
async def test_a_line_has_its_level_and_its_attributes_in_order(
    line: str, ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture
):
    behaviour, streams, level, attrs = LINES[line]
    provider_a.script(behaviour)
    await ab.ask("A/m", stream=streams)
    assert said(caplog, f"proxy: {line}") == [(level, list(attrs.items()))]


async def test_a_request_that_is_called_off_says_on_whose_account(
    ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture
):
    called_off = "proxy: context cancelled during request to provider"
    provider_a.script(silence())
    client = ab.client()
    running = asyncio.create_task(client.run())
    await provider_a.until(lambda: len(provider_a.calls) == 1)
    client.left.set()
    await running
    ab.set(request_timeout="200ms")
    await ab.ask()
    told = [
        {**WHO, "model": "m", "origin": origin, "error": ANY, "underlying": ANY}
        for origin in ("client_disconnect", "failover_timeout")
    ]
    assert said(caplog, called_off) == [("INFO", list(attrs.items())) for attrs in told]


async def test_the_end_of_the_requests_time_is_told(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog: pytest.LogCaptureFixture
):
    ab.set(request_timeout="200ms")
    provider_a.script(silence())
    provider_b.script(silence())
    with FakeProvider() as provider_c:
        ab.member("C", provider_c.url)
        await ab.ask()
    attrs = {"model": "hotel/g", "attempt": 2, "total_candidates": 3, "deadline": "400ms"}
    over = "proxy: overall request deadline exceeded, stopping failover"
    assert said(caplog, over) == [("WARNING", list(attrs.items()))]


async def test_a_candidate_that_another_request_probes_is_told_as_skipped(
    ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture
):
    provider_a.script(status(402))
    await ab.ask()
    ab.clock.advance(90_000)
    assert ab.board.admit(A, "m", "another request", alone=False)
    await ab.ask()
    skipped = "resolve: skipping candidate: probe in progress"
    assert said(caplog, skipped) == [("INFO", [("provider", "A"), ("model", "m")])]
