"""From the draft to the row: real database, real writer thread."""

import threading
import time
from pathlib import Path

import pytest
from django.db import OperationalError

from modelhotel.core import events
from requestlogs import recorder as module
from requestlogs.draft import Draft
from requestlogs.models import RequestLog
from requestlogs.recorder import Recorder
from requestlogs.spill import Spill

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


@pytest.fixture
def recorder():
    found = Recorder()
    found.node = "n1"
    return found


def finished(recorder, **fields):
    draft = Draft("chat", model_id="hotel/glm")
    recorder.start(draft)
    for name, value in {"status_code": 200, **fields}.items():
        setattr(draft, name, value)
    recorder.finish(draft)
    return draft


def test_a_finished_request_is_one_row_with_every_column(recorder):
    """operations 2"""
    trail = [{"attempt": 0, "provider": "A", "status": 200}]
    draft = finished(recorder, attempts=trail, tokens_prompt=12, tokens_completion=40, cost_usd=0.0000123, dial_ms=1.5)
    assert recorder.flush()
    row = RequestLog.objects.get()
    assert (str(row.id), row.state, row.status_code, row.attempts) == (draft.id, "completed", 200, trail)
    assert (row.tokens_prompt, row.tokens_completion, row.node) == (12, 40, "n1")
    assert float(row.cost_usd) == pytest.approx(0.0000123)
    assert row.proxy_overhead_ms == 1.5
    assert row.latency_ms == pytest.approx(max(0.0, row.duration_ms - 1.5))
    assert row.tokens_per_second >= 0


def test_a_listener_sees_pending_then_streaming_then_completed_in_exactly_one_row(recorder):
    """operations 1"""
    seen = []

    def look(event):
        if event.type.startswith("request."):
            recorder.flush()
            seen.append((event.type, [r.state for r in RequestLog.objects.all()]))

    events.subscribe(look)
    draft = Draft("chat", model_id="hotel/glm", streaming=True)
    recorder.start(draft)
    recorder.streaming(draft)
    draft.status_code = 200
    recorder.finish(draft)
    assert seen == [
        ("request.started", ["pending"]),
        ("request.streaming", ["streaming"]),
        ("request.completed", ["completed"]),
    ]
    assert RequestLog.objects.count() == 1


def test_finishing_twice_changes_nothing(recorder):
    seen = []
    events.subscribe(seen.append)
    recorder.finish(finished(recorder))
    recorder.flush()
    assert RequestLog.objects.count() == 1
    assert [e.type for e in seen] == ["request.started", "request.completed"]


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"status_code": 200}, "completed"),
        ({"status_code": 404, "error_kind": "validation"}, "failed"),
        ({"status_code": 0, "error_kind": "provider_error"}, "failed"),
        ({"status_code": 204}, "completed"),
    ],
)
def test_the_state_follows_from_status_and_kind(recorder, fields, state):
    finished(recorder, **fields)
    recorder.flush()
    assert RequestLog.objects.get().state == state


def test_text_that_a_database_refuses_costs_nobody_a_row(recorder):
    finished(recorder, error_message="nul \x00 inside", error_kind="internal", status_code=500)
    finished(recorder, attempts=[{"detail": "nul \x00 inside"}])
    recorder.flush()
    assert RequestLog.objects.count() == 2
    assert recorder.lost == 0


def test_absurd_token_counts_are_stored_as_zero(recorder):
    finished(recorder, tokens_prompt=-5, tokens_completion=2**40)
    recorder.flush()
    row = RequestLog.objects.get()
    assert (row.tokens_prompt, row.tokens_completion) == (0, 0)


def test_one_bad_row_does_not_cost_the_batch(recorder):
    finished(recorder)
    finished(recorder).endpoint_type = None
    finished(recorder)
    recorder.flush()
    assert RequestLog.objects.count() == 2
    assert recorder.lost == 1


class Outage:
    """The database refuses for a while, as a frozen server or a locked file does."""

    def __init__(self, recorder):
        self.down = True
        self.real = recorder._write
        recorder._write = self.write

    def write(self, rows):
        if self.down:
            raise OperationalError("database is locked")
        return self.real(rows)


def test_rows_wait_while_the_database_is_away_and_all_arrive(recorder, tmp_path):
    recorder.spill = Spill(tmp_path / "spill")
    outage = Outage(recorder)
    for _ in range(30):
        finished(recorder)
    assert recorder.flush() is False
    assert recorder.queued == 30
    outage.down = False
    assert recorder.flush() is True
    assert (RequestLog.objects.count(), recorder.queued, recorder.lost) == (30, 0, 0)


def test_beyond_memory_rows_wait_in_the_spill_file(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MEMORY", 10)
    recorder.spill = Spill(tmp_path / "spill")
    outage = Outage(recorder)
    for _ in range(25):
        finished(recorder)
    recorder.flush()
    assert recorder.queued == 0
    assert recorder.spill.pending()
    outage.down = False
    finished(recorder)
    assert recorder.flush() is True
    assert (RequestLog.objects.count(), recorder.lost, recorder.spill.pending()) == (26, 0, False)


def test_only_when_the_spill_file_is_full_rows_are_lost_and_counted(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MEMORY", 0)
    recorder.spill = Spill(tmp_path / "spill", limit=2000)
    Outage(recorder)
    for _ in range(20):
        finished(recorder)
    recorder.flush()
    recorder.spill.close()
    assert 0 < recorder.lost < 20


def test_a_spill_file_cut_by_a_crash_gives_its_whole_lines(tmp_path):
    spill = Spill(tmp_path / "spill")
    spill.append([("a", 1), ("b", 2)])
    with spill.path.open("ab") as file:
        file.write(b'["c", ')
    assert spill.read() == [("a", 1), ("b", 2)]
    spill.close()


def test_the_spill_file_of_a_dead_process_is_taken_over_and_that_of_a_living_one_is_not(tmp_path):
    dead, living, own = (Spill(tmp_path / f"requestlog-{n}.spill") for n in (1, 2, 3))
    dead.append([("a", 1)])
    living.append([("b", 2)])
    dead.close()  # as its end would
    assert own.adopt() == 1
    assert own.read() == [("a", 1)]
    assert not dead.path.exists()
    assert living.read() == [("b", 2)]
    own.clear()
    living.clear()


def test_a_spill_file_that_can_not_be_written_counts_what_it_lost(tmp_path):
    assert Spill(Path("/proc/nowhere/spill")).append([("a",)]) == 1
    good = Spill(tmp_path / "spill")
    assert good.append([("a",)]) == 0
    good.close()


def test_the_writer_thread_writes_by_itself_and_stops_with_everything_written(recorder, tmp_path):
    recorder.run("n1", tmp_path)
    finished(recorder)
    deadline = time.monotonic() + 10
    while RequestLog.objects.count() == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert RequestLog.objects.count() == 1
    running = Draft("chat", model_id="m")
    recorder.start(running)
    recorder.stop()
    row = RequestLog.objects.get(pk=running.id)
    assert (row.state, row.error_kind, row.error_message) == (
        "failed",
        "internal",
        "request interrupted (server restart)",
    )
    assert not [t for t in threading.enumerate() if t.name == "requestlog"]


def test_a_request_that_died_with_its_process_is_marked_at_the_next_start(recorder):
    """operations 16, operations 17"""
    from requestlogs import sweep

    recorder.start(Draft("chat", model_id="mine"))
    recorder.flush()
    other = Recorder()
    other.node = "n2"
    running = Draft("chat", model_id="theirs", streaming=True)
    other.start(running)
    other.streaming(running)
    other.flush()
    seen = []
    events.subscribe(seen.append)
    assert sweep.at_start("n1") == 1
    mine, theirs = RequestLog.objects.get(model_id="mine"), RequestLog.objects.get(model_id="theirs")
    assert (mine.state, mine.error_kind, mine.status_code) == ("failed", "internal", None)
    assert mine.error_message == "request interrupted (server restart)"
    assert theirs.state == "streaming"
    assert [(e.type, e.metadata) for e in seen] == [("logs.stale_startup", {"count": 1})]
    assert sweep.at_start("n1") == 0
