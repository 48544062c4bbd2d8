"""Reading and changing runtime settings: the one way, for the API, the settings page and commands."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db import DatabaseError, transaction

from modelhotel.config_store import stored_settings
from modelhotel.core import changes, environment, options, version, webapi
from modelhotel.core.actor import Actor
from modelhotel.core.changes import Action
from modelhotel.core.faults import Refusal
from modelhotel.core.options import MAX_LENGTH, REGISTRY, BadValue, Option
from modelhotel.models import Setting
from modelhotel.presets import PRESETS

log = logging.getLogger("settings")

MAX_KEYS = 50
#: Days in which discovery discrepancies are kept; read-only in the settings map.
CLAIM_WINDOW_DAYS = 30


def read_only() -> dict[str, str]:
    """The keys of the settings map that nobody writes."""
    env = environment.current()
    return {
        "app_version": version.VERSION,
        "app_commit": version.commit(),
        "log_export_json": _word(env.log_format == "json"),
        "log_export_metrics": _word(bool(env.metrics_token)),
        # No exporter exists in this version, whatever the environment says.
        "log_export_otel": _word(False),
        "discovery_claim_window_days": str(CLAIM_WINDOW_DAYS),
    }


def _word(value: bool) -> str:
    return "true" if value else "false"


def settings_map() -> dict[str, str]:
    """Every stored row and the read-only keys. Raises Refusal(500)."""
    try:
        return {**stored_settings(), **read_only()}
    except DatabaseError as problem:
        log.error("settings: failed to load", exc_info=problem)
        raise Refusal(500, "failed to load settings") from problem


def fixed_by(option: Option[Any]) -> str | None:
    """The environment variable that fixes *option* now, else None. One with a kill switch can still be stored."""
    return option.env if option.key in REGISTRY.fixed(options.environ) else None


def _option(key: str) -> Option[Any]:
    option = REGISTRY.options.get(key)
    if option is None:
        raise Refusal(400, f"unknown setting: {key}", field=key)
    return option


def _check(key: str, text: str) -> None:
    option = _option(key)
    if variable := fixed_by(option):
        raise Refusal(409, f"{key} is fixed by environment variable {variable}", field=key)
    if len(text) > MAX_LENGTH:
        raise Refusal(400, f"value for {key} too long (max {MAX_LENGTH} characters)", field=key)
    try:
        option.parse(text)
    except BadValue as problem:
        raise Refusal(400, str(problem), field=key) from problem
    if "\x00" in text:
        raise webapi.invalid(key, f"{key} must hold no NUL character")  # PostgreSQL stores none


def check_update(values: Mapping[str, str]) -> None:
    """Raise Refusal for the first thing wrong with *values*, in their order."""
    if not values:
        raise Refusal(400, "no settings provided")
    if len(values) > MAX_KEYS:
        raise Refusal(400, "too many settings in one request")
    for key, text in values.items():
        _check(key, text)


def update(values: Mapping[str, str], actor: Actor) -> list[str]:
    """Store *values* in one transaction. The keys that changed; a value already stored changes nothing."""
    check_update(values)

    def work() -> list[str]:
        stored = stored_settings()
        changed = [key for key, text in values.items() if stored.get(key) != text]
        _upsert({key: values[key] for key in sorted(changed)})
        return changed

    return _commit(work, "updated", actor)


def check_reset(keys: Sequence[str]) -> None:
    """Raise Refusal for the first of *keys* that can not be reset."""
    if len(keys) > MAX_KEYS:
        raise Refusal(400, "too many keys in one request")
    for key in keys:
        _option(key)


def reset(keys: Sequence[str], actor: Actor) -> list[str]:
    """Delete the rows of *keys*, without any the rows of all settings. The keys that had one."""
    check_reset(keys)

    def work() -> list[str]:
        # Other rows of the table are no settings: when groups were last synced stays known.
        rows = Setting.objects.filter(key__in=keys or REGISTRY.options)
        gone = sorted(rows.values_list("key", flat=True))
        rows.filter(key__in=gone).delete()
        return gone

    return _commit(work, "reset", actor)


def preset(name: str, actor: Actor, *, dry_run: bool = False) -> list[dict[str, str]]:
    """Put the keys of a preset in force: ``key``, ``from`` and ``to`` of each that changes (settings 5.7).

    A value that is the default loses its row. *dry_run* only tells. Raises Refusal.
    """
    wanted = PRESETS.get(name)
    if wanted is None:
        raise Refusal(400, f"unknown preset: {name[:MAX_LENGTH]}", field="name")
    for key, text in wanted.values.items():
        _check(key, text)
    now = options.current().texts
    differences = [
        {"key": key, "from": now[key], "to": text} for key, text in wanted.values.items() if now[key] != text
    ]
    if not dry_run:
        _commit(lambda: _store(wanted.values), "updated", actor)
    return differences


def _store(values: Mapping[str, str]) -> list[str]:
    """Make the rows of *values* say so, without a row where the default does; the keys whose row changed."""
    stored = stored_settings()
    default = {key: REGISTRY.default_of(REGISTRY.options[key], options.environ) for key in values}
    gone = [key for key, text in values.items() if text == default[key] and key in stored]
    kept = [key for key, text in values.items() if text != default[key] and stored.get(key) != text]
    Setting.objects.filter(key__in=gone).delete()
    _upsert({key: values[key] for key in sorted(kept)})
    return gone + kept


def _upsert(values: Mapping[str, str]) -> None:
    rows = [Setting(key=key, value=text) for key, text in values.items()]
    Setting.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["key"], update_fields=["value", "updated_at"]
    )


def _commit(work: Callable[[], list[str]], action: Action, actor: Actor) -> list[str]:
    """Run *work* in a transaction and tell everyone when it changed something."""
    begun = False
    try:
        with transaction.atomic():
            begun = True
            changed = work()
            if changed:
                change = changes.Change("setting", changed[0] if len(changed) == 1 else "", action)
                changes.record(["settings"], change, actor)
    except DatabaseError as problem:
        log.error("settings: failed to save", exc_info=problem)
        raise Refusal(500, "failed to save settings" if begun else "failed to begin transaction") from problem
    return changed


def catalogue() -> list[dict[str, Any]]:
    """One entry per option, in the order of the catalogue, for the settings page. Raises Refusal(500)."""
    stored = settings_map()
    fixed = REGISTRY.fixed(options.environ)
    texts = options.current().texts
    return [_entry(option, stored.get(key), texts[key], key in fixed) for key, option in REGISTRY.options.items()]


def _entry(option: Option[Any], stored: str | None, effective: str, fixed: bool) -> dict[str, Any]:
    return {
        "key": option.key,
        "kind": option.kind,
        "default": REGISTRY.default_of(option, options.environ),
        "min": _bound(option.minimum),
        "max": _bound(option.maximum),
        "choices": list(option.choices) or None,
        "unit": option.unit,
        "section": option.section,
        "label": option.label,
        "secret": False,
        "stored": stored,
        "effective": effective,
        "forced_by": option.env or option.kill_switch if fixed else None,
        "group": option.group,
        "help": option.help,
    }


def _bound(value: float | None) -> float | None:
    """Whole numbers without a fraction; durations in seconds, as ``unit`` says."""
    return int(value) if value is not None and value == int(value) else value
