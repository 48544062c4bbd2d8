"""What of an error message are the client's own words (failover-loop 6.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import echo


def left(message: str, *texts: object, **sent: object) -> str:
    """What is left, without its blanks."""
    return " ".join(echo.without(message, {"model": "m", "messages": list(texts), **sent}).split())


@pytest.mark.parametrize(
    ("message", "texts", "expected"),
    [
        ("Invalid role 'seed'.", ["seed"], "Invalid role ' '."),
        ("Invalid role 'seed'.", ["see", "d"], "Invalid role 'seed'."),
        ("'x' is not 'x'", ["x"], "' ' is not ' '"),
        ("no tools here", ["tool", "tools_", "ool"], "no tools here"),
        ("not thinking.type.enabled", ["type", "enabled"], "not thinking.type.enabled"),
        ("No such tool. It went.", ["tool", "went"], "No such . It ."),
        ("role='seed' refused", ["'seed' refused"], "role="),
        ("got 'a b c d'", ["a b c", "b c d"], "got ' '"),
        ("got \u00e9", ["\u00e9"], "got"),
        ("got seed", [{"seed": 1}], "got"),
        ("got seed", [[["seed"]]], "got"),
        ("got seed", ["", 5, None, True], "got seed"),
    ],
)
def test_what_the_client_said_is_blanked_out(message: str, texts: list[object], expected: str):
    assert left(message, *texts) == expected


def test_the_names_of_members_are_not_the_clients_words():
    assert left("no seed", seed=1) == "no seed"
    assert left("no seed", metadata={"seed": 1}) == "no"


def test_words_of_the_api_are_not_where_they_belong():
    message = "json_schema is unsupported"
    assert left(message, response_format={"type": "json_schema", "json_schema": {}}) == message
    assert left(message, "json_schema") == "is unsupported"
    assert left("adaptive thinking", thinking={"type": "adaptive"}) == "adaptive thinking"


def test_what_would_take_long_leaves_nothing():
    assert left("x" * 2048) and not left("x" * 2049)
    many = [f"{n} " for n in range(20_000)]
    assert left("y", *many[1:]) and not left("y", *many)  # with the model's name
    assert echo.without("no 'seed'", {}) == ""


@given(st.text("ab' ."), st.lists(st.text("ab' .", max_size=4)))
def test_nothing_moves_and_nothing_is_made_up(message: str, texts: list[str]):
    found = echo.without(message, {"messages": texts})
    assert len(found) == len(message)
    assert all(now in (" ", was) for now, was in zip(found, message, strict=True))
