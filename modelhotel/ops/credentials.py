"""The admin token and the first account: made once, printed once, kept as hashes."""

import hmac
import secrets

from modelhotel.accounts import admin_token, verbs
from modelhotel.core.environment import Environment
from modelhotel.models import User


def ensure_token(env: Environment) -> tuple[str, bool]:
    """Settle the token. Answers (a new token to be printed or empty, whether ADMIN_TOKEN replaced the stored one)."""
    stored = admin_token.stored()
    if env.admin_token:
        if stored is not None and hmac.compare_digest(stored, admin_token.hash_of(env.admin_token)):
            return "", False
        admin_token.store(env.admin_token)
        return "", stored is not None
    return ("", False) if stored else (new_token(), False)


def new_token() -> str:
    """Make and store a token of 32 hex characters; the only moment it can be read."""
    token = secrets.token_hex(16)
    admin_token.store(token)
    return token


def ensure_account(env: Environment) -> str:
    """Make the first account when there is none; the password to be printed, empty when there is nothing to print."""
    if User.objects.exists():
        return ""
    password = env.admin_password or secrets.token_urlsafe(12)
    verbs.ensure_admin(password)
    return "" if env.admin_password else password
