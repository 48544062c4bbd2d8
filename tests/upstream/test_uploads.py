"""Requests with a body, and upstreams that do not wait for its end; and the second request of a connection.

The same scripts for the native client and for httpx, with bodies that fit the buffers of a socket and that do not.
"""

import pytest

from providers.upstream.httpx_client import HttpxClient
from providers.upstream.native import NativeClient
from tests.upstream.scripted import End, Script, Seen, ask_all, differences, said, told
from tests.upstream.test_answers import CHUNKED, LENGTH, OK, PLAIN, ends, head, short

SMALL, MIDDLE, BIG = 2, 200_000, 4 << 20
LARGE = 24 << 20  # more than the buffers of a socket hold
TOO_LARGE = head(413, b"Content-Length: 3\r\n", b"big")

CASES: dict[str, Script] = {
    "an answer behind the body": said(PLAIN),
    "a 100 before the body": said(head(100), PLAIN, early=1),
    "a 103 before the body": said(head(103, b"Link: a\r\n"), PLAIN, early=1),
    "a 100 before and a 103 behind": said(head(100), head(103, b"Link: a\r\n"), head(200, CHUNKED), OK, early=1),
    "a close behind the body": said(end=End.EOF),
    "a reset behind the body": said(end=End.RESET),
    "half an answer behind the body": said(head(200, LENGTH, b"o"), end=End.EOF),
    "a 100 and a close": said(head(100), end=End.EOF),
}
EARLY: dict[str, Script] = {
    "an answer, then the body is read": said(TOO_LARGE, b"", early=2),
    "an answer in chunks around the body": said(head(200, CHUNKED), b"2\r\nok\r\n", b"0\r\n\r\n", early=2),
    "an answer, and the body is never read": said(TOO_LARGE, deaf=True, seconds=1.5),
    "an answer to the end of the connection": said(head(413), b"big", *[b""] * 8, deaf=True, end=End.EOF),
    "an answer that closes": said(head(413, b"Connection: close\r\nContent-Length: 3\r\n", b"big"), b"", early=2),
}
BROKEN: dict[str, Script] = {
    "a close": said(deaf=True, end=End.EOF),
    "a reset": said(deaf=True, end=End.RESET),
    "a close in the head": said(head(413)[:20], b"", deaf=True, end=End.EOF),
    "a 100, then a reset": said(head(100), b"", deaf=True, end=End.RESET),
}


@pytest.mark.parametrize("size", [0, SMALL, MIDDLE, BIG])
def test_what_comes_behind_the_body_is_the_same_to_both(size):
    found = differences(CASES, body=b"x" * size)
    assert not found, told(found)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_an_answer_before_the_end_of_the_body_is_the_answer(size, loop):
    """RFC 9112 9.5: whoever sends a body watches for a refusal and stops; httpx writes to the end first.

    An answer that is none is no reason to stop: the upstream reads on while it answers.
    """
    found = ask_all(NativeClient, EARLY, body=b"x" * size, loop=loop)
    for case, seen in found.items():
        # A server that closes with the body unread resets: such an end is none of an answer without a length.
        fault = "reset" if size == LARGE and "to the end" in case else ""
        assert (seen.status, seen.fault) == (200 if "chunks" in case else 413, fault), f"{case}: {seen}"
        assert seen.body == (b"ok" if "chunks" in case else b"big")
        # Where a part of the body was not sent, the rest would be read as the next request.
        assert seen.then == "new" or ((size == SMALL and "read" in case) or "chunks" in case), f"{case}: {seen}"
    assert size == SMALL or {seen.then for seen in found.values()} == {"new"}


def test_httpx_agrees_where_it_can():
    read = {case: script for case, script in EARLY.items() if not script.deaf}
    ours, theirs = ask_all(NativeClient, read, body=b"{}"), ask_all(HttpxClient, read, body=b"{}")
    assert {case: short(seen) for case, seen in ours.items()} == {case: short(seen) for case, seen in theirs.items()}


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_a_break_during_the_upload_is_an_interruption_of_a_request_that_was_written(size):
    found = ask_all(NativeClient, BROKEN, body=b"x" * size)
    assert {_kind(seen) for seen in found.values()} == {("reset", True, None, "new")}, told_one(found)
    theirs = ask_all(HttpxClient, BROKEN, body=b"x" * size)
    assert {_kind(seen) for seen in theirs.values()} == {("reset", True, None, "new")}, told_one(theirs)


def _kind(seen: Seen) -> tuple[str, bool, int | None, str]:
    return seen.fault, seen.written, seen.status, seen.then


def told_one(found: dict[str, Seen]) -> str:
    return "\n".join(f"{case}: {seen}" for case, seen in found.items())


def test_on_a_connection_that_was_used_before_an_answer_means_what_it_means_on_a_new_one():
    cases = {case: script for case, script in ends() if "silence" not in case}
    new, used = ask_all(NativeClient, cases), ask_all(NativeClient, cases, warm=True)
    assert {case: (str(a), str(used[case])) for case, a in new.items() if a != used[case]} == {}
    found = differences(cases, warm=True)
    assert not found, told(found)
