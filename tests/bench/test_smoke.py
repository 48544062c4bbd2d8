"""The bench, short and with a generous margin: it catches the change that halves the hot path, not the last percent."""

import pytest

from tests.bench import smoke

MARGIN = 0.2  # of the floor's requests per second; `make bench` holds 0.35


@pytest.mark.timeout(120)
@pytest.mark.compiler
def test_v1_keeps_a_fair_share_of_the_plain_floor():
    result = smoke.measure(rounds=3, seconds=0.6)
    print(result.table())
    for kind in ("plain", "stream"):
        # On a machine with neighbours the clock lies to one side or the other; CPU time does so less.
        best = max(result.ratio(kind), result.ratio(kind, by_cpu=True))
        assert best >= MARGIN, f"{kind}: {best:.2f}\n{result.table()}"
