"""The long bench, cut to a few seconds: every part of it that needs no other gateway runs and answers rightly."""

import json
from pathlib import Path

import pytest

from tests.bench import full, report, rows, special
from tests.wire.product import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.compiler, pytest.mark.timeout(180)]
TINY = full.Plan(rounds=1, slow=1, factor=0.2, models=200, rows=2_000)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> report.Found:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "LOADS", tuple(rows.BY_NAME[name] for name in ("body-16", "stream-16", "paced-200")))
        patch.setattr(special, "STARTS", 1)
        told = full.measure(TINY, ["floor", "starts", "big"], "the tests")
    file = tmp_path_factory.mktemp("bench") / "results.json"
    file.write_text(json.dumps(told))
    back: report.Found = json.loads(file.read_text())
    return back


def test_every_side_answers_every_load_whole(found: report.Found):
    seen = {(run["side"], run["load"]) for run in found["runs"]}
    loads = {"body-16", "stream-16", "paced-200"}
    sides = {"direct", "floor", special.NAME}
    own = {(special.NAME, "dashboards"), (special.NAME, special.TRANSLATED)}
    assert seen == {(side, load) for side in sides for load in loads} | own
    assert not any(run["bad"] + run["failures"] for run in found["runs"])
    assert all(run["rate"] > 0 for run in found["runs"])


def test_dashboards_load_their_pages_beside_the_clients(found: report.Found):
    (run,) = (run for run in found["runs"] if run["load"] == "dashboards")
    assert run["pages"] >= special.PEOPLE
    assert run["wrong"] == []


def test_a_house_that_was_filled_answers_calls_and_pages(found: report.Found):
    assert found["big"]["full"][0]["rate"] > 0
    assert not any(map(rows.wrong, found["big"]["full"]))
    assert all(ms["median"] > 0 for ms in found["big"]["pages"].values())


def test_the_tables_hold_what_was_measured_and_say_what_was_not(found: report.Found):
    text = report.markdown(found)
    assert "| direct | floor | Model Hotel |" in text
    assert "ready on a migrated database after | at most 3 s | " in text
    assert "two workers, times one | at least 1.7 | - | not measured |" in text


def test_the_page_has_the_block_that_write_replaces():
    page = (Path(ROOT) / "docs/performance.md").read_text()
    assert "new figures" in report.replaced(page, "new figures")
