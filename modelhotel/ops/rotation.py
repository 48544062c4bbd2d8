"""Every stored secret from one master key to another, in one transaction (providers 4.7)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from django.db import transaction

from modelhotel.core import crypto
from modelhotel.core.crypto import DecryptError, Sealed
from modelhotel.core.environment import BadEnvironment, Environment
from modelhotel.master import known, path
from modelhotel.models import Setting
from providers.models import Provider


class Unreadable(Exception):
    """Nothing was changed; *names* are the rows that neither key opens."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


@dataclass(frozen=True, slots=True)
class Keys:
    """Exactly as given."""

    old: bytes
    new: bytes


@dataclass(slots=True)
class Count:
    """Of one kind of secret: *moved* to the new key (or, in a dry run, to be), *there* already."""

    moved: int = 0
    there: int = 0


@dataclass(frozen=True, slots=True)
class Secret:
    """One stored value. *read* raises DecryptError where it is malformed; *write* stores it anew."""

    name: str
    read: Callable[[], Sealed]
    write: Callable[[Sealed], object] = field(repr=False)


def keys_of(env: Environment) -> Keys:
    """The two keys. Raises BadEnvironment with a line that says what to set."""
    if not env.old_master_key:
        raise BadEnvironment("OLD_MASTER_KEY is required: the key under which the secrets are stored now")
    new = known(env)
    if not new:
        where = "" if not env.sqlite else f", or put it into {path(env)}"
        raise BadEnvironment(f"MASTER_KEY is required: set it to the new key{where}")
    if env.old_master_key == new:
        raise BadEnvironment("OLD_MASTER_KEY is the same as MASTER_KEY: set MASTER_KEY to the new key")
    return Keys(env.old_master_key.encode(), new.encode())


def any_stored() -> bool:
    """Whether the database holds a secret, under whichever key."""
    with transaction.atomic():
        return any(True for secrets in PLACES.values() for _ in secrets())


def rotate(keys: Keys, *, dry_run: bool = False) -> Mapping[str, Count]:
    """Encrypt anew what the old key opens, leave what the new one opens; by kind. Raises Unreadable.

    No version is raised: a process that runs with the old key goes on with what it has in memory.
    """
    counts: dict[str, Count] = {}
    lost: list[str] = []
    with transaction.atomic():
        for kind, secrets in PLACES.items():
            count = counts[kind] = Count()
            for secret in secrets():
                try:
                    _move(secret, keys, count, dry_run=dry_run)
                except DecryptError:
                    lost.append(secret.name)
        if lost:
            raise Unreadable(lost)
    return counts


def _move(secret: Secret, keys: Keys, count: Count, *, dry_run: bool) -> None:
    sealed = secret.read()
    if _opens(sealed, keys.new):
        count.there += 1
        return
    plain = crypto.open_sealed(sealed.ciphertext, sealed.nonce, sealed.salt, master=keys.old)
    if not dry_run:
        secret.write(crypto.seal(plain, master=keys.new))
    count.moved += 1


def _opens(sealed: Sealed, master: bytes) -> bool:
    try:
        crypto.open_sealed(sealed.ciphertext, sealed.nonce, sealed.salt, master=master)
    except DecryptError:
        return False
    return True


def _providers() -> Iterator[Secret]:
    for row in Provider.objects.select_for_update().exclude(encrypted_key=None).order_by("name"):
        yield Secret(f"provider {row.name}", lambda row=row: _sealed(row), lambda new, row=row: _store(row, new))  # type: ignore[misc]


def _sealed(row: Provider) -> Sealed:
    return Sealed(bytes(row.encrypted_key or b""), bytes(row.key_nonce or b""), bytes(row.key_salt or b""))


def _store(row: Provider, new: Sealed) -> None:
    same = Provider.objects.filter(pk=row.pk)
    same.update(encrypted_key=new.ciphertext, key_nonce=new.nonce, key_salt=new.salt)


def _settings() -> Iterator[Secret]:
    for row in Setting.objects.select_for_update().filter(value__startswith=crypto.PREFIX).order_by("key"):
        same = Setting.objects.filter(pk=row.pk)
        yield Secret(
            f"setting {row.key}",
            lambda value=row.value: crypto.sealed_of(value),  # type: ignore[misc]
            lambda new, same=same: same.update(value=crypto.packed(new)),  # type: ignore[misc]
        )


#: Every place that holds secrets, by what its rows are called.
PLACES: Mapping[str, Callable[[], Iterator[Secret]]] = {"provider keys": _providers, "secret settings": _settings}
