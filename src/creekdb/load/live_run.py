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
from creekdb.history import History, gather
from creekdb.load.fault_schedule import Breaking
from creekdb.load.generator import Plan, drive
from creekdb.load.local_cluster import Cuts, LocalCluster
from creekdb.load.measurement import Meter, Result, result_of
from creekdb.load.workload import tpcc_stream
from creekdb.simulation.faults.fault_types import Fault
from creekdb.simulation.faults.language import fault_text
from creekdb.wire.event_loop import run

PLANNED: Final = "planned_faults"
"""In the configuration of a run: the faults as they were asked for, from when it is measured."""
LOADS: Final = (200.0, 150.0, 100.0, 75.0, 50.0, 25.0)
"""Calls in a second; the last one however slow the machine is."""
WITH_EASE: Final = 0.25
"""Of what it can do: replicas that share two cores have their answers to themselves then."""
TRIED_S: Final = 1.5
TRIED_CLIENTS: Final = 24
WARM_UP_S: Final = 1.0


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    replicas: int = 3
    warehouses: int = 5
    load: float | None = None
    """Transactions in a second; None: what the machine can do with ease."""
    duration_us: int
    faults: tuple[Fault, ...]
    seed: int = 0
    command: str = ""
    """To make it again."""


class Onlooker(Protocol):
    def stage(self, text: str) -> None:
        """What is done now."""

    def happened(self, fault: Fault) -> None: ...

    def measured(self, elapsed_s: float, meter: Meter) -> None:
        """From time to time while it is driven."""


class Lived(NamedTuple):
    history: History
    result: Result
    load: float


def live(asked: Asked, folder: Path, onlooker: Onlooker) -> Lived:
    """`folder`: for journals and recordings. No process is left when it returns or raises."""
    datatype = tpcc.populated_name("rows", asked.warehouses, asked.seed)
    recorded = folder / "recorded"
    cluster = LocalCluster(
        folder,
        replicas=asked.replicas,
        datatype=datatype,
        options=["--record", str(recorded), "--record-orders"],
    )
    try:
        measured = run(_story(asked, datatype, cluster, onlooker))
        onlooker.stage("stopping them")
    finally:
        cluster.stop()
    meter, load, happened = measured
    onlooker.stage("gathering what they recorded")
    history = gather(recorded, (meter.begin_ns // 1000, meter.end_ns // 1000))
    begin_us: int = history.config["begin_us"]
    known: dict[str, Any] = {
        "load_tps": load,
        "seed": asked.seed,
        "command": asked.command,
        "faults": _text([_later(each, begin_us) for each in happened]),
        PLANNED: _text(asked.faults),
    }
    kept = msgspec.structs.replace(history, config={**history.config, **known})
    return Lived(kept, result_of(meter, {}), load)


async def _story(
    asked: Asked, datatype: str, cluster: LocalCluster, onlooker: Onlooker
) -> tuple[Meter, float, list[Fault]]:
    stream = tpcc_stream(datatype, asked.replicas, None, asked.seed)
    cuts = Cuts(cluster)
    onlooker.stage("starting them")
    cluster.start()
    await cluster.until_ready()
    onlooker.stage("warming up")
    tried = await drive(
        Plan(
            cluster.addresses,
            stream,
            warm_up_s=TRIED_S / 3,
            duration_s=TRIED_S * 2 / 3,
            clients=TRIED_CLIENTS,
            seed=asked.seed,
        )
    )
    load = asked.load or load_for(tried.done / tried.seconds)
    breaking = Breaking(cluster, cuts, onlooker.happened)
    onlooker.stage(f"asking for {load:g} transactions a second")
    meter = await drive(
        Plan(
            cluster.addresses,
            stream,
            warm_up_s=WARM_UP_S,
            duration_s=asked.duration_us / 1e6,
            load=load,
            seed=asked.seed,
            watch=lambda elapsed_s, meter: onlooker.measured(elapsed_s - WARM_UP_S, meter),
            during=lambda meter: breaking.carry_out(asked.faults, meter.begin_ns),
            elsewhere=True,
        )
    )
    onlooker.stage("letting them come to rest")
    await cluster.until_ready()
    await cluster.until_settled()
    return meter, load, breaking.happened


def load_for(capacity: float) -> float:
    """What is asked for of a cluster that can do so many transactions in a second."""
    return next((each for each in LOADS if each <= capacity * WITH_EASE), LOADS[-1])


def _later(fault: Fault, by_us: int) -> Fault:
    return msgspec.structs.replace(fault, at_us=fault.at_us + by_us // 1000 * 1000)


def _text(faults: Sequence[Fault]) -> str:
    return "; ".join(map(fault_text, faults))
