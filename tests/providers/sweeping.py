"""A house whose providers are swept without waiting."""

import threading
from collections.abc import Callable
from typing import Any

from modelhotel.core import events
from modelhotel.core.threads import released
from providers.discovery import scan
from providers.discovery.sweep import Report, Source, Sweeper
from providers.models import Model, Provider
from tests.providers.conftest import Api
from tests.upstream.server import FakeProvider, reply


class House:
    """Providers, each with its upstream, and what sweeps tell. *naps*: the waits before confirmations."""

    def __init__(self, api: Api, told: list[events.Event]) -> None:
        self.api = api
        self.told = told
        self.naps: list[float] = []
        self.before_confirmation: list[Any] = []  # callables, one per confirmation
        self.sweeper = Sweeper(scan.SCANNER, sleep=self._nap, chance=lambda: 0.5)

    async def _nap(self, seconds: float) -> None:
        self.naps.append(seconds)
        if self.before_confirmation:
            self.before_confirmation.pop(0)()

    def provider(self, upstream: FakeProvider, name: str = "P", **more: Any) -> dict[str, Any]:
        made = self.api.provider(upstream, name=name, **more)
        assert self.api.post(f"/providers/{made['id']}/discover").status_code == 200
        return made

    def sweep(self, source: Source = "Scheduled") -> list[events.Event]:
        """The events of one sweep, ``config.changed`` left out."""
        self.naps.clear()
        start = len(self.told)
        report = self.sweeper.run(source)
        assert report is None or isinstance(report, Report)
        return [event for event in self.told[start:] if event.type != "config.changed"]


def beside(work: Callable[[], object]) -> threading.Thread:
    """A started thread that leaves no database connection behind."""
    thread = threading.Thread(target=released, args=(work,))
    thread.start()
    return thread


def of_type(told: list[events.Event], type: str) -> list[Any]:
    return [event.metadata for event in told if event.type == type]


def types(told: list[events.Event]) -> list[str]:
    return [event.type for event in told]


def streaks() -> dict[str, tuple[bool, int]]:
    """Model id -> (enabled, missing_scans)."""
    rows = Model.objects.order_by("model_id").values_list("model_id", "enabled", "missing_scans")
    return {model_id: (enabled, missing) for model_id, enabled, missing in rows}


def numbered(*numbers: int) -> list[str | dict[str, Any]]:
    return [f"m{number:02}" for number in numbers]


def listing(*ids: Any) -> Any:
    return reply(200, {"data": [{"id": model_id, "owned_by": "o"} for model_id in ids]})


def provider_row(name: str = "P") -> Provider:
    return Provider.objects.get(name=name)
