"""What may be done to virtual keys. Every check refuses before anything is changed; API and admin page call these."""

import secrets
import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import QuerySet

from modelhotel.core import changes
from modelhotel.core.actor import SYSTEM, Actor
from modelhotel.core.changes import Action, Change
from modelhotel.core.faults import Refusal
from modelhotel.core.ids import parse_uuid
from modelhotel.core.text import clip, is_name, one_line
from providers.models import Provider
from proxy.keys import hash_of
from proxy.limits import fields
from proxy.models import VirtualKey

NAME_LIMIT = 100
#: Names of rows that no virtual key stands behind.
RESERVED = ("chat", "arena", "completions", "internal", "admin")
KEY_PREFIX = "sk-"
#: Bytes from the system's random source in a key.
KEY_BYTES = 16

NOT_FOUND = "virtual key not found"
_EMPTY_LIST = "allowed_providers must be null or contain at least one provider ID"


def key_id(text: str) -> uuid.UUID:
    """Raises Refusal."""
    value = parse_uuid(text)
    if value is None:
        raise Refusal(400, "invalid virtual key ID")
    return value


def visible(actor: Actor) -> "QuerySet[VirtualKey]":
    """The keys that *actor* may see, newest first: all, or for an account without staff rights its own."""
    keys = VirtualKey.objects.select_related("owner_user")
    if actor.role != "user":
        return keys
    return keys.filter(owner_user_id=parse_uuid(actor.user_id)) if actor.user_id else keys.none()


def one(target: str, actor: Actor) -> VirtualKey:
    """Raises Refusal; somebody else's key is as unknown as none."""
    key = visible(actor).filter(pk=key_id(target)).first()
    if key is None:
        raise Refusal(404, NOT_FOUND)
    return key


def create(given: Mapping[str, Any], actor: Actor) -> tuple[VirtualKey, str]:
    """The new key and its text, which is known here and never again. Raises Refusal.

    *given*: ``name``, and any of ``allowed_providers`` (list of UUID texts or None), ``strip_reasoning``,
    ``owner_user_id`` (UUID text or None) and the limits (``proxy.limits.fields``).
    """
    name = checked_name(given.get("name", ""))
    limits = fields.merged(given, {})
    listed = provider_list(given.get("allowed_providers"))
    plain = KEY_PREFIX + secrets.token_hex(KEY_BYTES)
    with transaction.atomic():
        owner = _owner(actor.user_id if actor.role == "user" else given.get("owner_user_id"))
        if owner is not None and owner.allowed_providers is not None:
            if listed is None:
                listed = list(owner.allowed_providers)
            _within(listed, owner)
        key = VirtualKey.objects.create(
            name=name,
            key_hash=hash_of(plain.encode()),
            key_preview=f"{plain[:3]}...{plain[-4:]}",
            allowed_providers=listed,
            strip_reasoning=bool(given.get("strip_reasoning", False)),
            owner_user=owner,
            **limits,
        )
        _record(key, "created", actor)
    return key, plain


def update(target: str, given: Mapping[str, Any], actor: Actor) -> VirtualKey:
    """Change the members of *given* (those of ``create``), nothing else. Raises Refusal."""
    wanted = key_id(target)
    name = checked_name(given["name"]) if "name" in given else None
    listed = provider_list(given.get("allowed_providers"))
    with transaction.atomic():
        key = visible(actor).select_for_update(of=("self",)).filter(pk=wanted).first()
        if key is None:
            raise Refusal(404, NOT_FOUND)
        before = _columns(key)
        for field, value in fields.merged(given, {field: getattr(key, field) for field in fields.FIELDS}).items():
            setattr(key, field, value)
        if name is not None:
            key.name = name
        if given.get("strip_reasoning") is not None:
            key.strip_reasoning = bool(given["strip_reasoning"])
        if "owner_user_id" in given and actor.role != "user":
            key.owner_user = _owner(given["owner_user_id"])
        if "allowed_providers" in given:
            key.allowed_providers = listed
        # What this update did not touch is not judged again: the account's list may have shrunk since.
        if ("allowed_providers" in given or key.owner_user_id != before[3]) and key.owner_user is not None:
            _within(key.allowed_providers or [], key.owner_user)
        if _columns(key) != before:
            key.save(update_fields=["name", "strip_reasoning", "owner_user", "allowed_providers", *fields.FIELDS])
            _record(key, "updated", actor)
    return key


def delete(target: str, actor: Actor) -> None:
    """For good; a request that runs with the key goes on. Raises Refusal."""
    wanted = key_id(target)
    with transaction.atomic():
        key = visible(actor).select_for_update(of=("self",)).filter(pk=wanted).first()
        if key is None:
            raise Refusal(404, NOT_FOUND)
        _record(key, "deleted", actor)
        key.delete()


def forget_provider_in_keys(provider_id: str) -> None:
    """Take a deleted provider out of every list, inside the caller's transaction.

    An emptied list stays an empty list and allows nothing; it never turns into "every provider".
    """
    changed = False
    rows = VirtualKey.objects.order_by("pk").filter(allowed_providers__isnull=False).select_for_update()
    for key_pk, listed in rows.values_list("pk", "allowed_providers"):
        if listed and provider_id in listed:
            left = [item for item in listed if item != provider_id]
            VirtualKey.objects.filter(pk=key_pk).update(allowed_providers=left)
            changed = True
    if changed:
        changes.record(["keys"], None, SYSTEM)


def keys_naming_provider(provider_id: str) -> list[dict[str, Any]]:
    """The keys that are restricted to some providers, this one among them; by name."""
    rows = VirtualKey.objects.filter(allowed_providers__isnull=False).order_by("name", "pk")
    found = []
    for name, listed in rows.values_list("name", "allowed_providers"):
        if listed and provider_id in listed:
            found.append({"name": name, "only": len(set(listed)) == 1})
    return found


def checked_name(text: object) -> str:
    """The trimmed name. Raises Refusal."""
    name = text.strip() if isinstance(text, str) else ""
    if not name:
        raise Refusal(400, "invalid name: must not be empty", field="name")
    if len(name) > NAME_LIMIT:
        raise Refusal(400, f"invalid name: must be at most {NAME_LIMIT} characters", field="name")
    if not is_name(name):
        raise Refusal(400, "invalid name: must not contain control or invisible characters", field="name")
    if name.lower() in RESERVED:
        raise Refusal(400, f'name "{name.lower()}" is reserved', field="name")
    return name


def provider_list(listed: object) -> list[str] | None:
    """Canonical ids, first of equals; None = every provider. Raises Refusal."""
    if listed is None:
        return None
    if not isinstance(listed, list | tuple) or not listed:
        raise Refusal(400, _EMPTY_LIST, field="allowed_providers")
    found: dict[str, None] = {}
    for item in listed:
        value = parse_uuid(item)
        if value is None:
            shown = clip(one_line(str(item)), 60)
            raise Refusal(400, f'allowed_providers: "{shown}" is not a provider ID', field="allowed_providers")
        found[str(value)] = None
    return list(found)


def _owner(user_id: object) -> Any:
    """The account, locked against deletion; None for nobody. Raises Refusal."""
    if user_id is None:
        return None
    value = parse_uuid(str(user_id))
    if value is None:
        raise Refusal(400, "invalid owner_user_id: not a UUID", field="owner_user")
    owner = get_user_model().objects.select_for_update().filter(pk=value).first()
    if owner is None:
        raise Refusal(400, "owner_user_id does not match any user", field="owner_user")
    return owner


def _within(listed: list[str], owner: Any) -> None:
    """Raises Refusal for the first of *listed* that the owner's account may not use."""
    if owner.allowed_providers is None:
        return
    for provider_id in listed:
        if provider_id not in owner.allowed_providers:
            provider = Provider.objects.filter(pk=provider_id).first()
            shown = provider.name if provider else provider_id
            raise Refusal(
                400,
                f"{shown} is outside {owner.username}'s account provider access. "
                "Widen their account access or drop that provider from this key",
                field="allowed_providers",
            )


def _columns(key: VirtualKey) -> tuple[Any, ...]:
    limits = (getattr(key, field) for field in fields.FIELDS)
    return key.name, key.strip_reasoning, key.allowed_providers, key.owner_user_id, *limits


def _record(key: VirtualKey, action: Action, actor: Actor) -> None:
    changes.record(["keys"], Change("virtual_key", str(key.pk), action, key.name), actor)
