"""Anthropic: its OpenAI-compatible layer for ordinary chat, its Messages API for documents and for who speaks it."""

import re
from typing import Any
from urllib.parse import quote

from providers.kinds.base import Header, Http, Kind, Listed, entries, positive, stub, text
from providers.kinds.reading import PAGES, flags, member

VERSION = b"2023-06-01"
_PAGE = "/models?limit=100"
_DAY = re.compile(r"-\d{8}$")


def read_entry(entry: dict[str, Any]) -> Listed:
    """One entry of ``/v1/models``."""
    said = member(entry, "capabilities")
    can = {name: member(said, name).get("supported") for name in said}
    inputs: tuple[str, ...] = ("text", "image") if can.get("image_input") is True else ()
    if can.get("pdf_input") is True:
        inputs = ("text", "image", "pdf")
    return stub(
        text(entry, "id"),
        "anthropic",
        display_name=text(entry, "display_name") or text(entry, "id"),
        capabilities=flags(
            streaming=True,
            tool_calling=True,
            vision=can.get("image_input"),
            pdf_upload=can.get("pdf_input"),
            structured_output=can.get("structured_outputs"),
            reasoning=can.get("thinking"),
        ),
        input_modalities=inputs,
        output_modalities=("text",),
        context_length=positive(entry.get("max_input_tokens")),
        max_output_tokens=positive(entry.get("max_tokens")),
    )


class Anthropic(Kind):
    type = "anthropic"
    label = "Anthropic"
    default_base_url = "https://api.anthropic.com"
    inserts_v1 = True
    strip = frozenset({"top_p", "frequency_penalty", "presence_penalty", "min_p", "reasoning_effort"})
    speaks_messages = True
    messages_for_documents = True
    catalog = "anthropic"
    modelsdev = "anthropic"
    modelsdev_only = True

    def auth_headers(self, key: str, dialect: str = "chat") -> list[Header]:
        return [(b"x-api-key", key.encode("utf-8")), (b"anthropic-version", VERSION)] if key else []

    def catalog_ids(self, model_id: str) -> tuple[str, ...]:
        return (model_id, _DAY.sub("", model_id))

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        found: list[Listed] = []
        after = ""
        for _ in range(PAGES):
            payload = await http.get(self.root(base_url) + _PAGE + after, self.headers(key))
            page = [entry for entry in entries(payload, "data") if text(entry, "id")]
            found += map(read_entry, page)
            if not page or payload.get("has_more") is not True:
                break
            after = "&after_id=" + quote(text(payload, "last_id") or text(page[-1], "id"), safe="")
        return found
