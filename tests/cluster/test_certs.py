"""TLS: who shows the wrong certificate, or none, is told so, counted, and changes nothing."""

import asyncio
import math
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from cryptography.x509 import SubjectAlternativeName

import creekdb
from creekdb import UsageError
from creekdb.cli import main
from creekdb.client.replica_connection import client_tls_context
from creekdb.load.connection import dial
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import free_port
from creekdb.load.measurement import LoadMeter
from creekdb.load.workload import kv_workload
from creekdb.server.observability.metrics import metric_families, render_metrics
from creekdb.server.runtime import server as serving
from creekdb.server.runtime.config import SecurityConfig, read_config
from creekdb.server.runtime.server import Server
from creekdb.server.security.authentication import (
    NO_TLS_FROM_PEER,
    certificate_expiry_s,
    server_context,
)
from creekdb.server.security.certificates import CertificatePair, issue, new_authority, read_pair
from creekdb.server.transport import keepalive
from creekdb.server.transport.peer_link import PEER_REQUIRES_TLS_MESSAGE, PEER_WITHOUT_TLS_MESSAGE
from creekdb.wire.framing import UNEXPECTED_TLS
from tests.cluster.house import PATIENCE_S, House, house, run

HERE = ("127.0.0.1",)


class Papers(NamedTuple):
    """Where the certificates of a test are."""

    folder: Path
    authority: CertificatePair
    other: CertificatePair

    def security(self, pair: CertificatePair, name: str = "replica", **more: Any) -> SecurityConfig:
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}-key.pem"
        certificate.write_bytes(pair.certificate_pem())
        key.write_bytes(pair.key_pem())
        return SecurityConfig(
            authority=str(self.folder / "authority.pem"),
            certificate=str(certificate),
            key=str(key),
            **more,
        )

    def good(self, **more: Any) -> SecurityConfig:
        return self.security(issue(self.authority, "good", HERE, 1), **more)

    def expired(self) -> SecurityConfig:
        since = datetime.now(UTC) - timedelta(days=9)
        return self.security(issue(self.authority, "old", HERE, 2, since), "old")

    def of_tomorrow(self) -> SecurityConfig:
        since = datetime.now(UTC) + timedelta(days=1)
        return self.security(issue(self.authority, "early", HERE, 2, since), "early")

    def with_the_key_of_another(self) -> SecurityConfig:
        good, other = self.good(), self.of_another_authority()
        return msgspec.structs.replace(good, key=other.key)

    def of_another_authority(self) -> SecurityConfig:
        return self.security(issue(self.other, "stranger", HERE, 1), "stranger")

    def for_another_host(self) -> SecurityConfig:
        return self.security(issue(self.authority, "moved", ("10.1.2.3",), 1), "moved")


def good_when_it_started(security: SecurityConfig) -> float:
    return math.inf


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    folder = tmp_path / "papers"
    folder.mkdir()
    made = Papers(folder, new_authority("ours", 1), new_authority("another", 1))
    (folder / "authority.pem").write_bytes(made.authority.certificate_pem())
    (folder / "another.pem").write_bytes(made.other.certificate_pem())
    return made


def trust(papers: Papers) -> str:
    return str(papers.folder / "authority.pem")


def test_replicas_and_clients_talk_when_all_is_in_order(papers: Papers, tmp_path: Path) -> None:
    async def story() -> None:
        security = papers.good(tokens={"ann": "secret"})
        async with (
            house(tmp_path, security=security) as cluster,
            cluster.client(0, authority=trust(papers), token="secret") as db,
        ):
            assert await db.strong.put("a", 1) is None

    run(story())


def test_the_load_of_a_bench_shows_a_token_and_knows_whom_to_trust(
    papers: Papers, tmp_path: Path
) -> None:
    async def story() -> None:
        security = papers.good(tokens={"ann": "secret"})
        async with house(tmp_path, replicas=1, security=security) as cluster:

            async def until_something_is_done(meter: LoadMeter) -> None:
                while not meter.completed:
                    await asyncio.sleep(0.01)
                meter.end_ns = 0

            async def driven(token: str, authority: str) -> LoadMeter:
                reach = partial(dial, token=token, secured=client_tls_context(authority))
                stream = kv_workload(keys=5, value_bytes=8, reads=0.5, strong=0.5, seed=0)
                plan = LoadPlan(
                    cluster.addresses(),
                    stream,
                    warm_up_s=0.0,
                    duration_s=PATIENCE_S,
                    clients=2,
                    during=until_something_is_done,
                    dial=reach,
                )
                return await generate_load(plan)

            assert (await driven("secret", trust(papers))).completed > 0
            with pytest.raises(UsageError, match="token"):
                await driven("guessed", trust(papers))
            with pytest.raises(UsageError, match="is not trusted"):
                await driven("secret", str(papers.folder / "another.pem"))

    run(story())


@pytest.mark.parametrize(
    ("wrong", "told_there", "told_here"),
    [
        ("expired", "tls: certificate has expired", "certificate has expired"),
        ("of_another_authority", "tls: ", "unable to get local issuer certificate"),
    ],
)
def test_a_replica_whose_certificate_became_bad_takes_no_part(
    wrong: str,
    told_there: str,
    told_here: str,
    papers: Papers,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "valid_until", good_when_it_started)

    async def story() -> None:
        cluster = House(tmp_path, security=papers.good())
        await cluster.start()
        await cluster.until_connected()
        async with cluster.client(0, authority=trust(papers)) as db:
            await db.strong.put("a", 0)
        await cluster.until_settled()
        await cluster.stop(2)
        cluster.settings = {"security": getattr(papers, wrong)()}
        await cluster.start(2)
        good = cluster.servers[0]
        async with asyncio.timeout(20):
            while not any(reason.startswith(told_there) for reason in good.rejections):
                await asyncio.sleep(0.01)
            while f"cannot talk to replica 2 at {cluster._members[2]}" not in caplog.text:
                await asyncio.sleep(0.01)
        assert told_here in caplog.text
        before = cluster.servers[2].status()["committed"]
        assert good.peers.connected_members() == [1]
        assert cluster.servers[2].peers.connected_members() == []
        async with cluster.client(0, authority=trust(papers)) as db:
            assert await db.strong.put("a", 1) == 0  # the others are a majority
        assert cluster.servers[2].status()["committed"] == before
        await cluster.stop()

    run(story())


def test_replicas_of_which_one_encrypts_say_so_once_and_what_to_do(
    papers: Papers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        cluster = House(tmp_path, replicas=2)
        await cluster.start(0, security=papers.good())
        await cluster.start(1)
        plain = cluster.servers[1]
        told = [
            f"cannot talk to replica 1 at {cluster._members[1]}: {PEER_WITHOUT_TLS_MESSAGE}",
            f"cannot talk to replica 0 at {cluster._members[0]}: {PEER_REQUIRES_TLS_MESSAGE}",
        ]
        async with asyncio.timeout(PATIENCE_S):
            while not all(each in caplog.text for each in told):
                await asyncio.sleep(0.01)
            seen = plain.rejections["no hello"]
            while plain.rejections["no hello"] < seen + 3:
                await asyncio.sleep(0.01)
        assert [caplog.text.count(each) for each in told] == [1, 1]
        await cluster.stop()

    run(story())


def test_a_replica_without_a_certificate_takes_no_part(papers: Papers, tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1, security=papers.good()) as cluster:
            context = ssl.create_default_context(cafile=trust(papers))
            host, _, port = cluster._members[0].partition(":")
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
            with suppress(OSError):  # with TLS 1.3, one is refused after one's own handshake
                assert await reader.read() == b""
            writer.close()
            refused = cluster.servers[0].rejections
            assert refused["tls: peer did not return a certificate"] == 1

    run(story())


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("expired", "is not trusted: certificate has expired"),
        ("of_another_authority", "is not trusted: unable to get local issuer certificate"),
        ("for_another_host", r"is not trusted: IP address mismatch"),
    ],
)
def test_a_client_refuses_a_replica_that_is_not_who_it_should_be(
    how: str, says: str, papers: Papers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "valid_until", good_when_it_started)

    async def story() -> None:
        async with house(tmp_path, replicas=1, security=getattr(papers, how)()) as cluster:
            with pytest.raises(UsageError, match=says):
                await cluster.client(authority=trust(papers)).__aenter__()
            assert not cluster.servers[0].dispatcher.connections

    run(story())


def test_a_client_without_tls_and_a_replica_with_it_and_the_reverse(
    papers: Papers, tmp_path: Path
) -> None:
    async def story() -> None:
        async with house(tmp_path / "tls", replicas=1, security=papers.good()) as cluster:
            with pytest.raises(UsageError, match=f"^{cluster.addresses()[0]} encrypts: give the"):
                await cluster.client().__aenter__()
            assert cluster.servers[0].rejections == {NO_TLS_FROM_PEER: 1}, (
                "it is not tried again and again"
            )
            code = await asyncio.to_thread(main, ["bench", "kv", "--at", *cluster.addresses()])
            assert code == 2
            assert cluster.servers[0].rejections == {NO_TLS_FROM_PEER: 2}
        async with house(tmp_path / "plain", replicas=1) as cluster:
            with pytest.raises(UsageError, match="leave out the authority"):
                await cluster.client(authority=trust(papers)).__aenter__()
            assert cluster.servers[0].rejections == {UNEXPECTED_TLS: 1}

    run(story())


def test_a_handshake_that_failed_is_counted_once(
    papers: Papers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepalive, "HELLO_S", 0.05)

    async def story() -> None:
        async with house(tmp_path, replicas=1, security=papers.good()) as cluster:
            for at in (*cluster.addresses(), cluster.config(0).members[0]):
                host, _, port = at.partition(":")
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"\0\0\0\1 in plain")
                assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
                writer.close()
            await asyncio.sleep(0.2)
            assert cluster.servers[0].rejections == {NO_TLS_FROM_PEER: 2}

    run(story())


def test_a_bad_token_is_refused_under_tls_too(papers: Papers, tmp_path: Path) -> None:
    async def story() -> None:
        security = papers.good(tokens={"ann": "secret"})
        async with house(tmp_path, replicas=1, security=security) as cluster:
            for wrong in ("", "guess"):
                with pytest.raises(UsageError, match="token"):
                    await cluster.client(authority=trust(papers), token=wrong).__aenter__()
            status = cluster.servers[0].status()
            assert (status["refused"]["token"], status["tentative"]) == (2, 0)

    run(story())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("expired", "old.pem would be refused by the other replicas: certificate has expired"),
        ("of_tomorrow", "early.pem would be .*: certificate is not yet valid"),
        ("of_another_authority", "stranger.pem would .*: unable to get local issuer certificate"),
        ("with_the_key_of_another", "do not go together"),
    ],
)
def test_a_replica_does_not_start_with_a_certificate_that_others_would_refuse(
    wrong: str, says: str, papers: Papers, tmp_path: Path
) -> None:
    async def story() -> None:
        cluster = House(tmp_path, 1, security=getattr(papers, wrong)())
        with pytest.raises(UsageError, match=says):
            await cluster.start()
        assert not (tmp_path / "0").exists()

    run(story())


def test_a_replica_does_not_take_over_a_certificate_that_others_would_refuse(
    papers: Papers, tmp_path: Path
) -> None:
    async def story() -> None:
        async with house(tmp_path, 1, security=papers.good()) as cluster:
            before = cluster.servers[0].config
            bad = cluster.config(0, security=papers.expired())
            with pytest.raises(UsageError, match="certificate has expired"):
                cluster.servers[0].reload(bad)
            assert cluster.servers[0].config is before
            async with cluster.client(authority=trust(papers)) as db:
                await db.strong.put("a", 1)

    run(story())


def test_it_is_told_when_a_certificate_expires_soon(
    papers: Papers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    soon, late = (issue(papers.authority, "good", HERE, days) for days in (29, 31))

    async def story() -> None:
        for name, pair in (("late", late), ("soon", soon)):
            security = papers.security(pair, name)
            assert (
                certificate_expiry_s(security) == pair.certificate.not_valid_after_utc.timestamp()
            )
            async with house(tmp_path / name, 1, security=security) as cluster:
                async with cluster.client(authority=trust(papers)) as db:
                    await db.status()
                assert ("its certificate expires on" in caplog.text) == (pair is soon)
                told = render_metrics(metric_families(cluster.servers[0]))
                assert f"creek_certificate_expires_seconds {certificate_expiry_s(security)}" in told

    run(story())


def test_files_that_are_missing_or_do_not_go_together_are_named(papers: Papers) -> None:
    good = papers.good()
    missing = SecurityConfig(authority=good.authority, certificate="nowhere.pem", key=good.key)
    with pytest.raises(UsageError, match=r"security.certificate nowhere.pem: No such file"):
        server_context(missing, True, print)
    stranger = papers.of_another_authority()
    mixed = SecurityConfig(authority=good.authority, certificate=good.certificate, key=stranger.key)
    with pytest.raises(UsageError, match="do not go together"):
        server_context(mixed, True, print)


def test_the_command_makes_a_set_that_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "trial"
    assert main(["certs", str(folder), "--clients", "ann,bob"]) == 0
    told = capsys.readouterr().out
    configs = [read_config(folder / f"replica-{each}.toml", {}, {}) for each in range(3)]
    token = configs[0].security.tokens["ann"]
    assert f"ann  {token}" in told
    assert f"serve --config {folder / 'replica-2.toml'}" in told
    assert (folder / "authority-key.pem").stat().st_mode & 0o077 == 0
    assert (folder / "replica-0.toml").stat().st_mode & 0o077 == 0

    async def story() -> None:
        members = {each: f"127.0.0.1:{free_port()}" for each in range(3)}
        servers = []
        for replica, config in enumerate(configs):
            path = folder / f"replica-{replica}.toml"
            given = {"members": members, "clients": "127.0.0.1:0"}
            servers.append(Server(read_config(path, given, {})))
            await servers[-1].start()
            assert config.replica == replica
        address = f"127.0.0.1:{servers[0].client_port}"
        authority = str(folder / "authority.pem")
        async with creekdb.connect(address, token=token, authority=authority, timeout=20) as db:
            assert await db.strong.put("lamp", 3) is None
        for server in servers:
            await server.stop()

    run(story())


def test_the_command_adds_to_a_set_and_renews_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "trial"
    assert main(["certs", str(folder), "--hosts", "127.0.0.1,localhost", "--days", "9"]) == 0
    before = read_config(folder / "replica-1.toml", {}, {})
    old = certificate_expiry_s(before.security)
    shown = read_pair(folder / "replica-1.pem", folder / "replica-1-key.pem")

    assert main(["certs", str(folder), "--more", "127.0.0.1"]) == 0
    told = capsys.readouterr().out
    assert f"{folder / 'replica-2.toml'} --join 127.0.0.1:7100 --listen 127.0.0.1:7202" in told
    joining = read_config(folder / "replica-2.toml", {"members": {0: "127.0.0.1:7202"}}, {})
    assert (joining.cluster, joining.security.tokens) == ("creek", before.security.tokens)
    certificate_expiry_s(joining.security)

    assert main(["certs", str(folder), "--renew", "--days", "99"]) == 0
    assert "3 certificates" in capsys.readouterr().out
    assert certificate_expiry_s(before.security) > old + 80 * 86_400
    renewed = read_pair(folder / "replica-1.pem", folder / "replica-1-key.pem")
    assert renewed.key.private_numbers() != shown.key.private_numbers()
    assert _names(renewed) == _names(shown)

    for words in (
        ["--renew", "--days", "3650"],
        ["--renew", "--more", "a"],
        ["--renew", "--hosts", "a"],
    ):
        assert main(["certs", str(folder), *words]) == 2
    (folder / "authority-key.pem").unlink()
    assert main(["certs", str(folder), "--renew"]) == 2
    assert "authority-key.pem: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_who_is_asked_for_on_this_machine_is_so_by_all_of_its_names(
    host: str, tmp_path: Path
) -> None:
    folder = tmp_path / "trial"
    assert main(["certs", str(folder), "--hosts", host]) == 0
    assert main(["certs", str(folder), "--more", host]) == 0
    assert main(["certs", str(folder), "--renew"]) == 0
    for replica in range(2):
        pair = read_pair(folder / f"replica-{replica}.pem", folder / f"replica-{replica}-key.pem")
        names = [str(each.value) for each in _names(pair)[1]]
        assert sorted(names) == sorted({host, "127.0.0.1", "localhost", "::1"})


def test_a_client_finds_a_replica_of_this_machine_by_another_name(
    papers: Papers, tmp_path: Path
) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1, security=papers.good()) as cluster:
            at = cluster.addresses(0)[0].replace("127.0.0.1", "localhost")
            async with creekdb.connect(at, authority=trust(papers), timeout=PATIENCE_S) as db:
                assert await db.weak.put("a", 1) is None

    run(story())


def _names(pair: CertificatePair) -> Any:
    found = pair.certificate.extensions.get_extension_for_class(SubjectAlternativeName)
    return pair.certificate.subject, found.value


def test_the_command_refuses_what_it_would_overwrite_or_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "authority.pem").write_text("mine")
    assert main(["certs", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["certs", str(tmp_path / "new"), "--hosts", "a,,b"]) == 2
    assert "--hosts 'a,,b'" in capsys.readouterr().err
    assert (
        main(
            ["certs", str(tmp_path / "new"), "--clients", 'ann"'],
        )
        == 2
    )
    assert not (tmp_path / "new").exists()
