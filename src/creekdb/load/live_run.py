"""Live run: TPC-C against replica processes on this machine, with crashes, restarts and partitions.

The replicas record their history for the checkers. A load close to the capacity of the machine
would measure the machine. Therefore the warm-up measures the capacity, and the run uses a small
fraction of it.

The syntax of faults is that of simulations (`creekdb.simulation.faults.language`), restricted to
faults that can happen to processes on one machine:

    crash 2 at 3s             kill -9
    restart 2 at 5s           restart with the data on disk
    partition 0|1,2 at 8s     no messages between the two groups
    heal at 11s

After the last fault, all replicas are restarted and all partitions healed, because the convergence
check needs a connected cluster.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from creekdb import tpcc
from creekdb.errors import BadValue
from creekdb.history import History, merge_recordings
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import LoadMeter, LoadResult, load_result
from creekdb.load.workload import tpcc_workload
from creekdb.simulation.faults.fault_types import (
    Crash,
    Fault,
    Heal,
    Partition,
    Restart,
    check_faults,
)
from creekdb.simulation.faults.fields import format_duration
from creekdb.simulation.faults.language import format_fault, parse_faults
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


def parse_fault_schedule(text: str, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    """Return the faults of `text`, sorted by time. Raises `BadValue` if one is not possible."""
    faults = tuple(sorted(parse_faults(text), key=lambda fault: fault.at_us))
    check_faults(faults, replicas)
    down: set[int] = set()
    for fault in faults:
        label = f"fault '{format_fault(fault)}'"
        if fault.at_us >= duration_us:
            raise BadValue(f"{label}: the run ends after {format_duration(duration_us)}")
        match fault:
            case Crash(replica=replica, writing=False):
                if replica in down:
                    raise BadValue(f"{label}: replica {replica} is already down")
                down.add(replica)
            case Restart(replica=replica):
                if replica not in down:
                    raise BadValue(f"{label}: replica {replica} is not down")
                down.remove(replica)
            case Partition() | Heal():
                pass
            case _:
                raise BadValue(
                    f"{label}: a live cluster supports crash, restart, partition and heal"
                )
    return faults


class LiveFaultInjector:
    """Injects faults into a live cluster at their times.

    `on_fault` is called after each fault, with the actual time in the fault.
    """

    def __init__(
        self, cluster: LocalCluster, on_fault: Callable[[Fault], None] = lambda fault: None
    ) -> None:
        self._cluster = cluster
        self._on_fault = on_fault
        self._down: set[int] = set()
        self._is_partitioned = False
        self._begin_ns = 0
        self.applied_faults: list[Fault] = []

    async def run(self, faults: Sequence[Fault], begin_ns: int) -> None:
        """Inject the faults. Their times count from `begin_ns`, on `perf_counter_ns`."""
        self._begin_ns = begin_ns
        for fault in faults:
            remaining_s = (begin_ns + fault.at_us * 1000 - perf_counter_ns()) / 1e9
            await asyncio.sleep(max(0.0, remaining_s))
            self._apply(fault)
        for replica in sorted(self._down):
            self._apply(Restart(0, replica))
        if self._is_partitioned:
            self._apply(Heal(0))

    def _apply(self, fault: Fault) -> None:
        applied = msgspec.structs.replace(
            fault, at_us=(perf_counter_ns() - self._begin_ns) // 1_000_000 * 1000
        )
        match fault:
            case Crash(replica=replica):
                self._cluster.kill(replica)
                self._down.add(replica)
            case Restart(replica=replica):
                self._cluster.start(replica)
                self._down.remove(replica)
            case Partition(groups=groups):
                self._cluster.partition(groups)
                self._is_partitioned = True
            case Heal():
                self._cluster.heal()
                self._is_partitioned = False
            case _:
                raise AssertionError(fault)
        self.applied_faults.append(applied)
        self._on_fault(applied)


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
        """Handle progress, at regular intervals during warm-up and load."""


def recorded_history(cluster: LocalCluster, meter: LoadMeter, config: Mapping[str, Any]) -> History:
    """Merge the recordings of a load. `config` is added to the configuration of the run."""
    history = merge_recordings(cluster.recordings, (meter.begin_ns // 1000, meter.end_ns // 1000))
    return msgspec.structs.replace(history, config={**history.config, **config})


OnStable: TypeAlias = Callable[[Sequence[str]], None]
"""Function that receives the client addresses of a cluster which is stable and still runs."""


def run_live(
    config: LiveRunConfig,
    directory: Path,
    observer: LiveRunObserver,
    on_stable: OnStable | None = None,
) -> tuple[History, LoadResult]:
    """Run TPC-C against a local cluster. All processes have ended when it returns or raises.

    `directory` holds journals and recordings. With `on_stable`, the replicas keep their changes for
    it.
    """
    keep_options = () if on_stable is None else ("--keep-changes", "1h")
    datatype = tpcc.populated_datatype_name("rows", config.warehouses, config.seed)
    with LocalCluster(
        directory,
        replicas=config.replicas,
        datatype=datatype,
        options=("--record-orders", *keep_options),
        is_recorded=True,
    ) as cluster:
        meter, load, applied_faults = run_in_new_loop(
            _drive_cluster(config, datatype, cluster, observer)
        )
        if on_stable is not None:
            observer.on_stage("reading the changes of the replicas")
            on_stable(cluster.addresses)
        observer.on_stage("stopping the replicas")
    observer.on_stage("merging the recordings")
    run_config = {"load_tps": load, "seed": config.seed, "command": config.command}
    history = recorded_history(cluster, meter, run_config)
    begin_us = history.config["begin_us"] // 1000 * 1000
    history.config["faults"] = _faults_text(
        [msgspec.structs.replace(each, at_us=each.at_us + begin_us) for each in applied_faults]
    )
    history.config[PLANNED_FAULTS] = _faults_text(config.faults)
    return history, load_result(meter, {})


async def _drive_cluster(
    config: LiveRunConfig, datatype: str, cluster: LocalCluster, observer: LiveRunObserver
) -> tuple[LoadMeter, float, list[Fault]]:
    """Run the load and the faults; return the measurements, the load and the applied faults."""
    workload = tpcc_workload(datatype, config.replicas, None, config.seed)
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
    injector = LiveFaultInjector(cluster, observer.on_fault)
    observer.on_stage(f"running {load:g} transactions per second")
    meter = await generate_load(
        LoadPlan(
            cluster.addresses,
            workload,
            warm_up_s=WARM_UP_S,
            duration_s=config.duration_us / 1e6,
            calls_per_s=load,
            seed=config.seed,
            on_progress=observer.on_progress,
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


def _faults_text(faults: Sequence[Fault]) -> str:
    return "; ".join(map(format_fault, faults))
