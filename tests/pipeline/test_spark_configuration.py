"""Settings of Spark: their sources, their precedence, and the defaults of Creek."""

import sys
from pathlib import Path

import pytest

from creekdb.errors import UsageError
from creekdb.pipeline.spark import configuration
from creekdb.pipeline.spark.configuration import (
    Configuration,
    SparkOptions,
    configuration_directory,
    has_logging_configuration,
    java_process_defaults,
    parse_conf,
    read_spark_defaults,
    resolve,
    settings_before_start,
)

CLUSTER = "spark://host:7077"
JAVA_DEFAULTS = java_process_defaults(Path("/scratch/log4j2.properties"), 1024)


def resolved(
    options: SparkOptions | None = None,
    inherited: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
) -> Configuration:
    return resolve(
        options or SparkOptions(),
        "creek",
        inherited or {},
        Path("/scratch"),
        environ or {},
        JAVA_DEFAULTS,
    )


def test_options_override_inherited_settings_which_override_defaults() -> None:
    options = SparkOptions(conf={"spark.ui.enabled": "true"}, driver_memory="3g")
    inherited = {
        "spark.master": CLUSTER,
        "spark.ui.enabled": "maybe",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "Asia/Tokyo",
    }
    found = resolved(options, inherited)
    assert found.master == CLUSTER
    assert found.chosen == {"spark.ui.enabled": "true", "spark.driver.memory": "3g"}
    assert found.defaults.keys().isdisjoint(inherited.keys() | found.chosen.keys())
    assert found.settings["spark.driver.memory"] == "3g"


@pytest.mark.parametrize(
    ("options", "inherited", "master"),
    [
        (SparkOptions(), {}, "local[*,3]"),
        (SparkOptions(), {"spark.master": "local[2]"}, "local[2]"),
        (SparkOptions(conf={"spark.master": "local[4]"}), {"spark.master": CLUSTER}, "local[4]"),
        (SparkOptions(master="local[2]"), {"spark.master": CLUSTER}, "local[2,3]"),
        (SparkOptions(master="local[2,1]"), {}, "local[2,1]"),
    ],
)
def test_a_master_of_spark_is_kept_and_one_of_creek_retries_tasks(
    options: SparkOptions, inherited: dict[str, str], master: str
) -> None:
    found = resolved(options, inherited)
    assert found.master == master
    assert {**inherited, **found.settings}["spark.master"] == master


def test_directories_of_the_driver_are_set_for_local_masters_only() -> None:
    local, cluster = resolved(SparkOptions("local[2]")), resolved(SparkOptions(CLUSTER))
    named = {key for key, value in local.defaults.items() if value.startswith("/")}
    assert named >= {"spark.python.unix.domain.socket.dir", "spark.sql.warehouse.dir"}
    assert not {key for key, value in cluster.defaults.items() if value.startswith("/")}
    assert "spark.python.unix.domain.socket.enabled" not in cluster.defaults


def test_the_java_process_starts_without_directories_of_the_first_session() -> None:
    found = resolved(SparkOptions("local[2]", conf={"spark.jars.packages": "a:b:1"}))
    assert found.launch_settings == {
        "spark.master": "local[2,3]",
        "spark.jars.packages": "a:b:1",
        **JAVA_DEFAULTS,
    }


def test_a_long_directory_is_not_used_for_sockets() -> None:
    scratch = Path("/scratch") / ("x" * 60)
    found = resolve(SparkOptions("local[1]"), "creek", {}, scratch, {}, JAVA_DEFAULTS)
    assert "spark.python.unix.domain.socket.enabled" not in found.defaults


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (SparkOptions("local[2]"), configuration.SMALL_JOB_JAVA_OPTIONS),
        (SparkOptions("local[2]", small_job=False), None),
        (SparkOptions("local[2]", conf={"spark.driver.extraJavaOptions": "-Xint"}), "-Xint"),
        (SparkOptions(CLUSTER), None),
    ],
)
def test_small_local_jobs_use_a_light_java(options: SparkOptions, expected: str | None) -> None:
    assert resolved(options).settings.get("spark.driver.extraJavaOptions") == expected


ENVIRONMENT = ("environment.tar.gz#environment",)


@pytest.mark.parametrize(
    ("options", "environ", "python"),
    [
        (SparkOptions("local[1]"), {"PYSPARK_PYTHON": "/other/python"}, sys.executable),
        (SparkOptions(CLUSTER), {}, "python3"),
        (SparkOptions(CLUSTER), {"PYSPARK_PYTHON": "/other/python"}, "/other/python"),
        (SparkOptions(CLUSTER, archives=ENVIRONMENT), {}, "./environment/bin/python"),
        (SparkOptions(CLUSTER, archives=("data.zip#data",)), {}, "python3"),
        (SparkOptions(CLUSTER, archives=ENVIRONMENT), {"PYSPARK_PYTHON": "/p"}, "/p"),
        (
            SparkOptions(CLUSTER, conf={"spark.pyspark.python": "/q"}, archives=ENVIRONMENT),
            {"PYSPARK_PYTHON": "/p"},
            "/q",
        ),
    ],
)
def test_the_interpreter_of_executors(
    options: SparkOptions, environ: dict[str, str], python: str
) -> None:
    assert resolved(options, environ=environ).python == python


def test_memory_of_a_running_java_process_cannot_change() -> None:
    options = SparkOptions(driver_memory="2g")
    with pytest.raises(UsageError, match=r"cannot set spark\.driver\.memory: .* already runs"):
        resolve(options, "creek", {}, Path("/scratch"), {}, None)


def test_defaults_are_described_one_per_line() -> None:
    lines = resolved(SparkOptions(CLUSTER)).describe()
    assert "spark.hadoop.parquet.page.verify-checksum.enabled=true" in lines
    assert "PYSPARK_PYTHON=python3" in lines


def test_properties_are_read_as_spark_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text(
        "# a comment\n\n"
        "spark.a one two\n"
        "  spark.b=3\n"
        "spark.c:   4  \n"
        "spark.d = x=y \\\n    z\n"
        "spark.e\n"
        "other.program 5\n"
    )
    assert read_spark_defaults(file) == {
        "spark.a": "one two",
        "spark.b": "3",
        "spark.c": "4",
        "spark.d": "x=y z",
        "spark.e": "",
    }


def test_submit_arguments_override_files(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.master local[7]\nspark.a 1\nspark.b 1\n")
    arguments = "--master local[3] --conf spark.a=2 --conf=spark.c='d e' pyspark-shell"
    assert settings_before_start({"PYSPARK_SUBMIT_ARGS": arguments}, tmp_path) == {
        "spark.master": "local[3]",
        "spark.a": "2",
        "spark.b": "1",
        "spark.c": "d e",
    }


def test_the_configuration_directory_is_that_of_spark(tmp_path: Path) -> None:
    home = Path("/opt/spark")
    assert configuration_directory({}, home) == home / "conf"
    assert configuration_directory({"SPARK_HOME": "/x"}, home) == Path("/x/conf")
    directory = configuration_directory({"SPARK_CONF_DIR": str(tmp_path)}, home)
    assert directory == tmp_path
    assert not has_logging_configuration(directory)
    (tmp_path / "log4j2.properties.template").touch()
    assert not has_logging_configuration(directory)
    (tmp_path / "log4j2.properties").touch()
    assert has_logging_configuration(directory)


def test_a_setting_without_a_value_is_rejected() -> None:
    assert parse_conf(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    with pytest.raises(UsageError, match=r"invalid setting 'spark\.x': expected KEY=VALUE"):
        parse_conf(["spark.x"])


def test_the_heap_is_a_bounded_share_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for memory_mib, heap_mib in ((1_000, 1_024), (8_192, 2_048), (500_000, 4_096)):
        monkeypatch.setattr(configuration, "_memory_mib", lambda value=memory_mib: value)
        assert configuration.default_heap_mib() == heap_mib
