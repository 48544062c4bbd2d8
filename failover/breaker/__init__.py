"""The circuit breaker; :func:`board` is the one of this process."""

import logging
from collections.abc import Callable, Mapping

from failover.breaker.board import Board
from failover.breaker.rules import BreakerSettings, of_options
from failover.breaker.shared import SharedBoard
from failover.breaker.store import News, Store
from failover.caps import CAPS
from failover.tally import TALLY
from modelhotel.core import options
from modelhotel.core.clock import SYSTEM
from providers import cache

log = logging.getLogger("circuit-breaker")

#: Told the provider of every circuit that opens on answers; whoever is told must return at once.
openings: list[Callable[[str], None]] = []


_read = options.derived(of_options)


def _settings() -> BreakerSettings:
    return _read(options.current())


def _name_of(provider_id: str) -> str:
    """The provider's current name; empty for one that is not (or no longer) in the catalogue."""
    row = cache.SNAPSHOT.current.providers.get(provider_id)
    return row.name if row else ""


def _opened(provider_id: str) -> None:
    for tell in tuple(openings):
        try:
            tell(provider_id)
        except Exception:  # what is told must not change what was decided
            log.exception("circuit-breaker: opening not told")


def _new() -> Board:
    return Board(SYSTEM, _settings, _name_of, opened=_opened)


_board = _new()


def board() -> Board:
    return _board


def reset_board() -> Board:
    """Start with a fresh board (tests)."""
    global _board
    _board = _new()
    return _board


def share(store: Store, send: Callable[[News], None]) -> SharedBoard:
    """From now on the circuits are those of all processes; the board, to be started and stopped."""
    global _board
    _board = shared = SharedBoard(SYSTEM, _settings, _name_of, opened=_opened, store=store, send=send)
    return shared


def _follow_catalogue(catalogue: cache.Catalogue) -> None:
    # Also catches late results of a deleted provider, and deletions made by another process.
    known: Mapping[str, cache.ProviderRow] = catalogue.providers
    _board.keep_only(known.keys())
    CAPS.keep_only(known.keys())
    TALLY.keep_only(known.keys())


cache.SNAPSHOT.listeners.append(_follow_catalogue)
