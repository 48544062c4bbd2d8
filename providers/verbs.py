"""Every change of a provider. Pages, API and commands call these.

All functions are synchronous and raise Refusal before they change anything. Network probes and name lookups run
before the transaction, so call them outside of one. What a change sets in motion runs after the commit and before
the verb returns.
"""

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, IntegrityError, transaction

from modelhotel.core import changes, crypto, environment
from modelhotel.core.actor import Actor
from modelhotel.core.changes import Change
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.faults import Refusal
from providers import control, egress, inputs, ports, probe
from providers.cache import row_of
from providers.keyring import KEYRING
from providers.kinds import derive, registry
from providers.kinds.base import Kind
from providers.model_verbs import delete_models, update_model
from providers.models import Provider
from providers.quota import drift
from providers.quota import store as quota_store

__all__ = ["ProviderData", "create", "delete", "delete_models", "update", "update_model"]

log = logging.getLogger("providers")

NOT_FOUND = "provider not found"


@dataclass(frozen=True, slots=True)
class ProviderData:
    """What a provider is created from; *provider_type* None or ``""`` = by the host of the address."""

    name: str
    base_url: str
    provider_type: str | None = None
    api_key: str | None = None
    max_in_flight: int | None = None
    quota_reserve_percent: int = 0


def create(data: ProviderData, actor: Actor, clock: Clock = SYSTEM) -> Provider:
    """Check, store and enable a new provider. Its models are listed by a scan of its own. Raises Refusal."""
    name = inputs.name(data.name)
    given_url = data.base_url.strip()
    if not given_url:
        raise inputs.refuse("base_url", "base_url is required")
    kind = kind_for(data.provider_type, given_url)
    base_url = kind.normalise_base_url(given_url)
    if len(base_url) > inputs.URL_MAX:
        raise inputs.refuse("base_url", "base_url must be less than 500 characters")
    key = inputs.trim_key(data.api_key or "")
    if not key and not kind.keyless_allowed:
        raise inputs.refuse("api_key", inputs.KEY_REQUIRED)
    inputs.key(key, "api_key must be less than 500 characters")
    inputs.max_in_flight(data.max_in_flight)
    inputs.reserve(data.quota_reserve_percent)
    egress.check_url(base_url, environment.current())
    _check_name(name, None)
    if kind.self_hosted:
        _check_address(base_url, None)
        confirm(kind, base_url, key)
    row = Provider(
        name=name,
        base_url=base_url,
        provider_type=kind.type,
        max_in_flight=data.max_in_flight,
        quota_reserve_percent=data.quota_reserve_percent,
    )
    _set_key(row, key, f'failed to encrypt API key for provider "{name}"')
    _insert(row, actor)
    return row


def update(provider_id: str, given: dict[str, Any], actor: Actor, clock: Clock = SYSTEM) -> Provider:
    """Change some fields; *given* holds only what was sent (None clears a three-state field). Raises Refusal."""
    row = _find(provider_id)
    plan = _Plan(row, given, clock)
    plan.check()
    return plan.apply(actor)


def delete(provider_id: str, actor: Actor) -> None:
    """Remove a provider, its models and every mention of it; its history in the log stays. Raises Refusal."""
    identity = _uuid(provider_id)
    try:
        with transaction.atomic():
            row = Provider.objects.select_for_update().filter(pk=identity).first()
            if row is None:
                raise Refusal(404, NOT_FOUND)
            ports.keys.forget_provider_in_keys(str(identity))
            ports.users.forget_provider_in_users(str(identity))
            ports.logs.orphan_logs(str(identity))
            drift.forget(str(identity))
            row.delete()
            changed = Change("provider", str(identity), "deleted", row.name)
            changes.record(("providers", "models", "keys", "users"), changed, actor)
            transaction.on_commit(lambda: _deleted(str(identity)))
    except DatabaseError:
        log.exception("providers: delete failed", extra={"attrs": {"provider_id": str(identity)}})
        raise Refusal(500, f"failed to delete provider {identity}") from None


class _Plan:
    """One edit: what was asked, checked against the row as it was read, then applied to the row as it is."""

    def __init__(self, row: Provider, given: dict[str, Any], clock: Clock) -> None:
        self.row = row
        self.given = given
        self.clock = clock
        self.values: dict[str, Any] = {}
        self.key: str | None = None
        self.kind = registry.get(row.provider_type)

    def check(self) -> None:
        given = self.given
        if "name" in given:
            self.values["name"] = inputs.name(given["name"])
        self._check_type_and_url()
        self._check_key()
        if "max_in_flight" in given:
            self.values["max_in_flight"] = inputs.max_in_flight(given["max_in_flight"])
        if "quota_reserve_percent" in given:
            self.values["quota_reserve_percent"] = inputs.reserve(given["quota_reserve_percent"])
        if "scheduled_disable_on" in given:
            # The server's own calendar day, as the sweep counts it.
            today = self.clock.now().astimezone().date()
            self.values["scheduled_disable_on"] = inputs.disable_on(given["scheduled_disable_on"], today)
        if "circuit_breaker_slow_call_threshold" in given:
            value = inputs.slow_call(given["circuit_breaker_slow_call_threshold"])
            self.values["circuit_breaker_slow_call_threshold"] = value
        for flag in ("enabled", "autodiscovery_enabled"):
            if flag in given:
                self.values[flag] = given[flag]
        if given.get("enabled") is False:
            self.values["scheduled_disable_on"] = None
        if "name" in self.values:
            _check_name(self.values["name"], self.row.pk)
        if "base_url" in given or "provider_type" in given:
            self._check_identity()

    def _check_type_and_url(self) -> None:
        if "provider_type" in self.given:
            kind = registry.KINDS.get(self.given["provider_type"])
            if kind is None:
                raise inputs.refuse("provider_type", "unknown provider_type")
            self.kind = kind
            self.values["provider_type"] = kind.type
        address = self.row.base_url
        if "base_url" in self.given:
            address = self.given["base_url"].strip()
            if not 1 <= len(address) <= inputs.URL_MAX:
                raise inputs.refuse("base_url", "invalid base URL")
        self.base_url = self.kind.normalise_base_url(address)
        if len(self.base_url) > inputs.URL_MAX:
            raise inputs.refuse("base_url", "invalid base URL")
        if "base_url" in self.given or "provider_type" in self.given:
            self.values["base_url"] = self.base_url

    def _check_key(self) -> None:
        if "api_key" in self.given:
            self.key = inputs.key(inputs.trim_key(self.given["api_key"]), "api_key must be at most 500 characters")
        keyless = not self.key if self.key is not None else self.row.keyless
        asked = self.key is not None or "provider_type" in self.values
        if asked and keyless and not self.kind.keyless_allowed:
            raise inputs.refuse("api_key", inputs.KEY_REQUIRED)

    def _check_identity(self) -> None:
        egress.check_url(self.base_url, environment.current())
        if self.kind.type == self.row.provider_type and self.base_url == self.row.base_url:
            return
        if self.kind.self_hosted:
            _check_address(self.base_url, self.row.pk)
            confirm(self.kind, self.base_url, self._probe_key())

    def _probe_key(self) -> str:
        if self.key is not None:
            return self.key
        try:
            return KEYRING.wait(row_of(self.row))
        except crypto.DecryptError:
            return ""

    def apply(self, actor: Actor) -> Provider:
        fields = list(self.values)
        if self.key is not None:
            sealed = Provider()
            _set_key(sealed, self.key, "failed to encrypt API key")
            for column in ("encrypted_key", "key_nonce", "key_salt", "masked_key"):
                self.values[column] = getattr(sealed, column)
        try:
            with transaction.atomic():
                row = Provider.objects.select_for_update().filter(pk=self.row.pk).first()
                if row is None:
                    raise Refusal(404, NOT_FOUND)
                switched = "enabled" in self.values and row.enabled != self.values["enabled"]
                rejudged = row.quota_reserve_percent != self.values.get(
                    "quota_reserve_percent", row.quota_reserve_percent
                )
                self._forget_readings(row)
                for field, value in self.values.items():
                    setattr(row, field, value)
                row.save(update_fields=[*self.values, "updated_at"])
                changed = Change("provider", str(row.pk), "updated", row.name)
                changes.record(("providers",), changed, actor)
                transaction.on_commit(lambda: _updated(row, switched, self.key is not None, rejudged))
        except IntegrityError:
            raise _name_conflict(self.values.get("name", ""), self.row.pk) or self._failed() from None
        except DatabaseError:
            raise self._failed() from None
        log.info("providers: updated", extra={"attrs": {"provider": row.name, "fields": ",".join(fields)}})
        return row

    def _forget_readings(self, row: Provider) -> None:
        """Another account, address or type: what was read of the quota speaks of something else."""
        retyped = self.values.get("provider_type", row.provider_type) != row.provider_type
        moved = self.values.get("base_url", row.base_url) != row.base_url
        if retyped or moved or self.key is not None:
            quota_store.forget(row)
        if retyped:
            drift.forget(str(row.pk))

    def _failed(self) -> Refusal:
        log.exception("providers: update failed", extra={"attrs": {"provider_id": str(self.row.pk)}})
        return Refusal(500, f"failed to update provider {self.row.pk}")


def _uuid(provider_id: str) -> uuid.UUID:
    try:
        return uuid.UUID(provider_id)
    except ValueError:
        raise Refusal(400, "invalid provider ID") from None


def _find(provider_id: str) -> Provider:
    row = Provider.objects.filter(pk=_uuid(provider_id)).first()
    if row is None:
        raise Refusal(404, NOT_FOUND)
    return row


def kind_for(provider_type: str | None, base_url: str) -> Kind:
    """The type that was named, else the one of the host. Raises Refusal."""
    wanted = provider_type or derive.provider_type(base_url)
    kind = registry.KINDS.get(wanted)
    if kind is None:
        raise inputs.refuse("provider_type", "unknown provider_type")
    if not provider_type and kind.type == registry.GENERIC:
        log.info("providers: type taken as openai; self-hosted servers must name their type (ollama, lmstudio, custom)")
    return kind


def _name_conflict(name: str, own: uuid.UUID | None) -> Refusal | None:
    form = inputs.routing_form(name)
    # Compared here, not in SQL: the rows are few, and SQLite and PostgreSQL then agree.
    for pk, existing in Provider.objects.values_list("pk", "name"):
        if pk != own and inputs.routing_form(existing) == form:
            return inputs.taken(name, existing)
    return None


def _check_name(name: str, own: uuid.UUID | None) -> None:
    try:
        conflict = _name_conflict(name, own)
    except DatabaseError:  # the unique index decides
        log.warning("providers: name not checked, the database failed")
        return
    if conflict:
        raise conflict


def _check_address(base_url: str, own: uuid.UUID | None) -> None:
    wanted = inputs.address(base_url)
    rows = Provider.objects.filter(provider_type__in=registry.self_hosted())
    try:
        for pk, name, stored in list(rows.values_list("pk", "name", "base_url")):
            if pk != own and inputs.address(stored) == wanted:
                raise Refusal(
                    409,
                    f"a provider for this address already exists: {name}",
                    code="provider_duplicate_address",
                    extra={"existing": name},
                    field="base_url",
                )
    except DatabaseError:  # a convenience, not a rule
        log.warning("providers: address not checked, the database failed")


def confirm(kind: Kind, base_url: str, key: str) -> None:
    """Ask the self-hosted server at *base_url* what it is. Raises the coded Refusal when it is not of *kind*."""

    async def ask() -> probe.Found:
        return await probe.identify(control.client(), kind, base_url, key)

    probe.judge(control.LOOP.run(ask()), kind)


def _set_key(row: Provider, key: str, failure: str) -> None:
    if not key:
        row.encrypted_key = row.key_nonce = row.key_salt = row.masked_key = None
        return
    try:
        sealed = crypto.seal(key)
    except Exception as problem:
        log.error("providers: encryption failed", extra={"attrs": {"problem": type(problem).__name__}})
        raise Refusal(500, failure) from None
    row.encrypted_key, row.key_nonce, row.key_salt = sealed.ciphertext, sealed.nonce, sealed.salt
    row.masked_key = crypto.mask(key)


def _insert(row: Provider, actor: Actor) -> None:
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            changes.record(("providers",), Change("provider", str(row.pk), "created", row.name), actor)
            transaction.on_commit(lambda: _warm(row))
    except IntegrityError:
        # Two creates of one name at once: the index let only one in.
        conflict = _name_conflict(row.name, row.pk)
        if conflict is None:
            log.exception("providers: insert failed", extra={"attrs": {"provider": row.name}})
        raise conflict or Refusal(500, f'failed to create provider "{row.name}"') from None
    except DatabaseError:
        log.exception("providers: insert failed", extra={"attrs": {"provider": row.name}})
        raise Refusal(500, f'failed to create provider "{row.name}"') from None
    log.info("providers: created", extra={"attrs": {"provider": row.name, "type": row.provider_type}})


def _warm(row: Provider) -> None:
    KEYRING.warm([row_of(row)])


def _updated(row: Provider, switched: bool, new_key: bool, rejudged: bool) -> None:
    if switched:
        after("full group sync", ports.groups.full_sync)
    if new_key:
        _warm(row)
    if rejudged:
        after("quota pass", ports.judge_quotas)


def _deleted(provider_id: str) -> None:
    after("circuit clean-up", lambda: ports.circuits.forget(provider_id))
    after("full group sync", ports.groups.full_sync)


def after(what: str, run: Callable[[], object]) -> None:
    """An effect of a change that is committed: its failure is logged and can not undo or fail the change."""
    try:
        run()
    except Exception:
        log.exception("providers: effect of a change failed", extra={"attrs": {"effect": what}})
