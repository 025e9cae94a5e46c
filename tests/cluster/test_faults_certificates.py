"""Real processes with TLS, one of them with an expired certificate."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from creekdb.cli.exit_codes import USAGE_ERROR
from creekdb.server.security.certificates import CertificatePair, issue, new_authority
from tests.cluster.fault_scenario import fault_scenario

OTHER_REPLICAS = [(1, 2), (2, 1)]


def config_with(pair: CertificatePair, directory: Path, name: str) -> Path:
    """Write a configuration file for `creek serve` with this certificate."""
    (directory / f"{name}.pem").write_bytes(pair.certificate_pem())
    (directory / f"{name}-key.pem").write_bytes(pair.key_pem())
    config = directory / f"{name}.toml"
    config.write_text(
        "[security]\n"
        f'authority = "{directory / "authority.pem"}"\n'
        f'certificate = "{directory / name}.pem"\n'
        f'key = "{directory / name}-key.pem"\n'
    )
    return config


async def test_a_replica_with_an_expired_certificate_starts_after_renewal(tmp_path: Path) -> None:
    authority, hosts = new_authority("ours", 30), ("127.0.0.1",)
    authority_path = tmp_path / "authority.pem"
    authority_path.write_bytes(authority.certificate_pem())
    valid = config_with(issue(authority, "good", hosts, 1), tmp_path, "good")
    start = datetime.now(UTC) - timedelta(days=9)
    expired = config_with(issue(authority, "old", hosts, 2, start), tmp_path, "old")
    configs = dict.fromkeys(range(3), valid)
    async with fault_scenario(tmp_path, configs=configs, trusted=authority_path) as cluster:
        load = await cluster.load(120, at=OTHER_REPLICAS)
        await load.until_completed(30)
        cluster.processes.kill(0)
        configs[0] = expired
        cluster.processes.start(0)
        assert await cluster.processes.exit_code(0) == USAGE_ERROR
        last_line = cluster.processes.output(0).splitlines()[-1]
        assert last_line == (
            f"creek: security.certificate {tmp_path / 'old.pem'} would be rejected by the other "
            "replicas: certificate has expired"
        )
        await load.until_completed(90)
        configs[0] = valid
        cluster.processes.start(0)
        await cluster.until_ready()
