"""The counters: added in memory, written in the background, never lost to a database that does not answer."""

import threading
import time
import uuid

import pytest
from django.db import OperationalError

from modelhotel.core import events, snapshots
from providers.models import Provider
from proxy import keys, metering
from proxy.keys import KeyRow
from proxy.metering import Meter
from proxy.models import VirtualKey
from proxy.usage import Usage
from tests.failover.rows import model as model_row
from tests.failover.rows import provider as provider_row
from tests.proxy import world

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


def row_of(name="app"):
    key = world.stored(name)
    return KeyRow(str(key.pk), key.name, key.key_hash, None, False, None, False)


@pytest.fixture
def meter():
    return Meter()


@pytest.fixture
def key():
    world.key()
    return row_of()


def test_many_requests_become_one_sum(key, meter):
    for tokens in (5, 7, 0, -3):
        meter.add(key, tokens)
    meter.touch(key)
    rows = world.stored()
    assert (rows.tokens_used, rows.last_used_at) == (0, None)
    assert meter.flush()
    stored = world.stored()
    assert stored.tokens_used == 12
    assert abs(stored.last_used_at.timestamp() - time.time()) < 5
    assert meter.flush()
    assert world.stored().tokens_used == 12


def test_a_use_without_tokens_stamps_the_key_only(key, meter):
    VirtualKey.objects.update(tokens_used=9)
    meter.touch(key)
    assert meter.flush()
    assert (world.stored().tokens_used, world.stored().last_used_at is None) == (9, False)


def test_a_total_of_zero_is_not_written(key, meter):
    meter.add(key, 0)
    meter.add(key, -5)
    assert meter.flush()
    assert world.stored().last_used_at is None


def test_a_provider_is_stamped_when_it_is_asked(meter):
    one, other = world.provider("One"), world.provider("Other")
    meter.touch_provider(str(one.pk))
    assert meter.flush()
    assert Provider.objects.get(pk=one.pk).last_used_at is not None
    assert Provider.objects.get(pk=other.pk).last_used_at is None


def test_no_snapshot_is_rebuilt_for_a_counter(key, meter):
    world.ready()
    before = keys.SNAPSHOT.current
    meter.add(key, 5)
    assert meter.flush()
    assert keys.SNAPSHOT.current is before
    assert not keys.SNAPSHOT.behind(snapshots.read_versions())


def test_what_is_gone_meanwhile_is_no_failure(meter):
    gone = KeyRow(str(uuid.uuid4()), "gone", "h", None, False, None, False)
    meter.add(gone, 5)
    meter.touch_provider(str(uuid.uuid4()))
    assert meter.flush()


def test_a_database_that_does_not_answer_costs_nothing_and_is_told_once(key, meter, monkeypatch):
    seen = []
    events.subscribe(seen.append)
    write = metering.write_counters

    def broken(*args):
        raise OperationalError("secret dsn")

    monkeypatch.setattr(metering, "write_counters", broken)
    meter.add(key, 5)
    assert not meter.flush()
    meter.add(key, 7)
    assert not meter.flush()
    assert [(e.type, e.severity, e.source, e.message, dict(e.metadata)) for e in seen] == [
        (
            "tokens.error",
            "error",
            "proxy",
            'Token counting failed for key "app"',
            {"error": "OperationalError", "key": "app"},
        )
    ]
    monkeypatch.setattr(metering, "write_counters", write)
    assert meter.flush()
    assert world.stored().tokens_used == 12
    monkeypatch.setattr(metering, "write_counters", broken)
    meter.add(key, 1)
    assert not meter.flush()
    assert len(seen) == 2


def test_a_stamp_that_fails_is_no_event(key, meter, monkeypatch):
    seen = []
    events.subscribe(seen.append)

    def broken(*args):
        raise OperationalError("x")

    monkeypatch.setattr(metering, "write_counters", broken)
    meter.touch(key)
    meter.touch_provider("p")
    assert not meter.flush()
    assert seen == []


def test_the_writer_writes_by_itself_and_at_the_end(key, meter, monkeypatch):
    monkeypatch.setattr(metering, "INTERVAL", 0.05)
    meter.start()
    try:
        meter.add(key, 5)
        deadline = time.monotonic() + 10
        while world.stored().tokens_used != 5 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert world.stored().tokens_used == 5
        monkeypatch.setattr(metering, "INTERVAL", 60.0)
        time.sleep(0.1)
        meter.add(key, 6)
    finally:
        meter.stop()
    assert world.stored().tokens_used == 11
    assert not [t for t in threading.enumerate() if t.name == "metering"]


def test_stopping_what_never_started_is_fine(meter):
    meter.stop()
    meter.start()
    meter.stop()


def test_additions_from_several_threads_are_all_counted(key, meter):
    def add():
        for _ in range(2000):
            meter.add(key, 1)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert meter.flush()
    assert meter.flush()
    assert world.stored().tokens_used == 8000


OWNER = provider_row("P", 0.0)


@pytest.mark.parametrize(
    ("prices", "usage", "dollars"),
    [
        ((None, None, None), Usage(100, 100), None),
        ((0.0, None, 0.0), Usage(100, 100), 0.0),
        ((2.0, None, 8.0), Usage(1_000_000, 500_000), 6.0),
        ((2.0, 0.5, 8.0), Usage(1_000_000, 0, 0, 400_000, 600_000, True), 1.4),
        ((2.0, None, 8.0), Usage(1_000_000, 0, 0, 400_000, 600_000, True), 2.0),
        ((2.0, 0.5, 8.0), Usage(10, 0, 0, 1_000_000, 0, True), 0.000005),
        ((2.0, None, None), Usage(1_000_000, 1_000_000), 2.0),
        ((None, None, 8.0), Usage(1_000_000, 1_000_000), 8.0),
        ((2.0, None, 8.0), Usage(), 0.0),
    ],
)
def test_an_answer_costs_what_its_model_costs(prices, usage, dollars):
    row = model_row(
        OWNER,
        "m",
        input_price_per_million=prices[0],
        input_price_per_million_cache_hit=prices[1],
        output_price_per_million=prices[2],
    )
    assert metering.cost(row, usage) == (None if dollars is None else pytest.approx(dollars))


@pytest.mark.parametrize(
    ("token_price", "search_price", "searches", "dollars"),
    [
        (None, 2.0, 3, 0.006),
        (None, 2.0, 0, None),
        (None, None, 3, None),
        (1.0, 2.0, 3, 1.006),
        (1.0, None, 3, 1.0),
        (None, 0.0, 3, 0.0),
    ],
)
def test_searches_cost_what_a_search_costs(token_price, search_price, searches, dollars):
    row = model_row(OWNER, "m", input_price_per_million=token_price, search_price_per_thousand=search_price)
    found = metering.cost(row, Usage(1_000_000), searches)
    assert found == (None if dollars is None else pytest.approx(dollars))
