"""`creek certs`: certificates, tokens and configuration files for a trial with TLS."""

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
"""It is to outlive what it vouches for."""


@click.command(short_help="Make certificates, tokens and configuration files for a trial.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--hosts",
    default="127.0.0.1,127.0.0.1,127.0.0.1",
    show_default=True,
    metavar="HOST,HOST,…",
    help="Where the replicas are, one name or address for each.",
)
@click.option(
    "--clients",
    "names",
    default="trial",
    show_default=True,
    metavar="NAME,NAME,…",
    help="Who may call: each gets a token.",
)
@click.option("--cluster", default="creek", show_default=True, help="The cluster's name.")
@click.option("--datatype", default="kv", show_default=True, help="What is replicated.")
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=365,
    show_default=True,
    help="How long the certificates are valid.",
)
@click.option(
    "--more",
    metavar="HOST,HOST,…",
    help="To the set in FOLDER, add what further replicas need to join.",
)
@click.option("--renew", is_flag=True, help="Issue all certificates in FOLDER again.")
@click.pass_context
def certs(
    context: click.Context,
    folder: Path,
    hosts: str,
    names: str,
    cluster: str,
    datatype: str,
    days: int,
    more: str | None,
    renew: bool,
) -> int:
    """Make a working set for a trial in FOLDER: an authority, a certificate and a configuration
    file for each replica, and tokens for clients. Replicas show each other their certificates;
    clients trust the authority and show a token.

    \b
    Examples:
      creek certs trial
      creek certs trial --hosts 10.0.0.1,10.0.0.2,10.0.0.3 --clients ann,bob
      creek certs trial --days 30
      creek certs trial --more 10.0.0.4
      creek certs trial --renew
    """
    where = _split_names(hosts, HOST_PATTERN, "--hosts")
    who = _split_names(names, NAME_PATTERN, "--clients")
    if find_spec("cryptography") is None:
        raise UsageError("creek certs needs another package: pip install 'creekdb[certs]'")
    if more is not None or renew:
        _reject_combination(context, more, renew)
        from creekdb.cli.commands.certs_update import add_replicas, renew_certificates  # noqa: PLC0415 - if it is there

        if more is None:
            renew_certificates(folder, days)
        else:
            add_replicas(folder, _split_names(more, HOST_PATTERN, "--more"), days)
        return SUCCESS
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty: name a folder that is, or does not exist")
    folder.mkdir(parents=True, exist_ok=True)
    base = folder.resolve()
    _issue_certificates(base, cluster, where, days)
    tokens = {name: secrets.token_urlsafe(24) for name in who}
    for replica in range(len(where)):
        text = _replica_config(base, cluster, datatype, replica, where, tokens)
        write_private_file(base / f"replica-{replica}.toml", text.encode())
    _print_instructions(folder, where, tokens, datatype)
    return SUCCESS


def _reject_combination(context: click.Context, more: str | None, renew: bool) -> None:
    given = ("hosts", "names", "cluster", "datatype")
    if (more is not None and renew) or any(is_explicit(context, each) for each in given):
        raise UsageError(
            "--more and --renew are each for a set that is there: leave out all else but --days"
        )


def _split_names(text: str, form: str, option: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not re.fullmatch(form, word):
            raise UsageError(f"{option} '{text}': '{word}' is not a name; write NAME,NAME,…")
    return words


def _issue_certificates(base: Path, cluster: str, hosts: list[str], days: int) -> None:
    from creekdb.server.security.certificates import (  # noqa: PLC0415 - if it is there
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
        more=security_section(base, replica, SecurityConfig(tokens=tokens)),
    )


def security_section(base: Path, replica: int, known: SecurityConfig) -> tuple[str, ...]:
    """What the file of a replica says of it. `known`: tokens, and whose may do more."""
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
    folder: Path, hosts: list[str], tokens: dict[str, str], datatype: str
) -> None:
    name, token = next(iter(tokens.items()))
    at = client_address(hosts[0], 0)
    click.echo(
        f"{folder} holds an authority, and for {pluralize(len(hosts), 'replica')} a certificate,"
    )
    click.echo("its key and a configuration file each. Start them, each where it belongs:")
    click.echo()
    for replica, host in enumerate(hosts):
        config = folder / f"replica-{replica}.toml"
        click.echo(f"  {command_name()} serve --config {config}    # on {host}")
    click.echo()
    click.echo("The tokens of those who may call are in the configuration files:")
    click.echo()
    for each, secret in tokens.items():
        click.echo(f"  {each}  {secret}")
    click.echo()
    click.echo(f"To call, as {name}:")
    click.echo()
    click.echo(f"  export CREEK_AUTHORITY={folder / 'authority.pem'} CREEK_TOKEN={token}")
    called = "put lamp 3" if datatype == "kv" else "OPERATION ARGUMENT …"
    click.echo(f"  {command_name()} call --at {at} {called}")
    click.echo()
    click.echo("To another machine go authority.pem and that replica's three files; adapt the")
    click.echo("paths in its configuration. authority-key.pem makes further certificates, with")
    click.echo("--more and --renew: keep it.")
