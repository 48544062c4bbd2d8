"""Azure AI Foundry: the v1 surface of a resource; what can be called are its deployments, under their names."""

import logging
import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from providers.kinds.base import CALL_ID_LIMIT, Blank, Http, Kind, Listed, entries, stub, text
from providers.kinds.reading import PAGES

log = logging.getLogger("discovery")

_PROJECT = re.compile(r"/api/projects/([^/]+)")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _next(url: str, link: str) -> str:
    """The page that *link* of *url* names; ``""`` for none and for one elsewhere, which would be shown the key."""
    try:
        onward = urljoin(url, link)
        return onward if onward != url and _origin(onward) == _origin(url) else ""
    except ValueError:
        return ""


def _deployed(model_id: str, name: str, owner: str) -> Listed | None:
    """*name* is that of the model behind the deployment *model_id*."""
    return stub(model_id, owner, name=name or model_id) if model_id else None


def of_project(entry: dict[str, Any]) -> Listed | None:
    """One deployment of a project; None for what is no model."""
    if text(entry, "type") not in ("", "ModelDeployment"):
        return None
    return _deployed(text(entry, "name"), text(entry, "modelName"), text(entry, "modelPublisher"))


def of_resource(entry: dict[str, Any]) -> Listed | None:
    """One deployment of a resource; None while it is not ready."""
    if text(entry, "status") not in ("", "succeeded"):
        return None
    return _deployed(text(entry, "id"), text(entry, "model"), "")


class Azure(Kind):
    type = "azure"
    label = "Azure AI Foundry"
    base_url_hint = "https://<resource>.services.ai.azure.com/api/projects/<project>"
    address_form = base_url_hint
    blanks = (
        Blank("resource", "Resource", "The first label of the endpoint that the project's overview page shows."),
        Blank("project", "Project", "The last part of the same endpoint."),
    )
    modelsdev = "azure"

    def root(self, base_url: str) -> str:
        return _origin(base_url) + "/openai/v1"

    def call_id_limit(self, base_url: str) -> int | None:
        return CALL_ID_LIMIT

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        found = await self._deployments(http, base_url, key)
        if not found:
            log.warning("discovery: no model is deployed", extra={"attrs": {"host": self.host(base_url)}})
        return found

    async def _deployments(self, http: Http, base_url: str, key: str) -> list[Listed]:
        project = _PROJECT.search(urlsplit(base_url).path)
        if project is None:
            url = _origin(base_url) + "/openai/deployments?api-version=2023-03-15-preview"
            payload = await http.get(url, self.headers(key))
            return [model for entry in entries(payload, "data") if (model := of_resource(entry)) is not None]
        found: list[Listed] = []
        url = f"{_origin(base_url)}{project[0]}/deployments?api-version=v1"
        for _ in range(PAGES):
            payload = await http.get(url, self.headers(key))
            found += [model for entry in entries(payload, "value") if (model := of_project(entry)) is not None]
            onward = _next(url, text(payload, "nextLink"))
            if not onward:
                break
            url = onward
        return found
