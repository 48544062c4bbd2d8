"""A house that has been lived in: 10,000 models and a million request rows, written by SQL into a stopped product.

Every row is a copy of one that the product itself has written (a model that it listed, a request that it answered),
with its own identity, time and outcome: a column that is added later is filled as well.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import httpx

from tests.bench.dashboards import signed_in
from tests.bench.hotel import ADMIN_TOKEN

MODELS = 10_000
ROWS = 1_000_000
PROVIDERS = 20  # the models of two of them bear the same names, so that groups of two form
DAYS = 30  # over which the request rows spread
#: Main pages, and the listings behind them: what somebody waits for.
PAGES = ("/", "/requests/", "/logs/", "/requestlogs/requestlog/", "/providers/", "/models/", "/failover/failovergroup/")
CALLS = ("/api/logs", "/api/models", "/api/failover-groups")
TRIES = 3  # of each page; the first of them is shown as well

_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
_ID = "lower(hex(randomblob(16)))"


def fill(database: Path, models: int = MODELS, rows: int = ROWS) -> float:
    """Seconds it took. The database holds at least one provider, model and request."""
    began = time.monotonic()
    with closing(sqlite3.connect(database, timeout=30)) as db, db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA cache_size = -200000")
        indexes = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'request_logs' AND sql <> ''"
        dropped = db.execute(indexes).fetchall()
        for index, _ in dropped:
            db.execute(f'DROP INDEX "{index}"')
        own = db.execute("SELECT count(*) FROM models").fetchone()[0]
        _copy(
            db,
            "providers",
            PROVIDERS,
            {"id": _ID, "name": "'filled-' || n.i", "encrypted_key": "NULL", "key_nonce": "NULL", "key_salt": "NULL"},
        )
        db.execute("CREATE TEMP TABLE filled AS SELECT row_number() OVER () AS at, id FROM providers")
        filled = f"(SELECT id FROM filled WHERE at = n.i % {PROVIDERS} + 1)"
        name = f"'filled-model-' || ((n.i % {PROVIDERS}) / 2) || '-' || (n.i / {PROVIDERS})"
        _copy(db, "models", models - own, {"id": _ID, "provider_id": filled, "model_id": name, "name": name})
        ago = f"(? - n.i) * {DAYS * 86400.0 / rows}"
        failed = "n.i % 50 = 0"
        _copy(
            db,
            "request_logs",
            rows,
            {
                # In order, as the key of a table that is filled at one go: a random one takes four times as long.
                "id": "printf('%016x', n.i) || lower(hex(randomblob(8)))",
                "created_at": f"strftime('%Y-%m-%d %H:%M:%f', 'now', '-' || ({ago}) || ' seconds')",
                "request_hash": "lower(hex(randomblob(4)))",
                "provider_id": filled,
                "model_id": f"'hotel/filled-model-' || (n.i % {PROVIDERS})",
                "state": f"CASE WHEN {failed} THEN 'failed' ELSE state END",
                "status_code": f"CASE WHEN {failed} THEN 502 ELSE status_code END",
                "duration_ms": "200 + n.i % 4000",
            },
            (rows,),
        )
        for _, statement in dropped:
            db.execute(statement)
    return time.monotonic() - began


def _copy(
    db: sqlite3.Connection, table: str, count: int, instead: dict[str, str], values: tuple[int, ...] = ()
) -> None:
    """*count* copies of one row of *table*; *instead* maps columns to SQL, in which ``n.i`` counts from 1."""
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    chosen = ", ".join(f"({instead[name]})" if name in instead else f't."{name}"' for name in columns)
    names = ", ".join(f'"{name}"' for name in columns)
    db.execute(
        f"{_NUMBERS} INSERT INTO {table} ({names}) SELECT {chosen} FROM n, (SELECT * FROM {table} LIMIT 1) AS t",
        (count, *values),
    )


def first_bytes(url: str) -> dict[str, dict[str, float]]:
    """Path -> milliseconds to the head of the answer: the first time, and the median of the next ones.

    Raises httpx.HTTPStatusError for an answer that is none.
    """
    found = {}
    with closing(signed_in(url)) as person, httpx.Client(base_url=url, timeout=60, trust_env=False) as tool:
        tool.headers["Authorization"] = f"Bearer {ADMIN_TOKEN}"
        for client, paths in ((person, PAGES), (tool, CALLS)):
            for path in paths:
                took = sorted(
                    (first := _first_byte(client, path), *(_first_byte(client, path) for _ in range(TRIES)))[1:]
                )
                found[path] = {"first": first, "median": took[len(took) // 2]}
    return found


def _first_byte(client: httpx.Client, path: str) -> float:
    began = time.monotonic()
    with client.stream("GET", path) as answer:
        took = (time.monotonic() - began) * 1000
        answer.read()
        answer.raise_for_status()
    return took
