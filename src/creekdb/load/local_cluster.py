"""Clusters of replica processes on this machine: their ports, processes and link partitions.

No two clusters share a port, even before their replicas listen. Each process reserves a block of
ports and assigns them in turn. It keeps the first port of the block bound until it exits.
Therefore no other process gets a port of the block, even while a replica is down.

All blocks lie below the ephemeral ports of the system. Otherwise an outgoing connection could have
the port of a replica that is about to start. A connection attempt that is too early could even
connect to itself.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import chain, combinations, cycle, islice
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from creekdb.client import connect
from creekdb.errors import StorageFault, UsageError
from creekdb.wire.dev_control import DevControl, encode_dev_control
from creekdb.wire.event_log import EventName

PORTS: Final = range(12_000, 32_000)
BLOCK_SIZE: Final = 250

_NO_FREE_PORTS: Final = (
    f"no free port from {PORTS.start} to {PORTS.stop - 1}; stop processes that listen there"
)

_reserved_sockets: list[socket.socket] = []
_own_ports: list[Iterator[int]] = []


def free_port() -> int:
    """Return a port of this process that is not in use and was not assigned recently."""
    if not _own_ports:
        _own_ports.append(cycle(reserve_block()))
    for port in islice(_own_ports[0], BLOCK_SIZE):
        if bind_error(port) is None:
            return port
    raise UsageError(_NO_FREE_PORTS)


def reserve_block() -> range:
    """Reserve another block of ports until this process exits."""
    blocks = [PORTS[first : first + BLOCK_SIZE] for first in range(0, len(PORTS), BLOCK_SIZE)]
    start = os.getpid() % len(blocks)
    for block in chain(blocks[start:], blocks[:start]):
        reserved = socket.socket()
        with suppress(OSError):
            reserved.bind(("127.0.0.1", block[0]))
            _reserved_sockets.append(reserved)
            return block[1:]
        reserved.close()
    raise UsageError(_NO_FREE_PORTS)


def bind_error(port: int) -> OSError | None:
    """Return the error of a process that would listen at this port now, or None."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error
    return None


CLUSTER_TIMEOUT_S: Final = 60.0
PROCESS_CHECK_S: Final = 0.5
"""Interval of the check for processes that exited."""
PEER_PORT_OFFSET: Final = 100
"""Offset from the client port of a replica to its peer port."""
HTTP_PORT_OFFSET: Final = 200
"""Offset from the client port of a replica to its HTTP port."""
OUTPUT_TAIL_BYTES: Final = 65_536
"""Size of the last part of a replica's output that is searched for an event."""


class LocalCluster:
    """Cluster of `creek serve` processes. The output of each replica goes to a file.

    As a context manager, it stops all replicas at the end.
    """

    def __init__(
        self,
        directory: Path,
        *,
        replicas: int,
        datatype: str = "kv",
        options: Sequence[str] = (),
        port: int | None = None,
        http: bool = False,
        is_recorded: bool = False,
    ) -> None:
        """`port` is the client port of the first replica; the others follow. Peer ports and HTTP
        ports have the offsets `PEER_PORT_OFFSET` and `HTTP_PORT_OFFSET`. Without `port`, free ports
        are used. If `http`, the replicas also serve HTTP. If `is_recorded`, they record their
        histories in `recordings`."""
        self.directory = directory
        self._datatype = datatype
        self.environment: Mapping[str, str] | None = None
        """Environment variables of the replicas. None for those of this process."""
        self.recordings = directory / "recorded"
        record_options = ("--record", str(self.recordings)) if is_recorded else ()
        self._options = (*options, *record_options)
        self._link_addresses: Mapping[tuple[int, int], str] = {}
        self._members = _addresses(replicas, port and port + PEER_PORT_OFFSET)
        self.addresses = _addresses(replicas, port)
        self.http_addresses = _addresses(replicas, port and port + HTTP_PORT_OFFSET) if http else []
        self.cut_links: Set[tuple[int, int]] = frozenset()
        """Cut links between replicas. `set_cut_links` changes them."""
        self._dev_control = DevControl(control="", secret="", pages={})
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def members(self) -> list[str]:
        """Addresses at which the replicas listen for each other."""
        return list(self._members)

    def set_link_addresses(self, addresses: Mapping[tuple[int, int], str]) -> None:
        """Set the address, by sender and receiver, that a replica dials instead of a member's."""
        self._link_addresses = addresses

    @property
    def processes(self) -> dict[str, int]:
        """Process ids, by name of the replica."""
        return {f"replica {replica}": process.pid for replica, process in self._running.items()}

    def start(self, *replicas: int) -> None:
        """Start these replicas, or all of them."""
        for replica in replicas or range(len(self._members)):
            command = [sys.executable, "-m", "creekdb", "serve", "--replica", str(replica)]
            for number, address in enumerate(self._members):
                dialled = self._link_addresses.get((replica, number), address)
                command += ["--member", f"{number}={dialled}"]
            command += ["--clients", self.addresses[replica], "--datatype", self._datatype]
            command += ["--data", str(self.directory / f"data-{replica}"), "--with-parent"]
            command += self._options
            if self.http_addresses:
                command += ["--http", self.http_addresses[replica]]
            with self.output_path(replica).open("ab") as output:
                self._running[replica] = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env=self.environment,
                    start_new_session=True,  # Ctrl-C must interrupt only this process
                )
            if self._dev_control.control or self.cut_links:
                self._send_control(replica)

    def set_dev_control(self, control: DevControl) -> None:
        """Send the control data to all replicas, now and at every start."""
        self._dev_control = control
        self.set_cut_links(self.cut_links)

    def set_cut_links(self, links: Set[tuple[int, int]]) -> None:
        """Cut exactly these links. The others have no proxy in between, and no extra latency."""
        self.cut_links = links
        for replica in self._running:
            self._send_control(replica)

    def partition(self, groups: Sequence[Sequence[int]]) -> None:
        """Split the cluster into groups. Replicas that are not named form one more group."""
        group_of = {replica: number for number, group in enumerate(groups) for replica in group}
        pairs = combinations(range(len(self.addresses)), 2)
        self.set_cut_links({pair for pair in pairs if len({*map(group_of.get, pair)}) > 1})

    def heal(self) -> None:
        """Remove all partitions."""
        self.set_cut_links(frozenset())

    def unreachable_from(self, replica: int) -> tuple[int, ...]:
        """Return the replicas to which the links of this one are cut."""
        ends = chain.from_iterable(link for link in self.cut_links if replica in link)
        return tuple(sorted({*ends} - {replica}))

    def _send_control(self, replica: int) -> None:
        control = msgspec.structs.replace(self._dev_control, cut=self.unreachable_from(replica))
        pipe = self._running[replica].stdin
        assert pipe is not None
        with suppress(BrokenPipeError):
            pipe.write(encode_dev_control(control))
            pipe.flush()

    def is_running(self, replica: int) -> bool:
        return replica in self._running

    def kill(self, replica: int) -> None:
        """Kill a replica with SIGKILL."""
        process = self._running.pop(replica)
        process.kill()
        process.wait()
        _close(process)

    async def statuses(self) -> list[dict[str, Any]]:
        """Return the status of each running replica."""
        return list(await asyncio.gather(*map(self._status, sorted(self._running))))

    async def _status(self, replica: int) -> dict[str, Any]:
        async with connect(self.addresses[replica], patience=CLUSTER_TIMEOUT_S) as db:
            return await db.status()

    async def wait_until_ready(self) -> None:
        """Wait until all running replicas are connected, have joined and have a leader."""
        await self._wait_until(
            lambda statuses: all(
                len(status["connected"]) == len(statuses) - 1
                and status["leader"] is not None
                and not status["why_closed"]
                for status in statuses
            )
        )

    async def wait_until_stable(self) -> None:
        """Wait until all running replicas have committed and executed the same requests."""
        await self._wait_until(
            lambda statuses: (
                len({status["committed"] for status in statuses}) == 1
                and not any(status["tentative"] or status["backlog"] for status in statuses)
            )
        )

    async def _wait_until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> None:
        try:
            async with asyncio.timeout(CLUSTER_TIMEOUT_S):
                while True:
                    self._check_running()
                    statuses = asyncio.ensure_future(self.statuses())
                    try:
                        while not (await asyncio.wait((statuses,), timeout=PROCESS_CHECK_S))[0]:
                            self._check_running()  # a replica that exited never responds
                        if holds(statuses.result()):
                            return
                    finally:
                        statuses.cancel()
                    await asyncio.sleep(0.02)
        except TimeoutError as error:
            output = "; ".join(
                f"replica {replica}: {self.last_output_line(replica)}" for replica in self._running
            )
            raise StorageFault(
                f"the cluster did not become ready or stable within {CLUSTER_TIMEOUT_S:g} s; "
                f"last output: {output}"
            ) from error

    def reap_exited(self) -> dict[int, int]:
        """Remove the replicas that exited on their own. Returns their exit codes."""
        polled = {replica: process.poll() for replica, process in self._running.items()}
        exit_codes = {replica: code for replica, code in polled.items() if code is not None}
        for replica in exit_codes:
            _close(self._running.pop(replica))
        return exit_codes

    def last_output_line(self, replica: int) -> str:
        """Return the last line that a replica printed, usually the cause of its exit."""
        output = self.output_path(replica).read_text(errors="replace").strip()
        lines = [
            line
            for line in output.splitlines()
            if not line.endswith(f"({EventName.REPLICA_STOPPING})")
        ]
        return lines[-1] if lines else "no output"

    def last_event_text(self, replica: int, event: str) -> str | None:
        """Return the text of the last such event, or None if the end of the output has none."""
        with self.output_path(replica).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - OUTPUT_TAIL_BYTES))
            output = file.read().decode(errors="replace")
        for line in reversed(output.splitlines()):
            text, separator, _ = line.partition(f" ({event}")
            if separator:
                return text.partition(f" replica {replica}: ")[2]
        return None

    def output_path(self, replica: int) -> Path:
        """Return the file with the output of a replica, which includes its log."""
        return self.directory / f"{replica}.out"

    def read_event_texts(self, replica: int, event: str, start: int) -> tuple[list[str], int]:
        """Return the texts of such events after byte `start`, and the position to continue at."""
        try:
            with self.output_path(replica).open("rb") as file:
                file.seek(start)
                output = file.read()
        except FileNotFoundError:  # removed by the user or a cleaner of temporary files
            return [], start
        lines, newline, _ = output.rpartition(b"\n")
        texts = []
        for line in lines.decode(errors="replace").splitlines():
            text, separator, _ = line.partition(f" ({event} ")
            if separator:
                texts.append(text.partition(f" replica {replica}: ")[2])
        return texts, start + len(lines) + len(newline)

    def _check_running(self) -> None:
        for replica in self.reap_exited():
            raise StorageFault(f"replica {replica} exited: {self.last_output_line(replica)}")

    def stop(self, timeout_s: float = CLUSTER_TIMEOUT_S) -> list[int]:
        """Stop all replicas. Returns those that had to be killed, whose state is still on disk."""
        for process in self._running.values():
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGCONT)  # a paused process would not handle SIGINT
        deadline, killed = time.monotonic() + timeout_s, []
        for replica, process in self._running.items():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
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


def _addresses(count: int, first: int | None) -> list[str]:
    ports = [first + index if first else free_port() for index in range(count)]
    return [f"127.0.0.1:{port}" for port in ports]
