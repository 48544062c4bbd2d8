"""``GET /api/events`` through its ASGI application: frames, rights, replay, overflow, heartbeat, end."""

import asyncio
import contextlib
import json
import threading
import time

import pytest
from channels.db import database_sync_to_async as in_thread

from modelhotel.accounts import sessions
from modelhotel.accounts.identity import Credentials, Identity
from modelhotel.core import events
from modelhotel.core.actor import Actor
from modelhotel.core.events import Event
from modelhotel.models import Session, User
from modelhotel.ops import eventstream
from modelhotel.ops.eventstream import EventStream, Subscriber, may_see
from tests.pace import slower
from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import TOKEN, signed_in

pytestmark = pytest.mark.django_db(transaction=True)
BEARER = [(b"authorization", b"Bearer " + TOKEN.encode())]


class Reader:
    """A client of the stream. *hold*: it does not read, as behind a full socket."""

    def __init__(self, headers=(), method="GET", path="/api/events", hold=False):
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "scheme": "http",
            "client": ("203.0.113.9", 4711),
            "headers": list(headers),
        }
        self.incoming = asyncio.Queue()
        self.incoming.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        self.status, self.headers, self.body, self.finished = None, {}, b"", False
        self.changed = asyncio.Event()
        self.free = asyncio.Event()
        if not hold:
            self.free.set()
        self.heartbeat = eventstream.HEARTBEAT

    async def send(self, message):
        await self.free.wait()
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.body += message["body"]
            self.finished = not message.get("more_body", False)
        self.changed.set()

    async def __aenter__(self):
        app = type("Quick", (EventStream,), {"heartbeat": self.heartbeat}).as_asgi()
        self.task = asyncio.create_task(app(self.scope, self.incoming.get, self.send))
        return self

    async def __aexit__(self, *problem):
        self.incoming.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(self.task, 5)

    async def until(self, condition, seconds=10):
        async with asyncio.timeout(seconds):
            while not condition(self):
                self.changed.clear()
                await self.changed.wait()

    async def connected(self):
        await self.until(lambda reader: b": connected\n\n" in reader.body)
        return self

    @property
    def events(self):
        return [json.loads(line[6:]) for line in self.body.decode().split("\n") if line.startswith("data: ")]

    @property
    def messages(self):
        return [event["message"] for event in self.events]


def publish(message, type="test.happened", **metadata):
    return events.publish(type, "info", "test", message, metadata)


@contextlib.asynccontextmanager
async def reading(headers=BEARER, heartbeat=None, **kwargs):
    reader = Reader(headers, **kwargs)
    reader.heartbeat = heartbeat or reader.heartbeat
    async with reader:
        yield reader


def cookie_of(user):
    return signed_in(user).client.cookies["mh_session"].value


def by_cookie(token):
    return [(b"cookie", f"theme=dark; mh_session={token}".encode())]


async def test_a_stream_begins_at_once_and_carries_events_as_specified(token):
    """operations 39"""
    async with reading() as reader:
        await reader.connected()
        assert reader.status == 200
        assert reader.body == b": connected\n\n"
        assert reader.headers[b"content-type"] == b"text/event-stream"
        assert reader.headers[b"cache-control"] == b"no-cache"
        assert reader.headers[b"connection"] == b"keep-alive"
        assert reader.headers[b"x-accel-buffering"] == b"no"
        assert reader.headers[b"x-content-type-options"] == b"nosniff"
        event = publish("two\nlines", n=1)
        await reader.until(lambda r: r.events)
        assert reader.body == b": connected\n\nid: " + event.id.encode() + b"\ndata: " + event.json() + b"\n\n"
        assert b"event:" not in reader.body
    assert eventstream.subscribers() == 0


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([], b"Authorization header required (Bearer token)"),
        ([(b"authorization", b"Basic abc")], b"Authorization header required (Bearer token)"),
        ([(b"authorization", b"Bearer wrong")], b"Invalid admin token"),
        ([(b"cookie", b"mh_session=" + b"0" * 64)], b"Authorization header required (Bearer token)"),
        ([(b"cookie", b"\xff;;=;mh_session")], b"Authorization header required (Bearer token)"),
    ],
)
async def test_whoever_is_not_signed_in_gets_401_before_the_stream(token, headers, words):
    """operations 7.1, operations 64, operations 65"""
    async with reading(headers) as reader:
        await reader.until(lambda r: r.finished)
        assert (reader.status, reader.body) == (401, words)
        assert reader.headers[b"content-type"] == b"text/plain; charset=utf-8"
    async with reading([*headers, (b"accept", b"application/json")]) as reader:
        await reader.until(lambda r: r.finished)
        assert json.loads(reader.body) == {"error": words.decode()}


async def test_guessing_here_is_slowed_down_too(token):
    statuses = []
    for _ in range(7):
        async with reading([(b"authorization", b"Bearer wrong")]) as reader:
            await reader.until(lambda r: r.finished)
            statuses.append(reader.status)
    assert statuses == [401] * 6 + [429]
    assert reader.headers[b"retry-after"] == b"1"


async def test_other_methods_and_preflights(token):
    async with reading(method="POST") as reader:
        await reader.until(lambda r: r.finished)
        assert (reader.status, reader.body, reader.headers[b"allow"]) == (405, b"method not allowed", b"GET, HEAD")
    async with reading([(b"origin", b"http://localhost:5173")], method="OPTIONS") as reader:
        await reader.until(lambda r: r.finished)
        assert (reader.status, reader.body) == (204, b"")
        assert reader.headers[b"access-control-allow-origin"] == b"http://localhost:5173"
    async with reading(method="HEAD") as reader:
        await reader.until(lambda r: r.finished)
        assert (reader.status, reader.body) == (200, b"")


async def test_an_event_from_another_thread_arrives_without_waiting(token):
    async with reading() as reader:
        await reader.connected()
        started = time.monotonic()
        await asyncio.to_thread(publish, "from a thread")
        await reader.until(lambda r: r.events)
        assert time.monotonic() - started < slower()


async def test_events_of_one_thread_arrive_in_order(token):
    """operations 7.5"""
    async with reading() as reader:
        await reader.connected()

        def work():
            for number in range(300):
                publish(str(number))
                if number % 20 == 0:
                    time.sleep(0.005)

        await asyncio.to_thread(work)
        await reader.until(lambda r: r.messages[-1:] == ["299"])
        assert reader.messages == [str(number) for number in range(300)]


async def test_a_viewer_sees_everything_and_a_user_nothing_of_it(viewer_user, stranger_user):
    """operations 44"""
    vera, stan = await in_thread(cookie_of)(viewer_user), await in_thread(cookie_of)(stranger_user)
    async with reading(by_cookie(vera)) as viewer, reading(by_cookie(stan)) as stranger:
        await viewer.connected()
        await stranger.connected()
        publish("a change", type="config.changed")
        publish("a request", type="request.started", owner_user_id=str(stranger_user.pk))
        await viewer.until(lambda r: len(r.events) == 2)
        assert stranger.events == []


def test_what_a_user_with_the_grant_may_see():
    """operations 45"""
    user = Identity(Actor("stan", "user", "id-1"), None, frozenset({"logs"}))

    def event(kind, **metadata):
        return Event("1", kind, "info", "s", "m", metadata, "")

    for kind in ("request.started", "request.streaming", "request.completed"):
        assert may_see(user, event(kind, owner_user_id="id-1"))
        assert not may_see(user, event(kind, owner_user_id="id-2"))
        assert not may_see(user, event(kind, owner_user_id=None))
        assert not may_see(user, event(kind))
    for kind in ("request.discovery.provider_starting", "config.changed", "circuit_breaker.open", "tokens.error"):
        assert not may_see(user, event(kind, owner_user_id="id-1"))
    nobody = Identity(Actor("x", "user", None), None, frozenset({"logs"}))
    assert not may_see(nobody, event("request.started", owner_user_id=None))


async def test_a_client_that_comes_back_gets_what_it_missed_and_goes_on_live(token):
    """operations 47"""
    missed = [publish(str(number)) for number in range(12)]
    async with reading([*BEARER, (b"last-event-id", missed[1].id.encode())]) as reader:
        await reader.connected()
        publish("live")
        await reader.until(lambda r: r.messages[-1:] == ["live"])
        assert reader.messages == [str(number) for number in range(2, 12)] + ["live"]
        assert b"resync" not in reader.body


async def test_an_event_between_joining_and_replay_comes_once(token, monkeypatch):
    first = publish("first")
    real = events.since

    def late(last_id):
        publish("in between")
        return real(last_id)

    monkeypatch.setattr(events, "since", late)
    async with reading([*BEARER, (b"last-event-id", first.id.encode())]) as reader:
        await reader.connected()
        publish("live")
        await reader.until(lambda r: "live" in r.messages)
        assert reader.messages == ["in between", "live"]


@pytest.mark.parametrize("last", [b"nonsense", b"\xff\xfe", b"0" * 5000])
async def test_an_unknown_id_means_resync(token, last):
    """operations 48"""
    publish("before")
    async with reading([*BEARER, (b"last-event-id", last)]) as reader:
        await reader.connected()
        publish("live")
        await reader.until(lambda r: r.events)
        assert reader.body.startswith(b": connected\n\n: resync\n\nid: ")
        assert reader.messages == ["live"]


async def test_replay_is_filtered_by_the_rights_of_the_reader(stranger_user):
    stan = await in_thread(cookie_of)(stranger_user)
    first = publish("first")
    publish("secret", type="config.changed")
    async with reading([*by_cookie(stan), (b"last-event-id", first.id.encode())]) as reader:
        await reader.connected()
        assert reader.body == b": connected\n\n"


async def test_a_reader_that_stops_loses_events_is_told_and_disturbs_nobody(token, caplog):
    """operations 46"""
    async with reading() as good, reading() as slow:
        await good.connected()
        await slow.connected()
        slow.free.clear()
        for number in range(200):
            publish(str(number))
            if number % 10 == 9:
                await good.until(lambda r, n=number: r.messages[-1:] == [str(n)])
        assert len(good.messages) == 200
        assert b"dropped" not in good.body
        slow.free.set()
        await slow.until(lambda r: len(r.messages) >= 64)
        publish("after")
        await slow.until(lambda r: r.messages[-1:] == ["after"])
        kept = len(slow.messages) - 1
        assert 64 <= kept <= 80
        assert f": dropped {200 - kept}\n\nid: ".encode() in slow.body
        assert slow.messages[:kept] == [str(number) for number in range(kept)]
    warnings = [record for record in caplog.records if "reads too slowly" in record.getMessage()]
    assert len(warnings) == 1


async def test_the_memory_of_a_reader_that_stopped_is_bounded():
    subscriber = Subscriber(Identity(Actor("a", "admin")), Credentials())
    for number in range(10_000):
        subscriber.offer(publish(str(number)), b"x")
    assert subscriber.take() == b"x" * eventstream.QUEUE
    subscriber.beat()
    assert subscriber.take() == b": dropped 9936\n\n: heartbeat\n\n"


async def test_a_heartbeat_comes_every_period(token):
    """operations 39"""
    assert eventstream.HEARTBEAT == 30.0
    async with reading(heartbeat=0.05) as reader:
        await reader.until(lambda r: r.body.count(b": heartbeat\n\n") >= 3)


async def test_a_revoked_session_ends_its_stream_after_two_checks(viewer_user):
    """operations 49"""
    token = await in_thread(cookie_of)(viewer_user)
    async with reading(by_cookie(token), heartbeat=0.1) as reader, reading(by_cookie(token), heartbeat=60) as other:
        await reader.connected()
        await other.connected()
        await in_thread(Session.objects.all().delete)()
        before = reader.body.count(b"heartbeat")
        await reader.until(lambda r: r.finished)
        assert reader.body.count(b"heartbeat") - before >= 2
        assert not other.finished


async def test_a_disabled_account_is_cut_off(viewer_user):
    """operations 7.3"""
    token = await in_thread(cookie_of)(viewer_user)
    async with reading(by_cookie(token), heartbeat=0.05) as reader:
        await reader.connected()
        await in_thread(User.objects.update)(is_active=False)
        await reader.until(lambda r: r.finished)


async def test_signing_out_ends_the_streams_of_that_session_at_once(viewer_user):
    """operations 7.3"""
    one, two = await in_thread(cookie_of)(viewer_user), await in_thread(cookie_of)(viewer_user)
    async with reading(by_cookie(one)) as mine, reading(by_cookie(two)) as other:
        await mine.connected()
        await other.connected()
        await in_thread(sessions.SessionStore(one).delete)()
        await mine.until(lambda r: r.finished)
        assert not other.finished


async def test_a_database_hiccup_ends_no_stream(token, monkeypatch, caplog):
    """operations 7.3"""

    def broken(credentials):
        raise RuntimeError("database away")

    monkeypatch.setattr(eventstream, "who", broken)
    async with reading(heartbeat=0.03) as reader:
        await reader.until(lambda r: r.body.count(b"heartbeat") >= 6)
        assert not reader.finished
    assert "credentials not checked" in caplog.text


async def test_one_failed_check_between_good_ones_ends_no_stream(token, monkeypatch):
    identity = Identity(Actor("admin", "admin"))
    answers = [None, identity] * 50

    monkeypatch.setattr(eventstream, "who", lambda credentials: answers.pop() if answers else identity)
    async with reading(heartbeat=0.03) as reader:
        await reader.until(lambda r: r.body.count(b"heartbeat") >= 8)
        assert not reader.finished


async def test_a_slow_check_delays_no_event(token, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(eventstream, "who", lambda credentials: release.wait(10) and None)
    async with reading(heartbeat=0.05) as reader:
        await reader.until(lambda r: b"heartbeat" in r.body)
        publish("meanwhile")
        await reader.until(lambda r: "meanwhile" in r.messages)
        release.set()


async def test_the_rights_follow_the_account_at_the_next_check(viewer_user):
    """providers 11.2"""
    token = await in_thread(cookie_of)(viewer_user)
    async with reading(by_cookie(token), heartbeat=0.05) as reader:
        await reader.connected()
        await in_thread(User.objects.update)(is_staff=False)
        beats = reader.body.count(b"heartbeat")
        await reader.until(lambda r: r.body.count(b"heartbeat") >= beats + 4)
        publish("secret", type="config.changed")
        await reader.until(lambda r: r.body.count(b"heartbeat") >= beats + 6)
        assert reader.events == []


async def test_a_client_that_leaves_leaves_nothing_behind(token):
    before = asyncio.all_tasks()
    async with reading() as reader:
        await reader.connected()
    assert eventstream.subscribers() == 0
    assert asyncio.all_tasks() == before
    publish("to nobody")


async def test_a_client_that_leaves_while_it_does_not_read_leaves_nothing_behind(token):
    async with reading() as reader:
        await reader.connected()
        reader.free.clear()
        publish("stuck")
        await asyncio.sleep(0.05)
    assert eventstream.subscribers() == 0


async def test_at_shutdown_fifty_streams_end_properly(token):
    """operations 51"""
    async with contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(reading()) for _ in range(50)]
        for reader in readers:
            await reader.connected()
        assert eventstream.subscribers() == 50
        await asyncio.to_thread(eventstream.close_all)
        for reader in readers:
            await reader.until(lambda r: r.finished)
        assert eventstream.subscribers() == 0


async def test_two_hundred_readers_cost_one_encoding_and_little_time(token, monkeypatch):
    """operations 7.5"""
    encoded = []
    real = eventstream.frame
    monkeypatch.setattr(eventstream, "frame", lambda event: encoded.append(event) or real(event))
    async with contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(reading()) for _ in range(200)]
        for reader in readers:
            await reader.connected()
        started = time.monotonic()
        for number in range(50):
            publish(str(number))
        published = time.monotonic() - started
        for reader in readers:
            await reader.until(lambda r: r.messages[-1:] == ["49"])
        assert len(encoded) == 50
        assert published < 0.5 * slower()
