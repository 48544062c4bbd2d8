import pytest

from modelhotel.core import events


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
