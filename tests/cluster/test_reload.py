"""SIGHUP: a replica that runs takes over what can change, or keeps what it has."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from creek.errors import UsageError
from tests.cluster.house import PATIENCE_S, run
from tests.cluster.processes import Processes


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

            configure('tokens = {ann = "two"}')
            await reloaded(processes, "tokens, certificates and logging are taken over")
            await put(processes, "two")
            with pytest.raises(UsageError, match="the token is missing, or none"):
                await put(processes, "one")

            configure("tokens = 3")
            await reloaded(processes, "stays as it was")
            await put(processes, "two")

            config.write_text('strong_max = 7\n[security]\ntokens = {ann = "two"}\n')
            await reloaded(processes, "takes effect when the replica is started again: strong_max")

    run(story())
