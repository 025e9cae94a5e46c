"""Live run: TPC-C against replica processes on this machine, with crashes, restarts and partitions.

The replicas record their history for the checkers. A load close to the capacity of the machine
would measure the machine. Therefore the warm-up measures the capacity, and the run uses a small
fraction of it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from creekdb import tpcc
from creekdb.history import History, merge_recordings
from creekdb.load.fault_schedule import LiveFaultInjector
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import LinkPartitions, LocalCluster
from creekdb.load.measurement import LoadMeter, LoadResult, load_result
from creekdb.load.workload import tpcc_workload
from creekdb.simulation.faults.fault_types import Fault
from creekdb.simulation.faults.language import format_fault
from creekdb.wire.event_loop import run_in_new_loop

PLANNED_FAULTS: Final = "planned_faults"
"""Key in the configuration of a run: the requested faults, timed from the end of the warm-up."""
LOAD_STEPS_PER_S: Final = (200.0, 150.0, 100.0, 75.0, 50.0, 25.0)
"""Possible loads, in calls per second. The last one is used however slow the machine is."""
CAPACITY_FRACTION: Final = 0.25
"""Upper bound for the load, as a fraction of the measured capacity. Replicas on two cores then
rarely delay each other's responses."""
CALIBRATION_S: Final = 1.5
CALIBRATION_CLIENTS: Final = 24
WARM_UP_S: Final = 1.0


class LiveRunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a live run."""

    replicas: int = 3
    warehouses: int = 5
    load: float | None = None
    """Transactions per second; None chooses a load that the machine sustains."""
    duration_us: int
    faults: tuple[Fault, ...]
    seed: int = 0
    command: str = ""
    """Command line that repeats the run."""


class LiveRunObserver(Protocol):
    """Observer of the progress of a live run."""

    def on_stage(self, text: str) -> None:
        """Handle the start of a stage."""

    def on_fault(self, fault: Fault) -> None: ...

    def on_progress(self, elapsed_s: float, meter: LoadMeter) -> None:
        """Handle progress, at regular intervals during the load."""


class LiveRunResult(NamedTuple):
    """History and measurements of a live run, and its load in transactions per second."""

    history: History
    result: LoadResult
    load: float


def run_live(config: LiveRunConfig, directory: Path, observer: LiveRunObserver) -> LiveRunResult:
    """Run TPC-C against a local cluster. All processes have ended when it returns or raises.

    `directory` holds journals and recordings.
    """
    datatype = tpcc.populated_datatype_name("rows", config.warehouses, config.seed)
    recordings = directory / "recorded"
    cluster = LocalCluster(
        directory,
        replicas=config.replicas,
        datatype=datatype,
        options=["--record", str(recordings), "--record-orders"],
    )
    try:
        meter, load, applied_faults = run_in_new_loop(
            _drive_cluster(config, datatype, cluster, observer)
        )
        observer.on_stage("stopping the replicas")
    finally:
        cluster.stop()
    observer.on_stage("merging the recordings")
    history = merge_recordings(recordings, (meter.begin_ns // 1000, meter.end_ns // 1000))
    begin_us: int = history.config["begin_us"]
    extra: dict[str, Any] = {
        "load_tps": load,
        "seed": config.seed,
        "command": config.command,
        "faults": _faults_text([_shift_fault(fault, begin_us) for fault in applied_faults]),
        PLANNED_FAULTS: _faults_text(config.faults),
    }
    history = msgspec.structs.replace(history, config={**history.config, **extra})
    return LiveRunResult(history, load_result(meter, {}), load)


async def _drive_cluster(
    config: LiveRunConfig, datatype: str, cluster: LocalCluster, observer: LiveRunObserver
) -> tuple[LoadMeter, float, list[Fault]]:
    """Run the load and the faults; return the measurements, the load and the applied faults."""
    workload = tpcc_workload(datatype, config.replicas, None, config.seed)
    partitions = LinkPartitions(cluster)
    observer.on_stage("starting the replicas")
    cluster.start()
    await cluster.wait_until_ready()
    observer.on_stage("warming up")
    calibration = await generate_load(
        LoadPlan(
            cluster.addresses,
            workload,
            warm_up_s=CALIBRATION_S / 3,
            duration_s=CALIBRATION_S * 2 / 3,
            clients=CALIBRATION_CLIENTS,
            seed=config.seed,
        )
    )
    load = config.load or sustainable_load(calibration.completed / calibration.duration_s)
    injector = LiveFaultInjector(cluster, partitions, observer.on_fault)
    observer.on_stage(f"running {load:g} transactions per second")
    meter = await generate_load(
        LoadPlan(
            cluster.addresses,
            workload,
            warm_up_s=WARM_UP_S,
            duration_s=config.duration_us / 1e6,
            calls_per_s=load,
            seed=config.seed,
            on_progress=lambda elapsed_s, meter: observer.on_progress(elapsed_s - WARM_UP_S, meter),
            background=lambda meter: injector.run(config.faults, meter.begin_ns),
            has_failover=True,
        )
    )
    observer.on_stage("waiting until the replicas are stable")
    await cluster.wait_until_ready()
    await cluster.wait_until_stable()
    return meter, load, injector.applied_faults


def sustainable_load(capacity: float) -> float:
    """Return the load for a cluster with this capacity; both in transactions per second."""
    return next(
        (load for load in LOAD_STEPS_PER_S if load <= capacity * CAPACITY_FRACTION),
        LOAD_STEPS_PER_S[-1],
    )


def _shift_fault(fault: Fault, by_us: int) -> Fault:
    return msgspec.structs.replace(fault, at_us=fault.at_us + by_us // 1000 * 1000)


def _faults_text(faults: Sequence[Fault]) -> str:
    return "; ".join(map(format_fault, faults))
