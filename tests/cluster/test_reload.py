"""Reload of the configuration with SIGHUP."""

import asyncio
import os
import signal
import ssl
from pathlib import Path

import msgspec
import pytest

from creekdb.errors import CreekError, UsageError
from creekdb.server.runtime import server
from creekdb.server.runtime.config import SecurityConfig
from creekdb.server.runtime.server import Server
from creekdb.server.security.certificates import CertificatePair, issue, new_authority
from creekdb.torture.processes import ReplicaProcesses
from creekdb.wire.addresses import parse_address
from creekdb.wire.messages import encode_frame
from tests.cluster.in_process_cluster import TIMEOUT_S, running_cluster

LOCALHOST = ("127.0.0.1",)


async def test_reload_applies_tokens_and_reports_errors(tmp_path: Path) -> None:
    config = tmp_path / "replica.toml"

    def configure(text: str) -> None:
        config.write_text(f"[security]\n{text}\n")

    async def reloaded(processes: ReplicaProcesses, text: str) -> None:
        before = processes.output(0).count(text)
        os.kill(processes.process_id(0), signal.SIGHUP)
        async with asyncio.timeout(TIMEOUT_S):
            while processes.output(0).count(text) == before:
                await asyncio.sleep(0.02)

    async def put(processes: ReplicaProcesses, token: str) -> None:
        async with processes.client(0, token=token) as db:
            await db.strong.put("lamp", token)

    configure('tokens = {ann = "one"}')
    with ReplicaProcesses(tmp_path, 1, configs={0: config}) as processes:
        await put(processes, "one")

        async with processes.client(0, token="one") as db:
            await db.weak.get("lamp")
            configure('tokens = {ann = "two"}')
            await reloaded(processes, "reloaded tokens, certificates and logging")
            with pytest.raises(CreekError, match="the token is missing or unknown"):
                await db.weak.get("lamp")
        await put(processes, "two")
        with pytest.raises(UsageError, match="the token is missing or unknown"):
            await put(processes, "one")

        configure("tokens = 3")
        await reloaded(processes, "configuration not reloaded: ")
        await put(processes, "two")

        config.write_text('strong_max = 7\n[security]\ntokens = {ann = "two"}\n')
        await reloaded(processes, "take effect after a restart: strong_max")

        config.write_text('log = "json"\n')
        await reloaded(processes, '"event":"configuration.reloaded"')
        await put(processes, "")
        config.write_text('log = "json"\nlog_level = "warning"\nstrong_max = 8\n')
        before = processes.output(0).count("configuration.reloaded")
        await reloaded(processes, '"event":"configuration.waits"')
        assert processes.output(0).count("configuration.reloaded") == before


async def test_reload_applies_certificates_and_authorities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replacement of an authority.

    All replicas first trust both authorities, and then use certificates of the new one.
    """
    monkeypatch.setattr(
        server, "configure_logging", lambda *_: None
    )  # keep the logging of the tests
    old, new = new_authority("old", 1), new_authority("new", 1)
    certificate, next_certificate = (
        issue(old, "ours", LOCALHOST, 1),
        issue(new, "ours", LOCALHOST, 1),
    )

    def store(name: str, data: bytes) -> str:
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    def security(authorities: tuple[CertificatePair, ...], pair: CertificatePair) -> SecurityConfig:
        return SecurityConfig(
            authority=store(
                "authority.pem", b"".join(each.certificate_pem() for each in authorities)
            ),
            certificate=store("ours.pem", pair.certificate_pem()),
            key=store("ours-key.pem", pair.key_pem()),
        )

    def peer(pair: CertificatePair, authority: CertificatePair) -> ssl.SSLContext:
        context = ssl.create_default_context(
            cafile=store("trusted.pem", authority.certificate_pem())
        )
        context.load_cert_chain(
            store("peer.pem", pair.certificate_pem()), store("peer-key.pem", pair.key_pem())
        )
        return context

    async def is_accepted(replica: Server, context: ssl.SSLContext) -> bool:
        """True if the replica accepts a peer with this context."""
        host, port = parse_address(replica.config.members[0])
        try:
            async with asyncio.timeout(TIMEOUT_S):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
                writer.write(encode_frame(replica.peers.hello))
                received = await reader.read(1)
                writer.close()
        except ssl.SSLError:
            return False
        return bool(received)

    async with running_cluster(
        tmp_path / "data", 1, security=security((old,), certificate)
    ) as cluster:
        replica = cluster.servers[0]

        def reload(security_config: SecurityConfig) -> None:
            replica.reload(cluster.config(0, security=security_config))

        assert await is_accepted(replica, peer(certificate, authority=old))
        assert not await is_accepted(replica, peer(next_certificate, authority=old))
        reload(security((old, new), certificate))
        assert await is_accepted(replica, peer(next_certificate, authority=old))
        assert not await is_accepted(replica, peer(next_certificate, authority=new))
        reload(security((old, new), next_certificate))
        assert await is_accepted(replica, peer(certificate, authority=new))

        with pytest.raises(UsageError, match="switched on or off"):
            reload(SecurityConfig())
        with pytest.raises(UsageError, match="would be rejected by the other replicas"):
            reload(security((old,), next_certificate))
        assert await is_accepted(replica, peer(certificate, authority=new))


async def test_reload_ignores_members_and_refers_to_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        server, "configure_logging", lambda *_: None
    )  # keep the logging of the tests

    async with running_cluster(tmp_path, 1) as cluster:
        replica = cluster.servers[0]
        replica.reload(replica.config)
        assert "members" not in caplog.text
        members = {**replica.config.members, 1: "127.0.0.1:1"}
        replica.reload(msgspec.structs.replace(replica.config, members=members))
        assert "members in the file are ignored; change members with 'creek member'" in caplog.text
        assert replica.membership.configuration.replica_ids == (0,)
