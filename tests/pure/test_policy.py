"""The switches of routing B4: which statuses and texts move on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelhotel.core import options
from proxy import policy
from proxy.policy import Policy


def of(**values: str) -> Policy:
    return policy.of(options.REGISTRY.values(values, {}))


@pytest.mark.parametrize("status", [401, 402, 403, 404, 429, 499, 500, 503, 529, 599, 600, 999])
def test_the_default_set_moves_on(status: int):
    assert of().by_status(status)


@pytest.mark.parametrize("status", [301, 400, 405, 408, 409, 413, 422, 451])
def test_everything_else_stays(status: int):
    assert not of().by_status(status)


def test_a_list_replaces_the_set():
    rules = of(failover_retry_on_statuses="418, 3XX")
    assert rules.by_status(418) and rules.by_status(302)
    assert not rules.by_status(503) and not rules.by_status(429)


def test_the_class_of_server_errors_has_no_upper_end():
    assert of(failover_retry_on_statuses="5xx").by_status(700)


def test_a_rate_limit_that_may_not_move_on_wins_over_lists_and_phrases():
    rules = of(failover_on_rate_limit="false", failover_retry_on_statuses="429", failover_retry_on_errors="slow down")
    assert not rules.by_status(429) and not rules.by_phrase(429, "slow down")
    assert rules.by_phrase(503, "slow down")


@pytest.mark.parametrize(
    ("status", "text", "matches"),
    [
        (400, "The Model 'x' was NOT FOUND", True),
        (400, "found no model, not one", True),
        (400, "Upstream request failed", True),
        (400, "unsupported parameter", False),
        (404, "unsupported parameter", True),
        (400, "bad request", False),
    ],
)
def test_the_default_phrases(status: int, text: str, matches: bool):
    assert of().by_phrase(status, text) == matches


def test_status_words_of_a_phrase_restrict_it():
    rules = of(failover_retry_on_errors="400 422 busy, 4xx Later")
    assert rules.by_phrase(422, "BUSY") and not rules.by_phrase(409, "busy")
    assert rules.by_phrase(409, "try later") and not rules.by_phrase(503, "try later")


@pytest.mark.parametrize(
    ("values", "further"),
    [
        ({}, policy.ALL),
        ({"failover_max_attempts": "2"}, 2),
        ({"failover_enabled": "false"}, 0),
        ({"failover_enabled": "false", "failover_max_attempts": "2"}, 0),
    ],
)
def test_how_many_further_candidates(values: dict[str, str], further: int):
    assert of(**values).further == further


def test_the_same_options_are_read_once():
    values = options.REGISTRY.values({}, {})
    assert policy.of(values) is policy.of(values)


@given(st.integers(100, 999), st.text(max_size=50))
def test_no_status_and_no_text_raises(status: int, text: str):
    rules = of()
    assert rules.by_status(status) in (True, False)
    assert rules.by_phrase(status, text) in (True, False)
