"""The last 429 of each provider that said its quota or balance is spent (failover-loop 7.9).

For providers that no usage reading can be had of: their card shows it instead. In memory, lost at a restart. Holds
the gateway's own words only, never the provider's.
"""

from collections.abc import Collection

from providers.ports import LastCap


class Caps:
    """One note per provider id; the later one counts. Any thread: each call is one operation on a dict."""

    def __init__(self) -> None:
        self._notes: dict[str, LastCap] = {}

    def note(self, provider_id: str, cap: LastCap) -> None:
        self._notes[provider_id] = cap

    def last(self, provider_id: str) -> LastCap | None:
        return self._notes.get(provider_id)

    def forget(self, provider_id: str) -> None:
        self._notes.pop(provider_id, None)

    def keep_only(self, provider_ids: Collection[str]) -> None:
        """Forget every provider that is not among *provider_ids*."""
        for provider_id in [known for known in tuple(self._notes) if known not in provider_ids]:
            self.forget(provider_id)


CAPS = Caps()
"""The notes of this process."""
