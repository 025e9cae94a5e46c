"""`creek bench`: throughput and latency of a live cluster."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import click
import msgspec

from creekdb import tpcc
from creekdb.cli.declaration import declared, option
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import AS_JSON, NEW_DIRECTORY, RATE, WAREHOUSES, command_limits
from creekdb.cli.output import (
    command_line,
    command_name,
    pluralize,
    print_json,
    scratch_directory,
    stderr_console,
    stdout_console,
)
from creekdb.cli.scenario_options import DURATION, MEASUREMENT
from creekdb.cli.target import AUTHORITY, TOKEN
from creekdb.cli.views.measures import LoadProgress, print_errors, print_latencies
from creekdb.client.errors import NotDone
from creekdb.client.replica_connection import client_tls_context
from creekdb.errors import UsageError
from creekdb.execution.python_runtime import build_kind
from creekdb.history import save_run
from creekdb.load.connection import ReplicaDialer
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.live_run import recorded_history
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import CpuClock, LoadMeter, LoadResult, load_result
from creekdb.load.workload import Workload, kv_workload, tpcc_workload
from creekdb.wire.event_loop import run_in_new_loop

DEFAULT_CLIENTS = 64
COMPILE_HINT = "; compiled code is faster ('make compiled')"


@click.group(short_help="Measure a live cluster.")
def bench() -> None:
    """Measure a live cluster: a running one, or one started for the measurement on this machine.

    --clients sets a closed loop: each client waits for the response before its next call. It
    measures the maximum throughput. --load sets an open loop: calls are made at a fixed rate,
    independently of responses. It measures the latency under that load.

    \b
    Examples:
      creek bench kv                           three local replicas, 64 clients
      creek bench kv --strong-share 1 --clients 200
      creek bench kv --load 500 --strong-share 0.1 --at 127.0.0.1:7100
      creek bench tpcc --warehouses 5 --load 300 --out runs/live
      creek bench kv --at 10.0.0.2:7100 --token $TOKEN --authority authority.pem
    """


class _BenchOptions(NamedTuple):
    """Options shared by all workloads."""

    addresses: tuple[str, ...] = option(
        "Client address of a replica of a running cluster, which receives the load. May be "
        "repeated. CREEK_AT has no effect.",
        flag="--at",
        metavar="HOST:PORT",
    )
    token: str = TOKEN
    authority: str | None = AUTHORITY
    replicas: int | None = option(
        "Without --at: number of replicas to start on this machine.  [default: 3]",
        type=click.IntRange(1, 9),
    )
    durability: Literal["disk", "memory"] = option(
        "Durability of the local replicas: whether a tentative response waits for the disk.", "disk"
    )
    clients: int | None = option(
        f"Number of closed-loop clients.  [default: {DEFAULT_CLIENTS}]", type=click.IntRange(min=1)
    )
    load: float | None = option("Open-loop rate, in calls per second.", type=RATE)
    duration: int = option("Duration of the measurement.", "10s", MEASUREMENT)
    warm_up: int = option("Duration of the warm-up, which is not measured.", "2s", DURATION)
    seed: int = option("Seed of the random calls.", 0)
    as_json: bool = AS_JSON
    out: Path | None = option(
        "Run directory to create, with complete recordings, for 'check' and the pipeline.",
        type=NEW_DIRECTORY,
    )


@bench.command(short_help="Measure a key-value store.")
@declared
def kv(
    *,
    strong: float = option("Share of strong calls, from 0 to 1.", 0.0, flag="--strong-share"),
    reads: float = option("Share of gets, from 0 to 1.", 0.0),
    value_bytes: int = option("Size of a value, in bytes.", 256),
    keys: int = option("Number of keys.", 10_000),
    options: _BenchOptions,
) -> int:
    """Measure puts and gets of the data type 'kv'.

    \b
    Examples:
      creek bench kv --clients 128
      creek bench kv --strong-share 1 --value-bytes 1024 --json
      creek bench kv --load 500 --out runs/live
    """
    stream = kv_workload(
        keys=keys, value_bytes=value_bytes, reads=reads, strong=strong, seed=options.seed
    )
    return _run_bench(options, "kv", lambda replicas: stream, strong)


@bench.command("tpcc", short_help="Measure TPC-C transactions.")
@declared
def tpcc_command(
    *,
    warehouses: int = WAREHOUSES,
    layout: str = option(
        "One register per row, separate registers for the columns that change, or SQL.",
        "rows",
        click.Choice(tpcc.LAYOUTS),
    ),
    strong: float | None = option(
        "Share of strong transactions, from 0 to 1.  [default: every Payment]",
        type=click.FloatRange(0, 1),
        flag="--strong-share",
    ),
    options: _BenchOptions,
) -> int:
    """Measure TPC-C. A running cluster must have the data type tpcc-LAYOUT-WAREHOUSES-SEED.

    \b
    Examples:
      creek bench tpcc
      creek bench tpcc --warehouses 1 --load 200 --out runs/tpcc
      creek bench tpcc --layout sql
    """
    datatype = tpcc.populated_datatype_name(layout, warehouses, options.seed)
    return _run_bench(
        options,
        datatype,
        lambda replicas: tpcc_workload(datatype, replicas, strong, options.seed),
        strong,
    )


def _run_bench(
    options: _BenchOptions, datatype: str, stream: Callable[[int], Workload], strong: float | None
) -> int:
    if options.clients and options.load:
        raise UsageError("--clients and --load exclude each other: omit one of them")
    if options.addresses and options.replicas:
        raise UsageError("--at and --replicas exclude each other: omit one of them")
    if options.out is not None and options.addresses:
        raise UsageError(
            "--out requires replicas that this command starts: omit --at, or "
            "start the cluster with 'creek serve --record DIR', then 'creek gather DIR --out RUN'"
        )
    if options.out is not None and options.out.exists():
        raise UsageError(
            f"{options.out} exists already, and runs are never overwritten: name another"
        )
    if options.addresses:
        result, _ = run_in_new_loop(_measure(options, datatype, stream, None))
    else:
        result = _measure_local_cluster(options, datatype, stream, strong)
    if options.as_json:
        print_json(msgspec.to_builtins(result))
    else:
        _print_result(result)
    if options.out is not None:
        click.echo(
            f"saved to {options.out}; check it with '{command_name()} check {options.out}'",
            err=True,
        )
    return SUCCESS if result.throughput_per_s else FAILURE


def _measure_local_cluster(
    options: _BenchOptions, datatype: str, stream: Callable[[int], Workload], strong: float | None
) -> LoadResult:
    """Start a cluster in the working directory, measure it and stop it.

    The directory for temporary files may be in memory, which would distort the measurement.
    """
    with scratch_directory(Path.cwd(), ".creek-bench-") as directory:
        with LocalCluster(
            Path(directory),
            replicas=options.replicas or 3,
            datatype=datatype,
            options=("--durability", options.durability),
            is_recorded=options.out is not None,
        ) as cluster:
            result, meter = run_in_new_loop(_measure(options, datatype, stream, cluster))
        if options.out is not None:
            config = {"load_tps": options.load, "strong_share": strong, "seed": options.seed}
            history = recorded_history(cluster, meter, {**config, "command": command_line()})
            save_run(history, options.out)
    return result


async def _measure(
    options: _BenchOptions,
    datatype: str,
    stream: Callable[[int], Workload],
    cluster: LocalCluster | None,
) -> tuple[LoadResult, LoadMeter]:
    """Start and measure a local cluster, or measure the one at the addresses."""
    addresses: Sequence[str] = options.addresses
    cpu = CpuClock({})
    if cluster is not None:
        addresses = cluster.addresses
        with stderr_console().status(f"starting {pluralize(len(addresses), 'replica')}"):
            cluster.start()
            await cluster.wait_until_ready()
        cpu = CpuClock(cluster.processes)
    warm_up_s, duration_s = options.warm_up / 1e6, options.duration / 1e6
    progress = LoadProgress(warm_up_s, duration_s)
    plan = LoadPlan(
        addresses,
        stream(len(addresses)),
        warm_up_s=warm_up_s,
        duration_s=duration_s,
        clients=0 if options.load else options.clients or DEFAULT_CLIENTS,
        calls_per_s=options.load or 0.0,
        seed=options.seed,
        on_progress=progress.on_progress,
        cpu_clock=cpu,
        dial=ReplicaDialer(
            token=options.token,
            tls_context=client_tls_context(options.authority),
            refused_timeout_s=command_limits().refused_retry_s,
            datatype=datatype,
        ),
    )
    try:
        with progress:
            meter = await generate_load(plan)
    except NotDone as error:
        raise UsageError(
            f"{error} (start the cluster, set another address with --at, or omit --at to start a "
            "local cluster)"
        ) from error
    if cluster is not None and options.out is not None:
        await cluster.wait_until_stable()
    return load_result(meter, cpu.used_s), meter


def _print_result(result: LoadResult) -> None:
    rates = [
        f"{result.throughput_per_s:,.0f} calls per second",
        f"{result.weak_per_s:,.0f} weak",
        f"{result.strong_per_s:,.0f} strong",
    ]
    click.echo(", ".join(rates))
    print_latencies(result)
    used = ", ".join(f"{name} {each:,.0f}" for name, each in result.cpu_us.items())
    stdout_console().print(f"CPU time per call, in µs: {sum(result.cpu_us.values()):,.0f} ({used})")
    click.echo(f"Creek ran {build_kind()}{COMPILE_HINT if build_kind() == 'interpreted' else ''}")
    print_errors(result)
