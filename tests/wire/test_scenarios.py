"""The sixteen public failover scenarios (beyond 6), in real time: with the defaults none may fail."""

import asyncio

import pytest

from tests.wire.scenarios import CALLS, OUTAGE, REASON, Outcome, stage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

COOLDOWN = 60.0
"""The default of circuit_breaker_cooldown, in seconds."""


@pytest.fixture(scope="module")
def defaults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    with stage(tmp_path_factory.mktemp("defaults"), {}) as made:
        return asyncio.run(made.play())


@pytest.mark.parametrize("name", ["S01", "S02", "S03", "S04", "S05", "S06", "S07", "S10", "S11", "S12", "S16"])
def test_the_caller_gets_all_sixty_words(defaults: dict[str, Outcome], name: str):
    assert defaults[name].first.complete, defaults[name]


@pytest.mark.parametrize("name", ["S08", "S09", "S14"])
def test_a_stream_that_dies_says_so_while_nothing_may_finish_it(defaults: dict[str, Outcome], name: str):
    seen = defaults[name].first
    assert seen.honest and not seen.complete, seen
    assert "last message" not in str(seen.error)


def test_s01_and_s02_a_busy_provider_is_not_pressed(defaults: dict[str, Outcome]):
    s01, s02 = defaults["S01"], defaults["S02"]
    assert s01.asked_a(1.5) + sum(at <= 1.5 for at in s01.at_b) <= 2 and s01.asked_a(1.8) == 1
    assert s02.asked_a(3.0) <= 4 and len(s02.at_a) <= 6 and s02.first.model == "fallback-s02"


def test_s04_and_s16_a_dead_provider_is_asked_a_few_times_at_most(defaults: dict[str, Outcome]):
    assert len(defaults["S04"].at_a) <= 6
    assert defaults["S16"].first.model == "fallback-s16" and defaults["S16"].first.usage


def test_s06_a_mute_provider_is_asked_once(defaults: dict[str, Outcome]):
    s06 = defaults["S06"]
    assert (len(s06.at_a), s06.first.model) == (1, "fallback-s06") and s06.first.seconds < 100


def test_s09_the_next_call_works_within_its_time(defaults: dict[str, Outcome]):
    dead, following = defaults["S09"].calls
    assert dead.seconds < 45 and following.complete


def test_s11_a_missing_done_costs_no_time_and_no_usage(defaults: dict[str, Outcome]):
    seen = defaults["S11"].first
    assert seen.seconds < 8 and seen.usage and seen.last == "[DONE]"


def test_s12_a_prompt_too_long_is_asked_of_a_once(defaults: dict[str, Outcome]):
    assert (len(defaults["S12"].at_a), defaults["S12"].first.model) == (1, "fallback-s12")


def test_s13_a_policy_refusal_is_the_callers_in_the_providers_words(defaults: dict[str, Outcome]):
    s13 = defaults["S13"]
    assert s13.first.status == 400 and s13.first.error is not None
    assert (s13.first.error["message"], s13.first.error["code"]) == (REASON, "content_policy_violation")
    assert (len(s13.at_a), len(s13.at_b)) == (1, 0)


def test_s15_every_call_is_served_and_a_serves_again_within_a_cooldown(defaults: dict[str, Outcome]):
    s15 = defaults["S15"]
    assert len(s15.calls) >= CALLS and all(seen.complete for seen in s15.calls)
    assert s15.by_a and s15.by_a[0] < OUTAGE + COOLDOWN
