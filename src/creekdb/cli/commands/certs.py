"""`creek certs`: certificates, tokens and configuration files for a cluster with TLS."""

import re
import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import click

from creekdb.cli.config_file import client_address, peer_address
from creekdb.cli.declaration import argument, declared, option
from creekdb.cli.options import DIRECTORY, explicit_options
from creekdb.cli.output import command_name, pluralize
from creekdb.errors import UsageError

HOST_PATTERN: Final = r"[A-Za-z0-9._:-]+"
NAME_PATTERN: Final = r"[A-Za-z0-9_-]+"


class NewCluster(NamedTuple):
    """Options for a new set of files, which exclude changes to an existing one."""

    hosts: str = option(
        "Hosts of the replicas: one name or address for each.",
        "127.0.0.1,127.0.0.1,127.0.0.1",
        metavar="HOST,HOST,…",
    )
    names: str = option(
        "Names of the clients; each gets a token.", "trial", flag="--clients", metavar="NAME,NAME,…"
    )
    cluster: str = option("Name of the cluster.", "creek")
    datatype: str = option("Replicated data type.", "kv")


@click.command(short_help="Create certificates, tokens and configuration files.")
@declared
def certs(
    directory: Path = argument(type=DIRECTORY),
    *,
    new: NewCluster,
    days: int = option("Validity of the certificates, in days.", 365, click.IntRange(1, 3650)),
    more: str | None = option(
        "Hosts of further replicas: add certificates and configuration files to DIRECTORY.",
        metavar="HOST,HOST,…",
    ),
    renew: bool = option("Reissue all certificates in DIRECTORY."),
) -> None:
    """Create a set of files for a cluster with TLS in DIRECTORY: an authority, a certificate and a
    configuration file for each replica, and tokens for clients. Replicas authenticate each other by
    certificate; clients trust the authority and authenticate by token.

    \b
    Examples:
      creek certs trial
      creek certs trial --hosts 10.0.0.1,10.0.0.2,10.0.0.3 --clients ann,bob
      creek certs trial --days 30
      creek certs trial --more 10.0.0.4
      creek certs trial --renew
    """
    hosts = _split_names(new.hosts, HOST_PATTERN, "--hosts")
    clients = _split_names(new.names, NAME_PATTERN, "--clients")
    if find_spec("cryptography") is None:
        raise UsageError("creek certs requires cryptography: pip install 'creekdb[certs]'")
    from creekdb.cli.certificate_files import CertificateFiles  # noqa: PLC0415 - optional package

    files = CertificateFiles(directory, days)
    if more is not None or renew:
        if (more is not None and renew) or explicit_options(NewCluster._fields):
            changes = "--more and --renew change an existing set"
            raise UsageError(f"{changes}: combine each with --days only")
        if more is None:
            _print_renewed(directory, files.renew())
        else:
            further = _split_names(more, HOST_PATTERN, "--more")
            template, added = files.add(further)
            _print_join_commands(directory, template.clients, added, further)
    elif directory.is_dir() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty: name an empty or a new directory")
    else:
        tokens = {name: secrets.token_urlsafe(24) for name in clients}
        files.create(new.cluster, new.datatype, hosts, tokens)
        _print_instructions(directory, hosts, tokens, new.datatype)


def _split_names(text: str, pattern: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not re.fullmatch(pattern, name):
            raise UsageError(f"{option} is '{text}': '{name}' is not a name; write NAME,NAME,…")
    return names


def _print_renewed(directory: Path, count: int) -> None:
    certificates = pluralize(count, "certificate")
    click.echo(f"{certificates} in {directory} reissued, with new keys. Copy each certificate and")
    click.echo("key to its host, and send SIGHUP to the replica there; it need not restart.")


def _print_join_commands(
    directory: Path, member: str, replicas: list[int], hosts: list[str]
) -> None:
    """Print the commands for further replicas. `member`: client address of a member."""
    further = pluralize(len(hosts), "further replica")
    click.echo(f"{directory} contains the files for {further} to join.")
    click.echo("Start them one after the other, each on its host:\n")
    for replica, host in zip(replicas, hosts, strict=True):
        options = f"--join {member} --listen {peer_address(host, replica)}"
        _print_serve_command(directory, replica, host, f" {options}")
    click.echo("\nJoining requires CREEK_AUTHORITY and CREEK_TOKEN in the environment.")


def _print_serve_command(directory: Path, replica: int, host: str, options: str = "") -> None:
    config = directory / f"replica-{replica}.toml"
    click.echo(f"  {command_name()} serve --config {config}{options}    # on {host}")


def _print_instructions(
    directory: Path, hosts: list[str], tokens: dict[str, str], datatype: str
) -> None:
    replicas = pluralize(len(hosts), "replica")
    click.echo(f"{directory} contains an authority and, for each of {replicas}, a")
    click.echo("certificate, its key and a configuration file. Start each replica on its host:\n")
    for replica, host in enumerate(hosts):
        _print_serve_command(directory, replica, host)
    click.echo("\nThe configuration files contain these tokens for clients:\n")
    for name, token in tokens.items():
        click.echo(f"  {name}  {token}")
    name, token = next(iter(tokens.items()))
    call = "put lamp 3" if datatype == "kv" else "OPERATION ARGUMENT …"
    click.echo(f"""
To call operations as {name}:

  export CREEK_AUTHORITY={directory / "authority.pem"} CREEK_TOKEN={token}
  {command_name()} call --at {client_address(hosts[0], 0)} {call}

Copy authority.pem and the three files of a replica to its host, and adapt the paths
in its configuration file. Keep authority-key.pem: --more and --renew sign further
certificates with it.""")
