"""`creek restore`: the folders of a new cluster, made of a backup."""

import os
from pathlib import Path
from typing import NamedTuple

import click

from creekdb.cli.backup import described
from creekdb.cli.config_text import config_text
from creekdb.cli.exits import FINE
from creekdb.cli.options import import_from_here, refuse_here
from creekdb.cli.output import program
from creekdb.cli.words import counted
from creekdb.errors import UsageError
from creekdb.server.backup.format import Head, read_head
from creekdb.server.backup.restore import restore as make
from creekdb.server.runtime.config import ServerConfig, load_datatype, read_config

HOST = "127.0.0.1"


class _Plan(NamedTuple):
    """What is to be made."""

    cluster: str
    datatype: str
    members: tuple[int, ...]
    folders: dict[int, Path]
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
    head = read_head(file)
    if configs:
        if data or members or replicas or cluster or datatype:
            raise UsageError("--config says all the rest: leave out the other options")
        plan = _as_configured(configs)
    else:
        if data is None or members is None or cluster is None:
            raise UsageError("name --data, --members and --cluster, or --config for each replica")
        plan = _as_given(head, data, members, replicas, cluster, datatype)
    import_from_here()
    make(
        file,
        plan.folders,
        cluster=plan.cluster,
        members=plan.members,
        datatype=load_datatype(plan.datatype).name,
    )
    if not configs:
        _write_configs(plan)
    click.echo(f"{file}: {described(head)}")
    made = counted(len(plan.folders), "folder")
    click.echo(f"{made} for cluster '{plan.cluster}' of {counted(len(plan.members), 'replica')}:")
    for replica in plan.folders:
        click.echo(f"  {program()} serve --config {os.path.relpath(plan.configs[replica])}")
    return FINE


def _as_configured(paths: tuple[Path, ...]) -> _Plan:
    configs = {path: read_config(path, {}) for path in paths}
    first, *others = configs.values()
    for other in others:
        _refuse_other(first, other)
    if len({each.replica for each in configs.values()}) < len(configs):
        raise UsageError("two of the configuration files are of the same replica")
    folders = {each.replica: Path(each.data) for each in configs.values()}
    for folder in folders.values():
        refuse_here(folder, "data")
    if len({each.resolve() for each in folders.values()}) < len(folders):
        raise UsageError("two of the configuration files share a folder: name one for each")
    return _Plan(
        first.cluster,
        first.datatype,
        tuple(sorted(first.members)),
        folders,
        {each.replica: path for path, each in configs.items()},
    )


def _refuse_other(one: ServerConfig, other: ServerConfig) -> None:
    for key in ("cluster", "datatype", "members"):
        if getattr(one, key) != getattr(other, key):
            raise UsageError(f"the configuration files are not of one cluster: {key} differs")


def _as_given(
    head: Head,
    data: Path,
    members: int,
    replicas: tuple[int, ...],
    cluster: str,
    datatype: str | None,
) -> _Plan:
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
    return _Plan(
        cluster,
        datatype or head.imported,
        numbers,
        {each: base / f"data-{each}" for each in chosen},
        configs,
    )


def _write_configs(plan: _Plan) -> None:
    for replica, path in plan.configs.items():
        text = config_text(
            path,
            cluster=plan.cluster,
            datatype=plan.datatype,
            replica=replica,
            data=plan.folders[replica],
            host=HOST,
            members=[HOST] * len(plan.members),
        )
        path.write_text(text, encoding="utf-8")
