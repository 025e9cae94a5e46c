"""Commands under `spark-submit`, whose settings are kept."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from creekdb.cli.submit import SCRIPT

pytestmark = pytest.mark.xdist_group("spark processes")

GRID = """
[[block]]
warehouses = 1
load_tps = 500
duration = "40ms"
"""
DEFAULTS = """
# Overridden by spark-submit, by the command, and by nothing.
spark.sql.shuffle.partitions  9
spark.ui.showConsoleProgress  true
spark.sql.session.timeZone=   Europe/Warsaw
spark.eventLog.enabled        true
spark.eventLog.rolling.enabled false
spark.eventLog.compress       false
"""
PROGRESS = re.compile(r"0 of 1 experiment simulated.*")


def spark_properties(event_log: Path) -> dict[str, str]:
    """Return the settings that the application ran with."""
    events = map(json.loads, event_log.read_text().splitlines())
    updates = [each for each in events if each["Event"] == "SparkListenerEnvironmentUpdate"]
    properties: dict[str, str] = updates[0]["Spark Properties"]
    return properties


def test_settings_of_spark_submit_and_its_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(DEFAULTS)
    (tmp_path / "events").mkdir()
    command = [
        *(Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local[1]"),
        *("--driver-memory", "768m", "--conf", "spark.sql.shuffle.partitions=3"),
        *("--conf", f"spark.eventLog.dir={tmp_path / 'events'}"),
        *(SCRIPT, "pipeline", "simulate", "--grid", "grid.toml", "--out", "out", "-v"),
        *("--conf", "spark.ui.showConsoleProgress=false"),
    ]
    result = subprocess.run(
        list(map(str, command)),
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(tmp_path / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    # spark-submit merges the error output of a script into its output. A run that takes longer
    # than ten seconds reports its progress there.
    lines = result.stdout.splitlines()
    *reported_lines, summary = (each for each in lines if not PROGRESS.fullmatch(each))
    assert summary == "1 of 1 experiment simulated, in out"
    (event_log,) = (tmp_path / "events").iterdir()
    properties = spark_properties(event_log)
    expected = {
        "spark.master": "local[1]",
        "spark.driver.memory": "768m",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "Europe/Warsaw",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
    }
    assert {key: properties[key] for key in expected} == expected
    reported = dict(line.split("=", 1) for line in reported_lines)
    assert reported["spark.ui.enabled"] == "false"
    assert reported.keys().isdisjoint(expected.keys() - {"spark.ui.enabled"})


def test_the_script_is_alone_in_its_directory() -> None:
    """Python puts the directory first on its path, where modules would hide others."""
    names = {each.name for each in SCRIPT.parent.iterdir()} - {"__pycache__"}
    assert names == {"__init__.py", "creek.py"}
