"""Ports of this machine that a cluster can have: nobody else takes them before it listens there.

Each process takes a block of ports for itself, and gives them out in turn. Whoever has a block
keeps its first port bound, as long as the process lives; so no other process that asks here gets a
port of it, even while a replica that is to come back is away.

All blocks lie below what a system gives to who dials: else a connection could have the port of a
replica that is about to start, and one that is dialled too early could even be its own other end.

A cluster of processes on this machine, for as long as it is measured.

Links between the replicas of a cluster on this machine, cut and mended.

Replicas are told to do without them, on the pipe to the process that started them. So what passes a
link that is not cut makes no detour, and takes no longer than ever.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any, Final

from creekdb.client import connect
from creekdb.errors import StorageFault, UsageError
from creekdb.wire.dev_control import DevControl, encode_dev_control
from creekdb.wire.event_log import REPLICA_STOPPING

PORTS: Final = range(12_000, 32_000)
BLOCK_SIZE: Final = 250

_NO_FREE_PORTS: Final = (
    f"no ports are free from {PORTS.start} to {PORTS.stop - 1}: stop what listens there"
)

_reserved_sockets: list[socket.socket] = []
_own_ports: list[Iterator[int]] = []


def free_port() -> int:
    """One of this process's own, that nobody listens at, and that was not given for long."""
    if not _own_ports:
        _own_ports.append(cycle(reserve_block()))
    for port in islice(_own_ports[0], BLOCK_SIZE):
        if is_free(port):
            return port
    raise UsageError(_NO_FREE_PORTS)


def reserve_block() -> range:
    """Another block, for as long as this process lives."""
    blocks = [PORTS[first : first + BLOCK_SIZE] for first in range(0, len(PORTS), BLOCK_SIZE)]
    begin = os.getpid() % len(blocks)
    for block in chain(blocks[begin:], blocks[:begin]):
        keeper = socket.socket()
        with suppress(OSError):
            keeper.bind(("127.0.0.1", block[0]))
            _reserved_sockets.append(keeper)
            return block[1:]
        keeper.close()
    raise UsageError(_NO_FREE_PORTS)


def is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


CLUSTER_TIMEOUT_S: Final = 60.0
PROCESS_CHECK_S: Final = 0.5
"""Between two looks whether all are still there."""
PEER_PORT_OFFSET: Final = 100
"""Ports between where clients find a replica and where others do."""
HTTP_PORT_OFFSET: Final = 200
"""Ports between where clients find a replica and where browsers do."""
OUTPUT_TAIL_BYTES: Final = 65_536
"""Of what a replica printed, what is looked at."""


class LocalCluster:
    """Replicas as `creek serve` runs them. What they print goes to a file each."""

    def __init__(
        self,
        folder: Path,
        *,
        replicas: int,
        datatype: str = "kv",
        options: Sequence[str] = (),
        port: int | None = None,
        http: bool = False,
    ) -> None:
        """`port`: where clients find the first one, and those after it the others; replicas find
        each other `PEERS_AFTER` further on, and browsers find them, if they are to, `HTTP_AFTER`.
        Without it, wherever there is room."""
        self.directory = folder
        self._datatype = datatype
        self._options = tuple(options)
        self._members = _addresses(replicas, port and port + PEER_PORT_OFFSET)
        self.addresses = _addresses(replicas, port)
        self.http_addresses = _addresses(replicas, port and port + HTTP_PORT_OFFSET) if http else []
        self.control_line: Callable[[int], bytes] = lambda replica: b""
        """What each is told when it starts, as `creekdb.wire.dev_control` has it."""
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def processes(self) -> dict[str, int]:
        """Their ids, by what they are called."""
        return {f"replica {each}": process.pid for each, process in self._running.items()}

    def start(self, *replicas: int) -> None:
        for replica in replicas or range(len(self._members)):
            command = [sys.executable, "-m", "creekdb", "serve", "--replica", str(replica)]
            for number, address in enumerate(self._members):
                command += ["--member", f"{number}={address}"]
            command += ["--clients", self.addresses[replica], "--datatype", self._datatype]
            command += ["--data", str(self.directory / f"data-{replica}"), "--with-parent"]
            command += self._options
            if self.http_addresses:
                command += ["--http", self.http_addresses[replica]]
            with (self.directory / f"{replica}.out").open("ab") as output:
                self._running[replica] = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,  # an interrupt from the keyboard is for this process
                )

            self.send_control_line(replica)

    def send_control_line(self, replica: int) -> None:
        """What it is told now, if it runs."""
        process, said = self._running.get(replica), self.control_line(replica)
        if process is not None and said:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write(said)
                process.stdin.flush()

    def is_running(self, replica: int) -> bool:
        return replica in self._running

    def kill(self, replica: int) -> None:
        process = self._running.pop(replica)
        process.kill()
        process.wait()
        _close(process)

    async def statuses(self) -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(self._status(each) for each in sorted(self._running))))

    async def _status(self, replica: int) -> dict[str, Any]:
        async with connect(self.addresses[replica], patience=CLUSTER_TIMEOUT_S) as db:
            return await db.status()

    async def wait_until_ready(self) -> None:
        """Until all have found each other, and somebody leads."""
        await self._wait_until(
            lambda all_of_them: all(
                len(each["connected"]) == len(all_of_them) - 1 and each["leader"] is not None
                for each in all_of_them
            )
        )

    async def wait_until_stable(self) -> None:
        await self._wait_until(
            lambda all_of_them: (
                len({each["committed"] for each in all_of_them}) == 1
                and not any(each["tentative"] or each["backlog"] for each in all_of_them)
            )
        )

    async def _wait_until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> None:
        try:
            async with asyncio.timeout(CLUSTER_TIMEOUT_S):
                while True:
                    self._check_running()
                    asked = asyncio.ensure_future(self.statuses())
                    try:
                        while not (await asyncio.wait((asked,), timeout=PROCESS_CHECK_S))[0]:
                            self._check_running()  # one that ended is asked in vain
                        if holds(asked.result()):
                            return
                    finally:
                        asked.cancel()
                    await asyncio.sleep(0.02)
        except TimeoutError as error:
            said = "; ".join(
                f"replica {each}: {self.last_output_line(each)}" for each in self._running
            )
            raise StorageFault(f"the cluster does not come to rest; the last of {said}") from error

    def reap_exited(self) -> dict[int, int]:
        """Those that ended by themselves, with their exit codes. They do not count any more."""
        codes = {each: process.poll() for each, process in self._running.items()}
        found = {replica: code for replica, code in codes.items() if code is not None}
        for replica in found:
            _close(self._running.pop(replica))
        return found

    def last_output_line(self, replica: int) -> str:
        """Why it ended, as far as it says."""
        said = (self.directory / f"{replica}.out").read_text(errors="replace").strip()
        lines = [line for line in said.splitlines() if not line.endswith(f"({REPLICA_STOPPING})")]
        return lines[-1] if lines else "nothing"

    def last_event_text(self, replica: int, event: str) -> str | None:
        """What it said of the last such event, if it has not said much since."""
        with (self.directory / f"{replica}.out").open("rb") as output:
            output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_TAIL_BYTES))
            said = output.read().decode(errors="replace")
        for line in reversed(said.splitlines()):
            told, found, _ = line.partition(f" ({event}")
            if found:
                return told.partition(f" replica {replica}: ")[2]
        return None

    def _check_running(self) -> None:
        for replica in self.reap_exited():
            raise StorageFault(f"replica {replica} ended: {self.last_output_line(replica)}")

    def stop(self, patience_s: float = CLUSTER_TIMEOUT_S) -> list[int]:
        """Those that had to be killed in the end. What they know is on disk all the same."""
        for process in self._running.values():
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGCONT)  # one that is frozen would not hear it
        until, killed = time.monotonic() + patience_s, []
        for replica, process in self._running.items():
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                killed.append(replica)
            _close(process)
        self._running.clear()
        return killed


def _close(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()


def _addresses(number: int, first: int | None) -> list[str]:
    ports = [first + each if first else free_port() for each in range(number)]
    return [f"127.0.0.1:{port}" for port in ports]


class LinkPartitions:
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._replicas = range(len(cluster.addresses))
        self._groups: list[frozenset[int]] = []
        cluster.control_line = self._control_line

    def partition(self, groups: Sequence[Sequence[int]]) -> None:
        """Only replicas of one group reach each other; those not named form one more."""
        named = [frozenset(group) for group in groups]
        self._groups = [*named, frozenset(self._replicas).difference(*named)]
        self._send_to_all()

    def heal(self) -> None:
        self._groups = []
        self._send_to_all()

    def unreachable_from(self, replica: int) -> tuple[int, ...]:
        """Those whom it does not reach."""
        mine = next(
            (group for group in self._groups if replica in group), frozenset(self._replicas)
        )
        return tuple(each for each in self._replicas if each not in mine)

    def _send_to_all(self) -> None:
        for replica in self._replicas:
            self._cluster.send_control_line(replica)

    def _control_line(self, replica: int) -> bytes:
        return encode_dev_control(
            DevControl(control="", secret="", pages={}, cut=self.unreachable_from(replica))
        )
