"""Experiments: command lines, JSON, and validation."""

import json
import shlex
from typing import Any

import msgspec
import pytest

from creekdb.cli import main
from creekdb.errors import UsageError
from creekdb.evaluation import Experiment, build_simulation

SHORT = Experiment(scheme="creek", warehouses=1, load_tps=500, duration_us=40_000)

VARIED = (
    SHORT,
    msgspec.structs.replace(SHORT, scheme="smr", load_tps=333.3, seed=3, replicas=3, cores=2),
    msgspec.structs.replace(SHORT, layout="fine", strong_share=0.5, exec_scale=5.0, warm_up_us=0),
    msgspec.structs.replace(
        SHORT, local_reads=True, faults=("partition 0,1|2,3,4 at 10ms", "heal at 20ms")
    ),
    msgspec.structs.replace(SHORT, faults=("crash 1 at 10ms; restart 1 at 20ms",)),
    msgspec.structs.replace(SHORT, recorded=True),
    msgspec.structs.replace(SHORT, late_contexts=True),
    msgspec.structs.replace(SHORT, fast_path=True),
)


@pytest.mark.parametrize("experiment", VARIED)
def test_the_command_of_an_experiment_gives_the_same_run(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    run = build_simulation(experiment.to_scenario()).run()
    assert main([*shlex.split(experiment.to_command())[1:], "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["trace_hash"] == run.trace_hash


@pytest.mark.parametrize("experiment", VARIED)
def test_experiments_round_trip_through_json(experiment: Experiment) -> None:
    text = msgspec.json.encode(experiment)
    assert msgspec.json.decode(text, type=Experiment) == experiment


def test_commands_omit_default_values() -> None:
    assert SHORT.to_command() == (
        "creek simulate --workload tpcc --scheme creek --warehouses 1 --load 500 --duration 40ms"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("warehouses", 0),
        ("load_tps", 0.0),
        ("load_tps", float("nan")),
        ("load_tps", float("inf")),
        ("strong_share", 1.01),
        ("strong_share", float("nan")),
        ("exec_scale", 0.0),
        ("exec_scale", float("nan")),
        ("replicas", 0),
        ("cores", 100_000),
        ("seed", -1),
        ("warm_up_us", 40_000),
        ("warm_up_us", -1),
        ("duration_us", 0),
        ("scheme", "best"),
        ("layout", "columns"),
        ("faults", ("crash 9 at 1ms",)),
        ("faults", ("explode at 1ms",)),
    ],
)
def test_errors_name_the_invalid_field(field: str, value: Any) -> None:
    expected = {"duration_us": "warm_up_us", "faults": "replica 9|unknown fault"}.get(field, field)
    with pytest.raises(UsageError, match=expected):
        msgspec.structs.replace(SHORT, **{field: value})
