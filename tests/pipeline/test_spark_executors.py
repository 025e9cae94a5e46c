"""Archives for executors, and the report of executors that cannot run tasks."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest
import sortedcontainers
from pyspark.sql import SparkSession

import creekdb
from creekdb.errors import UsageError
from creekdb.pipeline.spark import executors
from creekdb.pipeline.spark.executors import (
    PROVIDED_BY_SPARK,
    check_executors,
    executor_distributions,
    imported_names,
    pack_environment,
    package_archive,
)

TASK_IMPORTS = """
import json, sys
import creekdb.pipeline.stages.measure, creekdb.pipeline.stages.population
import creekdb.pipeline.stages.simulate, creekdb.pipeline.stages.verify
from importlib.metadata import packages_distributions
owners = packages_distributions()
loaded = {owner for name in sys.modules for owner in owners.get(name.partition(".")[0], ())}
print(json.dumps(sorted(loaded)))
"""
TASK_FAILURE = "Job aborted: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 0): "


@pytest.fixture(scope="module")
def small_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of one small package, in place of all."""
    path = tmp_path_factory.mktemp("pack") / "environment.tar.gz"
    with pytest.MonkeyPatch.context() as patch:
        small = [each for each in executor_distributions() if each.metadata["Name"] == "msgspec"]
        patch.setattr(executors, "executor_distributions", lambda additional: small)
        pack_environment(path)
    return path


def test_the_package_is_importable_from_its_archive(tmp_path: Path) -> None:
    """Another interpreter has the required packages only, so the metadata is the archive's."""
    archive = package_archive(tmp_path)
    packages = tmp_path / "packages"
    packages.mkdir()
    for module in (msgspec, sortedcontainers):
        source = Path(module.__file__ or "").parent
        (packages / source.name).symlink_to(source)
    code = (
        "import sys\n"
        "sys.path[:0] = sys.argv[1:]\n"
        "import creekdb\n"
        "print(creekdb.__version__, creekdb.__file__)\n"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(archive), str(packages)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout == f"{creekdb.__version__} {archive}/creekdb/__init__.py\n"
    compiled = (".pyc", ".so")
    assert not [name for name in zipfile.ZipFile(archive).namelist() if name.endswith(compiled)]


def test_equal_code_gives_equal_archives(tmp_path: Path) -> None:
    first = package_archive(tmp_path).read_bytes()
    assert package_archive(tmp_path).read_bytes() == first


def test_tasks_import_only_packages_that_are_packed() -> None:
    output = subprocess.check_output([sys.executable, "-c", TASK_IMPORTS], text=True)
    loaded = set(re.findall(r'"([^"]+)"', output)) - {"creekdb", "setuptools"}
    packed = {each.metadata["Name"] for each in executor_distributions()}
    # Python's own development tools may be loaded by .pth files.
    assert {"msgspec", "numpy", "pyarrow", "sortedcontainers"} <= packed
    optional = {"apsw"}  # imported only where it is installed
    assert loaded - PROVIDED_BY_SPARK - {"typing_extensions"} - optional <= packed
    assert packed.isdisjoint(PROVIDED_BY_SPARK)


def test_equal_packages_give_equal_environments(
    small_packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [each for each in executor_distributions() if each.metadata["Name"] == "msgspec"]
    monkeypatch.setattr(executors, "executor_distributions", lambda additional: small)
    again = tmp_path / "again.tar.gz"
    packed = pack_environment(again)
    assert again.read_bytes() == small_packages.read_bytes()
    assert packed.packages == (f"msgspec {small[0].version}",)
    assert packed.size == again.stat().st_size


def test_the_packed_interpreter_imports_the_packed_packages(
    small_packages: Path, tmp_path: Path
) -> None:
    (tmp_path / "environment").mkdir()
    unpack = ["tar", "-xzf", str(small_packages), "-C", str(tmp_path / "environment")]
    subprocess.run(unpack, check=True)
    python = tmp_path / "environment" / "bin" / "python"
    venv = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")]
    subprocess.run(venv, check=True)
    output = subprocess.check_output(
        [python, "-c", "import msgspec; print(msgspec.__file__)"],
        text=True,
        cwd=tmp_path,
        env={"PATH": f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin"},
    )
    assert output.startswith(str(tmp_path / "environment" / "packages" / "msgspec"))


def test_an_unknown_package_is_not_packed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot pack no-such-package: it is not installed here"):
        pack_environment(tmp_path / "environment.tar.gz", ["no-such-package"])
    assert list(tmp_path.iterdir()) == []


def test_executors_with_all_packages_pass_the_check(spark: SparkSession) -> None:
    check_executors(spark, 2)


def test_missing_packages_are_reported_in_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = {**imported_names(executor_distributions()), "Lost-Package": "lost_package"}
    monkeypatch.setattr(executors, "imported_names", lambda distributions: modules)
    with pytest.raises(UsageError) as raised:
        check_executors(spark, 1)
    assert re.fullmatch(
        r"executors on \S+ cannot import Lost-Package \(No module named 'lost_package'\) "
        r"\(Python [\d.]+\); send the packages: 'creek pipeline pack .*#environment'",
        str(raised.value),
    )


def test_another_version_of_python_is_reported_with_its_host() -> None:
    text = TASK_FAILURE + (
        "org.apache.spark.api.python.PythonException: [PYTHON_VERSION_MISMATCH] Python in worker "
        "has different version: 3.9 than that in driver: 3.11, PySpark cannot run with"
    )
    driver = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert executors._probe_failure(text) == (
        f"executors on 10.0.0.7 run Python 3.9, the driver {driver}; install Python {driver} "
        "there, or name its interpreter with --conf spark.pyspark.python=PATH"
    )


def test_a_broken_interpreter_is_reported_with_its_host() -> None:
    cause = "EOFException occurred while reading the port number from pyspark.daemon's stdout"
    found = executors._probe_failure(TASK_FAILURE + cause)
    assert found is not None
    assert found.startswith("executors on 10.0.0.7 cannot run Spark's Python processes: ")


def test_a_missing_interpreter_is_reported_with_its_host() -> None:
    text = TASK_FAILURE + 'java.io.IOException: Cannot run program "python3": error=2'
    found = executors._probe_failure(text)
    assert found is not None
    assert found.startswith("executors on 10.0.0.7 cannot start 'python3': it does not exist; ")
