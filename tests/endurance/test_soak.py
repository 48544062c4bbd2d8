"""A minute of mixed load with 5 % faults; ``python -m tests.endurance.soak`` is the ten minutes of the same."""

from pathlib import Path

import pytest

from tests.endurance.soak import FAULT_KINDS, Soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

#: MB that the process may have grown by after the warm-up: caches still fill; a leak of a kilobyte a request is more.
GROWTH = 10.0


def test_after_a_minute_of_faults_everything_is_back_where_it_was(tmp_path: Path):
    with Soak(tmp_path / "data", seed=1) as soak:
        report = soak.run(20.0, 40.0)
        print(report)
        assert report.wrong == []
        assert report.rows_wrong == []
        assert set(FAULT_KINDS) <= set(report.asked)
        assert report.after.sockets <= report.before.sockets
        assert report.after.tasks == report.before.tasks
        assert report.after.files <= report.before.files + 2
        assert report.after.memory <= report.before.memory + GROWTH
        assert soak.product.stop() == 0
