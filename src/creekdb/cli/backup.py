"""`creek backup`: what a live cluster has committed, in a file."""

import asyncio
from pathlib import Path

import click

from creekdb.cli.bar import bar
from creekdb.cli.call import REFUSED_S, addresses_option, authority_option, token_option, why
from creekdb.cli.exits import FINE, ILLEGAL
from creekdb.cli.output import program
from creekdb.cli.words import counted
from creekdb.client import NotDone
from creekdb.client.backup_download import copy
from creekdb.server.backup.format import Head, kept_as, read_head


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
        head = fetch(file, addresses, token, authority, operations=operations, force=force)
    except NotDone as error:
        click.echo(f"creek: there is no backup: {why(error, addresses)}", err=True)
        return ILLEGAL
    click.echo(f"{file}: {described(head)}, {file.stat().st_size} bytes")
    click.echo(f"start a new cluster with it: '{program()} restore {file} --help' tells how")
    return FINE


def fetch(
    file: Path,
    addresses: tuple[str, ...],
    token: str,
    authority: str | None,
    *,
    operations: bool,
    force: bool = False,
) -> Head:
    with kept_as(file, force) as kept, bar("backing up", "registers") as moved:
        asyncio.run(
            copy(
                addresses,
                kept.write,
                token=token,
                authority=authority,
                operations=operations,
                progress=moved,
                refused=REFUSED_S,
            )
        )
    return read_head(file)


def described(head: Head) -> str:
    length = counted(head.length, "committed operation")
    return f"'{head.datatype}' of cluster '{head.cluster}' after {length}"
