"""Import of live runs into an output directory, each with a simulated counterpart.

The counterpart of a live run is the same experiment, simulated in the paper's environment: the same
number of replicas, load, faults and fault times. A live run without TPC-C or without a constant
load has no counterpart.
"""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from creekdb.errors import CreekError, StorageFault, UsageError
from creekdb.evaluation import Experiment
from creekdb.evaluation.measures import parse_tpcc_name
from creekdb.history import LIVE_SOURCE, load_run_config
from creekdb.load.live_run import PLANNED_FAULTS
from creekdb.pipeline.stages.grid import Cell, Grid, cell_name
from creekdb.pipeline.stages.output_dir import RUNS_DIR
from creekdb.simulation.faults.language import format_fault, parse_faults

COUNTERPART_WARM_UP_US: Final = 1_000_000
"""Warm-up of a counterpart, before a window as long as that of the live run."""


def load_live_configs(directories: Iterable[Path]) -> dict[Path, dict[str, Any]]:
    """Return the configuration of each live run; raise UsageError for any other directory."""
    configs: dict[Path, dict[str, Any]] = {}
    for directory in directories:
        if not directory.is_dir():
            raise UsageError(f"{directory} does not exist; record a run with 'creek live-run'")
        config = load_run_config(directory)
        if config.get("source") != LIVE_SOURCE:
            raise UsageError(f"{directory} is not a live run: it was simulated")
        name = directory.resolve().name
        if name in {each.resolve().name for each in configs}:
            raise UsageError(f"cannot import two live runs named {name}; rename one")
        configs[directory] = config
    return configs


def simulated_counterparts(configs: Iterable[dict[str, Any]]) -> tuple[Cell, ...]:
    """Return the distinct counterparts of live runs."""
    cells = (_simulated_counterpart(config) for config in configs)
    return tuple({each.name: each for each in cells if each is not None}.values())


def _simulated_counterpart(config: dict[str, Any]) -> Cell | None:
    layout, warehouses = parse_tpcc_name(config.get("imported", ""))
    if layout is None or not config.get("load_tps") or "begin_us" not in config:
        return None
    measured_us = round(config["end_us"] - config["begin_us"], -3)
    faults = parse_faults(config.get(PLANNED_FAULTS, ""))
    shifted = (
        msgspec.structs.replace(each, at_us=each.at_us + COUNTERPART_WARM_UP_US) for each in faults
    )
    try:
        experiment = Experiment(
            scheme=config["scheme"],
            layout=layout,
            warehouses=warehouses or 1,
            load_tps=float(config["load_tps"]),
            strong_share=config.get("strong_share"),
            replicas=config["replicas"],
            seed=config["seed"],
            duration_us=COUNTERPART_WARM_UP_US + measured_us,
            warm_up_us=COUNTERPART_WARM_UP_US,
            faults=tuple(map(format_fault, shifted)),
            recorded=True,
        )
    except CreekError:  # Not every live configuration can be simulated.
        return None
    return Cell(cell_name(experiment), experiment)


def import_live_runs(
    out: Path, grid: Grid, directories: Sequence[Path], counterparts: Sequence[Cell]
) -> None:
    """Copy live runs into the directory of the runs of the grid.

    Earlier imports and their counterparts belong to no cell and are removed.
    """
    names = {each.resolve().name for each in directories}
    cells = {each.name for each in grid.cells}
    if names & cells:
        name = min(names & cells)
        raise UsageError(f"cannot import {name}: the name is that of a grid cell; rename it")
    retained = cells | {each.name for each in counterparts}
    try:
        for run in (out / RUNS_DIR).iterdir():
            if run.name not in retained:
                shutil.rmtree(run)
        for directory in directories:
            shutil.copytree(directory, out / RUNS_DIR / directory.resolve().name)
    except OSError as error:
        raise StorageFault(f"cannot copy a live run to {out}: {error}") from error
