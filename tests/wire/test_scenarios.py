"""The sixteen public failover scenarios (beyond 6), in real time.

With the preset ``resilient`` all of them must pass. With the defaults none may fail: no caller waits for ever, and no
part of an answer is sold as the whole.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.wire.scenarios import CALLS, OUTAGE, REASON, Outcome, stage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

COOLDOWN = 60.0
"""The default of circuit_breaker_cooldown, in seconds."""
PRESETS = {"defaults": "balanced", "resilient": "resilient"}
ANSWERED = ["S01", "S02", "S03", "S04", "S05", "S06", "S07", "S10", "S11", "S12", "S16"]
DYING = ["S08", "S09", "S14"]

Played = dict[str, dict[str, Outcome]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All scenarios of both profiles, side by side on two products."""

    def play(profile: str) -> dict[str, Outcome]:
        with stage(tmp_path_factory.mktemp(profile), PRESETS[profile]) as made:
            return asyncio.run(made.play())

    with ThreadPoolExecutor() as threads:
        return dict(zip(PRESETS, threads.map(play, PRESETS), strict=True))


@pytest.fixture(params=list(PRESETS))
def outcomes(request: pytest.FixtureRequest, played: Played) -> dict[str, Outcome]:
    return played[request.param]


@pytest.fixture
def resilient(played: Played) -> dict[str, Outcome]:
    return played["resilient"]


@pytest.mark.parametrize("name", ANSWERED)
def test_the_caller_gets_all_sixty_words(outcomes: dict[str, Outcome], name: str):
    assert outcomes[name].first.complete, outcomes[name]


@pytest.mark.parametrize("name", DYING)
def test_a_stream_that_dies_says_so_while_nothing_may_finish_it(played: Played, name: str):
    seen = played["defaults"][name].first
    assert seen.honest and not seen.complete, seen
    assert "last message" not in str(seen.error)


@pytest.mark.parametrize("name", DYING)
def test_a_stream_that_dies_is_finished_by_b(resilient: dict[str, Outcome], name: str):
    seen = resilient[name].first
    assert seen.complete and seen.last == "[DONE]", seen
    assert seen.model == f"fallback-{name.lower()}" and seen.usage


def test_s01_a_stated_wait_is_waited_out(resilient: dict[str, Outcome]):
    s01 = resilient["S01"]
    assert s01.first.model == "s01" and s01.at_a[1] - s01.at_a[0] >= 1.8


def test_s01_and_s02_a_busy_provider_is_not_pressed(outcomes: dict[str, Outcome]):
    s01, s02 = outcomes["S01"], outcomes["S02"]
    assert s01.asked_a(1.5) + sum(at <= 1.5 for at in s01.at_b) <= 2 and s01.asked_a(1.8) == 1
    assert s02.asked_a(3.0) <= 4 and len(s02.at_a) <= 6 and s02.first.model == "fallback-s02"


def test_s03_one_error_is_asked_again(resilient: dict[str, Outcome]):
    assert len(resilient["S03"].at_a) == 2 and resilient["S03"].first.model == "s03"


def test_s04_and_s16_a_dead_provider_is_asked_a_few_times_at_most(outcomes: dict[str, Outcome]):
    assert len(outcomes["S04"].at_a) <= 6
    assert outcomes["S16"].first.model == "fallback-s16" and outcomes["S16"].first.usage


def test_s06_a_mute_provider_is_asked_once(outcomes: dict[str, Outcome]):
    s06 = outcomes["S06"]
    assert (len(s06.at_a), s06.first.model) == (1, "fallback-s06") and s06.first.seconds < 100


def test_s07_a_late_first_token_is_not_waited_for(resilient: dict[str, Outcome]):
    assert resilient["S07"].first.seconds < 15


def test_s09_the_next_call_works_within_its_time(outcomes: dict[str, Outcome]):
    dead, following = outcomes["S09"].calls
    assert dead.seconds < 45 and following.complete


def test_s11_a_missing_done_costs_no_time_and_no_usage(outcomes: dict[str, Outcome]):
    seen = outcomes["S11"].first
    assert seen.seconds < 8 and seen.usage and seen.last == "[DONE]"


def test_s12_a_prompt_too_long_is_asked_of_a_once(outcomes: dict[str, Outcome]):
    assert (len(outcomes["S12"].at_a), outcomes["S12"].first.model) == (1, "fallback-s12")


def test_s13_a_policy_refusal_is_the_callers_in_the_providers_words(outcomes: dict[str, Outcome]):
    s13 = outcomes["S13"]
    assert s13.first.status == 400 and s13.first.error is not None
    assert (s13.first.error["message"], s13.first.error["code"]) == (REASON, "content_policy_violation")
    assert (len(s13.at_a), len(s13.at_b)) == (1, 0)


@pytest.mark.parametrize(("profile", "seconds"), [("defaults", COOLDOWN), ("resilient", 30.0)])
def test_s15_every_call_is_served_and_a_serves_again_soon(played: Played, profile: str, seconds: float):
    s15 = played[profile]["S15"]
    assert len(s15.calls) >= CALLS and all(seen.complete for seen in s15.calls)
    assert s15.by_a and s15.by_a[0] < OUTAGE + seconds
