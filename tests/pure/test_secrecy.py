"""What a provider's text must not carry: credentials, and what the request said."""

import json
import time
from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy import secrecy
from proxy.secrecy import KeyGuard, Secrets, fenced
from tests.pace import slower

OWN = "sk-own-abcdefgh12345678"
OTHER = "other-provider-key-without-shape"


def members(request: dict[str, object]) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(json.dumps(request), type=dict[str, msgspec.Raw])


def ask(text: str, **more: object) -> dict[str, msgspec.Raw]:
    return members({"model": "hotel/g", "messages": [{"role": "user", "content": text}], **more})


def test_the_candidates_key_other_keys_and_key_shapes_are_masked():
    """failover-loop 96, part of v1-api 50"""
    secrets = Secrets(OWN, lambda: (OTHER,))
    assert secrets.mask(f"a {OWN} b {OTHER} c sk-unknown-0123456789abcdef") == "a [redacted] b [redacted] c [redacted]"


def test_a_longer_key_that_holds_a_shorter_one_leaves_no_tail():
    assert Secrets("abcdefgh1", lambda: ("abcdefgh1-and-more",)).mask("x abcdefgh1-and-more y") == "x [redacted] y"


def test_masked_json_stays_json_and_untouched_json_stays_the_same_bytes():
    """v1-api 46"""
    secrets = Secrets(OWN, lambda: ('we"ird\\key-0001',))
    body = json.dumps({"error": {"message": f'key {OWN} and we"ird\\key-0001'}}).encode()
    assert json.loads(secrets.mask_json(body)) == {"error": {"message": "key [redacted] and [redacted]"}}
    plain = b'{"error": {"message":  "no key", "n": 1.50}}'
    assert secrets.mask_json(plain) is plain
    assert secrets.mask_json(b"\xff\xfe broken") == b"\xff\xfe broken"


def test_in_content_only_the_candidates_exact_key_is_masked():
    """part of v1-api 50"""
    secrets = Secrets(OWN, lambda: (OTHER,))
    body = f'{{"content":"{OWN} {OTHER} sk-unknown-0123456789abcdef"}}'.encode()
    assert secrets.mask_content(body) == f'{{"content":"[redacted] {OTHER} sk-unknown-0123456789abcdef"}}'.encode()


def test_a_key_that_is_a_word_does_not_spoil_content():
    assert Secrets("ollama").mask_content(b"run ollama here") == b"run ollama here"
    assert KeyGuard.of("ollama") is None
    assert KeyGuard.of("") is None


def test_a_kept_text_is_cut_and_has_no_uuids_and_no_control_characters():
    """failover-loop 98"""
    text = "org 123e4567-e89b-12d3-a456-426614174000\x00 says " + "x" * 120_000
    kept = Secrets("").clean(text)
    assert len(kept) == 10_000 and kept.endswith("…")
    assert kept.startswith("org [REDACTED]  says x")
    assert len(secrecy.detail(kept)) == 160


def test_a_key_is_masked_before_the_cut():
    text = "x" * 9_990 + OWN
    assert Secrets(OWN).clean(text) == "x" * 9_990 + "[redacted]"


def test_the_text_of_an_exception_is_masked_and_cut():
    kept = Secrets(OWN).exception(ValueError(f"{OWN}\n" + "y" * 600))
    assert kept.startswith("[redacted] yyy") and len(kept) == 500
    assert Secrets("").exception(ValueError()) == "ValueError"


PROMPT = "Tell me about the history of the Roman aqueducts in Segovia"


def test_an_error_that_repeats_sixteen_characters_of_the_prompt_is_fenced():
    """failover-loop 97"""
    assert fenced("bad content: 'history of the Ro...'", ask(PROMPT))
    assert not fenced("bad content: 'history of the'", ask(PROMPT))


def test_member_names_and_the_model_are_no_request_content():
    request = members({"model": "some-provider/a-rather-long-model-name", "max_completion_tokens": 5, "messages": []})
    assert not fenced("unknown model some-provider/a-rather-long-model-name", request)
    assert not fenced("max_completion_tokens is not supported", request)


def test_tools_and_nested_parts_are_request_content():
    request = ask(
        "hi",
        tools=[{"type": "function", "function": {"name": "look_up_customer_record", "description": "d"}}],
        messages=[{"role": "user", "content": [{"type": "text", "text": PROMPT}]}],
    )
    assert fenced("tool look_up_customer_record is broken", request)
    assert fenced(PROMPT, request)


def test_characters_of_several_bytes_count_as_one():
    prompt = "日本語のとても長い文章をここに書いておきます。"
    assert fenced("error: " + prompt[3:19], ask(prompt))
    assert not fenced("error: " + prompt[3:18], ask(prompt))


def test_files_in_a_request_are_not_text():
    blob = "QUJD" * 2000
    assert not fenced(f"bad image {blob[:100]}", ask("hi", image=blob, url="data:image/png;base64," + blob))


def test_a_large_request_is_searched_in_a_moment():
    """Bounded cost: 4 MiB of text against 10 000 characters of error in well under a second."""
    words = " ".join(f"word{i} filler" for i in range(260_000))
    request = ask(words)
    started = time.perf_counter()
    assert not fenced("nothing of that kind " * 400, request)
    assert fenced("word259990 filler word259991", request)
    assert time.perf_counter() - started < 2.0 * slower()


ALPHABET = "ab "


@settings(max_examples=300, deadline=None)
@given(st.text(ALPHABET, max_size=60), st.text(ALPHABET, max_size=60), st.text("cd", max_size=5))
def test_the_fence_finds_exactly_the_shared_runs(content: str, other: str, noise: str):
    words = noise + other + noise
    shared = any(content[i : i + 16] in words for i in range(len(content) - 15))
    assert fenced(words, ask(content)) == shared


def guarded(key: str, pieces: list[str]) -> str:
    guard = KeyGuard(key)
    out = [guard.pass_on(piece) if guard.wary(piece) else piece for piece in pieces]
    return "".join(out) + guard.flush()


def test_a_key_spread_over_chunks_is_caught():
    assert guarded(OWN, ["the key is sk-own", "-abcd", "efgh12345678", " ok"]) == "the key is [redacted] ok"
    assert guarded(OWN, list(f"x {OWN} y")) == f"x {OWN[:5]}[redacted] y"


def test_what_only_begins_like_the_key_goes_out_whole():
    assert guarded(OWN, ["see sk-own-", "abc", "xyz and more"]) == "see sk-own-abcxyz and more"
    assert guarded(OWN, ["see sk-own-", "abc"]) == "see sk-own-abc"


def test_several_keys_in_one_text_are_all_caught():
    assert guarded(OWN, [f"{OWN}{OWN} and {OWN[:9]}", OWN[9:]]) == "[redacted][redacted] and [redacted]"


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(["abcabcabd", "abc", "ab", "d", " ", "abcabc", "abd"]), max_size=12), st.data())
def test_the_exact_key_never_passes_and_nothing_else_is_lost(words: list[str], data: st.DataObject):
    key = "abcabcabd"
    text = "".join(words)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)) | {0, len(text)})
    out = guarded(key, [text[a:b] for a, b in pairwise(cuts)])
    assert key not in out
    if key not in text:
        assert out == text
    else:
        assert out.count("[redacted]") == text.count(key)


def chunk(text: str | None, finish: str | None = None, name: str = "content") -> tuple[bytes, dict[str, object]]:
    delta = {} if text is None else {name: text}
    frame = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "n": 1.50}
    return json.dumps(frame).encode(), frame


def test_chunks_are_rewritten_only_where_the_key_may_be():
    guard = KeyGuard(OWN)
    payload, frame = chunk("hello")
    assert guard.chunk(payload, frame) is payload
    first = json.loads(guard.chunk(*chunk("key sk-own-abc")))
    assert first["choices"][0]["delta"] == {"content": "key "}
    last = json.loads(guard.chunk(*chunk("defgh12345678!")))
    assert last["choices"][0]["delta"] == {"content": "[redacted]!"}
    assert last["n"] == 1.5


def test_held_text_goes_out_with_the_finish_reason():
    guard = KeyGuard(OWN)
    guard.chunk(*chunk("ends in sk-own-abc"))
    last = json.loads(guard.chunk(*chunk(None, "stop")))
    assert last["choices"][0]["delta"] == {"content": "sk-own-abc"}


def test_the_keys_are_not_in_the_representation():
    assert OWN not in repr(Secrets(OWN))
