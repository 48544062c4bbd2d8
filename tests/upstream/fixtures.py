"""The cast of providers: A does what the script says, B is healthy, C is a black hole.

Every test may ask for ``provider_a``, ``provider_b``, ``provider_c``: ``tests/conftest.py`` imports them.
"""

from collections.abc import Iterator

import pytest

from tests.upstream.server import FakeProvider, answer, silence


@pytest.fixture
def provider_a() -> Iterator[FakeProvider]:
    """Scripted: answers "from A" until told otherwise."""
    with FakeProvider() as provider:
        provider.script(answer("from A"))
        yield provider


@pytest.fixture
def provider_b() -> Iterator[FakeProvider]:
    """Healthy: answers "from B"."""
    with FakeProvider() as provider:
        provider.script(answer("from B"))
        yield provider


@pytest.fixture
def provider_c() -> Iterator[FakeProvider]:
    """Black hole: lists its models, takes every chat call, never answers one."""
    with FakeProvider() as provider:
        provider.script(silence())
        yield provider
