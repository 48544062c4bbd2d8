"""The event bus: order, replay, and publishers that nothing can hurt."""

import json
import threading

import msgspec
import pytest

from modelhotel.core import events


def publish(number, **more):
    return events.publish("test.happened", "info", "test", f"number {number}", {"number": number}, **more)


@pytest.fixture
def heard():
    seen = []
    events.subscribe(seen.append)
    return seen


def test_subscribers_hear_events_in_order_and_ids_grow(heard):
    published = [publish(number) for number in range(200)]
    assert heard == published
    ids = [event.id for event in heard]
    assert ids == sorted(ids) and len(set(ids)) == 200


def test_an_event_on_the_wire():
    """operations 52"""
    event = events.publish("a.b", "warning", "failover", "two\nlines\r\n\u2028", {"list": [1], "n": None}, at=1.5)
    assert b"\n" not in event.json() and b"\r" not in event.json()
    assert json.loads(event.json()) == {
        "id": event.id,
        "type": "a.b",
        "severity": "warning",
        "source": "failover",
        "message": "two\nlines\r\n\u2028",
        "metadata": {"list": [1], "n": None},
        "timestamp": "1970-01-01T00:00:01.500Z",
    }
    assert "metadata" not in msgspec.json.decode(events.publish("a", "info", "s", "m").json())


@pytest.mark.parametrize(
    ("text", "shown"), [("x" * 200, "x" * 200), ("x" * 201, "x" * 200 + "…"), ("é" * 150, "é" * 100 + "…")]
)
def test_the_message_of_a_request_is_cut_to_200_bytes(text, shown):
    """operations 7.2"""
    assert events.publish("request.started", "info", "proxy", text).message == shown
    assert events.publish("other.type", "info", "proxy", text).message == text


def test_a_subscriber_that_fails_hurts_nobody(heard, caplog):
    def broken(event):
        raise RuntimeError("no")

    events.subscribe(broken)
    later = []
    events.subscribe(later.append)
    publish(1)
    assert len(heard) == len(later) == 1
    assert "events: subscriber failed" in caplog.text


def test_whoever_left_hears_no_more():
    seen = []
    leave = events.subscribe(seen.append)
    leave()
    leave()
    publish(1)
    assert seen == []


def test_replay_gives_what_came_after_an_id():
    """operations 47"""
    published = [publish(number) for number in range(30)]
    assert events.since(published[19].id) == published[20:]
    assert events.since(published[-1].id) == []


def test_an_unknown_or_forgotten_id_can_not_be_replayed():
    """operations 48"""
    first = publish(0)
    for number in range(events.KEEP):
        publish(number)
    assert events.since(first.id) is None
    assert events.since("nonsense") is None
    assert events.since("") is None


def test_an_event_older_than_five_minutes_is_not_replayed(monkeypatch):
    """operations 7.5"""
    now = [1000.0]
    monkeypatch.setattr(events.time, "monotonic", lambda: now[0])
    old = publish(1)
    now[0] += 301
    new = publish(2)
    assert events.since(old.id) is None
    assert events.since(new.id) == []


def test_an_event_of_another_process_is_delivered_and_kept(heard):
    event = events.Event("9-000000-ffff", "a", "info", "s", "m", {}, "2026-01-01T00:00:00.000Z")
    first = publish(1)
    events.deliver(event)
    assert heard == [first, event]
    assert events.since(first.id) == [event]


def test_publishing_from_many_threads_loses_nothing(heard):
    def work():
        for number in range(50):
            publish(number)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({event.id for event in heard}) == 400
