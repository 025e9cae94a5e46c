"""The notebook runs as written on a cluster, and its stored outputs are small."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from creekdb.load.local_cluster import LocalCluster
from creekdb.wire.event_loop import run_in_new_loop

NOTEBOOK = Path(__file__).parents[2] / "docs" / "apologies.ipynb"
OUTPUT_BYTES_MAX = 20_000


def code_cells() -> list[dict[str, Any]]:
    notebook = json.loads(NOTEBOOK.read_text())
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_counts_apologies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert spark is SparkSession.getActiveSession()
    names: dict[str, Any] = {}
    with LocalCluster(tmp_path, replicas=3, options=("--keep-changes", "1h")) as cluster:
        cluster.start()
        run_in_new_loop(cluster.wait_until_ready())
        setting, *others = ("".join(cell["source"]) for cell in code_cells())
        exec(setting, names)  # noqa: S102 - the cells are the subject
        assert names["servers"] == "127.0.0.1:7100,127.0.0.1:7101,127.0.0.1:7102"
        names["servers"] = ",".join(cluster.addresses)
        for source in others:
            exec(source, names)  # noqa: S102
            run_in_new_loop(cluster.wait_until_stable())

    table = {row["operation"]: row for row in names["apologies"].to_dict("records")}
    assert set(table) == {"increment", "put"}
    assert table["put"]["weak"] == table["increment"]["weak"] == 600
    assert table["increment"]["apologies"] > 0
    assert table["put"]["apologies"] == 0
    assert table["increment"]["unknown"] == 0
    assert names["tables"].commits.count() > 0


def test_the_stored_outputs_end_with_a_chart() -> None:
    outputs = [cell["outputs"] for cell in code_cells()]

    assert "image/svg+xml" in outputs[-1][0]["data"]
    assert len(json.dumps(outputs)) < OUTPUT_BYTES_MAX
    assert not any(each["output_type"] == "error" for cell in outputs for each in cell)
