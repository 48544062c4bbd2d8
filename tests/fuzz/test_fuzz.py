"""Every target of the fuzzer with some inputs, and that it would find what it looks for."""

import mmap

import pytest

from tests.fuzz import engine, page
from tests.fuzz.registry import TARGETS, Target

TOTAL = 20_000
"""Inputs over all targets."""


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name):
    outcome = engine.run(name, TOTAL // len(TARGETS) + 1)
    assert outcome.inputs > TOTAL // len(TARGETS)
    assert not outcome.findings, "\n".join(f"{f.what} at {f.where}: {f.data!r}" for f in outcome.findings)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", TARGETS)
def test_a_large_input_costs_time_and_memory_by_its_size(name):
    outcome = engine.run_large(name)
    assert not outcome.findings, "\n".join(f"{f.what} at {f.where}: {f.data[:200]!r}" for f in outcome.findings)


def _forever(_data: bytes) -> None:
    while True:
        pass


_KEPT: list[mmap.mmap] = []


def _hoard(data: bytes) -> None:
    # Pages of its own: blocks of the heap may be ones that an earlier test gave back.
    pages = mmap.mmap(-1, 16384)
    pages.write(b"x" * 16384)
    _KEPT.append(pages)


def _raise(data: bytes) -> None:
    if b"\xff" in data:
        raise TypeError(data)


@pytest.mark.parametrize(
    ("run", "inputs", "what"),
    [
        pytest.param(_raise, 2000, "TypeError", id="an exception"),
        pytest.param(_forever, 1, "over 0.2 s", id="a loop without end"),
        pytest.param(_hoard, 2000, "grew by", id="memory that is kept"),
    ],
)
def test_what_is_wrong_is_found(monkeypatch, run, inputs, what):
    monkeypatch.setitem(TARGETS, "wrong", Target(run, (b'{"a":1}',)))
    monkeypatch.setattr(engine, "SECONDS_PER_INPUT", 0.2)
    monkeypatch.setattr(engine, "GROWTH", 4 << 20)
    try:
        findings = engine.run("wrong", inputs).findings
    finally:
        _KEPT.clear()
    assert [finding.what.startswith(what) for finding in findings] == [True]


def test_the_same_number_gives_the_same_inputs():
    seeds = TARGETS["chat.request"].seeds
    first, second, other = (engine.Mutator(seeds, number) for number in (1, 1, 2))
    made = [first.next() for _ in range(50)]
    assert made == [second.next() for _ in range(50)]
    assert made != [other.next() for _ in range(50)]
    assert len(set(made)) > 25


def test_the_page_has_a_row_for_every_target():
    assert list(page.rows(page.PAGE.read_text())) == list(TARGETS)
