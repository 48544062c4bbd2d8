"""The background work of a serving process, in the order of its start."""

import logging
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from django.conf import settings

from failover import breaker, ratelimit, windows
from failover.breaker.store import News
from failover.quotawatch import QuotaWatch
from modelhotel import config_store
from modelhotel.accounts import audit
from modelhotel.accounts.sessions import SessionStore
from modelhotel.core import changes, logqueue, snapshots
from modelhotel.core.environment import Environment
from modelhotel.core.leader import Job
from modelhotel.ops import leases, scrape, workers
from modelhotel.ops.jobs import LOOK, Jobs
from modelhotel.ops.lifecycle import Service
from modelhotel.ops.nodes import Membership
from modelhotel.ops.startup import INSTANCE
from modelhotel.ops.watch import Watcher
from providers import control, schedule
from providers.discovery.watch import DiscoveryWatch
from providers.keyring import KEYRING
from proxy.limits.buckets import SWEEP_EVERY
from proxy.limits.gate import LIMITER
from proxy.metering import METER
from requestlogs import phrases, rollup, sweep
from requestlogs.applog import APP_LOG
from requestlogs.recorder import RECORDER

if TYPE_CHECKING:
    from modelhotel.ops.relay import Relay

#: Budgets of a stop in seconds (operations.md 13).
JOIN, AUDIT, RECORDS, LINES = 35.0, 10.0, 10.0, 5.0
HOUR = 3600.0
JOBS = (
    Job("job:stale-requests", 300.0, sweep.stale),
    Job("job:retention", HOUR, sweep.retention),
    Job("job:audit-retention", HOUR, audit.retention),
    Job("job:sessions", HOUR, SessionStore.clear_expired),
    Job("job:statistics", 60.0, rollup.turn),
    Job("job:statistics-names", 24 * HOUR, rollup.forget_names),
    # Looked for every few seconds: with these, never more than a minute apart.
    Job("job:scheduled-disable", 60.0 - LOOK, schedule.disable_due),
    Job("job:phrases", 24 * HOUR, partial(phrases.report, ratelimit.PHRASES)),
)
log = logging.getLogger("serve")


def services(membership: Membership | None) -> Sequence[Service]:
    """*membership* is None in a worker: its supervisor speaks for the node."""
    env: Environment = settings.MH
    watcher = Watcher([snapshots.refresh_behind, membership.renew if membership else _orphan_watch()])
    holder = f"{env.node_name[:60]}:{os.getpid()}"
    jobs = Jobs(JOBS, holder)
    quotas = QuotaWatch(leases, holder)
    discovery = DiscoveryWatch(leases, holder)
    return (
        Service("app log", lambda: APP_LOG.run(env.node_name), stop_app_log),
        *_relay(env),
        Service("recorder", lambda: RECORDER.run(env.node_name, env.data_dir), lambda: RECORDER.stop(RECORDS)),
        Service("metering", METER.start, METER.stop),
        *_told_to_the_others(),
        _sweeper(),
        Service("audit", lambda: None, lambda: audit.stop(AUDIT)),
        Service("keys", KEYRING.warm, lambda: None),
        Service("scheduled disable", schedule.at_start, lambda: None),
        Service("watcher", watcher.start, watcher.stop),
        Service("quotas", quotas.start, quotas.stop, halt=quotas.halt),
        Service("discovery", discovery.start, discovery.stop, halt=discovery.halt),
        Service("jobs", jobs.start, lambda: jobs.join(JOIN), halt=jobs.stop),
        # First of all: whoever waits for somebody else's server would hold up the others, and the end of the process.
        Service("control plane", lambda: None, control.LOOP.stop),
    )


def _sweeper() -> Service:
    """Of every process: buckets are in its memory."""
    sweeper = Watcher([LIMITER.sweep], SWEEP_EVERY)
    return Service("limits", sweeper.start, sweeper.stop)


def _slots(url: str, channel: str, relay: "Relay") -> Service:
    """The ceilings of all processes together."""
    from modelhotel.ops.slot_store import RedisClaims

    claims = RedisClaims(url, f"{channel}:slots", lambda provider_id: relay.send("slots", provider_id))

    def start() -> None:
        windows.windows().claims = claims
        claims.start()

    relay.on("slots", lambda body: windows.windows().heard(msgspec.json.decode(body, type=str)))
    return Service("slots", start, claims.stop)


def _limits(url: str, channel: str) -> Service:
    """The token buckets of all processes together; each budget's events are told by one of them."""
    from modelhotel.ops.limit_store import RedisBuckets

    store = RedisBuckets(url, f"{channel}:limits")

    def start() -> None:
        store.start()
        LIMITER.share(store)

    return Service("shared limits", start, store.stop)


def stop_app_log() -> None:
    """Last of all, so that what the others said on their way down is in it."""
    logqueue.flush()
    APP_LOG.stop(LINES)


def _relay(env: Environment) -> Sequence[Service]:
    if not env.redis_url:
        return ()
    from modelhotel.ops.relay import Relay  # brings the Redis client with it: 6 MB that SQLite installations save

    channel = f"modelhotel:{config_store.load_note(INSTANCE)}"
    relay = Relay(env.redis_url, channel, snapshots.refresh_behind)
    changes.configure(config_store.bump_versions, relay.announce)
    return (
        Service("relay", relay.start, relay.stop),
        _circuits(env.redis_url, channel, relay),
        _slots(env.redis_url, channel, relay),
        _limits(env.redis_url, channel),
    )


def _circuits(url: str, channel: str, relay: "Relay") -> Service:
    """The circuit breaker of all processes together."""
    from modelhotel.ops.circuit_store import RedisStore

    store = RedisStore(url, f"{channel}:circuits")
    board = breaker.share(store, lambda news: relay.send("circuits", news))
    relay.on("circuits", lambda body: board.hear(msgspec.json.decode(body, type=News)))
    relay.on_connect(board.catch_up)

    def stop() -> None:
        board.stop()
        store.close()

    return Service("circuits", board.start, stop)


def _told_to_the_others() -> Sequence[Service]:
    """A thread of its own: what the database holds up must not hold up the metrics."""
    if workers.directory() is None:
        return ()
    teller = Watcher([scrape.publish])
    return (Service("metrics", teller.start, teller.stop),)


def _orphan_watch() -> Callable[[], None]:
    """A worker whose supervisor died stops: nobody renews the node's lease or would ever stop it."""
    parent = os.getppid()

    def look() -> None:
        if os.getppid() != parent:
            log.error("serve: the supervisor is gone, stopping")
            os.kill(os.getpid(), signal.SIGTERM)

    return look
