"""The SSE framer: any cut of the same bytes gives the same events."""

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.stream.sse import BLANK_CAP, Event, Fault, Framer


def events(*pieces: bytes, cap: int = 1 << 20) -> tuple[list[tuple[bytes | None, bytes]], Fault | None]:
    framer = Framer(cap)
    found: list[Event] = []
    for piece in pieces:
        found += framer.feed(piece)
    found += framer.finish()
    return [(event.data, event.raw) for event in found], framer.fault


def payloads(*pieces: bytes, cap: int = 1 << 20) -> list[bytes | None]:
    return [data for data, _ in events(*pieces, cap=cap)[0]]


def test_an_event_in_the_usual_form_comes_out_byte_for_byte():
    raw = b'data: {"a": 1}\n\n'
    assert events(raw) == ([(b'{"a": 1}', raw)], None)


def test_several_events_that_arrived_together_are_told_apart():
    assert payloads(b"data: 1\n\ndata: 2\n\ndata: [DONE]\n\n") == [b"1", b"2", b"[DONE]"]


def test_the_space_after_the_colon_is_optional():
    assert events(b"data:1\n\n") == ([(b"1", b"data: 1\n\n")], None)


def test_line_ends_of_all_three_kinds_are_accepted():
    """v1-api 58, failover-loop 109"""
    for end in (b"\n", b"\r\n", b"\r"):
        raw = b"data: 1" + end + end + b"data: 2" + end + end
        assert events(raw) == ([(b"1", b"data: 1\n\n"), (b"2", b"data: 2\n\n")], None), end


def test_a_cr_and_its_lf_in_two_chunks_are_one_line_end():
    assert payloads(b"data: 1\r", b"\n\r", b"\ndata: 2\r", b"\n\r\n") == [b"1", b"2"]


def test_a_byte_order_mark_and_blanks_before_the_first_line_are_dropped():
    """v1-api 58, failover-loop 109"""
    assert payloads(b"\xef\xbb\xbf\r\n data: 1\n\n") == [b"1"]
    assert payloads(b"\xef", b"\xbb", b"\xbf", b"\n", b" ", b"data: 1\n\n") == [b"1"]


def test_only_the_first_bytes_can_be_a_byte_order_mark():
    assert payloads(b"\n\xef\xbb\xbfdata: 1\n\n") == [None]


def test_the_data_lines_of_one_event_are_one_payload_on_one_line():
    """v1-api 58, failover-loop 109"""
    assert events(b'data: {"a":\ndata: 1}\n\n') == ([(b'{"a":\n1}', b'data: {"a": 1}\n\n')], None)


def test_comments_never_become_data():
    """failover-loop 109"""
    found, _ = events(b": ping\n\ndata: 1\n\n:x\ndata: 2\n\n")
    assert found == [(None, b": ping\n\n"), (b"1", b"data: 1\n\n"), (b"2", b":x\ndata: 2\n\n")]


def test_other_lines_pass_as_they_are():
    found, _ = events(b"event: message\nid: 7\nretry: 10\nodd line\ndata: 1\n\n")
    assert found == [(b"1", b"event: message\nid: 7\nretry: 10\nodd line\ndata: 1\n\n")]


def test_blank_lines_between_events_become_one():
    assert [raw for _, raw in events(b"data: 1\n\n\n\n\ndata: 2\n\n")[0]] == [b"data: 1\n\n", b"data: 2\n\n"]


def test_a_last_event_without_its_blank_line_counts():
    """failover-loop 109"""
    assert payloads(b"data: 1\n\ndata: 2") == [b"1", b"2"]
    assert payloads(b"data: 1\n\ndata: 2\n") == [b"1", b"2"]


def test_a_character_cut_into_single_bytes_survives():
    raw = 'data: {"t":"äöü€🙂"}\n\n'.encode()
    found = payloads(*(raw[i : i + 5] for i in range(0, len(raw), 5)))
    assert [json.loads(data or b"") for data in found] == [{"t": "äöü€🙂"}]


def test_a_line_over_the_cap_ends_the_stream_but_not_what_came_before():
    raw = b"data: 1\n\ndata: " + b"x" * 100 + b"\n\ndata: 3\n\n"
    for size in (1, 7, len(raw)):
        pieces = [raw[i : i + size] for i in range(0, len(raw), size)]
        assert events(*pieces, cap=64) == ([(b"1", b"data: 1\n\n")], Fault.LINE), size


def test_a_joined_payload_over_the_cap_ends_the_stream():
    raw = (b"data: " + b"x" * 30 + b"\n") * 4 + b"\n"
    assert events(raw, cap=64) == ([], Fault.LINE)


def test_a_line_of_exactly_the_cap_passes():
    raw = b"data: " + b"x" * 58 + b"\n\n"
    assert payloads(raw, cap=64) == [b"x" * 58]
    assert payloads(*(raw[i : i + 9] for i in range(0, len(raw), 9)), cap=64) == [b"x" * 58]


def test_a_thousand_blank_lines_pass_and_one_more_does_not():
    good = b"data: 1\n" + b"\n" * BLANK_CAP + b"data: 2\n\n"
    bad = b"data: 1\n" + b"\n" * (BLANK_CAP + 1) + b"data: 2\n\n"
    for size in (1, 100, len(bad)):
        assert payloads(*(good[i : i + size] for i in range(0, len(good), size))) == [b"1", b"2"]
        cut = [bad[i : i + size] for i in range(0, len(bad), size)]
        assert events(*cut) == ([(b"1", b"data: 1\n\n")], Fault.BLANK), size


def test_finished_lines_and_the_pending_one_are_counted_for_the_watchdog():
    framer = Framer()
    framer.feed(b"data: 1\n\n: ping\n")
    assert (framer.lines, framer.pending) == (3, 0)
    framer.feed(b"\ndata: abc")
    assert (framer.lines, framer.pending) == (4, 9)
    framer.feed(b"defg")
    assert (framer.lines, framer.pending) == (4, 13)
    framer.feed(b"\n\n")
    assert (framer.lines, framer.pending) == (6, 0)


def test_a_long_line_in_small_pieces_costs_no_copy_per_piece():
    """A line of 20 MiB in 5 KiB pieces: one join at its end."""
    framer = Framer()
    piece = b"x" * 5120
    framer.feed(b"data: ")
    for _ in range(4096):
        assert framer.feed(piece) == []
    (event,) = framer.feed(b"\n\n")
    assert len(event.data or b"") == 4096 * 5120


def test_dropping_the_payload_keeps_the_comments_only():
    (event,) = Framer().feed(b": note\nevent: x\ndata: 1\n\n")
    assert event.without_data() == b": note\n\n"
    assert event.carrying(b"2") == b": note\nevent: x\ndata: 2\n\n"
    (bare,) = Framer().feed(b"data: 1\n\n")
    assert bare.without_data() == b""


LINES = st.sampled_from(
    [
        b"data: 1",
        b"data:{}",
        b"data",
        b": ping",
        b"event: x",
        b"id",
        b"",
        b"",
        b"\xef\xbb\xbf",
        b" ",
        b"data: " + b"y" * 40,
    ]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n"])), max_size=20).map(
    lambda pairs: b"".join(line + end for line, end in pairs)
)


@settings(max_examples=300, deadline=None)
@given(STREAMS, st.data(), st.sampled_from([16, 44, 1 << 20]))
def test_any_cut_of_the_same_bytes_gives_the_same_events(raw: bytes, data: st.DataObject, cap: int):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=12)) | {0, len(raw)})
    pieces = [raw[a:b] for a, b in pairwise(cuts)]
    assert events(*pieces, cap=cap) == events(raw, cap=cap)
    assert events(*(raw[i : i + 1] for i in range(len(raw))), cap=cap) == events(raw, cap=cap)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(max_size=30).map(lambda text: json.dumps({"t": text}, ensure_ascii=False).encode()), max_size=8)
)
def test_what_goes_out_is_what_came_in(bodies: list[bytes]):
    raw = b"".join(b"data: " + body + b"\n\n" for body in bodies)
    found, fault = events(*(raw[i : i + 5] for i in range(0, len(raw), 5)))
    assert b"".join(out for _, out in found) == raw
    assert fault is None
