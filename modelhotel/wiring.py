"""Which concrete thing stands behind each port of the lower floors."""

from django.conf import settings

from modelhotel import config_store
from modelhotel.core import catalogue, changes, options, snapshots


def connect() -> None:
    """Called once by ``AppConfig.ready``; touches neither the database nor the network."""
    assert catalogue.SECTIONS
    options.configure(config_store.stored_settings, settings.MH.raw)
    snapshots.configure(config_store.read_versions)
    changes.configure(config_store.bump_versions, lambda tables: None)
