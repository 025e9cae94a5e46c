"""Where a live replica's time goes: `python -m benchmarks.profile`.

Three replicas are put under load, and one of them is looked at many times a second. Each look that
finds it at work, not waiting, is put down to the function that runs, and to the file of Creek that
called it.

Interpreted, py-spy looks, which must be on the path; what system calls take is not seen that way.
Compiled (`PYTHONPATH=build/compiled`), Linux's perf looks: it sees the functions that are compiled,
system calls and the garbage collector, and not the functions of Python in between.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.live_tpcc import DATATYPE
from creekdb.execution.python_runtime import build_kind
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import CpuClock, LoadMeter
from creekdb.load.workload import Workload, kv_workload, tpcc_workload
from creekdb.wire.event_loop import run_in_new_loop

RATE = 400
"""Looks in a second."""


@click.command()
@click.option("--workload", type=click.Choice(["kv", "tpcc"]), default="kv", show_default=True)
@click.option("--strong", default=0.0, show_default=True, help="The share of strong calls.")
@click.option("--clients", default=128, show_default=True)
@click.option("--seconds", default=8.0, show_default=True)
@click.option("--replica", default=0, show_default=True, help="Which one is looked at.")
@click.option("--top", default=30, show_default=True)
def main(
    workload: str, strong: float, clients: int, seconds: float, replica: int, top: int
) -> None:
    """Print where the time of a replica goes.

    Example: python -m benchmarks.profile --strong 1
    """
    tool = "perf" if build_kind() == "compiled" else "py-spy"
    spy = shutil.which(tool)
    if spy is None:
        hint = "pip install py-spy" if tool == "py-spy" else "apt-get install linux-perf"
        raise click.ClickException(f"{tool} is not there: install it with '{hint}'")
    with tempfile.TemporaryDirectory(prefix=".profile-", dir=Path.cwd()) as folder:
        datatype = "kv" if workload == "kv" else DATATYPE
        cluster = LocalCluster(Path(folder), replicas=3, datatype=datatype)
        stream = (
            kv_workload(keys=10_000, value_bytes=256, reads=0.0, strong=strong, seed=0)
            if workload == "kv"
            else tpcc_workload(DATATYPE, 3, None, 0)
        )
        cluster.start()
        try:
            meter, cpu, raw = run_in_new_loop(
                _profiled(spy, cluster, stream, clients, seconds, replica, Path(folder))
            )
        finally:
            cluster.stop()
    _show(meter, cpu, raw, replica, top)


async def _profiled(
    spy: str,
    cluster: LocalCluster,
    stream: Workload,
    clients: int,
    seconds: float,
    replica: int,
    folder: Path,
) -> tuple[LoadMeter, CpuClock, str]:
    await cluster.wait_until_ready()
    cpu = CpuClock(cluster.processes)
    out = folder / "raw"
    process_id = str(cluster.processes[f"replica {replica}"])
    command = [spy, "record", "--pid", process_id]
    if build_kind() == "compiled":
        command += ["--freq", str(RATE), "--call-graph", "dwarf,16384", "--output", str(out)]
        command += ["--", "sleep", str(int(seconds))]
    else:
        command += ["--format", "raw", "--output", str(out), "--rate", str(RATE)]
        command += ["--nonblocking", "--gil", "--duration", str(int(seconds))]

    async def look(_: LoadMeter) -> None:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await process.wait()

    meter = await generate_load(
        LoadPlan(
            cluster.addresses,
            stream,
            warm_up_s=2.0,
            duration_s=seconds,
            clients=clients,
            cpu=cpu,
            during=look,
        )
    )
    return meter, cpu, _folded(spy, out) if build_kind() == "compiled" else out.read_text()


def _folded(perf: str, recorded: Path) -> str:
    """What perf saw, in the form of py-spy: stacks from the outermost call on, and how often."""
    script = [perf, "script", "--input", str(recorded), "--fields", "tid,ip,sym"]
    said = subprocess.run(script, capture_output=True, text=True, errors="replace", check=True)
    stacks: Counter[str] = Counter()
    for sample in said.stdout.split("\n\n"):
        symbols = [
            line.split(None, 1)[1] for line in sample.splitlines()[1:] if " " in line.strip()
        ]
        found = [frame for each in reversed(symbols) if (frame := _frame(each)) is not None]
        stacks[";".join(found or ["elsewhere (elsewhere:0)"])] += 1
    return "\n".join(f"{stack} {count}" for stack, count in stacks.items())


def _frame(symbol: str) -> str | None:
    """A compiled function by its file in Creek; the collector, and the system."""
    compiled = re.match(r"CPyDef_([a-z_]+?)___(\w+)", symbol)
    if compiled is not None:
        return f"{compiled[2]} (creek/{compiled[1]}:0)"
    if "gc_collect_main" in symbol:
        return "collect (creek/garbage:0)"
    return "system call (creek/system:0)" if symbol.startswith("do_syscall") else None


def _show(meter: LoadMeter, cpu: CpuClock, raw: str, replica: int, top: int) -> None:
    own: Counter[str] = Counter()
    through: Counter[str] = Counter()
    files: Counter[str] = Counter()
    total = 0
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        names = [_short(each) for each in stack.split(";") if "(" in each]
        if not names:
            continue  # it changed while it was looked at
        total += int(count)
        own[names[-1]] += int(count)
        for each in set(names):
            through[each] += int(count)
        ours = [each for each in names if each.startswith("creek/")]
        files[ours[-1].split(" ")[0] if ours else "outside"] += int(count)
    console = Console()
    used_us = cpu.used_s[f"replica {replica}"] * 1e6 / max(1, meter.completed)
    console.print(
        f"{meter.completed / meter.duration_s:,.0f} calls a second; replica {replica} "
        f"needs {used_us:.0f} µs for each, the load "
        f"{cpu.used_s['the load'] * 1e6 / meter.completed:.0f}"
    )
    for title, counted in (("file", files), ("itself", own), ("with what it calls", through)):
        table = Table(box=None, header_style="dim")
        table.add_column("share", justify="right")
        table.add_column("µs a call", justify="right")
        table.add_column(title)
        for name, looks in counted.most_common(top):
            share = looks / total
            table.add_row(f"{share:.1%}", f"{share * used_us:.1f}", name)
        console.print(table)


def _short(frame: str) -> str:
    """`function (path:line)` as `path function`, without the line."""
    name, _, where = frame.partition(" (")
    path = where.rpartition(":")[0]
    inside = path.rpartition(f"creek{os.sep}")[2] if "creek" in path else path
    return f"{'creek/' if inside != path else ''}{inside} {name}"


if __name__ == "__main__":
    sys.exit(main(prog_name="python -m benchmarks.profile"))
