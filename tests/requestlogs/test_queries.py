"""Filters, order and pages of the log, on the real tables."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from modelhotel.core.actor import ADMIN, Actor
from providers.models import Provider
from requestlogs import cursors, ports, queries
from requestlogs.models import RequestLog

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
POSITION = cursors.By("created_at")
T0 = datetime(2026, 1, 1, tzinfo=UTC)
A, B = uuid.UUID(int=10), uuid.UUID(int=11)


@pytest.fixture(autouse=True)
def _ports(monkeypatch: pytest.MonkeyPatch):
    for name in ("live_key_ids", "key_names"):
        monkeypatch.setattr(ports, name, getattr(ports, name))  # put back afterwards
    ports.configure(lambda: ())


def row(n, **fields):
    values = {"request_hash": f"{n:016x}", "state": "completed", "endpoint_type": "chat", "model_id": f"m{n}"}
    values["created_at"] = T0 + timedelta(seconds=n)
    return RequestLog.objects.create(id=uuid.UUID(int=n), **{**values, **fields})


def found(query, actor=ADMIN):
    rows = queries.filtered(queries.visible_to(actor), query, actor)
    in_order = queries.ordered(rows, query.get("sort_by", "time"), query.get("sort_dir", "desc"))
    return [r.id.int for r in in_order]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [4, 3, 2, 1]),
        ({"model_id": "GLM"}, [2, 1]),
        ({"model_id": "100%"}, [3]),
        ({"model_id": "%"}, [3]),
        ({"model_id": "_"}, [4]),
        ({"model_id": "a\0b"}, [4, 3, 2, 1]),
        ({"client_ip": "\0"}, [4, 3, 2, 1]),
        ({"provider_id": str(A)}, [2, 1]),
        ({"provider_id": "nonsense"}, [4, 3, 2, 1]),
        ({"status_code": "2xx"}, [1]),
        ({"status_code": "429"}, [2]),
        ({"status_code": "0"}, [4, 3]),
        ({"status_code": "zzz"}, [4, 3, 2, 1]),
        ({"endpoint_type": "embeddings"}, [3]),
        ({"endpoint_type": "telepathy"}, [4, 3, 2, 1]),
        ({"client_ip": "10.0.0.1"}, [1]),
        ({"from": "2026-01-01T00:00:02Z", "to": "2026-01-01T00:00:04Z"}, [3, 2]),
        ({"from": "yesterday"}, [4, 3, 2, 1]),
        ({"from": "0001-01-01T00:00:00+23:59"}, [4, 3, 2, 1]),
        ({"from": "0001-01-01T00:00:00Z"}, [4, 3, 2, 1]),
        ({"to": "9999-12-31T23:59:59-23:59"}, [4, 3, 2, 1]),
        ({"status_code": "²"}, [4, 3, 2, 1]),
        ({"attempt_status": "²"}, [4, 3, 2, 1]),
        ({"attempt_status": "9" * 40}, [4, 3, 2, 1]),
        ({"attempt_provider_id": str(B)}, [2]),
        ({"attempt_status": "503"}, [2]),
        ({"attempt_provider_id": str(A), "attempt_status": "503"}, [2]),
        ({"attempt_provider_id": str(B), "attempt_status": "503"}, []),
        ({"attempt_status": "-1"}, [4, 3, 2, 1]),
    ],
)
def test_each_filter_finds_its_rows(query, expected):
    """operations 23, operations 24, operations 25."""
    row(1, model_id="hotel/glm", provider_id=A, status_code=200, client_ip="10.0.0.1")
    trail = [{"provider_id": str(A), "status": 503}, {"provider_id": str(B), "status": 200}]
    row(2, model_id="x", resolved_model_id="glm-4", provider_id=A, status_code=429, attempts=trail)
    row(3, model_id="100%", status_code=0, endpoint_type="embeddings")
    row(4, model_id="a_b", status_code=None, state="pending")
    assert found(query) == expected


def test_a_user_sees_only_rows_that_count_for_them():
    """part of operations 30"""
    me = uuid.uuid4()
    row(1, owner_user_id=me)
    row(2, owner_user_id=uuid.uuid4())
    row(3)
    assert found({}, Actor("me", "user", str(me))) == [1]
    assert found({"owner_user_id": str(uuid.uuid4())}, Actor("me", "user", str(me))) == [1]


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("sort_by", ["provider", "ttft", "tps", "tokens", "key", "ip", "response_header_ms"])
def test_rows_without_a_value_come_last_in_either_direction(sort_by, direction):
    """operations 26"""
    provider = Provider.objects.create(id=A, name="Alpha", base_url="https://a", provider_type="custom")
    key = uuid.uuid4()
    ports.configure(lambda: [key])
    row(1)
    row(
        2,
        provider_id=provider.id,
        ttft_ms=5,
        tokens_per_second=2,
        tokens_prompt=3,
        virtual_key_id=key,
        virtual_key_name="k",
        client_ip="1.1.1.1",
        response_header_ms=4,
    )
    row(3, ttft_ms=0, virtual_key_id=uuid.uuid4(), virtual_key_name="gone")
    assert found({"sort_by": sort_by, "sort_dir": direction}) == [2, 3, 1]


def test_an_unknown_order_is_time():
    row(1)
    row(2)
    assert found({"sort_by": "beauty"}) == [2, 1]
    assert found({"sort_by": "time", "sort_dir": "asc"}) == [1, 2]


def test_an_entry_names_its_provider_or_says_that_it_is_gone():
    """part of operations 12, operations 13"""
    Provider.objects.create(id=A, name="Alpha", base_url="https://a", provider_type="custom")
    rows = [row(1, provider_id=A), row(2, provider_id=B, virtual_key_id=uuid.uuid4()), row(3)]
    entries = queries.entries(rows)
    assert [e["provider_name"] for e in entries] == ["Alpha", "Deleted", ""]
    assert [e["virtual_key_deleted"] for e in entries] == [False, True, False]
    assert entries[0]["created_at"] == "2026-01-01T00:00:01.000Z"
    assert "heartbeat_at" not in entries[0]


def test_cursor_pages_lose_and_repeat_no_row_of_equal_time():
    """operations 27"""
    for n in range(1, 12):
        row(n, created_at=T0)
    rows = queries.visible_to(ADMIN)
    seen, cursor = [], None
    while True:
        page = POSITION.page(rows, cursor, "after", 3)
        seen += [r.id.int for r in page.rows]
        cursor = page.next
        if cursor is None:
            break
    assert seen == list(range(11, 0, -1))
    back = POSITION.page(rows, cursors.encode((page.rows[0].created_at, page.rows[0].id)), "before", 3)
    assert [r.id.int for r in back.rows] == [5, 4, 3]
    assert back.prev is not None and back.next is not None
    assert POSITION.page(rows, None, "after", 3).prev is None


@pytest.mark.parametrize("cursor", ["x", "ff", "5b5d", "[]", "%00"])
def test_a_broken_cursor_is_named(cursor):
    """operations 28"""
    with pytest.raises(cursors.BadCursor):
        POSITION.page(queries.visible_to(ADMIN), cursor, "after", 3)
