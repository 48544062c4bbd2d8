"""What the board concludes from groups and circuits: static/modelhotel/app/board/rules.js, run in the browser."""

import json

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(60, func_only=True)]

NOW = 1_800_000_000_000
AT = "2027-01-15T08:{:02d}:{:02d}.000Z"  # NOW is 08:00:00


@pytest.fixture(scope="module")
def rules(hotel):
    """Calls a function of the module with JSON arguments."""
    context = hotel.browser.new_context()
    page = context.new_page()
    page.goto(f"{hotel.url}/login/")

    def call(body, /, **values):
        text = f"async (v) => {{ const r = await import('/static/modelhotel/app/board/rules.js'); {body} }}"
        return page.evaluate(text, values)

    yield call
    context.close()


def entry(model="m", provider="p", **more):
    return {
        "model_uuid": f"{provider}-{model}",
        "model_id": model,
        "provider_id": provider,
        "provider_name": provider.upper(),
        "enabled": True,
        "model_enabled": True,
        "provider_enabled": True,
        "disabled_manually": False,
        **more,
    }


def circuit(model, state="open", **more):
    wait = {"next_retry_at": AT.format(1, 0), "cooldown_ms": 60_000} if state == "open" else {}
    return {"model": model, "state": state, "last_cause": "upstream status 503", **wait, **more}


def status(*circuits, **row):
    return {
        "providers": [{"provider_id": "p", "provider_open": False, "state": "open", "circuits": list(circuits), **row}]
    }


CHIPS = {
    "nothing is known": ({}, "live", None),
    "another model is open": (status(circuit("other")), "live", None),
    "own circuit open": (status(circuit("m")), "open", 60_000),
    "own circuit pinned": (status(circuit("m", quota_pinned=True, pin_source="response")), "pinned", 60_000),
    "own circuit under the reserve": (
        status(circuit("m", quota_pinned=True, pin_source="reserve")),
        "reserved",
        60_000,
    ),
    "the wait is over, noticed here": (status(circuit("m", next_retry_at=AT.format(0, 0))), "probe due", None),
    "half-open": (status(circuit("m", "half-open")), "probe due", None),
    "provider skipped": (status(circuit("a"), circuit("b"), provider_open=True), "open", 60_000),
    "provider skipped for its account": (
        status(circuit("(account quota)", quota_pinned=True, pin_source="account"), provider_open=True),
        "pinned",
        60_000,
    ),
    "provider held back by the reserve": (
        status(circuit("(account quota)", quota_pinned=True, pin_source="reserve"), provider_open=True),
        "reserved",
        60_000,
    ),
    "reserve and a true exhaustion": (
        status(
            circuit("(account quota)", quota_pinned=True, pin_source="reserve"),
            circuit("x", quota_pinned=True, pin_source="account"),
            provider_open=True,
        ),
        "pinned",
        60_000,
    ),
    "provider skipped by pins of single models": (
        status(circuit("a", quota_pinned=True, pin_source="response"), circuit("b"), provider_open=True),
        "open",
        60_000,
    ),
    "busy": (
        status(circuit("m", "closed", last_cause="upstream status 429 (saturated)", last_at="2027-01-15T07:59:01Z")),
        "busy",
        1_000,
    ),
    "no longer busy": (
        status(circuit("m", "closed", last_cause="upstream status 429 (saturated)", last_at="2027-01-15T07:58:59Z")),
        "live",
        None,
    ),
}


@pytest.mark.parametrize("case", CHIPS)
def test_the_chip_of_a_member(rules, case):
    """circuit-breaker 17: the table of chips, first match wins."""
    answer, chip, left = CHIPS[case]
    found, until = rules(
        "const found = r.chipOf(v.entry, r.circuitsOf(v.answer), v.now); return [found.chip, r.chipUntil(found)]",
        entry=entry(),
        answer=answer,
        now=NOW,
    )
    assert (found, until and until - NOW) == (chip, left)


@pytest.mark.parametrize(
    ("row", "chip"),
    [
        ({"state": "open", "open_models": ["m"], "next_retry_at": AT.format(1, 0)}, "open"),
        ({"state": "open", "open_models": ["other"], "next_retry_at": AT.format(1, 0)}, "live"),
        ({"state": "open", "provider_open": True, "open_models": ["a", "b"], "next_retry_at": AT.format(1, 0)}, "open"),
        ({"state": "half-open"}, "probe due"),
        ({"state": "closed"}, "live"),
    ],
    ids=["named", "another", "all", "half-open", "closed"],
)
def test_an_answer_without_circuits_still_gives_a_chip(rules, row, chip):
    answer = {"providers": [{"provider_id": "p", "provider_open": False, **row}]}
    body = "return r.chipOf(v.entry, r.circuitsOf(v.answer), v.now).chip"
    assert rules(body, entry=entry(), answer=answer, now=NOW) == chip


def test_the_footer_counts_live_members_among_those_that_can_be_asked(rules):
    """circuit-breaker 17, routing 71. The counting."""
    group = {"entries": [entry("m"), entry("n"), entry("x", enabled=False), entry("y", model_enabled=False)]}
    body = "return r.summary(v.group, r.circuitsOf(v.answer), v.now)"
    one = rules(body, group=group, answer=status(circuit("m")), now=NOW)
    assert one == {"live": 1, "of": 2, "dark": False, "retryAt": NOW + 60_000}
    sooner = circuit("n", next_retry_at=AT.format(0, 9))
    both = rules(body, group=group, answer=status(circuit("m"), sooner), now=NOW)
    assert both == {"live": 0, "of": 2, "dark": True, "retryAt": NOW + 9_000}


@pytest.mark.parametrize(
    ("on", "auto_disabled", "to", "expected"),
    [
        (True, False, False, {"group_enabled": False}),
        (False, True, True, {"group_enabled": True}),
        (False, False, True, {}),
        (False, False, False, {}),
    ],
    ids=["falls", "returns", "stays off", "was off"],
)
def test_a_cascade_never_switches_on_what_an_operator_switched_off(rules, on, auto_disabled, to, expected):
    """routing 70"""
    entries = [entry("m"), entry("m", "q", enabled=not to)]
    group = {"entries": entries, "group_enabled": on, "auto_disabled": auto_disabled}
    patch = rules("return r.cascade(v.group, (one) => one.provider_id === 'q', v.to)", group=group, to=to)
    assert patch == {"entry_enabled": {"p-m": True, "q-m": to}, **expected}
    again = json.loads(json.dumps(group))
    again["entries"][1]["enabled"] = to
    assert rules("return r.cascade(v.group, (one) => one.provider_id === 'q', v.to)", group=again, to=to) is None


def test_a_sync_is_told_in_one_line_per_group(rules):
    body = {
        "deleted_groups": [
            {
                "display_model": "old",
                "reason": "no enabled providers found",
                "provider_count": 0,
                "provider_names": [],
            }
        ],
        "disabled_groups": [{"display_model": "mine", "effective_count": 1, "reason": "fewer than 2"}],
        "purged_entries": [{"group_display_model": "mine", "pruned_model_ids": ["a", "b"]}],
        "sync_errors": ["glm-5: disk full"],
    }
    said = rules("return r.syncReport(v.body, ['old', 'mine'], ['mine', 'new'])", body=body)
    assert said == [
        ["1 group created: hotel/new", "info"],
        ["hotel/old deleted: no enabled providers found", "warning"],
        ["hotel/mine switched off: 1 of its members can be routed to", "warning"],
        ["hotel/mine: 2 deleted models taken out", "info"],
        ["Sync error: glm-5: disk full", "error"],
    ]
    assert rules("return r.syncReport({deleted_groups: null}, [], [])") == [["Failover groups synced", "success"]]


def test_custom_groups_come_first_then_letters_and_everything_else(rules):
    names = {"zeta": True, "alpha": True, "9-lives": True, "ähnlich": True, "mine": False}
    groups = [{"display_model": name, "auto_created": auto} for name, auto in names.items()]
    found = rules(
        "return r.sections(v.groups).map(([name, all]) => [name, all.map((g) => g.display_model)])", groups=groups
    )
    assert found == [["Custom", ["mine"]], ["#", ["9-lives", "ähnlich"]], ["A", ["alpha"]], ["Z", ["zeta"]]]
