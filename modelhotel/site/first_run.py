"""The three steps of a fresh installation, for the card on the overview."""

from typing import Any

from django.db.models import Model as Row
from django.http import HttpRequest
from django.urls import reverse

from providers.models import Model, Provider
from proxy.models import VirtualKey

#: Key, its rows, title, what it is good for, words of the button, permissions to see and to do it, its address.
_STEPS: tuple[tuple[str, type[Row], str, str, str, str, str, str], ...] = (
    (
        "provider",
        Provider,
        "Add a provider",
        "Who answers the requests: its type and its API key.",
        "Add a provider",
        "providers.view_provider",
        "providers.add_provider",
        "admin:providers?add=1",
    ),
    (
        "model",
        Model,
        "Discover models",
        "The gateway asks the provider what it offers.",
        "Discover now",
        "providers.view_model",
        "providers.change_provider",
        "",
    ),
    (
        "virtual_key",
        VirtualKey,
        "Create a virtual key",
        "What your applications send as their API key.",
        "Create a key",
        "proxy.view_virtualkey",
        "proxy.add_virtualkey",
        "admin:keys?new",
    ),
)


def card(request: HttpRequest) -> list[dict[str, Any]]:
    """The steps as ``pages/first_run.html`` draws them; empty when all are done, or for whoever may not see them."""
    may = request.user.has_perm
    if not all(may(see) for _, _, _, _, _, see, _, _ in _STEPS):
        return []
    found = []
    for key, rows, title, text, action, _, do, view in _STEPS:
        done = rows._default_manager.exists()
        page, mark, query = view.partition("?")
        link = reverse(page) + mark + query if view else ""
        found.append({"key": key, "title": title, "text": text, "done": done, "action": action, "link": link})
        found[-1]["may"] = may(do)
    return [] if all(step["done"] for step in found) else found
