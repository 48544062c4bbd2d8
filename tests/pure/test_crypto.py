"""Keys at rest."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelhotel.core import crypto


@pytest.fixture(autouse=True)
def _master() -> Iterator[None]:
    before = crypto._master
    crypto.set_master_key(b"a master key of some length 000001")
    yield
    crypto._master = before


def test_the_same_key_never_looks_the_same_twice():
    """providers 20"""
    one, two = crypto.seal("sk-abcdef12"), crypto.seal("sk-abcdef12")
    assert one.ciphertext != two.ciphertext and one.nonce != two.nonce and one.salt != two.salt
    assert (len(one.nonce), len(one.salt), len(one.ciphertext)) == (12, 32, len("sk-abcdef12") + 16)
    assert [crypto.open_sealed(s.ciphertext, s.nonce, s.salt) for s in (one, two)] == ["sk-abcdef12"] * 2


def test_what_can_not_be_read_is_an_error_and_no_crash():
    """providers 21"""
    sealed = crypto.seal("sk-abcdef12")
    flipped = bytes([sealed.ciphertext[0] ^ 1]) + sealed.ciphertext[1:]
    for ciphertext, nonce, salt in (
        (flipped, sealed.nonce, sealed.salt),
        (sealed.ciphertext[:-1], sealed.nonce, sealed.salt),
        (b"", sealed.nonce, sealed.salt),
        (sealed.ciphertext, sealed.nonce[:11], sealed.salt),
        (sealed.ciphertext, b"", sealed.salt),
        (sealed.ciphertext, sealed.nonce, b""),
        (sealed.ciphertext, sealed.nonce, sealed.salt[:4]),
    ):
        with pytest.raises(crypto.DecryptError) as problem:
            crypto.open_sealed(ciphertext, nonce, salt)
        assert "sk-abcdef12" not in str(problem.value)
    crypto.set_master_key(b"another master key of some length 2")
    with pytest.raises(crypto.DecryptError, match="possible wrong master key"):
        crypto.open_sealed(sealed.ciphertext, sealed.nonce, sealed.salt)


def test_the_derivation_is_the_documented_one():
    """A value sealed by hand after the description opens here."""
    from argon2.low_level import Type, hash_secret_raw
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, nonce = b"s" * 32, b"n" * 12
    key = hash_secret_raw(b"a master key of some length 000001", salt, 1, 8192, 4, 32, Type.ID, 19)
    assert crypto.open_sealed(AESGCM(key).encrypt(nonce, b"sk-1", None), nonce, salt) == "sk-1"


@settings(max_examples=15, deadline=None)
@given(st.text(max_size=200))
def test_a_packed_secret_comes_back(secret: str):
    packed = crypto.pack(secret)
    assert packed.startswith("enc:v1:") and packed.count(":") == 4
    assert crypto.unpack(packed) == secret


def test_a_line_without_the_prefix_is_no_packed_secret():
    assert crypto.unpack("mailto://me@example.com") == "mailto://me@example.com"
    for line in ("enc:v1:abc", "enc:v1:a:b:c:d", "enc:v1:!!:!!:!!", "enc:v1:::"):
        with pytest.raises(crypto.DecryptError):
            crypto.unpack(line)


@pytest.mark.parametrize(
    ("key", "shown"), [("", "***"), ("abcd", "***"), ("abcde", "ab...de"), ("sk-abcdef12", "sk...12")]
)
def test_the_mask_shows_two_characters_at_each_end(key: str, shown: str):
    assert crypto.mask(key) == shown


def test_nothing_is_sealed_without_a_master_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(crypto, "_master", None)
    with pytest.raises(crypto.DecryptError, match="no master key"):
        crypto.seal("sk-1")
