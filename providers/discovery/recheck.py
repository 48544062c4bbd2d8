"""The fast recheck: scans of the providers whose latest refresh failed, and of nobody else."""

from django.db.models import Q

from providers.cache import row_of
from providers.discovery import inventory
from providers.discovery.flights import Claims, Inbox
from providers.discovery.listing import Fetched
from providers.discovery.scan import RECHECK, SCANNER, Scanner, cut_off
from providers.models import Provider

#: One provider's listing; a provider that hangs delays nobody but itself.
RECHECK_SECONDS = 30.0


def failing() -> list[Provider]:
    """The providers that take part in discovery whose latest refresh failed in either respect, or that are stale."""
    bad = ~Q(last_model_fetch_error="") | ~Q(last_availability_error="") | Q(inventory_stale=True)
    return list(Provider.objects.filter(bad, enabled=True, autodiscovery_enabled=True))


class Rechecker:
    """Scans without misses, journal or repeated complaints."""

    def __init__(self, scanner: Scanner = SCANNER) -> None:
        self._scanner = scanner
        self._inbox: Inbox[Fetched] = Inbox()
        self._stopped = False

    def run(self) -> None:
        """Ask all of them at once; one that is being scanned already is left to that scan."""
        inbox = self._inbox = Inbox[Fetched]()
        if self._stopped:
            return
        rows = {str(row.pk): row for row in failing()}
        still = []
        with Claims(self._scanner.flights, rows) as claims:
            for provider_id in claims.own:
                inbox.ask(provider_id, self._scanner.fetch(row_of(rows[provider_id]), RECHECK_SECONDS))
            while inbox.waiting:
                provider_id, fetched = inbox.take()
                with claims.landing(provider_id) as landing:
                    row = rows[provider_id]
                    landing.result = self._scanner.write(row, fetched, RECHECK) if fetched else cut_off(row)
                    if fetched and fetched.failed:
                        still.append(provider_id)
        # Judged together: one that came back in this round is the alternative of those that did not.
        if still:
            inventory.after_single(still)

    def stop(self) -> None:
        """Cut off what is asked, for good. From any thread."""
        self._stopped = True
        self._inbox.cancel()
