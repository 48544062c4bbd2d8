"""Several writers and readers at once: threads with connections of their own, which is what processes are to the
database."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from failover import resolve, sync, table, verbs
from failover.models import FailoverGroup
from modelhotel.config_store import bump_versions
from modelhotel.core import snapshots
from modelhotel.core.actor import ADMIN
from modelhotel.core.faults import Refusal
from providers import cache
from providers.models import Model
from tests.failover import world as w
from tests.failover.rows import FakeKeys, options

pytestmark = pytest.mark.database
WAIT = 10.0


def apart(call):
    """*call* in a thread of its own, whose connection is closed at the end."""

    def run():
        try:
            return call()
        except Refusal as problem:
            return problem
        finally:
            connection.close()

    pool = ThreadPoolExecutor(1)
    future = pool.submit(run)
    pool.shutdown(wait=False)
    return future


def together(*calls):
    """All of *calls* at the same moment; their results, a Refusal included."""
    barrier = threading.Barrier(len(calls))

    def started(call):
        barrier.wait(WAIT)
        return call()

    return [future.result(WAIT) for future in [apart(lambda call=call: started(call)) for call in calls]]


def order_in_memory(name="mine"):
    return [live.model.id for live in resolve.SNAPSHOT.current.groups[name].live]


def test_of_two_creates_of_one_name_one_wins(world):
    data = verbs.GroupData("mine", entry_ids=w.ids(world.m1, world.m2))
    results = together(*[lambda: verbs.create(data, ADMIN)] * 2)
    kinds = sorted(type(result).__name__ for result in results)
    assert kinds == ["FailoverGroup", "Refusal"]
    [refused] = [result for result in results if isinstance(result, Refusal)]
    assert refused.status == 409
    assert FailoverGroup.objects.count() == 1


def test_a_create_that_loses_against_a_writer_without_the_lock_is_a_conflict(world, monkeypatch):
    """The unique name decides even where the look before it saw nothing."""
    monkeypatch.setattr(verbs, "_known", lambda *args: w.group("mine", world.m1))
    monkeypatch.setattr("django.db.models.query.QuerySet.exists", lambda self: False)
    with pytest.raises(Refusal) as caught:
        verbs.create(verbs.GroupData("mine", entry_ids=w.ids(world.m1, world.m2)), ADMIN)
    assert caught.value.status == 409


def test_two_changes_of_different_fields_both_take_effect(world):
    made = str(w.group("mine", world.m1, world.m2).pk)
    order = w.ids(world.m2, world.m1)
    for _ in range(3):
        together(
            lambda: verbs.update(made, {"priority_order": order}, ADMIN),
            lambda: verbs.update(made, {"description": "about"}, ADMIN),
            lambda: verbs.update(made, {"entry_enabled": {order[0]: False}}, ADMIN),
        )
        after = w.stored("mine")
        assert (after.priority_order, after.description) == (order, "about")
        assert after.entry_enabled == {order[0]: False}
        FailoverGroup.objects.update(priority_order=order[::-1], description="", entry_enabled={})


def test_two_syncs_at_once_do_the_work_of_one(world):
    """routing 43"""
    for at in range(5):
        w.model(world.p1, f"m{at}")
        w.model(world.p2, f"m{at}")
    results = together(sync.full, sync.full)
    assert [result.errors for result in results] == [[], []]
    assert sorted(len(result.created) for result in results) == [0, 6]
    assert FailoverGroup.objects.count() == 6


def test_a_reorder_during_a_sync_survives(world, monkeypatch):
    """routing 43. Whether it comes before or after the sync's turn, a new member only joins at the end."""
    sync.full()
    made = str(w.stored("glm-4.6").pk)
    third = str(w.model(world.p3, "glm-4.6").pk)
    order = w.ids(world.m2, world.m1)
    reading, go_on = threading.Event(), threading.Event()
    read = sync.read_rows

    def slowly():
        reading.set()
        assert go_on.wait(WAIT)
        return read()

    monkeypatch.setattr(sync, "read_rows", slowly)
    running = apart(sync.full)
    assert reading.wait(WAIT)
    edit = apart(lambda: verbs.update(made, {"priority_order": order}, ADMIN))
    time.sleep(0.2)
    assert not edit.done(), "the edit waits for the sync's transaction"
    go_on.set()
    running.result(WAIT)
    edit.result(WAIT)
    monkeypatch.setattr(sync, "read_rows", read)
    assert w.stored("glm-4.6").priority_order == order
    sync.full()
    assert w.stored("glm-4.6").priority_order == [*order, third]


def test_a_sync_waits_for_an_edit_that_has_not_committed(world):
    """routing 43"""
    sync.full()
    made = str(w.stored("glm-4.6").pk)
    w.model(world.p3, "glm-4.6")
    order = w.ids(world.m2, world.m1)
    edited, go_on = threading.Event(), threading.Event()

    def edit():
        with transaction.atomic():
            verbs.update(made, {"priority_order": order}, ADMIN)
            edited.set()
            assert go_on.wait(WAIT)

    editing = apart(edit)
    assert edited.wait(WAIT)
    running = apart(sync.full)
    time.sleep(0.2)
    assert not running.done()
    go_on.set()
    editing.result(WAIT)
    running.result(WAIT)
    assert w.stored("glm-4.6").priority_order[:2] == order


def pause(monkeypatch, owner, name):
    """The first call of ``owner.name`` reports in and waits; later ones pass."""
    reached, go_on = threading.Event(), threading.Event()
    call = getattr(owner, name)

    def slowly(*args):
        if not reached.is_set():
            reached.set()
            assert go_on.wait(WAIT)
        return call(*args)

    monkeypatch.setattr(owner, name, slowly)
    return reached, go_on


@pytest.mark.parametrize("load", [resolve.SNAPSHOT.refresh, snapshots.refresh_all], ids=["read", "warm-up"])
def test_a_slow_read_does_not_install_an_old_row(world, monkeypatch, load):
    """routing 64, routing 66"""
    made = str(w.group("mine", world.m1, world.m2).pk)
    order = w.ids(world.m2, world.m1)
    reached, go_on = pause(monkeypatch, table, "join")
    loading = apart(load)
    assert reached.wait(WAIT)
    edit = apart(lambda: verbs.update(made, {"priority_order": order}, ADMIN))
    deadline = time.monotonic() + WAIT
    while w.stored("mine").priority_order != order and time.monotonic() < deadline:
        time.sleep(0.01)
    go_on.set()
    loading.result(WAIT)
    edit.result(WAIT)
    assert order_in_memory() == order


def test_two_updates_that_finish_in_reverse_order(world, monkeypatch):
    """routing 65"""
    third = w.model(world.p3, "m1")
    w.touch()
    made = str(w.group("mine", world.m1, world.m2).pk)
    last = w.ids(third, world.m1)
    reached, go_on = pause(monkeypatch, snapshots, "refresh")
    first = apart(lambda: verbs.update(made, {"priority_order": w.ids(world.m2, world.m1)}, ADMIN))
    assert reached.wait(WAIT)
    verbs.update(made, {"priority_order": last}, ADMIN)
    go_on.set()
    first.result(WAIT)
    assert order_in_memory() == w.stored("mine").priority_order == last


def elsewhere(*tables):
    """What a write in another process leaves for this one: a higher version and no word about it."""
    with transaction.atomic():
        bump_versions(tables)


def test_an_edit_in_another_process_is_found_by_its_version(world):
    """routing 67. The half with notifications blocked."""
    w.group("mine", world.m1, world.m2)
    w.touch("groups")
    order = w.ids(world.m2, world.m1)
    FailoverGroup.objects.update(priority_order=order)
    assert order_in_memory() == order[::-1]
    elsewhere("groups")
    assert snapshots.refresh_behind()
    assert order_in_memory() == order
    assert not snapshots.refresh_behind()


def test_a_table_is_never_joined_with_an_older_catalogue(world):
    w.group("mine", world.m1, world.m2)
    w.touch("groups")
    Model.objects.filter(pk=world.m1.pk).update(enabled=False)
    elsewhere("models")
    table.SNAPSHOT.refresh()
    assert order_in_memory() == w.ids(world.m2)
    assert table.SNAPSHOT.current.catalogue is cache.SNAPSHOT.current


def test_cold_memory_costs_one_query_of_each_kind(world):
    """routing 25"""
    w.group("mine", *[w.model(world.p1, f"m{at}") for at in range(20)])
    snapshots.reset_all()
    with CaptureQueriesContext(connection) as found:
        table.SNAPSHOT.refresh()
    read = [query["sql"] for query in found if "config_versions" not in query["sql"]]
    assert [
        sum(f'FROM "{name}"' in sql for sql in read) for name in ("model_failover_groups", "models", "providers")
    ] == [
        1,
        1,
        1,
    ]
    assert len(read) == 3
    assert len(order_in_memory()) == 20


@pytest.fixture
def cold(world):
    w.group("mine", world.m1, world.m2)
    snapshots.reset_all()
    return world


async def test_a_request_before_the_warm_up_reads_the_table_itself(cold):
    asked = {"allowed": None, "opts": options(), "board": None, "keyring": FakeKeys(), "now": 0.0}
    found = await resolve.resolve(resolve.SNAPSHOT.current, "hotel/mine", **asked)
    assert [c.provider.name for c in found.candidates] == ["OpenRouter", "NanoGPT"]
    assert (found.cache_hit, found.cache_hits["model"]) == (False, False)
    assert found.ms["failover_lookup_ms"] > 0
    warm = await resolve.resolve(resolve.SNAPSHOT.current, "hotel/mine", **asked)
    assert (warm.cache_hit, warm.ms) == (True, {})


async def test_a_database_that_fails_before_the_warm_up_is_our_fault(cold, monkeypatch):
    def broken():
        raise OSError("secret detail")

    monkeypatch.setattr(table.SNAPSHOT, "_build", broken)
    with pytest.raises(resolve.ResolveError) as caught:
        await resolve.resolve(
            resolve.SNAPSHOT.current,
            "hotel/mine",
            allowed=None,
            opts=options(),
            board=None,
            keyring=FakeKeys(),
            now=0.0,
        )
    problem = caught.value
    assert (problem.status, problem.message) == (500, "failed to resolve model")
    assert (problem.code, problem.kind) == ("internal_error", "internal")
