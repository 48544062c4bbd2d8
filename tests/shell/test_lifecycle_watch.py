"""What makes an edit made elsewhere effective here: the watcher, and the relay over Redis."""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from modelhotel.core import events, snapshots
from modelhotel.ops import relay as relays
from modelhotel.ops.relay import Relay
from modelhotel.ops.watch import Watcher
from tests.pace import slower
from tests.wire.cut import Cut
from tests.wire.product import REDIS, eventually

HOST, PORT = REDIS.partition("://")[2].partition("/")[0].split(":")


class Looks:
    def __init__(self) -> None:
        self.count = 0
        self.problem: Exception | None = None

    def __call__(self) -> None:
        self.count += 1
        if self.problem:
            raise self.problem


def test_the_watcher_looks_again_and_again_until_stopped():
    looks = Looks()
    watcher = Watcher([looks], every=0.01)
    watcher.start()
    assert eventually(lambda: looks.count > 3)
    watcher.stop()
    seen = looks.count
    time.sleep(0.05)
    assert looks.count == seen


def test_a_look_that_fails_is_one_warning_and_stops_no_other(caplog: pytest.LogCaptureFixture):
    broken, fine = Looks(), Looks()
    broken.problem = RuntimeError("no database")
    watcher = Watcher([broken, fine])
    for _ in range(5):
        for look in (broken, fine):
            watcher.look(look)
    assert (broken.count, fine.count) == (5, 5)
    assert [record.getMessage() for record in caplog.records] == ["watch: the database can not be looked at"]


def test_two_looks_a_second_are_quick_enough_for_an_edit():
    from modelhotel.ops import watch

    assert watch.EVERY <= 0.5


@pytest.mark.redis
class TestRelay:
    """Two processes are played by two relays; what the bus of this process delivers is told apart by its sender."""

    @pytest.fixture
    def channel(self) -> str:
        return f"mh-test-{secrets.token_hex(8)}"

    @pytest.fixture
    def start(self, channel: str) -> Iterator[Callable[..., Relay]]:
        running: list[Relay] = []

        def make(url: str = REDIS, behind: Callable[[], object] = lambda: None) -> Relay:
            relay = Relay(url, channel, behind)
            relay.start()
            running.append(relay)
            return relay

        yield make
        for relay in running:
            relay.stop()

    def test_a_message_reaches_every_other_process_and_not_its_sender(self, start: Callable[..., Relay]):
        got: list[tuple[str, bytes]] = []
        one, two, three = (start() for _ in range(3))
        for name, relay in (("one", one), ("two", two), ("three", three)):
            relay.on("note", lambda body, name=name: got.append((name, bytes(body))))
            assert relay.connected.wait(5)
        one.send("note", {"n": 1})
        assert eventually(lambda: len(got) == 2)
        assert sorted(got) == [("three", b'{"n":1}'), ("two", b'{"n":1}')]

    def test_an_event_from_elsewhere_is_delivered_once_and_not_sent_on(self, start: Callable[..., Relay], channel: str):
        """operations 50."""
        here = start()
        assert here.connected.wait(5)
        seen: list[events.Event] = []
        events.subscribe(seen.append)
        elsewhere = Relay(REDIS, channel, lambda: None)
        elsewhere.on("event", lambda body: pytest.fail("sent on"))
        made = events.Event("0000-x", "circuit_breaker.open", "warning", "failover", "A opened", {"provider": "A"}, "t")
        thread = threading.Thread(target=elsewhere._send_all, daemon=True)
        thread.start()
        elsewhere.send("event", made)
        assert eventually(lambda: seen)
        time.sleep(0.1)
        assert seen == [made]
        assert events.since("0000-x") == []
        elsewhere.stop()
        thread.join(5)

    def test_changed_tables_make_the_others_look_what_is_behind(self, start: Callable[..., Relay]):
        looks = Looks()
        here = start(behind=looks)
        other = start()
        assert here.connected.wait(5)
        assert other.connected.wait(5)
        assert looks.count == 1, "the first look comes with the connection"
        other.announce(["settings"])
        assert looks.count == 2, "the change is in force there before the one who made it goes on"

    def test_a_change_waits_for_everyone_who_has_to_read_it(self, start: Callable[..., Relay]):
        read: list[str] = []
        first, hold = threading.Event(), threading.Event()

        def slowly() -> None:
            if first.is_set():
                assert hold.wait(5)
                read.append("slow")
            first.set()

        here = start()
        for behind in (slowly, lambda: read.append("quick")):
            assert start(behind=behind).connected.wait(5)
        assert here.connected.wait(5)
        assert eventually(lambda: first.is_set() and read == ["quick"])
        threading.Timer(0.1, hold.set).start()
        here.announce(["keys"])
        assert sorted(read) == ["quick", "quick", "slow"]

    def test_one_who_hangs_or_can_not_read_is_not_waited_for_longer_than_that(
        self, start: Callable[..., Relay], monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(relays, "PATIENCE", 0.2)
        looks = Looks()
        here, other = start(), start(behind=looks)
        assert here.connected.wait(5)
        assert other.connected.wait(5)
        assert eventually(lambda: looks.count == 1)
        looks.problem = RuntimeError("no database")
        began = time.monotonic()
        here.announce(["keys"])
        assert 0.2 <= time.monotonic() - began < 1.0 * slower()
        assert here._waits == {}

    def test_nobody_is_waited_for_where_nobody_listens_or_redis_is_away(self, start: Callable[..., Relay]):
        alone, away = start(), start("redis://127.0.0.1:9/0")
        assert alone.connected.wait(5)
        for relay in (alone, away):
            began = time.monotonic()
            relay.announce(["keys"])
            assert time.monotonic() - began < 0.5 * slower()

    def test_a_change_made_while_a_message_is_handled_does_not_wait_for_itself(self, start: Callable[..., Relay]):
        here, other = start(), start()
        done: list[float] = []

        def change(_: object) -> None:
            began = time.monotonic()
            here.announce(["keys"])
            done.append(time.monotonic() - began)

        here.on("note", change)
        assert here.connected.wait(5)
        assert other.connected.wait(5)
        other.send("note", 1)
        assert eventually(lambda: done)
        assert done[0] < 0.5 * slower()

    def test_publishing_does_not_wait_for_a_redis_that_is_away(self, start: Callable[..., Relay]):
        start("redis://127.0.0.1:9/0")
        began = time.monotonic()
        for _ in range(1000):
            events.publish("x.y", "info", "test", "message")
        assert time.monotonic() - began < 0.5 * slower()

    def test_redis_away_is_one_warning_and_its_return_a_complete_look(
        self, start: Callable[..., Relay], caplog: pytest.LogCaptureFixture
    ):
        caplog.set_level(logging.INFO, "relay")
        looks = Looks()
        with Cut(HOST, int(PORT)) as cut:
            here = start(f"redis://127.0.0.1:{cut.port}/15", looks)
            other = start()
            got: list[bytes] = []
            here.on("note", lambda body: got.append(bytes(body)))
            assert here.connected.wait(5)
            assert eventually(lambda: looks.count == 1)
            reconnected: list[bool] = []
            here.on_connect(lambda: reconnected.append(True))
            cut.off()
            assert eventually(lambda: not here.connected.is_set())
            time.sleep(1.2)  # several attempts
            cut.on()
            assert here.connected.wait(5)
            assert eventually(lambda: looks.count == 2)
            assert reconnected == [True]
            other.send("note", 7)
            assert eventually(lambda: got == [b"7"])
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
        assert lines == [
            "relay: Redis does not answer, other processes see changes late",
            "relay: Redis answers again",
        ]

    def test_what_is_too_old_or_too_much_is_not_sent(self, monkeypatch: pytest.MonkeyPatch, channel: str):
        relay = Relay(REDIS, channel, lambda: None)
        for number in range(relays.QUEUE + 5):
            relay.send("note", number)
        assert len(relay._queue) == relays.QUEUE
        assert relay._queue[0][1].endswith(b"5]")

    def test_nonsense_on_the_channel_is_logged_and_survived(
        self, start: Callable[..., Relay], channel: str, caplog: pytest.LogCaptureFixture
    ):
        import redis

        here = start()
        got: list[bytes] = []
        here.on("note", lambda body: got.append(bytes(body)))
        assert here.connected.wait(5)
        with redis.Redis.from_url(REDIS) as client:
            for junk in (b"\xff", b"{}", b'["a","note"]', b'["a","event",{"id":1}]'):
                client.publish(channel, junk)
            client.publish(channel, b'["someone","note",1]')
        assert eventually(lambda: got == [b"1"])
        assert caplog.text.count("relay: message not understood") == 4


@pytest.mark.django_db(transaction=True)
@pytest.mark.database
def test_a_write_by_another_process_is_in_force_after_one_look():
    """settings 53."""
    from modelhotel import config_store
    from modelhotel.core import catalogue, options
    from modelhotel.models import Setting

    snapshots.refresh_all()
    assert options.current()[catalogue.CIRCUIT_BREAKER_THRESHOLD] == 5
    Setting.objects.create(key="circuit_breaker_threshold", value="3")
    config_store.bump_versions(["settings"])  # as a command beside the server does, in its own process
    Watcher([]).look(snapshots.refresh_behind)
    assert options.current()[catalogue.CIRCUIT_BREAKER_THRESHOLD] == 3
