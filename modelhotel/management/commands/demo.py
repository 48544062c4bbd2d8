"""``manage.py demo``: the product with simulated providers and a trickle of traffic, for a first look without a key."""

import random
import socket
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from modelhotel.core.faults import Refusal
from modelhotel.management.commands import serve
from modelhotel.ops import demo, serving, startup
from modelhotel.ops.faults import StartRefused


class Command(serve.Command):
    help = "Serve a demo from <DATA_DIR>/demo: three simulated providers, a failover group, a trickle of traffic."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", help="address to listen on (default: HOST)")
        parser.add_argument("--port", type=int, help="port to listen on, 0 for a free one (default: PORT)")
        parser.set_defaults(uds=None, workers=1, worker=None)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            settings.MH = demo.with_login(settings.MH)
        except StartRefused as problem:
            raise CommandError(f"model hotel can not start: {problem}") from None
        super().handle(*args, **options)

    def _serve(self, sock: socket.socket) -> None:
        from modelhotel import asgi

        asgi.lifecycle.prepare()
        url = serving.address(sock)
        with demo.Stage() as stage:
            try:
                key = demo.furnish(stage.addresses)
            except Refusal as problem:
                text = f"the demo can not be furnished, delete {settings.MH.data_dir} to start over: {problem.text}"
                raise StartRefused(text) from problem
            stage.add(demo.trickle(url, key, lambda: asgi.lifecycle.draining, random.random))
            startup.stdout(demo.guide(url, settings.MH, key))
            super()._serve(sock)
