"""ARCHITECTURE.md names existing files and members, and its tree lists every module."""

import ast
import re

import pytest

from tests.docs.pages import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
SOURCE = ROOT / "src" / "creekdb"


def tree_in_text() -> dict[str, set[str]]:
    """Return the modules that the tree lists, by package."""
    _, tree, _ = TEXT.partition("## The tree")[2].split("```", 2)
    packages: dict[str, set[str]] = {"": set()}
    package = ""
    for line in tree.strip().splitlines()[1:]:
        names, *_ = re.split(r"\s{2,}|(?<=\w) (?=[a-z`A-Z])(?!, )", line.strip())
        if line.startswith("    "):
            packages[package].update(names.split(", "))
        elif names.endswith("/"):
            package = names.rstrip("/")
            packages[package] = set()
        else:
            packages[""].add(names.removesuffix(".py"))
    return packages


def tree_in_source() -> dict[str, set[str]]:
    """Return the modules of the source, by package; packages without modules are left out."""
    packages: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        if not path.name.startswith("_"):
            package = path.parent.relative_to(SOURCE).as_posix().removeprefix(".")
            packages.setdefault(package, set()).add(path.stem)
    return packages


def members() -> dict[str, set[str]]:
    """Return the members of every class, inherited ones and attributes of `self` included."""
    found: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(_own_members(node))
                bases.setdefault(node.name, set()).update(map(_name, node.bases))
    for name in found:
        above = [*bases[name]]
        while above:
            base = above.pop()
            found[name] |= found.get(base, set())
            above += bases.get(base, ())
    return found


def _own_members(cls: ast.ClassDef) -> set[str]:
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


LISTED = tree_in_text()
EXISTING = tree_in_source()
CLASSES = members()
NAMED_MEMBERS = sorted(set(re.findall(r"`([A-Z]\w+)\.(\w+)`", TEXT)))
NAMED_CLASSES = sorted(set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", TEXT)))


@pytest.mark.parametrize("package", sorted({*LISTED, *EXISTING}))
def test_the_tree_lists_exactly_the_modules_of_each_package(package: str) -> None:
    assert LISTED.get(package) == EXISTING.get(package)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(\w+/[\w/]+\.py)`", TEXT))))
def test_named_files_exist(path: str) -> None:
    assert (SOURCE / path).is_file() or (ROOT / path).is_file()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(\w+(?:/\w+)*/)`", TEXT))))
def test_named_directories_exist(path: str) -> None:
    assert (SOURCE / path).is_dir() or (ROOT / path).is_dir()


@pytest.mark.parametrize(("owner", "name"), NAMED_MEMBERS)
def test_named_members_exist(owner: str, name: str) -> None:
    assert name in CLASSES[owner]


@pytest.mark.parametrize("name", NAMED_CLASSES)
def test_named_classes_exist(name: str) -> None:
    assert name in CLASSES
