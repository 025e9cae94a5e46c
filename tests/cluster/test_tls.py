"""TLS between replicas and clients, and the command `creek certs`.

A connection with an invalid certificate or none is rejected with a reason and counted.
"""

import asyncio
import math
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from cryptography.x509 import SubjectAlternativeName

import creekdb
from creekdb import UsageError
from creekdb.cli import main
from creekdb.client.replica_connection import client_tls_context
from creekdb.load.connection import ReplicaDialer
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import free_port
from creekdb.load.measurement import LoadMeter
from creekdb.load.workload import kv_workload
from creekdb.server.observability.metrics import metric_families, render_metrics
from creekdb.server.runtime.config import SecurityConfig, read_config
from creekdb.server.runtime.server import Server, ServerLimits
from creekdb.server.security.authentication import (
    certificate_expiry_s,
    certificate_problem,
    replica_identity,
    server_context,
)
from creekdb.server.security.certificates import CertificatePair, issue, new_authority, read_pair
from creekdb.server.transport import listeners
from creekdb.server.transport.client_connection import ConnectionLimits
from creekdb.server.transport.peer_link import (
    PEER_REQUIRES_TLS_MESSAGE,
    PEER_WITHOUT_TLS_MESSAGE,
    PeerLimits,
)
from creekdb.wire.counters import ServerCounter
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster

LOCALHOST = ("127.0.0.1",)


class CertificateStore(NamedTuple):
    """Files with the certificates of a test."""

    directory: Path
    authority: CertificatePair
    other: CertificatePair

    def security(self, pair: CertificatePair, name: str = "replica", **more: Any) -> SecurityConfig:
        certificate, key = self.directory / f"{name}.pem", self.directory / f"{name}-key.pem"
        certificate.write_bytes(pair.certificate_pem())
        key.write_bytes(pair.key_pem())
        return SecurityConfig(
            authority=str(self.directory / "authority.pem"),
            certificate=str(certificate),
            key=str(key),
            **more,
        )

    def good(self, **more: Any) -> SecurityConfig:
        return self.security(issue(self.authority, "good", LOCALHOST, 1), **more)

    def expired(self) -> SecurityConfig:
        since = datetime.now(UTC) - timedelta(days=9)
        return self.security(issue(self.authority, "old", LOCALHOST, 2, since), "old")

    def not_yet_valid(self) -> SecurityConfig:
        since = datetime.now(UTC) + timedelta(days=1)
        return self.security(issue(self.authority, "early", LOCALHOST, 2, since), "early")

    def with_another_key(self) -> SecurityConfig:
        good, other = self.good(), self.from_another_authority()
        return msgspec.structs.replace(good, key=other.key)

    def from_another_authority(self) -> SecurityConfig:
        return self.security(issue(self.other, "stranger", LOCALHOST, 1), "stranger")

    def of_replica(self, cluster: str, replica: int) -> SecurityConfig:
        identity = replica_identity(cluster, replica)
        pair = issue(self.authority, "named", LOCALHOST, 1, identity=identity)
        return self.security(pair, f"{cluster}-{replica}")

    def of_another_number(self) -> SecurityConfig:
        return self.of_replica("creek", 1)

    def of_another_cluster(self) -> SecurityConfig:
        return self.of_replica("shop", 2)

    def for_another_host(self) -> SecurityConfig:
        return self.security(issue(self.authority, "moved", ("10.1.2.3",), 1), "moved")


def never_expires(security: SecurityConfig, identity: str) -> float:
    return math.inf


@pytest.fixture
def certificates(tmp_path: Path) -> CertificateStore:
    directory = tmp_path / "certificates"
    directory.mkdir()
    store = CertificateStore(directory, new_authority("ours", 1), new_authority("another", 1))
    (directory / "authority.pem").write_bytes(store.authority.certificate_pem())
    (directory / "another.pem").write_bytes(store.other.certificate_pem())
    return store


def authority_path(certificates: CertificateStore) -> str:
    return str(certificates.directory / "authority.pem")


async def test_replicas_and_clients_connect_with_valid_certificates(
    certificates: CertificateStore, tmp_path: Path
) -> None:
    security = certificates.good(tokens={"ann": "secret"})
    async with (
        running_cluster(tmp_path, security=security) as cluster,
        cluster.client(0, authority=authority_path(certificates), token="secret") as db,
    ):
        assert await db.strong.put("a", 1) is None


async def test_the_load_generator_uses_a_token_and_an_authority(
    certificates: CertificateStore, tmp_path: Path
) -> None:
    security = certificates.good(tokens={"ann": "secret"})
    async with running_cluster(tmp_path, replicas=1, security=security) as cluster:

        async def until_something_is_done(meter: LoadMeter) -> None:
            while not meter.completed:
                await asyncio.sleep(0.01)
            meter.end_ns = 0

        async def drive(token: str, authority: str) -> LoadMeter:
            dialer = ReplicaDialer(token=token, tls_context=client_tls_context(authority))
            stream = kv_workload(keys=5, value_bytes=8, reads=0.5, strong=0.5, seed=0)
            plan = LoadPlan(
                cluster.addresses(),
                stream,
                warm_up_s=0.0,
                duration_s=TIMEOUT_S,
                clients=2,
                background=until_something_is_done,
                dial=dialer,
            )
            return await generate_load(plan)

        assert (await drive("secret", authority_path(certificates))).completed > 0
        with pytest.raises(UsageError, match="token"):
            await drive("guessed", authority_path(certificates))
        with pytest.raises(UsageError, match="is not trusted"):
            await drive("secret", str(certificates.directory / "another.pem"))


@pytest.mark.parametrize(
    ("certificate", "counter", "log_text"),
    [
        ("expired", "tls_certificate_has_expired", "certificate has expired"),
        ("from_another_authority", "tls_", "unable to get local issuer certificate"),
        ("for_another_host", "certificate", "IP address mismatch, certificate is not valid for"),
        ("for_another_host", "certificate", "nor the host 127.0.0.1"),
        ("of_another_number", "certificate", "belongs to creek://creek/replica/1, not to creek"),
        ("of_another_cluster", "certificate", "belongs to creek://shop/replica/2, not to creek"),
    ],
)
async def test_a_replica_with_an_invalid_certificate_is_rejected_by_peers(
    certificate: str,
    counter: str,
    log_text: str,
    certificates: CertificateStore,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listeners, "certificate_expiry_s", never_expires)

    cluster = InProcessCluster(tmp_path, security=certificates.good())
    await cluster.start()
    await cluster.until_connected()
    async with cluster.client(0, authority=authority_path(certificates)) as db:
        await db.strong.put("a", 0)
    await cluster.until_quiescent()
    await cluster.stop(2)
    cluster.settings = {"security": getattr(certificates, certificate)()}
    await cluster.start(2)
    good = cluster.servers[0]
    async with asyncio.timeout(20):
        while not any(reason.startswith(counter) for reason in good.rejections):
            await asyncio.sleep(0.01)
        while f"cannot connect to replica 2 at {cluster._members[2]}" not in caplog.text:
            await asyncio.sleep(0.01)
    assert log_text in caplog.text
    before = cluster.servers[2].status()["committed"]
    assert good.peers.connected_members() == [1]
    assert cluster.servers[2].peers.connected_members() == []
    async with cluster.client(0, authority=authority_path(certificates)) as db:
        assert await db.strong.put("a", 1) == 0  # the other replicas are a majority
    assert cluster.servers[2].status()["committed"] == before
    await cluster.stop()


async def test_replicas_connect_with_the_certificates_of_their_numbers(
    certificates: CertificateStore, tmp_path: Path
) -> None:
    cluster = InProcessCluster(tmp_path)
    for replica in range(3):
        await cluster.start(replica, security=certificates.of_replica("creek", replica))
    await cluster.until_connected()
    await cluster.stop()


@pytest.mark.parametrize(("cluster", "replica"), [("creek", 1), ("shop", 0)])
async def test_a_replica_does_not_start_with_the_certificate_of_another(
    cluster: str, replica: int, certificates: CertificateStore, tmp_path: Path
) -> None:
    security = certificates.of_replica(cluster, replica)
    expected = f"belongs to creek://{cluster}/replica/{replica}, not to creek://creek/replica/0"
    with pytest.raises(UsageError, match=expected):
        await InProcessCluster(tmp_path, security=security).start(0)


@pytest.mark.parametrize(
    ("names", "is_valid"),
    [
        ((("DNS", "A.example"),), True),
        ((("DNS", "b.example"),), False),
        ((("DNS", "*.example"),), True),
        ((("DNS", "*.other"),), False),
        ((("DNS", "*.a.example"),), False),
        ((("IP Address", "10.0.0.1"),), False),
        ((("URI", "spiffe://example/a"), ("DNS", "a.example")), True),
        ((("URI", "creek://creek/replica/1"), ("DNS", "a.example")), False),
        ((("URI", "creek://creek/replica/1"), ("URI", "creek://creek/replica/2")), True),
        ((), False),
    ],
)
def test_a_certificate_belongs_to_its_identities_or_else_to_its_hosts(
    names: tuple[tuple[str, str], ...], is_valid: bool
) -> None:
    identity = replica_identity("creek", 2)
    problem = certificate_problem({"subjectAltName": names}, identity, "a.example")
    assert (problem is None) == is_valid


def test_addresses_in_certificates_are_compared_as_addresses() -> None:
    certificate = {"subjectAltName": (("IP Address", "0:0:0:0:0:0:0:1"),)}
    assert certificate_problem(certificate, "creek://creek/replica/0", "::1") is None
    assert certificate_problem(certificate, "creek://creek/replica/0", "::2") is not None


async def test_a_tls_mismatch_between_peers_is_logged_once(
    certificates: CertificateStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = InProcessCluster(tmp_path, replicas=2)
    await cluster.start(0, security=certificates.good())
    await cluster.start(1)
    plain = cluster.servers[1]
    messages = [
        f"cannot connect to replica 1 at {cluster._members[1]}: {PEER_WITHOUT_TLS_MESSAGE}",
        f"cannot connect to replica 0 at {cluster._members[0]}: {PEER_REQUIRES_TLS_MESSAGE}",
    ]
    async with asyncio.timeout(TIMEOUT_S):
        while not all(each in caplog.text for each in messages):
            await asyncio.sleep(0.01)
        before = plain.rejections[ServerCounter.NO_HELLO]
        while plain.rejections[ServerCounter.NO_HELLO] < before + 3:
            await asyncio.sleep(0.01)
    assert [caplog.text.count(each) for each in messages] == [1, 1]
    await cluster.stop()


async def test_a_peer_without_a_certificate_is_rejected(
    certificates: CertificateStore, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, replicas=1, security=certificates.good()) as cluster:
        context = ssl.create_default_context(cafile=authority_path(certificates))
        host, _, port = cluster._members[0].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        with suppress(OSError):  # TLS 1.3 rejects the client after its side of the handshake
            assert await reader.read() == b""
        writer.close()
        rejections = cluster.servers[0].rejections
        assert rejections["tls_peer_did_not_return_a_certificate"] == 1


@pytest.mark.parametrize(
    ("certificate", "expected"),
    [
        ("expired", "is not trusted: certificate has expired"),
        ("from_another_authority", "is not trusted: unable to get local issuer certificate"),
        ("for_another_host", r"is not trusted: IP address mismatch"),
    ],
)
async def test_a_client_rejects_an_invalid_replica_certificate(
    certificate: str,
    expected: str,
    certificates: CertificateStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listeners, "certificate_expiry_s", never_expires)

    async with running_cluster(
        tmp_path, replicas=1, security=getattr(certificates, certificate)()
    ) as cluster:
        with pytest.raises(UsageError, match=expected):
            await cluster.client(authority=authority_path(certificates)).__aenter__()
        assert not cluster.servers[0].clients.connections


async def test_a_tls_mismatch_between_client_and_replica_is_reported(
    certificates: CertificateStore, tmp_path: Path
) -> None:
    async with running_cluster(
        tmp_path / "tls", replicas=1, security=certificates.good()
    ) as cluster:
        with pytest.raises(UsageError, match=f"^{cluster.addresses()[0]} requires TLS; set the"):
            await cluster.client().__aenter__()
        assert cluster.servers[0].rejections == {ServerCounter.TLS_MISSING: 1}, (
            "the client does not retry"
        )
        code = await asyncio.to_thread(main, ["bench", "kv", "--at", *cluster.addresses()])
        assert code == 2
        assert cluster.servers[0].rejections == {ServerCounter.TLS_MISSING: 2}
    async with running_cluster(tmp_path / "plain", replicas=1) as cluster:
        with pytest.raises(UsageError, match="omit the authority"):
            await cluster.client(authority=authority_path(certificates)).__aenter__()
        assert cluster.servers[0].rejections == {RejectReason.UNEXPECTED_TLS: 1}


async def test_a_failed_handshake_is_counted_once(
    certificates: CertificateStore, tmp_path: Path
) -> None:
    limits = ServerLimits(
        connections=ConnectionLimits(hello_timeout_s=0.05), peers=PeerLimits(hello_timeout_s=0.05)
    )
    async with running_cluster(
        tmp_path, replicas=1, limits=limits, security=certificates.good()
    ) as cluster:
        for at in (*cluster.addresses(), cluster.config(0).members[0]):
            host, _, port = at.partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"\0\0\0\1 in plain")
            assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
            writer.close()
        await asyncio.sleep(0.2)
        assert cluster.servers[0].rejections == {ServerCounter.TLS_MISSING: 2}


async def test_a_wrong_token_is_rejected_with_tls(
    certificates: CertificateStore, tmp_path: Path
) -> None:
    security = certificates.good(tokens={"ann": "secret"})
    async with running_cluster(tmp_path, replicas=1, security=security) as cluster:
        for token in ("", "guess"):
            with pytest.raises(UsageError, match="token"):
                await cluster.client(
                    authority=authority_path(certificates), token=token
                ).__aenter__()
        status = cluster.servers[0].status()
        assert (status["refused"][RejectReason.TOKEN], status["tentative"]) == (2, 0)


@pytest.mark.parametrize(
    ("certificate", "expected"),
    [
        ("expired", "old.pem would be rejected by the other replicas: certificate has expired"),
        ("not_yet_valid", "early.pem would be .*: certificate is not yet valid"),
        ("from_another_authority", "stranger.pem would .*: unable to get local issuer certificate"),
        ("with_another_key", "do not match"),
    ],
)
async def test_a_replica_does_not_start_with_a_certificate_that_peers_reject(
    certificate: str, expected: str, certificates: CertificateStore, tmp_path: Path
) -> None:
    cluster = InProcessCluster(tmp_path, 1, security=getattr(certificates, certificate)())
    with pytest.raises(UsageError, match=expected):
        await cluster.start()
    assert not (tmp_path / "0").exists()


async def test_reload_rejects_a_certificate_that_peers_reject(
    certificates: CertificateStore, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, 1, security=certificates.good()) as cluster:
        before = cluster.servers[0].config
        bad = cluster.config(0, security=certificates.expired())
        with pytest.raises(UsageError, match="certificate has expired"):
            cluster.servers[0].reload(bad)
        assert cluster.servers[0].config is before
        async with cluster.client(authority=authority_path(certificates)) as db:
            await db.strong.put("a", 1)


async def test_a_certificate_that_expires_soon_is_reported(
    certificates: CertificateStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    soon, late = (issue(certificates.authority, "good", LOCALHOST, days) for days in (29, 31))
    for name, pair in (("late", late), ("soon", soon)):
        security = certificates.security(pair, name)
        assert certificate_expiry_s(security) == pair.certificate.not_valid_after_utc.timestamp()
        async with running_cluster(tmp_path / name, 1, security=security) as cluster:
            async with cluster.client(authority=authority_path(certificates)) as db:
                await db.status()
            assert ("the certificate expires on" in caplog.text) == (pair is soon)
            metrics = render_metrics(metric_families(cluster.servers[0].sources))
            assert f"creek_certificate_expires_seconds {certificate_expiry_s(security)}" in metrics


def test_missing_and_mismatched_files_are_named(certificates: CertificateStore) -> None:
    good = certificates.good()
    missing = SecurityConfig(authority=good.authority, certificate="nowhere.pem", key=good.key)
    with pytest.raises(UsageError, match=r"security.certificate nowhere.pem: No such file"):
        server_context(missing, True, print)
    stranger = certificates.from_another_authority()
    mixed = SecurityConfig(authority=good.authority, certificate=good.certificate, key=stranger.key)
    with pytest.raises(UsageError, match="do not match"):
        server_context(mixed, True, print)


async def test_certs_creates_a_working_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "trial"
    assert main(["certs", str(directory), "--clients", "ann,bob"]) == 0
    output = capsys.readouterr().out
    configs = [read_config(directory / f"replica-{each}.toml", {}, {}) for each in range(3)]
    token = configs[0].security.tokens["ann"]
    assert f"ann  {token}" in output
    assert f"serve --config {directory / 'replica-2.toml'}" in output
    assert (directory / "authority-key.pem").stat().st_mode & 0o077 == 0
    assert (directory / "replica-0.toml").stat().st_mode & 0o077 == 0
    members = {each: f"127.0.0.1:{free_port()}" for each in range(3)}
    servers = []
    for replica, config in enumerate(configs):
        path = directory / f"replica-{replica}.toml"
        overrides = {"members": members, "clients": "127.0.0.1:0"}
        servers.append(Server(read_config(path, overrides, {})))
        await servers[-1].start()
        assert config.replica == replica
    address = f"127.0.0.1:{servers[0].client_port}"
    authority = str(directory / "authority.pem")
    async with creekdb.connect(address, token=token, authority=authority, timeout=20) as db:
        assert await db.strong.put("lamp", 3) is None
    for server in servers:
        await server.stop()


def test_certs_extends_and_renews_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "trial"
    assert main(["certs", str(directory), "--hosts", "127.0.0.1,localhost", "--days", "9"]) == 0
    before = read_config(directory / "replica-1.toml", {}, {})
    old = certificate_expiry_s(before.security)
    old_pair = read_pair(directory / "replica-1.pem", directory / "replica-1-key.pem")

    assert main(["certs", str(directory), "--more", "127.0.0.1"]) == 0
    output = capsys.readouterr().out
    assert f"{directory / 'replica-2.toml'} --join 127.0.0.1:7100 --listen 127.0.0.1:7202" in output
    joining = read_config(directory / "replica-2.toml", {"members": {0: "127.0.0.1:7202"}}, {})
    assert (joining.cluster, joining.security.tokens) == ("creek", before.security.tokens)
    certificate_expiry_s(joining.security)

    assert main(["certs", str(directory), "--renew", "--days", "99"]) == 0
    assert "3 certificates" in capsys.readouterr().out
    assert certificate_expiry_s(before.security) > old + 80 * 86_400
    new_pair = read_pair(directory / "replica-1.pem", directory / "replica-1-key.pem")
    assert new_pair.key.private_numbers() != old_pair.key.private_numbers()
    assert _names(new_pair) == _names(old_pair)

    for arguments in (
        ["--renew", "--days", "3650"],
        ["--renew", "--more", "a"],
        ["--renew", "--hosts", "a"],
    ):
        assert main(["certs", str(directory), *arguments]) == 2
    (directory / "authority-key.pem").unlink()
    assert main(["certs", str(directory), "--renew"]) == 2
    assert "authority-key.pem: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_local_certificates_cover_all_loopback_names(host: str, tmp_path: Path) -> None:
    directory = tmp_path / "trial"
    assert main(["certs", str(directory), "--hosts", host]) == 0
    assert main(["certs", str(directory), "--more", host]) == 0
    assert main(["certs", str(directory), "--renew"]) == 0
    for replica in range(2):
        pair = read_pair(
            directory / f"replica-{replica}.pem", directory / f"replica-{replica}-key.pem"
        )
        names = [str(each.value) for each in _names(pair)[1]]
        identity = f"creek://creek/replica/{replica}"
        assert sorted(names) == sorted({host, "127.0.0.1", "localhost", "::1", identity})


async def test_a_client_connects_to_a_local_replica_by_another_name(
    certificates: CertificateStore, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, replicas=1, security=certificates.good()) as cluster:
        at = cluster.addresses(0)[0].replace("127.0.0.1", "localhost")
        async with creekdb.connect(
            at, authority=authority_path(certificates), timeout=TIMEOUT_S
        ) as db:
            assert await db.weak.put("a", 1) is None


def _names(pair: CertificatePair) -> Any:
    names = pair.certificate.extensions.get_extension_for_class(SubjectAlternativeName)
    return pair.certificate.subject, names.value


def test_certs_rejects_existing_files_and_invalid_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "authority.pem").write_text("mine")
    assert main(["certs", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["certs", str(tmp_path / "new"), "--hosts", "a,,b"]) == 2
    assert "--hosts is 'a,,b'" in capsys.readouterr().err
    assert (
        main(
            ["certs", str(tmp_path / "new"), "--clients", 'ann"'],
        )
        == 2
    )
    assert not (tmp_path / "new").exists()
