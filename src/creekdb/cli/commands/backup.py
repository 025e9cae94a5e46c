"""`creek backup`, `creek restore` and `creek export`: the committed state of a cluster.

A backup is a file, a restore creates the data directories of a new cluster from it, and an export
is Parquet.
"""

import asyncio
import os
import tempfile
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

from creekdb.cli.config_file import render_config, replica_config
from creekdb.cli.declaration import declared, option
from creekdb.cli.options import (
    AS_JSON,
    DIRECTORY,
    EXISTING_DIRECTORY,
    EXISTING_FILE,
    NEW_DIRECTORY,
    add_working_directory_to_path,
    command_limits,
    explicit_options,
    reject_working_directory,
)
from creekdb.cli.output import ProgressBar, command_name, pluralize, print_json
from creekdb.cli.target import ClusterTarget
from creekdb.client import NotDone
from creekdb.client.backup_download import download_backup
from creekdb.errors import UsageError
from creekdb.server.backup.format import BackupHeader, open_backup_writer, read_header
from creekdb.server.backup.restore import restore as restore_data_dirs
from creekdb.server.runtime.config import ServerConfig, load_datatype, read_config

BAR_DELAY_S = 2.0
LOCAL_HOST = "127.0.0.1"


@click.command(short_help="Write the committed state of a live cluster to a file.")
@declared
def backup(
    file: Path,
    *,
    operations: bool = option(
        "Include the latest operations of the replica's journal, for 'creek export'."
    ),
    force: bool = option("Replace FILE if it exists."),
    target: ClusterTarget,
) -> None:
    """Write the committed state of a running cluster to FILE. It is the executed, stable state of
    one replica at one position of the order; tentative operations are not included. FILE gets its
    name once it is complete and on disk. Exits with 1 if no backup could be made.

    \b
    Examples:
      creek backup shop.backup
      creek backup --at 10.0.0.2:7100 --token $TOKEN \\
                   --authority authority.pem shop.backup
      creek restore shop.backup --data new --members 5 --cluster shop-2
    """
    header = fetch_backup(file, target, "make a backup", operations, force)
    click.echo(f"{file}: {describe_backup(header)}, {file.stat().st_size} bytes")
    click.echo(f"to start a new cluster from it, see '{command_name()} restore --help'")


def fetch_backup(
    file: Path, target: ClusterTarget, purpose: str, operations: bool, force: bool = False
) -> BackupHeader:
    columns = ("backing up", BarColumn(), MofNCompleteColumn(), "registers", TimeRemainingColumn())
    with (
        open_backup_writer(file, force) as writer,
        ProgressBar(*columns, delay_s=BAR_DELAY_S) as bar,
    ):
        download = download_backup(
            target.addresses,
            writer.write,
            token=target.token,
            authority=target.authority,
            operations=operations,
            progress=lambda completed, total: bar.update(completed=completed, total=total),
            refused=command_limits().refused_retry_s,
        )
        try:
            asyncio.run(download)
        except NotDone as error:
            raise target.failure(f"cannot {purpose}", error) from error
    return read_header(file)


def describe_backup(header: BackupHeader) -> str:
    length = pluralize(header.length, "committed operation")
    return f"'{header.datatype}' of cluster '{header.cluster}' after {length}"


@click.command(short_help="Create the data directories of a new cluster from a backup.")
@declared
def restore(
    file: Path,
    *,
    configs: tuple[Path, ...] = option(
        "Configuration file of a replica, as for 'creek serve': create its data directory. Repeat "
        "it for each replica on this machine.",
        type=EXISTING_FILE,
        flag="--config",
    ),
    data: Path | None = option(
        "Without --config: directory for the data directories and a configuration file for each.",
        type=DIRECTORY,
    ),
    members: int | None = option(
        "With --data: number of members of the cluster.", type=click.IntRange(1, 15)
    ),
    replicas: tuple[int, ...] = option(
        "With --data: restrict the output to this replica. May be repeated.", flag="--replica"
    ),
    cluster: str | None = option("With --data: name of the new cluster."),
    datatype: str | None = option(
        "With --data: data type, as package.module:variable.  [default: as in the backup]"
    ),
) -> None:
    """Create the data directories of a new cluster that continues from the backup in FILE. The new
    cluster may have another size, and must have another name. Create all data directories from the
    same file, each on its own machine. Nothing is written unless the backup is complete, the data
    type matches, and all data directories are empty.

    At the first start, every replica waits until it has connected to all others.

    \b
    Examples:
      creek restore shop.backup --data new --members 5 --cluster shop-2
      creek restore shop.backup --data new --members 3 --replica 0 \\
                    --cluster shop-2
      creek restore shop.backup --config replica-0.toml
    """
    header = read_header(file)
    if configs:
        if data or members or replicas or cluster or datatype:
            raise UsageError("--config defines the cluster: omit the other options")
        new_tables = {}
        planned = _read_configs(configs)
    else:
        if data is None or members is None or cluster is None:
            raise UsageError("add --data, --members and --cluster, or --config for each replica")
        chosen = sorted({*replicas}) or range(members)
        new_tables = _new_tables(data, members, chosen, cluster, datatype or header.imported)
        planned = {
            path: msgspec.convert(table, ServerConfig, strict=False)
            for path, table in new_tables.items()
        }
    first, data_dirs = next(iter(planned.values())), _data_dirs(planned)
    add_working_directory_to_path()
    restore_data_dirs(
        file,
        data_dirs,
        cluster=first.cluster,
        members=tuple(sorted(first.members)),
        datatype=load_datatype(first.datatype).name,
    )
    for path, table in new_tables.items():
        path.write_text(render_config(path, table), encoding="utf-8")
    click.echo(f"{file}: {describe_backup(header)}")
    count = len(data_dirs)
    created = f"{count} data {'directory' if count == 1 else 'directories'}"
    members_text = pluralize(len(first.members), "replica")
    click.echo(f"{created} for cluster '{first.cluster}' of {members_text}:")
    for path in planned:
        click.echo(f"  {command_name()} serve --config {os.path.relpath(path)}")


def _data_dirs(configs: Mapping[Path, ServerConfig]) -> dict[int, Path]:
    return {each.replica: Path(each.data) for each in configs.values()}


def _read_configs(paths: tuple[Path, ...]) -> dict[Path, ServerConfig]:
    configs = {path: read_config(path, {}) for path in paths}
    first, *others = configs.values()
    for key in ("cluster", "datatype", "members"):
        if any(getattr(each, key) != getattr(first, key) for each in others):
            raise UsageError(f"the configuration files are of different clusters: {key} differs")
    data_dirs = _data_dirs(configs)
    if len(data_dirs) < len(configs):
        raise UsageError("two configuration files have the same replica number: change one")
    for data_dir in data_dirs.values():
        reject_working_directory(data_dir, "data")
    if len({each.resolve() for each in data_dirs.values()}) < len(data_dirs):
        raise UsageError("two configuration files have the same data directory: change one")
    return configs


def _new_tables(
    data: Path, members: int, replicas: Iterable[int], cluster: str, datatype: str
) -> dict[Path, dict[str, Any]]:
    """Return the content of the configuration files to write, by path."""
    base, hosts = data.resolve(), [LOCAL_HOST] * members
    tables = {}
    for replica in replicas:
        path = base / f"replica-{replica}.toml"
        if not 0 <= replica < members:
            raise UsageError(f"--replica is {replica}: it must be between 0 and {members - 1}")
        if path.exists():
            raise UsageError(f"{path} exists already: name another directory with --data")
        tables[path] = replica_config(base, replica, LOCAL_HOST, cluster, datatype, hosts)
    return tables


@click.command(short_help="Write the committed state of a cluster as Parquet, for Spark.")
@declared
def export(
    backup: Path | None,
    *,
    out: Path = option("Directory to create.", type=NEW_DIRECTORY, required=True),
    recordings: tuple[Path, ...] = option(
        "Directory of recordings ('creek serve --record'), as a source of earlier operations.",
        type=EXISTING_DIRECTORY,
        flag="--recording",
    ),
    as_json: bool = AS_JSON,
    target: ClusterTarget,
) -> None:
    """Write the state and the committed operations of a running cluster, or of a BACKUP, as
    Parquet. A replica has the operations since its last checkpoint, a recording those since its
    start. The output and export.json state the index from which operations are complete.

    \b
    Examples:
      creek export --out shop
      creek export --at 10.0.0.2:7100 --out shop --recording recordings
      creek export shop.backup --out shop
      spark.read.parquet("shop/state")         in Spark
    """
    if backup is not None and explicit_options({"addresses"}):
        raise UsageError("BACKUP and --at exclude each other: omit one of them")
    if find_spec("pyarrow") is None:
        raise UsageError("creek export requires pyarrow: pip install 'creekdb[export]'")
    from creekdb.pipeline.stages.export import export_backup  # noqa: PLC0415 - optional package

    if backup is not None:
        exported = export_backup(backup, out, recordings)
    else:
        with tempfile.TemporaryDirectory(prefix="creek-") as directory:
            fetched = Path(directory) / "fetched.backup"
            fetch_backup(fetched, target, "export", operations=True)
            exported = export_backup(fetched, out, recordings)
    if as_json:
        print_json(exported)
        return
    click.echo(
        f"{out}: {pluralize(exported.registers, 'register')} of '{exported.datatype}' after "
        f"{pluralize(exported.length, 'committed operation')}"
    )
    operations = pluralize(exported.operations, "operation")
    if exported.complete_from == exported.length:
        click.echo(f"{operations}; the latest operations are not available")
    else:
        click.echo(f"{operations}, complete from index {exported.complete_from} on")
