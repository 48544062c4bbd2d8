"""The environment of ``manage.py demo``: where to listen, how to log, whether to let change, and nothing else. Pure.

The database, the keys and the settings of a real installation stand in the same environment or ``.env``; a demo that
read them would write its providers into that installation.
"""

from collections.abc import Mapping
from pathlib import Path

#: The simulated providers listen here and nowhere else.
LOOPBACK = "127.0.0.1"
#: Directory of the demo inside ``DATA_DIR``.
DIRECTORY = "demo"
_TAKEN_OVER = (
    *("HOST", "PORT", "LOG_FORMAT", "DEBUG_LOG", "DEBUG_LOG_SCOPES", "UPSTREAM_CLIENT", "NODE_NAME"),
    "DEMO_READONLY",
)


def of(raw: Mapping[str, str]) -> dict[str, str]:
    """What the demo is configured from, given the process environment."""
    kept = {name: raw[name] for name in _TAKEN_OVER if name in raw}
    data_dir = Path(raw.get("DATA_DIR", "").strip() or "./data").expanduser()
    return {
        **kept,
        "DATA_DIR": str(data_dir / DIRECTORY),
        "ALLOW_HTTP_PROVIDERS": "true",
        "ALLOWED_PROVIDER_HOSTS": LOOPBACK,
        # A demo asks nobody outside.
        "MODELSDEV_ENABLED": "false",
    }
