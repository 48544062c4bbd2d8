"""``manage.py`` with a window for tests: ``python -m tests.endurance.watched serve``.

Whoever connects to the Unix socket ``watch`` in DATA_DIR gets one line of JSON: the asyncio tasks that run, by the name
of their coroutine. ``MH_TEST_MEMORY`` is how many request rows the process keeps in memory.
"""

import asyncio
import contextlib
import json
import os
import runpy
import socket
import sys
from collections import Counter
from pathlib import Path

from modelhotel.ops import serving
from requestlogs import recorder
from tests.wire.product import ROOT, Product

SOCKET = "watch"


async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    own = asyncio.current_task()
    tasks = Counter(task.get_coro().__qualname__ for task in asyncio.all_tasks() if task is not own)
    writer.write(json.dumps(tasks).encode() + b"\n")
    writer.close()


class Watched(serving.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._window = await asyncio.start_unix_server(tell, Path(os.environ["DATA_DIR"]) / SOCKET)


class WatchedProduct(Product):
    """The real product, started through this module."""

    def _command(self, server: str, args: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "tests.endurance.watched", "serve", "--port", "0", *args]

    def tasks(self) -> dict[str, int]:
        with socket.socket(socket.AF_UNIX) as window:
            window.connect(str(self.data_dir / SOCKET))
            told: dict[str, int] = json.loads(window.makefile().readline())
            return told

    def sockets(self) -> int:
        """File descriptors that are sockets."""
        found = 0
        for fd in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed in the meantime
                found += os.readlink(fd).startswith("socket:")
        return found

    def files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition(f"{name}:")[2].split()[0])

    def threads(self) -> int:
        return self._status("Threads")

    def memory(self) -> float:
        """Resident, MB."""
        return self._status("VmRSS") / 1024


if __name__ == "__main__":
    recorder.MEMORY = int(os.environ.get("MH_TEST_MEMORY", recorder.MEMORY))
    serving.Server = Watched  # type: ignore[misc]
    sys.argv[0] = str(ROOT / "manage.py")
    runpy.run_path(sys.argv[0], run_name="__main__")
