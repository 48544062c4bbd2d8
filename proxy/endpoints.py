"""The endpoints of ``/v1`` that ask a provider, and all that differs between them.

Gates, walk and attempt read it from here, so that none of them knows an endpoint by name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from providers.kinds.base import CHAT_PATH, EMBEDDINGS_PATH, Kind
from proxy import body, usage
from proxy.attempt import Attempt
from proxy.body import Asked
from proxy.chat_attempt import ChatAttempt
from proxy.dialects import chat, embeddings, passed
from proxy.dialects.base import Judged, Members
from proxy.passthrough import PassThrough
from proxy.repairs import Repair


class BuildBody(Protocol):
    def __call__(
        self, body: Members, raw: bytes, *, model_id: str, kind: Kind, stream: bool, repair: Repair | None = None
    ) -> bytes:
        """The body for one candidate, who refuses what *repair* says; *raw* is what *body* was decoded from."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """*path* is the client's, *target* the provider's, behind its base URL; *family* is the row's ``endpoint_type``.

    *attempt* visits a candidate; *heals*: its 400s are learned from (failover-loop 6.3). *parse* checks a body as far
    as routing needs it and raises BadBody. *read_answer* judges a 2xx. *prompt_tokens* and *completion_tokens*
    estimate, of the request's members and of the bytes that were delivered, what a provider did not report. *hedged*:
    its streams may be raced (failover-loop 12.1).
    """

    path: str
    target: str
    family: str
    attempt: type[Attempt]
    heals: bool
    parse: Callable[[bytes], Asked]
    build_body: BuildBody
    read_answer: Callable[[bytes], Judged]
    prompt_tokens: Callable[[Members], int]
    completion_tokens: Callable[[int], int]
    hedged: bool = False


CHAT = Endpoint(
    "/v1/chat/completions",
    CHAT_PATH,
    "chat",
    attempt=ChatAttempt,
    heals=True,
    parse=body.parse,
    build_body=chat.build_body,
    read_answer=chat.read_answer,
    prompt_tokens=usage.prompt_tokens,
    completion_tokens=usage.tokens,
    hedged=True,
)
EMBEDDINGS = Endpoint(
    "/v1/embeddings",
    EMBEDDINGS_PATH,
    "embeddings",
    attempt=PassThrough,
    heals=False,
    parse=embeddings.parse,
    build_body=passed.build_body,
    read_answer=embeddings.read_answer,
    prompt_tokens=passed.prompt_tokens,
    completion_tokens=passed.no_completion,
)
#: By the client's path.
ENDPOINTS = {endpoint.path: endpoint for endpoint in (CHAT, EMBEDDINGS)}
