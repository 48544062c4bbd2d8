"""The sync plan: what happens to groups when model rows come and go."""

import uuid
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from failover import grouping
from failover.grouping import Create, Delete, GroupFact, ModelFact, Refresh


def uid(text):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, text))


def row(provider, model_id, routable=True):
    at = {"P1": 1.0, "P2": 2.0, "P3": 3.0}[provider]
    return ModelFact(uid(f"{provider}|{model_id}"), model_id, provider, at, routable)


def group(name, order, *, toggles=None, enabled=True, auto=True, stamped=False):
    return GroupFact(uid(name), name, order, toggles or {}, enabled, auto, stamped)


A, B, C = row("P1", "z-ai/glm-4.6"), row("P2", "zai-org/glm-4.6"), row("P3", "glm-4.6")


def ids(*rows):
    return [r.id for r in rows]


def test_two_rows_of_one_base_name_form_a_group_in_read_order():
    """routing 26. Read order is model id in byte order, then the age of the provider."""
    assert grouping.all_bases([B, A], []) == [("glm-4.6", Create("glm-4.6", ids(A, B)))]


def test_two_ids_of_one_provider_count_as_two_rows():
    """routing 27"""
    one, two = row("P1", "glm-9"), row("P1", "z-ai/glm-9")
    assert grouping.all_bases([two, one], []) == [("glm-9", Create("glm-9", ids(one, two)))]


def test_letter_case_and_prefix_do_not_split_a_group():
    """routing 28"""
    one, two = row("P1", "GLM-5.1"), row("P2", "org/glm-5.1")
    assert grouping.all_bases([two, one], []) == [("glm-5.1", Create("glm-5.1", ids(one, two)))]


def test_an_empty_base_name_is_no_group():
    """routing 29"""
    assert grouping.all_bases([row("P1", "openai/"), row("P2", "openai/")], []) == []


def test_capital_letters_sort_before_small_ones():
    low, high, accent = row("P1", "x/glm"), row("P2", "X/glm"), row("P3", "é/glm")
    assert grouping.by_base([accent, low, high])["glm"] == [high, low, accent]


def test_an_operators_order_and_toggles_survive_a_new_member():
    """routing 30"""
    stored = group("glm-4.6", ids(B, A), toggles={A.id: False})
    [(_, step)] = grouping.all_bases([A, B, C], [stored])
    assert step == Refresh(stored, ids(B, A, C), {A.id: False}, [C.id], [])


def test_toggles_of_dropped_members_are_forgotten():
    stored = group("glm-4.6", ids(C, A, B, A), toggles={C.id: False, A.id: True})
    [(_, step)] = grouping.all_bases([A, B], [stored])
    assert step == Refresh(stored, ids(A, B), {A.id: True}, [], [C.id])


def test_a_group_that_is_in_order_is_not_written():
    """routing 39"""
    assert grouping.all_bases([A, B], [group("glm-4.6", ids(B, A), toggles={A.id: False})]) == []


def test_an_auto_group_is_switched_on_again():
    """routing 33"""
    stored = group("glm-4.6", ids(B, A), toggles={A.id: False}, enabled=False)
    [(_, step)] = grouping.all_bases([A, B], [stored])
    assert step == Refresh(stored, ids(B, A), {A.id: False}, [], [])


def test_one_row_left_deletes_the_auto_group_and_names_the_provider():
    """routing 31"""
    stored = group("glm-4.6", ids(A, B))
    [(_, step)] = grouping.all_bases([A, replace(B, routable=False)], [stored])
    assert step == Delete(stored, 1, ["P1"])
    assert step.reason == "only 1 enabled provider (need 2+ for failover)"


def test_no_row_left_deletes_the_auto_group():
    """routing 32"""
    stored = group("glm-4.6", ids(A, B))
    [(_, step)] = grouping.all_bases([], [stored])
    assert step == Delete(stored, 0, [])
    assert step.reason == "no enabled providers found"


def test_a_custom_group_keeps_its_name_and_its_members():
    """routing 34"""
    custom = group("glm-4.6", ids(C), auto=False)
    assert grouping.all_bases([A, B], [custom]) == []
    assert grouping.one_base("glm-4.6", [A, B], custom) is None
    assert grouping.one_base("glm-4.6", [], custom) is None


def test_a_sync_of_one_name_does_not_name_providers():
    stored = group("glm-4.6", ids(A, B))
    assert grouping.one_base("glm-4.6", [A], stored, name_providers=False) == Delete(stored, 1, [])


def test_pruning_takes_out_what_no_longer_exists_and_nothing_else():
    """routing 37, routing 38. Also a stale toggle; the switch and its stamps are not part of a prune."""
    other = group("other", [], auto=False)
    stored = group("mine", [A.id, uid("gone"), other.id], toggles={uid("old"): False, A.id: False}, auto=False)
    [step] = grouping.prunes([stored, other], {A.id, other.id})
    assert (step.order, step.toggles) == ([A.id, other.id], {A.id: False})
    assert step.removed == [uid("gone"), uid("old")]
    after = grouping.applied({"mine": replace(stored, enabled=False, stamped=True)}, step)
    assert grouping.prunes([after["mine"]], {A.id, other.id}) == []


def test_a_custom_group_below_two_routable_members_is_switched_off_once():
    """routing 35, routing 36. A toggle does not count: it is a choice the router honours already."""
    mine = group("mine", ids(A, B), toggles={B.id: False}, auto=False)
    assert grouping.disables([mine], {A.id, B.id}) == []
    [step] = grouping.disables([mine], {A.id})
    assert step.effective == 1
    assert grouping.disables(grouping.applied({"mine": mine}, step).values(), {A.id}) == []
    assert grouping.disables([group("auto", ids(A))], set()) == []


def test_what_is_no_uuid_is_ignored():
    stored = group("glm-4.6", ["nonsense", 7, None, A.id.upper(), B.id], toggles={"x": False, B.id: "no"})
    assert stored.members == ids(A, B)
    assert grouping.prunes([stored], set(ids(A, B))) == []
    [(_, step)] = grouping.all_bases([A, B], [stored])
    assert (step.order, step.added, step.removed) == (ids(A, B), [], [])
    assert group("x", "not a list").members == []


NAMES = ("glm", "a/glm", "b/GLM", "kimi", "m/kimi", "solo", "x/")
rows = st.lists(
    st.builds(row, st.sampled_from(("P1", "P2", "P3")), st.sampled_from(NAMES), st.booleans()),
    unique_by=lambda r: r.id,
    max_size=15,
)
POOL = [uid(f"{p}|{m}") for p in ("P1", "P2", "P3") for m in NAMES] + [uid("stranger")]


@st.composite
def group_lists(draw):
    names = draw(st.lists(st.sampled_from(("glm", "kimi", "solo", "mine")), unique=True))
    return [
        group(
            name,
            draw(st.lists(st.sampled_from(POOL), max_size=6)),
            toggles=draw(st.dictionaries(st.sampled_from(POOL), st.booleans(), max_size=4)),
            enabled=draw(st.booleans()),
            auto=draw(st.booleans()),
            stamped=draw(st.booleans()),
        )
        for name in names
    ]


def run(model_rows, groups):
    """A full sync in memory: the groups it leaves, and how many steps it took."""
    state = {g.name: g for g in groups}
    steps = [step for _, step in grouping.all_bases(model_rows, state.values())]
    for step in steps:
        state = grouping.applied(state, step, uid(f"new|{getattr(step, 'name', '')}"))
    existing = {r.id for r in model_rows} | {g.id for g in state.values()}
    late = [*grouping.prunes(state.values(), existing)]
    for step in late:
        state = grouping.applied(state, step)
    off = grouping.disables(state.values(), {r.id for r in model_rows if r.routable})
    for step in off:
        state = grouping.applied(state, step)
    return state, len(steps) + len(late) + len(off)


@given(rows, group_lists())
def test_a_second_sync_finds_nothing_to_do(model_rows, groups):
    state, _ = run(model_rows, groups)
    again, steps = run(model_rows, state.values())
    assert steps == 0
    assert again == state


@given(rows, group_lists())
def test_auto_groups_are_exactly_the_base_names_with_two_rows(model_rows, groups):
    state, _ = run(model_rows, groups)
    custom = {g.name for g in groups if not g.auto}
    wanted = {base for base, found in grouping.by_base(model_rows).items() if len(found) >= 2} - custom
    assert {g.name for g in state.values() if g.auto} == wanted
    assert {g.name for g in state.values() if not g.auto} == custom
    for found in state.values():
        if found.auto:
            assert sorted(found.members) == sorted(r.id for r in grouping.by_base(model_rows)[found.name])
            assert found.enabled and not found.stamped


@given(rows, group_lists())
def test_surviving_members_keep_their_order_and_toggles(model_rows, groups):
    state, _ = run(model_rows, groups)
    for before in groups:
        after = state.get(before.name)
        if after is None:
            continue
        stayed = [m for m in before.members if m in after.members]
        assert [m for m in after.members if m in stayed] == stayed
        flags = grouping.toggles_of(before.toggles)
        assert all(grouping.toggles_of(after.toggles).get(m, True) == flags.get(m, True) for m in stayed)
        if not before.auto:
            assert not after.enabled or before.enabled


@given(rows, group_lists(), st.randoms())
def test_the_order_in_which_rows_are_read_does_not_matter(model_rows, groups, chance):
    shuffled = list(model_rows)
    chance.shuffle(shuffled)
    assert run(shuffled, groups) == run(model_rows, groups)
