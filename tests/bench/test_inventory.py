"""Many models: what ``python -m tests.bench.inventory`` measures, in a smaller house, with room for a busy machine."""

from pathlib import Path

import pytest

from tests.bench import inventory
from tests.pace import slower

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900, func_only=True)]
ROOM = 2.0
SHARE = 0.4
"""Of the ten thousand models, and of the time that grows with them."""


def test_thousands_of_models_are_swept_shown_and_rebuilt_beside_a_stream(tmp_path: Path):
    found = inventory.run(tmp_path, providers=round(inventory.PROVIDERS * SHARE))
    assert found.groups == 2000
    room = ROOM * slower()
    assert not found.missed(room), found.told()
    for name in ("sweep_s", "rebuild_ms"):
        assert getattr(found, name) <= inventory.TARGETS[name] * SHARE * room, found.told()
    assert found.growth_mb <= inventory.TARGETS["growth_mb"], "memory has nothing to do with how fast a machine is"


def test_a_figure_beyond_its_target_is_named():
    found = inventory.Figures(1, 1, sweeps_s=[61.0, 1.0, 1.0], rss_mb=[100.0, 100.0, 116.0], pages_ms={"/": 10.0})
    found.gaps_ms, found.rebuilds_ms = [24.0, 26.0, 90.0], [299.0]
    assert found.missed() == ["sweep_s", "growth_mb", "stall_ms"]
    assert found.missed(room=1.1) == []
