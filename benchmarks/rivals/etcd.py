"""etcd: three servers on this machine, and a connection that puts keys.

It is spoken to as its own clients do, with gRPC over HTTP/2, but by as little code as possible: all
that is sent is one kind of call, whose headers never change and are told in full only once, and of
what comes back only the frames are looked at. So the load costs about as much as that for Creek.
"""

import asyncio
import shutil
import struct
import subprocess
from collections import deque
from pathlib import Path
from time import perf_counter_ns
from typing import Final, cast

from creekdb.load.connection import CallDone
from creekdb.load.local_cluster import free_port
from creekdb.load.measurement import STRONG_STABLE, LoadMeter
from creekdb.load.workload import WorkloadCall

NAME: Final = "etcd"
MISSING: Final = "etcd is not installed ('apt-get install etcd-server' adds it)"
PATIENCE_S: Final = 20.0
SERVERS: Final = 3

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_WINDOW_FIRST: Final = 65_535
_WINDOW_OURS: Final = 1 << 30
_HEAD: Final = struct.Struct(">HBBBI")


def is_there() -> bool:
    return shutil.which("etcd") is not None


class Etcd:
    """The servers. They sync what they write before they answer, as they do unless told not to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._peers = [f"http://127.0.0.1:{free_port()}" for _ in range(SERVERS)]
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(SERVERS)]
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def processes(self) -> dict[str, int]:
        return {f"{NAME} {each}": process.pid for each, process in enumerate(self._running)}

    def start(self) -> None:
        cluster = ",".join(f"n{each}={address}" for each, address in enumerate(self._peers))
        for each, (peer, client) in enumerate(zip(self._peers, self.addresses, strict=True)):
            command = ["etcd", "--name", f"n{each}", "--data-dir", str(self._folder / f"n{each}")]
            command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
            command += ["--listen-client-urls", f"http://{client}"]
            command += ["--advertise-client-urls", f"http://{client}"]
            command += ["--initial-cluster", cluster]
            with (self._folder / f"n{each}.out").open("wb") as output:
                self._running.append(subprocess.Popen(command, stdout=output, stderr=output))

    def stop(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.wait()
        self._running.clear()


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    length = len(payload)
    return _HEAD.pack(length >> 8, length & 255, kind, flags, stream) + payload


def _literal(name: bytes, value: bytes) -> bytes:
    """A header that is to be remembered."""
    return b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value


def _first_headers(authority: str) -> bytes:
    return (
        b"\x83\x86"  # POST, http
        + _literal(b":path", b"/etcdserverpb.KV/Put")
        + _literal(b":authority", authority.encode())
        + _literal(b"content-type", b"application/grpc")
        + _literal(b"te", b"trailers")
    )


_SAME_HEADERS: Final = b"\x83\x86\xc1\xc0\xbf\xbe"
"""The last four that are remembered, the oldest first."""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def put_request(key: bytes, value: bytes) -> bytes:
    """PutRequest as protobuf, in the envelope of gRPC."""
    body = b"\x0a" + _varint(len(key)) + key + b"\x12" + _varint(len(value)) + value
    return b"\0" + struct.pack(">I", len(body)) + body


class EtcdLine(asyncio.Protocol):
    def __init__(self, authority: str, meter: LoadMeter, done: CallDone) -> None:
        self._loop = asyncio.get_running_loop()
        self._headers = _first_headers(authority)
        self._meter = meter
        self._done = done
        self._buffer = bytearray()
        self._out: list[bytes] = []
        self._is_hearing = False
        """Then what is asked leaves when all is heard."""
        self._transport: asyncio.Transport | None = None
        self._stream = -1
        self._calls: dict[int, tuple[int, int]] = {}
        self._answered: set[int] = set()
        """Streams whose answer has come, but for the end."""
        self._window = _WINDOW_FIRST
        self._waiting: deque[tuple[int, bytes]] = deque()
        """Bodies for which there is no window."""
        self._consumed = 0
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.ready: asyncio.Future[None] = self._loop.create_future()

    @property
    def in_flight(self) -> int:
        return len(self._calls)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        more = struct.pack(">I", _WINDOW_OURS)
        self._transport.write(_PREFACE + _frame(_SETTINGS, 0, 0) + _frame(_WINDOW, 0, 0, more))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        lost, self._calls = self._calls, {}
        now_ns = perf_counter_ns()
        for _, who in lost.values():
            self._meter.record_failure("connection lost", now_ns)
            self._done(self, who)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def call(self, asked: WorkloadCall, who: int) -> None:
        key, value = asked.arguments
        self._stream += 2
        stream = self._stream
        self._calls[stream] = perf_counter_ns(), who
        self._say(_frame(_HEADERS, _END_HEADERS, stream, self._headers))
        self._headers = _SAME_HEADERS
        body = put_request(key.encode(), value)
        if self._waiting or len(body) > self._window:
            self._waiting.append((stream, body))
        else:
            self._send_body(stream, body)

    def _send_body(self, stream: int, body: bytes) -> None:
        self._window -= len(body)
        self._say(_frame(_DATA, _END_STREAM, stream, body))

    def _say(self, frame: bytes) -> None:
        if not self._out and not self._is_hearing:
            self._loop.call_soon(self._flush)
        self._out.append(frame)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def data_received(self, data: bytes) -> None:
        now_ns = perf_counter_ns()
        self._is_hearing = True
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= _HEAD.size:
            high, low, kind, flags, stream = _HEAD.unpack_from(buffer, at)
            length = high << 8 | low
            if len(buffer) - at - _HEAD.size < length:
                break
            at += _HEAD.size + length
            self._hear(kind, flags, stream, buffer, at - length, length, now_ns)
        del buffer[:at]
        self._is_hearing = False
        self._flush()

    def _hear(
        self, kind: int, flags: int, stream: int, buffer: bytearray, at: int, length: int, now: int
    ) -> None:
        match kind:
            case 0:  # data
                self._consumed += length
                self._answered.add(stream)
            case 1:  # headers, or what comes after the data
                if flags & _END_STREAM:
                    self._over(stream, now)
            case 3:  # reset
                self._over(stream, now)
            case 4:  # settings
                if not flags & _ACK:
                    self._say(_frame(_SETTINGS, _ACK, 0))
                    if not self.ready.done():
                        self.ready.set_result(None)
            case 6:  # ping
                if not flags & _ACK:
                    self._say(_frame(_PING, _ACK, 0, bytes(buffer[at : at + length])))
            case 7:  # go away
                self.close()
            case 8:  # window
                if stream == 0:
                    self._window += int.from_bytes(buffer[at : at + 4], "big")
                    while self._waiting and len(self._waiting[0][1]) <= self._window:
                        self._send_body(*self._waiting.popleft())
            case _:
                pass
        if self._consumed > _WINDOW_OURS // 2:
            self._say(_frame(_WINDOW, 0, 0, struct.pack(">I", self._consumed)))
            self._consumed = 0

    def _over(self, stream: int, now_ns: int) -> None:
        call = self._calls.pop(stream, None)
        if call is None:
            return
        asked_ns, who = call
        if stream in self._answered:
            self._answered.discard(stream)
            self._meter.record_response(STRONG_STABLE, asked_ns, now_ns)
        else:
            self._meter.record_failure("refused", now_ns)
        self._done(self, who)


async def dial(address: str, meter: LoadMeter, done: CallDone) -> EtcdLine:
    loop = asyncio.get_running_loop()
    host, _, port = address.partition(":")
    until = loop.time() + PATIENCE_S
    while True:
        try:
            _, line = await loop.create_connection(
                lambda: EtcdLine(address, meter, done), host, int(port)
            )
            await asyncio.wait_for(line.ready, PATIENCE_S)
        except (OSError, TimeoutError):
            if loop.time() > until:
                raise
            await asyncio.sleep(0.05)
        else:
            return line
