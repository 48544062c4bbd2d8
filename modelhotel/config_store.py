"""The database side of settings and configuration versions."""

from collections.abc import Iterable, Mapping

from django.db.models import F

from modelhotel.models import ConfigVersion, Setting


def stored_settings() -> dict[str, str]:
    """Every stored row that is a setting (keys that start with ``_`` are not)."""
    return dict(Setting.objects.exclude(key__startswith="_").values_list("key", "value"))


def read_versions() -> Mapping[str, int]:
    return dict(ConfigVersion.objects.values_list("name", "version"))


def bump_versions(names: Iterable[str]) -> None:
    """Raise each version; rows are locked in the order given, which callers keep sorted."""
    for name in names:
        if not ConfigVersion.objects.filter(name=name).update(version=F("version") + 1):
            _, created = ConfigVersion.objects.get_or_create(name=name, defaults={"version": 1})
            if not created:
                ConfigVersion.objects.filter(name=name).update(version=F("version") + 1)


def load_note(key: str) -> str | None:
    """An internal row of the settings table, such as ``failover_last_synced_at``."""
    return Setting.objects.filter(pk=key).values_list("value", flat=True).first()


def store_note(key: str, value: str) -> None:
    """No setting, so no version is raised: nobody has to rebuild anything for it."""
    Setting.objects.update_or_create(pk=key, defaults={"value": value})


def drop_note(key: str) -> None:
    Setting.objects.filter(pk=key).delete()
