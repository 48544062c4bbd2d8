"""Shared parts of the suite. ``MH_TEST_DATABASE=postgres`` runs the database tests on PostgreSQL."""

import os
import tempfile

for name in ("DATABASE_URL", "REDIS_URL", "MASTER_KEY", "ADMIN_TOKEN", "ADMIN_PASSWORD", "POSTGRES_PASSWORD"):
    os.environ.pop(name, None)
os.environ["DATA_DIR"] = tempfile.mkdtemp(prefix="mh-test-")
os.environ["MASTER_KEY"] = "test-master-key-test-master-key-0001"
os.environ["ALLOW_HTTP_PROVIDERS"] = "true"
os.environ["ALLOWED_PROVIDER_HOSTS"] = "127.0.0.1,localhost,upstream.test"
if os.environ.get("MH_TEST_DATABASE") == "postgres":
    os.environ["DATABASE_URL"] = os.environ.get("MH_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
os.chdir(os.environ["DATA_DIR"])  # no .env of the developer is read

import pytest  # noqa: E402

from modelhotel.core import events, options, snapshots  # noqa: E402
from modelhotel.core.clock import ManualClock  # noqa: E402
from tests.upstream.fixtures import provider_a, provider_b, provider_c  # noqa: E402, F401


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """A database name of this run, so that two runs on one server do not meet."""
    from django.conf import settings

    test = settings.DATABASES["default"].setdefault("TEST", {})
    if "postgres" in settings.DATABASES["default"]["ENGINE"]:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "one")
        test["NAME"] = f"mh_test_{os.environ.get('PYTEST_XDIST_TESTRUNUID', str(os.getpid()))[:12]}_{worker}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def _clean_memory():
    """Snapshots and the event bus start empty in every test."""
    snapshots.reset_all()
    events.reset()
    options.REGISTRY.forget()
    yield
    snapshots.reset_all()
    events.reset()
