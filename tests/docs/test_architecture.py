"""What ARCHITECTURE.md names is there, and nothing of the rooms that it goes through is missing."""

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
SOURCE = ROOT / "src" / "creekdb"
WHOLE = ("protocol", "execution", "schemes", "history", "cluster", "load", "evaluation")
"""Rooms of which the map shows every module."""


def on_the_map() -> dict[str, set[str]]:
    """Modules and folders, by the room that they are in."""
    _, drawn, _ = TEXT.partition("## The rooms")[2].split("```", 2)
    rooms: dict[str, set[str]] = {}
    room = ""
    for line in drawn.strip().splitlines()[1:]:
        names, *_ = re.split(r"\s{2,}", line.strip())
        if line.startswith("    "):
            rooms[room].update(name.rstrip("/") for name in names.split(", ") if name != "…")
        else:
            room = names.rstrip("/")
            rooms[room] = set()
    return rooms


def in_the_source(room: Path) -> set[str]:
    return {
        each.stem
        for each in room.iterdir()
        if not each.name.startswith("_") and (each.is_dir() or each.suffix == ".py")
    }


def members() -> dict[str, set[str]]:
    """Of every class: what is defined in it, and what its methods give to `self`."""
    found: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(_inside(node))
                bases.setdefault(node.name, set()).update(map(_name, node.bases))
    for name in found:
        above = [*bases[name]]
        while above:
            base = above.pop()
            found[name] |= found.get(base, set())
            above += bases.get(base, ())
    return found


def _inside(cls: ast.ClassDef) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(cls):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.Attribute(value=ast.Name("self"), attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(name)):
                names.add(name)
            case _:
                continue
    return names


def _name(base: ast.expr) -> str:
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


MAP = on_the_map()
CLASSES = members()
NAMED = sorted(set(re.findall(r"`([A-Z]\w+)\.(\w+)`", TEXT)))


@pytest.mark.parametrize("room", MAP)
def test_the_map_shows_what_is_there(room: str) -> None:
    there = SOURCE / room
    assert there.is_dir() or there.with_suffix(".py").is_file()
    if there.is_dir():
        assert MAP[room] <= in_the_source(there)
    if room in WHOLE:
        assert in_the_source(there) <= MAP[room]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(\w+/[\w/]+\.py)`", TEXT))))
def test_files_are_where_they_are_said_to_be(path: str) -> None:
    assert (SOURCE / path).is_file() or (ROOT / path).is_file()


@pytest.mark.parametrize(("owner", "name"), NAMED)
def test_classes_have_what_they_are_said_to_have(owner: str, name: str) -> None:
    assert name in CLASSES[owner]
