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
