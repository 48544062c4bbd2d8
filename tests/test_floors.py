"""The shell is the top floor; import-linter needs its modules one by one, and none may be missing."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_module_of_the_shell_is_listed_in_the_floors():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    top = config["tool"]["importlinter"]["contracts"][0]["layers"][0]
    listed = {name.strip() for name in top.split(":")}
    shell = {
        f"modelhotel.{path.stem}"
        for path in (ROOT / "modelhotel").iterdir()
        if path.name not in ("core", "__pycache__", "__init__.py") and (path.is_dir() or path.suffix == ".py")
    }
    assert listed == shell


def test_the_data_plane_touches_the_orm_only_in_its_control_modules():
    """No ORM import in proxy/ outside the modules that hold virtual keys and their background writer."""
    allowed = {"models.py", "keys.py", "verbs.py", "api.py", "admin.py", "metering.py", "apps.py"}
    for path in (ROOT / "proxy").rglob("*.py"):
        if path.name in allowed or "migrations" in path.parts:
            continue
        text = path.read_text()
        assert "django.db" not in text and "proxy.models" not in text, path
