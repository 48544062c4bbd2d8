"""MiniMax: errors inside a 200 (failover-loop 5.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.kinds.base import Disguised
from providers.kinds.registry import KINDS

MINIMAX = KINDS["minimax"]


@pytest.mark.parametrize(
    ("code", "status"), [(1002, 429), (1039, 429), (1008, 429), (1004, 401), (1000, 502), (-1, 502)]
)
def test_a_code_counts_as_a_status(code: int, status: int):
    payload = b'{"base_resp":{"status_code":%d,"status_msg":"no"},"choices":null}' % code
    assert MINIMAX.disguised(payload) == Disguised(status, code, "no")


def test_a_code_without_words_counts_too():
    assert MINIMAX.disguised(b'{"base_resp":{"status_code":1002,"status_msg":5}}') == Disguised(429, 1002, "")


@pytest.mark.parametrize(
    "payload",
    [
        b'{"base_resp":{"status_code":0,"status_msg":"success"}}',
        b'{"base_resp":{"status_msg":"?"}}',
        b'{"base_resp":null}',
        b'{"base_resp":5}',
        b'{"base_resp":{"status_code":"1002"}}',
        b'{"choices":[]}',
        b"[]",
        b'{"base_resp":{"status_code":1002}',
        b"",
    ],
)
def test_anything_else_is_no_error(payload: bytes):
    assert MINIMAX.disguised(payload) is None


@given(st.binary())
def test_no_body_breaks_it(payload: bytes):
    MINIMAX.disguised(payload)


def test_only_minimax_is_looked_at():
    assert {kind.type for kind in KINDS.values() if kind.disguises_errors} == {"minimax"}
