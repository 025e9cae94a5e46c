"""Stored runs as sources of tables, and live runs with a simulated counterpart each.

The counterpart of a live run is the same experiment, simulated in the paper's environment: the same
number of replicas, load, faults and fault times. A live run without TPC-C or without a constant
load has no counterpart.
"""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import msgspec

from creekdb.errors import CreekError, UsageError
from creekdb.evaluation import Experiment, datatype_of_history
from creekdb.evaluation.measures import parse_tpcc_name
from creekdb.history import LIVE_SOURCE, History, load_run, load_run_config, save_run
from creekdb.history.run_directory import CONFIG_FILE
from creekdb.load.live_run import PLANNED_FAULTS
from creekdb.pipeline.checks.histories import history_verdicts
from creekdb.pipeline.stages import run_tables
from creekdb.pipeline.stages.grid import Cell, Grid, cell_name
from creekdb.pipeline.stages.output_dir import (
    HISTORIES_DIR,
    committed_batches,
    prepare_import_dir,
    remove_batch,
    run_directories,
)
from creekdb.pipeline.storage import Location
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


class StoredRun(NamedTuple):
    """A run directory, to be added to the tables of an output directory.

    With `is_copied`, the output directory receives a copy of it.
    """

    name: str
    directory: Path
    is_copied: bool = False

    def tables(self, out: Location) -> run_tables.RunArrowTables:
        """Return the rows of the run, with the verdicts of the checkers on its history."""
        history = load_run(self.directory)
        checked = str(self.directory)
        if self.is_copied:
            copy = out / HISTORIES_DIR / self.name
            store_history(history, copy)
            checked = str(copy)
        datatype = datatype_of_history(history)
        verdicts = history_verdicts(history, datatype, f"creek check {checked}")
        return run_tables.tables_of_history(self.name, history, verdicts)


def new_stored_runs(out: Location) -> tuple[StoredRun, ...]:
    """Return the runs of a directory of run directories that its tables lack.

    The output of a grid has none. The directory may also be a single run.
    """
    if not prepare_import_dir(out):
        return ()
    known = {name for names in committed_batches(out).values() for name in names}
    directories = [each.resolve() for each in run_directories(out.local_path)]
    return tuple(StoredRun(each.name, each) for each in directories if each.name not in known)


def live_runs(directories: Iterable[Path]) -> tuple[StoredRun, ...]:
    return tuple(
        StoredRun(each.resolve().name, each.resolve(), is_copied=True) for each in directories
    )


def store_history(history: History, directory: Location) -> None:
    """Write a run directory, in place of an earlier one."""
    with TemporaryDirectory(prefix="creek-history-") as scratch:
        save_run(history, Path(scratch) / "run")
        files = sorted((Path(scratch) / "run").iterdir(), key=lambda each: each.name == CONFIG_FILE)
        for file in files:  # A directory without its configuration is not a run.
            (directory / file.name).write_bytes(file.read_bytes())


def remove_earlier_imports(out: Location, grid: Grid, runs: Iterable[Cell | StoredRun]) -> None:
    """Remove live runs of earlier commands, and their counterparts, from the tables.

    Each of them is a batch of its own. Live runs among `runs` are imported again.
    """
    cells = {each.name for each in grid.cells}
    retained = cells | {each.name for each in runs if isinstance(each, Cell)}
    names = {each.name for each in runs if isinstance(each, StoredRun)}
    if names & cells:
        name = min(names & cells)
        raise UsageError(f"cannot import {name}: the name is that of a grid cell; rename it")
    for file, contained in committed_batches(out).items():
        if not retained & set(contained):
            remove_batch(out, file)
            for name in contained:
                (out / HISTORIES_DIR / name).remove()
