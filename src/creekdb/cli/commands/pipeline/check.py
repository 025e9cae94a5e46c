"""`creek pipeline check`: linearizability of observed calls, on Spark."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from creekdb.atomic_write import atomic_write
from creekdb.cli.commands.pipeline.group import (
    SparkArguments,
    require_packages,
    run_with_status,
    spark_session,
)
from creekdb.cli.declaration import argument, declared, option
from creekdb.cli.exit_codes import FAILURE, INCOMPLETE, SUCCESS
from creekdb.cli.model_loader import ModelArguments, load_model
from creekdb.cli.output import pluralize, print_json, print_lines
from creekdb.errors import UsageError

if TYPE_CHECKING:
    from creekdb.pipeline.spark.session import SparkSession

SHOWN_MAX: Final = 5
"""Upper bound for the printed counterexamples and reasons."""


@click.command(short_help="Check observed calls for linearizability.")
@declared
def check(
    calls: str = argument(metavar="CALLS"),
    *,
    model_arguments: ModelArguments,
    picture: Path | None = option("SVG file for the picture of a counterexample."),
    spark_arguments: SparkArguments,
    as_json: bool = option("Print the verdicts as JSON.", flag="--json"),
) -> int:
    """Check the calls in the JSON lines CALLS for linearizability, each object in a task of Spark.

    CALLS is a file, a directory of files, or a URI. The format and the models are those of 'creek
    check'. Exits with 1 if the calls on an object are illegal. Exits with 4 if none are, but the
    verdict on an object is unknown.

    \b
    Example:
      creek pipeline check calls.jsonl --model kv
    """
    with require_packages():
        from creekdb.pipeline.storage import Location  # noqa: PLC0415
    model = load_model(model_arguments.model, calls)
    location = Location.parse(calls)
    if not location.exists():
        raise UsageError(f"cannot read {location}: it does not exist; name a file of calls")

    def judge(spark: "SparkSession") -> list[Any]:
        from creekdb.pipeline.checks.blackbox import object_verdicts  # noqa: PLC0415

        lines = spark.read.text(location.uri)
        return object_verdicts(lines, model, model_arguments.steps).collect()

    with spark_session(spark_arguments, "creek: check") as spark:
        rows = run_with_status("checking", lambda: judge(spark), spark)
    illegal = [row for row in rows if row.verdict == "illegal"]
    if as_json:
        _print_json(rows, illegal)
    else:
        _print_objects(rows, illegal)
    if picture is not None and illegal:
        with atomic_write(picture) as partial:
            partial.write_text(illegal[0].picture)
    if illegal:
        return FAILURE
    return INCOMPLETE if any(row.verdict == "unknown" for row in rows) else SUCCESS


def _print_json(rows: list[Any], illegal: list[Any]) -> None:
    shown = [{name: row[name] for name in ("object", "calls", "detail")} for row in illegal]
    print_json({"objects": Counter(row.verdict for row in rows), "illegal": shown})


def _print_objects(rows: list[Any], illegal: list[Any]) -> None:
    undecided = [row for row in rows if row.verdict == "unknown"]
    print_lines(
        Text(f"{row.object}: {row.detail}", style)
        for group, style in ((illegal, "red"), (undecided, "yellow"))
        for row in group[:SHOWN_MAX]
    )
    count = sum(row.calls for row in rows)
    found = f"{len(illegal)} illegal" if illegal else "no violation"
    unknown = f", {len(undecided)} undecided" if undecided else ""
    objects = pluralize(len(rows), "object")
    click.echo(f"{pluralize(count, 'call')} on {objects} checked, {found}{unknown}")
