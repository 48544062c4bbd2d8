"""How a body of the Messages dialect is refused: naming the member, never quoting the body (v1-api 12.1). Pure."""

from proxy.answers import INVALID_BODY, INVALID_VALUE
from proxy.body import BadBody
from proxy.dialects.messages.raw import ERRORS, Raw, decode_items


def bad(text: str, code: str = INVALID_BODY, param: str | None = None) -> BadBody:
    return BadBody(400, f"anthropic: {text}", code, param)


def wrong(path: str, wanted: str) -> BadBody:
    """*path* begins with the name of a member of the body."""
    return bad(f"invalid request body: {path} must be {wanted}", param=path.partition("[")[0])


def wrong_content(path: str, wanted: str) -> BadBody:
    return bad(f"invalid message content: {path} must be {wanted}", INVALID_VALUE, path.partition("[")[0])


def items(raw: Raw, path: str) -> list[Raw]:
    """The elements of the list that *raw* has to be."""
    try:
        return decode_items(raw)
    except ERRORS:
        raise wrong(path, "a list") from None
