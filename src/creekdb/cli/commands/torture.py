"""`creek torture`: random faults on real processes, with every checker."""

import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.progress import BarColumn, TimeElapsedColumn
from rich.text import Text

from creekdb.checkers import verdict_rows
from creekdb.checkers.blackbox.observations import ObservedCall
from creekdb.cli.commands.pipeline.group import require_packages
from creekdb.cli.declaration import argument, declared, option
from creekdb.cli.exit_codes import FAILURE, INCOMPLETE, SUCCESS
from creekdb.cli.model_loader import load_model
from creekdb.cli.options import AS_JSON, NEW_DIRECTORY, add_working_directory_to_path
from creekdb.cli.output import ProgressBar, command_name, pluralize, print_json, print_lines
from creekdb.cli.views.run_summary import verdict_lines
from creekdb.errors import UsageError
from creekdb.server.runtime.config import load_datatype
from creekdb.torture.campaign import (
    TortureConfig,
    TortureResult,
    run_torture,
    save_result,
)
from creekdb.torture.faults.nemesis import InjectedFault
from creekdb.torture.faults.plan import REPLICAS_MAX
from creekdb.torture.report import REPORT_FILE, render_report
from creekdb.torture.round import RUN_DIRECTORY, RoundResult
from creekdb.torture.workload import Subject, workload_of

if TYPE_CHECKING:
    from creekdb.torture.follower import MakeFeedStream

SPARK_MASTER = "local[2]"


@click.command(short_help="Inject random faults into real processes, and check them.")
@declared
def torture(
    datatype: str = argument(required=False, default="kv", metavar="[DATATYPE]"),
    *,
    minutes: float = option(
        "Duration, in minutes. The last round may exceed it.",
        5.0,
        click.FloatRange(0, 10_000, min_open=True),
    ),
    seed: int = option("Seed of the faults.", 1, click.IntRange(0)),
    replicas: int | None = option(
        "Number of replicas.  [default: 3 or 5, drawn for each round]",
        type=click.IntRange(1, REPLICAS_MAX),
    ),
    workload: str | None = option(
        "Function that draws the calls, as module:function.  [default: by signatures]",
        metavar="NAME",
    ),
    model: str | None = option(
        "Model or data type by which the strong calls must be linearizable, as module:variable.  "
        "[default: only for kv]",
        metavar="NAME",
    ),
    has_spark: bool = option(
        "Also read the change feed with a stream of Spark, through all faults.", flag="--spark"
    ),
    out: Path | None = option(
        "New directory for the report and for failed runs.  [default: a temporary one]",
        type=NEW_DIRECTORY,
    ),
    as_json: bool = AS_JSON,
) -> int:
    """Run replicas of DATATYPE as processes of this machine, and call them over TCP and HTTP.
    Meanwhile, inject faults into processes, links, disks and clocks, change the members, restart
    replicas and take backups. DATATYPE is bank, kv and so on, or module:variable, also from the
    working directory.

    The seed determines the faults, in rounds of 45 seconds. Each round heals all faults, waits
    until the replicas converge, and runs every checker. Exits with 1 at the first round that fails,
    and keeps its directory. Exits with 4 if no round failed, but a checker was inconclusive. The
    report has a timeline of the faults, the latencies and the throughput.

    Calls are drawn from the signatures of the operations. With --workload, your function draws
    them. It receives a random.Random and returns the name of an operation, its arguments, and True
    for a strong call. With --model, the strong calls must also be linearizable, as by 'creek
    check'.

    Most rounds keep changes. A follower then reads the change feed through all faults, and must
    have exactly the committed writes in the end. With --spark, so must a stream of Spark, which is
    stopped and started again every few seconds.

    \b
    Examples:
      creek torture --minutes 20 --seed 7
      creek torture bank --replicas 5 --out runs/torture
      creek torture shop:shop --workload shop:draw_call --minutes 1
    """
    add_working_directory_to_path()
    declared_type = load_datatype(datatype)
    source = workload_of(datatype, declared_type, workload)
    linearized = None if model is None else load_model(model, datatype)
    subject = Subject(datatype, declared_type, source, linearized)
    directory = _new_directory(out)
    # A background job of a shell ignores SIGINT, and its replicas would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config = TortureConfig(
        minutes=minutes,
        seed=seed,
        replicas=replicas,
        command=shlex.join(["creek", *sys.argv[1:]]),
    )
    with _feed_streams(has_spark) as make_stream, _TortureProgress(60 * minutes) as observer:
        result = run_torture(config, subject, directory, observer, make_stream)
    save_result(result, directory)
    report = directory / REPORT_FILE
    report.write_text(render_report(result))
    if as_json:
        print_json(_json_summary(result, directory, report))
    else:
        _print_summary(result, directory, report)
    if result.has_failed:
        return FAILURE
    return INCOMPLETE if result.is_inconclusive else SUCCESS


@contextmanager
def _feed_streams(has_spark: bool) -> "Iterator[MakeFeedStream | None]":
    """Start Spark, and yield a function that returns a stream, or None without Spark."""
    if not has_spark:
        yield None
        return
    with require_packages():
        from creekdb.pipeline.source.feed_copy import FeedCopy  # noqa: PLC0415
        from creekdb.pipeline.spark.failures import explained_failures  # noqa: PLC0415
        from creekdb.pipeline.spark.session import spark_session  # noqa: PLC0415
    with explained_failures(), spark_session(SPARK_MASTER, "creek: torture") as spark:
        yield lambda servers, directory: FeedCopy(spark, servers, directory)


def _new_directory(out: Path | None) -> Path:
    if out is None:
        return Path(tempfile.mkdtemp(prefix="creek-torture-"))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"cannot write to {out}: it is not an empty directory; name a new one")
    out.mkdir(parents=True, exist_ok=True)
    return out


def _print_summary(result: TortureResult, directory: Path, report: Path) -> None:
    print_lines(verdict_lines(result.verdicts))
    click.echo(
        f"{pluralize(result.faults, 'fault')}, {pluralize(result.calls, 'call')}, "
        f"{pluralize(len(result.rounds), 'round')} in {result.duration_s / 60:.1f} minutes"
    )
    click.echo(f"report: {report}")
    for undecided in [each for each in result.rounds if each.is_inconclusive]:
        run = directory / f"round-{undecided.number}" / RUN_DIRECTORY
        command = f"{command_name()} check {run} --steps N"
        click.echo(
            f"round {undecided.number} is inconclusive; continue the search with '{command}'",
            err=True,
        )
    if result.has_failed:
        failed = result.rounds[-1]
        for each in failed.failures:
            click.echo(f"round {failed.number} failed: {each}", err=True)
        kept = directory / f"round-{failed.number}"
        click.echo(f"seed {result.seed} failed in round {failed.number}, kept in {kept}", err=True)
        if (kept / RUN_DIRECTORY).exists():
            click.echo(f"check it with '{command_name()} check {kept / RUN_DIRECTORY}'", err=True)


def _json_summary(result: TortureResult, directory: Path, report: Path) -> dict[str, object]:
    kinds = [fault.kind.value for each in result.rounds for fault in each.faults]
    return {
        "datatype": result.datatype,
        "seed": result.seed,
        "duration_s": result.duration_s,
        "rounds": len(result.rounds),
        "calls": result.calls,
        "faults": result.faults,
        "faults_by_kind": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "verdicts": verdict_rows(result.verdicts),
        "failures": [text for each in result.rounds for text in each.failures],
        "failed": result.has_failed,
        "inconclusive_rounds": [each.number for each in result.rounds if each.is_inconclusive],
        "directory": str(directory),
        "report": str(report),
    }


class _TortureProgress(ProgressBar):
    """Rounds as lines, and the time as a bar on a terminal."""

    def __init__(self, total_s: float) -> None:
        super().__init__(
            *(BarColumn(), TimeElapsedColumn(), "round {task.fields[round]}:"),
            *("{task.fields[stage]}, {task.fields[faults]} faults, {task.fields[calls]} calls"),
            total=total_s,
            round=0,
            stage="starting",
            faults=0,
            calls=0,
        )
        self._faults = 0
        self._calls = 0

    def on_round(self, number: int, replicas: int, elapsed_s: float) -> None:
        self.update(round=number, completed=elapsed_s)

    def on_stage(self, text: str) -> None:
        self.update(stage=text)

    def on_fault(self, fault: InjectedFault) -> None:
        self._faults += 1
        self.update(faults=self._faults, completed=fault.end_s)

    def on_call(self, call: ObservedCall) -> None:
        self._calls += 1
        self.update(calls=self._calls)

    def on_result(self, result: RoundResult) -> None:
        faults = "; ".join(f"{each.kind.value} ({each.detail})" for each in result.faults)
        outcome, style = "ok", "dim"
        if result.has_failed:
            outcome, style = "failed", "bold red"
        elif result.is_inconclusive:
            outcome, style = "inconclusive", "yellow"
        self.print(
            Text.assemble(
                (f"round {result.number} {outcome}", style),
                f": {pluralize(result.replicas, 'replica')}, "
                f"{result.end_s - result.begin_s:.0f} s, "
                f"{pluralize(result.calls, 'call')}; {faults}",
            )
        )
