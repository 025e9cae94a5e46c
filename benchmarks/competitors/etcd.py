"""etcd: three servers on this machine, and a connection that puts keys.

The connection speaks gRPC over HTTP/2, as etcd's own clients do, with as little code as possible.
It sends one kind of call, whose headers never change and are sent in full only once. Of the
responses it parses only the frames. So the load generator costs about as much as that for Creek.
"""

import asyncio
import shutil
import struct
import subprocess
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Final

from creekdb.load.connection import CallDone
from creekdb.load.local_cluster import free_port
from creekdb.load.measurement import STRONG_STABLE, LoadMeter
from creekdb.load.workload import WorkloadCall
from creekdb.wire.framing import FrameWriter

NAME: Final = "etcd"
MISSING: Final = "etcd is not installed; 'apt-get install etcd-server' installs it"
TIMEOUT_S: Final = 20.0
SERVERS: Final = 3

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_INITIAL_WINDOW: Final = 65_535
_RECEIVE_WINDOW: Final = 1 << 30
_FRAME_HEADER: Final = struct.Struct(">HBBBI")


def is_installed() -> bool:
    return shutil.which("etcd") is not None


class Etcd:
    """The servers. They sync their writes before they respond, which is the default."""

    def __init__(self, directory: Path, open_link: Callable[[str], str] | None = None) -> None:
        """`open_link` maps the address of a server to the one that the other servers dial."""
        self._directory = directory
        listening = [f"127.0.0.1:{free_port()}" for _ in range(SERVERS)]
        self._listening = [f"http://{address}" for address in listening]
        self._peers = [
            f"http://{address if open_link is None else open_link(address)}"
            for address in listening
        ]
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(SERVERS)]
        self._server_processes: list[subprocess.Popen[bytes]] = []

    @property
    def processes(self) -> dict[str, int]:
        return {
            f"{NAME} {each}": process.pid for each, process in enumerate(self._server_processes)
        }

    def start(self) -> None:
        cluster = ",".join(f"n{each}={address}" for each, address in enumerate(self._peers))
        addresses = zip(self._listening, self._peers, self.addresses, strict=True)
        for each, (listening, peer, client) in enumerate(addresses):
            command = [
                "etcd",
                "--name",
                f"n{each}",
                "--data-dir",
                str(self._directory / f"n{each}"),
            ]
            command += ["--listen-peer-urls", listening, "--initial-advertise-peer-urls", peer]
            command += ["--listen-client-urls", f"http://{client}"]
            command += ["--advertise-client-urls", f"http://{client}"]
            command += ["--initial-cluster", cluster]
            with (self._directory / f"n{each}.out").open("wb") as output:
                self._server_processes.append(
                    subprocess.Popen(command, stdout=output, stderr=output)
                )

    def stop(self) -> None:
        for process in self._server_processes:
            process.terminate()
        for process in self._server_processes:
            process.wait()
        self._server_processes.clear()


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    length = len(payload)
    return _FRAME_HEADER.pack(length >> 8, length & 255, kind, flags, stream) + payload


def _literal(name: bytes, value: bytes) -> bytes:
    """Return a header field with incremental indexing."""
    return b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value


def _initial_headers(authority: str) -> bytes:
    return (
        b"\x83\x86"  # POST, http
        + _literal(b":path", b"/etcdserverpb.KV/Put")
        + _literal(b":authority", authority.encode())
        + _literal(b"content-type", b"application/grpc")
        + _literal(b"te", b"trailers")
    )


_REPEATED_HEADERS: Final = b"\x83\x86\xc1\xc0\xbf\xbe"
"""The last four indexed fields, the oldest first."""


def _varint(number: int) -> bytes:
    output = bytearray()
    while number > 127:
        output.append(number & 127 | 128)
        number >>= 7
    output.append(number)
    return bytes(output)


def put_request(key: bytes, value: bytes) -> bytes:
    """Return a PutRequest as protobuf, in the envelope of gRPC."""
    body = b"\x0a" + _varint(len(key)) + key + b"\x12" + _varint(len(value)) + value
    return b"\0" + struct.pack(">I", len(body)) + body


class EtcdConnection(asyncio.Protocol):
    def __init__(self, authority: str, meter: LoadMeter, on_call_done: CallDone) -> None:
        self._loop = asyncio.get_running_loop()
        self._headers = _initial_headers(authority)
        self._meter = meter
        self._on_call_done = on_call_done
        self._buffer = bytearray()
        self._writer = FrameWriter()
        self._is_parsing = False
        """True while received data is parsed; frames are then sent together at its end."""
        self._stream = -1
        self._calls: dict[int, tuple[int, int]] = {}
        self._responded: set[int] = set()
        """Streams with a response, before their end."""
        self._window = _INITIAL_WINDOW
        self._blocked_bodies: deque[tuple[int, bytes]] = deque()
        """Bodies that exceed the flow-control window."""
        self._consumed = 0
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.ready: asyncio.Future[None] = self._loop.create_future()

    @property
    def in_flight(self) -> int:
        return len(self._calls)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._writer.connect(transport)
        increment = struct.pack(">I", _RECEIVE_WINDOW)
        self._writer.write(_PREFACE + _frame(_SETTINGS, 0, 0) + _frame(_WINDOW, 0, 0, increment))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        pending, self._calls = self._calls, {}
        now_ns = perf_counter_ns()
        for _, client in pending.values():
            self._meter.record_failure("connection lost", now_ns)
            self._on_call_done(self, client)

    def close(self) -> None:
        self._writer.close()

    def call(self, call: WorkloadCall, client: int) -> None:
        key, value = call.arguments
        self._stream += 2
        stream = self._stream
        self._calls[stream] = perf_counter_ns(), client
        self._send(_frame(_HEADERS, _END_HEADERS, stream, self._headers))
        self._headers = _REPEATED_HEADERS
        body = put_request(key.encode(), value)
        if self._blocked_bodies or len(body) > self._window:
            self._blocked_bodies.append((stream, body))
        else:
            self._send_body(stream, body)

    def _send_body(self, stream: int, body: bytes) -> None:
        self._window -= len(body)
        self._send(_frame(_DATA, _END_STREAM, stream, body))

    def _send(self, frame: bytes) -> None:
        if self._is_parsing:
            self._writer.append(frame)
        else:
            self._writer.write(frame)

    def data_received(self, data: bytes) -> None:
        now_ns = perf_counter_ns()
        self._is_parsing = True
        buffer = self._buffer
        buffer += data
        offset = 0
        while len(buffer) - offset >= _FRAME_HEADER.size:
            high, low, kind, flags, stream = _FRAME_HEADER.unpack_from(buffer, offset)
            length = high << 8 | low
            if len(buffer) - offset - _FRAME_HEADER.size < length:
                break
            offset += _FRAME_HEADER.size + length
            self._handle_frame(kind, flags, stream, buffer, offset - length, length, now_ns)
        del buffer[:offset]
        self._is_parsing = False
        self._writer.flush()

    def _handle_frame(
        self,
        kind: int,
        flags: int,
        stream: int,
        buffer: bytearray,
        offset: int,
        length: int,
        now: int,
    ) -> None:
        match kind:
            case 0:  # data
                self._consumed += length
                self._responded.add(stream)
            case 1:  # headers, or trailers
                if flags & _END_STREAM:
                    self._complete(stream, now)
            case 3:  # reset
                self._complete(stream, now)
            case 4:  # settings
                if not flags & _ACK:
                    self._send(_frame(_SETTINGS, _ACK, 0))
                    if not self.ready.done():
                        self.ready.set_result(None)
            case 6:  # ping
                if not flags & _ACK:
                    self._send(_frame(_PING, _ACK, 0, bytes(buffer[offset : offset + length])))
            case 7:  # go away
                self.close()
            case 8:  # window
                if stream == 0:
                    self._window += int.from_bytes(buffer[offset : offset + 4], "big")
                    while self._blocked_bodies and len(self._blocked_bodies[0][1]) <= self._window:
                        self._send_body(*self._blocked_bodies.popleft())
            case _:
                pass
        if self._consumed > _RECEIVE_WINDOW // 2:
            self._send(_frame(_WINDOW, 0, 0, struct.pack(">I", self._consumed)))
            self._consumed = 0

    def _complete(self, stream: int, now_ns: int) -> None:
        call = self._calls.pop(stream, None)
        if call is None:
            return
        sent_ns, client = call
        if stream in self._responded:
            self._responded.discard(stream)
            self._meter.record_response(STRONG_STABLE, sent_ns, now_ns)
        else:
            self._meter.record_failure("rejected", now_ns)
        self._on_call_done(self, client)


async def dial(address: str, meter: LoadMeter, on_call_done: CallDone) -> EtcdConnection:
    loop = asyncio.get_running_loop()
    host, _, port = address.partition(":")
    deadline = loop.time() + TIMEOUT_S
    while True:
        try:
            _, connection = await loop.create_connection(
                lambda: EtcdConnection(address, meter, on_call_done), host, int(port)
            )
            await asyncio.wait_for(connection.ready, TIMEOUT_S)
        except (OSError, TimeoutError):
            if loop.time() > deadline:
                raise
            await asyncio.sleep(0.05)
        else:
            return connection
