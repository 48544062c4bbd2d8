"""What an operator is told of real sweeps, from the first miss to the return."""

from typing import Any

import pytest

from providers.models import Model
from tests.providers.conftest import Api
from tests.providers.sweeping import House, types
from tests.upstream.server import FakeProvider

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


def test_a_model_that_goes_and_comes_back_is_told_at_every_step(house: House, api: Api):
    """providers 6.10, part of providers 29, part of providers 34"""

    def claims() -> dict[str, tuple[str, int]]:
        """Model -> (state, how often it came or went)."""
        found = api.get("/discovery/status").json()["claims"]
        words = ("gone", "stale", "suspect", "retired", "pinned")
        items = (item for owner in found for word in words for item in owner[word])
        return {item["model_id"]: (item["state"], item["flap_window"]) for item in items}

    def feed() -> list[Any]:
        return [sorted(entry["diff"]) for entry in api.get("/discovery/status").json()["informational"]]

    with FakeProvider(models=["a", "b"]) as upstream:
        house.provider(upstream)
        assert "discovery.changes_pending" not in types(house.sweep())
        assert claims() == {} and feed() == []
        upstream.models = ("a",)
        house.sweep()
        assert claims() == {"b": ("suspect", 0)} and feed() == []
        told = house.sweep()
        assert claims() == {"b": ("gone", 1)} and feed() == []  # a claim is not told twice
        assert "discovery.changes_pending" in types(told) and "discovery.claims_outstanding" not in types(told)
        upstream.models = ("a", "b", "c")
        house.sweep("Startup")
        assert claims() == {} and feed() == [["added", "reenabled"], ["disabled"]]
        assert api.post("/discovery/changes/ack").json()["count"] == 0
        upstream.models = ("a", "c")
        house.sweep()
        house.sweep()
        assert claims() == {"b": ("gone", 3)} and feed() == []
        owner = str(Model.objects.get(model_id="b").provider_id)
        assert api.post("/discovery/dismiss", {"provider_id": owner, "model_ids": ["b"]}).json()["updated"] == 1
        house.sweep()
        assert claims() == {} and feed() == []
        upstream.models = ("a", "b", "c")
        house.sweep()
        upstream.models = ("a", "c")
        house.sweep()
        assert claims() == {"b": ("suspect", 4)}  # the sighting ended the dismissal


def test_a_pinned_model_that_is_given_back_goes_after_two_more_sweeps(house: House, api: Api):
    """part of providers 35"""
    with FakeProvider(models=["a", "b"]) as upstream:
        made = house.provider(upstream)
        upstream.models = ("a",)
        for _ in range(2):
            house.sweep()
        row = Model.objects.get(model_id="b")
        assert not row.enabled
        api.patch(f"/models/{row.pk}", {"enabled": True})
        for _ in range(3):
            house.sweep()
        body = {"provider_id": made["id"], "model_ids": ["b"]}
        assert api.post("/discovery/unpin", body).json() == {"unpinned": ["b"]}
        for enabled in (True, False):
            house.sweep()
            row.refresh_from_db()
            assert row.enabled is enabled
