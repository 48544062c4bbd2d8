"""Which concrete thing stands behind each port of the lower floors."""

from collections.abc import Mapping

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
    _providers()
    _requestlogs()
    _app_log()
    _pages()


def _failover() -> None:
    from failover import ports
    from requestlogs import totals

    ports.configure(load=config_store.load_note, store=config_store.store_note, tokens=totals.tokens_by_requested_name)


def _providers() -> None:
    from failover import quotawatch
    from failover.breaker import health
    from failover.maintenance import MAINTENANCE
    from modelhotel.accounts import provider_access
    from providers import ports
    from proxy import model_call
    from proxy import verbs as keys
    from requestlogs import provider_port

    def inflight_limits() -> Mapping[str, int]:
        from modelhotel.ops import scrape  # brings prometheus_client with it, which no command needs

        return scrape.inflight_limits()

    ports.configure(
        groups=MAINTENANCE,
        circuits=health,
        keys=keys,
        users=provider_access,
        logs=provider_port,
        notes=config_store,
        build_chat=model_call.build,
        inflight_limits=inflight_limits,
        judge_quotas=quotawatch.judge,
    )


def _requestlogs() -> None:
    from proxy.models import VirtualKey
    from requestlogs import ports

    keys = VirtualKey.objects.order_by()
    ports.configure(lambda: keys.values_list("pk", flat=True), lambda: keys.values_list("pk", "name"))


def _app_log() -> None:
    """Lines are kept from here on; a server's first service writes them."""
    from modelhotel.core import logqueue
    from requestlogs.applog import APP_LOG

    logqueue.listen(APP_LOG.take)


def _pages() -> None:
    from modelhotel.accounts import audit
    from modelhotel.core import verbadmin

    verbadmin.configure(audit.of_request)
