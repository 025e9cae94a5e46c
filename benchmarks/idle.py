"""Processor time of idle replicas: `python -m benchmarks.idle`.

Three replicas run without clients, as those of `creek up`. Their user and system time is that of
`/proc`. On a busy machine it is somewhat higher, since caches are colder.
"""

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from benchmarks.process_trees import cpu_seconds
from benchmarks.result import Result
from creekdb.execution.python_runtime import build_kind
from creekdb.load.local_cluster import LocalCluster
from creekdb.wire.event_loop import run_in_new_loop

REPLICAS: Final = 3
BAR: Final = 0.01
"""Upper bound for the share of a core that an idle replica takes, as a mean of all replicas."""


def measure_idle(processes: Mapping[str, int], seconds: float) -> Result:
    """Measure the processor time of these processes for a while."""
    before = {name: cpu_seconds([process]) for name, process in processes.items()}
    started_s = time.monotonic()
    time.sleep(seconds)
    duration_s = time.monotonic() - started_s
    shares = [
        (cpu_seconds([process]) - before[name]) / duration_s for name, process in processes.items()
    ]
    return Result(
        what="share of a core that an idle replica takes",
        explanation=(
            f"Mean of {len(shares)} replicas over {duration_s:.0f} s without calls: "
            f"{', '.join(f'{share:.1%}' for share in shares)}."
        ),
        value=sum(shares) / len(shares) * 100,
        unit="%",
        bar=BAR * 100,
    )


@click.command()
@click.option("--seconds", default=30.0, show_default=True, help="Duration of the measurement.")
def main(seconds: float) -> None:
    """Print the share of a core that an idle replica takes. Exits with 1 above the bar of 1 %.

    Example: python -m benchmarks.idle --seconds 60
    """
    with (
        tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as directory,
        LocalCluster(Path(directory), replicas=REPLICAS, http=True) as cluster,
    ):
        cluster.start()
        run_in_new_loop(cluster.wait_until_ready())
        result = measure_idle(cluster.processes, seconds)
    click.echo(f"{build_kind()}: {result.value:.2f} % of a core. {result.explanation}")
    click.echo(f"bar: {result.bar:g} %: {result.verdict}")
    if result.missed:
        sys.exit(1)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.idle")
