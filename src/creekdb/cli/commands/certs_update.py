"""What `creek certs` adds to a set that is there: for further replicas, and when a year is over."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click

from creekdb.cli.commands.certs import security_section, write_certificate, write_private_file
from creekdb.cli.config_file import peer_address, render_config
from creekdb.cli.output import command_name, pluralize
from creekdb.errors import UsageError
from creekdb.server.runtime.config import ServerConfig, read_config
from creekdb.server.security.certificates import CertificatePair, issue, read_pair, renew

_CERTIFICATE_NAME: Final = re.compile(r"replica-(\d+)\.pem")


def add_replicas(folder: Path, hosts: list[str], days: int) -> None:
    """A certificate, its key and a configuration file for each of these hosts."""
    base = folder.resolve()
    authority, known = _read_authority(folder, days), _certified_replicas(folder)
    like = read_config(folder / f"replica-{known[0]}.toml", {}, {})
    click.echo(
        f"{folder} holds what it takes to join, for {pluralize(len(hosts), 'further replica')}."
    )
    click.echo("One after the other, each where it belongs:")
    click.echo()
    for replica, host in enumerate(hosts, known[-1] + 1):
        _write_pair(
            base, replica, issue(authority, f"replica {replica} of {like.cluster}", (host,), days)
        )
        path = folder / f"replica-{replica}.toml"
        write_private_file(path, _joining_config(base, like, replica, host).encode())
        how = f"--join {like.clients} --listen {peer_address(host, replica)}"
        click.echo(f"  {command_name()} serve --config {path} {how}    # on {host}")
    click.echo()
    click.echo("CREEK_AUTHORITY and CREEK_TOKEN must be set where they join.")


def renew_certificates(folder: Path, days: int) -> None:
    """All certificates, with new keys, for so long from now."""
    base = folder.resolve()
    authority, known = _read_authority(folder, days), _certified_replicas(folder)
    for replica in known:
        pair = read_pair(*(folder / f"replica-{replica}{each}.pem" for each in ("", "-key")))
        _write_pair(base, replica, renew(authority, pair.certificate, days))
    told = pluralize(len(known), "certificate")
    click.echo(f"{told} in {folder} issued again, with new keys. Bring each with its key to where")
    click.echo("it belongs, and send SIGHUP to the replica there: it goes on.")


def _read_authority(folder: Path, days: int) -> CertificatePair:
    pair = read_pair(folder / "authority.pem", folder / "authority-key.pem")
    end = pair.certificate.not_valid_after_utc
    if end < datetime.now(UTC) + timedelta(days=days):
        raise UsageError(f"{folder / 'authority.pem'} ends on {end:%Y-%m-%d} itself: fewer --days")
    return pair


def _certified_replicas(folder: Path) -> list[int]:
    found = [_CERTIFICATE_NAME.fullmatch(each.name) for each in folder.iterdir()]
    numbers = sorted(int(each[1]) for each in found if each is not None)
    if not numbers:
        raise UsageError(
            f"{folder} holds no certificate of a replica: is it a set of 'creek certs'?"
        )
    return numbers


def _write_pair(base: Path, replica: int, pair: CertificatePair) -> None:
    write_certificate(base, replica, pair.certificate_pem(), pair.key_pem())


def _joining_config(base: Path, like: ServerConfig, replica: int, host: str) -> str:
    return render_config(
        base / f"replica-{replica}.toml",
        cluster=like.cluster,
        datatype=like.datatype,
        replica=replica,
        data=base / f"data-{replica}",
        host=host,
        more=security_section(base, replica, like.security),
    )
