"""Which concrete thing stands behind each port of the lower floors."""

from django.conf import settings

from modelhotel import config_store, master
from modelhotel.core import catalogue, changes, crypto, options, snapshots


def connect() -> None:
    """Called once by ``AppConfig.ready``; touches neither the database nor the network."""
    assert catalogue.SECTIONS
    options.configure(config_store.stored_settings, settings.MH.raw)
    snapshots.configure(config_store.read_versions)
    changes.configure(config_store.bump_versions, lambda tables: None)  # the relay's start sets the second one
    if key := master.known(settings.MH):
        crypto.set_master_key(key.encode())
    _failover()


def _failover() -> None:
    from failover import ports
    from failover.maintenance import MAINTENANCE
    from providers import ports as provider_ports
    from requestlogs import totals

    ports.configure(load=config_store.load_note, store=config_store.store_note, tokens=totals.tokens_by_requested_name)
    provider_ports.configure(groups=MAINTENANCE)
