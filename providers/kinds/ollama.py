"""Ollama on the operator's own machine: the OpenAI layer for chat, the native API for the listing."""

import asyncio
from typing import Any

from providers.kinds.base import Http, Kind, Listed, ListingError, entries, positive, stub, text, words

PARALLEL = 5
SHOW_SECONDS = 120.0  # for all /api/show calls of one listing together


def _family(entry: dict[str, Any]) -> str:
    details = entry.get("details")
    return (text(details, "family") if isinstance(details, dict) else "") or "ollama"


def read_show(model_id: str, owner: str, shown: Any) -> Listed:
    """What ``/api/show`` says about one model."""
    if not isinstance(shown, dict):
        return stub(model_id, owner)
    can = words(shown.get("capabilities"))
    info = shown.get("model_info")
    lengths = (
        [value for name, value in info.items() if name.endswith(".context_length")] if isinstance(info, dict) else []
    )
    outputs: tuple[str, ...] = ()
    if "completion" in can:
        outputs = ("text",)
    elif "embedding" in can and "vision" not in can:
        outputs = ("embedding",)
    flags = {"tools": "tool_calling", "thinking": "reasoning", "vision": "vision"}
    return stub(
        model_id,
        owner,
        capabilities={"streaming": True, **{flag: True for word, flag in flags.items() if word in can}},
        output_modalities=outputs,
        context_length=next((found for value in lengths if (found := positive(value))), None),
    )


class Ollama(Kind):
    type = "ollama"
    label = "Ollama"
    base_url_hint = "http://192.168.1.50:11434"
    keyless_allowed = True
    self_hosted = True
    inserts_v1 = True
    strip = frozenset({"reasoning_effort"})

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        payload = await http.get(self.origin(base_url) + "/api/tags", self.headers(key))
        tags = [(name, _family(e)) for e in entries(payload, "models") if (name := text(e, "name") or text(e, "model"))]
        slots = asyncio.Semaphore(PARALLEL)

        async def show(name: str, owner: str) -> Listed:
            async with slots:
                try:
                    answer = await http.post(self.origin(base_url) + "/api/show", self.headers(key), {"model": name})
                except ListingError:
                    return stub(name, owner)
            return read_show(name, owner, answer)

        tasks = [asyncio.create_task(show(name, owner)) for name, owner in tags]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=SHOW_SECONDS)
            return [task.result() if task.done() else stub(*tag) for task, tag in zip(tasks, tags, strict=True)]
        finally:
            for task in tasks:
                task.cancel()
