"""Registration of the dialect for environments that were installed before it had entry points."""

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy.dialects import registry

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def entry_points(group: str) -> dict[str, str]:
    """Return the entry points that the distribution declares in a group."""
    project: dict[str, Any] = tomllib.loads(PYPROJECT.read_text())["project"]
    declared: dict[str, str] = project["entry-points"][group]
    return declared


def register() -> None:
    """Register the dialect and its migrations by their declared entry points."""
    for name, target in entry_points("sqlalchemy.dialects").items():
        registry.register(name, *target.split(":"))
    for target in entry_points("alembic.plugins").values():
        import_module(target)


def write_entry_points(directory: Path) -> None:
    """Write metadata with the declared entry points, for programs that start in `directory`."""
    metadata = directory / "creekdb_entry_points-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: creekdb-entry-points\nVersion: 0\n")
    lines = []
    for group in ("alembic.plugins", "sqlalchemy.dialects"):
        lines += [f"[{group}]", *(f"{name} = {to}" for name, to in entry_points(group).items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
