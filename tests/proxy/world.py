"""Providers, models, groups, accounts and keys in the database and in memory, for the tests of ``/v1``."""

from typing import Any

from failover.models import FailoverGroup
from modelhotel.core import crypto, snapshots
from modelhotel.core.actor import ADMIN
from modelhotel.core.clock import SYSTEM
from modelhotel.models import User
from providers.models import Model, Provider
from proxy import verbs
from proxy.models import VirtualKey
from requestlogs.models import RequestLog
from requestlogs.recorder import RECORDER


def provider(name: str, url: str = "http://127.0.0.1:9/v1", key: str = "", **given: Any) -> Provider:
    """An enabled provider; keyless without *key*."""
    if key:
        sealed = crypto.seal(key)
        given |= {"encrypted_key": sealed.ciphertext, "key_nonce": sealed.nonce, "key_salt": sealed.salt}
    values = {"provider_type": "custom", **given}
    return Provider.objects.create(name=name, base_url=url, **values)


def model(owner: Provider, model_id: str, **given: Any) -> Model:
    return Model.objects.create(provider=owner, model_id=model_id, **given)


def group(name: str, *members: Model, **given: Any) -> FailoverGroup:
    order = [str(member.pk) for member in members]
    return FailoverGroup.objects.create(display_model=name, priority_order=order, updated_at=SYSTEM.now(), **given)


def user(name: str, **given: Any) -> User:
    return User.objects.create(username=name, **given)


def key(name: str = "app", **given: Any) -> str:
    """A new virtual key; its text."""
    return verbs.create({"name": name, **given}, ADMIN)[1]


def ready() -> None:
    """What is in the database is in memory from here on."""
    snapshots.refresh_all()


def rows() -> list[RequestLog]:
    """The request log, oldest first, with everything written that is known."""
    assert RECORDER.flush()
    return list(RequestLog.objects.order_by("created_at", "id"))


def row() -> RequestLog:
    """The only row there is."""
    found = rows()
    assert len(found) == 1, found
    return found[0]


def stored(name: str = "app") -> VirtualKey:
    return VirtualKey.objects.get(name=name)
