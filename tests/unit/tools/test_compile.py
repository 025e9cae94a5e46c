"""Requirements of mypyc, checked on the sources without a compilation."""

import ast
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tools.compile as compiler
from tools.compile import (
    COMPILER_INPUTS,
    MODULES,
    SOURCE,
    SUBCLASSED,
    describe_inputs,
    open_classes,
    run_with_progress,
    without_times,
)


def classes(module: str) -> Iterator[ast.ClassDef]:
    for node in ast.walk(ast.parse((SOURCE / f"{module}.py").read_text())):
        if isinstance(node, ast.ClassDef):
            yield node


@pytest.mark.parametrize("module", MODULES)
def test_classes_of_compiled_modules_have_no_options_that_mypyc_drops(module: str) -> None:
    assert [each.name for each in classes(module) if each.keywords] == []


def test_subclassed_classes_are_in_compiled_modules() -> None:
    assert set(SUBCLASSED) <= {each.name for module in MODULES for each in classes(module)}


def test_replica_classes_of_compiled_schemes_are_open_to_subclasses() -> None:
    schemes = [module for module in MODULES if module.startswith("schemes/")]
    replicas = {each.name for module in schemes for each in classes(module)}

    assert {name for name in replicas if name.endswith("Replica")} <= set(SUBCLASSED)


def test_bases_of_interpreted_classes_are_open_to_subclasses() -> None:
    compiled = {each.name for module in MODULES for each in classes(module)}
    interpreted = {str(path.relative_to(SOURCE).with_suffix("")) for path in SOURCE.rglob("*.py")}
    bases = {
        base.id
        for module in interpreted - set(MODULES)
        for each in classes(module)
        for base in each.bases
        if isinstance(base, ast.Name)
    }

    assert bases & compiled <= set(SUBCLASSED)


def test_only_subclassed_classes_are_marked_in_the_copy(tmp_path: Path) -> None:
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


def test_the_list_of_inputs_changes_with_a_source_but_not_with_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "src" / "creekdb"
    for name in COMPILER_INPUTS:
        source = package / name if name.endswith(".py") else package / name / "module.py"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("A = 1\n")
    monkeypatch.setattr(compiler, "SOURCE", package)
    before = without_times(describe_inputs())

    os.utime(package / "errors.py", ns=(0, 0))
    after_touching = without_times(describe_inputs())
    (package / "errors.py").write_text("A = 2\n")

    assert after_touching == before
    assert without_times(describe_inputs()) != before


def test_every_compiled_module_is_listed_with_its_file() -> None:
    modules = [line.split(" ") for line in describe_inputs().splitlines()[1:]]
    listed = {fields[1]: fields[2] for fields in modules if fields[0] == "module"}

    assert listed["creekdb.protocol.order"].startswith("creekdb/protocol/order.")
    assert len(listed) == len(MODULES) + 1  # and the shared library


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_progress_is_reported_during_a_compilation(stream: io.StringIO, tmp_path: Path) -> None:
    script = "import time; time.sleep(0.5); print('an error'); raise SystemExit(3)"

    result = run_with_progress(
        [sys.executable, "-c", script], tmp_path, dict(os.environ), stream, interval_s=0.05
    )

    assert result == (3, "an error\n")
    progress = stream.getvalue()
    assert progress.count("s elapsed") > 1
    assert progress.count("\n") == (1 if stream.isatty() else progress.count("elapsed") + 1)
    assert progress.endswith("s in total\n")
