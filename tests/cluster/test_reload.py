"""SIGHUP: a replica that runs takes over what can change, or keeps what it has."""

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
from creekdb.wire.addresses import parse_address
from tests.cluster.house import PATIENCE_S, house, run
from tests.cluster.processes import Processes

HERE = ("127.0.0.1",)


def test_tokens_are_taken_over_and_mistakes_are_told(tmp_path: Path) -> None:
    config = tmp_path / "replica.toml"

    def configure(text: str) -> None:
        config.write_text(f"[security]\n{text}\n")

    async def reloaded(processes: Processes, said: str) -> None:
        before = processes.said(0).count(said)
        os.kill(processes.process_id(0), signal.SIGHUP)
        async with asyncio.timeout(PATIENCE_S):
            while processes.said(0).count(said) == before:
                await asyncio.sleep(0.02)

    async def put(processes: Processes, token: str) -> None:
        async with processes.client(0, token=token) as db:
            await db.strong.put("lamp", token)

    async def story() -> None:
        configure('tokens = {ann = "one"}')
        with Processes(tmp_path, 1, configs={0: config}) as processes:
            await put(processes, "one")

            async with processes.client(0, token="one") as db:
                await db.weak.get("lamp")
                configure('tokens = {ann = "two"}')
                await reloaded(processes, "tokens, certificates and logging are taken over")
                with pytest.raises(CreekError, match="the token is missing, or none"):
                    await db.weak.get("lamp")
            await put(processes, "two")
            with pytest.raises(UsageError, match="the token is missing, or none"):
                await put(processes, "one")

            configure("tokens = 3")
            await reloaded(processes, "stays as it was")
            await put(processes, "two")

            config.write_text('strong_max = 7\n[security]\ntokens = {ann = "two"}\n')
            await reloaded(processes, "takes effect when the replica is started again: strong_max")

            config.write_text('log = "json"\n')
            await reloaded(processes, '"event":"configuration.reloaded"')
            await put(processes, "")
            config.write_text('log = "json"\nlog_level = "warning"\nstrong_max = 8\n')
            before = processes.said(0).count("configuration.reloaded")
            await reloaded(processes, '"event":"configuration.waits"')
            assert processes.said(0).count("configuration.reloaded") == before

    run(story())


def test_certificates_and_whom_to_trust_are_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when an authority is replaced: first all trust the next one as well, and then they show
    certificates of it."""
    monkeypatch.setattr(server, "set_up_logs", lambda *_: None)  # those of the tests
    old, new = new_authority("old", 1), new_authority("new", 1)
    ours, next_ours = issue(old, "ours", HERE, 1), issue(new, "ours", HERE, 1)

    def kept(name: str, data: bytes) -> str:
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    def security(
        authorities: tuple[CertificatePair, ...], shown: CertificatePair
    ) -> SecurityConfig:
        return SecurityConfig(
            authority=kept(
                "authority.pem", b"".join(each.certificate_pem() for each in authorities)
            ),
            certificate=kept("ours.pem", shown.certificate_pem()),
            key=kept("ours-key.pem", shown.key_pem()),
        )

    def peer(shows: CertificatePair, trusts: CertificatePair) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=kept("trusted.pem", trusts.certificate_pem()))
        context.load_cert_chain(
            kept("peer.pem", shows.certificate_pem()), kept("peer-key.pem", shows.key_pem())
        )
        return context

    async def is_heard(replica: Server, context: ssl.SSLContext) -> bool:
        """Does the replica talk to another one that shows and trusts this?"""
        host, port = parse_address(replica.config.members[0])
        try:
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
                heard = await reader.read(1)
                writer.close()
        except ssl.SSLError:
            return False
        return bool(heard)

    async def story() -> None:
        async with house(tmp_path / "data", 1, security=security((old,), ours)) as cluster:
            replica = cluster.servers[0]

            def reload(with_security: SecurityConfig) -> None:
                replica.reload(cluster.config(0, security=with_security))

            assert await is_heard(replica, peer(ours, trusts=old))
            assert not await is_heard(replica, peer(next_ours, trusts=old))
            reload(security((old, new), ours))
            assert await is_heard(replica, peer(next_ours, trusts=old))
            assert not await is_heard(replica, peer(next_ours, trusts=new))
            reload(security((old, new), next_ours))
            assert await is_heard(replica, peer(ours, trusts=new))

            with pytest.raises(UsageError, match="switched on or off"):
                reload(SecurityConfig())
            with pytest.raises(UsageError, match="would be refused by the other replicas"):
                reload(security((old,), next_ours))
            assert await is_heard(replica, peer(ours, trusts=new))

    run(story())


def test_members_in_the_file_change_nothing_and_it_is_told_what_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "set_up_logs", lambda *_: None)  # those of the tests

    async def story() -> None:
        async with house(tmp_path, 1) as cluster:
            replica = cluster.servers[0]
            replica.reload(replica.config)
            assert "members" not in caplog.text
            members = {**replica.config.members, 1: "127.0.0.1:1"}
            replica.reload(msgspec.structs.replace(replica.config, members=members))
            assert "members stay as they are: 'creek member' changes them" in caplog.text
            assert replica.membership.configuration.replica_ids == (0,)

    run(story())
