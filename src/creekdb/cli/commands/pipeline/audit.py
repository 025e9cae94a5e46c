"""`creek pipeline audit`: checks of a live cluster's history as it grows."""

from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from creekdb.cli.commands.pipeline.group import SparkArguments, require_packages, spark_session
from creekdb.cli.commands.pipeline.watch import (
    FeedArguments,
    StatusLine,
    clear_failures,
    end_on_interrupt,
)
from creekdb.cli.declaration import declared, option
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.output import command_name, pluralize, print_json, print_lines
from creekdb.server.changes.retention import parse_duration_s
from creekdb.server.runtime.config import load_datatype

if TYPE_CHECKING:
    from creekdb.pipeline.watch.auditor import AuditStep, Finding, Progress

SHOWN_MAX: Final = 5
"""Upper bound for the printed violations of a batch."""


@click.command(short_help="Check a live cluster's history as it grows.")
@declared
def audit(
    *,
    feed_arguments: FeedArguments,
    out: str = option("Output directory, or a URI. An earlier audit is continued.", "runs/audit"),
    datatype: str | None = option(
        "Data type of the cluster, such as kv or package.module:variable. Its operations are "
        "executed again, and must give the same responses and writes."
    ),
    clock_error: str = option(
        "Difference between the clocks of replicas that is no violation.", "1s", metavar="DURATION"
    ),
    as_json: bool = option("Print one JSON object per batch.", flag="--json"),
    spark_arguments: SparkArguments,
) -> int:
    """Follow a live cluster, compare its replicas, and check the order that they commit.

    The checks cover equal committed orders of all replicas, requests and calls that are committed
    once, the order of each replica's requests, and real time. With --datatype, they cover every
    response and write. Responses that clients received are not in the feed: for these, record a run
    or check calls with 'creek pipeline check'. The replicas must keep changes, and --datatype needs
    them from the first one on. Exits with 1 if a check was violated.

    \b
    Examples:
      creek pipeline audit --datatype kv
      creek pipeline audit --servers a:7100,b:7100 --out runs/audit --for 10m
    """
    with require_packages():
        from creekdb.pipeline.watch.auditor import (  # noqa: PLC0415
            Auditor,
            check_replayable,
            verdicts,
        )
        from creekdb.pipeline.watch.following import follow, open_directory  # noqa: PLC0415
        from creekdb.pipeline.watch.replay import Replay  # noqa: PLC0415
        from creekdb.pipeline.watch.source import ALL_ROWS  # noqa: PLC0415
    settings = feed_arguments.settings(out, "audit", ALL_ROWS, has_bodies=datatype is not None)
    clock_error_us = round(parse_duration_s("--clock-error", clock_error) * 1_000_000)
    replayed = None if datatype is None else load_datatype(datatype)
    line = StatusLine()
    with clear_failures("cannot audit the cluster"):
        if datatype is not None:
            check_replayable(settings.options, settings.out)
        open_directory(settings)
        with spark_session(spark_arguments, "creek: audit") as spark:
            replay = None if replayed is None else Replay(replayed, settings.out / "replay")
            auditor = Auditor(spark, settings.out, clock_error_us, replay)
            auditor.load_progress()

            def report(step: "AuditStep") -> None:
                if as_json:
                    print_json(_json_step(step))
                    return
                if step.findings:
                    line.end()
                    print_lines(_finding_lines(step.findings))
                line.show(_progress_text(step.progress))

            with end_on_interrupt():
                follow(
                    spark,
                    settings,
                    lambda batch: report(auditor.handle(batch)),
                    feed_arguments.time_limit(),
                )
            findings = auditor.violations
    line.end()
    result = verdicts(findings, replay is not None)
    if as_json:
        print_json({"verdicts": result, "violations": len(findings)})
    else:
        _print_verdicts(result, auditor.progress, len(findings), out)
    return FAILURE if findings else SUCCESS


def _json_step(step: "AuditStep") -> dict[str, Any]:
    return {
        "batch": step.batch,
        "progress": step.progress,
        "violations": step.findings,
    }


def _finding_lines(findings: list["Finding"]) -> list[Text]:
    shown = [
        Text(f"✗ {each.checker.replace('_', ' ')} at {each.index}: {each.detail}", "red")
        for each in findings[:SHOWN_MAX]
    ]
    more = len(findings) - len(shown)
    return shown + ([Text(f"… and {more} more")] if more else [])


def _progress_text(progress: "Progress") -> str:
    position = ", ".join(f"{replica}: {each}" for replica, each in progress.position.items())
    return (
        f"{pluralize(progress.compared, 'change')} checked, up to index {progress.frontier - 1}; "
        f"index of each replica: {position}"
    )


def _print_verdicts(
    result: dict[str, str], progress: "Progress", violations: int, out: str
) -> None:
    styles = {"ok": "green", "illegal": "red"}
    print_lines(
        Text.assemble((f"{verdict:8}", styles[verdict]), name.replace("_", " "))
        for name, verdict in result.items()
    )
    alone = f", {progress.alone} of them at one replica alone" if progress.alone else ""
    found = pluralize(violations, "violation") if violations else "no violation"
    click.echo(f"{pluralize(progress.compared, 'change')} checked{alone}: {found}")
    if violations:
        click.echo(f"the violations are in {out}/violations; see '{command_name()} changes'")
