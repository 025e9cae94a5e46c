"""Live runs beside simulated ones: taken into a pipeline's folder, each with a twin.

The twin of a live run is the same experiment, simulated in the paper's environment: as many
replicas, the same load, the same faults at the same times. A live run of something else than TPC-C,
or without a steady load, has none.
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
"""Of a twin, before the time that the live run is measured for."""


def load_live_configs(folders: Iterable[Path]) -> dict[Path, dict[str, Any]]:
    """Of live runs, by folder; whatever else is there is refused."""
    found: dict[Path, dict[str, Any]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} does not exist: make a run with 'creek live-run'")
        config = load_run_config(folder)
        if config.get("source") != LIVE_SOURCE:
            raise UsageError(f"{folder} is not a live run: it was simulated")
        if folder.resolve().name in {each.resolve().name for each in found}:
            raise UsageError(f"two live runs are called {folder.resolve().name}: rename one")
        found[folder] = config
    return found


def simulated_counterparts(configs: Iterable[dict[str, Any]]) -> tuple[Cell, ...]:
    made = (_simulated_counterpart(config) for config in configs)
    return tuple({each.name: each for each in made if each is not None}.values())


def _simulated_counterpart(config: dict[str, Any]) -> Cell | None:
    layout, warehouses = parse_tpcc_name(config.get("imported", ""))
    if layout is None or not config.get("load_tps") or "begin_us" not in config:
        return None
    lasting_us = round(config["end_us"] - config["begin_us"], -3)
    faults = parse_faults(config.get(PLANNED_FAULTS, ""))
    later = (
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
            duration_us=COUNTERPART_WARM_UP_US + lasting_us,
            warm_up_us=COUNTERPART_WARM_UP_US,
            faults=tuple(map(format_fault, later)),
            recorded=True,
        )
    except CreekError:  # what runs live need not be what can be simulated
        return None
    return Cell(cell_name(experiment), experiment)


def import_live_runs(
    out: Path, grid: Grid, folders: Sequence[Path], beside: Sequence[Cell]
) -> None:
    """Copy live runs among those of the grid. What an earlier one left there, with its twin, is
    removed: it belongs to no cell."""
    names = {each.resolve().name for each in folders}
    cells = {each.name for each in grid.cells}
    if names & cells:
        same = min(names & cells)
        raise UsageError(f"a live run is called as an experiment of the grid: rename {same}")
    kept = cells | {each.name for each in beside}
    try:
        for run in (out / RUNS_DIR).iterdir():
            if run.name not in kept:
                shutil.rmtree(run)
        for folder in folders:
            shutil.copytree(folder, out / RUNS_DIR / folder.resolve().name)
    except OSError as error:
        raise StorageFault(f"cannot copy a live run to {out}: {error}") from error
