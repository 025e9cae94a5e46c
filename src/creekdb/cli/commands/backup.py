"""`creek backup`: what a live cluster has committed, in a file.

`creek restore`: the folders of a new cluster, made of a backup.

`creek export`: what a cluster has committed, as Parquet.
"""

import asyncio
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import click

from creekdb.cli.commands.call import (
    REFUSED_RETRY_S,
    addresses_option,
    authority_option,
    error_text,
    token_option,
)
from creekdb.cli.config_file import render_config
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import (
    NewDirectory,
    add_working_directory_to_path,
    is_explicit,
    reject_working_directory,
)
from creekdb.cli.output import command_name, pluralize, print_json
from creekdb.cli.views.progress import progress_bar
from creekdb.client import NotDone
from creekdb.client.backup_download import download_backup
from creekdb.errors import UsageError
from creekdb.server.backup.format import BackupHeader, open_backup_writer, read_header
from creekdb.server.backup.restore import restore as make
from creekdb.server.runtime.config import ServerConfig, load_datatype, read_config


@click.command(short_help="Keep what a live cluster has committed in a file.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--operations",
    is_flag=True,
    help="Also the last operations, as far as the replica's journal has them: for 'creek export'.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@addresses_option
@token_option
@authority_option
def backup(
    file: Path,
    operations: bool,
    force: bool,
    addresses: tuple[str, ...],
    token: str,
    authority: str | None,
) -> int:
    """Keep the committed state of a cluster in FILE, while it runs. It is what one replica has
    executed and what will never change, up to one place of the order; what is tentative is not in
    it. FILE gets its name once it is whole and on disk. Exits with 1 when there is no backup.

    \b
    Examples:
      creek backup shop.backup
      creek backup --at 10.0.0.2:7100 --token $TOKEN \\
                   --authority authority.pem shop.backup
      creek restore shop.backup --data new --members 5 --cluster shop-2
    """
    try:
        head = fetch_backup(file, addresses, token, authority, operations=operations, force=force)
    except NotDone as error:
        click.echo(f"creek: there is no backup: {error_text(error, addresses)}", err=True)
        return FAILURE
    click.echo(f"{file}: {describe_backup(head)}, {file.stat().st_size} bytes")
    click.echo(f"start a new cluster with it: '{command_name()} restore {file} --help' tells how")
    return SUCCESS


def fetch_backup(
    file: Path,
    addresses: tuple[str, ...],
    token: str,
    authority: str | None,
    *,
    operations: bool,
    force: bool = False,
) -> BackupHeader:
    with open_backup_writer(file, force) as kept, progress_bar("backing up", "registers") as moved:
        asyncio.run(
            download_backup(
                addresses,
                kept.write,
                token=token,
                authority=authority,
                operations=operations,
                progress=moved,
                refused=REFUSED_RETRY_S,
            )
        )
    return read_header(file)


def describe_backup(head: BackupHeader) -> str:
    length = pluralize(head.length, "committed operation")
    return f"'{head.datatype}' of cluster '{head.cluster}' after {length}"


LOCAL_HOST = "127.0.0.1"


class _RestorePlan(NamedTuple):
    """What is to be made."""

    cluster: str
    datatype: str
    members: tuple[int, ...]
    data_dirs: dict[int, Path]
    configs: dict[int, Path]
    """By replica: files that are there, or are to be written."""


@click.command(short_help="Make the folders of a new cluster from a backup.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--config",
    "configs",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Of a replica, as for 'creek serve': its folder is made. Once for each that runs here.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Without --config: make the folders here, and a configuration file for each.",
)
@click.option("--members", type=click.IntRange(1, 15), help="With --data: how many replicas.")
@click.option(
    "--replica",
    "replicas",
    multiple=True,
    type=int,
    help="With --data: only for this one. Once for each.",
)
@click.option("--cluster", help="With --data: the new cluster's name.")
@click.option(
    "--datatype", help="With --data: where the data type is imported from, if not as before."
)
def restore(
    file: Path,
    configs: tuple[Path, ...],
    data: Path | None,
    members: int | None,
    replicas: tuple[int, ...],
    cluster: str | None,
    datatype: str | None,
) -> int:
    """Make the folders with which the replicas of a new cluster begin, as the backup in FILE left
    off. The cluster may have another size than the old one; it has another name. Make all of its
    folders from the same file; those on other machines, there. Nothing is made unless the backup is
    whole, of the same data type, and all folders are empty.

    When it is started first, every replica waits until it has heard of all others.

    \b
    Examples:
      creek restore shop.backup --data new --members 5 --cluster shop-2
      creek restore shop.backup --data new --members 3 --replica 0 \\
                    --cluster shop-2
      creek restore shop.backup --config replica-0.toml
    """
    head = read_header(file)
    if configs:
        if data or members or replicas or cluster or datatype:
            raise UsageError("--config says all the rest: leave out the other options")
        plan = _plan_from_configs(configs)
    else:
        if data is None or members is None or cluster is None:
            raise UsageError("name --data, --members and --cluster, or --config for each replica")
        plan = _plan_from_options(head, data, members, replicas, cluster, datatype)
    add_working_directory_to_path()
    make(
        file,
        plan.data_dirs,
        cluster=plan.cluster,
        members=plan.members,
        datatype=load_datatype(plan.datatype).name,
    )
    if not configs:
        _write_configs(plan)
    click.echo(f"{file}: {describe_backup(head)}")
    made = pluralize(len(plan.data_dirs), "folder")
    click.echo(f"{made} for cluster '{plan.cluster}' of {pluralize(len(plan.members), 'replica')}:")
    for replica in plan.data_dirs:
        click.echo(f"  {command_name()} serve --config {os.path.relpath(plan.configs[replica])}")
    return SUCCESS


def _plan_from_configs(paths: tuple[Path, ...]) -> _RestorePlan:
    configs = {path: read_config(path, {}) for path in paths}
    first, *others = configs.values()
    for other in others:
        _check_same_cluster(first, other)
    if len({each.replica for each in configs.values()}) < len(configs):
        raise UsageError("two of the configuration files are of the same replica")
    folders = {each.replica: Path(each.data) for each in configs.values()}
    for folder in folders.values():
        reject_working_directory(folder, "data")
    if len({each.resolve() for each in folders.values()}) < len(folders):
        raise UsageError("two of the configuration files share a folder: name one for each")
    return _RestorePlan(
        first.cluster,
        first.datatype,
        tuple(sorted(first.members)),
        folders,
        {each.replica: path for path, each in configs.items()},
    )


def _check_same_cluster(one: ServerConfig, other: ServerConfig) -> None:
    for key in ("cluster", "datatype", "members"):
        if getattr(one, key) != getattr(other, key):
            raise UsageError(f"the configuration files are not of one cluster: {key} differs")


def _plan_from_options(
    head: BackupHeader,
    data: Path,
    members: int,
    replicas: tuple[int, ...],
    cluster: str,
    datatype: str | None,
) -> _RestorePlan:
    numbers = tuple(range(members))
    for replica in replicas:
        if replica not in numbers:
            raise UsageError(f"--replica {replica}: the members are 0 to {members - 1}")
    chosen = sorted({*replicas}) or numbers
    base = data.resolve()
    configs = {each: base / f"replica-{each}.toml" for each in chosen}
    for path in configs.values():
        if path.exists():
            raise UsageError(f"{path} exists already: name another folder")
    return _RestorePlan(
        cluster,
        datatype or head.imported,
        numbers,
        {each: base / f"data-{each}" for each in chosen},
        configs,
    )


def _write_configs(plan: _RestorePlan) -> None:
    for replica, path in plan.configs.items():
        text = render_config(
            path,
            cluster=plan.cluster,
            datatype=plan.datatype,
            replica=replica,
            data=plan.data_dirs[replica],
            host=LOCAL_HOST,
            members=[LOCAL_HOST] * len(plan.members),
        )
        path.write_text(text, encoding="utf-8")


@click.command(short_help="Write what a cluster has committed as Parquet, for Spark.")
@click.argument("backup", required=False, type=click.Path(path_type=Path))
@click.option("--out", type=NewDirectory(), required=True, help="The new folder.")
@click.option(
    "--recording",
    "recordings",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where replicas recorded what they did ('creek serve --record'): more operations.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@addresses_option
@token_option
@authority_option
@click.pass_context
def export(
    context: click.Context,
    backup: Path | None,
    out: Path,
    recordings: tuple[Path, ...],
    as_json: bool,
    addresses: tuple[str, ...],
    token: str,
    authority: str | None,
) -> int:
    """Write the state and the committed operations of a cluster as Parquet: of a cluster that runs,
    or of a BACKUP. A replica has the operations since its last checkpoint, and a recording those
    since it began: from which one on they are complete is told, and stands in export.json.

    \b
    Examples:
      creek export --out shop
      creek export --at 10.0.0.2:7100 --out shop --recording recordings
      creek export shop.backup --out shop
      spark.read.parquet("shop/state")         in Spark
    """
    if backup is not None and is_explicit(context, "addresses"):
        raise UsageError("name a backup, or replicas with --at, but not both")
    if find_spec("pyarrow") is None:
        raise UsageError("creek export needs another package: pip install 'creekdb[pipeline]'")
    from creekdb.pipeline.stages.export import export_backup as write  # noqa: PLC0415 - if it is there

    if backup is not None:
        exported = write(backup, out, recordings)
    else:
        with tempfile.TemporaryDirectory(prefix="creek-") as folder:
            fetched = Path(folder) / "fetched.backup"
            try:
                fetch_backup(fetched, addresses, token, authority, operations=True)
            except NotDone as error:
                click.echo(f"creek: nothing was exported: {error_text(error, addresses)}", err=True)
                return FAILURE
            exported = write(fetched, out, recordings)
    if as_json:
        print_json(exported)
        return SUCCESS
    click.echo(
        f"{out}: {pluralize(exported.registers, 'register')} of '{exported.datatype}' after "
        f"{pluralize(exported.length, 'committed operation')}"
    )
    operations = pluralize(exported.operations, "operation")
    if exported.complete_from == exported.length:
        click.echo(f"{operations}; the last ones are not at hand")
    else:
        click.echo(f"{operations}, complete from index {exported.complete_from} on")
    return SUCCESS
