"""Replicas that encrypt what they say, one of them with a certificate that has expired."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from creekdb.cli.exit_codes import USAGE_ERROR
from creekdb.server.security.certificates import CertificatePair, issue, new_authority
from tests.cluster.faults_story import Cluster, tell

OTHERS = [(1, 2), (2, 1)]


def config_with(pair: CertificatePair, folder: Path, name: str) -> Path:
    """A file for `creek serve` with this certificate."""
    (folder / f"{name}.pem").write_bytes(pair.certificate_pem())
    (folder / f"{name}-key.pem").write_bytes(pair.key_pem())
    config = folder / f"{name}.toml"
    config.write_text(
        "[security]\n"
        f'authority = "{folder / "authority.pem"}"\n'
        f'certificate = "{folder / name}.pem"\n'
        f'key = "{folder / name}-key.pem"\n'
    )
    return config


def test_an_expired_certificate_keeps_a_replica_out_until_it_has_a_new_one(tmp_path: Path) -> None:
    authority, here = new_authority("ours", 30), ("127.0.0.1",)
    trusted = tmp_path / "authority.pem"
    trusted.write_bytes(authority.certificate_pem())
    good = config_with(issue(authority, "good", here, 1), tmp_path, "good")
    long_ago = datetime.now(UTC) - timedelta(days=9)
    expired = config_with(issue(authority, "old", here, 2, long_ago), tmp_path, "old")
    configs = dict.fromkeys(range(3), good)

    async def story(cluster: Cluster) -> None:
        load = await cluster.load(120, at=OTHERS)
        await load.reaches(30)
        cluster.processes.kill(0)
        configs[0] = expired
        cluster.processes.start(0)
        assert await cluster.processes.exit_code(0) == USAGE_ERROR
        told = cluster.processes.said(0).splitlines()[-1]
        assert told == (
            f"creek: security.certificate {tmp_path / 'old.pem'} would be refused by the other "
            "replicas: certificate has expired"
        )
        await load.reaches(90)
        configs[0] = good
        cluster.processes.start(0)
        await cluster.up()

    tell(tmp_path, story, configs=configs, trusted=trusted)
