"""The quota reader of each type: which call it makes, what is kept of the answer, and what a refusal means."""

from typing import Any

import pytest

from providers import control
from providers.kinds import registry
from providers.kinds.base import ListingError
from providers.quota import readers
from tests.upstream.vendors import BY_KIND

KEY = "sk-abcdef123456"
BASE = "https://vendor.test/v1"


class Vendor:
    """Answers by address; an int is a status."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, str]] = []

    async def _call(self, method: str, url: str, headers: Any) -> Any:
        assert (b"authorization", b"Bearer " + KEY.encode()) in list(headers)
        self.calls.append((method, url))
        said = self.answers[url.rpartition("/")[2]]
        if isinstance(said, ListingError):
            raise said
        return said

    async def get(self, url: str, headers: Any) -> Any:
        return await self._call("GET", url, headers)

    async def post(self, url: str, headers: Any, body: Any) -> Any:
        assert body == {}
        return await self._call("POST", url, headers)


def read(kind: str, base: str = BASE, **answers: Any) -> tuple[Any, list[tuple[str, str]]]:
    vendor, reader = Vendor(**answers), registry.get(kind).quota
    assert reader is not None
    return control.LOOP.run(reader.read(vendor, base, KEY)), vendor.calls


def refused(status: int, said: str = "no") -> ListingError:
    return ListingError(f"HTTP {status}: {said}", status)


def test_who_tells_what():
    told = {kind.type: kind.quota.kind for kind in registry.KINDS.values() if kind.quota is not None}
    assert told == {
        **dict.fromkeys(
            ("openrouter", "zai-coding", "kimi-code", "minimax", "nanogpt", "opencode-go", "neuralwatt"), "usage"
        ),
        "deepseek": "balance",
        "ollama-cloud": "account",
    }
    assert {kind for kind, vendor in BY_KIND.items() if vendor.quota} == set(told)


@pytest.mark.parametrize(
    ("kind", "last", "call"),
    [
        ("deepseek", "balance", ("GET", "https://vendor.test/v1/user/balance")),
        ("zai-coding", "limit", ("GET", "https://api.z.ai/api/monitor/usage/quota/limit")),
        ("kimi-code", "usages", ("GET", "https://vendor.test/v1/usages")),
        ("minimax", "remains", ("GET", "https://vendor.test/v1/token_plan/remains")),
        ("nanogpt", "usage", ("GET", "https://vendor.test/v1/usage")),
        ("opencode-go", "usage", ("GET", "https://vendor.test/v1/usage")),
        ("neuralwatt", "quota", ("GET", "https://vendor.test/v1/quota")),
        ("ollama-cloud", "me", ("POST", "https://vendor.test/api/me")),
    ],
)
@pytest.mark.parametrize("base", [BASE, BASE + "/"])
def test_each_is_one_call(kind: str, last: str, call: tuple[str, str], base: str):
    assert read(kind, base, **{last: {"unknown": 1}}) == ({}, [call])


@pytest.mark.parametrize("kind", ["deepseek", "kimi-code", "ollama-cloud"])
@pytest.mark.parametrize("answer", [[], "text", 5, None])
def test_an_answer_that_is_no_object_is_a_failure(kind: str, answer: Any):
    last = {"deepseek": "balance", "kimi-code": "usages", "ollama-cloud": "me"}[kind]
    with pytest.raises(ListingError, match="no JSON object"):
        read(kind, **{last: answer})


CREDITS = {"data": {"total_credits": 20, "total_usage": 4.2, "more": 1}}
KEY_SAID = {
    "data": {
        "label": "sk-or-v1-0e6...1c96",
        "usage": 900.5,
        "usage_daily": 1,
        "usage_weekly": 2,
        "usage_monthly": 3,
        "limit": None,
        "limit_remaining": None,
        "limit_reset": None,
        "is_free_tier": False,
        "rate_limit": {"requests": 10},
        "creator_user_id": "user_1",
    }
}
OF_KEY = {name: value for name, value in KEY_SAID["data"].items() if name not in ("rate_limit", "creator_user_id")}


def test_openrouter_is_asked_for_its_credits_and_then_for_the_key():
    payload, calls = read("openrouter", credits=CREDITS, key=KEY_SAID)
    assert payload == {**OF_KEY, "credits_total": 20.0, "credits_used": 4.2, "credits_remaining": 15.8}
    assert calls == [("GET", BASE + "/credits"), ("GET", BASE + "/key")]


def test_what_openrouter_owes_leaves_no_credits():
    payload, _ = read("openrouter", credits={"data": {"total_credits": 1, "total_usage": 1.5}}, key=KEY_SAID)
    assert payload["credits_remaining"] == 0.0


@pytest.mark.parametrize("credits", [refused(401), refused(403), {"data": {}}, {"data": {"total_credits": None}}, {}])
def test_credits_that_are_not_told_are_missing_and_not_0(credits: Any):
    payload, _ = read("openrouter", credits=credits, key=KEY_SAID)
    assert payload == OF_KEY


@pytest.mark.parametrize(
    ("credits", "key", "status"),
    [(refused(500), KEY_SAID, 500), (CREDITS, refused(401), 401), (refused(401), refused(401), 401)],
)
def test_openrouter_fails_with_its_key_or_with_what_may_pass(credits: Any, key: Any, status: int):
    with pytest.raises(ListingError) as failure:
        read("openrouter", credits=credits, key=key)
    assert failure.value.status == status


def test_no_plan_is_a_404_of_neuralwatt_and_an_entitlement_error_of_opencode():
    """part of providers 64"""
    assert read("neuralwatt", quota=refused(404))[0] is None
    for said in ('{"type":"EntitlementError"}', "entitlementerror: no plan", "ENTITLEMENTERROR"):
        assert read("opencode-go", usage=refused(403, said))[0] is None


@pytest.mark.parametrize(
    ("kind", "last", "problem"),
    [
        ("neuralwatt", "quota", refused(403)),
        ("opencode-go", "usage", refused(403)),
        ("opencode-go", "usage", refused(401, "EntitlementError")),
        ("opencode-go", "usage", refused(404)),
        ("nanogpt", "usage", refused(404)),
        ("kimi-code", "usages", refused(403, "EntitlementError")),
    ],
)
def test_every_other_refusal_is_one(kind: str, last: str, problem: ListingError):
    with pytest.raises(ListingError) as failure:
        read(kind, **{last: problem})
    assert failure.value is problem


def test_ollama_names_are_read_in_either_spelling_and_only_some_are_kept():
    for spell in (str, str.capitalize):
        said = {spell("plan"): "pro", spell("email"): "a@b.c", spell("name"): "x", spell("bio"): "long"}
        assert read("ollama-cloud", me=said)[0] == {"plan": "pro", "email": "a@b.c", "name": "x"}


MINIMAX = {
    "model_name": "general",
    "current_interval_status": 1,
    "current_interval_total_count": 1500,
    "current_weekly_remaining_percent": 73,
    "start_time": 1,
    "weekly_end_time": 2,
}
NEURAL = {
    "snapshot_at": "2026-04-16T18:30:00Z",
    "balance": {"credits_remaining_usd": 4.5, "total_credits_usd": 5.0, "accounting_method": "energy"},
    "usage": {"lifetime": {"cost_usd": 0.5, "requests": 10}},
    "limits": {"overage_limit_usd": None, "rate_limit_tier": "free"},
    "subscription": None,
    "key": {"name": "trial", "allowance": None},
}


@pytest.mark.parametrize(
    ("kind", "last", "answer"),
    [
        (
            "deepseek",
            "balance",
            {"is_available": True, "balance_infos": [{"currency": "CNY", "total_balance": "1.00"}]},
        ),
        ("zai-coding", "limit", {"code": 200, "data": {"level": "pro", "limits": [{"type": "T", "percentage": 40}]}}),
        (
            "kimi-code",
            "usages",
            {
                "usage": {"limit": "100", "used": "3", "resetTime": "2030-01-01T00:00:00Z"},
                "limits": [{"window": {"duration": 300, "timeUnit": "TIME_UNIT_MINUTE"}, "detail": {"limit": "9"}}],
                "parallel": {"limit": "10"},
                "subType": "TYPE_PURCHASE",
            },
        ),
        ("minimax", "remains", {"model_remains": [MINIMAX], "base_resp": {"status_code": 0, "status_msg": "ok"}}),
        (
            "nanogpt",
            "usage",
            {
                "active": True,
                "dailyInputTokens": None,
                "weeklyInputTokens": {"used": 1, "resetAt": 17},
                "state": "active",
            },
        ),
        ("opencode-go", "usage", {"usage": {"rolling": {"status": "ok", "percent": 3, "resetsAt": "x"}}}),
        ("neuralwatt", "quota", NEURAL),
    ],
)
def test_known_fields_pass_as_the_vendor_wrote_them_and_all_others_are_dropped(kind: str, last: str, answer: Any):
    assert read(kind, **{last: answer})[0] == answer
    assert read(kind, **{last: littered(answer)})[0] == answer


def littered(value: Any) -> Any:
    """*value* with a member nobody knows in every object."""
    if isinstance(value, dict):
        return {**{name: littered(inner) for name, inner in value.items()}, "surprise": {"x": 1}}
    return [littered(entry) for entry in value] if isinstance(value, list) else value


def test_kimi_windows_that_become_zero_are_no_new_shape():
    assert readers.KIMI_CODE.fleeting >= {"usage.used", "limits[].detail.remaining"}
