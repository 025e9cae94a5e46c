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

from creekdb.cli.exit_codes import FINE
from creekdb.cli.options import import_from_here
from creekdb.cli.output import counted, program, results
from creekdb.cli.views.replicas import STARTING, Row, replicas_table, state_of
from creekdb.client import NotDone, connect
from creekdb.errors import UsageError
from creekdb.execution.datatype import DataType
from creekdb.load.local_cluster import HTTP_AFTER, PEERS_AFTER, LocalCluster
from creekdb.server.runtime.config import load_datatype
from creekdb.wire.dev_control import STOP_S, Trial, line_of
from creekdb.wire.event_log import OPERATION_LONG, REPLICA_REMOVED


class Breaking:
    """`tell` is told what was done."""

    def __init__(self, cluster: LocalCluster, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._tell = tell
        self._cut: set[tuple[int, int]] = set()
        self._control = ""
        self._secret = secrets.token_urlsafe(16)
        self._pages = {replica: f"http://{at}" for replica, at in enumerate(cluster.http)}

    @asynccontextmanager
    async def asked(self) -> AsyncIterator[None]:
        """By pages, for so long."""
        from creekdb.http.page.fault_control import Control  # noqa: PLC0415 - it takes its time

        control = Control(self, self._pages.values(), self._secret)
        await control.start()
        self._control = control.address
        self._cluster.tells = self._line
        self._tell_all()
        try:
            yield
        finally:
            await control.stop()

    def kill(self, replica: int) -> None:
        self._check(replica)
        if self._cluster.is_running(replica):
            self._cluster.kill(replica)
            self._tell(f"replica {replica} was killed, on the page")

    def start(self, replica: int) -> None:
        self._check(replica)
        if not self._cluster.is_running(replica):
            self._cluster.start(replica)
            self._tell(f"replica {replica} is started again")

    def cut(self, links: Iterable[tuple[int, int]]) -> None:
        wanted = self._checked(links)
        self._change(self._cut | wanted, "cut", wanted - self._cut)

    def heal(self, links: Iterable[tuple[int, int]]) -> None:
        wanted = self._checked(links)
        self._change(self._cut - wanted, "healed", wanted & self._cut)

    def _change(self, cut: set[tuple[int, int]], done: str, to: Iterable[tuple[int, int]]) -> None:
        self._cut = cut
        self._tell_all()
        for one, other in sorted(to):
            self._tell(f"the link between {one} and {other} is {done}")

    def _checked(self, links: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Each with the smaller number first. One of both must be ours: it does without the link to
        the other, which may have joined later."""
        found = set()
        for one, other in links:
            if one == other:
                raise UsageError(f"replica {one} has no link to itself")
            if not self._pages.keys() & {one, other}:
                self._check(one)
            found.add((min(one, other), max(one, other)))
        return found

    def _check(self, replica: int) -> None:
        if replica not in self._pages:
            raise UsageError(f"there is no replica {replica}: they are {sorted(self._pages)}")

    def _tell_all(self) -> None:
        for replica in self._pages:
            self._cluster.tell(replica)

    def _line(self, replica: int) -> bytes:
        others = [each for link in self._cut if replica in link for each in link if each != replica]
        return line_of(
            Trial(
                control=self._control,
                secret=self._secret,
                pages=self._pages,
                cut=tuple(sorted(others)),
            )
        )


LOOK_S: Final = 0.5
EVENTS_SHOWN: Final = 6
KEPT: Final = "cluster.json"


class _Made(msgspec.Struct, forbid_unknown_fields=True):
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
    import_from_here()
    replicated = load_datatype(datatype)
    made = _Made(replicas, datatype)
    if folder is not None:
        _refuse_other(folder, made)
    _refuse_ports_in_use(port, replicas)
    with _folder(folder, made) as home:
        options = ("--durability", durability)
        cluster = LocalCluster(
            home, replicas=replicas, datatype=datatype, options=options, port=port, http=True
        )
        _introduce(cluster, replicated, folder)
        cluster.start()
        try:
            asyncio.run(_View(cluster).show())
        finally:
            for replica in cluster.stop(STOP_S):
                click.echo(f"replica {replica} did not stop in {STOP_S:g} s, and was killed")
    click.echo("stopped" if folder is None else f"stopped; go on with --data {folder}")
    return FINE


def _refuse_other(folder: Path, made: _Made) -> None:
    """Data of another cluster, or of something else."""
    kept = folder / KEPT
    if not kept.exists():
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{folder} holds something else: name an empty folder, or a new one")
        return
    try:
        before = msgspec.json.decode(kept.read_bytes(), type=_Made)
    except msgspec.DecodeError as error:
        raise UsageError(f"{kept}: {error}") from error
    if before != made:
        how = f"--replicas {before.replicas} --datatype {before.datatype}"
        raise UsageError(f"{folder} is of another cluster: go on with {how}")


@contextmanager
def _folder(folder: Path | None, made: _Made) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="creek-") as temporary:
            yield Path(temporary)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / KEPT).write_bytes(msgspec.json.encode(made))
        yield folder


def _refuse_ports_in_use(first: int, replicas: int) -> None:
    numbers = range(first, first + replicas)
    for port in [each + after for after in (0, PEERS_AFTER, HTTP_AFTER) for each in numbers]:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError as error:
                raise UsageError(
                    f"port {port}: {error.strerror}; is there another cluster? choose with --port"
                ) from error


def _introduce(cluster: LocalCluster, datatype: DataType, folder: Path | None) -> None:
    name, at = program(), cluster.addresses[0]
    option = "" if at.endswith(":7100") else f" --at {at}"
    number = counted(len(cluster.addresses), "replica")
    click.echo(f"{number} of '{datatype.name}' on this machine, until Ctrl-C.")
    click.echo(f"Their data is in {folder}." if folder else "Data goes with them: --data keeps it.")
    click.echo()
    click.echo(f"  http://{cluster.http[0]}    # a page: watch them, call operations, cut links")
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


class _View:
    """Looks at all replicas, again and again, and shows what it sees: on a terminal as a table
    that changes, elsewhere as a line for whatever happens."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._rows = [
            Row(str(replica), at, None, STARTING) for replica, at in enumerate(cluster.addresses)
        ]
        self._seen: dict[int, tuple[float, int]] = {}
        self._leader: int | None = None
        self._held_up_by = {
            each: cluster.last_told(each, OPERATION_LONG) for each in range(len(self._rows))
        }
        self._events: list[str] = []
        self._console = results()

    async def show(self) -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, over.set)
        watching = [loop.create_task(self._watch(each)) for each in range(len(self._rows))]
        try:
            with self._drawing() as draw:
                draw()
                async with Breaking(self._cluster, self._tell).asked():
                    while not over.is_set():
                        self._look_after()
                        draw()
                        await _first(over, LOOK_S)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    @contextmanager
    def _drawing(self) -> Iterator[Callable[[], None]]:
        if self._console.is_terminal:
            with Live(console=self._console, auto_refresh=False) as live:
                yield lambda: live.update(self._drawn(), refresh=True)
        else:
            yield lambda: None

    async def _watch(self, replica: int) -> None:
        address = self._cluster.addresses[replica]
        while True:
            try:
                async with connect(address, timeout=4 * LOOK_S, patience=LOOK_S) as db:
                    while True:
                        self._heard(replica, await db.status())
                        await asyncio.sleep(LOOK_S)
            except (NotDone, UsageError):
                self._silent(replica)
                await asyncio.sleep(LOOK_S / 2)

    def _heard(self, replica: int, status: dict[str, Any]) -> None:
        now, known = time.monotonic(), status["committed"] + status["tentative"]
        before = self._seen.get(replica)
        rate = None
        if before is not None and now > before[0]:
            rate = max(0, known - before[1]) / (now - before[0])
        self._seen[replica] = now, known
        row = self._rows[replica]
        if row.status is None:
            self._tell(f"replica {replica} is up at {row.address}")
        self._rows[replica] = row._replace(status=status, state=state_of(status), rate=rate)
        leader = status["leader"]
        if leader == replica != self._leader and self._rows[replica].state == "up":
            self._leader = leader
            self._tell(f"replica {leader} leads")

    def _silent(self, replica: int) -> None:
        row = self._rows[replica]
        if row.status is not None:
            self._tell(f"replica {replica} does not answer")
            self._seen.pop(replica, None)
            self._rows[replica] = row._replace(status=None, state="silent", rate=None)

    def _look_after(self) -> None:
        for replica, code in self._cluster.ended().items():
            row = self._rows[replica]
            if code < 0:
                self._tell(f"replica {replica} was ended by signal {-code}: it is started again")
                self._cluster.start(replica)
                self._rows[replica] = row._replace(status=None, state=STARTING, rate=None)
            else:
                why = self._cluster.last_words(replica) if code else self._why_stopped(replica)
                self._tell(f"replica {replica} ended: {why}")
                self._rows[replica] = row._replace(status=None, state="ended", rate=None)
                if all(each.state == "ended" for each in self._rows):
                    self._tell("all replicas have ended: Ctrl-C, mend what they say, start again")
        for replica, row in enumerate(self._rows):
            if row.state == "silent":
                self._tell_what_holds_up(replica)

    def _why_stopped(self, replica: int) -> str:
        removed = self._cluster.last_told(replica, REPLICA_REMOVED)
        return removed or "it was told to stop; the page can start it again"

    def _tell_what_holds_up(self, replica: int) -> None:
        """One that is busy with a long operation cannot say so, but writes it down."""
        why = self._cluster.last_told(replica, OPERATION_LONG)
        if why is not None and why != self._held_up_by[replica]:
            self._held_up_by[replica] = why
            self._tell(f"replica {replica}: {why}")

    def _tell(self, event: str) -> None:
        if self._console.is_terminal:
            self._events = [*self._events, f"{time.strftime('%H:%M:%S')}  {event}"][-EVENTS_SHOWN:]
        else:
            click.echo(event)

    def _drawn(self) -> Group:
        events = [Text(event, style="dim") for event in self._events]
        return Group(replicas_table(self._rows, self._console.width, live=True), Text(), *events)


async def _first(over: asyncio.Event, seconds: float) -> None:
    """Until it is over, or so long."""
    try:
        async with asyncio.timeout(seconds):
            await over.wait()
    except TimeoutError:
        return
