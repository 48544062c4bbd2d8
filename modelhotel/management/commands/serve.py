"""``manage.py serve``: the product."""

import logging
import os
import socket
import sys
from argparse import ArgumentParser
from dataclasses import replace
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from modelhotel.core.environment import Environment
from modelhotel.core.metrics import DIRECTORY
from modelhotel.ops import lifecycle, memory, services, serving, startup, supervisor
from modelhotel.ops import workers as metrics_of
from modelhotel.ops.faults import StartRefused
from modelhotel.ops.watch import Watcher
from requestlogs.applog import APP_LOG

log = logging.getLogger("serve")


class Command(BaseCommand):
    help = "Run the gateway: /v1, the admin API and the dashboard. SIGTERM drains it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", help="address to listen on (default: HOST)")
        parser.add_argument("--port", type=int, help="port to listen on, 0 for a free one (default: PORT)")
        parser.add_argument("--uds", help="listen on this Unix socket instead")
        parser.add_argument("--workers", type=int, default=1, help="processes; several need PostgreSQL and Redis")
        parser.add_argument("--worker", type=int, help="used by the supervisor: number of the socket to serve")

    def handle(self, *args: Any, **options: Any) -> None:
        env: Environment = settings.MH
        memory.settle_allocator()
        try:
            if options["worker"] is not None:
                return self._serve(socket.socket(fileno=options["worker"]))
            self._start(env, options)
        except StartRefused as problem:
            raise CommandError(f"model hotel can not start: {problem}") from None

    def _start(self, env: Environment, options: dict[str, Any]) -> None:
        workers = options["workers"]
        if workers < 1:
            raise StartRefused("--workers: at least 1")
        host = options["host"] or env.host
        port = env.port if options["port"] is None else options["port"]
        startup.check(env, workers)
        try:
            sock = serving.bind(host, port, options["uds"])
        except OSError as problem:
            where = options["uds"] or f"{host}:{port}"
            raise StartRefused(f"PORT: {where} can not be listened on: {problem.strerror or problem}") from problem
        # The banner shows what is in force.
        settings.MH = replace(env, host=host, port=port)
        if workers == 1:
            return self._serve(sock)
        self._supervise(settings.MH, sock, workers)

    def _serve(self, sock: socket.socket) -> None:
        from modelhotel import asgi
        from proxy import shutdown

        asgi.lifecycle.prepare()
        if asgi.lifecycle.membership is not None:
            self._welcome(sock)
        serving.run(serving.Server(asgi.application, asgi.lifecycle, shutdown.interrupt_streams), sock)

    def _supervise(self, env: Environment, sock: socket.socket, workers: int) -> None:
        membership = startup.prepare(env, startup.Console(startup.stdout), workers=workers)
        self._welcome(sock)
        sock.listen(2048)
        together = metrics_of.prepare(env.data_dir, env.node_name)
        environ = {**os.environ, lifecycle.WORKERS: str(workers), DIRECTORY: str(together)}
        watcher = Watcher([membership.renew], every=1.0)
        watcher.start()
        APP_LOG.run(env.node_name)
        died = partial(metrics_of.bury, together)
        code = supervisor.Supervisor(supervisor.command(), sock, workers, environ, died).run()
        metrics_of.clear(together)
        watcher.stop()
        services.stop_app_log()
        membership.leave()
        sys.exit(code)

    def _welcome(self, sock: socket.socket) -> None:
        startup.stdout(f"Dashboard: {serving.address(sock)}/")
