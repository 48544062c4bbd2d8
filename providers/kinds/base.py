"""What a provider type is: URLs, auth, quirks of its chat body, how it lists its models."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

Header = tuple[bytes, bytes]
JSON_TYPE: Header = (b"content-type", b"application/json")
CHAT_PATH = "/chat/completions"
#: Characters of a tool call's id in OpenAI's chat, and in Azure's.
CALL_ID_LIMIT = 40
EMBEDDINGS_PATH = "/embeddings"
RERANK_PATH = "/rerank"
COHERE_LAYER = "/compatibility/v1"
#: A listing of more is none: it would be written row by row. The largest vendors list less than a thousand.
MOST_MODELS = 20_000
TOO_MANY = f"the listing has more than {MOST_MODELS} models"
#: How a chat request is spoken: OpenAI chat completions, Anthropic Messages, Gemini generateContent.
Dialect = Literal["chat", "messages", "gemini"]


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
    #: The limits (context_length, max_output_tokens) that the provider's own API stated in this scan.
    live: frozenset[str] = frozenset()


class ListingError(Exception):
    """A listing can not be had; the text is one line for the operator, without keys. *status*: 0 = no answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class NotShown(ListingError):
    """This account is shown no listing; the catalog of the type stands in for it."""


@dataclass(frozen=True, slots=True)
class Disguised:
    """An error inside a 200: the *status* it counts as, and *code* and *message* as the provider wrote them."""

    status: int
    code: int
    message: str


class Http(Protocol):
    """What a listing may do: JSON over the guarded client, with the retries of discovery."""

    async def get(self, url: str, headers: Iterable[Header]) -> Any:
        """The decoded JSON of a 200. Raises ListingError."""
        ...

    async def post(self, url: str, headers: Iterable[Header], body: Any) -> Any:
        """The same for a POST of *body* as JSON."""
        ...


class QuotaReader(Protocol):
    """How a type tells what is left of an account's quota."""

    @property
    def kind(self) -> str:
        """``usage``, ``balance`` or ``account``."""
        ...

    @property
    def fleeting(self) -> frozenset[str]:
        """Key paths of the answers that come and go with their values: no change of shape is seen in them."""
        ...

    async def read(self, http: Http, base_url: str, key: str) -> Any:
        """The payload to be kept, as JSON; None = the account has no such quota. Raises ListingError."""
        ...


def stub(model_id: str, owned_by: str = "", **more: Any) -> Listed:
    """A model of which only the id is known."""
    made = Listed(model_id, model_id, model_id, owned_by=owned_by, capabilities={"streaming": True})
    return replace(made, **more) if more else made


def entries(payload: Any, member: str) -> list[dict[str, Any]]:
    """The objects in the list *member* of a listing. Raises ListingError when there is none, or no end of them."""
    found = payload.get(member) if isinstance(payload, dict) else None
    if not isinstance(found, list):
        raise ListingError(f"the listing has no list named {member}")
    if len(found) > MOST_MODELS:
        raise ListingError(TOO_MANY, 200)
    return [entry for entry in found if isinstance(entry, dict)]


def text(entry: dict[str, Any], member: str) -> str:
    """The string *member*, else ``""``."""
    value = entry.get(member)
    return value if isinstance(value, str) else ""


def positive(value: Any) -> int | None:
    """A whole number above 0, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 < value < 2**31 else None


def words(value: Any) -> tuple[str, ...]:
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else ()


@dataclass(frozen=True, slots=True)
class Blank:
    """A piece of :attr:`Kind.address_form`, where it stands as ``<name>``. *value* is what a form starts with."""

    name: str
    title: str
    hint: str
    value: str = ""


class Kind:
    """One provider type. Subclasses set the class attributes and override what differs."""

    type: ClassVar[str]
    label: ClassVar[str]
    default_base_url: ClassVar[str] = ""
    #: Shown in the empty address field of types without a default.
    base_url_hint: ClassVar[str] = ""
    #: The usual address of types where it differs from account to account; a form asks for its :attr:`blanks`.
    address_form: ClassVar[str] = ""
    blanks: ClassVar[tuple[Blank, ...]] = ()
    keyless_allowed: ClassVar[bool] = False
    self_hosted: ClassVar[bool] = False
    inserts_v1: ClassVar[bool] = False
    sends_stream_options: ClassVar[bool] = True
    #: Members removed from every chat body (v1-api 11.3).
    strip: ClassVar[frozenset[str]] = frozenset()
    #: False: knows JSON mode, but no JSON schema (failover-loop 6.3.5).
    takes_json_schema: ClassVar[bool] = True
    #: True: a 200 may hold an error; each is shown to :meth:`disguised`.
    disguises_errors: ClassVar[bool] = False

    #: How an ordinary chat request is spoken to this type; :meth:`chat_dialect` decides per model.
    chat_route: ClassVar[Dialect] = "chat"
    #: Has a native ``/v1/messages``: such requests pass as they came (v1-api 12.1).
    speaks_messages: ClassVar[bool] = False
    #: Chat with an inline document goes to ``/v1/messages`` (v1-api 14.1).
    messages_for_documents: ClassVar[bool] = False
    #: Parameters refused on ``/v1/messages`` are learned (v1-api 11.5).
    heals_messages: ClassVar[bool] = False
    #: Images, inline documents, speech and transcription are spoken in the Gemini dialect (v1-api 15.1).
    gemini_for_media: ClassVar[bool] = False
    #: Chat may be sent to ``/v1/responses`` (v1-api 16).
    reroutes_responses: ClassVar[bool] = False
    #: Every chat request carries a session header (v1-api 11.7).
    session_header: ClassVar[bool] = False

    #: The shipped catalog (``discovery/catalogs``) that fills what the listing leaves empty; "" = none.
    catalog: ClassVar[str] = ""
    #: True: models that only the catalog names are added, as owned by :attr:`catalog_owner`.
    catalog_adds: ClassVar[bool] = False
    catalog_owner: ClassVar[str] = ""
    #: Without a key only listed models that the catalog calls free can be used.
    keyless_free_only: ClassVar[bool] = False
    #: The provider of models.dev that stands for this type; "" = whoever has the model.
    modelsdev: ClassVar[str] = ""
    #: True: what that provider does not have is not looked up elsewhere.
    modelsdev_only: ClassVar[bool] = False

    #: None: the type tells nothing about quotas.
    quota: ClassVar[QuotaReader | None] = None

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

    def url(self, base_url: str, path: str) -> str:
        """Where the endpoint *path* of OpenAI's API is, such as ``/chat/completions`` (v1-api 11.1)."""
        if path == RERANK_PATH and (native := cohere_base(base_url)) is not None:
            return native + "/v2" + path
        return self.root(base_url) + path

    def gemini_root(self, base_url: str) -> str:
        """What ``/models/<id>`` of the Gemini dialect is appended to (v1-api 15.1)."""
        return self.root(base_url)

    def gemini_url(self, base_url: str, model_id: str, *, stream: bool) -> str:
        """Where *model_id* generates content; a stream comes as server-sent events."""
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"{self.gemini_root(base_url)}/models/{quote(model_id, safe='')}:{verb}"

    def chat_dialect(self, model_id: str) -> Dialect:
        """How an ordinary chat request for *model_id* is spoken."""
        return self.chat_route

    def native_responses(self, base_url: str) -> bool:
        """Whether ``/v1/responses`` at *base_url* is OpenAI's own."""
        return False

    def call_id_limit(self, base_url: str) -> int | None:
        """Characters that the id of a tool call may have in chat; None: nothing is known of a limit."""
        return None

    def reads_signatures(self, model_id: str) -> bool:
        """Whether chat takes Gemini's thought signatures, ``extra_content.google`` of a tool call, for *model_id*."""
        return "gemini" in model_id.lower()

    def auth_headers(self, key: str, dialect: str = "chat") -> list[Header]:
        """What a call in *dialect* carries. Empty for a keyless provider: no auth header of any kind is sent then."""
        return [(b"authorization", b"Bearer " + key.encode("utf-8"))] if key else []

    def headers(self, key: str, dialect: str = "chat") -> list[Header]:
        """What every call of the control plane carries."""
        return [JSON_TYPE, *self.auth_headers(key, dialect)]

    def normalise_base_url(self, given: str) -> str:
        """What is stored for the address the operator typed."""
        return with_v1(given) if self.self_hosted else given.strip()

    def inject(self, body: dict[str, msgspec.Raw], model_id: str) -> None:
        """Add to a chat body, in place, what this type wants when it is absent (v1-api 11.4)."""

    def image_body(self, members: dict[str, msgspec.Raw], model_id: str) -> None:
        """Rewrite a body of the image endpoints in place (v1-api 11.7)."""

    def disguised(self, payload: bytes) -> Disguised | None:
        """The error that the body of a 200 holds; only asked where :attr:`disguises_errors` says so."""
        return None

    def catalog_ids(self, model_id: str) -> tuple[str, ...]:
        """The ids under which the catalog may have *model_id*; the first that it has counts."""
        return (model_id,)

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        """The provider's own listing, in its order. Raises ListingError (NotShown); an empty list is an answer."""
        payload = await http.get(self.root(base_url) + "/models", self.headers(key))
        return [stub(model_id, text(e, "owned_by")) for e in entries(payload, "data") if (model_id := text(e, "id"))]

    async def check_access(self, http: Http, base_url: str, key: str) -> str | None:
        """Only for types whose listing answers without a key: "" when the key works, else why not. Else None."""
        return None

    @staticmethod
    def host(base_url: str) -> str:
        return (urlsplit(base_url).hostname or "").lower().rstrip(".")


def goog_key(key: str) -> list[Header]:
    """Google's own auth header; empty without a key."""
    return [(b"x-goog-api-key", key.encode("utf-8"))] if key else []


def cohere_base(base_url: str) -> str | None:
    """Cohere's native API beside its compatibility layer; None when *base_url* is no such layer (v1-api 11.1)."""
    base = base_url.rstrip("/")
    if not base.endswith(COHERE_LAYER):
        return None
    native = base.removesuffix(COHERE_LAYER)
    # The whole netloc is compared: a port or a look-alike host belongs to somebody else.
    return "https://api.cohere.com" if urlsplit(native).netloc.lower() == "api.cohere.ai" else native


def with_v1(given: str) -> str:
    """*given* trimmed, its path without trailing slashes and ending in ``/v1`` (any letter case counts)."""
    trimmed = given.strip()
    try:
        # urlsplit drops tabs and newlines; such an address must reach the URL check as it is.
        parts = urlsplit(trimmed) if trimmed.isprintable() else None
    except ValueError:
        parts = None
    if parts is None or not parts.netloc:
        return trimmed
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.lower().endswith("/v1") else path + "/v1"))
