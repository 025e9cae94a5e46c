"""`creek serve`: one replica, in this process; with --join, a new member of a running cluster.

Joining validates everything possible before the change, because a member that cannot start weakens
the cluster.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from creekdb.cli.commands.member import add_member
from creekdb.cli.declaration import declared, option, option_settings
from creekdb.cli.options import EXISTING_FILE, add_working_directory_to_path
from creekdb.cli.target import ClusterTarget
from creekdb.client import Database
from creekdb.client.errors import CallFailed
from creekdb.errors import UsageError
from creekdb.execution.python_runtime import GcSampler, reduced_gc
from creekdb.protocol.extensions import EXTENSIONS
from creekdb.server.membership.join_ticket import make_data_dir, read_ticket
from creekdb.server.runtime.config import ServerConfig, load_datatype, read_config
from creekdb.server.runtime.server import Server
from creekdb.server.runtime.service_manager import READY, STOPPING, ServiceManager
from creekdb.server.security.authentication import certificate_expiry_s
from creekdb.server.transport.listeners import raise_open_files_limit
from creekdb.wire import event_log
from creekdb.wire import event_loop as event_loop
from creekdb.wire.addresses import format_address, parse_address
from creekdb.wire.dev_control import ParentPipe, kill_after_parent_exit
from creekdb.wire.event_log import EventName

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
        token, authority = os.environ.get("CREEK_TOKEN", ""), os.environ.get("CREEK_AUTHORITY")
        target = ClusterTarget(addresses, token, authority)
        async with target.connection(JOIN_TIMEOUT_S) as db:
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


CONFIG_HELP: Final = {
    "cluster": "Name of the cluster; replicas of other clusters are rejected.",
    "replica": "Number of this replica among the members.",
    "clients": "Address of this replica for clients; port 0 selects a free port.",
    "http": "Address for HTTP: operations, state, status, metrics, and the live page.",
    "datatype": "Replicated data type: bank, kv, …, or package.module:variable, also from the "
    "working directory.",
    "require_equal_operations": "Reject the calls of an operation while a connected replica has "
    "other code for it. Otherwise, such replicas are only reported.",
    "data": "Data directory, with the journal and checkpoints.",
    "durability": "Whether a tentative response waits for the disk. A stable response waits for "
    "the disks of a majority. With 'memory', a crash may lose weak calls that had a response.",
    "io_uring": "Write the journal with io_uring if Linux supports it, and otherwise in a thread. "
    "With --no-io-uring, always write it in a thread.",
    "scheme": "Replication scheme, the same on all members.",
    "extensions": "Extensions of the protocol beyond the paper, the same on all members: "
    f"{', '.join(EXTENSIONS)}, separated by commas; or all, or none.",
    "execution": "Executor of operations: the event loop ('inline'), or a thread of its own, where "
    "long operations block only each other.",
    "operation_limit": "Report an operation that runs longer than this, in seconds.",
    "busy_after": "Longest acceptable wait of a call, in seconds. Calls that would wait longer "
    "because of an overload are rejected as `busy`.",
    "strong_max": "Upper bound for the strong calls that wait for a stable response.",
    "forget_after": "Expiry of deduplication, in seconds: a later retry of a call is executed "
    "again.",
    "keep_changes": "Retention of the change feed, such as 24h, 30m or 7d; 0 for no feed. See "
    "'creek changes'.",
    "keep_changes_bytes": "Upper bound for the change feed on disk, in bytes.",
    "before_images": "Also keep the values before each change in the feed.",
    "fresh": "Skip disk-loss recovery, which waits for every member, on the first start. Use it "
    "only if no member has ever run.",
    "record": "Directory for recordings: see 'creek gather'.",
    "record_orders": "Also record the order on which each response was computed; slow.",
    "log": "Format of the log, on stderr.",
    "log_level": "Minimum level of logged events.",
    "tick_ms": "Interval of the timers for retransmission and failure detection, in milliseconds.",
}
"""Help of the options that override a key of `ServerConfig`, which has their types and defaults."""
METAVARS: Final = {
    **dict.fromkeys(("clients", "http"), "HOST:PORT"),
    **dict.fromkeys(("operation_limit", "busy_after", "forget_after"), "SECONDS"),
    "extensions": "NAMES",
    "tick_ms": "MILLISECONDS",
    "keep_changes": "DURATION",
    "keep_changes_bytes": "BYTES",
    "record": "DIR",
}


def _config_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `CONFIG_HELP`. An option that is not set is None."""
    fields = {each.name: each for each in msgspec.structs.fields(ServerConfig)}
    for name, help_text in reversed(CONFIG_HELP.items()):
        flag, default = f"--{name.replace('_', '-')}", fields[name].default
        shown = flag if default is True else default
        settings = option_settings(fields[name].type | None)
        settings["help"] = f"{help_text}  [default: {shown}]" if default else help_text
        flags = f"{flag}/--no{flag[1:]}" if default is True else flag
        function = click.option(flags, name, metavar=METAVARS.get(name), **settings)(function)
    return function


@click.command(short_help="Run one replica of a live cluster.")
@declared
@_config_options
def serve(
    *,
    path: Path | None = option(
        "TOML file with any of the following options.", type=EXISTING_FILE, flag="--config"
    ),
    members: tuple[str, ...] = option(
        "Number of a member and its address for peers. Repeat it for each member.",
        flag="--member",
        metavar="NUMBER=HOST:PORT",
    ),
    join: tuple[str, ...] = option(
        "Join the cluster at this client address, as a new replica. May be repeated.",
        metavar="HOST:PORT",
    ),
    listen: str | None = option(
        "With --join: address of this replica for its peers.", metavar="HOST:PORT"
    ),
    with_parent: bool = option("Stop at the end of stdin.", hidden=True),
    **config_options: Any,
) -> None:
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
    overrides = {**config_options, "members": dict(map(_parse_member, members)) or None}
    add_working_directory_to_path()
    if join:
        join_cluster(join, listen, path, overrides)
    config = read_config(path, overrides)
    event_log.configure_logging(config.log, config.log_level)
    raise_open_files_limit()
    with reduced_gc():
        event_loop.run_in_new_loop(
            _serve(config, with_parent, lambda: read_config(path, overrides))
        )


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
    if config.http:  # before the start, because the import is slow
        from creekdb.http import HttpServer  # noqa: PLC0415
    server: Server
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, lambda: _reload(server, reread))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # interrupts a long journal replay
    server = Server(config)
    loop.set_exception_handler(server.handle_loop_exception)
    # Before the start, since clients may connect and the replica may be stopped before it ends.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop_requested.set)
    manager = ServiceManager(os.environ)
    async with AsyncExitStack() as stack:
        await server.start()
        stack.push_async_callback(server.stop)
        server.task_supervisor.spawn(_collect_garbage(server))
        if with_parent:
            loop.add_reader(0, _parent_pipe(server, loop).read)
        if config.http:
            http_server = HttpServer(server)
            await http_server.start()
            stack.push_async_callback(http_server.stop)
        address = format_address(parse_address(config.clients)[0], server.client_port)
        where = f"clients at {address}, data in {config.data}"
        click.echo(f"replica {config.replica} of {config.cluster}: {where}")
        manager.notify(READY)
        server.task_supervisor.spawn(manager.keep_watchdog_quiet())
        await server.stop_requested.wait()
        manager.notify(STOPPING)
    if server.failure is not None:
        raise server.failure


async def _collect_garbage(server: Server) -> None:
    driver = server.driver
    with GcSampler.install() as garbage:
        while True:
            executed = driver.executor.executions
            await server.ticker.sleep(GC_INTERVAL_S)
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
