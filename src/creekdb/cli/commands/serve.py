"""`creek serve`: one replica, in this process; with --join, a new member of a running cluster.

Joining validates everything possible before the change, because a member that cannot start weakens
the cluster.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click
import msgspec

from creekdb.cli.commands.member import add_member
from creekdb.cli.declaration import declared, option
from creekdb.cli.exit_codes import SUCCESS
from creekdb.cli.options import EXISTING_FILE, add_working_directory_to_path
from creekdb.client import Database, connect
from creekdb.client.errors import CallFailed
from creekdb.errors import UsageError
from creekdb.execution.python_runtime import GcSampler, reduced_gc
from creekdb.server.membership.join_ticket import make_data_dir, read_ticket
from creekdb.server.runtime.config import ServerConfig, load_datatype, read_config
from creekdb.server.runtime.server import Server
from creekdb.server.security.authentication import certificate_expiry_s
from creekdb.server.transport.listeners import raise_open_files_limit
from creekdb.wire import event_log
from creekdb.wire import event_loop as event_loop
from creekdb.wire.addresses import format_address, parse_address
from creekdb.wire.dev_control import ParentPipe, kill_after_parent_exit
from creekdb.wire.event_log import EventName

if TYPE_CHECKING:
    from creekdb.http import HttpServer

JOIN_TIMEOUT_S: Final = 30.0


def join_cluster(
    addresses: tuple[str, ...], listen: str | None, path: Path | None, options: Mapping[str, Any]
) -> None:
    """Become a member unless it is one already. `path`, `options`: as for `read_config`."""
    if listen is None:
        raise click.UsageError(
            "--join requires --listen, the address of this replica for its peers"
        )
    config = read_config(path, {**options, "replica": 0, "members": {"0": listen}})
    data_dir = Path(config.data)
    if read_ticket(data_dir) is not None:
        return
    datatype = load_datatype(config.datatype).name
    if config.is_secured:
        certificate_expiry_s(config.security)
    make_data_dir(data_dir)

    async def join() -> None:
        async with connect(
            addresses,
            token=os.environ.get("CREEK_TOKEN", ""),
            authority=os.environ.get("CREEK_AUTHORITY"),
            timeout=JOIN_TIMEOUT_S,
            patience=JOIN_TIMEOUT_S,
        ) as db:
            await _check_compatible(db, config, datatype)
            result = await add_member(db, listen, data_dir)
        click.echo(f"replica {result['added']} was added")

    try:
        asyncio.run(join())
    except CallFailed as error:
        raise UsageError(f"cannot join the cluster at {', '.join(addresses)}: {error}") from error


async def _check_compatible(db: Database, config: ServerConfig, datatype: str) -> None:
    """Raise `UsageError` if the members would reject a replica with this configuration."""
    status = await db.status()
    ours = {"cluster": config.cluster, "datatype": datatype, "scheme": config.scheme}
    for key, value in ours.items():
        if status[key] != value:
            raise UsageError(
                f"cannot join: {key} is '{value}', but '{status[key]}' in the cluster; "
                f"set {key}, or join another cluster"
            )


GC_INTERVAL_S: Final = 0.5
"""Interval between two garbage collections, in seconds."""
GC_SAMPLE_S: Final = 0.005
"""Allocation period that one collection of a busy replica covers, in seconds."""
IDLE_EXECUTIONS_MAX: Final = 50
"""Upper bound for the executions per interval of an idle replica."""


class ServeOptions(NamedTuple):
    """Options with the name of a key of `ServerConfig` override this key."""

    path: Path | None = option(
        "TOML file with any of the following options.", type=EXISTING_FILE, flag="--config"
    )
    cluster: str | None = option("Name of the cluster; replicas of other clusters are rejected.")
    replica: int | None = option("Number of this replica among the members.")
    members: tuple[str, ...] = option(
        "Number of a member and its address for peers. Repeat it for each member.",
        flag="--member",
        metavar="NUMBER=HOST:PORT",
    )
    join: tuple[str, ...] = option(
        "Join the cluster at this client address, as a new replica. May be repeated.",
        metavar="HOST:PORT",
    )
    listen: str | None = option(
        "With --join: address of this replica for its peers.", metavar="HOST:PORT"
    )
    clients: str | None = option(
        "Address of this replica for clients; port 0 selects a free port.", metavar="HOST:PORT"
    )
    http: str | None = option(
        "Address for HTTP: operations, state, status, metrics, and the live page.",
        metavar="HOST:PORT",
    )
    datatype: str | None = option(
        "Replicated data type: bank, kv, …, or package.module:variable, also from the working "
        "directory."
    )
    data: str | None = option("Data directory, with the journal and checkpoints.")
    durability: Literal["disk", "memory"] | None = option(
        "Whether a tentative response waits for the disk. A stable response waits for the disks "
        "of a majority. With 'memory', a crash may lose weak calls that had a response."
    )
    io_uring: bool | None = option(
        "Write the journal with io_uring if Linux supports it, and otherwise in a thread. With "
        "--no-io-uring, always write it in a thread.",
        flag="--io-uring/--no-io-uring",
    )
    scheme: str | None = option("Replication scheme, the same on all members.")
    execution: Literal["inline", "threads"] | None = option(
        "Executor of operations: the event loop ('inline'), or a thread of its own, where long "
        "operations block only each other."
    )
    operation_limit: float | None = option(
        "Report an operation that runs longer than this, in seconds.", metavar="SECONDS"
    )
    busy_after: float | None = option(
        "Age of the oldest queued call, in seconds, above which new calls are rejected as `busy`.",
        metavar="SECONDS",
    )
    strong_max: int | None = option(
        "Upper bound for the strong calls that wait for a stable response."
    )
    forget_after: float | None = option(
        "Expiry of deduplication, in seconds: a later retry of a call is executed again.",
        metavar="SECONDS",
    )
    fresh: bool | None = option(
        "Skip disk-loss recovery, which waits for every member, on the first start. Use it only "
        "if no member has ever run."
    )
    record: str | None = option("Directory for recordings: see 'creek gather'.", metavar="DIR")
    record_orders: bool | None = option(
        "Also record the order on which each response was computed; slow."
    )
    log: Literal["text", "json"] | None = option("Format of the log, on stderr.")
    log_level: Literal["debug", "info", "warning", "error"] | None = option(
        "Minimum level of logged events."
    )
    tick_ms: int | None = option(
        "Interval of the timers for retransmission and failure detection, in milliseconds.",
        metavar="MILLISECONDS",
    )
    with_parent: bool = option("Stop at the end of stdin.", hidden=True)

    def config_overrides(self) -> dict[str, Any]:
        values = self._asdict()
        overrides = {key: values[key] for key in ServerConfig.__struct_fields__ if key in values}
        members = dict(_parse_member(each) for each in self.members) or None
        return {**overrides, "members": members}


@click.command(short_help="Run one replica of a live cluster.")
@declared
def serve(options: ServeOptions) -> int:
    """Run one replica, until it is interrupted.

    Every option can also be set in the file, or in the environment as CREEK_CLUSTER, CREEK_DATA and
    so on. The command line takes precedence over the environment, which takes precedence over the
    file.

    \b
    Examples:
      creek serve --config replica-0.toml
      creek serve --replica 0 --member 0=127.0.0.1:7200 \\
                  --clients 127.0.0.1:7100 --data data/0
      creek serve --join 127.0.0.1:7100 --listen 127.0.0.1:7203 --data data/3
      creek up --replicas 3                    runs three, for development

    On SIGHUP the replica reloads tokens, certificates and the log settings from its configuration.

    A replica that was added, by --join or by 'creek member add', finds its identity in its data
    directory; --join is optional at later starts. Joining reads the client's token and authority
    from CREEK_TOKEN and CREEK_AUTHORITY.
    """
    path, overrides = options.path, options.config_overrides()
    add_working_directory_to_path()
    if options.join:
        join_cluster(options.join, options.listen, path, overrides)
    config = read_config(path, overrides)
    event_log.configure_logging(config.log, config.log_level)
    raise_open_files_limit()
    with reduced_gc():
        event_loop.run_in_new_loop(
            _serve(config, options.with_parent, lambda: read_config(path, overrides))
        )
    return SUCCESS


def _add_default_help(command: click.Command) -> None:
    """Add the defaults of the configuration to the help; options themselves have no defaults."""
    defaults = {each.name: each.default for each in msgspec.structs.fields(ServerConfig)}
    for each in command.params:
        default = defaults.get(each.name or "")
        if isinstance(each, click.Option) and isinstance(default, str | int | float) and default:
            shown = "--io-uring" if default is True else default
            each.help = f"{each.help}  [default: {shown}]"


_add_default_help(serve)


def _parse_member(text: str) -> tuple[str, str]:
    number, equals, address = text.partition("=")
    if not equals or not number.isdecimal():
        raise click.UsageError(f"--member is '{text}': write NUMBER=HOST:PORT")
    return number, address


async def _serve(
    config: ServerConfig, with_parent: bool, reread: Callable[[], ServerConfig]
) -> None:
    """Run the replica until it is stopped. `reread`: read the configuration again."""
    if with_parent:
        kill_after_parent_exit(0)
    http_server_class = _http_server_class(config)
    server: Server
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, lambda: _reload(server, reread))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # interrupts a long journal replay
    server = Server(config)
    loop.set_exception_handler(server.handle_loop_exception)
    await server.start()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop_requested.set)
    server.task_supervisor.spawn(_collect_garbage(server))
    if with_parent:
        loop.add_reader(0, _parent_pipe(server, loop).read)
    http_server = http_server_class(server) if http_server_class is not None else None
    if http_server is not None:
        await _start_http(http_server, server)
    address = format_address(parse_address(config.clients)[0], server.client_port)
    click.echo(
        f"replica {config.replica} of {config.cluster}: clients at {address}, data in {config.data}"
    )
    await server.stop_requested.wait()
    if http_server is not None:
        await http_server.stop()
    await server.stop()
    if server.failure is not None:
        raise server.failure


async def _collect_garbage(server: Server) -> None:
    driver = server.driver
    with GcSampler.install() as garbage:
        while True:
            executed = driver.executor.executions
            await asyncio.sleep(GC_INTERVAL_S)
            if driver.executor.executions > executed + IDLE_EXECUTIONS_MAX:
                garbage.freeze()
                await asyncio.sleep(GC_SAMPLE_S)
            garbage.sample(driver.replica.view.tentative_length())


def _parent_pipe(server: Server, loop: asyncio.AbstractEventLoop) -> ParentPipe:
    def ended() -> None:
        loop.remove_reader(0)
        server.stop_requested.set()

    return ParentPipe(0, server.apply_dev_control, ended)


def _reload(server: Server, reread: Callable[[], ServerConfig]) -> None:
    try:
        server.reload(reread())
    except UsageError as error:
        server.event_log.error(
            EventName.CONFIGURATION_REFUSED, f"configuration not reloaded: {error}"
        )


async def _start_http(http_server: "HttpServer", server: Server) -> None:
    try:
        await http_server.start()
    except BaseException:
        await server.stop()
        raise


def _http_server_class(config: ServerConfig) -> "type[HttpServer] | None":
    """Import the HTTP server only if configured, and before the start, because it is slow."""
    if not config.http:
        return None
    from creekdb.http import HttpServer  # noqa: PLC0415

    return HttpServer
