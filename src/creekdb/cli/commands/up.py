"""`creek up`: a development cluster on this machine, with a table of its replicas.

Each replica is a process. The page of the cluster can kill and start replicas, and cut links.
"""

import asyncio
import secrets
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Set
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import click
import msgspec
from rich.console import Group
from rich.live import Live
from rich.text import Text

from creekdb.cli.declaration import declared, option
from creekdb.cli.dev_cluster import ControlFile, control_path, published_control
from creekdb.cli.options import DIRECTORY, add_working_directory_to_path
from creekdb.cli.output import command_name, pluralize, stdout_console
from creekdb.cli.views.replicas import STARTING, ReplicaRow, replicas_table, state_text
from creekdb.client import NotDone, connect
from creekdb.errors import UsageError
from creekdb.execution.datatype import DataType
from creekdb.load.local_cluster import HTTP_PORT_OFFSET, PEER_PORT_OFFSET, LocalCluster, bind_error
from creekdb.server.changes.retention import parse_duration_s
from creekdb.server.runtime.config import load_datatype
from creekdb.wire.addresses import parse_address
from creekdb.wire.dev_control import STOP_TIMEOUT_S, DevControl
from creekdb.wire.event_log import EventName


class LocalFaultInjector:
    """`FaultPort` of a local cluster. `report` receives a line for each injected fault."""

    def __init__(self, cluster: LocalCluster, report: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._report = report
        self._pages = {
            replica: f"http://{address}" for replica, address in enumerate(cluster.http_addresses)
        }

    @asynccontextmanager
    async def serve_control(self) -> AsyncIterator[None]:
        """Run the endpoint through which pages inject faults."""
        from creekdb.http.page.fault_control import FaultControlServer  # noqa: PLC0415 - slow import

        secret = secrets.token_urlsafe(16)
        control = FaultControlServer(self, self._pages.values(), secret)
        await control.start()
        self._cluster.set_dev_control(
            DevControl(control=control.address, secret=secret, pages=self._pages)
        )
        origin, *_ = self._pages.values()
        file = ControlFile(control.address, secret, origin, len(self._pages))
        try:
            with published_control(
                control_path(parse_address(self._cluster.addresses[0])[1]), file
            ):
                yield
        finally:
            await control.stop()

    def kill(self, replica: int) -> None:
        self._check_replica(replica)
        if self._cluster.is_running(replica):
            self._cluster.kill(replica)
            self._report(f"replica {replica} was killed on request")

    def start(self, replica: int) -> None:
        self._check_replica(replica)
        if not self._cluster.is_running(replica):
            self._cluster.start(replica)
            self._report(f"replica {replica} was started on request")

    def cut(self, links: Iterable[tuple[int, int]]) -> None:
        self._set_cut_links(self._cluster.cut_links | self._checked_links(links), "cut")

    def heal(self, links: Iterable[tuple[int, int]]) -> None:
        self._set_cut_links(self._cluster.cut_links - self._checked_links(links), "healed")

    def _set_cut_links(self, links: Set[tuple[int, int]], change: str) -> None:
        changed = sorted(links ^ self._cluster.cut_links)
        self._cluster.set_cut_links(links)
        for one, other in changed:
            self._report(f"the link between {one} and {other} is {change}")

    def _checked_links(self, links: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return the links with the smaller number first.

        One end must be a replica of this command, which then drops the link. The other end may be a
        replica that joined later.
        """
        checked = set()
        for one, other in links:
            if one == other:
                raise UsageError(f"replica {one} has no link to itself: name two replicas")
            if not self._pages.keys() & {one, other}:
                self._check_replica(one)
            checked.add((min(one, other), max(one, other)))
        return checked

    def _check_replica(self, replica: int) -> None:
        if replica not in self._pages:
            last = len(self._pages) - 1
            raise UsageError(f"unknown replica {replica}: replicas are 0 to {last}")


POLL_INTERVAL_S: Final = 0.5
EVENTS_SHOWN: Final = 6
CLUSTER_FILE: Final = "cluster.json"


class _ClusterFile(msgspec.Struct, forbid_unknown_fields=True):
    """Cluster to which the data in a directory belongs."""

    replicas: int
    datatype: str


@click.command(short_help="Run a development cluster on this machine.")
@declared
def up(
    *,
    replicas: int = option(
        "Number of replicas; strong calls require a majority of them.", 3, click.IntRange(1, 15)
    ),
    datatype: str = option(
        "Replicated data type: kv, bank, …, or package.module:variable, also from the working "
        "directory.",
        "kv",
    ),
    directory: Path | None = option(
        "Directory for the data, to continue later.  [default: a temporary directory]",
        type=DIRECTORY,
        flag="--data",
    ),
    port: int = option(
        "Client port of replica 0; the other replicas use the following ports.",
        7100,
        click.IntRange(1024, 65_000),
    ),
    durability: Literal["disk", "memory"] = option(
        "Whether a tentative response waits for the disk.", "disk"
    ),
    keep_changes: str = option(
        "Retention of the change feed, such as 24h, 30m or 7d; 0 for no feed. See 'creek changes'.",
        "0",
        metavar="DURATION",
    ),
    before_images: bool = option(
        "Also keep the values before each change in the feed; requires --keep-changes."
    ),
) -> None:
    """Run a cluster on this machine, one process per replica, and show its state until Ctrl-C. Each
    replica serves a live page of the cluster. The page and the commands cut, kill and heal inject
    faults. A replica that a signal kills is restarted; one that exits by itself is not.

    \b
    Examples:
      creek up
      creek up --replicas 5 --data trial --keep-changes 24h
      creek up --datatype shop.stock:shop --port 7500
    """
    add_working_directory_to_path()
    keeps_changes = parse_duration_s("--keep-changes", keep_changes) > 0
    if before_images and not keeps_changes:
        raise UsageError("--before-images requires --keep-changes: set the retention, such as 24h")
    loaded = load_datatype(datatype)
    _check_ports_free(port, replicas)
    with _data_directory(directory, _ClusterFile(replicas, datatype)) as data_dir:
        options = ["--durability", durability, "--keep-changes", keep_changes]
        if before_images:
            options.append("--before-images")
        cluster = LocalCluster(
            data_dir, replicas=replicas, datatype=datatype, options=options, port=port, http=True
        )
        _print_introduction(cluster, loaded, directory)
        cluster.start()
        try:
            asyncio.run(_ClusterView(cluster).run())
        finally:
            for replica in cluster.stop(STOP_TIMEOUT_S):
                click.echo(
                    f"replica {replica} did not stop within {STOP_TIMEOUT_S:g} s and was killed"
                )
    click.echo("stopped" if directory is None else f"stopped; continue with --data {directory}")


def _check_directory(directory: Path, identity: _ClusterFile) -> None:
    """Reject a directory with other files, or with the data of another cluster."""
    path = directory / CLUSTER_FILE
    if not path.exists():
        if directory.is_dir() and any(directory.iterdir()):
            raise UsageError(f"{directory} contains other files: name an empty or a new directory")
        return
    try:
        existing = msgspec.json.decode(path.read_bytes(), type=_ClusterFile)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: {error}") from error
    if existing != identity:
        options = f"--replicas {existing.replicas} --datatype {existing.datatype}"
        raise UsageError(f"{directory} belongs to another cluster: add {options}")


@contextmanager
def _data_directory(directory: Path | None, identity: _ClusterFile) -> Iterator[Path]:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="creek-") as temporary:
            yield Path(temporary)
    else:
        _check_directory(directory, identity)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / CLUSTER_FILE).write_bytes(msgspec.json.encode(identity))
        yield directory


def _check_ports_free(first: int, replicas: int) -> None:
    numbers = range(first, first + replicas)
    for port in [
        each + offset for offset in (0, PEER_PORT_OFFSET, HTTP_PORT_OFFSET) for each in numbers
    ]:
        if (error := bind_error(port)) is not None:
            raise UsageError(
                f"cannot use port {port}: {error.strerror}; another cluster may be running, "
                "choose other ports with --port"
            )


def _print_introduction(cluster: LocalCluster, datatype: DataType, directory: Path | None) -> None:
    name, address = command_name(), cluster.addresses[0]
    option = "" if address.endswith(":7100") else f" --at {address}"
    if datatype.name == "kv":
        calls = f"{name} call{option} put lamp 3", f"{name} call{option} get lamp --strong"
        width = max(map(len, calls))
        notes = zip(calls, ("weak: at once", "strong: linearizable"), strict=True)
        examples = [f"{call:{width}}  # {note}" for call, note in notes]
        python = 'db.weak.put("lamp", 3); print(db.strong.get("lamp"))'
    else:
        signatures = (f"    {datatype.signature(each)}" for each in datatype.operations)
        examples = [f"{name} call{option} OPERATION ARGUMENT … [--strong]", *signatures]
        python = "db.weak.OPERATION(…); db.strong.OPERATION(…)"
    kept = f"is in {directory}" if directory else "is deleted at the end; --data keeps it"
    lines = "\n  ".join([*examples, f"{name} status{option}"])
    click.echo(f"""\
{pluralize(len(cluster.addresses), "replica")} of '{datatype.name}' on this machine, until Ctrl-C.
The data {kept}.

  http://{cluster.http_addresses[0]}    # live page: watch, call operations, cut links

  {lines}

  import creekdb
  with creekdb.connect("{",".join(cluster.addresses)}") as db:
      {python}
""")


class _ClusterView:
    """Polls and supervises all replicas, and shows them.

    The output is a live table on a terminal, and a line for each event elsewhere.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._rows = [
            ReplicaRow(str(replica), address, None, STARTING)
            for replica, address in enumerate(cluster.addresses)
        ]
        self._last_progress: dict[int, tuple[float, int]] = {}
        self._leader: int | None = None
        self._long_operations = {
            each: cluster.last_event_text(each, EventName.OPERATION_LONG)
            for each in range(len(self._rows))
        }
        self._output_read = {
            each: cluster.output_path(each).stat().st_size for each in range(len(self._rows))
        }
        self._operation_errors: set[str] = set()
        self._events: list[str] = []
        self._console = stdout_console()

    async def run(self) -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        polls = [loop.create_task(self._poll_status(each)) for each in range(len(self._rows))]
        try:
            with self._display() as draw:
                draw()
                async with LocalFaultInjector(self._cluster, self._report).serve_control():
                    while not stopped.is_set():
                        self._supervise()
                        draw()
                        with suppress(TimeoutError):
                            await asyncio.wait_for(stopped.wait(), POLL_INTERVAL_S)
        finally:
            for task in polls:
                task.cancel()
            await asyncio.gather(*polls, return_exceptions=True)

    @contextmanager
    def _display(self) -> Iterator[Callable[[], None]]:
        if self._console.is_terminal:
            with Live(console=self._console, auto_refresh=False) as live:
                yield lambda: live.update(self._render(), refresh=True)
        else:
            yield lambda: None

    async def _poll_status(self, replica: int) -> None:
        address = self._cluster.addresses[replica]
        while True:
            try:
                async with connect(
                    address, timeout=4 * POLL_INTERVAL_S, patience=POLL_INTERVAL_S
                ) as db:
                    while True:
                        self._on_status(replica, await db.status())
                        await asyncio.sleep(POLL_INTERVAL_S)
            except (NotDone, UsageError):
                self._on_unreachable(replica)
                await asyncio.sleep(POLL_INTERVAL_S / 2)

    def _on_status(self, replica: int, status: dict[str, Any]) -> None:
        now, length = time.monotonic(), status["committed"] + status["tentative"]
        before = self._last_progress.get(replica)
        rate = None
        if before is not None and now > before[0]:
            rate = max(0, length - before[1]) / (now - before[0])
        self._last_progress[replica] = now, length
        row = self._rows[replica]
        if row.status is None:
            self._report(f"replica {replica} is up at {row.address}")
        self._rows[replica] = row._replace(
            status=status, state=state_text(status), operations_per_s=rate
        )
        leader = status["leader"]
        if leader == replica != self._leader and self._rows[replica].state == "up":
            self._leader = leader
            self._report(f"replica {leader} is the leader")

    def _on_unreachable(self, replica: int) -> None:
        if self._rows[replica].status is not None:
            self._report(f"replica {replica} is unreachable")
            self._last_progress.pop(replica, None)
            self._set_absent(replica, "unreachable")

    def _set_absent(self, replica: int, state: str) -> None:
        row = self._rows[replica]
        self._rows[replica] = row._replace(status=None, state=state, operations_per_s=None)

    def _supervise(self) -> None:
        for replica in range(len(self._rows)):
            self._report_operation_errors(replica)
        for replica, code in self._cluster.reap_exited().items():
            if code < 0:
                self._report(f"replica {replica} was killed by signal {-code} and is restarted")
                self._cluster.start(replica)
                self._set_absent(replica, STARTING)
            else:
                self._report(f"replica {replica} exited: {self._exit_reason(replica, code)}")
                self._set_absent(replica, "exited")
                if all(each.state == "exited" for each in self._rows):
                    self._report(
                        "all replicas have exited: press Ctrl-C, fix the reported causes, restart"
                    )
        for replica, row in enumerate(self._rows):
            if row.state == "unreachable":
                self._report_long_operation(replica)

    def _exit_reason(self, replica: int, code: int) -> str:
        if code:
            return self._cluster.last_output_line(replica)
        removed = self._cluster.last_event_text(replica, EventName.REPLICA_REMOVED)
        return removed or "stopped on request; the page can start it again"

    def _report_operation_errors(self, replica: int) -> None:
        """Report the errors that operations raised, each of them once for all replicas."""
        texts, self._output_read[replica] = self._cluster.read_event_texts(
            replica, EventName.OPERATION_RAISED, self._output_read[replica]
        )
        for text in texts:
            error = text.partition("; later errors")[0]
            if error not in self._operation_errors:
                self._operation_errors.add(error)
                self._report(f"{error}; traceback: {self._cluster.output_path(replica)}")

    def _report_long_operation(self, replica: int) -> None:
        """Report the long operation of a replica that cannot respond, from its log."""
        text = self._cluster.last_event_text(replica, EventName.OPERATION_LONG)
        if text is not None and text != self._long_operations[replica]:
            self._long_operations[replica] = text
            self._report(f"replica {replica}: {text}")

    def _report(self, event: str) -> None:
        if self._console.is_terminal:
            self._events = [*self._events, f"{time.strftime('%H:%M:%S')}  {event}"][-EVENTS_SHOWN:]
        else:
            click.echo(event)

    def _render(self) -> Group:
        events = [Text(event, style="dim") for event in self._events]
        return Group(replicas_table(self._rows, self._console.width, live=True), Text(), *events)
