"""The quota figures of a scrape: from the database, and never at the cost of the scrape."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelhotel.ops import quota_gauges, scrape
from modelhotel.ops.quota_gauges import Reader
from providers.models import Provider
from providers.quota import store
from providers.quota.store import Fetched, Reading
from tests.wire.scraping import numbers

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON = NOW + timedelta(hours=2)
IN_TWO_HOURS = SOON.timestamp()
USED, RESETS = "modelhotel_provider_quota_used_ratio", "modelhotel_provider_quota_resets_at_seconds"


def zai(used: Any, resets: Any = IN_TWO_HOURS) -> dict[str, Any]:
    return {"data": {"limits": [{"type": "TOKENS_LIMIT", "unit": 3, "percentage": used, "nextResetTime": resets}]}}


def reading(payload: Any, name: str = "P", kind: str = "zai-coding", status: int = 200, on: bool = True) -> Reading:
    return Reading(name.lower(), name, kind, on, 0, "usage", payload, status, NOW, "")


@pytest.mark.parametrize(
    ("readings", "used", "resets"),
    [
        ([reading(zai(40))], {("p", "P", "5h"): 0.4}, {("p", "P", "5h"): SOON.timestamp()}),
        ([reading(zai(0))], {("p", "P", "5h"): 0.0}, {("p", "P", "5h"): SOON.timestamp()}),
        ([reading(zai(100, None))], {("p", "P", "5h"): 1.0}, {}),
        ([reading(zai(None))], {}, {("p", "P", "5h"): SOON.timestamp()}),
        ([reading(zai(40, -5))], {("p", "P", "5h"): 0.4}, {}),
        ([reading(zai(40, (NOW + timedelta(days=3700)).timestamp()))], {("p", "P", "5h"): 0.4}, {}),
        ([reading(zai(40), ""), reading(zai(50), "Q")], {("", "unknown", "5h"): 0.4, ("q", "Q", "5h"): 0.5}, None),
        ([reading(None, status=424)], {}, {}),
        ([reading(zai(40), status=0)], {}, {}),
        ([reading(zai(40), on=False)], {}, {}),
        ([reading({"credits_total": 5, "credits_used": 1}, kind="openrouter")], {}, {}),
        ([], {}, {}),
    ],
)
def test_the_windows_of_enabled_providers_are_measured(readings: Any, used: Any, resets: Any):
    found = quota_gauges.of(readings, NOW)
    assert found[USED] == used
    assert resets is None or found[RESETS] == resets


@pytest.mark.django_db(transaction=True)
@pytest.mark.database
def test_a_scrape_shows_what_is_stored_and_nothing_of_who_is_gone():
    row = Provider.objects.create(name="Zeta", base_url="https://z.test/v1", provider_type="zai-coding")
    store.keep(str(row.pk), "usage", Fetched(zai(80), 200), "poll", NOW)
    labels = {"provider_id": str(row.pk), "provider": "Zeta", "window": "5h"}
    found = numbers(scrape.render().decode())
    assert found.of(USED, **labels) == 0.8
    assert found.of(RESETS, **labels) == SOON.timestamp()
    row.delete()
    found = numbers(scrape.render().decode())
    assert not found.series(USED) and not found.series(RESETS)


def test_a_database_that_does_not_answer_costs_these_series_and_one_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    stuck, asked = threading.Event(), []

    def readings() -> list[Reading]:
        asked.append(1)
        stuck.wait(10)
        return [reading(zai(40))]

    monkeypatch.setattr(store, "readings", readings)
    reader = Reader(0.05)
    assert reader.read() == {} and reader.read() == {}
    assert len(asked) == 1, "the next scrape does not wait behind the one that hangs"
    text = "metrics: quota figures left out, the database does not answer"
    assert [record.getMessage() for record in caplog.records] == [text] * 2
    stuck.set()
    assert reader._running is not None and reader._running.done.wait(10)
    assert reader.read()[USED] == {("p", "P", "5h"): 0.4}


def test_a_failing_database_costs_these_series_of_one_scrape(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    answers: list[Any] = [OSError("secret text"), [reading(zai(40))]]

    def readings() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(store, "readings", readings)
    reader = Reader()
    assert reader.read() == {}
    assert [record.attrs for record in caplog.records] == [{"error": "OSError"}]  # type: ignore[attr-defined]
    assert reader.read()[USED] == {("p", "P", "5h"): 0.4}
