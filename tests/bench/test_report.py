"""The tables and verdicts of the bench: what counts as met, and what is never hidden."""

from typing import Any

import pytest

from tests.bench import report


def run(side: str, load: str, number: int = 0, **figures: Any) -> dict[str, Any]:
    plain = {"rate": 1000.0, "chunks": 0.0, "p50": 1.0, "p99": 2.0, "first50": -1.0, "cpu": 0.5, "seconds": 1.0}
    return {"side": side, "load": load, "round": number, **plain, "bad": 0, "failures": 0, "cut": 0, **figures}


def found(*runs: dict[str, Any], **more: Any) -> dict[str, Any]:
    machine = {"cpu": "a cpu", "cores": 2, "kernel": "6", "python": "3.11", "load_before": 0.0}
    empty: dict[str, Any] = {name: {} for name in ("versions", "left_out", "ready", "rss")}
    return {
        "at": "a day",
        "command": "make bench",
        "machine": machine,
        "took_s": 60,
        "rounds": 1,
        "runs": list(runs),
        **empty,
        **more,
    }


def line(text: str, table: str) -> str:
    return next(row for row in table.splitlines() if row.startswith(f"| {text} |"))


def test_a_ratio_compares_within_a_round_and_leaves_out_rounds_that_only_one_had():
    runs = [run("nginx", "plain-16", n, rate=rate) for n, rate in enumerate((10_000, 20_000, 40_000))]
    runs += [run("Model Hotel", "plain-16", n, rate=rate) for n, rate in enumerate((1_000, 4_000, 4_000, 1))]
    assert report.ratio(found(*runs), "plain-16", report.rate, "nginx") == pytest.approx(0.1)


@pytest.mark.parametrize(("rate", "verdict"), [(800, "met"), (799, "**MISSED**")])
def test_a_target_is_met_at_its_limit_and_missed_below_it(rate: int, verdict: str):
    told = found(run("nginx", "plain-16", rate=10_000), run("Model Hotel", "plain-16", rate=rate))
    row = line("requests/s at 16 clients, of nginx", report.markdown(told))
    assert row.endswith(f"| {verdict} |")
    assert report.fine(told) is (verdict == "met")


@pytest.mark.parametrize(("chunks", "verdict"), [(34_000, "met"), (32_000, "**MISSED**")])
def test_translated_streams_are_compared_with_plain_ones_of_their_round(chunks: float, verdict: str):
    runs = [run("Model Hotel", "stream-16", n, chunks=100_000.0 * (n + 1)) for n in range(2)]
    runs += [run("Model Hotel", "translated", n, chunks=chunks * (n + 1)) for n in range(2)]
    text = report.markdown(found(*runs))
    assert line("chunks/s of translated streams, of plain ones", text).endswith(f"| {verdict} |")
    assert f"16 streams): {chunks * 1.5:,.0f} chunks/s" in text


def test_what_was_not_measured_is_said_and_is_no_failure():
    told = found(run("Model Hotel", "plain-16"), left_out={"LiteLLM": "no network"})
    text = report.markdown(told)
    assert line("requests/s at 16 clients, times LiteLLM", text).endswith("| - | not measured |")
    assert "**Left out**: LiteLLM, no network." in text
    assert report.fine(told)


@pytest.mark.parametrize("fault", ["bad", "failures", "cut"])
def test_a_wrong_answer_of_the_product_fails_the_run_and_one_of_a_peer_does_not(fault: str):
    assert report.fine(found(run("LiteLLM", "plain-64", **{fault: 3}), run("Model Hotel", "plain-64")))
    told = found(run("LiteLLM", "plain-64"), run("Model Hotel", "plain-64", **{fault: 3}))
    assert not report.fine(told)
    assert line("answers wrong or not finished", report.markdown(told)).endswith("| 3 | 0 |")


def test_cpu_per_chunk_counts_what_was_delivered_not_what_was_offered():
    assert report.per_chunk(run("nginx", "paced-200", cpu=0.5, chunks=5_000.0, seconds=2.0)) == pytest.approx(50)


def test_two_workers_are_compared_with_one_on_half_of_the_machine():
    rates = {"one": (100, 120), "one, more cores": (150, 150), "two": (180, 216)}
    workers = [
        run("", "", number, rate=rate, layout=name, rss=1.0)
        for name, both in rates.items()
        for number, rate in enumerate(both)
    ]
    text = report.markdown(found(workers=workers))
    assert line("two workers, times one", text).endswith("| 1.80 | met |")
    assert "Two workers by one that has the same cores: 1.32" in text


def test_the_block_of_the_page_is_replaced_and_nothing_else_is():
    page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    assert report.replaced(page, "new") == f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n"
    assert report.replaced(report.replaced(page, "new"), "newer").count("new") == 1
    with pytest.raises(ValueError, match="lacks"):
        report.replaced("a page without marks", "new")
