"""OpenAI's SDK for Node, of one version, installed once per user outside the repository."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PACKAGE, VERSION = "openai", "6.30.1"  # runs on the Node 18 of Debian 12; newer ones ask for 22
INSTALL_SECONDS = 50.0


class NotInstalled(Exception):
    """npm could not fetch the package, most often because there is no network."""


def folder() -> Path:
    """The folder whose ``node_modules`` has the package, installed if need be. Raises NotInstalled."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "model-hotel-tests"
    wanted = cache / f"{PACKAGE}-{VERSION}"
    if not wanted.is_dir():
        _install(cache, wanted)
    return wanted


def _install(cache: Path, wanted: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    # Beside the place and renamed when it is whole: several runs may do this at once.
    made = Path(tempfile.mkdtemp(prefix="installing-", dir=cache))
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1"]
    command = ["npm", "install", *options, "--prefix", str(made), f"{PACKAGE}@{VERSION}"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
        made.rename(wanted)
    except subprocess.CalledProcessError as problem:
        raise NotInstalled(problem.stderr.strip().partition("\n")[0]) from problem
    except subprocess.TimeoutExpired as problem:
        raise NotInstalled(f"npm took more than {INSTALL_SECONDS:g} s") from problem
    except OSError:
        if not wanted.is_dir():  # else another run was first
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
