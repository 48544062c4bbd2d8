"""What the walk works with; tests hand in their own waits, chance and circuits."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import random

from failover import breaker, windows
from failover.breaker.board import Board
from failover.windows import Windows
from providers.keyring import KEYRING
from providers.upstream.interface import Client
from providers.upstream.select import data_plane
from proxy.dialects.responses.reroute import Requirements
from proxy.gone.retirement import Retirement
from proxy.repairs import Learned


@dataclass(frozen=True, slots=True)
class Tools:
    """*sleep* takes seconds, *chance* yields [0, 1), *known_keys* every provider key in memory, *learned* is what the
    providers' 400s taught, *requirements* which models are for ``/v1/responses``, *retirement* who was refused by name.
    """

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random
    client: Callable[[], Client] = data_plane
    board: Callable[[], Board] = breaker.board
    windows: Callable[[], Windows] = windows.windows
    known_keys: Callable[[], tuple[str, ...]] = KEYRING.known
    learned: Learned = field(default_factory=Learned)
    requirements: Requirements = field(default_factory=Requirements)
    retirement: Retirement = field(default_factory=Retirement)
