"""`creek cut`, `creek heal` and `creek kill`: faults in a cluster of `creek up`."""

import re

import click

from creekdb.cli.declaration import declared, option
from creekdb.cli.dev_cluster import ControlFile, find_control
from creekdb.errors import UsageError

PORT = option(
    "Client port of a replica of the cluster.  [default: the port in CREEK_AT, or 7100]",
    type=click.IntRange(1024, 65_535),
)


@click.command(short_help="Cut links of a cluster of 'creek up'.")
@declared
def cut(links: tuple[str, ...], *, port: int | None = PORT) -> None:
    """Cut links between replicas of a cluster of 'creek up'. A link is a pair of replicas, such as
    0-1. A single number stands for all links of that replica. 'creek heal' restores them.

    \b
    Examples:
      creek cut 0-1 0-2
      creek cut 0
    """
    if not links:
        raise UsageError("the argument LINKS is missing: name a link such as 0-1")
    control = find_control(port)
    parsed = [link for text in links for link in parse_links(text, control)]
    control.request("cut", links=parsed)
    click.echo(f"cut: {_links_text(parsed)}")


@click.command(short_help="End the faults in a cluster of 'creek up'.")
@declared
def heal(*, port: int | None = PORT) -> None:
    """Restore all links of a cluster of 'creek up', and start the replicas that were killed.

    Example: creek heal
    """
    control = find_control(port)
    control.request("heal", links=control.all_links())
    for replica in range(control.replicas):
        control.request("start", replica=replica)
    click.echo("healed: all links are up, and all replicas run")


@click.command(short_help="Kill a replica of a cluster of 'creek up'.")
@declared
def kill(replica: int, *, port: int | None = PORT) -> None:
    """Kill a replica of a cluster of 'creek up'. It stays down until 'creek heal'.

    Example: creek kill 2
    """
    find_control(port).request("kill", replica=replica)
    click.echo(f"killed: replica {replica}; 'creek heal' starts it again")


def parse_links(text: str, control: ControlFile) -> list[tuple[int, int]]:
    """Return the links that an argument names."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if match is None:
        raise UsageError(f"'{text}' is no link: write two replicas, such as 0-1")
    ends = [int(each) for each in match.groups() if each is not None]
    for replica in ends:
        if replica >= control.replicas:
            raise UsageError(f"unknown replica {replica}: replicas are 0 to {control.replicas - 1}")
    links = [link for link in control.all_links() if {*ends} <= {*link}]
    if len({*ends}) < len(ends):
        raise UsageError(f"replica {ends[0]} has no link to itself: name two replicas")
    return links


def _links_text(links: list[tuple[int, int]]) -> str:
    return ", ".join(f"{one}-{other}" for one, other in links)
