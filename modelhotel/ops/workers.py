"""What the workers of a node tell each other for the metrics: files in a directory that their supervisor makes.

``counter_<pid>.db`` and ``histogram_<pid>.db`` are prometheus_client's, written with every count; ``live-<pid>.json``
holds a worker's gauges, written every half second. When a worker is dead, what it counted is added to the files of the
buried, so that no counter runs backwards and a thousand restarts leave no thousand files.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec
from prometheus_client.mmap_dict import MmapedDict

from modelhotel.core.metrics import DIRECTORY
from modelhotel.ops.gauges import Values

#: Seconds after which gauges are a dead worker's.
STALE = 5.0
_KINDS = ("counter", "histogram")
_BURIED = "buried"
_Live = dict[str, list[tuple[tuple[str, ...], float]]]
_decode = msgspec.json.Decoder(_Live).decode


def directory() -> Path | None:
    """Where the workers of this node meet; None in a process that serves alone."""
    name = os.environ.get(DIRECTORY)
    return Path(name) if name else None


def prepare(data_dir: Path, node: str) -> Path:
    """An empty directory for a node that starts; what a killed supervisor left behind goes."""
    found = data_dir / "metrics" / quote(node, safe="")
    shutil.rmtree(found, ignore_errors=True)
    found.mkdir(mode=0o700, parents=True)
    return found


def clear(found: Path) -> None:
    """The node has ended."""
    shutil.rmtree(found, ignore_errors=True)


@contextmanager
def held(found: Path, *, alone: bool = False) -> Iterator[None]:
    """Nobody is buried while the files are read, and nobody reads while one is being buried (*alone*)."""
    with (found / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def publish(found: Path, values: Values) -> None:
    """Let the other workers know this one's gauges."""
    path = found / f"live-{os.getpid()}.json"
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode({name: list(series.items()) for name, series in values.items()}))
    fresh.replace(path)


def others(found: Path) -> dict[int, Values]:
    """The gauges of the other workers, by process id."""
    since = time.time() - STALE
    return {
        pid: {name: dict(series) for name, series in _decode(path.read_bytes()).items()}
        for path in sorted(found.glob("live-*.json"))
        if (pid := int(path.stem.partition("-")[2])) != os.getpid() and path.stat().st_mtime >= since
    }


def bury(found: Path, pid: int) -> None:
    """The worker is dead: its gauges go, its counts stay. By the supervisor."""
    with held(found, alone=True):
        (found / f"live-{pid}.json").unlink(missing_ok=True)
        for kind in _KINDS:
            path = found / f"{kind}_{pid}.db"
            if path.exists():
                _add(path, found / f"{kind}_{_BURIED}.db")
                path.unlink()


def _add(path: Path, to: Path) -> None:
    total = MmapedDict(str(to))
    try:
        for key, value, stamp, _ in MmapedDict.read_all_values_from_file(str(path)):
            total.write_value(key, total.read_value(key)[0] + value, stamp)
    finally:
        total.close()
