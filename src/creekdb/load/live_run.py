"""A live run: replicas in processes of their own on this machine, which TPC-C drives while they are
killed, started again and divided, and which record what they do.

A load that the machine can hardly carry would show the machine. So it is first found out, while all
warms up, what it can do; a small part of that is asked for.
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
"""In the configuration of a run: the faults as they were asked for, from when it is measured."""
LOAD_STEPS_PER_S: Final = (200.0, 150.0, 100.0, 75.0, 50.0, 25.0)
"""Calls in a second; the last one however slow the machine is."""
CAPACITY_FRACTION: Final = 0.25
"""Of what it can do: replicas that share two cores have their answers to themselves then."""
CALIBRATION_S: Final = 1.5
CALIBRATION_CLIENTS: Final = 24
WARM_UP_S: Final = 1.0


class LiveRunConfig(msgspec.Struct, frozen=True, kw_only=True):
    replicas: int = 3
    warehouses: int = 5
    load: float | None = None
    """Transactions in a second; None: what the machine can do with ease."""
    duration_us: int
    faults: tuple[Fault, ...]
    seed: int = 0
    command: str = ""
    """To make it again."""


class LiveRunObserver(Protocol):
    def on_stage(self, text: str) -> None:
        """What is done now."""

    def on_fault(self, fault: Fault) -> None: ...

    def on_progress(self, elapsed_s: float, meter: LoadMeter) -> None:
        """From time to time while it is driven."""


class LiveRunResult(NamedTuple):
    history: History
    result: LoadResult
    load: float


def run_live(asked: LiveRunConfig, folder: Path, onlooker: LiveRunObserver) -> LiveRunResult:
    """`folder`: for journals and recordings. No process is left when it returns or raises."""
    datatype = tpcc.populated_datatype_name("rows", asked.warehouses, asked.seed)
    recorded = folder / "recorded"
    cluster = LocalCluster(
        folder,
        replicas=asked.replicas,
        datatype=datatype,
        options=["--record", str(recorded), "--record-orders"],
    )
    try:
        measured = run_in_new_loop(_drive_cluster(asked, datatype, cluster, onlooker))
        onlooker.on_stage("stopping them")
    finally:
        cluster.stop()
    meter, load, happened = measured
    onlooker.on_stage("gathering what they recorded")
    history = merge_recordings(recorded, (meter.begin_ns // 1000, meter.end_ns // 1000))
    begin_us: int = history.config["begin_us"]
    known: dict[str, Any] = {
        "load_tps": load,
        "seed": asked.seed,
        "command": asked.command,
        "faults": _faults_text([_shift_fault(each, begin_us) for each in happened]),
        PLANNED_FAULTS: _faults_text(asked.faults),
    }
    kept = msgspec.structs.replace(history, config={**history.config, **known})
    return LiveRunResult(kept, load_result(meter, {}), load)


async def _drive_cluster(
    asked: LiveRunConfig, datatype: str, cluster: LocalCluster, onlooker: LiveRunObserver
) -> tuple[LoadMeter, float, list[Fault]]:
    stream = tpcc_workload(datatype, asked.replicas, None, asked.seed)
    cuts = LinkPartitions(cluster)
    onlooker.on_stage("starting them")
    cluster.start()
    await cluster.wait_until_ready()
    onlooker.on_stage("warming up")
    tried = await generate_load(
        LoadPlan(
            cluster.addresses,
            stream,
            warm_up_s=CALIBRATION_S / 3,
            duration_s=CALIBRATION_S * 2 / 3,
            clients=CALIBRATION_CLIENTS,
            seed=asked.seed,
        )
    )
    load = asked.load or sustainable_load(tried.completed / tried.duration_s)
    breaking = LiveFaultInjector(cluster, cuts, onlooker.on_fault)
    onlooker.on_stage(f"asking for {load:g} transactions a second")
    meter = await generate_load(
        LoadPlan(
            cluster.addresses,
            stream,
            warm_up_s=WARM_UP_S,
            duration_s=asked.duration_us / 1e6,
            load=load,
            seed=asked.seed,
            watch=lambda elapsed_s, meter: onlooker.on_progress(elapsed_s - WARM_UP_S, meter),
            during=lambda meter: breaking.run(asked.faults, meter.begin_ns),
            elsewhere=True,
        )
    )
    onlooker.on_stage("letting them come to rest")
    await cluster.wait_until_ready()
    await cluster.wait_until_stable()
    return meter, load, breaking.applied_faults


def sustainable_load(capacity: float) -> float:
    """What is asked for of a cluster that can do so many transactions in a second."""
    return next(
        (each for each in LOAD_STEPS_PER_S if each <= capacity * CAPACITY_FRACTION),
        LOAD_STEPS_PER_S[-1],
    )


def _shift_fault(fault: Fault, by_us: int) -> Fault:
    return msgspec.structs.replace(fault, at_us=fault.at_us + by_us // 1000 * 1000)


def _faults_text(faults: Sequence[Fault]) -> str:
    return "; ".join(map(format_fault, faults))
