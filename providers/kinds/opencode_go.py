"""OpenCode Go, the subscription: thinking is asked for in the chat template, and requests belong to a session."""

import msgspec

from providers.kinds.base import Http, Kind, Listed, ListingError, NotShown
from providers.kinds.reading import access
from providers.quota import readers

_THINKING = msgspec.Raw(b'{"enable_thinking":true}')


class OpenCodeGo(Kind):
    type = "opencode-go"
    label = "OpenCode Go"
    default_base_url = "https://opencode.ai/zen/go/v1"
    quota = readers.OPENCODE_GO
    strip = frozenset({"reasoning_effort"})
    session_header = True
    catalog = "opencode-go"
    catalog_adds = True
    modelsdev = "opencode-go"

    def inject(self, body: dict[str, msgspec.Raw], model_id: str) -> None:
        body.setdefault("chat_template_args", _THINKING)

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        try:
            return await super().list_models(http, base_url, key)
        except ListingError as problem:
            if problem.status == 404:
                raise NotShown(str(problem), problem.status) from None
            raise

    async def check_access(self, http: Http, base_url: str, key: str) -> str | None:
        # Its listing is public. An account without the plan is told so with a 403, and its key works.
        return await access(self.quota.read(http, base_url, key))
