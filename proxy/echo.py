"""What of a provider's error message are the client's own words. Pure.

Error messages quote what they complain about. Whoever may use one key could write a sentence into a role, have it
quoted, and so teach the gateway something about a model for the requests of everybody. So what is remembered must
follow from the words of the provider alone.
"""

from collections.abc import Iterable, Iterator

#: Strings of a request and characters of a message: some milliseconds. Whatever takes longer teaches nothing.
_MOST, _LONGEST = 20_000, 2048
#: Words of the API itself where a client can not but use them.
_SPOKEN = ("response_format", "output_config", "thinking")
_WORDS = frozenset(("type", "json_schema", "format", "schema", "adaptive", "enabled"))


def without(message: str, sent: dict[str, object]) -> str:
    """*message* with every string of the request *sent* blanked out; empty where *sent* is, or it would take too long.

    The names of its members are no strings of it; those further inside are.
    """
    texts: set[str] = set()
    for name, value in sent.items():
        found = set(_strings(value))
        texts |= found - _WORDS if name in _SPOKEN else found
    if not sent or len(message) > _LONGEST or len(texts) > _MOST:
        return ""
    echoed = bytearray(len(message))  # marked in the whole message: what was blanked out could part a longer quote
    for text in filter(message.__contains__, texts):
        for at in _places(message, text):
            echoed[at : at + len(text)] = b"\1" * len(text)
    return "".join(" " if mark else char for char, mark in zip(message, echoed, strict=True))


def _strings(value: object) -> Iterator[str]:
    open_: list[object] = [value]
    while open_:
        value = open_.pop()
        if isinstance(value, str):
            if value:
                yield value
        elif isinstance(value, dict):
            yield from value
            open_.extend(value.values())
        elif isinstance(value, list):
            open_.extend(value)


def _places(message: str, text: str) -> Iterable[int]:
    at = message.find(text)
    while at >= 0:
        end = at + len(text)
        if not (_joined(message, at - 1, -1, text[0]) or _joined(message, end, 1, text[-1])):
            yield at
        at = message.find(text, end)


def _joined(message: str, at: int, step: int, edge: str) -> bool:
    """Whether the word goes on at *at*: ``tool`` is not quoted by ``tools``, nor ``type`` by ``thinking.type``."""
    if not _of_word(edge) or not 0 <= at < len(message):
        return False
    if message[at] == ".":
        at += step
    return 0 <= at < len(message) and _of_word(message[at])


def _of_word(char: str) -> bool:
    return char.isalnum() or char == "_"
