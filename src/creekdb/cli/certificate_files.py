"""Directory of `creek certs`: an authority, and the files of each replica.

A replica has a certificate, its key and a configuration file.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from creekdb.cli.config_file import render_config, replica_config
from creekdb.errors import UsageError
from creekdb.server.runtime.config import SecurityConfig, ServerConfig, read_config
from creekdb.server.security.authentication import replica_identity
from creekdb.server.security.certificates import (
    CertificatePair,
    issue,
    new_authority,
    read_pair,
    renew,
)

AUTHORITY_DAYS: Final = 3650
"""Validity of the authority's certificate, which must outlive the certificates it signs."""
_CERTIFICATE_NAME: Final = re.compile(r"replica-(\d+)\.pem")


class CertificateFiles:
    """`days`: validity of the certificates to issue."""

    def __init__(self, directory: Path, days: int) -> None:
        self._directory = directory
        self._base = directory.resolve()
        self._days = days

    def create(
        self, cluster: str, datatype: str, hosts: Sequence[str], tokens: dict[str, str]
    ) -> None:
        """Create the files of a new cluster."""
        self._directory.mkdir(parents=True, exist_ok=True)
        authority = new_authority(f"{cluster}, for a trial", max(self._days, AUTHORITY_DAYS))
        self._write_pair("authority", authority)
        for replica, host in enumerate(hosts):
            config = replica_config(self._base, replica, host, cluster, datatype, hosts)
            self._write_replica(authority, replica, host, config, SecurityConfig(tokens=tokens))

    def add(self, hosts: Sequence[str]) -> tuple[ServerConfig, list[int]]:
        """Create the files of further replicas of the cluster.

        Return the configuration of an existing replica, and the numbers of the further ones.
        """
        authority, known = self._read_authority(), self._replicas()
        template = self._template(known)
        cluster, datatype = template.cluster, template.datatype
        added = list(range(known[-1] + 1, known[-1] + 1 + len(hosts)))
        for replica, host in zip(added, hosts, strict=True):
            config = replica_config(self._base, replica, host, cluster, datatype)
            self._write_replica(authority, replica, host, config, template.security)
        return template, added

    def renew(self) -> int:
        """Reissue all certificates with new keys, and return their number."""
        authority, known = self._read_authority(), self._replicas()
        cluster = self._template(known).cluster
        for replica in known:
            certificate = self._read_pair(f"replica-{replica}").certificate
            identity = replica_identity(cluster, replica)
            pair = renew(authority, certificate, self._days, identity)
            self._write_pair(f"replica-{replica}", pair)
        return len(known)

    def _template(self, known: Sequence[int]) -> ServerConfig:
        """Return the configuration of an existing replica."""
        return read_config(self._directory / f"replica-{known[0]}.toml", {}, {})

    def _write_replica(
        self,
        authority: CertificatePair,
        replica: int,
        host: str,
        config: Mapping[str, Any],
        security: SecurityConfig,
    ) -> None:
        """Write the files of a replica, with the tokens and administrators of `security`."""
        name = f"replica {replica} of {config['cluster']}"
        identity = replica_identity(config["cluster"], replica)
        pair = issue(authority, name, (host,), self._days, identity=identity)
        self._write_pair(f"replica-{replica}", pair)
        table = {
            "authority": str(self._base / "authority.pem"),
            "certificate": str(self._base / f"replica-{replica}.pem"),
            "key": str(self._base / f"replica-{replica}-key.pem"),
            **({"admins": security.admins} if security.admins else {}),
            "tokens": security.tokens,
        }
        path = self._base / f"replica-{replica}.toml"
        _write_private_file(path, render_config(path, {**config, "security": table}).encode())

    def _write_pair(self, name: str, pair: CertificatePair) -> None:
        (self._base / f"{name}.pem").write_bytes(pair.certificate_pem())
        _write_private_file(self._base / f"{name}-key.pem", pair.key_pem())

    def _read_pair(self, name: str) -> CertificatePair:
        return read_pair(self._directory / f"{name}.pem", self._directory / f"{name}-key.pem")

    def _read_authority(self) -> CertificatePair:
        pair = self._read_pair("authority")
        end = pair.certificate.not_valid_after_utc
        if end < datetime.now(UTC) + timedelta(days=self._days):
            raise UsageError(
                f"{self._directory / 'authority.pem'} expires on {end:%Y-%m-%d}, before the "
                "certificates: reduce --days"
            )
        return pair

    def _replicas(self) -> list[int]:
        """Return the numbers of the replicas that have a certificate."""
        matches = [_CERTIFICATE_NAME.fullmatch(each.name) for each in self._directory.iterdir()]
        numbers = sorted(int(match[1]) for match in matches if match is not None)
        if not numbers:
            remedy = "name a directory of 'creek certs'"
            raise UsageError(f"{self._directory} contains no certificate of a replica: {remedy}")
        return numbers


def _write_private_file(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
