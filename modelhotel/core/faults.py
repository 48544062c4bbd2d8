"""Refusals of the admin side: what a caller did that cannot be done, in words they can act on."""


class Refusal(Exception):
    """A request that is answered with *status* and the one line *text*.

    Verbs raise it before they change anything; the API answers with it as plain text (or as
    ``{"error": text}`` for ``Accept: application/json``), forms show it. *code* and *extra* make the
    answer the JSON object ``{"code", "error", **extra}`` whatever was accepted. *field* names the form field at fault.
    *hint* says what to do about it where *text* is one of the fixed ones that can not.
    """

    def __init__(
        self,
        status: int,
        text: str,
        *,
        code: str | None = None,
        extra: dict[str, object] | None = None,
        field: str | None = None,
        hint: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.code = code
        self.extra = extra or {}
        self.field = field
        self.hint = hint
        self.headers = headers or {}

    def __repr__(self) -> str:
        return f"Refusal({self.status}, {self.text!r})"
