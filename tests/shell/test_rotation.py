"""``manage.py rotate_master_key``: all stored secrets from one master key to another, or none of them."""

from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError

from modelhotel.core import crypto
from modelhotel.models import Setting
from modelhotel.ops import rotation
from providers.models import Provider
from tests.proxy import world

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

OLD, NEW = "old-master-key-" * 3, "new-master-key-" * 3
KEYS = {"A": "sk-alpha-0123456789", "B": "sk-beta-0123456789"}
SECRET = "tgram://bottoken/chat"


@pytest.fixture(autouse=True)
def stored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two providers with a key, one without, a secret setting and a plain one, all of them under the old key."""
    before = crypto._master
    crypto.set_master_key(OLD.encode())
    for name, key in KEYS.items():
        world.provider(name, key=key)
    world.provider("Keyless")
    Setting.objects.create(key="alert_apprise_targets", value=crypto.pack(SECRET))
    Setting.objects.create(key="request_timeout", value="31s")
    given(monkeypatch, OLD, NEW)
    yield
    crypto._master = before


def given(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    monkeypatch.setattr(settings, "MH", replace(settings.MH, old_master_key=old, master_key=new))


def run(*args: str) -> str:
    out = StringIO()
    call_command("rotate_master_key", *args, stdout=out)
    return out.getvalue()


def rows() -> list[Any]:
    columns = ("name", "encrypted_key", "key_nonce", "key_salt", "masked_key", "updated_at")
    providers = [tuple(map(str, row)) for row in Provider.objects.order_by("name").values_list(*columns)]
    return [*providers, *Setting.objects.order_by("key").values_list("key", "value", "updated_at")]


def opened(name: str, master: str) -> str:
    row = Provider.objects.get(name=name)
    sealed = (bytes(part or b"") for part in (row.encrypted_key, row.key_nonce, row.key_salt))
    return crypto.open_sealed(*sealed, master=master.encode())


def setting() -> crypto.Sealed:
    return crypto.sealed_of(Setting.objects.get(key="alert_apprise_targets").value)


def test_every_secret_opens_under_the_new_key_alone_and_a_second_run_has_nothing_to_do():
    """providers 22a"""
    before = rows()
    assert run("--dry-run").splitlines() == [
        "provider keys: 2 would be re-encrypted",
        "secret settings: 1 would be re-encrypted",
    ]
    assert rows() == before
    corrupt = Provider.objects.get(name="B")
    good = bytes(corrupt.encrypted_key or b"")
    Provider.objects.filter(name="B").update(encrypted_key=good[:-1] + bytes([good[-1] ^ 1]))
    spoilt = rows()
    with pytest.raises(CommandError) as told:
        run()
    assert str(told.value) == "nothing was changed, OLD_MASTER_KEY does not decrypt: provider B"
    assert told.value.returncode == 1 and rows() == spoilt
    Provider.objects.filter(name="B").update(encrypted_key=good)
    assert run().splitlines() == [
        "provider keys: 2 re-encrypted",
        "secret settings: 1 re-encrypted",
        "restart every running process with the new MASTER_KEY",
    ]
    for name, key in KEYS.items():
        assert opened(name, NEW) == key
        with pytest.raises(crypto.DecryptError):
            opened(name, OLD)
    sealed = setting()
    assert crypto.open_sealed(sealed.ciphertext, sealed.nonce, sealed.salt, master=NEW.encode()) == SECRET
    with pytest.raises(crypto.DecryptError):
        crypto.open_sealed(sealed.ciphertext, sealed.nonce, sealed.salt, master=OLD.encode())
    # Nonce and salt are new as well, and nothing else has changed.
    after = rows()
    for old, new in zip(before, after, strict=True):
        if old[0] in KEYS:
            assert all(old[at] != new[at] for at in (1, 2, 3)) and (old[0], *old[4:]) == (new[0], *new[4:])
    assert (before[2], before[4]) == (after[2], after[4])
    assert run().splitlines() == [
        "provider keys: 0 re-encrypted, 2 already under the new key",
        "secret settings: 0 re-encrypted, 1 already under the new key",
        "nothing to do",
    ]
    assert rows() == after


def test_what_was_saved_under_the_old_key_since_is_taken_along_by_another_run():
    run()
    sealed = crypto.seal("sk-late-0123456789", master=OLD.encode())
    rotation._store(Provider.objects.get(name="A"), sealed)
    assert "provider keys: 1 re-encrypted, 1 already under the new key" in run()
    assert opened("A", NEW) == "sk-late-0123456789"


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        (lambda: Provider.objects.filter(name="A").update(key_salt=None), "provider A"),
        (lambda: Provider.objects.filter(name="A").update(key_nonce=b"n" * 11), "provider A"),
        (
            lambda: Setting.objects.filter(pk="alert_apprise_targets").update(value="enc:v1:a:b"),
            "setting alert_apprise_targets",
        ),
        (
            lambda: Setting.objects.filter(pk="alert_apprise_targets").update(value="enc:v1:!:!:!"),
            "setting alert_apprise_targets",
        ),
    ],
)
def test_whatever_can_not_be_read_is_named_and_nothing_is_changed(broken: Any, name: str):
    broken()
    before = rows()
    for args in ((), ("--dry-run",)):
        with pytest.raises(CommandError) as told:
            run(*args)
        assert str(told.value) == f"nothing was changed, OLD_MASTER_KEY does not decrypt: {name}"
    assert rows() == before


def test_a_wrong_old_key_names_everything_and_shows_nothing(monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, "another-key-" * 3, NEW)
    before = rows()
    with pytest.raises(CommandError) as told:
        run()
    text = str(told.value)
    assert text.endswith("does not decrypt: provider A, provider B, setting alert_apprise_targets")
    assert not [secret for secret in (OLD, NEW, "another-key", SECRET, *KEYS.values()) if secret in text]
    assert rows() == before


def test_a_write_that_fails_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch):
    before = rows()

    def broken(row: Provider, new: crypto.Sealed) -> None:
        if row.name == "B":
            raise DatabaseError("the disk is full")
        store(row, new)

    store = rotation._store
    monkeypatch.setattr(rotation, "_store", broken)
    with pytest.raises(CommandError, match="nothing was changed, the database failed: the disk is full"):
        run()
    assert rows() == before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", NEW, "OLD_MASTER_KEY is required: the key under which the secrets are stored now"),
        (OLD, OLD, "OLD_MASTER_KEY is the same as MASTER_KEY: set MASTER_KEY to the new key"),
    ],
)
def test_two_different_keys_are_needed(monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str):
    given(monkeypatch, old, new)
    before = rows()
    with pytest.raises(CommandError) as told:
        run()
    assert str(told.value) == said and rows() == before


def test_the_new_key_may_stand_in_the_key_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    env = replace(settings.MH, master_key="", data_dir=tmp_path, database_url="")
    monkeypatch.setattr(settings, "MH", env)
    with pytest.raises(CommandError) as told:
        run()
    assert str(told.value) == f"MASTER_KEY is required: set it to the new key, or put it into {tmp_path}/master-key"
    (tmp_path / "master-key").write_text(NEW + "\n")
    assert "provider keys: 2 re-encrypted" in run()
    assert opened("A", NEW) == KEYS["A"]


def test_with_postgresql_the_variable_is_needed(monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, OLD, "")
    monkeypatch.setattr(settings, "MH", replace(settings.MH, database_url="postgresql://x/y"))
    with pytest.raises(CommandError) as told:
        run()
    assert str(told.value) == "MASTER_KEY is required: set it to the new key"
