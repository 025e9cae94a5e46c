"""`creek certs`: certificates, tokens and configuration files for a trial with TLS."""

import re
import secrets
from importlib.util import find_spec
from pathlib import Path

import click

from creek.cli.config_text import FIRST_CLIENT_PORT, address, config_text, quoted
from creek.cli.exits import FINE
from creek.cli.output import program
from creek.cli.words import counted
from creek.errors import UsageError


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
def certs(folder: Path, hosts: str, names: str, cluster: str, datatype: str, days: int) -> int:
    """Make a working set for a trial in FOLDER: an authority, a certificate and a configuration
    file for each replica, and tokens for clients. Replicas show each other their certificates;
    clients trust the authority and show a token.

    \b
    Examples:
      creek certs trial
      creek certs trial --hosts 10.0.0.1,10.0.0.2,10.0.0.3 --clients ann,bob --days 30
    """
    where = _words(hosts, r"[A-Za-z0-9._:-]+", "--hosts")
    who = _words(names, r"[A-Za-z0-9_-]+", "--clients")
    if find_spec("cryptography") is None:
        raise UsageError("creek certs needs another package: pip install 'creek[certs]'")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty: name a folder that is, or does not exist")
    folder.mkdir(parents=True, exist_ok=True)
    base = folder.resolve()
    _certify(base, cluster, where, days)
    tokens = {name: secrets.token_urlsafe(24) for name in who}
    for replica in range(len(where)):
        text = _config(base, cluster, datatype, replica, where, tokens)
        _private(base / f"replica-{replica}.toml", text.encode())
    _explain(folder, where, tokens)
    return FINE


def _words(text: str, form: str, option: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not re.fullmatch(form, word):
            raise UsageError(f"{option} '{text}': '{word}' is not a name; write NAME,NAME,…")
    return words


def _certify(base: Path, cluster: str, hosts: list[str], days: int) -> None:
    from creek.cluster.certificates import issue, new_authority  # noqa: PLC0415 - if it is there

    authority = new_authority(f"{cluster}, for a trial", days)
    (base / "authority.pem").write_bytes(authority.certificate_pem())
    _private(base / "authority-key.pem", authority.key_pem())
    for number, host in enumerate(hosts):
        pair = issue(authority, f"replica {number} of {cluster}", (host,), days)
        (base / f"replica-{number}.pem").write_bytes(pair.certificate_pem())
        _private(base / f"replica-{number}-key.pem", pair.key_pem())


def _private(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)


def _config(
    base: Path,
    cluster: str,
    datatype: str,
    replica: int,
    hosts: list[str],
    tokens: dict[str, str],
) -> str:
    def file(name: str) -> str:
        return quoted(str(base / name))

    return config_text(
        base / f"replica-{replica}.toml",
        cluster=cluster,
        datatype=datatype,
        replica=replica,
        data=base / f"data-{replica}",
        hosts=hosts,
        more=(
            "[security]",
            f"authority = {file('authority.pem')}",
            f"certificate = {file(f'replica-{replica}.pem')}",
            f"key = {file(f'replica-{replica}-key.pem')}",
            "",
            "[security.tokens]",
            *(f'{name} = "{token}"' for name, token in tokens.items()),
            "",
        ),
    )


def _explain(folder: Path, hosts: list[str], tokens: dict[str, str]) -> None:
    name, token = next(iter(tokens.items()))
    at = address(hosts[0], FIRST_CLIENT_PORT)
    click.echo(
        f"{folder} holds an authority, and for {counted(len(hosts), 'replica')} a certificate,"
    )
    click.echo("its key and a configuration file each. Start them, each where it belongs:")
    click.echo()
    for replica, host in enumerate(hosts):
        config = folder / f"replica-{replica}.toml"
        click.echo(f"  {program()} serve --config {config}    # on {host}")
    click.echo()
    click.echo("The tokens of those who may call are in the configuration files:")
    click.echo()
    for each, secret in tokens.items():
        click.echo(f"  {each}  {secret}")
    click.echo()
    click.echo(f"To call, as {name}:")
    click.echo()
    click.echo(f"  export CREEK_AUTHORITY={folder / 'authority.pem'} CREEK_TOKEN={token}")
    click.echo(f"  {program()} call --at {at} put lamp 3")
    click.echo()
    click.echo("To another machine go authority.pem and that replica's three files; adapt the")
    click.echo("paths in its configuration. authority-key.pem makes further certificates: keep it.")
