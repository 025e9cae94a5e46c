"""Linearizability of observed calls on Spark: the verdicts are those of a search in memory."""

import json
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from creekdb.checkers.blackbox import ObservedCall, encode_calls, get_model
from creekdb.cli import main
from creekdb.datatypes.kv import KV
from creekdb.pipeline.checks.blackbox import object_verdicts
from tests.unit.checkers.blackbox.observed_histories import call, random_history


def draw_single_key_call(random: Random) -> tuple[str, tuple[Any, ...]]:
    key = f"key {random.randrange(6)}"
    return random.choice((("get", (key,)), ("put", (key, random.randrange(9)))))


@pytest.fixture(autouse=True)
def shared_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "creekdb.pipeline.spark.session.starting_session", lambda *_: nullcontext(lambda: spark)
    )


def history(*additional: ObservedCall) -> list[ObservedCall]:
    return [*random_history(KV, 5, 120, 4, draw_single_key_call), *additional]


def verdicts(spark: SparkSession, calls: list[ObservedCall]) -> dict[str, str]:
    lines = [(line.decode(),) for line in encode_calls(calls).splitlines()]
    frame = spark.createDataFrame(lines, "value string")
    rows = object_verdicts(frame, get_model("kv"), 100_000).collect()
    return {row.object: row.verdict for row in rows}


def test_each_key_is_an_object(spark: SparkSession) -> None:
    wrong = call("c", "get", "key 3", at=(9000, 9010), value="never written")
    found = verdicts(spark, history(wrong))
    assert found == {f'["key {n}"]': "illegal" if n == 3 else "ok" for n in range(6)}


def test_scans_join_objects(spark: SparkSession) -> None:
    scan = call("c", "scan", "key 3", at=(9000, 9010), value=(("key 3", "never written"),))
    wide = call("c", "range", "key 0", "key 2", at=(8000, 8010), status=None, value=())
    found = verdicts(spark, history(scan, wide))
    assert sorted(found.values()) == ["illegal", "illegal", "ok", "ok", "ok"]


def test_the_command_prints_counterexamples_and_draws_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = tmp_path / "calls.jsonl", tmp_path / "found.svg"
    path.write_bytes(encode_calls(history()))
    assert main(["pipeline", "check", str(path), "--model", "kv"]) == 0
    assert "on 6 objects checked, no violation" in capsys.readouterr().out
    path.write_bytes(encode_calls(history(call("c", "get", "key 3", at=(9000, 9010), value=-1))))
    arguments = ["pipeline", "check", str(path), "--model", "kv", "--picture", str(picture)]
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    assert "no order of the calls explains get key 3 → -1" in shown
    assert "on 6 objects checked, 1 illegal" in shown
    assert picture.read_text().startswith("<svg")
    assert main([*arguments[:-2], "--json"]) == 1
    shown_json = json.loads(capsys.readouterr().out)
    assert shown_json["objects"] == {"ok": 5, "illegal": 1}
    assert [row["object"] for row in shown_json["illegal"]] == ['["key 3"]']


def test_a_malformed_line_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"client": "a"}\n')
    assert main(["pipeline", "check", str(path), "--model", "kv"]) == 2
    shown = capsys.readouterr().err
    assert "not a call" in shown
    assert shown.count("\n") == 1
