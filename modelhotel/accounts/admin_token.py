"""The admin token: one for the installation, kept as its SHA-256 in the database so that every node accepts it."""

import hashlib
import hmac

from modelhotel.models import AdminToken

_PREFIX = "sha256:"


def hash_of(token: str) -> str:
    """``sha256:<64 hex>``, the form the database keeps."""
    return _PREFIX + hashlib.sha256(token.encode()).hexdigest()


def stored() -> str | None:
    """The stored hash, None before the first start is through."""
    return AdminToken.objects.values_list("token_hash", flat=True).filter(pk=1).first()


def store(token: str) -> None:
    """Make *token* the admin token; the one before stops working at once on every node."""
    if not token:
        raise ValueError("an empty admin token")
    AdminToken.objects.update_or_create(pk=1, defaults={"token_hash": hash_of(token)})


def matches(token: str) -> bool:
    """Whether *token* is the admin token; compared in constant time, an empty one never is."""
    known = stored()
    if not token or known is None:
        return False
    return hmac.compare_digest(known, hash_of(token))
