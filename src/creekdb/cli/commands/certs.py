"""`creek certs`: certificates, tokens and configuration files for a cluster with TLS."""

import re
import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from creekdb.cli.config_file import client_address, render_config, toml_string
from creekdb.cli.exit_codes import SUCCESS
from creekdb.cli.options import is_explicit
from creekdb.cli.output import command_name, pluralize
from creekdb.errors import UsageError
from creekdb.server.runtime.config import SecurityConfig

HOST_PATTERN: Final = r"[A-Za-z0-9._:-]+"
NAME_PATTERN: Final = r"[A-Za-z0-9_-]+"
AUTHORITY_DAYS: Final = 3650
"""Validity of the authority's certificate, which must outlive the certificates it signs."""


@click.command(short_help="Create certificates, tokens and configuration files.")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--hosts",
    default="127.0.0.1,127.0.0.1,127.0.0.1",
    show_default=True,
    metavar="HOST,HOST,…",
    help="Hosts of the replicas: one name or address for each.",
)
@click.option(
    "--clients",
    "names",
    default="trial",
    show_default=True,
    metavar="NAME,NAME,…",
    help="Names of the clients; each gets a token.",
)
@click.option("--cluster", default="creek", show_default=True, help="Name of the cluster.")
@click.option("--datatype", default="kv", show_default=True, help="Replicated data type.")
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=365,
    show_default=True,
    help="Validity of the certificates, in days.",
)
@click.option(
    "--more",
    metavar="HOST,HOST,…",
    help="Hosts of further replicas: add certificates and configuration files to DIRECTORY.",
)
@click.option("--renew", is_flag=True, help="Reissue all certificates in DIRECTORY.")
@click.pass_context
def certs(
    context: click.Context,
    directory: Path,
    hosts: str,
    names: str,
    cluster: str,
    datatype: str,
    days: int,
    more: str | None,
    renew: bool,
) -> int:
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
    host_names = _split_names(hosts, HOST_PATTERN, "--hosts")
    client_names = _split_names(names, NAME_PATTERN, "--clients")
    if find_spec("cryptography") is None:
        raise UsageError("creek certs requires cryptography: pip install 'creekdb[certs]'")
    if more is not None or renew:
        _reject_combination(context, more, renew)
        from creekdb.cli.commands.certs_update import (  # noqa: PLC0415 - optional package
            add_replicas,
            renew_certificates,
        )

        if more is None:
            renew_certificates(directory, days)
        else:
            add_replicas(directory, _split_names(more, HOST_PATTERN, "--more"), days)
        return SUCCESS
    if directory.is_dir() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty: name an empty or a new directory")
    directory.mkdir(parents=True, exist_ok=True)
    base = directory.resolve()
    _issue_certificates(base, cluster, host_names, days)
    tokens = {name: secrets.token_urlsafe(24) for name in client_names}
    for replica in range(len(host_names)):
        text = _replica_config(base, cluster, datatype, replica, host_names, tokens)
        write_private_file(base / f"replica-{replica}.toml", text.encode())
    _print_instructions(directory, host_names, tokens, datatype)
    return SUCCESS


def _reject_combination(context: click.Context, more: str | None, renew: bool) -> None:
    others = ("hosts", "names", "cluster", "datatype")
    if (more is not None and renew) or any(is_explicit(context, each) for each in others):
        raise UsageError("--more and --renew change an existing set: combine each with --days only")


def _split_names(text: str, pattern: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not re.fullmatch(pattern, name):
            raise UsageError(f"{option} is '{text}': '{name}' is not a name; write NAME,NAME,…")
    return names


def _issue_certificates(base: Path, cluster: str, hosts: list[str], days: int) -> None:
    from creekdb.server.security.certificates import (  # noqa: PLC0415 - optional package
        issue,
        new_authority,
    )

    authority = new_authority(f"{cluster}, for a trial", max(days, AUTHORITY_DAYS))
    (base / "authority.pem").write_bytes(authority.certificate_pem())
    write_private_file(base / "authority-key.pem", authority.key_pem())
    for number, host in enumerate(hosts):
        pair = issue(authority, f"replica {number} of {cluster}", (host,), days)
        write_certificate(base, number, pair.certificate_pem(), pair.key_pem())


def write_certificate(base: Path, replica: int, certificate: bytes, key: bytes) -> None:
    (base / f"replica-{replica}.pem").write_bytes(certificate)
    write_private_file(base / f"replica-{replica}-key.pem", key)


def write_private_file(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)


def _replica_config(
    base: Path,
    cluster: str,
    datatype: str,
    replica: int,
    hosts: list[str],
    tokens: dict[str, str],
) -> str:
    return render_config(
        base / f"replica-{replica}.toml",
        cluster=cluster,
        datatype=datatype,
        replica=replica,
        data=base / f"data-{replica}",
        host=hosts[replica],
        members=hosts,
        extra=security_section(base, replica, SecurityConfig(tokens=tokens)),
    )


def security_section(base: Path, replica: int, known: SecurityConfig) -> tuple[str, ...]:
    """Return the lines of the section `security`. `known`: tokens and administrators to copy."""
    admins = f"admins = [{', '.join(map(toml_string, known.admins))}]"
    return (
        "[security]",
        f"authority = {toml_string(str(base / 'authority.pem'))}",
        f"certificate = {toml_string(str(base / f'replica-{replica}.pem'))}",
        f"key = {toml_string(str(base / f'replica-{replica}-key.pem'))}",
        *((admins,) if known.admins else ()),
        "",
        "[security.tokens]",
        *(f"{_toml_key(name)} = {toml_string(token)}" for name, token in known.tokens.items()),
        "",
    )


def _toml_key(name: str) -> str:
    return name if re.fullmatch(NAME_PATTERN, name) else toml_string(name)


def _print_instructions(
    directory: Path, hosts: list[str], tokens: dict[str, str], datatype: str
) -> None:
    name, token = next(iter(tokens.items()))
    address = client_address(hosts[0], 0)
    click.echo(
        f"{directory} contains an authority and, for each of {pluralize(len(hosts), 'replica')}, a"
    )
    click.echo("certificate, its key and a configuration file. Start each replica on its host:")
    click.echo()
    for replica, host in enumerate(hosts):
        config = directory / f"replica-{replica}.toml"
        click.echo(f"  {command_name()} serve --config {config}    # on {host}")
    click.echo()
    click.echo("The configuration files contain these tokens for clients:")
    click.echo()
    for each, secret in tokens.items():
        click.echo(f"  {each}  {secret}")
    click.echo()
    click.echo(f"To call operations as {name}:")
    click.echo()
    click.echo(f"  export CREEK_AUTHORITY={directory / 'authority.pem'} CREEK_TOKEN={token}")
    call = "put lamp 3" if datatype == "kv" else "OPERATION ARGUMENT …"
    click.echo(f"  {command_name()} call --at {address} {call}")
    click.echo()
    click.echo(
        "Copy authority.pem and the three files of a replica to its host, and adapt the paths"
    )
    click.echo("in its configuration file. Keep authority-key.pem: --more and --renew sign further")
    click.echo("certificates with it.")
