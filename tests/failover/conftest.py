import pytest

from modelhotel.core import events


@pytest.fixture(autouse=True)
def totals_are_never_kept(monkeypatch):
    """A query that was slow because the machine is busy must not be what the next test reads."""
    from failover import queries

    monkeypatch.setattr(queries, "_totals", queries._Totals())
    monkeypatch.setattr(queries, "_SLOW", float("inf"))


@pytest.fixture
def world(transactional_db):
    from tests.failover.world import World

    return World()


@pytest.fixture
def config_events(world):
    """Metadata of every ``config.changed`` since the world was made."""
    seen = []
    events.subscribe(lambda event: event.type == "config.changed" and seen.append(dict(event.metadata)))
    return seen


@pytest.fixture
def told():
    """Every event published from now on."""
    seen = []
    events.subscribe(seen.append)
    return seen


@pytest.fixture
def lines(caplog):
    """(level, message, attributes) of every log line so far, in order."""
    caplog.set_level("INFO")
    return lambda: [(r.levelname, r.getMessage(), getattr(r, "attrs", {})) for r in caplog.records]
