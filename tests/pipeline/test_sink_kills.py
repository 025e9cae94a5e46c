"""A writing stream that is killed at any moment writes every row exactly once."""

import asyncio
import random
import signal
import sys
from pathlib import Path

from tests.cluster.in_process_cluster import running_cluster
from tests.pipeline.killed_writer import expected_sums

KILLS = 4
BATCHES = 8
SEED = 24


async def test_rows_are_written_once_although_the_writer_is_killed(tmp_path: Path) -> None:
    generator = random.Random(SEED)
    progress = tmp_path / "progress"
    async with running_cluster(tmp_path / "cluster") as cluster, cluster.client() as db:
        command = (
            "-m",
            "tests.pipeline.killed_writer",
            ",".join(cluster.addresses()),
            progress,
            BATCHES,
        )
        kills, exit_code = 0, -signal.SIGKILL
        while exit_code == -signal.SIGKILL:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *map(str, command), stdout=asyncio.subprocess.PIPE
            )
            assert process.stdout is not None
            await process.stdout.readline()  # it is about to write
            if kills < KILLS:
                await asyncio.sleep(generator.uniform(0, 0.4))
                if process.returncode is None:
                    process.kill()
                    kills += 1
            exit_code = await process.wait()
        assert exit_code == 0
        assert kills == KILLS
        assert int(progress.read_text()) == BATCHES
        assert dict(await db.strong.scan("")) == expected_sums(BATCHES)
