"""The Gemini dialect before inputs that are cut or broken anywhere."""

import pytest

from tests.fuzz.gemini import TARGETS

INPUTS = [
    pytest.param(target, seed, id=f"{target.__name__} {number}")
    for target, seeds in TARGETS.items()
    for number, seed in enumerate(seeds)
]


@pytest.mark.parametrize(("target", "seed"), INPUTS)
def test_an_input_that_is_cut_or_broken_anywhere_is_read_or_refused(target, seed):
    target(seed)
    for at in range(0, len(seed), 3):
        target(seed[:at])
        target(seed[:at] + b'"' + seed[at:])
        target(seed[:at] + b"\xff" + seed[at + 1 :])
