"""Base names and the names operators may give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover import naming
from modelhotel.core.faults import Refusal


@pytest.mark.parametrize(
    ("model_id", "base"),
    [
        ("z-ai/glm-4.6", "glm-4.6"),
        ("zai-org/GLM-4.6", "glm-4.6"),
        ("glm-4.6", "glm-4.6"),
        ("openai/GPT-4o", "gpt-4o"),
        ("host/org/sub/Magnum-V4-72b", "magnum-v4-72b"),
        ("gpt-oss:120b", "gpt-oss:120b"),
        ("/model", "model"),
        ("openai/", ""),
        ("/", ""),
        ("", ""),
        ("org/ÄÖÜ", "äöü"),
    ],
)
def test_base_name(model_id, base):
    assert naming.base(model_id) == base


@given(st.text(max_size=40))
def test_a_base_name_has_no_slash_and_is_its_own_base_name(model_id):
    base = naming.base(model_id)
    assert "/" not in base
    assert naming.base(base) == base.lower()


@given(st.text(max_size=20), st.text(alphabet=st.characters(exclude_characters="/"), max_size=20))
def test_any_depth_of_prefix_is_stripped(prefix, rest):
    assert naming.base(f"{prefix}/{rest}") == naming.base(rest)


def test_a_group_name_is_trimmed_and_lowercased():
    """routing 46"""
    assert naming.group_name("  My-Group ") == "my-group"
    assert naming.group_name("a" * 128) == "a" * 128
    assert naming.group_name("Team/Fast one") == "team/fast one"


@pytest.mark.parametrize(
    "text", ["", "   ", "a" * 129, "a\u200bb", "a\u00a0b", "a\nb", "hotel/x", "HOTEL/x", "İ" * 100]
)
def test_a_bad_group_name_is_refused(text):
    """routing 46"""
    with pytest.raises(Refusal) as caught:
        naming.group_name(text)
    assert (caught.value.status, caught.value.text) == (400, "invalid display model")


@given(st.text(max_size=140))
def test_an_accepted_group_name_is_stored_as_it_is_looked_up(text):
    try:
        name = naming.group_name(text)
    except Refusal:
        return
    assert 1 <= len(name) <= 128
    assert name == name.lower() == text.strip().lower()
    assert not name.startswith("hotel/")


def test_labels_and_descriptions():
    assert naming.display_name("  ") is None
    assert naming.display_name(" GLM 4.6 ") == "GLM 4.6"
    assert naming.description(" about ") == "about"
    for check, text, answer in (
        (naming.display_name, "a" * 129, "invalid display name"),
        (naming.display_name, "a\u200bb", "invalid display name"),
        (naming.description, "a" * 501, "invalid description"),
        (naming.description, "a\x00b", "invalid description"),
    ):
        with pytest.raises(Refusal, match=answer):
            check(text)
