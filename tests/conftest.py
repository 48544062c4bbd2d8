"""Shared parts of the suite. ``MH_TEST_DATABASE=postgres`` runs the database tests on PostgreSQL."""

import logging
import os
import tempfile
from pathlib import Path

for name in ("DATABASE_URL", "REDIS_URL", "MASTER_KEY", "ADMIN_TOKEN", "ADMIN_PASSWORD", "POSTGRES_PASSWORD"):
    os.environ.pop(name, None)
os.environ["DATA_DIR"] = tempfile.mkdtemp(prefix="mh-test-")
os.environ["MASTER_KEY"] = "test-master-key-test-master-key-0001"
os.environ["ALLOW_HTTP_PROVIDERS"] = "true"
os.environ["RATE_LIMIT_ENABLED"] = "false"  # tests of the limits switch it on for themselves
os.environ["MODELSDEV_ENABLED"] = "false"  # tests say what it holds; the shipped copy has tests of its own
os.environ["ALLOWED_PROVIDER_HOSTS"] = "127.0.0.1,localhost,upstream.test"
if os.environ.get("MH_TEST_DATABASE") == "postgres":
    os.environ["DATABASE_URL"] = os.environ.get(
        "MH_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres?options=-c%20synchronous_commit%3Doff"
    )
# Read here: were they named in pyproject.toml, pytest-django would import the settings before this file has run. Both
# the name and the directory are put back for the workers of xdist, which have this process's environment at first.
os.environ["DJANGO_SETTINGS_MODULE"] = "modelhotel.settings"
here = os.getcwd()
os.chdir(os.environ["DATA_DIR"])  # no .env of the developer is read

import hypothesis  # noqa: E402
import pytest  # noqa: E402
from django.conf import settings as django_settings  # noqa: E402

# How long an example takes says more of the machine's other work than of the code.
hypothesis.settings.register_profile("house", deadline=None)
hypothesis.settings.load_profile("house")

assert str(django_settings.MH.data_dir) == os.environ["DATA_DIR"]
os.chdir(here)
# pytest prints where a record came from; the lean records of a server do not know.
logging.setLogRecordFactory(logging.LogRecord)
del os.environ["DJANGO_SETTINGS_MODULE"]

from modelhotel.core import events, options, snapshots  # noqa: E402
from modelhotel.core.clock import ManualClock  # noqa: E402
from modelhotel.core.logqueue import QueueHandler  # noqa: E402
from tests import services  # noqa: E402
from tests.upstream.fixtures import provider_a, provider_b, provider_c  # noqa: E402, F401

LEFT_OUT = pytest.StashKey[str]()
#: Files that take longest, longest first: a worker takes a file at a time, and the last one shall not be a long one.
#: Those that mostly wait stand between those that compute.
LONGEST = (
    "wire/test_patient_listings.py",
    "pages/test_overview.py",
    "pages/test_board_live.py",
    "wire/test_scenarios.py",
    "wire/test_privacy_dialects.py",
    "wire/test_privacy.py",
    "pages/test_shell.py",
    "endurance/test_soak.py",
    "pages/test_providers.py",
    "wire/test_hostile_listings.py",
    "endurance/test_kill.py",
    "pages/test_requests.py",
    "endurance/",
    "cluster/",
    "pages/",
    "wire/test_start.py",
    "upstream/test_answers.py",
    "wire/",
    "shell/test_verbadmin.py",
    "shell/test_settings_api.py",
    "requestlogs/test_stats.py",
    "proxy/test_keys_api.py",
)
TESTS = Path(__file__).parent


#: A pass that takes only what bears a mark reads only files in which its word stands: reading all of them takes longer
#: than some passes. A mark is written where its tests are, never imported.
WORDS = {"slow": "mark.slow", "database and not slow": "mark.database"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    word = WORDS.get(config.option.markexpr)
    if word and collection_path.name.startswith("test_") and word not in collection_path.read_text():
        return True
    return None


def _place(item: pytest.Item) -> int:
    """Where in LONGEST the file of *item* stands."""
    try:
        name = item.path.relative_to(TESTS).as_posix()
    except ValueError:
        return len(LONGEST)
    return next((place for place, start in enumerate(LONGEST) if name.startswith(start)), len(LONGEST))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first; the rest stays as it was shuffled.

    Leave out what needs a service that is not there, and say so in one line (CI: nothing may be left out).
    """
    items.sort(key=_place)
    gone = services.missing()
    left_out = [item for item in items if any(item.get_closest_marker(name) for name in gone)]
    if not left_out:
        return
    what = "; ".join(f"{name} suites need {need}" for name, need in gone.items())
    if os.environ.get("MH_REQUIRE_ALL") == "1":
        raise pytest.UsageError(f"MH_REQUIRE_ALL=1, but {what}")
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    config.stash[LEFT_OUT] = f"{len(left_out)} tests left out: {what}"


def pytest_terminal_summary(terminalreporter, exitstatus: int, config: pytest.Config) -> None:
    if line := config.stash.get(LEFT_OUT, ""):
        terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With MH_REQUIRE_ALL=1 a skipped test is a failed run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("MH_REQUIRE_ALL") == "1" and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """A database name of this run, so that two runs on one server do not meet."""
    from django.conf import settings

    test = settings.DATABASES["default"].setdefault("TEST", {})
    if "sqlite" in settings.DATABASES["default"]["ENGINE"]:
        # A file, as in the product: connections that share one in memory fail on a lock instead of waiting for it.
        test["NAME"] = os.path.join(os.environ["DATA_DIR"], "test.sqlite3")
    if "postgres" in settings.DATABASES["default"]["ENGINE"]:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "one")
        test["NAME"] = f"mh_test_{os.environ.get('PYTEST_XDIST_TESTRUNUID', str(os.getpid()))[:12]}_{worker}"


#: What migrations fill and no test changes: kept, so that it need not be made anew after every test.
KEPT = ("django_content_type", "auth_permission")


def _emptied_postgres(self, style, tables, *, reset_sequences=False, allow_cascade=False) -> list[str]:
    """DELETE instead of TRUNCATE: the tables of a test are tiny, and a truncate costs new files for each of them."""
    return [
        "SET session_replication_role = replica",
        *[f"DELETE FROM {self.quote_name(table)}" for table in tables if table not in KEPT],
        "SET session_replication_role = origin",
    ]


def _emptied_sqlite(self, style, tables, *, reset_sequences=False, allow_cascade=False) -> list[str]:
    return [f"DELETE FROM {self.quote_name(table)}" for table in tables if table not in KEPT]


@pytest.fixture(scope="session", autouse=True)
def _no_server_log():
    """pytest shows the log itself; the server's own printing would only write between its lines."""
    root = logging.getLogger()
    root.handlers[:] = [handler for handler in root.handlers if not isinstance(handler, QueueHandler)]


@pytest.fixture(scope="session", autouse=True)
def _quick_flush():
    from django.core.management.commands import flush
    from django.db.backends.postgresql.base import DatabaseOperations as Postgres
    from django.db.backends.sqlite3.base import DatabaseOperations as Sqlite

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Postgres, "sql_flush", _emptied_postgres)
        patch.setattr(Sqlite, "sql_flush", _emptied_sqlite)
        patch.setattr(flush, "emit_post_migrate_signal", lambda *args, **options: None)
        yield


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def _forget() -> None:
    from failover.breaker import reset_board
    from failover.tally import TALLY
    from proxy.limits.gate import LIMITER

    snapshots.reset_all()
    events.reset()
    options.REGISTRY.forget()
    reset_board()
    TALLY.reset()
    LIMITER.reset()


@pytest.fixture(autouse=True)
def _clean_memory():
    """Snapshots, the event bus and the circuits start empty in every test."""
    _forget()
    yield
    _forget()
