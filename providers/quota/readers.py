"""How each provider type tells what is left of an account: the call, the fields that are kept, what counts as "none".

Shapes as the vendors answer; the names are theirs. What is not listed here is dropped before it is stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from providers.kinds.base import JSON_TYPE, Header, Http, ListingError
from providers.quota.fields import Shape, amount, flag, keep, scalar, text
from providers.quota.values import member, number

Where = Callable[[str], str]
_REFUSED = (401, 403)


def _bearer(key: str) -> list[Header]:
    return [JSON_TYPE, (b"authorization", b"Bearer " + key.encode("utf-8"))] if key else [JSON_TYPE]


def _behind(path: str) -> Where:
    return lambda base_url: base_url.rstrip("/") + path


def _object(answer: Any) -> Mapping[str, Any]:
    if not isinstance(answer, Mapping):
        raise ListingError("the answer is no JSON object", 200)
    return answer


@dataclass(frozen=True, slots=True)
class Reader:
    """One GET of *where* (base URL -> address). *none*: whether a refusal means that the account has no plan.
    *fleeting*: paths that come and go with their values, so that no change of shape is seen in them.
    """

    kind: str
    where: Where
    shape: Shape
    none: Callable[[ListingError], bool] = lambda problem: False
    fleeting: frozenset[str] = frozenset()

    async def read(self, http: Http, base_url: str, key: str) -> Any:
        try:
            return keep(self.shape, _object(await self._answer(http, base_url, key)))
        except ListingError as problem:
            if self.none(problem):
                return None
            raise

    async def _answer(self, http: Http, base_url: str, key: str) -> Any:
        return await http.get(self.where(base_url), _bearer(key))


# --- OpenRouter: two calls, one payload ---------------------------------------------------------------------------

_KEY: Shape = {
    "label": text,
    "limit": amount,
    "limit_reset": text,
    "limit_remaining": amount,
    "usage": amount,
    "usage_daily": amount,
    "usage_weekly": amount,
    "usage_monthly": amount,
    "is_free_tier": flag,
}


class OpenRouterReader:
    """``/credits`` speaks of the account, ``/key`` of the key. The first is closed to ordinary keys of some accounts:
    a key that ``/key`` knows is alive all the same."""

    kind = "usage"
    fleeting: frozenset[str] = frozenset()

    async def read(self, http: Http, base_url: str, key: str) -> Any:
        base = base_url.rstrip("/")
        try:
            credits = member(_object(await http.get(base + "/credits", _bearer(key))), "data")
        except ListingError as problem:
            if problem.status not in _REFUSED:
                raise
            credits = {}
        found = keep(_KEY, member(_object(await http.get(base + "/key", _bearer(key))), "data"))
        return {**found, **_credits(credits)}


def _credits(data: Mapping[str, Any]) -> dict[str, float]:
    total, used = number(data.get("total_credits")), number(data.get("total_usage"))
    found = {"credits_total": total, "credits_used": used}
    if total is not None and used is not None:
        # Nine digits, as prices are kept: 10.1 - 4.2 is 5.9.
        found["credits_remaining"] = max(round(total - used, 9), 0.0)
    return {name: value for name, value in found.items() if value is not None}


# --- Ollama Cloud: the account, and never its usage ----------------------------------------------------------------

_ACCOUNT = (
    "id",
    "email",
    "name",
    "plan",
    "suspendedat",
    "customerid",
    "subscriptionperiodstart",
    "subscriptionperiodend",
)


class OllamaReader(Reader):
    """A POST; some versions of the answer begin the names with a capital letter."""

    async def _answer(self, http: Http, base_url: str, key: str) -> Any:
        answer = _object(await http.post(self.where(base_url), _bearer(key), {}))
        return {name.lower(): value for name, value in answer.items()}


def _ollama_me(base_url: str) -> str:
    base = base_url.rstrip("/")
    return (base[:-3].rstrip("/") if base.lower().endswith("/v1") else base) + "/api/me"


# --- those of one GET ----------------------------------------------------------------------------------------------

_COUNTER: Shape = {"used": amount, "remaining": amount, "percentUsed": amount, "resetAt": scalar}
_KIMI_COUNTER: Shape = {"limit": amount, "used": amount, "remaining": amount, "resetTime": scalar}
_WINDOW: Shape = {"status": text, "percent": amount, "resetsAt": scalar}
_MINIMAX = {
    **dict.fromkeys(("start_time", "end_time", "remains_time"), amount),
    **dict.fromkeys(("weekly_start_time", "weekly_end_time", "weekly_remains_time"), amount),
    **{
        f"current_{span}_{name}": amount
        for span in ("interval", "weekly")
        for name in ("status", "total_count", "usage_count", "remaining_percent")
    },
}


def _no_entitlement(problem: ListingError) -> bool:
    return problem.status == 403 and "entitlementerror" in str(problem).lower()


def _counts(*paths: str) -> frozenset[str]:
    """Kimi leaves out what is zero."""
    return frozenset(f"{path}.{name}" for path in paths for name in ("used", "remaining"))


OPENROUTER = OpenRouterReader()
DEEPSEEK = Reader(
    "balance",
    _behind("/user/balance"),
    {
        "is_available": flag,
        "balance_infos": [
            {
                "currency": text,
                "total_balance": amount,
                "granted_balance": amount,
                "topped_up_balance": amount,
            }
        ],
    },
)
ZAI_CODING = Reader(
    "usage",
    lambda base_url: "https://api.z.ai/api/monitor/usage/quota/limit",
    {
        "code": amount,
        "msg": text,
        "success": flag,
        "data": {
            "level": text,
            "limits": [
                {
                    "type": text,
                    "unit": amount,
                    "number": amount,
                    "usage": amount,
                    "currentValue": amount,
                    "remaining": amount,
                    "percentage": amount,
                    "nextResetTime": scalar,
                    "usageDetails": [{"modelCode": text, "usage": amount}],
                }
            ],
        },
    },
)
KIMI_CODE = Reader(
    "usage",
    _behind("/usages"),
    {
        "user": {"userId": text, "region": text, "membership": {"level": text}},
        "usage": _KIMI_COUNTER,
        "limits": [{"window": {"duration": amount, "timeUnit": text}, "detail": _KIMI_COUNTER}],
        "parallel": {"limit": amount},
        "totalQuota": _KIMI_COUNTER,
        "subType": text,
    },
    fleeting=_counts("usage", "limits[].detail", "totalQuota"),
)
MINIMAX = Reader(
    "usage",
    _behind("/token_plan/remains"),
    {
        "model_remains": [{"model_name": text, **_MINIMAX}],
        "base_resp": {"status_code": amount, "status_msg": text},
    },
)
NANOGPT = Reader(
    "usage",
    _behind("/usage"),
    {
        "active": flag,
        "state": text,
        "provider": text,
        "providerStatus": text,
        "graceUntil": scalar,
        "cancelAt": scalar,
        "canceledAt": scalar,
        "endedAt": scalar,
        "cancelAtPeriodEnd": flag,
        "allowOverage": flag,
        "limits": dict.fromkeys(("dailyInputTokens", "weeklyInputTokens", "dailyImages", "daily", "monthly"), amount),
        "period": {"currentPeriodEnd": scalar},
        "dailyInputTokens": _COUNTER,
        "weeklyInputTokens": _COUNTER,
        "dailyImages": _COUNTER,
    },
)
OPENCODE_GO = Reader(
    "usage",
    _behind("/usage"),
    {"usage": {"rolling": _WINDOW, "weekly": _WINDOW, "monthly": _WINDOW}},
    none=_no_entitlement,
)
NEURALWATT = Reader(
    "usage",
    _behind("/quota"),
    {
        "snapshot_at": scalar,
        "balance": {
            "credits_remaining_usd": amount,
            "total_credits_usd": amount,
            "credits_used_usd": amount,
            "accounting_method": text,
        },
        "usage": {
            period: dict.fromkeys(("cost_usd", "requests", "tokens", "energy_kwh"), amount)
            for period in ("lifetime", "current_month")
        },
        "limits": {"overage_limit_usd": amount, "rate_limit_tier": text},
        "subscription": {
            "plan": text,
            "status": text,
            "billing_interval": text,
            "current_period_start": scalar,
            "current_period_end": scalar,
            "auto_renew": flag,
            "kwh_included": amount,
            "kwh_used": amount,
            "kwh_remaining": amount,
            "in_overage": flag,
        },
        "key": {
            "name": text,
            "allowance": {
                "limit_usd": amount,
                "period": text,
                "spent_usd": amount,
                "remaining_usd": amount,
                "blocked": flag,
            },
        },
    },
    none=lambda problem: problem.status == 404,
)
OLLAMA_CLOUD = OllamaReader("account", _ollama_me, dict.fromkeys(_ACCOUNT, scalar))
