"""The ear of the fake providers, and the search that products are put to when they stop."""

import json
from pathlib import Path

import httpx

from tests.upstream.server import FakeProvider, answer, status, stream
from tests.upstream.spoken import HEARD, PROMPT, Heard, pieces, texts
from tests.wire import written

LONG = "The quick brown fox jumps over the lazy dog"


def test_a_text_is_kept_in_pieces_that_nothing_writes_in_another_way():
    assert list(pieces(LONG)) == [LONG[:16], LONG[16:32], LONG[-16:]]
    assert set(pieces('A "quoted" word\nand another line')) == {"and another line"}
    assert list(pieces("hi")) == list(pieces("0" * 40)) == []
    assert len(list(pieces(LONG * 100))) == 6


def test_only_what_somebody_said_counts():
    said = {
        "model": "model-of-some-name",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"file": {"file_data": "b"}}]}],
        "tools": [{"function": {"name": "c"}}],
        "input": {"arguments": ["d"], "id": "e"},
        "error": {"message": "f"},
    }
    assert list(texts(said)) == ["a", "b", "d"]


def test_requests_and_answers_of_every_form_are_heard():
    heard = Heard()
    heard.request(json.dumps({"messages": [{"content": LONG}]}).encode(), "application/json")
    assert LONG[:16] in heard.since(0)
    form = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a secret name"\r\n\r\nRIFF of my life\r\n--b--'
    )
    heard.request(form, "multipart/form-data; boundary=b")
    assert heard.since(1) == ["a secret name", "RIFF of my life"]
    heard.answer(
        b"HTTP/1.1 200 X\r\n\r\n" + json.dumps({"choices": [{"message": {"content": "what I told"}}]}).encode()
    )
    deltas = "".join(f'data: {{"delta": "{LONG[at : at + 7]}"}}\r\n\r\n' for at in range(0, len(LONG), 7))
    heard.answer(b"HTTP/1.1 200 X\r\n\r\n" + deltas.encode())
    assert set(pieces(LONG)) <= set(heard.since(3))
    assert heard.since(heard.count) == []


def test_a_fake_provider_hears_what_it_is_asked_and_says():
    before = HEARD.count
    with FakeProvider() as provider, httpx.Client(base_url=provider.url, trust_env=False) as http:
        provider.script(answer("an answer of its own"), stream(["to be ", "taken ", "apart"]), status(400))
        body = {"model": "m", "messages": [{"role": "user", "content": PROMPT}]}
        for streaming in (False, True, False):
            http.post("/chat/completions", json={**body, "stream": streaming})
        http.get("/models")
    heard = HEARD.since(before)
    assert {PROMPT[:16], "an answer of its", "to be taken apar"} <= set(heard)
    assert not any("scripted" in piece or "glm" in piece for piece in heard)


def test_what_was_said_is_found_wherever_it_was_written(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "modelhotel.sqlite3-wal").write_bytes(b"\0\xff" + LONG.encode() + b"\xff\0")
    wanted = [*pieces(LONG), *pieces(PROMPT)]
    found = written.search(wanted, tmp_path, f"level=INFO msg={PROMPT[:20]}")
    wal = f"{tmp_path}/a/modelhotel.sqlite3-wal"
    assert found == sorted([f"{wal}:{LONG[:16]}", f"{wal}:{LONG[16:32]}", f"printed:{PROMPT[:16]}"])  # no overlaps
    assert written.search(list(pieces("nothing of the kind")), tmp_path, "") == []
    assert all(written.ALLOWED.values())
