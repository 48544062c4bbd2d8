"""Whether a provider's error says that this very model is gone (providers 7.1, failover-loop 13.5). Pure.

It must never take another complaint for this one: a model is switched off by it. Where a text is open to doubt there is
no claim. Time is linear in the text.
"""

import re
from bisect import bisect_left

from failover import ratelimit

Span = tuple[int, int]

_CODES = frozenset(("model_not_found", "model_not_supported"))
_TYPE = "not_found_error"
_PHRASE = re.compile(
    r"\b(?:is no longer available|is not supported|does not exist|is not found for api version|model not found"
    r"|unknown model)"
)
_WORD = r"""[\w'"`:/@-]+(?:\.[\w'"`:/@-]+)*"""
#: Right behind the phrase this makes it a complaint about one use of the model, not about the model.
_QUALIFIER = re.compile(
    rf"\s+(?:for|with|on|in)\s+(?:{_WORD}\s+){{0,4}}?(?:operation|endpoint|method|route|api|request|mode|task|region|plan"
    r"|tier|account|subscription|api version|request type)s?\b"
)
#: Errors that are about money, or about the body of the request, whatever else they say.
_OTHER_PAYLOAD = ("invalid json request body", "missing key", "unsupported parameter", "invalid argument")
_TOKEN = re.compile(r"[a-z0-9][a-z0-9._:@/+~-]*")
_CLAUSE = re.compile(r"[.,;!?{}\[\]\n]")
_SNAPSHOT = re.compile(r"(?:-\d+){1,3}")
_JOINT = re.compile(r"[a-z0-9][-_/:@][a-z0-9]")
#: Characters between the phrase and the id.
_BETWEEN = 40
_SNAPSHOT_DIGITS = 4


def is_gone(model_id: str, *, status: int, code: str, type: str, message: str, body: str) -> bool:
    """Whether an error says that *model_id*, the provider's own id, is not served any more.

    *code*, *type* and *message* are those of one object of the answer, *body* is its whole text.
    """
    body = body.lower()
    if status == 402 or any(phrase in body for phrase in ratelimit.ENTITLED):
        return False
    if code in _CODES:
        return True
    wanted = _last_segment(model_id.lower())
    if not wanted or any(phrase in body for phrase in _OTHER_PAYLOAD):
        return False
    said = message.lower()
    if type == _TYPE and _places(said, wanted):
        return True
    # The message too: in the body its newlines and quotes are escaped.
    return _bound(said, wanted) or _bound(body.replace("\\n", "\n"), wanted)


def _bound(text: str, wanted: str) -> bool:
    """Whether one of the phrases stands beside the id, in one clause and with no other model between.

    Only the nearest id on either side counts: a farther one has at least what the nearer one has between.
    """
    phrases = [match.span() for match in _PHRASE.finditer(text) if not _QUALIFIER.match(text, match.end())]
    places = _places(text, wanted) if phrases else []
    for start, end in phrases:
        at = bisect_left(places, (start, start))
        if at and _joined(text, places[at - 1][1], start):
            return True
        if at < len(places) and _joined(text, end, places[at][0]):
            return True
    return False


def _joined(text: str, start: int, end: int) -> bool:
    """Whether what lies from *start* to *end* keeps phrase and id together; not where they overlap."""
    if not 0 <= end - start <= _BETWEEN:
        return False
    between = text[start:end]
    return not _CLAUSE.search(between) and not any(_like_a_model(token) for token in _TOKEN.findall(between))


def _places(text: str, wanted: str) -> list[Span]:
    return [match.span() for match in _TOKEN.finditer(text) if _is(match[0], wanted)]


def _last_segment(identifier: str) -> str:
    return identifier.rstrip(".:/-").rsplit("/", 1)[-1]


def _is(token: str, wanted: str) -> bool:
    """The id itself or a dated snapshot of it."""
    name = _last_segment(token)
    if name == wanted:
        return True
    if not name.startswith(wanted):
        return False
    dated = name[len(wanted) :]
    return bool(_SNAPSHOT.fullmatch(dated)) and sum(ch.isdigit() for ch in dated) >= _SNAPSHOT_DIGITS


def _like_a_model(token: str) -> bool:
    """A word with letters and digits, or one put together of several, may stand for another model's id."""
    letters = any(ch.isalpha() for ch in token)
    return letters and (any(ch.isdigit() for ch in token) or bool(_JOINT.search(token)))
