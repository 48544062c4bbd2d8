"""The master key: the root secret under which provider keys are encrypted and from which SECRET_KEY is derived.

``MASTER_KEY`` of the environment, else the file ``<DATA_DIR>/master-key`` of the embedded default (SQLite). The file is
made by :func:`create` in the start sequence and nowhere else.
"""

import os
import secrets
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from modelhotel.core.environment import BadEnvironment, Environment

FILE_NAME = "master-key"
#: Shorter keys start with a warning (settings.md 7).
SHORT = 32
_PURPOSE = b"modelhotel django secret key v1"


def path(env: Environment) -> Path:
    return env.data_dir / FILE_NAME


def known(env: Environment) -> str:
    """The master key as it is now, empty when there is none. Raises BadEnvironment for a file that is unusable."""
    if env.master_key or not env.sqlite:
        return env.master_key
    file = path(env)
    try:
        text = file.read_text().strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as problem:
        raise BadEnvironment(f"MASTER_KEY: {file} can not be read: {problem}") from problem
    if not text:
        raise BadEnvironment(f"MASTER_KEY: {file} is empty; restore it from a backup, or set MASTER_KEY")
    return text


def create(env: Environment) -> str:
    """Make the file with a random key, mode 0600, in one step so that no reader ever sees half of it."""
    key = secrets.token_hex(32)
    handle, name = tempfile.mkstemp(prefix=".master-key-", dir=env.data_dir)  # mkstemp: mode 0600 from the start
    try:
        with os.fdopen(handle, "w") as file:
            file.write(key + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.rename(name, path(env))
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return key


def secret_key(master: str) -> str:
    """Django's SECRET_KEY: the same on every node and after every restart, and useless for decrypting anything.

    Without a master key (commands that need none) a random one that nothing outlives.
    """
    if not master:
        return secrets.token_hex(32)
    return HKDF(SHA256(), 32, salt=None, info=_PURPOSE).derive(master.encode()).hex()
