"""The start sequence up to the point where background work begins (settings.md 8, steps 1 to 6).

Runs once per node, before the socket listens: in ``manage.py serve``, in the supervisor of several workers, in the
start hook under daphne. Everything that several nodes share is settled under one lock.
"""

import logging
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from modelhotel import config_store, master
from modelhotel.accounts import verbs
from modelhotel.core import crypto
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.environment import BadEnvironment, Environment
from modelhotel.core.options import REGISTRY, BadValue
from modelhotel.core.version import VERSION
from modelhotel.ops import banner, credentials, database, rotation
from modelhotel.ops.faults import StartRefused
from modelhotel.ops.nodes import Membership
from proxy import native_routes
from requestlogs import sweep

SEVERAL = "several workers need PostgreSQL and Redis: set DATABASE_URL and REDIS_URL, or start one worker"
#: Internal row of the settings table.
INSTANCE = "_instance_id"
log = logging.getLogger("start")


@dataclass(frozen=True, slots=True)
class Console:
    """Where a start speaks: *say* prints what must not go through the log (it is shown once), *pause* sleeps."""

    say: Callable[[str], None]
    pause: Callable[[float], object] = time.sleep


def stdout(text: str) -> None:
    # In one piece: the thread that prints the log writes in between otherwise.
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def check(env: Environment, workers: int = 1) -> None:
    """Step 1: what can be refused without touching anything. Raises StartRefused."""
    try:
        REGISTRY.fixed(env.raw)
    except BadValue as problem:
        raise StartRefused(str(problem)) from problem
    if workers > 1 and (env.sqlite or not env.redis_url):
        raise StartRefused(SEVERAL)
    if not env.sqlite and not env.master_key:
        raise StartRefused("MASTER_KEY is required")


def announce(env: Environment, console: Console) -> None:
    """Step 2: the banner, the warnings about single variables."""
    if env.log_format == "json":
        log.info("start: configuration", extra={"attrs": {"version": VERSION, **banner.configuration(env)}})
    else:
        console.say(banner.text(env))
    for warning in env.warnings:
        log.warning(f"start: {warning}")
    for word in native_routes.unknown_types(env):
        log.warning(f"start: ENABLED_PASSTHROUGH_PROVIDERS: {word!r} is no provider type, ignored")
    if env.debug_log_scopes and not env.debug_log:
        log.info("start: debug lines are on", extra={"attrs": {"scopes": ",".join(sorted(env.debug_log_scopes))}})


def settle_master_key(env: Environment) -> None:
    """Step 4. Raises StartRefused."""
    try:
        key = master.known(env)
    except BadEnvironment as problem:
        raise StartRefused(str(problem)) from problem
    if not key:
        if rotation.any_stored():
            raise StartRefused(
                f"MASTER_KEY: {master.path(env)} is missing, but the database holds secrets encrypted under it;"
                " restore the file, or set MASTER_KEY"
            )
        key = master.create(env)
        log.info("start: master key created, keep a copy of it", extra={"attrs": {"file": str(master.path(env))}})
    if len(key) < master.SHORT:
        log.warning(f"start: MASTER_KEY is shorter than {master.SHORT} characters")
    crypto.set_master_key(key.encode())
    settings.SECRET_KEY = master.secret_key(key)


def settle_instance() -> None:
    """A name of this installation, under which its processes find each other on a shared Redis."""
    if config_store.load_note(INSTANCE) is None:
        config_store.store_note(INSTANCE, secrets.token_hex(8))


def settle_credentials(env: Environment, console: Console) -> None:
    """Step 5, and the first account."""
    token, replaced = credentials.ensure_token(env)
    if replaced:
        log.info("start: the admin token is now the one of ADMIN_TOKEN")
    password = credentials.ensure_account(env)
    if text := banner.credentials(token, verbs.ADMIN_NAME, password):
        console.say(text)


def prepare(env: Environment, console: Console, *, workers: int = 1, clock: Clock = SYSTEM) -> Membership:
    """Steps 1 to 6. The node is a member of its database from here on. Raises StartRefused."""
    check(env, workers)
    announce(env, console)
    membership = Membership(env, clock, console.pause)
    if env.sqlite:
        # Before the database is touched: a second node must not migrate under the first one's feet.
        env.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        membership.join()
    database.open_database(env, clock, console.pause)
    try:
        with database.start_lock(env):
            if database.migrate():
                log.info("start: database migrated")
            if not env.sqlite:
                membership.join()
            settle_instance()
            settle_master_key(env)
            settle_credentials(env, console)
        sweep.at_start(env.node_name)
    except BaseException:
        membership.leave()
        raise
    finally:
        connection.close()
    return membership
