"""Sign-ins: Django's sessions, kept under the SHA-256 of the cookie.

The cookie is 32 random bytes as hex. A session lives three days from its last use and thirty days from its sign-in;
use is written at most every five minutes, and only when that moves the end by more than a minute. The event stream
reads sessions without using them (:func:`signed_in`).
"""

import hashlib
import re
import secrets
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend
from django.contrib.sessions.backends.base import CreateError, SessionBase, UpdateError
from django.db import IntegrityError, transaction
from django.utils.crypto import constant_time_compare

from modelhotel.core import clock as clocks
from modelhotel.core.clock import Clock
from modelhotel.models import Session, User

IDLE_LIFE = timedelta(hours=72)
ABSOLUTE_LIFE = timedelta(days=30)
WRITE_EVERY = timedelta(minutes=5)
WORTH_WRITING = timedelta(minutes=1)
USER_AGENT_BYTES = 256

#: Where "now" comes from; tests put a clock of their own here.
clock: Clock = clocks.SYSTEM
#: Called with the stored key of a session that was ended on purpose.
ended: list[Callable[[str], None]] = []
#: In the data of a session that the admin token opened.
BY_TOKEN = "by_admin_token"
_TOKEN = re.compile(r"[0-9a-f]{64}")


def key_of(token: str) -> str:
    """What the database knows of the cookie *token*."""
    return hashlib.sha256(token.encode()).hexdigest()


def user_agent(text: str) -> str:
    """At most 256 bytes of valid UTF-8 without characters a database refuses."""
    return text.replace("\x00", "").encode(errors="replace")[:USER_AGENT_BYTES].decode(errors="ignore")


def _find(token: str) -> Session | None:
    now = clock.now()
    found = Session.objects.filter(session_key=key_of(token), expire_date__gt=now).first()
    return found if found and found.created_at + ABSOLUTE_LIFE > now else None


def _end_of_life(created_at: datetime, now: datetime) -> datetime:
    return min(now + IDLE_LIFE, created_at + ABSOLUTE_LIFE)


class SessionStore(SessionBase):
    """Django's session interface over :class:`modelhotel.models.Session`."""

    #: Set by the middleware, for the row that a sign-in makes.
    client_ip: str = ""
    client_agent: str = ""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(session_key)
        self.row: Session | None = None

    def _validate_session_key(self, key: str | None) -> bool:
        return bool(key and _TOKEN.fullmatch(key))

    def _get_new_session_key(self) -> str:
        return secrets.token_hex(32)

    def load(self) -> dict[str, Any]:
        self.row = _find(self.session_key) if self.session_key else None
        if self.row is None:
            self._session_key = None
            return {}
        return dict(self.decode(self.row.session_data))

    def exists(self, session_key: str) -> bool:
        return Session.objects.filter(session_key=key_of(session_key)).exists()

    def create(self) -> None:
        """Start a new row under a new token; its thirty days begin now."""
        self.row = None
        while True:
            self._session_key = self._get_new_session_key()
            try:
                self.save(must_create=True)
            except CreateError:
                continue
            self.modified = True
            return

    def save(self, must_create: bool = False) -> None:
        """Write the data and move the end. Raises UpdateError when the session was ended meanwhile."""
        if self.session_key is None:
            return self.create()
        data: dict[str, Any] = self._get_session(no_load=must_create)  # type: ignore[attr-defined]
        now = clock.now()
        created_at = self.row.created_at if self.row else now
        fields: dict[str, Any] = {
            "session_data": self.encode(data),
            "expire_date": _end_of_life(created_at, now),
            "last_seen_at": now,
            "user_id": data.get(SESSION_KEY),
        }
        if self.row is not None and not must_create:
            if not Session.objects.filter(pk=self.row.pk).update(**fields):
                raise UpdateError
            for name, value in fields.items():
                setattr(self.row, name, value)
            return None
        row = Session(
            session_key=key_of(self.session_key),
            created_at=created_at,
            ip=self.client_ip[:64],
            user_agent=user_agent(self.client_agent),
            **fields,
        )
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError as problem:
            raise CreateError from problem
        self.row = row
        return None

    def delete(self, session_key: str | None = None) -> None:
        """End the session (its event streams too, see :data:`ended`)."""
        token = session_key or self.session_key
        if token:
            key = key_of(token)
            Session.objects.filter(session_key=key).delete()
            for listener in ended:
                listener(key)

    def flush(self) -> None:
        super().flush()
        self.row = None

    def get_expiry_age(self, **kwargs: Any) -> int:
        """Seconds of life left, counted from the use that is about to be written; the cookie's Max-Age."""
        now = clock.now()
        if self.row is None:
            end = now + IDLE_LIFE
        else:
            end = _end_of_life(self.row.created_at, now) if self.modified else self.row.expire_date
        return max(int((end - now).total_seconds()), 0)

    def get_expiry_date(self, **kwargs: Any) -> datetime:
        return clock.now() + timedelta(seconds=self.get_expiry_age())

    @classmethod
    def clear_expired(cls) -> None:
        Session.objects.filter(expire_date__lt=clock.now()).delete()

    def wants_slide(self) -> bool:
        """Whether this use is worth writing down."""
        if self.row is None or self.modified:
            return False
        now = clock.now()
        gain = _end_of_life(self.row.created_at, now) - self.row.expire_date
        return now - self.row.last_seen_at >= WRITE_EVERY and gain > WORTH_WRITING

    def slide(self) -> bool:
        """Write the use down without touching the data. False when the session was ended meanwhile."""
        assert self.row is not None
        now = clock.now()
        self.row.expire_date, self.row.last_seen_at = _end_of_life(self.row.created_at, now), now
        found = Session.objects.filter(pk=self.row.pk)
        return bool(found.update(expire_date=self.row.expire_date, last_seen_at=now))


def signed_in(token: str) -> tuple[User, SessionStore] | None:
    """The enabled account that *token* signed in, None when there is none (any more). Never counts as use."""
    store = SessionStore(token)
    user_id, path = store.get(SESSION_KEY), store.get(BACKEND_SESSION_KEY, "")
    if not user_id or path not in settings.AUTHENTICATION_BACKENDS:
        return None
    user = load_backend(path).get_user(user_id)
    if not isinstance(user, User):
        return None
    proof = store.get(HASH_SESSION_KEY)
    good = proof and constant_time_compare(proof, user.get_session_auth_hash())
    return (user, store) if good else None


def public_id(row: Session) -> uuid.UUID:
    """What the API calls a session: half of its stored key, so that no column is needed and no token is named."""
    return uuid.UUID(row.session_key[:32])


def of_account(user: User | None) -> list[Session]:
    """The living sessions of *user*, newest first."""
    if user is None:
        return []
    now = clock.now()
    found = Session.objects.filter(user=user, expire_date__gt=now, created_at__gt=now - ABSOLUTE_LIFE)
    return list(found.order_by("-created_at", "session_key"))


def revoke(rows: Iterable[Session]) -> int:
    """End *rows* and their event streams. How many there were."""
    keys = [row.session_key for row in rows]
    gone, _ = Session.objects.filter(session_key__in=keys).delete()
    for key in keys:
        for listener in ended:
            listener(key)
    return gone
