"""What is compiled can be: told from the sources, without compiling."""

import ast
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import compile as compiling
from tools.compile import MODULES, OPEN, SOURCE, copy_sources, open_classes, run_aloud


def classes(module: str) -> Iterator[ast.ClassDef]:
    for node in ast.walk(ast.parse((SOURCE / f"{module}.py").read_text())):
        if isinstance(node, ast.ClassDef):
            yield node


@pytest.mark.parametrize("module", MODULES)
def test_no_class_in_a_compiled_module_has_options_which_mypyc_would_drop(module: str) -> None:
    assert [each.name for each in classes(module) if each.keywords] == []


def test_classes_that_are_to_be_inherited_from_are_in_compiled_modules() -> None:
    assert set(OPEN) <= {each.name for module in MODULES for each in classes(module)}


def test_every_class_of_a_compiled_scheme_that_others_may_extend_is_open() -> None:
    schemes = [module for module in MODULES if module.startswith("schemes/")]
    replicas = {each.name for module in schemes for each in classes(module)}

    assert {name for name in replicas if name.endswith("Replica")} <= set(OPEN)


def test_an_open_class_is_marked_in_the_copy_and_nothing_else_changes(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("class EmptyBase:\n    pass\n\n\nclass EmptyBaseElse(EmptyBase):\n    pass\n")

    open_classes(path)

    marked = [line for line in path.read_text().splitlines() if "mypy" in line]
    assert marked == [
        "import mypy_extensions",
        "@mypy_extensions.mypyc_attr(allow_interpreted_subclasses=True)",
    ]
    assert path.read_text().splitlines()[2:] == [
        "class EmptyBase:", "    pass", "", "", "class EmptyBaseElse(EmptyBase):", "    pass",
    ]  # fmt: skip


def test_a_copy_follows_the_sources_and_keeps_what_was_compiled(tmp_path: Path) -> None:
    compiled, gone = tmp_path / "errors.so", tmp_path / "gone.py"
    for path in (compiled, gone):
        path.touch()

    copy_sources(tmp_path)

    assert compiled.exists()
    assert not gone.exists()
    assert (tmp_path / "errors.py").read_bytes() == (SOURCE / "errors.py").read_bytes()
    assert (tmp_path / "pipeline" / "stages" / "grids").is_dir()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_who_waits_sees_that_it_goes_on(
    stream: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = "COUNT_S" if stream.isatty() else "LINE_S"
    monkeypatch.setattr(compiling, beat, 0.05)
    waits = "import time; time.sleep(0.5); print('a complaint'); raise SystemExit(3)"

    done = run_aloud([sys.executable, "-c", waits], tmp_path, dict(os.environ), stream)

    assert done == (3, "a complaint\n")
    shown = stream.getvalue()
    assert shown.count("s so far") > 1
    assert shown.count("\n") == (1 if stream.isatty() else shown.count("so far") + 1)
    assert shown.endswith("s in all\n")
