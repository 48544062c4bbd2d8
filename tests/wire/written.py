"""All that a product wrote, searched for what was said through it: every product of the suite, when it stops.

A prompt, an answer, a file or a tool's argument that passed a fake provider while the product ran
(``tests/upstream/spoken.py``) stands neither in what it printed nor in a file of its DATA_DIR (database and write-ahead
log among them) nor in a table of its PostgreSQL (v1-api 18, operations 17). One grep for all of it. What never reaches
a provider, events, metrics and pages are searched by ``tests/wire/test_privacy.py``.
"""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg

#: What is said in a test and written by the product all the same, and why it may be.
ALLOWED = {
    "Vertex/gemini-2.5-flash": "tests/wire/test_dialect_failover.py asks in the name of the model, which is stored",
    "marker-5d1f0c77": "tests/wire/test_metrics.py: an error may quote fewer than 16 characters (failover-loop 15.3)",
}


def rows(url: str) -> Iterator[tuple[str, str]]:
    """Every row of every table of a PostgreSQL, as (table, text)."""
    with psycopg.connect(url, connect_timeout=5) as db:
        tables = db.execute("SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            for (row,) in db.execute(f"SELECT CAST(t AS text) FROM {table} t"):
                yield table, row


def search(pieces: list[str], data_dir: Path, printed: str, database: str = "") -> list[str]:
    """Where which of *pieces* stands."""
    wanted = [piece for piece in pieces if not any(piece in text for text in ALLOWED)]
    if not wanted:
        return []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "printed").write_text(printed)
        if database.startswith("postgres"):
            with contextlib.suppress(psycopg.OperationalError):  # a test may have taken it away
                Path(folder, "tables").write_text("\n".join(f"{table}: {row}" for table, row in rows(database)))
        grep = subprocess.run(
            ["grep", "-raoF", "-f", "-", "--", folder, str(data_dir)],
            input="\n".join(wanted).encode(),
            stdout=subprocess.PIPE,
            env={"LC_ALL": "C"},
            check=False,
        )
        assert grep.returncode in (0, 1), grep
        said = grep.stdout.decode("utf-8", "replace").replace(f"{folder}/", "")
    return sorted(set(said.splitlines()))[:20]
