"""Speech and transcriptions by models of Google, which know them as generateContent only (v1-api 17.4, 17.5)."""

from abc import abstractmethod

from failover import verdict
from failover.resolve import Candidate
from providers.kinds.base import JSON_TYPE
from providers.upstream.interface import FaultKind, Request, Response, UpstreamError
from proxy import metering
from proxy.dialects.base import Untranslatable
from proxy.dialects.gemini import speech, transcription
from proxy.dialects.gemini.audio import Media
from proxy.dialects.gemini.transcription import Field
from proxy.exchange import BODILESS, Exchange
from proxy.passthrough import UNREADABLE, PassThrough
from proxy.relayed import NOTHING_CAME
from proxy.repairs import Repair
from proxy.terminal import Failure

_AUDIO = "audio"


class GeminiAudio(PassThrough):
    """One of the two. Every other candidate, and a model of Google's that is not made for it, is passed through to."""

    __slots__ = ()
    #: Bytes of an answer.
    cap: int

    @staticmethod
    @abstractmethod
    def translated(candidate: Candidate) -> bool:
        """Whether *candidate* is asked in Google's dialect."""

    @staticmethod
    @abstractmethod
    def body(exchange: Exchange, candidate: Candidate) -> bytes:
        """What it is asked. Raises Refusal."""

    @staticmethod
    @abstractmethod
    def read(exchange: Exchange, payload: bytes) -> Media:
        """The client's answer. Raises Untranslatable."""

    def _build(self, repair: Repair | None) -> Request:
        candidate, provider = self._candidate, self._provider
        if not self.translated(candidate):
            return super()._build(repair)
        url = provider.kind.gemini_url(provider.base_url, self._model.model_id, stream=False)
        headers = [JSON_TYPE, *provider.kind.auth_headers(candidate.key, "gemini")]
        return Request("POST", url, headers, self.body(self._exchange, candidate))

    @property
    def _foreign(self) -> bool:
        return self.translated(self._candidate)

    async def _take(self, response: Response) -> Failure | None:
        if not self.translated(self._candidate):
            return await super()._take(response)
        response.deadline(self._until)
        try:
            payload = await response.read(self.cap) if response.status not in BODILESS else b""
        except UpstreamError as broke:
            if broke.kind is not FaultKind.TOO_LARGE:
                return self._broke(broke, UNREADABLE if broke.partial else NOTHING_CAME)
            return self._no_media(response, Untranslatable("larger than the gateway will read"), len(broke.partial))
        if self._compressed(response):
            return self._refuse_compressed(response, len(payload))
        if not payload:
            return self._nothing_came(response)
        try:
            media = self.read(self._exchange, payload)
        except Untranslatable as problem:
            return self._no_media(response, problem, len(payload))
        self._judge(verdict.success(response.status))
        metering.charge(self._exchange, self._model, media.usage, len(media.body))
        self.leave(clean=True)
        kind = (b"content-type", media.content_type.encode())
        await self._deliver(200, self._secrets.mask_content(media.body), (kind,))
        return None

    def _no_media(self, response: Response, problem: Untranslatable, size: int) -> Failure:
        metering.charge_rejected(self._exchange, self._model, problem.usage)
        if problem.blocked:
            return self._no_answer(str(problem), verdict.BLOCKED)
        return self._undecodable(response, str(problem), size)


def _speaks_gemini(candidate: Candidate) -> bool:
    kind = candidate.provider.kind
    return kind.gemini_for_media or kind.chat_route == "gemini"


class Speech(GeminiAudio):
    """``/v1/audio/speech``."""

    __slots__ = ()
    cap = speech.ANSWER_CAP

    @staticmethod
    def translated(candidate: Candidate) -> bool:
        outputs = candidate.model.output_modalities
        return _speaks_gemini(candidate) and (not outputs or _AUDIO in outputs)

    @staticmethod
    def body(exchange: Exchange, candidate: Candidate) -> bytes:
        return speech.build(exchange.body)

    @staticmethod
    def read(exchange: Exchange, payload: bytes) -> Media:
        return speech.read(payload, speech.response_format(exchange.body))

    @staticmethod
    def check(exchange: Exchange, candidate: Candidate) -> None:
        """Raises Refusal where *candidate* can not serve the request as it was asked."""
        if Speech.translated(candidate):
            speech.build(exchange.body)


class Transcription(GeminiAudio):
    """``/v1/audio/transcriptions``."""

    __slots__ = ()
    cap = transcription.ANSWER_CAP

    @staticmethod
    def translated(candidate: Candidate) -> bool:
        inputs = candidate.model.input_modalities
        return _speaks_gemini(candidate) and (not inputs or _AUDIO in inputs)

    @staticmethod
    def body(exchange: Exchange, candidate: Candidate) -> bytes:
        return transcription.build(_fields(exchange), model=candidate.model.model_id)

    @staticmethod
    def read(exchange: Exchange, payload: bytes) -> Media:
        return transcription.read(payload, transcription.response_format(_fields(exchange, most=0)))

    @staticmethod
    def check(exchange: Exchange, candidate: Candidate) -> None:
        """Raises Refusal where *candidate* can not serve the request as it was asked."""
        if Transcription.translated(candidate):
            transcription.check(_fields(exchange, most=1))


def _fields(exchange: Exchange, *, most: int | None = None) -> list[Field]:
    """The client's form; of a file *most* bytes, None = all."""
    form = exchange.form
    return [
        Field(
            part.name,
            bytes(part.body if part.filename is None else part.body[:most]),
            part.filename,
            part.content_type or None,
        )
        for part in (form.parts if form is not None else ())
    ]
