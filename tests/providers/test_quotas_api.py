"""``/api/providers/quotas``, ``/refresh-quotas`` and ``/{id}/usage|balance|account``: stored readings and live ones."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from providers.quota import store
from providers.quota.store import Fetched
from tests.providers.conftest import Api
from tests.upstream.server import FakeProvider

pytestmark = pytest.mark.database

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = "sk-abcdef123456"
OK = {"usage": {"limit": "100", "used": "40", "remaining": "60", "resetTime": "2030-01-01T00:00:00Z"}}


def kimi(api: Api, upstream: FakeProvider, name: str = "Kimi", **more: Any) -> dict[str, Any]:
    return api.provider(upstream, name=name, provider_type="kimi-code", api_key=KEY, **more)


def keep(made: dict[str, Any], fetched: Fetched, kind: str = "usage", at: datetime = AT) -> None:
    store.keep(made["id"], kind, fetched, "poll", at)


def test_the_quotas_are_those_that_are_stored_in_one_form(api: Api, provider_a: FakeProvider):
    spent, other = kimi(api, provider_a, quota_reserve_percent=20), kimi(api, provider_a, "Another")
    off, none = kimi(api, provider_a, "Off"), api.provider(provider_a, name="Custom")
    keep(spent, Fetched(OK, 200))
    keep(spent, Fetched(error="HTTP 500"), at=AT + timedelta(minutes=5))
    keep(other, Fetched(status=424))
    for made in (off, none):
        keep(made, Fetched(OK, 200))
    api.put(f"/providers/{off['id']}", {"enabled": False})
    answer = api.get("/providers/quotas")
    assert answer.status_code == 200
    assert answer.json() == {
        "quotas": [
            {
                "provider_id": other["id"],
                "provider_name": "Another",
                "provider_type": "kimi-code",
                "kind": "usage",
                "http_status": 424,
                "fetched_at": "2026-03-01T12:00:00Z",
                "last_error": "",
                "reserve_percent": 0,
                "windows": [],
                "plan": None,
            },
            {
                "provider_id": spent["id"],
                "provider_name": "Kimi",
                "provider_type": "kimi-code",
                "kind": "usage",
                "http_status": 200,
                "fetched_at": "2026-03-01T12:00:00Z",
                "last_error": "HTTP 500",
                "reserve_percent": 20,
                "windows": [
                    {
                        "name": "cycle",
                        "used_percent": 40.0,
                        "used": 40.0,
                        "limit": 100.0,
                        "remaining": 60.0,
                        "unit": "",
                        "resets_at": "2030-01-01T00:00:00Z",
                    }
                ],
                "plan": None,
            },
        ]
    }
    assert provider_a.requests == [], "nobody is asked"


def test_without_readings_there_are_no_quotas(api: Api):
    assert api.get("/providers/quotas").json() == {"quotas": []}
