"""`creek pipeline watch`: measurements of a live cluster, from its change feed."""

import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from creekdb.cli.commands.pipeline.group import (
    SparkArguments,
    can_redraw,
    require_packages,
    spark_session,
)
from creekdb.cli.declaration import declared, option
from creekdb.cli.exit_codes import SUCCESS, CommandFailed
from creekdb.cli.output import pluralize, print_json, stderr_console
from creekdb.cli.target import AUTHORITY, DEFAULT_ADDRESSES
from creekdb.client.errors import CallFailed
from creekdb.errors import ChangesUnavailable, UsageError
from creekdb.server.changes.retention import parse_duration_s
from creekdb.wire.changes import parse_start

if TYPE_CHECKING:
    from creekdb.pipeline.watch.following import FollowSettings
    from creekdb.pipeline.watch.watcher import WatchProgress

REPORT_INTERVAL_S: Final = 10.0


class FeedArguments(NamedTuple):
    """Options of the commands that follow a cluster on Spark."""

    servers: str = option(
        "Client addresses of all replicas, separated by commas.  "
        "[default: the first three replicas of 'creek up']",
        ",".join(DEFAULT_ADDRESSES),
        metavar="HOST:PORT,…",
        envvar="CREEK_AT",
        show_envvar=True,
        show_default=False,
    )
    token_file: Path | None = option("File with the token of the client.")
    authority: str | None = AUTHORITY
    start: str = option(
        "Index of the first change, 'earliest' or 'latest'. A directory that exists continues "
        "where it was.",
        "earliest",
    )
    duration: str = option(
        "Time after which the command stops; 0 for no limit.",
        "0",
        flag="--for",
        metavar="DURATION",
    )
    interval: str = option("Interval between batches.", "5s", metavar="DURATION")
    patience: str = option(
        "Time after which a replica that does not respond is left out.", "10s", metavar="DURATION"
    )

    def settings(self, out: str, kind: str, rows: str, has_bodies: bool) -> "FollowSettings":
        from creekdb.pipeline.storage import Location  # noqa: PLC0415
        from creekdb.pipeline.watch.feeds import ClusterAccess, parse_servers  # noqa: PLC0415
        from creekdb.pipeline.watch.following import FollowSettings  # noqa: PLC0415
        from creekdb.pipeline.watch.source import FeedOptions, read_token  # noqa: PLC0415

        start = parse_start(self.start)
        if start is None:
            raise UsageError(
                f"--start is '{self.start}': it must be earliest, latest or an index of at least 1"
            )
        access = ClusterAccess(
            parse_servers(self.servers), read_token(self.token_file), self.authority
        )
        parse_duration_s("--for", self.duration)  # an error before Spark starts
        patience_s = parse_duration_s("--patience", self.patience)
        options = FeedOptions(access, rows, start, patience_s, has_bodies=has_bodies)
        interval_s = parse_duration_s("--interval", self.interval)
        return FollowSettings(options, Location.parse(out), kind, interval_s, self.token_file)

    def time_limit(self) -> Callable[[], bool]:
        """Return a function that returns True once the time is over, counted from now."""
        seconds = parse_duration_s("--for", self.duration)
        deadline = time.monotonic() + seconds
        return lambda: bool(seconds) and time.monotonic() >= deadline


@contextmanager
def clear_failures(what: str) -> Iterator[None]:
    """Report errors of the cluster as failures of the command."""
    try:
        yield
    except (CallFailed, ChangesUnavailable) as error:
        raise CommandFailed(f"{what}: {error}") from error


@contextmanager
def end_on_interrupt() -> Iterator[None]:
    """Continue after the body if Ctrl-C ends it."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("", err=True)


class StatusLine:
    """One line that is replaced on a terminal, and printed at times elsewhere."""

    def __init__(self) -> None:
        self._console = stderr_console()
        self._reported_s = -REPORT_INTERVAL_S
        self._is_shown = False

    def show(self, text: str) -> None:
        if can_redraw(self._console):
            self._console.file.write(f"\r\x1b[2K{text}")
            self._console.file.flush()
            self._is_shown = True
        elif time.monotonic() - self._reported_s >= REPORT_INTERVAL_S:
            self._reported_s = time.monotonic()
            click.echo(text, err=True)

    def end(self) -> None:
        """Leave the line as it is."""
        if self._is_shown:
            self._console.file.write("\n")
            self._is_shown = False


@click.command(short_help="Measure a live cluster as it commits.")
@declared
def watch(
    *,
    feed_arguments: FeedArguments,
    out: str = option("Output directory, or a URI. An earlier watch is continued.", "runs/watch"),
    step: str = option("Time step of the tables.", "1s", metavar="DURATION"),
    window: str = option("Time that the page covers.", "15m", metavar="DURATION"),
    is_opened: bool = option("Open the page in a browser.", flag="--open"),
    as_json: bool = option("Print one JSON object per batch.", flag="--json"),
    spark_arguments: SparkArguments,
) -> int:
    """Follow a live cluster, and keep its throughput, commit latencies, apologies and hot keys.

    OUT/watch.html shows them and refreshes by itself. The tables in OUT are Parquet. The replicas
    must keep changes: start them with --keep-changes. Ctrl-C ends the watch, and the same command
    continues it without a gap. Name all replicas: each one reports the apologies of its own calls.

    \b
    Examples:
      creek up --keep-changes 24h
      creek pipeline watch --open
      creek pipeline watch --servers a:7100,b:7100 --out runs/shop --for 60s
    """
    with require_packages():
        from creekdb.pipeline.watch.following import follow, open_directory  # noqa: PLC0415
        from creekdb.pipeline.watch.page import PAGE_FILE  # noqa: PLC0415
        from creekdb.pipeline.watch.source import OWN_ROWS  # noqa: PLC0415
        from creekdb.pipeline.watch.watcher import Watcher  # noqa: PLC0415
    settings = feed_arguments.settings(out, "watch", OWN_ROWS, has_bodies=False)
    times = (parse_duration_s("--step", step), parse_duration_s("--window", window))
    if not all(times):
        raise UsageError("--step and --window must be more than 0")
    line = StatusLine()
    with clear_failures("cannot watch the cluster"):
        manifest = open_directory(settings)
        with spark_session(spark_arguments, "creek: watch") as spark:
            watcher = Watcher(spark, settings.out, manifest, *times, settings.interval_s)
            watcher.refresh(is_over=False)
            page = settings.out / PAGE_FILE
            if is_opened:
                webbrowser.open(page.uri)

            def report(progress: "WatchProgress") -> None:
                if as_json:
                    print_json(progress._asdict())
                    sys.stdout.flush()
                else:
                    line.show(progress_text(progress))

            with end_on_interrupt():
                follow(
                    spark,
                    settings,
                    lambda batch: report(watcher.handle(batch)),
                    feed_arguments.time_limit(),
                )
            line.end()
            watcher.refresh(is_over=True)
    if not as_json:
        click.echo(f"{pluralize(watcher.total, 'change')} in {settings.out}; the page is {page}")
    return SUCCESS


def progress_text(progress: "WatchProgress") -> str:
    behind = "" if progress.behind_s is None else f", {progress.behind_s:.1f} s behind"
    index = ", ".join(f"{replica}: {each}" for replica, each in progress.position.items())
    return (
        f"{pluralize(progress.total, 'change')}, apologies: {progress.apologies}, "
        f"index of each replica: {index}{behind}"
    )
