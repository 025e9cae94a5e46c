"""Additions to an existing set of `creek certs`: further replicas and renewed certificates."""

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


def add_replicas(directory: Path, hosts: list[str], days: int) -> None:
    """Create a certificate, its key and a configuration file for each host."""
    base = directory.resolve()
    authority, known = _read_authority(directory, days), _certified_replicas(directory)
    template = read_config(directory / f"replica-{known[0]}.toml", {}, {})
    click.echo(
        f"{directory} contains the files for {pluralize(len(hosts), 'further replica')} to join."
    )
    click.echo("Start them one after the other, each on its host:")
    click.echo()
    for replica, host in enumerate(hosts, known[-1] + 1):
        _write_pair(
            base,
            replica,
            issue(authority, f"replica {replica} of {template.cluster}", (host,), days),
        )
        path = directory / f"replica-{replica}.toml"
        write_private_file(path, _joining_config(base, template, replica, host).encode())
        options = f"--join {template.clients} --listen {peer_address(host, replica)}"
        click.echo(f"  {command_name()} serve --config {path} {options}    # on {host}")
    click.echo()
    click.echo("Joining requires CREEK_AUTHORITY and CREEK_TOKEN in the environment.")


def renew_certificates(directory: Path, days: int) -> None:
    """Reissue all certificates with new keys, valid for this many days from now."""
    base = directory.resolve()
    authority, known = _read_authority(directory, days), _certified_replicas(directory)
    for replica in known:
        pair = read_pair(*(directory / f"replica-{replica}{each}.pem" for each in ("", "-key")))
        _write_pair(base, replica, renew(authority, pair.certificate, days))
    count = pluralize(len(known), "certificate")
    click.echo(f"{count} in {directory} reissued, with new keys. Copy each certificate and key to")
    click.echo("its host, and send SIGHUP to the replica there; it need not restart.")


def _read_authority(directory: Path, days: int) -> CertificatePair:
    pair = read_pair(directory / "authority.pem", directory / "authority-key.pem")
    end = pair.certificate.not_valid_after_utc
    if end < datetime.now(UTC) + timedelta(days=days):
        path = directory / "authority.pem"
        raise UsageError(
            f"{path} expires on {end:%Y-%m-%d}, before the certificates: reduce --days"
        )
    return pair


def _certified_replicas(directory: Path) -> list[int]:
    matches = [_CERTIFICATE_NAME.fullmatch(each.name) for each in directory.iterdir()]
    numbers = sorted(int(match[1]) for match in matches if match is not None)
    if not numbers:
        raise UsageError(
            f"{directory} contains no certificate of a replica: name a directory of 'creek certs'"
        )
    return numbers


def _write_pair(base: Path, replica: int, pair: CertificatePair) -> None:
    write_certificate(base, replica, pair.certificate_pem(), pair.key_pem())


def _joining_config(base: Path, template: ServerConfig, replica: int, host: str) -> str:
    return render_config(
        base / f"replica-{replica}.toml",
        cluster=template.cluster,
        datatype=template.datatype,
        replica=replica,
        data=base / f"data-{replica}",
        host=host,
        extra=security_section(base, replica, template.security),
    )
