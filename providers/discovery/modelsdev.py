"""models.dev, the public database of models: fetched once by each process, and a small copy until it is there."""

import logging
import threading
from concurrent.futures import CancelledError
from functools import cache
from pathlib import Path

from modelhotel.core import environment
from providers import control
from providers.discovery import known
from providers.discovery.known import BadDocument, Known
from providers.kinds.base import JSON_TYPE
from providers.kinds.registry import KINDS
from providers.upstream.interface import UpstreamError

log = logging.getLogger("discovery")

URL = "https://models.dev/api.json"
SECONDS = 15.0
LIMIT_BYTES = 50 * 1024 * 1024
#: Facts of well-known models in the schema of models.dev, compiled from their vendors' documentation.
SNAPSHOT = Path(__file__).with_name("catalogs") / "modelsdev-snapshot.json"
#: Who makes the models it sells; then who stands for a type of provider; then everybody else.
_MAKERS = frozenset(kind.modelsdev for kind in KINDS.values() if kind.modelsdev_only) | {"openai"}
_MAPPED = frozenset(kind.modelsdev for kind in KINDS.values() if kind.modelsdev)


def rank(provider: str) -> int:
    """Whose word on a model counts when several have it: the lowest."""
    return 0 if provider in _MAKERS else 1 if provider in _MAPPED else 2


class ModelsDev:
    """What this process knows from there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fetched: Known | None = None
        self._tried = False

    def current(self) -> Known:
        """What enriches a scan now: the fetched document, else the shipped copy; nothing when switched off."""
        if not environment.current().modelsdev_enabled:
            return known.NOTHING
        return self._fetched or shipped()

    def load(self, url: str = URL) -> None:
        """Fetch the document; the first call does it, later ones wait for it. A failure is a warning until a restart.

        Blocking, at most 15 s; not from an event loop. Never raises.
        """
        with self._lock:
            if self._tried or not environment.current().modelsdev_enabled:
                return
            self._tried = True
            try:
                self._fetched = known.read(control.LOOP.run(_fetch(url)), rank)
            except (UpstreamError, BadDocument, CancelledError) as problem:
                text = "models.dev can not be read, the shipped copy stays"
                log.warning(f"discovery: {text}", extra={"attrs": {"url": url, "error": str(problem) or "stopped"}})
                return
        attrs = {"models": len(self._fetched.everywhere), "providers": len(self._fetched.sections)}
        log.info("discovery: models.dev fetched", extra={"attrs": attrs})


async def _fetch(url: str) -> bytes:
    """The document. Raises UpstreamError, BadDocument."""
    answer = await control.exchange(control.client(), "GET", url, [JSON_TYPE], seconds=SECONDS, limit=LIMIT_BYTES)
    if answer.status != 200:
        raise BadDocument(f"HTTP {answer.status}")
    if answer.cut:
        raise BadDocument("the document is too large")
    return answer.body


@cache
def shipped() -> Known:
    return known.read(SNAPSHOT.read_bytes(), rank)


MODELSDEV = ModelsDev()
load = MODELSDEV.load
current = MODELSDEV.current
