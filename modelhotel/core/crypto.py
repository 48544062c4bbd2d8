"""Secrets at rest: AES-256-GCM under a key that Argon2id derives from the master key and a salt of each value.

The Argon2 cost is low on purpose: the master key is random, not a password, and a derivation sits on the path of the
first request after a key has left the cache. It still takes milliseconds, so it never runs on an event loop.
"""

import base64
import binascii
import os
from dataclasses import dataclass

from argon2 import low_level
from argon2.exceptions import Argon2Error
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12
SALT_BYTES = 32
TAG_BYTES = 16  # of GCM, at the end of every ciphertext
KEY_BYTES = 32
TIME_COST = 1
MEMORY_KIB = 8192
PARALLELISM = 4
PREFIX = "enc:v1:"

_master: bytes | None = None


class DecryptError(Exception):
    """A stored secret can not be read: another master key, or a damaged row. Never holds any of it."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """One encrypted value; *ciphertext* ends with the 16-byte tag."""

    ciphertext: bytes
    nonce: bytes
    salt: bytes


def set_master_key(key: bytes) -> None:
    """The root secret of this process, exactly as given. Set before the first value is sealed or opened."""
    global _master
    _master = key


def _derive(salt: bytes, master: bytes | None) -> bytes:
    root = _master if master is None else master
    if not root:
        raise DecryptError("no master key is set")
    return low_level.hash_secret_raw(
        root, salt, TIME_COST, MEMORY_KIB, PARALLELISM, KEY_BYTES, low_level.Type.ID, low_level.ARGON2_VERSION
    )


def seal(plain: str, *, master: bytes | None = None) -> Sealed:
    """Encrypt under a fresh salt and nonce, so equal texts never look equal. Raises DecryptError without a key.

    *master*, here and below: a root secret other than that of this process.
    """
    salt, nonce = os.urandom(SALT_BYTES), os.urandom(NONCE_BYTES)
    return Sealed(AESGCM(_derive(salt, master)).encrypt(nonce, plain.encode(), None), nonce, salt)


def open_sealed(ciphertext: bytes, nonce: bytes, salt: bytes, *, master: bytes | None = None) -> str:
    """Raises DecryptError."""
    if len(nonce) != NONCE_BYTES:
        raise DecryptError(f"the nonce has {len(nonce)} bytes, not {NONCE_BYTES}")
    if not salt:
        raise DecryptError("the salt is missing")
    try:
        return AESGCM(_derive(salt, master)).decrypt(nonce, ciphertext, None).decode()
    except (InvalidTag, Argon2Error, ValueError):
        raise DecryptError("decryption failed, possible wrong master key") from None


def damaged(ciphertext: bytes, nonce: bytes, salt: bytes) -> bool:
    """Whether no master key at all opens this: a part is missing or cut off."""
    return len(nonce) != NONCE_BYTES or not salt or len(ciphertext) < TAG_BYTES


def pack(plain: str) -> str:
    """A secret as one line of text, for the settings table."""
    return packed(seal(plain))


def packed(sealed: Sealed) -> str:
    return PREFIX + ":".join(base64.b64encode(part).decode() for part in (sealed.ciphertext, sealed.nonce, sealed.salt))


def unpack(text: str) -> str:
    """The secret in a packed line; text without the prefix comes back unchanged. Raises DecryptError."""
    if not text.startswith(PREFIX):
        return text
    sealed = sealed_of(text)
    return open_sealed(sealed.ciphertext, sealed.nonce, sealed.salt)


def sealed_of(text: str) -> Sealed:
    """What a packed line holds, still encrypted. Raises DecryptError."""
    parts = text.removeprefix(PREFIX).split(":")
    if len(parts) != 3:
        raise DecryptError(f"a packed secret has 3 parts, this one has {len(parts)}")
    try:
        return Sealed(*(base64.b64decode(part, validate=True) for part in parts))
    except (binascii.Error, ValueError):
        raise DecryptError("a packed secret is not base64") from None


def mask(key: str) -> str:
    """What may be shown of *key*: its first and last two characters, nothing of a very short one."""
    return "***" if len(key) <= 4 else f"{key[:2]}...{key[-2:]}"
