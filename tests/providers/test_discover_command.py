"""``manage.py discover_models``."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from providers.discovery import modelsdev
from providers.models import Model, Provider
from tests.providers.conftest import Api
from tests.providers.sweeping import listing
from tests.upstream.server import FakeProvider, status

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


@pytest.fixture(autouse=True)
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls of models.dev, which is not asked here."""
    calls: list[str] = []
    monkeypatch.setattr(modelsdev, "load", lambda: calls.append("load"))
    return calls


def run(*arguments: str) -> tuple[int, str]:
    """(exit code, stdout)"""
    out, code = StringIO(), 0
    try:
        call_command("discover_models", *arguments, stdout=out, stderr=StringIO())
    except SystemExit as left:
        code = int(left.code or 0)
    return code, out.getvalue()


def test_each_provider_is_a_line_as_it_answers(api: Api, fetched: list[str]):
    assert run() == (0, "No provider takes part in discovery.\n")
    with FakeProvider(models=["a"]) as one, FakeProvider(models=["x", "y"]) as two:
        api.provider(one, name="One")
        assert run() == (0, "One: 1 model (1 new)\n")
        assert run() == (0, "One: 1 model\n")
        api.provider(two, name="Two")
        Model.objects.update(enabled=False)
        code, out = run()
        assert (code, sorted(out.splitlines())) == (0, ["One: 1 model (1 back)", "Two: 2 models (2 new)"])
        two.route("GET", "/v1/models", status(403, {"error": "no"}))
        code, out = run()
        assert (code, len(out.splitlines())) == (1, 2)
        assert [line for line in out.splitlines() if line.startswith("Two: failed: HTTP 403")]
    assert fetched == ["load"] * 5


def test_one_provider_alone_by_its_name_or_its_routing_name(api: Api):
    with FakeProvider(models=["a"]) as one, FakeProvider(models=["b"]) as two:
        api.provider(one, name="My Prov")
        api.provider(two, name="Two")
        assert run("--provider", "My Prov") == (0, "My Prov: 1 model (1 new)\n")
        assert run("--provider", "My-Prov") == (0, "My Prov: 1 model\n")
        assert two.requests == []
        run()
        one.route("GET", "/v1/models", status(401))
        assert run("--provider", "My Prov")[0] == 1
    assert set(Provider.objects.filter(inventory_stale=True).values_list("name", flat=True)) == {"My Prov"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"enabled": False}, "provider is disabled: P"),
        ({"autodiscovery_enabled": False}, "autodiscovery is disabled for this provider: P"),
        ({"name": "Q"}, "provider not found: P"),
    ],
)
def test_who_can_not_be_scanned_is_said_in_one_line(api: Api, change: dict[str, Any], words: str):
    made = api.provider()
    assert api.put(f"/providers/{made['id']}", change).status_code == 200
    with pytest.raises(CommandError, match=f"^{words}$"):
        run("--provider", "P")


def test_the_json_output_is_the_answer_of_the_api(api: Api):
    with FakeProvider(models=["a"]) as one, FakeProvider() as two:
        api.provider(one, name="One")
        api.provider(two, name="Two")
        two.route("GET", "/v1/models", status(403))
        code, out = run("--json")
        assert code == 1
        found = json.loads(out)
        one.route("GET", "/v1/models", listing("a"))
        expected = api.post("/providers/discover-all").json()
    assert (found["succeeded"], found["failed"], found["discovered"]) == (1, 1, 1)
    lines = {line["provider_name"]: line for line in found["results"]}
    assert lines["One"]["diff"] == {"added": [{"model_id": "a", "reason": "new_model"}]}
    again = {line["provider_name"]: line for line in expected["results"]}
    assert again == {"One": {**lines["One"], "diff": {}}, "Two": lines["Two"]}
