"""From a requested name to candidates, with circuits and keys as stand-ins."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.listing import models_list
from failover.resolve import ResolveError, Skip, resolve
from failover.table import RoutingTable
from tests.failover.rows import FakeBoard, FakeGate, FakeKeys, Stored, model, options, provider, table, uid

NOW = 5000.0
P1 = provider("OpenRouter", 1.0)
P2 = provider("NanoGPT", 2.0)
P3 = provider("my provider", 3.0)
M1, M2 = model(P1, "z-ai/glm-4.6"), model(P2, "zai-org/glm-4.6")
M3 = model(P3, "m1")
GLM = Stored("glm-4.6", [M1.id, M2.id])
TABLE = table(P1, P2, P3, M1, M2, M3, GLM)
OPEN = FakeGate("blocked", NOW + 42.3)
PINNED = FakeGate("blocked", NOW + 18000, pinned=True)
LEASED = FakeGate("leased")
BREAKER = {"OpenRouter": OPEN, "NanoGPT": OPEN}


async def ask(name, routing=TABLE, *, allowed=None, board=None, keys=None, **stored):
    if allowed is not None:
        allowed = frozenset(uid(name) for name in allowed)
    return await resolve(
        routing,
        name,
        allowed=allowed,
        opts=options(**stored),
        board=board or FakeBoard(),
        keyring=keys or FakeKeys(),
        now=NOW,
    )


async def names(*args, **given):
    return [candidate.provider.name for candidate in (await ask(*args, **given)).candidates]


async def refused(*args, **given):
    with pytest.raises(ResolveError) as caught:
        await ask(*args, **given)
    return caught.value


async def answer(*args, **given):
    problem = await refused(*args, **given)
    return problem.status, problem.message


@pytest.mark.parametrize("name", ["hotel/glm-4.6", "hotel/GLM-4.6", "glm-4.6", "GLM-4.6"])
async def test_a_group_gives_its_members_in_priority_order(name):
    """routing 1, routing 3, routing 92"""
    found = await ask(name)
    assert [(c.provider, c.model, c.key) for c in found.candidates] == [
        (P1, M1, "key of OpenRouter"),
        (P2, M2, "key of NanoGPT"),
    ]
    assert (found.requested, found.label, found.group, found.group_name) == (name, "hotel/glm-4.6", True, "glm-4.6")
    assert (found.skips, found.cache_hit, found.ms) == ([], True, {})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("Hotel/glm-4.6", "provider not found: Hotel", id="routing 2"),
        pytest.param("hotel/z-ai/glm-4.6", "model not found: hotel/z-ai/glm-4.6", id="routing 4"),
        pytest.param("hotel/Nope", "model not found: hotel/nope", id="the name in the answer is the one looked up"),
        pytest.param("hotel/", "model not found: hotel/", id="routing 5"),
        pytest.param("OpenRouter/glm-4.6", "model not found: glm-4.6 on provider OpenRouter", id="routing 6"),
        pytest.param("openrouter/z-ai/glm-4.6", "provider not found: openrouter", id="routing 7"),
        pytest.param("my-provider/M1", "model not found: M1 on provider my-provider", id="routing 8"),
        pytest.param("/m1", "provider not found: ", id="an empty provider"),
        pytest.param("z-ai-like-name-nobody-has", "model not found: z-ai-like-name-nobody-has", id="routing 93"),
    ],
)
async def test_a_name_that_does_not_resolve_is_a_404(name, text):
    problem = await refused(name)
    assert (problem.status, problem.message) == (404, text)
    assert (problem.code, problem.param, problem.kind) == ("model_not_found", "model", "validation")
    assert (problem.label, problem.retry_after, problem.log_text) == ("unresolved", None, text)


async def test_bare_names_can_be_switched_off():
    """routing 3"""
    problem = await refused("glm-4.6", bare_model_routing="false")
    assert problem.status == 400
    assert problem.message == 'invalid model format: expected "provider/model" or "hotel/group"'
    assert problem.log_text == "invalid model format: glm-4.6"
    assert (problem.code, problem.param, problem.kind) == ("invalid_value", "model", "validation")


async def test_direct_addressing_splits_at_the_first_slash():
    """routing 6"""
    found = await ask("OpenRouter/z-ai/glm-4.6")
    assert [(c.provider, c.model) for c in found.candidates] == [(P1, M1)]
    assert (found.label, found.group, found.group_name) == ("OpenRouter/z-ai/glm-4.6", False, None)


async def test_a_group_that_is_called_like_a_model_of_a_provider_is_not_in_its_way():
    """routing A1, A3.1: only ``hotel/`` asks for a group with a ``/`` in its name."""
    lower = provider("openrouter", 1.0)
    mine = model(lower, "m")
    routing = table(lower, P2, mine, M2, Stored("openrouter/m", [M2.id]), Stored("team/fast", [M2.id]))
    for _ in range(2):
        assert [c.model for c in (await ask("openrouter/m", routing)).candidates] == [mine]
        assert [c.model for c in (await ask("hotel/openrouter/m", routing)).candidates] == [M2]
        assert await answer("team/fast", routing) == (404, "provider not found: team")


@pytest.mark.parametrize("name", ["my-provider/m1", "my provider/m1"])
async def test_a_provider_is_reached_by_name_and_by_routing_name(name):
    """routing 8"""
    found = await ask(name)
    assert [c.model for c in found.candidates] == [M3]
    assert found.label == "my-provider/m1"


async def test_the_exact_name_wins_over_the_routing_name():
    exact = provider("a b", 1.0)
    other = provider("c", 2.0, routing_name="a b")
    m1, m2 = model(exact, "m"), model(other, "m")
    assert [c.model for c in (await ask("a b/m", table(exact, other, m1, m2))).candidates] == [m1]


async def test_a_disabled_provider_or_model_is_not_served_directly():
    """routing 10"""
    off = provider("Off", 1.0, enabled=False)
    routing = table(off, P1, model(off, "m"), model(P1, "m", enabled=False))
    assert await answer("Off/m", routing) == (404, "model or provider disabled")
    assert await answer("OpenRouter/m", routing) == (404, "model or provider disabled")


async def test_an_open_circuit_does_not_stop_a_direct_request():
    """routing 11"""
    board = FakeBoard(OpenRouter=OPEN)
    assert await names("OpenRouter/z-ai/glm-4.6", board=board) == ["OpenRouter"]
    assert board.asked == []
    found = await ask("hotel/glm-4.6", board=board)
    assert [c.provider for c in found.candidates] == [P2]
    assert found.skips == [
        Skip(P1.id, "OpenRouter", "z-ai/glm-4.6", "circuit breaker open", NOW + 42.3, False, on_trail=True)
    ]


async def test_embeddings_group_like_chat():
    """routing 12"""
    one, two = model(P1, "embed-x", modality="embedding"), model(P2, "org/embed-x", modality="embedding")
    assert await names("hotel/embed-x", table(P1, P2, one, two, Stored("embed-x", [one.id, two.id]))) == [
        "OpenRouter",
        "NanoGPT",
    ]


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (Stored("glm-4.6", [M1.id], group_enabled=False), "failover group disabled"),
        (Stored("glm-4.6", [], group_enabled=False), "failover group disabled"),
        (Stored("glm-4.6", []), "no entries in failover group"),
        (Stored("glm-4.6", ["nonsense", 7]), "no entries in failover group"),
        (Stored("glm-4.6", "nonsense"), "no entries in failover group"),
    ],
)
async def test_a_group_that_is_off_or_empty_is_a_404(group, text):
    """routing 13"""
    problem = await refused("hotel/glm-4.6", table(P1, M1, group))
    assert (problem.status, problem.message, problem.code) == (404, text, "model_not_found")


async def test_every_toggle_off_leaves_nobody():
    """routing 14"""
    group = Stored("glm-4.6", [M1.id, M2.id], {M1.id: False, M2.id: False})
    problem = await refused("hotel/glm-4.6", table(P1, P2, M1, M2, group))
    assert (problem.status, problem.retry_after) == (502, None)
    assert problem.message == (
        "no available provider for hotel/glm-4.6: OpenRouter/z-ai/glm-4.6: entry disabled; "
        "NanoGPT/zai-org/glm-4.6: entry disabled"
    )
    assert (problem.code, problem.kind, problem.label) == ("provider_error", "provider_error", "hotel/glm-4.6")
    assert [skip.on_trail for skip in problem.skips] == [False, False]


async def test_a_missing_toggle_is_on():
    """routing 15"""
    group = Stored("glm-4.6", [M1.id, M2.id], {M1.id: False})
    assert await names("hotel/glm-4.6", table(P1, P2, M1, M2, group)) == ["NanoGPT"]
    assert await names("hotel/glm-4.6") == ["OpenRouter", "NanoGPT"]


async def test_all_circuits_open_is_a_429_with_the_earliest_retry():
    """routing 16"""
    board = FakeBoard(OpenRouter=FakeGate("blocked", NOW + 90), NanoGPT=OPEN)
    problem = await refused("hotel/glm-4.6", board=board)
    assert (problem.status, problem.retry_after) == (429, 43)
    assert (problem.kind, problem.code, problem.param) == ("provider_saturated", "rate_limit_exceeded", None)
    assert problem.message == (
        "no available provider for hotel/glm-4.6: OpenRouter/z-ai/glm-4.6: circuit breaker open; "
        "NanoGPT/zai-org/glm-4.6: circuit breaker open"
    )
    assert [skip.on_trail for skip in problem.skips] == [True, True]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(18000, 60), (60, 60), (59.1, 60), (43.0, 43), (42.0000001, 42), (0.2, 1), (0, 1), (-5, 1), (None, 60)],
)
async def test_retry_after_is_whole_seconds_from_1_to_60(seconds, shown):
    """routing 16"""
    gate = FakeGate("blocked", None if seconds is None else NOW + seconds)
    assert (await refused("hotel/glm-4.6", board=FakeBoard(OpenRouter=gate, NanoGPT=gate))).retry_after == shown


async def test_only_quota_pins_everywhere_are_an_exhausted_quota():
    """part of routing 17"""
    problem = await refused("hotel/glm-4.6", board=FakeBoard(OpenRouter=PINNED, NanoGPT=PINNED))
    assert (problem.status, problem.kind, problem.code) == (429, "provider_quota_exhausted", "insufficient_quota")
    assert problem.retry_after == 60
    mixed = await refused("hotel/glm-4.6", board=FakeBoard(OpenRouter=PINNED, NanoGPT=OPEN))
    assert (mixed.kind, mixed.retry_after) == ("provider_saturated", 43)


async def test_one_disabled_and_one_open_is_a_429():
    """routing 18"""
    off = model(P1, "z-ai/glm-4.6", enabled=False)
    problem = await refused("hotel/glm-4.6", table(P1, P2, off, M2, GLM), board=FakeBoard(NanoGPT=OPEN))
    assert problem.status == 429
    assert problem.message == (
        "no available provider for hotel/glm-4.6: OpenRouter/z-ai/glm-4.6: model disabled; "
        "NanoGPT/zai-org/glm-4.6: circuit breaker open"
    )


async def test_exhaustion_can_be_answered_with_502():
    """routing 19"""
    problem = await refused("hotel/glm-4.6", board=FakeBoard(**BREAKER), failover_exhaustion_status_429="false")
    assert (problem.status, problem.kind, problem.retry_after) == (502, "provider_error", None)
    assert problem.message.startswith("no available provider for hotel/glm-4.6: ")


async def test_circuits_do_not_count_while_the_breaker_is_off():
    """routing 20"""
    board = FakeBoard(**BREAKER)
    assert await names("hotel/glm-4.6", board=board, circuit_breaker_enabled="false") == ["OpenRouter", "NanoGPT"]
    assert board.asked == []


async def test_keys_that_do_not_decrypt():
    """routing 21"""
    both = FakeKeys(broken=("OpenRouter", "NanoGPT"))
    problem = await refused("hotel/glm-4.6", keys=both)
    assert (problem.status, problem.kind, problem.code) == (502, "provider_error", "provider_error")
    assert problem.message == "all 2 candidate(s) failed key decryption (wrong master key?)"
    one = FakeKeys(broken=("OpenRouter",))
    found = await ask("hotel/glm-4.6", keys=one)
    assert [c.provider for c in found.candidates] == [P2]
    assert [(s.reason, s.on_trail) for s in found.skips] == [("key decryption failed", False)]
    assert found.ms["key_decrypt_ms"] >= 0 and found.cache_hits["key"] is False
    mixed = await refused("hotel/glm-4.6", keys=one, board=FakeBoard(NanoGPT=OPEN))
    assert mixed.status == 429
    assert "OpenRouter/z-ai/glm-4.6: key decryption failed; NanoGPT" in mixed.message


async def test_a_direct_request_names_the_provider_whose_key_does_not_decrypt():
    problem = await refused("my-provider/m1", keys=FakeKeys(broken=("my provider",)))
    assert (problem.status, problem.code, problem.kind) == (502, "provider_error", "provider_error")
    assert problem.message == "failed to decrypt the key of provider my provider (wrong master key?)"


async def test_a_key_that_is_not_in_memory_is_fetched():
    keys = FakeKeys(cold=("NanoGPT",))
    found = await ask("hotel/glm-4.6", keys=keys)
    assert [c.key for c in found.candidates] == ["key of OpenRouter", "key of NanoGPT"]
    assert keys.fetched == ["NanoGPT"]
    assert found.cache_hits == {"model": True, "provider": True, "key": False, "failover": True, "settings": True}


async def test_an_everyday_resolution_is_made_once_and_as_long_as_its_keys():
    keys = FakeKeys()
    first = await ask("hotel/glm-4.6", keys=keys)
    assert await ask("hotel/glm-4.6", keys=keys) is first
    assert await ask("glm-4.6", keys=keys) is not first  # the row names what was asked for
    keys.until = NOW
    keys.made.clear()
    assert [c.key for c in (await ask("hotel/glm-4.6", keys=keys)).candidates] == [
        "key of OpenRouter",
        "key of NanoGPT",
    ]
    assert await ask("hotel/glm-4.6", keys=keys) is not await ask("hotel/glm-4.6", keys=keys)


async def test_other_spellings_of_a_name_are_not_kept():
    keys = FakeKeys()
    await ask("hotel/GLM-4.6", keys=keys)
    await ask("GLM-4.6", keys=keys)
    assert keys.made == {}


async def test_what_was_kept_does_not_outlive_a_fault_or_a_switch():
    keys = FakeKeys()
    await ask("hotel/glm-4.6", keys=keys)
    await ask("glm-4.6", keys=keys)
    assert await names("hotel/glm-4.6", keys=keys, board=FakeBoard(OpenRouter=OPEN)) == ["NanoGPT"]
    assert await names("hotel/glm-4.6", keys=keys, allowed=["NanoGPT"]) == ["NanoGPT"]
    assert (await refused("glm-4.6", keys=keys, bare_model_routing="false")).status == 400


async def test_a_keyless_provider_needs_no_decryption():
    """routing 22"""
    keyless = provider("Local", 1.0, sealed=None)
    own = model(keyless, "glm-4.6")
    keys = FakeKeys(broken=("Local",))
    found = await ask("hotel/glm-4.6", table(keyless, P2, own, M2, Stored("glm-4.6", [own.id, M2.id])), keys=keys)
    assert found.candidates[0].key == ""
    assert keys.fetched == []


async def test_access_lists_come_before_the_breaker():
    """routing 23"""
    assert await names("hotel/glm-4.6", allowed=["NanoGPT"]) == ["NanoGPT"]
    for allowed in (["my provider"], []):
        problem = await refused("hotel/glm-4.6", allowed=allowed)
        assert (problem.status, problem.code, problem.kind) == (403, "permission_denied", "auth")
        assert problem.message == "virtual key does not have access to any provider for this model"
    problem = await refused("hotel/glm-4.6", allowed=["NanoGPT"], board=FakeBoard(NanoGPT=OPEN))
    assert problem.status == 429
    assert problem.message == "no available provider for hotel/glm-4.6: NanoGPT/zai-org/glm-4.6: circuit breaker open"
    assert [skip.provider for skip in problem.skips] == ["NanoGPT"]


async def test_a_key_learns_nothing_of_providers_it_may_not_use():
    """routing 23. Also where the entry is dropped for another reason."""
    group = Stored("glm-4.6", [M1.id, M2.id], {M1.id: False, M2.id: False})
    problem = await refused("hotel/glm-4.6", table(P1, P2, M1, M2, group), allowed=["NanoGPT"])
    assert problem.message == "no available provider for hotel/glm-4.6: NanoGPT/zai-org/glm-4.6: entry disabled"
    assert [skip.provider for skip in problem.skips] == ["NanoGPT"]
    nothing = await refused("hotel/glm-4.6", table(P1, P2, M1, M2, group), allowed=["my provider"])
    assert (nothing.status, nothing.message) == (502, "no available provider for hotel/glm-4.6")


async def test_access_counts_only_entries_that_could_be_asked():
    """routing 23. The allowed provider's model is off, the other provider is not allowed: no access."""
    off = model(P2, "zai-org/glm-4.6", enabled=False)
    assert (await refused("hotel/glm-4.6", table(P1, P2, M1, off, GLM), allowed=["NanoGPT"])).status == 403
    both_off = table(P1, P2, model(P1, "z-ai/glm-4.6", enabled=False), off, GLM)
    assert (await refused("hotel/glm-4.6", both_off, allowed=["NanoGPT"])).status == 502


async def test_the_404s_of_a_group_come_before_the_403():
    """routing 23"""
    off = table(P1, M1, Stored("glm-4.6", [M1.id], group_enabled=False))
    assert (await refused("hotel/glm-4.6", off, allowed=[])).status == 404
    assert (await refused("OpenRouter/nope", allowed=[])).status == 404
    assert (await refused("OpenRouter/z-ai/glm-4.6", allowed=[])).status == 403


async def test_an_entry_without_a_model_row_is_skipped():
    """routing 24"""
    gone = uid("gone")
    group = Stored("glm-4.6", [gone, "nonsense", M1.id.upper()], {"nonsense": False})
    assert await names("hotel/glm-4.6", table(P1, M1, group)) == ["OpenRouter"]
    problem = await refused("hotel/glm-4.6", table(P1, M1, Stored("glm-4.6", [gone])))
    assert (problem.status, problem.message) == (
        502,
        f"no available provider for hotel/glm-4.6: {gone}: model not found",
    )


async def test_every_fixed_reason_in_priority_order():
    off = provider("Off", 4.0, enabled=False)
    lost = model(provider("Lost", 9.0), "lost")
    members = [model(P1, "a"), model(P2, "b", enabled=False), model(off, "c"), lost, model(P3, "d"), model(P1, "e")]
    group = Stored("g", [m.id for m in members], {members[0].id: False})
    problem = await refused(
        "hotel/g",
        table(P1, P2, P3, off, *members, group),
        board=FakeBoard(OpenRouter=OPEN),
        keys=FakeKeys(broken=("my provider",)),
    )
    assert problem.message == (
        "no available provider for hotel/g: OpenRouter/a: entry disabled; NanoGPT/b: model disabled; "
        "Off/c: provider disabled; lost: provider not found; my provider/d: key decryption failed; "
        "OpenRouter/e: circuit breaker open"
    )


def lines(caplog):
    return [(r.levelname, r.getMessage(), r.attrs) for r in caplog.records if r.name == "resolve"]


async def test_the_log_lines_of_a_resolution(caplog):
    """routing 25a"""
    caplog.set_level(logging.DEBUG, "resolve")
    await ask("hotel/glm-4.6", board=FakeBoard(NanoGPT=OPEN))
    skip = (
        "INFO",
        "resolve: skipping candidate: circuit breaker open",
        {"provider": "NanoGPT", "model": "zai-org/glm-4.6"},
    )
    assert lines(caplog) == [
        (
            "DEBUG",
            "resolve: failover group found",
            {"model": "glm-4.6", "entries": 2, "enabled": True, "cached": True},
        ),
        (
            "DEBUG",
            "resolve: building candidates from failover group",
            {"model": "glm-4.6", "priority_order_count": 2},
        ),
        skip,
        (
            "DEBUG",
            "resolve: hotel model resolved",
            {"model": "glm-4.6", "candidates": 1, "decrypt_failures": 0, "breaker_skips": 1},
        ),
    ]
    caplog.clear()
    caplog.set_level(logging.INFO, "resolve")
    await ask("hotel/glm-4.6", board=FakeBoard(NanoGPT=OPEN))
    assert lines(caplog) == [skip]


async def test_log_lines_of_faults_name_the_provider_side_model_and_never_a_key(caplog):
    caplog.set_level(logging.INFO, "resolve")
    off = model(P2, "zai-org/glm-4.6", enabled=False)
    await refused("hotel/glm-4.6", table(P1, P2, M1, off, GLM), keys=FakeKeys(broken=("OpenRouter",)))
    await refused("hotel/glm-4.6", table(P1, M1, Stored("glm-4.6", [M1.id], group_enabled=False)))
    await refused("hotel/glm-4.6", table(P1, M1, Stored("glm-4.6", [])))
    assert [(level, text) for level, text, _ in lines(caplog)] == [
        ("INFO", "resolve: skipping candidate: model disabled"),
        ("ERROR", "resolve: key decryption failed"),
        ("WARNING", "resolve: failover group disabled"),
        ("WARNING", "resolve: failover group has no entries"),
    ]
    assert lines(caplog)[1][2] == {"provider": "OpenRouter", "model": "z-ai/glm-4.6"}
    assert "key of" not in caplog.text


SOLO1, SOLO2 = model(P1, "solo"), model(P2, "solo")
SOLO_OFF = Stored("solo", [SOLO2.id, SOLO1.id], group_enabled=False)


async def test_a_bare_name_lists_providers_by_age_while_its_group_is_off():
    """routing 91"""
    routing = table(P2, P1, SOLO2, SOLO1, SOLO_OFF)
    found = await ask("solo", routing)
    assert [c.provider.name for c in found.candidates] == ["OpenRouter", "NanoGPT"]
    assert (found.label, found.group, found.group_name, found.cache_hit) == ("solo", True, None, False)
    stale = provider("OpenRouter", 1.0, inventory_stale=True)
    assert await names("solo", table(stale, P2, SOLO1, SOLO2, SOLO_OFF)) == ["NanoGPT", "OpenRouter"]
    off = model(P1, "solo", enabled=False)
    assert await names("solo", table(P1, P2, off, SOLO2, SOLO_OFF)) == ["NanoGPT"]
    both = table(P1, P2, off, model(P2, "solo", enabled=False), SOLO_OFF)
    assert await answer("solo", both) == (404, "model not found: solo")
    assert await names("solo", table(P1, P2, SOLO2)) == ["NanoGPT"]


async def test_providers_of_one_age_are_ordered_by_id():
    one, two = provider("x", 1.0), provider("y", 1.0)
    by_id = [p.name for p in sorted((one, two), key=lambda p: p.id)]
    assert await names("solo", table(one, two, model(one, "solo"), model(two, "solo"))) == by_id


async def test_a_bare_name_matches_rows_exactly_once_its_group_is_off():
    """routing 92"""
    capital = model(P3, "GLM-4.6")
    group = Stored("glm-4.6", [M1.id, M2.id], group_enabled=False)
    assert await names("GLM-4.6", table(P1, P2, P3, M1, M2, capital, group)) == ["my provider"]
    assert await answer("GLM-4.6", table(P1, P2, M1, M2, group)) == (404, "model not found: GLM-4.6")


async def test_a_bare_name_fails_over_and_is_gated_like_a_group():
    """routing 94"""
    routing = table(P1, P2, SOLO1, SOLO2)
    assert await names("solo", routing, board=FakeBoard(OpenRouter=OPEN)) == ["NanoGPT"]
    problem = await refused("solo", routing, board=FakeBoard(**BREAKER))
    assert (problem.status, problem.retry_after, problem.label) == (429, 43, "solo")
    assert problem.message == (
        "no available provider for solo: OpenRouter/solo: circuit breaker open; NanoGPT/solo: circuit breaker open"
    )
    assert (await refused("solo", routing, allowed=["my provider"])).status == 403
    broken = FakeKeys(broken=("OpenRouter", "NanoGPT"))
    assert await answer("solo", routing, keys=broken) == (
        502,
        "all 2 candidate(s) failed key decryption (wrong master key?)",
    )


async def test_a_stale_inventory_does_not_change_a_groups_order():
    """part of routing 96. The half about the priority strategy."""
    stale = provider("OpenRouter", 1.0, inventory_stale=True)
    assert await names("hotel/glm-4.6", table(stale, P2, M1, M2, GLM)) == ["OpenRouter", "NanoGPT"]


async def test_a_held_probe_lease_is_left_to_its_holder_while_others_can_serve():
    """routing 97"""
    found = await ask("hotel/glm-4.6", board=FakeBoard(OpenRouter=LEASED))
    assert [c.provider for c in found.candidates] == [P2]
    assert found.skips == [Skip(P1.id, "OpenRouter", "z-ai/glm-4.6", "probe in progress", on_trail=True)]
    alone = await ask("hotel/glm-4.6", board=FakeBoard(OpenRouter=LEASED, NanoGPT=OPEN))
    assert [c.provider for c in alone.candidates] == [P1]
    assert [skip.provider for skip in alone.skips] == ["NanoGPT"]
    assert await names("hotel/glm-4.6", board=FakeBoard(OpenRouter=LEASED, NanoGPT=LEASED)) == [
        "OpenRouter",
        "NanoGPT",
    ]


async def test_a_held_lease_is_no_reason_to_refuse():
    """routing 97. The other member's key does not decrypt: the leased one stays in."""
    keys = FakeKeys(broken=("NanoGPT",))
    assert await names("hotel/glm-4.6", board=FakeBoard(OpenRouter=LEASED), keys=keys) == ["OpenRouter"]


async def test_a_request_keeps_the_table_it_started_with():
    """routing 55. Names are looked up in the table given, so an edit reaches the next request, whole."""
    before = table(P1, P2, M1, M2, Stored("a", [M1.id, M2.id]))
    after = table(P1, P2, M1, M2, Stored("b", [M1.id, M2.id]))
    assert await names("hotel/a", before) == await names("hotel/b", after) == ["OpenRouter", "NanoGPT"]
    assert await answer("hotel/a", after) == (404, "model not found: hotel/a")


def test_the_list_of_models():
    """Models by provider name and model id, then groups by name; what is unknown is left out."""
    rich = model(
        P3,
        "m1",
        name="n",
        display_name="N",
        description="d",
        owned_by="z",
        context_length=200000,
        max_output_tokens=9,
        capabilities={"vision": True},
        input_modalities=("text",),
        output_modalities=("text",),
        input_price_per_million=0.0,
        output_price_per_million=1.5,
        search_price_per_thousand=2.0,
    )
    off = model(P1, "off", enabled=False)
    routing = table(P1, P2, P3, M2, M1, rich, off, GLM, Stored("b", [off.id, rich.id]), Stored("a", [off.id]))
    listed = models_list(routing, None)
    assert [e["id"] for e in listed] == [
        "NanoGPT/zai-org/glm-4.6",
        "OpenRouter/z-ai/glm-4.6",
        "my-provider/m1",
        "hotel/b",
        "hotel/glm-4.6",
    ]
    assert listed[0] == {
        "id": "NanoGPT/zai-org/glm-4.6",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "NanoGPT",
        "provider": "NanoGPT",
        "modality": "chat",
    }
    described = {
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "z",
        "name": "N",
        "description": "d",
        "modality": "chat",
        "context_length": 200000,
        "max_context_length": 200000,
        "max_output_tokens": 9,
        "capabilities": {"vision": True},
        "input_modalities": ["text"],
        "output_modalities": ["text"],
        "input_price_per_million": 0.0,
        "output_price_per_million": 1.5,
        "search_price_per_thousand": 2.0,
    }
    assert listed[2] == {"id": "my-provider/m1", "provider": "my provider", **described}
    assert listed[3] == {"id": "hotel/b", "provider": "hotel", **described}


def test_the_list_of_models_shows_what_the_key_may_use():
    """v1-api 25. A group is described by its first member that the key may use."""
    off = Stored("off", [M1.id], group_enabled=False)
    toggled = Stored("toggled", [M2.id], {M2.id: False})
    routing = table(P1, P2, P3, M1, M2, M3, GLM, off, toggled)
    ids = [e["id"] for e in models_list(routing, frozenset({P2.id}))]
    assert ids == ["NanoGPT/zai-org/glm-4.6", "hotel/glm-4.6"]
    assert [e["owned_by"] for e in models_list(routing, frozenset({P2.id}))] == ["NanoGPT", "NanoGPT"]
    assert models_list(routing, frozenset()) == []
    assert models_list(RoutingTable(ready=True), None) == []


states = st.sampled_from(("free", "blocked", "leased"))


@given(
    members=st.lists(st.tuples(states, st.booleans(), st.booleans(), st.booleans(), st.booleans()), max_size=6),
    breaker=st.booleans(),
)
async def test_candidates_are_a_subsequence_and_an_error_has_a_reason(members, breaker):
    """Whatever the state of each member (circuit, toggle, model, key, access), the order is the operator's."""
    owners = [provider(f"p{at}", float(at)) for at in range(len(members))]
    rows = [model(p, "m", enabled=m[2]) for p, m in zip(owners, members, strict=True)]
    group = Stored("g", [r.id for r in rows], {r.id: m[1] for r, m in zip(rows, members, strict=True)})
    gates = {p.name: FakeGate(m[0], NOW + 5) for p, m in zip(owners, members, strict=True)}
    keys = FakeKeys(broken=tuple(p.name for p, m in zip(owners, members, strict=True) if not m[3]))
    allowed = [p.name for p, m in zip(owners, members, strict=True) if m[4]]
    usable = [p.name for p, m in zip(owners, members, strict=True) if all(m[1:])]
    if breaker:
        usable = [name for name in usable if gates[name].state != "blocked"]
        usable = [name for name in usable if gates[name].state == "free"] or usable
    asked = {"allowed": allowed, "board": FakeBoard(**gates), "keys": keys}
    setting = {"circuit_breaker_enabled": "true" if breaker else "false"}
    if usable:
        assert await names("hotel/g", table(*owners, *rows, group), **asked, **setting) == usable
    else:
        problem = await refused("hotel/g", table(*owners, *rows, group), **asked, **setting)
        assert problem.status in (403, 404, 429, 502)
        assert (problem.retry_after is not None) == (problem.status == 429)
