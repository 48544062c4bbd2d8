"""From the draft to the row: real database, real writer thread."""

import threading
import time

import pytest
from django.db import OperationalError

from modelhotel.core import events
from requestlogs import recorder as module
from requestlogs.draft import Draft
from requestlogs.models import RequestLog
from requestlogs.recorder import Recorder
from requestlogs.spill import PATTERN, Spill
from tests.wire.product import eventually

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


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"status_code": 200}, "Request completed: hotel/glm"),
        (
            {"status_code": 502, "error_kind": "provider_error", "error_message": "all failed"},
            "Request failed: hotel/glm — all failed",
        ),
    ],
)
def test_what_its_events_say(recorder, fields, text):
    """v1-api 23"""
    seen = []
    events.subscribe(seen.append)
    draft = Draft("chat", model_id="hotel/glm", streaming=True)
    recorder.start(draft)
    recorder.streaming(draft)
    for name, value in fields.items():
        setattr(draft, name, value)
    recorder.finish(draft)
    recorder.flush()
    assert [event.message for event in seen if event.type.startswith("request.")] == [
        "Request started: hotel/glm",
        "Request streaming: hotel/glm",
        text,
    ]


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
    recorder.spill = Spill(tmp_path)
    outage = Outage(recorder)
    for _ in range(30):
        finished(recorder)
    assert recorder.flush() is False
    assert recorder.queued == 30
    outage.down = False
    assert recorder.flush() is True
    assert (RequestLog.objects.count(), recorder.queued, recorder.lost) == (30, 0, 0)


def test_beyond_memory_rows_wait_in_files(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MEMORY", 10)
    recorder.spill = Spill(tmp_path, segment=2000)
    outage = Outage(recorder)
    for _ in range(25):
        finished(recorder)
    recorder.flush()
    assert (recorder.queued, recorder.spilled) == (0, 25)
    assert len(list(tmp_path.glob(PATTERN))) > 2
    outage.down = False
    finished(recorder)
    assert recorder.flush() is True
    assert (RequestLog.objects.count(), recorder.lost, recorder.spilled) == (26, 0, 0)
    assert not list(tmp_path.glob(PATTERN))


def test_only_when_the_files_are_full_the_oldest_rows_are_lost_and_counted(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MEMORY", 0)
    recorder.spill = Spill(tmp_path, limit=5000, segment=1000)
    outage = Outage(recorder)
    drafts = [finished(recorder) for _ in range(20)]
    recorder.flush()
    assert 0 < recorder.lost < 20
    outage.down = False
    assert recorder.flush() is True
    left = {str(row.pk) for row in RequestLog.objects.all()}
    assert left == {draft.id for draft in drafts[recorder.lost :]}


def test_where_no_file_can_be_written_the_newest_rows_stay_in_memory(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MEMORY", 5)
    recorder.spill = Spill(tmp_path / "nowhere")
    outage = Outage(recorder)
    drafts = [finished(recorder) for _ in range(20)]
    recorder.flush()
    assert (recorder.queued, recorder.spilled, recorder.lost) == (5, 0, 15)
    drafts += [finished(recorder) for _ in range(3)]
    recorder.flush()
    assert (recorder.queued, recorder.lost) == (5, 18)
    outage.down = False
    assert recorder.flush() is True
    assert {str(row.pk) for row in RequestLog.objects.all()} == {draft.id for draft in drafts[18:]}


def test_a_writer_that_is_stuck_is_relieved(recorder, tmp_path, monkeypatch):
    """A frozen server neither answers nor refuses."""
    monkeypatch.setattr(module, "MEMORY", 5)
    monkeypatch.setattr(module, "LOOK", 0.02)
    stuck, freed, real = threading.Event(), threading.Event(), recorder._write

    def write(rows):
        stuck.set()
        freed.wait(10)
        return real(rows)

    monkeypatch.setattr(recorder, "_write", write)
    recorder.run("n1", tmp_path)
    finished(recorder)
    assert stuck.wait(5)
    for _ in range(10):
        finished(recorder)
    assert eventually(lambda: recorder.spilled == 10)
    assert recorder.behind > 0
    freed.set()
    assert recorder.flush(10) is True
    recorder.stop()
    assert (RequestLog.objects.count(), recorder.lost) == (11, 0)


def lines(spill):
    found = []
    while (segment := spill.oldest()) is not None:
        found += [row for batch in segment.batches(2) for row in batch]
        spill.done(segment)
    return found


def test_a_spill_file_cut_by_a_crash_gives_its_whole_lines(tmp_path):
    spill = Spill(tmp_path)
    assert spill.append([("a", 1), ("b", 2), ("c", 3)]) == (3, 0)
    (path,) = tmp_path.glob(PATTERN)
    with path.open("ab") as file:
        file.write(b'["c", ')
    assert lines(spill) == [("a", 1), ("b", 2), ("c", 3)]
    assert not path.exists()


def test_the_spill_files_of_a_dead_process_are_taken_over_and_those_of_a_living_one_are_not(tmp_path):
    dead, living, own = Spill(tmp_path), Spill(tmp_path), Spill(tmp_path)
    dead.append([("a", 1)])
    living.append([("b", 2)])
    dead.close()  # as its end would
    assert own.adopt() == 1
    own.append([("c", 3)])
    assert lines(own) == [("a", 1), ("c", 3)]
    assert lines(living) == [("b", 2)]
    assert not list(tmp_path.glob(PATTERN))


class Full:
    """The file of a disk that takes the first *room* bytes of a line only."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        return self.file.write(data[: self.room])

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_half_a_line_on_a_full_disk_is_taken_back(tmp_path):
    spill = Spill(tmp_path)
    assert spill.append([("a", 1)]) == (1, 0)
    segment = spill._segments[0]
    segment.file = Full(segment.file, 4)
    assert spill.append([("b", 2), ("c", 3)]) == (0, 0)
    segment.file = segment.file.file
    assert spill.append([("d", 4)]) == (1, 0)
    assert spill.rows == 2
    assert lines(spill) == [("a", 1), ("d", 4)]


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


def test_a_request_that_runs_during_a_purge_stays_and_completes(recorder):
    """operations 33"""
    from requestlogs import sweep

    draft = Draft("chat", model_id="hotel/glm", streaming=True)
    recorder.start(draft)
    recorder.streaming(draft)
    finished(recorder)
    assert recorder.flush()
    sweep.delete_before(None)
    assert [row.state for row in RequestLog.objects.all()] == ["streaming"]
    draft.status_code = 200
    recorder.finish(draft)
    assert recorder.flush()
    assert [(str(row.id), row.state) for row in RequestLog.objects.all()] == [(draft.id, "completed")]


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
