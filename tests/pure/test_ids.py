import time
import uuid

import pytest

from modelhotel.core import ids


def test_a_uuid_is_a_random_one_of_version_four():
    found = {ids.uuid4_text() for _ in range(2000)}
    assert len(found) == 2000
    for text in found:
        value = uuid.UUID(text)
        assert (str(value), value.version, value.variant) == (text, 4, uuid.RFC_4122)


def test_ids_of_requests_sort_by_time_and_are_of_version_seven():
    found = [ids.uuid7_text() for _ in range(2000)]
    assert len(set(found)) == 2000
    for text in found:
        value = uuid.UUID(text)
        assert (str(value), value.version, value.variant) == (text, 7, uuid.RFC_4122)
    moments = [text[:13] for text in found]
    assert moments == sorted(moments)
    assert abs(int(found[0].replace("-", "")[:12], 16) / 1000 - time.time()) < 60


def test_a_request_hash_has_sixteen_hex_digits():
    assert all(len(text) == 16 and int(text, 16) >= 0 for text in (ids.hex16() for _ in range(500)))


@pytest.mark.parametrize(
    "text", ["", "x", None, 5, "6f1c2a340b1d4c599d6e5a7f0c3b2e19", "{6f1c2a34-0b1d-4c59-9d6e-5a7f0c3b2e1}"]
)
def test_what_is_no_canonical_uuid_is_none(text):
    assert ids.parse_uuid(text) is None


def test_letter_case_does_not_matter():
    assert ids.parse_uuid("6F1C2A34-0B1D-4C59-9D6E-5A7F0C3B2E19") == uuid.UUID("6f1c2a34-0b1d-4c59-9d6e-5a7f0c3b2e19")
