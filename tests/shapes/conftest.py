"""The stage of the playbooks."""

from tests.proxy.conftest import _clean_counters  # noqa: F401
from tests.proxy.walk.stage import stage  # noqa: F401
from tests.shapes.house import house, server, upstream  # noqa: F401
