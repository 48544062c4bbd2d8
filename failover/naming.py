"""Names: the base name that groups are formed by, and what an operator may call a group. Pure."""

from modelhotel.core.faults import Refusal
from modelhotel.core.text import is_name

GROUP_PREFIX = "hotel/"
DISPLAY_MODEL_MAX = 128
DISPLAY_NAME_MAX = 128
DESCRIPTION_MAX = 500
CONTINUE = "continue"
RECOVERY_WORDS = ("off", CONTINUE)


def base(model_id: str) -> str:
    """Everything after the last ``/``, lowercased; empty for an id that ends in ``/``. The only such function."""
    return model_id.rpartition("/")[2].lower()


def requested(display_model: str) -> str:
    """The name clients send for a group."""
    return GROUP_PREFIX + display_model


def group_name(text: str) -> str:
    """The ``display_model`` that *text* stands for: trimmed, lowercased. Raises Refusal."""
    name = text.strip()
    lowered = name.lower()
    # Lowercasing may lengthen a text, and the column holds the lowered one.
    fits = 1 <= len(name) <= DISPLAY_MODEL_MAX and len(lowered) <= DISPLAY_MODEL_MAX
    if not fits or not is_name(name) or lowered.startswith(GROUP_PREFIX):
        raise Refusal(400, "invalid display model", field="display_model")
    return lowered


def display_name(text: str) -> str | None:
    """The label, trimmed; None when empty. Raises Refusal."""
    name = text.strip()
    if len(name) > DISPLAY_NAME_MAX or not is_name(name):
        raise Refusal(400, "invalid display name", field="display_name")
    return name or None


def midstream_recovery(word: str | None) -> str | None:
    """A word of :data:`RECOVERY_WORDS`; None = what the setting says. Raises Refusal."""
    if word is not None and word not in RECOVERY_WORDS:
        raise Refusal(400, "invalid midstream_recovery", field="midstream_recovery")
    return word


def description(text: str) -> str:
    """Trimmed. Raises Refusal."""
    trimmed = text.strip()
    if len(trimmed) > DESCRIPTION_MAX or "\x00" in trimmed:
        raise Refusal(400, "invalid description", field="description")
    return trimmed
