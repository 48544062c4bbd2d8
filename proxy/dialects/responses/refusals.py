"""How a Responses request is refused (v1-api 13.2): always 400, ``<field>: <reason>``. Pure."""

from proxy.answers import INVALID_BODY, INVALID_VALUE, MISSING_PARAMETER
from proxy.body import BadBody

_ONLY = "is served by OpenAI's /v1/responses only; other routes take"
TOOL_TYPE = f"this tool type {_ONLY} function tools"
TOOL_CHOICE = f"this tool choice {_ONLY} auto, none, required or a function"
ITEM_TYPE = f"this item type {_ONLY} messages, function calls and their outputs"
PART_TYPE = f"this part type {_ONLY} text, images and inline files"
FILE_REFERENCE = f"a file given by id or URL {_ONLY} file_data"
PROMPT = f"a stored prompt {_ONLY} instructions and input"
NO_STATE = "this gateway keeps no conversation state"
SERVER_STATE = "refers to server-side state this gateway does not keep"


def refused(field: str, reason: str) -> BadBody:
    """A member with a value that can not be served."""
    return BadBody(400, f"{field}: {reason}", INVALID_VALUE, field)


def missing(field: str) -> BadBody:
    return BadBody(400, f"{field}: is required", MISSING_PARAMETER, field)


def undecodable(what: str, field: str | None = None) -> BadBody:
    """A body that is no Responses request; *what* quotes none of it."""
    return BadBody(400, f"openairesponses: invalid request body: {what}", INVALID_BODY, field)


def mistyped(field: str, kinds: str) -> BadBody:
    """*kinds*: what it must be, "an object"."""
    return undecodable(f"{field} must be {kinds}", field)
