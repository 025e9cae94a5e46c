"""How `creek serve --join` makes a new replica a member of a cluster that runs.

Everything that can be looked at is looked at first: a member that was added and cannot start is one
that the others miss.

`creek serve`: one replica, in this process.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from creekdb.cli.commands.member import add_member
from creekdb.cli.exit_codes import SUCCESS
from creekdb.cli.options import add_working_directory_to_path
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

if TYPE_CHECKING:
    from creekdb.http import HttpServer

JOIN_TIMEOUT_S: Final = 30.0


def join_cluster(
    at: tuple[str, ...], listen: str | None, path: Path | None, given: Mapping[str, Any]
) -> None:
    """Become a member, unless it is one already. `path` and `given`: as for `read_config`."""
    if listen is None:
        raise click.UsageError("--join needs --listen, where the others find this one")
    config = read_config(path, {**given, "replica": 0, "members": {"0": listen}})
    folder = Path(config.data)
    if read_ticket(folder) is not None:
        return
    datatype = load_datatype(config.datatype).name
    if config.is_secured:
        certificate_expiry_s(config.security)
    make_data_dir(folder)

    async def ask() -> None:
        async with connect(
            at,
            token=os.environ.get("CREEK_TOKEN", ""),
            authority=os.environ.get("CREEK_AUTHORITY"),
            timeout=JOIN_TIMEOUT_S,
            patience=JOIN_TIMEOUT_S,
        ) as db:
            await _check_compatible(db, config, datatype)
            told = await add_member(db, listen, folder)
        click.echo(f"replica {told['added']} was added")

    try:
        asyncio.run(ask())
    except CallFailed as error:
        raise UsageError(f"cannot join the cluster at {', '.join(at)}: {error}") from error


async def _check_compatible(db: Database, config: ServerConfig, datatype: str) -> None:
    """The others would refuse to talk to a replica that is set up otherwise."""
    status = await db.status()
    ours = {"cluster": config.cluster, "datatype": datatype, "scheme": config.scheme}
    for key, value in ours.items():
        if status[key] != value:
            raise UsageError(
                f"the {key} there is '{status[key]}', and here it is '{value}': nothing was "
                f"changed; set {key}, or join another cluster"
            )


GC_INTERVAL_S: Final = 0.5
"""Between two looks for garbage."""
GC_SAMPLE_S: Final = 0.005
"""How much is looked at, of one that is busy."""
IDLE_EXECUTIONS_MAX: Final = 50
"""Operations, between two looks: after more of them it is busy."""


@click.command(short_help="Run one replica of a live cluster.")
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A TOML file with any of what follows.",
)
@click.option("--cluster", help="The cluster's name: replicas of another one are refused.")
@click.option("--replica", type=int, help="Which one of the members this is.")
@click.option(
    "--member",
    "members",
    multiple=True,
    metavar="NUMBER=HOST:PORT",
    help="A replica and where the others find it; one for each.",
)
@click.option(
    "--join",
    multiple=True,
    metavar="HOST:PORT",
    help="Become a member of the cluster whose clients find it there: a new replica.",
)
@click.option("--listen", metavar="HOST:PORT", help="With --join: where the others find this one.")
@click.option("--clients", metavar="HOST:PORT", help="Where clients find this one; port 0: any.")
@click.option(
    "--http", metavar="HOST:PORT", help="Speak HTTP there: operations, state, status, metrics."
)
@click.option(
    "--datatype",
    help="What is replicated: kv, tpcc-rows-5-0, or yours as package.module:variable, which may be "
    "in this folder.",
)
@click.option("--data", help="The folder for its journal.")
@click.option(
    "--durability",
    type=click.Choice(["disk", "memory"]),
    help="What a tentative answer waits for. A stable one waits for a majority's disks. With "
    "'memory' a crash may take back weak calls that were answered.",
)
@click.option(
    "--io-uring/--no-io-uring",
    default=None,
    help="Let Linux write to the journal by itself, where it can; or always have a thread do it.",
)
@click.option("--scheme", help="The replication scheme, the same at all.")
@click.option(
    "--execution",
    type=click.Choice(["inline", "threads"]),
    help="Where operations run. In a thread of their own, long ones hold up only each other.",
)
@click.option(
    "--operation-limit",
    type=float,
    metavar="SECONDS",
    help="After which an operation that still runs is reported.",
)
@click.option(
    "--busy-after",
    type=float,
    metavar="SECONDS",
    help="While a call has waited to be executed for so long, others are told to come later.",
)
@click.option(
    "--strong-max", type=int, help="Strong calls that may wait for a stable answer, at most."
)
@click.option(
    "--forget-after",
    type=float,
    metavar="SECONDS",
    help="After which a call is forgotten: asked for again, it would be executed again.",
)
@click.option(
    "--fresh",
    is_flag=True,
    default=None,
    help="Begin before every member was heard of. Only if none of them has ever run.",
)
@click.option("--record", metavar="DIR", help="Write down there what it does: see 'creek gather'.")
@click.option(
    "--record-orders", is_flag=True, default=None, help="And what answers were computed on: slow."
)
@click.option(
    "--log", type=click.Choice(["text", "json"]), help="How events are told: for people, or not."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="From which level on events are told.",
)
@click.option(
    "--tick-ms",
    type=int,
    metavar="MILLISECONDS",
    help="How often it looks for what has been lost on its way, or has waited for too long.",
)
@click.option("--with-parent", is_flag=True, hidden=True, help="Stop when the input ends.")
def serve(
    path: Path | None,
    members: tuple[str, ...],
    join: tuple[str, ...],
    listen: str | None,
    with_parent: bool,
    **given: Any,
) -> int:
    """Run one replica, until it is interrupted.

    Every option can also stand in the file, or in the environment as CREEK_CLUSTER, CREEK_DATA and
    so on; what stands here goes first, then the environment, then the file.

    \b
    Examples:
      creek serve --config replica-0.toml
      creek serve --replica 0 --member 0=127.0.0.1:7200 \\
                  --clients 127.0.0.1:7100 --data data/0
      creek serve --join 127.0.0.1:7100 --listen 127.0.0.1:7203 --data data/3
      creek up --replicas 3                    three of them, for a trial

    On SIGHUP it reads its configuration again, and takes over tokens, certificates and what is
    logged.

    A replica that was added, by --join or by 'creek member add', finds in its folder who it is: it
    is started again without --join, or with it. To join, the token and the authority for clients
    are taken from CREEK_TOKEN and CREEK_AUTHORITY.
    """
    if members:
        given["members"] = dict(_parse_member(each) for each in members)
    add_working_directory_to_path()
    if join:
        join_cluster(join, listen, path, given)
    config = read_config(path, given)
    event_log.configure_logging(config.log, config.log_level)
    raise_open_files_limit()
    with reduced_gc():
        event_loop.run_in_new_loop(_serve(config, with_parent, lambda: read_config(path, given)))
    return SUCCESS


def _add_default_help(command: click.Command) -> None:
    """Those of the configuration: an option that is not given is left to the file."""
    defaults = {each.name: each.default for each in msgspec.structs.fields(ServerConfig)}
    for option in command.params:
        default = defaults.get(option.name or "")
        if isinstance(option, click.Option) and isinstance(default, str | int | float) and default:
            shown = "--io-uring" if default is True else default
            option.help = f"{option.help}  [default: {shown}]"


_add_default_help(serve)


def _parse_member(text: str) -> tuple[str, str]:
    number, equals, address = text.partition("=")
    if not equals or not number.isdecimal():
        raise click.UsageError(f"--member '{text}': write NUMBER=HOST:PORT")
    return number, address


async def _serve(
    config: ServerConfig, with_parent: bool, again: Callable[[], ServerConfig]
) -> None:
    """`again`: the configuration, as it is now."""
    if with_parent:
        kill_after_parent_exit(0)
    speaker = _http_server_class(config)
    server = Server(config)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(server.handle_loop_exception)
    loop.add_signal_handler(signal.SIGHUP, _reload, server, again)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a long journal is not waited for
    await server.start()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop_requested.set)
    server.task_supervisor.spawn(_collect_garbage(server))
    if with_parent:
        loop.add_reader(0, _parent_pipe(server, loop).read)
    gateway = speaker(server) if speaker is not None else None
    if gateway is not None:
        await _start_http(gateway, server)
    at = format_address(parse_address(config.clients)[0], server.client_port)
    click.echo(
        f"replica {config.replica} of {config.cluster}: clients at {at}, journal in {config.data}"
    )
    await server.stop_requested.wait()
    if gateway is not None:
        await gateway.stop()
    await server.stop()
    if server.failure is not None:
        raise server.failure


async def _collect_garbage(server: Server) -> None:
    driver = server.driver
    with GcSampler.install() as garbage:
        while True:
            executed = driver.executions
            await asyncio.sleep(GC_INTERVAL_S)
            if driver.executions > executed + IDLE_EXECUTIONS_MAX:
                garbage.freeze()
                await asyncio.sleep(GC_SAMPLE_S)
            garbage.sample(driver.replica.tentative_length())


def _parent_pipe(server: Server, loop: asyncio.AbstractEventLoop) -> ParentPipe:
    def ended() -> None:
        loop.remove_reader(0)
        server.stop_requested.set()

    return ParentPipe(0, server.apply_dev_control, ended)


def _reload(server: Server, again: Callable[[], ServerConfig]) -> None:
    try:
        server.reload(again())
    except UsageError as error:
        server.event_log.error("configuration.refused", f"stays as it was: {error}")


async def _start_http(gateway: "HttpServer", server: Server) -> None:
    try:
        await gateway.start()
    except BaseException:
        await server.stop()
        raise


def _http_server_class(config: ServerConfig) -> "type[HttpServer] | None":
    """Imported only where HTTP is spoken, and before anything runs: it takes its time."""
    if not config.http:
        return None
    from creekdb.http import HttpServer  # noqa: PLC0415

    return HttpServer
