"""What a provider type is: URLs, auth, quirks of its chat body, how it lists its models."""

from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Listed:
    """One model of a listing; None and empty mean "the provider did not say"."""

    model_id: str
    name: str = ""
    display_name: str = ""
    description: str = ""
    owned_by: str = ""
    capabilities: dict[str, bool] = field(default_factory=dict)
    params: dict[str, object] = field(default_factory=dict)
    modality: str = ""
    input_modalities: tuple[str, ...] = ()
    output_modalities: tuple[str, ...] = ()
    context_length: int | None = None
    max_output_tokens: int | None = None
    input_price_per_million: float | None = None
    input_price_per_million_cache_hit: float | None = None
    output_price_per_million: float | None = None


class Kind:
    """One provider type. Subclasses set the class attributes and override what differs."""

    type: ClassVar[str]
    label: ClassVar[str]
    default_base_url: ClassVar[str] = ""
    keyless_allowed: ClassVar[bool] = False
    self_hosted: ClassVar[bool] = False
    inserts_v1: ClassVar[bool] = False
    sends_stream_options: ClassVar[bool] = True
    #: Members removed from every chat body (v1-api 11.3).
    strip: ClassVar[frozenset[str]] = frozenset()

    def root(self, base_url: str) -> str:
        """The base that endpoint paths are appended to, without trailing slash."""
        if not self.inserts_v1:
            return base_url.removesuffix("/")
        base = base_url.rstrip("/")
        return base if base.lower().endswith("/v1") else base + "/v1"

    def origin(self, base_url: str) -> str:
        """Base without a trailing ``/v1``."""
        base = base_url.rstrip("/")
        return base[:-3] if base.lower().endswith("/v1") else base

    def chat_url(self, base_url: str) -> str:
        return self.root(base_url) + "/chat/completions"

    def auth_headers(self, key: str) -> list[Header]:
        """Empty for a keyless provider: no auth header of any kind is sent then."""
        return [(b"authorization", b"Bearer " + key.encode("latin-1", "replace"))] if key else []

    def normalise_base_url(self, text: str) -> str:
        return text.strip()

    @staticmethod
    def host(base_url: str) -> str:
        return (urlsplit(base_url).hostname or "").lower().rstrip(".")
