"""Lists stay quick with more than a hundred thousand rows."""

import time
import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client

from modelhotel.core import clock
from modelhotel.models import User
from requestlogs import api, applog_queries
from requestlogs.models import AppLog, RequestLog
from tests.pace import slower

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.database,
    pytest.mark.slow,
    pytest.mark.timeout(120),
]
BASE, DOUBLED = 1000, 7
#: Seconds one page may take, on a machine that does much else beside it. A list that freezes takes many.
PATIENCE = 3.0


def _request(n, now):
    bad = n % 100 == 7
    return RequestLog(
        id=uuid.uuid4(),
        request_hash=f"{n:016x}",
        created_at=now - timedelta(seconds=n),
        state="failed" if bad else "completed",
        endpoint_type="chat",
        model_id=f"hotel/model-{n % 50}",
        provider_id=uuid.UUID(int=1),
        status_code=500 if bad else 200,
        error_kind="provider_error" if bad else None,
    )


def _line(n, now):
    source, at = f"source{n % 20}", now - timedelta(seconds=n)
    level = "error" if n % 1000 == 7 else "info"
    message = f"{source}: line {n}"
    return AppLog(id=uuid.uuid4(), timestamp=at, created_at=now, level=level, source=source, message=message)


def _fill(model, make):
    now = clock.SYSTEM.now()
    model.objects.bulk_create([make(n, now) for n in range(BASE)])
    names = [field.column for field in model._meta.concrete_fields]
    own = "lower(hex(randomblob(16)))" if connection.vendor == "sqlite" else "gen_random_uuid()"
    others = ", ".join(f'"{name}"' for name in names if name != "id")
    table = model._meta.db_table
    with connection.cursor() as cursor:
        for _ in range(DOUBLED):
            cursor.execute(f'INSERT INTO "{table}" ("id", {others}) SELECT {own}, {others} FROM "{table}"')
        cursor.execute("ANALYZE")
    assert model.objects.count() == BASE * 2**DOUBLED


ASKED = {
    "/requestlogs/requestlog/": "hotel/model-0",
    "/requestlogs/requestlog/?p=1000": "hotel/model-",
    "/requestlogs/requestlog/?q=model-49": "hotel/model-49",
    "/requestlogs/requestlog/?status=5": "provider_error",
    "/requestlogs/requestlog/?state=failed&error_kind=provider_error": "provider_error",
    "/requestlogs/requestlog/?q=nothing-of-it": "",
    "/api/logs": '"total":128000',
    "/api/logs?model_id=model-49&sort_by=duration": '"total":2560',
    "/api/logs/cursor?status_code=5xx&limit=200": '"total": 1280',
    "/requestlogs/applog/": "source0 (6400)",
    "/requestlogs/applog/?level=error&q=line+7": "source7: line 7",
    "/api/logs/app?history=true&sort_by=level": '"total": 128000',
}


def test_the_first_page_and_each_filter_answer_without_freezing():
    """operations 62. The request log and the app log, in the dashboard and through the API."""
    _fill(RequestLog, _request)
    _fill(AppLog, _line)
    api.forget_cache()
    applog_queries.forget_counts()
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    slow = {}
    for address, expected in ASKED.items():
        began = time.monotonic()
        answer = client.get(address)
        took = time.monotonic() - began
        assert answer.status_code == 200 and expected in answer.content.decode(), address
        if took > PATIENCE * slower():
            slow[address] = round(took, 2)
    assert slow == {}
