"""The endpoints of ``/v1`` that ask a provider, and all that differs between them.

Gates, walk and attempt read it from here, so that none of them knows an endpoint by name.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from failover.resolve import Candidate
from providers.kinds.base import CHAT_PATH, EMBEDDINGS_PATH, Kind
from proxy import body, usage
from proxy.answers import Answer
from proxy.attempt import Attempt
from proxy.body import Asked
from proxy.chat_attempt import ChatAttempt
from proxy.dialects import audio, chat, embeddings, images, messages, passed, rerank
from proxy.dialects.base import Judged, Members, Writer
from proxy.dialects.responses import ingress as responses_ingress
from proxy.dialects.responses.writer import Writer as ResponsesWriter
from proxy.exchange import Exchange
from proxy.gemini_audio import Speech, Transcription
from proxy.gone.docket import Surface
from proxy.multipart import Form
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

    *attempt* visits a candidate. *parse* checks a body as far
    as routing needs it and raises BadBody. *read_answer* judges a 2xx. *prompt_tokens* and *completion_tokens*
    estimate, of the request's members and of the bytes that were delivered, what a provider did not report. *hedged*:
    its streams may be raced (failover-loop 12.1). *dialect* is the client's; where it is not chat, *writer* puts the
    answers to one request, whose own members it gets, into it, and *dress* an error.

    *parse_form* takes the place of *parse* where the request is a form, of which a candidate gets its own with the
    *form_changes* (text fields to replace, None = to leave out). *long_running*: its requests get the time of streams
    (failover-loop 4.1). *always_json*: its answers are read as JSON whatever they call themselves. *check* raises
    Untranslatable for a candidate that can not serve a request as it was asked: it is left out (gate 11). *surface*:
    what a refusal of the model by name is counted under; empty = it is not (providers 7).
    """

    path: str
    target: str
    family: str
    attempt: type[Attempt]
    parse: Callable[[bytes], Asked]
    build_body: BuildBody
    read_answer: Callable[[bytes], Judged]
    prompt_tokens: Callable[[Members], int]
    completion_tokens: Callable[[int], int]
    hedged: bool = False
    dialect: str = "chat"
    writer: Callable[[Members], Writer] | None = None
    dress: Callable[[Answer], Answer] | None = None
    parse_form: Callable[[bytes, bytes], Asked] | None = None
    form_changes: Callable[[Form, Kind, str], dict[str, str | None]] | None = None
    long_running: bool = False
    always_json: bool = False
    check: Callable[[Exchange, Candidate], None] | None = None
    surface: Surface = ""

    def asked(self, raw: bytes, content_type: bytes) -> Asked:
        """What routing reads of a body of this type. Raises BadBody."""
        return self.parse(raw) if self.parse_form is None else self.parse_form(raw, content_type)


CHAT = Endpoint(
    "/v1/chat/completions",
    CHAT_PATH,
    "chat",
    attempt=ChatAttempt,
    parse=body.parse,
    build_body=chat.build_body,
    read_answer=chat.read_answer,
    prompt_tokens=usage.prompt_tokens,
    completion_tokens=usage.tokens,
    hedged=True,
    surface="chat",
)
EMBEDDINGS = Endpoint(
    "/v1/embeddings",
    EMBEDDINGS_PATH,
    "embeddings",
    attempt=PassThrough,
    parse=embeddings.parse,
    build_body=passed.build_body,
    read_answer=embeddings.read_answer,
    prompt_tokens=passed.prompt_tokens,
    completion_tokens=passed.no_completion,
    always_json=True,
    surface="embeddings",
)
RERANK = replace(
    EMBEDDINGS,
    path="/v1/rerank",
    target="/rerank",
    family="rerank",
    parse=rerank.parse,
    read_answer=rerank.read_answer,
    always_json=False,
    surface="",
)
IMAGES = replace(
    EMBEDDINGS,
    path="/v1/images/generations",
    target="/images/generations",
    family="image",
    parse=images.parse,
    build_body=images.build_body,
    read_answer=images.read_answer,
    long_running=True,
    always_json=False,
    surface="",
)
IMAGE_EDITS = replace(
    IMAGES,
    path="/v1/images/edits",
    target="/images/edits",
    parse_form=passed.parse_form,
    form_changes=images.form_changes,
)
IMAGE_VARIATIONS = replace(IMAGE_EDITS, path="/v1/images/variations", target="/images/variations")
SPEECH = replace(
    EMBEDDINGS,
    path="/v1/audio/speech",
    target="/audio/speech",
    family="tts",
    attempt=Speech,
    check=Speech.check,
    parse=audio.parse_speech,
    read_answer=audio.read_answer,
    long_running=True,
    always_json=False,
    surface="",
)
TRANSCRIPTIONS = replace(
    SPEECH,
    path="/v1/audio/transcriptions",
    target="/audio/transcriptions",
    family="stt",
    attempt=Transcription,
    check=Transcription.check,
    parse_form=passed.parse_form,
)
TRANSLATIONS = replace(
    TRANSCRIPTIONS,
    path="/v1/audio/translations",
    target="/audio/translations",
    attempt=PassThrough,
    check=None,
)


def dress_messages(answer: Answer) -> Answer:
    """An error as Anthropic's API tells it (v1-api 9.2)."""
    return replace(answer, body=messages.errors.dress(answer.status, answer.body))


MESSAGES = replace(
    CHAT,
    path="/v1/messages",
    family="messages",
    parse=messages.ingress.parse,
    dialect="messages",
    writer=messages.writer.Writer,
    dress=dress_messages,
)
RESPONSES = replace(
    CHAT,
    path="/v1/responses",
    family="responses",
    parse=responses_ingress.parse,
    hedged=False,
    dialect="responses",
    writer=ResponsesWriter,
)
#: By the client's path.
ENDPOINTS = {
    endpoint.path: endpoint
    for endpoint in (
        CHAT,
        MESSAGES,
        RESPONSES,
        EMBEDDINGS,
        RERANK,
        IMAGES,
        IMAGE_EDITS,
        IMAGE_VARIATIONS,
        SPEECH,
        TRANSCRIPTIONS,
        TRANSLATIONS,
    )
}
