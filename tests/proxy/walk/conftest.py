"""The stage of the playbooks."""

from tests.proxy.walk.stage import stage  # noqa: F401
