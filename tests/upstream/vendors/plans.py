"""Vendors that sell an allowance: it can be read, it can be spent, and it comes back."""

import re
from typing import Any, ClassVar

from tests.providers.vendors import KIMI, NANO
from tests.upstream.behaviours import Behaviour, Recorded, answer, reply
from tests.upstream.vendors.base import (
    SAID,
    Item,
    OpenAILike,
    Route,
    entry,
    fixed,
    in_hours,
    listing,
    millis,
    refusal,
    rfc3339,
)
from tests.upstream.vendors_api import generated

_ROUTER_MODEL = {
    "id": "z-ai/glm-4.6",
    "canonical_slug": "z-ai/glm-4.6",
    "name": "Z.AI: GLM 4.6",
    "description": "A coding model.",
    "context_length": 202752,
    "architecture": {"modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"]},
    "pricing": {"prompt": "0.0000004", "completion": "0.00000175", "input_cache_read": "0.00000011"},
    "top_provider": {"context_length": 202752, "max_completion_tokens": 65536, "is_moderated": False},
    "supported_parameters": ["tools", "reasoning", "structured_outputs", "temperature"],
}


class OpenRouter(OpenAILike):
    """Credits: a public listing, a key whose state can be asked for, 402 when nothing is left."""

    kind = "openrouter"
    base_url = "https://openrouter.ai/api/v1"
    places = ("https://openrouter.ai",)
    key = "sk-or-v1-0123456789abcdef"
    model = "z-ai/glm-4.6"
    listed = frozenset({"z-ai/glm-4.6"})
    facts: ClassVar = {
        "display_name": "Z.AI: GLM 4.6",
        "owned_by": "z-ai",
        "context_length": 202752,
        "max_output_tokens": 65536,
        "input_price_per_million": 0.4,
        "input_price_per_million_cache_hit": 0.11,
        "output_price_per_million": 1.75,
    }
    unsent = frozenset({"reasoning_effort"})
    public = True
    quota = "usage"

    def free(self) -> dict[tuple[str, str], Route]:
        other = {**_ROUTER_MODEL, "id": "~hidden/one"}
        paints = {**_ROUTER_MODEL, "id": "some/painter", "architecture": {"output_modalities": ["image"]}}
        return {("GET", "/api/v1/models"): fixed({"data": [_ROUTER_MODEL, other, paints]})}

    def routes(self) -> dict[tuple[str, str], Route]:
        return {
            ("POST", "/api/v1/chat/completions"): self.completions,
            ("GET", "/api/v1/key"): self.state,
            ("GET", "/api/v1/credits"): self.credits,
        }

    def state(self, request: Recorded) -> Behaviour:
        used = 25.0 if self.spent else 10.5
        told = {
            "label": "sk-or-v1-012...def",
            "limit": None,
            "limit_remaining": None,
            "limit_reset": None,
            "usage": used,
            "usage_daily": 0.5,
            "usage_weekly": 2.5,
            "usage_monthly": used,
            "is_free_tier": False,
        }
        return reply(200, {"data": told})

    def credits(self, request: Recorded) -> Behaviour:
        return reply(200, {"data": {"total_credits": 25.0, "total_usage": 25.0 if self.spent else 10.5}})

    def exhausted(self) -> Behaviour:
        return reply(402, {"error": {"code": 402, "message": "Insufficient credits. Add more at openrouter.ai"}})


class ZaiCoding(OpenAILike):
    kind = "zai-coding"
    base_url = "https://api.z.ai/api/coding/paas/v4"
    places = ("https://api.z.ai",)
    key = "0123456789abcdef.zai"
    model = "glm-4.6"
    entries = (entry("glm-4.6", "z-ai"), entry("glm-4.5-air", "z-ai"))
    listed = frozenset({"glm-4.6", "glm-4.5-air"})
    more = True
    facts: ClassVar = {"owned_by": "zhipu"}
    sent: ClassVar = {"thinking": {"type": "enabled", "clear_thinking": False}}
    unsent = frozenset({"reasoning_effort"})
    quota = "usage"
    judged = True

    def routes(self) -> dict[tuple[str, str], Route]:
        return {**super().routes(), ("GET", "/api/monitor/usage/quota/limit"): self.limits}

    def limits(self, request: Recorded) -> Behaviour:
        resets = in_hours(2)
        window = {"type": "TOKENS_LIMIT", "unit": 3, "number": 5, "percentage": 100 if self.spent else 37}
        window |= {"nextResetTime": millis(resets)}
        weekly = {
            "type": "TOKENS_LIMIT",
            "unit": 6,
            "number": 1,
            "percentage": 60,
            "nextResetTime": millis(in_hours(70)),
        }
        calls = {"type": "TIME_LIMIT", "unit": 5, "number": 1, "usage": 100, "currentValue": 100, "remaining": 0}
        calls |= {"percentage": 100, "usageDetails": [{"modelCode": "search-prime", "usage": 100}]}
        data = {"limits": [calls, window, weekly], "level": "pro"}
        return reply(200, {"code": 200, "msg": "Operation successful", "success": True, "data": data})

    def unauthorised(self) -> Behaviour:
        return reply(401, {"error": {"code": "1000", "message": "Authentication Failed"}})

    def exhausted(self) -> Behaviour:
        said = f"Usage limit reached for 5 hour. Your limit will reset at {in_hours(2):%Y-%m-%d %H:%M:%S}"
        return reply(429, {"error": {"code": "1308", "message": said}})


class KimiCode(OpenAILike):
    kind = "kimi-code"
    base_url = "https://api.kimi.com/coding/v1"
    places = ("https://api.kimi.com",)
    key = "sk-kimi-0123456789abcdef"
    model = "kimi-for-coding"
    entries = (KIMI,)
    listed = frozenset({"kimi-for-coding"})
    facts: ClassVar = {
        "display_name": "Kimi For Coding",
        "owned_by": "moonshotai",
        "context_length": 262144,
    }
    sent: ClassVar = {"reasoning_effort": "low"}
    quota = "usage"
    judged = True

    def routes(self) -> dict[tuple[str, str], Route]:
        return {**super().routes(), ("GET", "/coding/v1/usages"): self.usages}

    def usages(self, request: Recorded) -> Behaviour:
        # Numbers are texts, and a zero is left out.
        left = {"used": "100"} if self.spent else {"used": "20", "remaining": "80"}
        window = {"limit": "100", **left, "resetTime": rfc3339(in_hours(3))}
        return reply(
            200,
            {
                "user": {"userId": "u1", "region": "REGION_OVERSEA", "membership": {"level": "LEVEL_INTERMEDIATE"}},
                "usage": {"limit": "2048", "used": "375", "remaining": "1673", "resetTime": rfc3339(in_hours(90))},
                "limits": [{"window": {"duration": 300, "timeUnit": "TIME_UNIT_MINUTE"}, "detail": window}],
                "parallel": {"limit": "10"},
                "subType": "TYPE_PURCHASE",
            },
        )

    def unauthorised(self) -> Behaviour:
        return reply(401, {"error": {"message": "Invalid Authentication", "type": "invalid_authentication_error"}})

    def exhausted(self) -> Behaviour:
        said = "You've reached your usage limit for this billing cycle. Your quota will be refreshed in the next cycle."
        return reply(403, {"error": {"message": said, "type": "access_terminated_error"}})


class MiniMax(OpenAILike):
    """What goes wrong comes as a 200 whose ``base_resp`` says so."""

    kind = "minimax"
    base_url = "https://api.minimax.io/v1"
    places = ("https://api.minimax.io",)
    key = "sk-cp-0123456789abcdef"
    model = "MiniMax-M2.5"
    entries = (entry("MiniMax-M2.5", "minimax"),)
    listed = frozenset({"MiniMax-M2.5"})
    sent: ClassVar = {"reasoning_effort": "low"}
    quota = "usage"
    judged = True

    def routes(self) -> dict[tuple[str, str], Route]:
        return {**super().routes(), ("GET", "/v1/token_plan/remains"): self.remains}

    def remains(self, request: Recorded) -> Behaviour:
        plan: Item = {
            "model_name": "MiniMax-M*",
            "start_time": millis(in_hours(-2)),
            "end_time": millis(in_hours(3)),
            "remains_time": 3 * 3600 * 1000,
            "current_interval_status": 1,
            "current_interval_total_count": 1500,
            "current_interval_usage_count": 1500 if self.spent else 300,
            "current_interval_remaining_percent": 0 if self.spent else 80,
            "current_weekly_status": 1,
            "current_weekly_total_count": 15000,
            "current_weekly_usage_count": 4000,
            "current_weekly_remaining_percent": 73,
            "weekly_start_time": millis(in_hours(-60)),
            "weekly_end_time": millis(in_hours(108)),
        }
        speech = {"model_name": "speech-hd", "current_interval_status": 3, "current_interval_remaining_percent": 0}
        said = {"status_code": 0, "status_msg": "success"}
        return reply(200, {"model_remains": [plan, speech], "base_resp": said})

    def unauthorised(self) -> Behaviour:
        return reply(401, {"base_resp": {"status_code": 1004, "status_msg": "login fail: wrong API secret key"}})

    def exhausted(self) -> Behaviour:
        return reply(
            200, {"id": "", "choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}
        )


class NanoGPT(OpenAILike):
    kind = "nanogpt"
    base_url = "https://nano-gpt.com/api/subscription/v1"
    places = ("https://nano-gpt.com",)
    key = "sk-nano-0123456789abcdef"
    model = "z-ai/glm-4.6"
    listed = frozenset({"z-ai/glm-4.6", "hidream"})
    facts: ClassVar = {
        "display_name": "GLM 4.6",
        "owned_by": "z-ai",
        "context_length": 200000,
        "max_output_tokens": 65535,
        "input_price_per_million": 0.4,
        "output_price_per_million": 1.5,
        "params": {"subscription_included": True, "subscription_note": "Included in the subscription"},
    }
    unsent = frozenset({"reasoning_effort"})
    public = True
    quota = "usage"
    judged = True

    def free(self) -> dict[tuple[str, str], Route]:
        images = {
            "hidream": {"name": "HiDream", "subscription": {"included": True}, "cost": {"1024x1024": 0.014}},
            "dear": {"name": "Dear", "subscription": {"included": False}, "cost": {"1024x1024": 0.4}},
        }
        return {
            ("GET", "/api/subscription/v1/models"): lambda request: reply(
                200, listing(NANO if request.target.endswith("?detailed=true") else entry(self.model, "z-ai"))
            ),
            ("GET", "/api/models/image"): fixed({"models": {"image": images}}),
        }

    def routes(self) -> dict[tuple[str, str], Route]:
        return {
            ("POST", "/api/subscription/v1/chat/completions"): self.completions,
            ("GET", "/api/subscription/v1/usage"): self.usage,
        }

    def usage(self, request: Recorded) -> Behaviour:
        def counter(used: int, total: int, resets: int) -> Item:
            share = used / total
            return {"used": used, "remaining": total - used, "percentUsed": share, "resetAt": resets}

        week = 60_000_000
        return reply(
            200,
            {
                "active": True,
                "provider": "stripe",
                "state": "active",
                "allowOverage": False,
                "limits": {"weeklyInputTokens": week, "dailyInputTokens": None, "dailyImages": 100},
                "period": {"currentPeriodEnd": rfc3339(in_hours(400))},
                "dailyInputTokens": None,
                "weeklyInputTokens": counter(week if self.spent else 6_000_000, week, millis(in_hours(50))),
                "dailyImages": counter(3, 100, millis(in_hours(9))),
                "graceUntil": None,
            },
        )

    def unauthorised(self) -> Behaviour:
        return refusal(401, "Invalid session", "authentication_error", "invalid_api_key")

    def exhausted(self) -> Behaviour:
        said = "Weekly input token limit reached for your subscription."
        return refusal(429, said, "rate_limit_error", "weekly_quota_exceeded")


class OpenCodeZen(OpenAILike):
    """Pay as you go: chat completions, but Gemini's own dialect for its Gemini family."""

    kind = "opencode-zen"
    base_url = "https://opencode.ai/zen/v1"
    places = ("https://opencode.ai/zen/v1",)
    key = "sk-zen-0123456789abcdef"
    model = "gemini-3-flash"
    entries = (entry("gemini-3-flash", "opencode"), entry("big-pickle", "opencode"), entry("glm-4.6", "opencode"))
    listed = frozenset({"gemini-3-flash", "big-pickle", "glm-4.6"})
    more = True
    unsent = frozenset({"reasoning_effort", "model"})

    def __init__(self) -> None:
        super().__init__()
        self.chat_url = "https://opencode.ai/zen/v1/models/gemini-3-flash:generateContent"
        self.stream_url = "https://opencode.ai/zen/v1/models/gemini-3-flash:streamGenerateContent?alt=sse"

    def allowed(self, request: Recorded) -> bool:
        if "/models/" in request.path:
            return request.headers.get("x-goog-api-key") == self.key and "authorization" not in request.headers
        return super().allowed(request)

    def routes(self) -> dict[tuple[str, str], Route]:
        gemini = r"/zen/v1/models/gemini-3-flash:(generateContent|streamGenerateContent)"
        return {**super().routes(), ("POST", gemini): self.chat}

    def exhausted(self) -> Behaviour:
        error = {"type": "CreditsError", "message": "Insufficient balance. Manage your billing at opencode.ai"}
        return reply(401, {"type": "error", "error": error})

    def said(self, request: Recorded) -> Behaviour:
        return generated({"text": SAID}) if "/models/" in request.path else answer(SAID)


class OpenCodeGo(OpenAILike):
    """The subscription beside it: a public listing, windows of five hours, a week and a month."""

    kind = "opencode-go"
    base_url = "https://opencode.ai/zen/go/v1"
    places = ("https://opencode.ai/zen/go",)
    key = "sk-go-0123456789abcdef"
    model = "glm-4.6"
    entries = (entry("glm-4.6", "opencode"), entry("kimi-k2.5", "opencode"))
    listed = frozenset({"glm-4.6", "kimi-k2.5"})
    sent: ClassVar = {"chat_template_args": {"enable_thinking": True}}
    unsent = frozenset({"reasoning_effort"})
    public = True
    quota = "usage"
    judged = True

    def free(self) -> dict[tuple[str, str], Route]:
        return {("GET", "/zen/go/v1/models"): fixed(listing(*self.entries))}

    def routes(self) -> dict[tuple[str, str], Route]:
        return {
            ("POST", "/zen/go/v1/chat/completions"): self.in_session,
            ("GET", "/zen/go/v1/usage"): self.usage,
        }

    def in_session(self, request: Recorded) -> Behaviour:
        if not re.fullmatch(r"[!-~]{1,128}", request.headers.get("x-opencode-session", "")):
            return refusal(400, "x-opencode-session is missing")
        return self.completions(request)

    def usage(self, request: Recorded) -> Behaviour:
        def window(percent: int, hours: float) -> Item:
            said = "rate-limited" if percent >= 100 else "ok"
            return {"status": said, "percent": percent, "resetsAt": rfc3339(in_hours(hours))}

        windows: dict[str, Any] = {
            "rolling": window(100 if self.spent else 12, 4),
            "weekly": window(31, 80),
            "monthly": window(8, 500),
        }
        return reply(200, {"usage": windows})

    def exhausted(self) -> Behaviour:
        return reply(
            429, {"type": "error", "error": {"type": "SubscriptionUsageLimitError", "message": "Usage limit reached"}}
        )


class NeuralWatt(OpenAILike):
    """Billed by energy: the plan's kilowatt hours first, prepaid credits after them."""

    kind = "neuralwatt"
    base_url = "https://api.neuralwatt.com/v1"
    places = ("https://api.neuralwatt.com",)
    key = "sk-nw-0123456789abcdef"
    model = "moonshotai/Kimi-K2.5"
    entries = (entry("moonshotai/Kimi-K2.5", "neuralwatt"),)
    listed = frozenset({"moonshotai/Kimi-K2.5"})
    sent: ClassVar = {"reasoning_effort": "low"}
    quota = "usage"
    judged = True

    def routes(self) -> dict[tuple[str, str], Route]:
        return {**super().routes(), ("GET", "/v1/quota"): self.left}

    def left(self, request: Recorded) -> Behaviour:
        used = 20.0 if self.spent else 4.5
        return reply(
            200,
            {
                "snapshot_at": rfc3339(in_hours(0)),
                "balance": {
                    "credits_remaining_usd": 0.0 if self.spent else 3.25,
                    "total_credits_usd": 10.0,
                    "credits_used_usd": 10.0 if self.spent else 6.75,
                    "accounting_method": "energy",
                },
                "usage": {"current_month": {"cost_usd": 6.75, "requests": 120, "tokens": 90000, "energy_kwh": used}},
                "limits": {"overage_limit_usd": None, "rate_limit_tier": "standard"},
                "subscription": {
                    "plan": "standard",
                    "status": "active",
                    "billing_interval": "month",
                    "current_period_start": rfc3339(in_hours(-200)),
                    "current_period_end": rfc3339(in_hours(20)),
                    "auto_renew": True,
                    "kwh_included": 20.0,
                    "kwh_used": used,
                    "kwh_remaining": 20.0 - used,
                    "in_overage": False,
                },
                "key": {"name": "house", "allowance": None},
            },
        )

    def exhausted(self) -> Behaviour:
        return refusal(402, "Insufficient credits and no kWh left in this period.", "insufficient_quota")
