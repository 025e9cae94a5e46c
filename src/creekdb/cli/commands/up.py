"""What `creek up` lets people do to its replicas, on their page: kill and start them, cut links.

`creek up`: a cluster on this machine, one process for each replica, with a view of them.
"""

import asyncio
import secrets
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich.console import Group
from rich.live import Live
from rich.text import Text

from creekdb.cli.exit_codes import SUCCESS
from creekdb.cli.options import add_working_directory_to_path
from creekdb.cli.output import command_name, pluralize, stdout_console
from creekdb.cli.views.replicas import STARTING, ReplicaRow, replicas_table, state_text
from creekdb.client import NotDone, connect
from creekdb.errors import UsageError
from creekdb.execution.datatype import DataType
from creekdb.load.local_cluster import HTTP_PORT_OFFSET, PEER_PORT_OFFSET, LocalCluster
from creekdb.server.runtime.config import load_datatype
from creekdb.wire.dev_control import STOP_TIMEOUT_S, DevControl, encode_dev_control
from creekdb.wire.event_log import OPERATION_LONG, REPLICA_REMOVED


class LocalFaultInjector:
    """`tell` is told what was done."""

    def __init__(self, cluster: LocalCluster, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._report = tell
        self._cut_links: set[tuple[int, int]] = set()
        self._control = ""
        self._secret = secrets.token_urlsafe(16)
        self._pages = {replica: f"http://{at}" for replica, at in enumerate(cluster.http_addresses)}

    @asynccontextmanager
    async def serve_control(self) -> AsyncIterator[None]:
        """By pages, for so long."""
        from creekdb.http.page.fault_control import FaultControlServer  # noqa: PLC0415 - it takes its time

        control = FaultControlServer(self, self._pages.values(), self._secret)
        await control.start()
        self._control = control.address
        self._cluster.control_line = self._control_line
        self._send_to_all()
        try:
            yield
        finally:
            await control.stop()

    def kill(self, replica: int) -> None:
        self._check_replica(replica)
        if self._cluster.is_running(replica):
            self._cluster.kill(replica)
            self._report(f"replica {replica} was killed, on the page")

    def start(self, replica: int) -> None:
        self._check_replica(replica)
        if not self._cluster.is_running(replica):
            self._cluster.start(replica)
            self._report(f"replica {replica} is started again")

    def cut(self, links: Iterable[tuple[int, int]]) -> None:
        wanted = self._checked_links(links)
        self._set_cut_links(self._cut_links | wanted, "cut", wanted - self._cut_links)

    def heal(self, links: Iterable[tuple[int, int]]) -> None:
        wanted = self._checked_links(links)
        self._set_cut_links(self._cut_links - wanted, "healed", wanted & self._cut_links)

    def _set_cut_links(
        self, cut: set[tuple[int, int]], done: str, to: Iterable[tuple[int, int]]
    ) -> None:
        self._cut_links = cut
        self._send_to_all()
        for one, other in sorted(to):
            self._report(f"the link between {one} and {other} is {done}")

    def _checked_links(self, links: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Each with the smaller number first. One of both must be ours: it does without the link to
        the other, which may have joined later."""
        found = set()
        for one, other in links:
            if one == other:
                raise UsageError(f"replica {one} has no link to itself")
            if not self._pages.keys() & {one, other}:
                self._check_replica(one)
            found.add((min(one, other), max(one, other)))
        return found

    def _check_replica(self, replica: int) -> None:
        if replica not in self._pages:
            raise UsageError(f"there is no replica {replica}: they are {sorted(self._pages)}")

    def _send_to_all(self) -> None:
        for replica in self._pages:
            self._cluster.send_control_line(replica)

    def _control_line(self, replica: int) -> bytes:
        others = [
            each for link in self._cut_links if replica in link for each in link if each != replica
        ]
        return encode_dev_control(
            DevControl(
                control=self._control,
                secret=self._secret,
                pages=self._pages,
                cut=tuple(sorted(others)),
            )
        )


POLL_INTERVAL_S: Final = 0.5
EVENTS_SHOWN: Final = 6
CLUSTER_FILE: Final = "cluster.json"


class _ClusterFile(msgspec.Struct, forbid_unknown_fields=True):
    """What the data in a folder belongs to."""

    replicas: int
    datatype: str


@click.command(short_help="Run a whole cluster on this machine, for a trial.")
@click.option(
    "--replicas",
    type=click.IntRange(1, 15),
    default=3,
    show_default=True,
    help="How many; a majority of them answers strongly.",
)
@click.option(
    "--datatype",
    default="kv",
    show_default=True,
    help="What is replicated: kv, bank, …, or yours as package.module:variable, which may be in "
    "this folder.",
)
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder for journals, to go on with later. Without it, a temporary one.",
)
@click.option(
    "--port",
    type=click.IntRange(1024, 65_000),
    default=7100,
    show_default=True,
    help="Where clients find replica 0; the others follow.",
)
@click.option(
    "--durability",
    type=click.Choice(["disk", "memory"]),
    default="disk",
    show_default=True,
    help="What a tentative answer waits for.",
)
def up(replicas: int, datatype: str, folder: Path | None, port: int, durability: str) -> int:
    """Run a cluster on this machine, one process for each replica, until it is interrupted, and
    show how it is. A replica that is killed is started again; one that ends by itself is not.
    Each serves a page that shows the cluster as it lives, and lets you break it.

    \b
    Examples:
      creek up
      creek up --replicas 5 --data trial
      creek up --datatype shop.stock:shop --port 7500
    """
    add_working_directory_to_path()
    replicated = load_datatype(datatype)
    made = _ClusterFile(replicas, datatype)
    if folder is not None:
        _check_directory(folder, made)
    _check_ports_free(port, replicas)
    with _data_directory(folder, made) as home:
        options = ("--durability", durability)
        cluster = LocalCluster(
            home, replicas=replicas, datatype=datatype, options=options, port=port, http=True
        )
        _print_introduction(cluster, replicated, folder)
        cluster.start()
        try:
            asyncio.run(_ClusterView(cluster).run())
        finally:
            for replica in cluster.stop(STOP_TIMEOUT_S):
                click.echo(
                    f"replica {replica} did not stop in {STOP_TIMEOUT_S:g} s, and was killed"
                )
    click.echo("stopped" if folder is None else f"stopped; go on with --data {folder}")
    return SUCCESS


def _check_directory(folder: Path, made: _ClusterFile) -> None:
    """Data of another cluster, or of something else."""
    kept = folder / CLUSTER_FILE
    if not kept.exists():
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{folder} holds something else: name an empty folder, or a new one")
        return
    try:
        before = msgspec.json.decode(kept.read_bytes(), type=_ClusterFile)
    except msgspec.DecodeError as error:
        raise UsageError(f"{kept}: {error}") from error
    if before != made:
        how = f"--replicas {before.replicas} --datatype {before.datatype}"
        raise UsageError(f"{folder} is of another cluster: go on with {how}")


@contextmanager
def _data_directory(folder: Path | None, made: _ClusterFile) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="creek-") as temporary:
            yield Path(temporary)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CLUSTER_FILE).write_bytes(msgspec.json.encode(made))
        yield folder


def _check_ports_free(first: int, replicas: int) -> None:
    numbers = range(first, first + replicas)
    for port in [
        each + after for after in (0, PEER_PORT_OFFSET, HTTP_PORT_OFFSET) for each in numbers
    ]:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError as error:
                raise UsageError(
                    f"port {port}: {error.strerror}; is there another cluster? choose with --port"
                ) from error


def _print_introduction(cluster: LocalCluster, datatype: DataType, folder: Path | None) -> None:
    name, at = command_name(), cluster.addresses[0]
    option = "" if at.endswith(":7100") else f" --at {at}"
    number = pluralize(len(cluster.addresses), "replica")
    click.echo(f"{number} of '{datatype.name}' on this machine, until Ctrl-C.")
    click.echo(f"Their data is in {folder}." if folder else "Data goes with them: --data keeps it.")
    click.echo()
    click.echo(
        f"  http://{cluster.http_addresses[0]}    # a page: watch them, call operations, cut links"
    )
    click.echo()
    if datatype.name == "kv":
        calls = f"{name} call{option} put lamp 3", f"{name} call{option} get lamp --strong"
        width = max(map(len, calls))
        for call, told in zip(calls, ("weak: at once", "strong: linearizable"), strict=True):
            click.echo(f"  {call:{width}}  # {told}")
    else:
        click.echo(f"  {name} call{option} OPERATION ARGUMENT … [--strong]")
        for operation in datatype.operations:
            click.echo(f"      {datatype.signature(operation)}")
    click.echo(f"  {name} status{option}")
    click.echo()
    click.echo("  import creekdb")
    click.echo(f'  with creekdb.connect("{",".join(cluster.addresses)}") as db:')
    if datatype.name == "kv":
        click.echo('      db.weak.put("lamp", 3); print(db.strong.get("lamp"))')
    else:
        click.echo("      db.weak.OPERATION(…); db.strong.OPERATION(…)")
    click.echo()


class _ClusterView:
    """Looks at all replicas, again and again, and shows what it sees: on a terminal as a table
    that changes, elsewhere as a line for whatever happens."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._rows = [
            ReplicaRow(str(replica), at, None, STARTING)
            for replica, at in enumerate(cluster.addresses)
        ]
        self._last_progress: dict[int, tuple[float, int]] = {}
        self._leader: int | None = None
        self._long_operations = {
            each: cluster.last_event_text(each, OPERATION_LONG) for each in range(len(self._rows))
        }
        self._events: list[str] = []
        self._console = stdout_console()

    async def run(self) -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, over.set)
        watching = [loop.create_task(self._poll_status(each)) for each in range(len(self._rows))]
        try:
            with self._display() as draw:
                draw()
                async with LocalFaultInjector(self._cluster, self._report).serve_control():
                    while not over.is_set():
                        self._supervise()
                        draw()
                        await _wait_or_timeout(over, POLL_INTERVAL_S)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

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
        now, known = time.monotonic(), status["committed"] + status["tentative"]
        before = self._last_progress.get(replica)
        rate = None
        if before is not None and now > before[0]:
            rate = max(0, known - before[1]) / (now - before[0])
        self._last_progress[replica] = now, known
        row = self._rows[replica]
        if row.status is None:
            self._report(f"replica {replica} is up at {row.address}")
        self._rows[replica] = row._replace(
            status=status, state=state_text(status), operations_per_s=rate
        )
        leader = status["leader"]
        if leader == replica != self._leader and self._rows[replica].state == "up":
            self._leader = leader
            self._report(f"replica {leader} leads")

    def _on_unreachable(self, replica: int) -> None:
        row = self._rows[replica]
        if row.status is not None:
            self._report(f"replica {replica} does not answer")
            self._last_progress.pop(replica, None)
            self._rows[replica] = row._replace(status=None, state="silent", operations_per_s=None)

    def _supervise(self) -> None:
        for replica, code in self._cluster.reap_exited().items():
            row = self._rows[replica]
            if code < 0:
                self._report(f"replica {replica} was ended by signal {-code}: it is started again")
                self._cluster.start(replica)
                self._rows[replica] = row._replace(
                    status=None, state=STARTING, operations_per_s=None
                )
            else:
                why = (
                    self._cluster.last_output_line(replica) if code else self._stop_reason(replica)
                )
                self._report(f"replica {replica} ended: {why}")
                self._rows[replica] = row._replace(
                    status=None, state="ended", operations_per_s=None
                )
                if all(each.state == "ended" for each in self._rows):
                    self._report("all replicas have ended: Ctrl-C, mend what they say, start again")
        for replica, row in enumerate(self._rows):
            if row.state == "silent":
                self._report_long_operation(replica)

    def _stop_reason(self, replica: int) -> str:
        removed = self._cluster.last_event_text(replica, REPLICA_REMOVED)
        return removed or "it was told to stop; the page can start it again"

    def _report_long_operation(self, replica: int) -> None:
        """One that is busy with a long operation cannot say so, but writes it down."""
        why = self._cluster.last_event_text(replica, OPERATION_LONG)
        if why is not None and why != self._long_operations[replica]:
            self._long_operations[replica] = why
            self._report(f"replica {replica}: {why}")

    def _report(self, event: str) -> None:
        if self._console.is_terminal:
            self._events = [*self._events, f"{time.strftime('%H:%M:%S')}  {event}"][-EVENTS_SHOWN:]
        else:
            click.echo(event)

    def _render(self) -> Group:
        events = [Text(event, style="dim") for event in self._events]
        return Group(replicas_table(self._rows, self._console.width, live=True), Text(), *events)


async def _wait_or_timeout(over: asyncio.Event, seconds: float) -> None:
    """Until it is over, or so long."""
    try:
        async with asyncio.timeout(seconds):
            await over.wait()
    except TimeoutError:
        return
