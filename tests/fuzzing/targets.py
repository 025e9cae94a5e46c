"""Decoders under test, each with samples of its input and the rule that it must obey.

The rule of every decoder: any bytes give a decoded value or an error of the declared types. Where
a format has a checksum, damaged bytes give exactly what was written, or an error.
"""

import atexit
import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from creekdb.checkers.blackbox.history_files.reader import read_calls
from creekdb.checkers.blackbox.observations import ObservedCall
from creekdb.driver.snapshot_parts import SnapshotAssembler, snapshot_payloads
from creekdb.errors import MalformedMessage, StorageFault, UsageError
from creekdb.execution.base_state import EmptyBase
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.history import History, load_run, merge_recordings, save_run
from creekdb.history.recording import (
    FRAME_LENGTH,
    RECORDING_VERSION,
    CallInvoked,
    EventsRecorded,
    RecordingFrame,
    RecordingStarted,
    ReplicaStopped,
    ResponseSent,
    VisibleEvents,
)
from creekdb.history.records import Dot, RbCast, ResponseKind, SchemeGuarantees, encode_event
from creekdb.history.run_directory import CONFIG_FILE, HISTORY_FILE
from creekdb.protocol.checkpoint.replay import RecoveredState, replay_records
from creekdb.protocol.checkpoint.stream import ArrayEncoder, EncodedSnapshot
from creekdb.protocol.membership.rollback_detection import (
    DirectoryHistory,
    ReplicaStart,
    ReportedState,
    Sighting,
)
from creekdb.protocol.messages import Checkpoint, Snapshot, decode_message, decode_record
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key
from creekdb.server.backup.format import read_checkpoint, read_header, read_requests
from creekdb.server.membership.join_ticket import JoinTicket, read_ticket, write_ticket
from creekdb.server.membership.rollback_guard import DirectoryEvidence
from creekdb.server.runtime.config import ServerConfig, read_config
from creekdb.server.storage.data_dir import DataDirOwner, read_json_file, write_json_file
from creekdb.server.storage.segments import (
    SegmentHeader,
    encode_group,
    encode_segment_header,
    read_segment_chain,
    segment_file_name,
)
from creekdb.wire import messages as wire
from creekdb.wire.changes import decode_changes, encode_changes
from creekdb.wire.dev_control import DevControl, decode_dev_control, encode_dev_control
from tests.fuzzing import samples
from tests.unit.checkers.history_builder import HistoryBuilder

FRAME_BYTES_MAX: Final = 500
_BACKUP_START_BYTES: Final = 12
_CHECKSUM_BYTES: Final = 32


@dataclass(frozen=True)
class Target:
    """Decoder under test."""

    name: str
    samples: tuple[bytes, ...]
    check: Callable[[bytes], None]
    """Decodes the bytes. Raises if the decoder breaks its rule."""


@cache
def scratch_directory() -> Path:
    """Return a directory of this process, which is removed at exit."""
    directory = Path(tempfile.mkdtemp(prefix="creek-fuzzing-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def overwrite(path: Path, data: bytes) -> None:
    """Replace the content of a file. Unlike `Path.write_bytes`, this never waits for the disk."""
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.ftruncate(file, os.pwrite(file, data, 0))
    finally:
        os.close(file)


# --- messages ---------------------------------------------------------------------------------


def _message_target(
    name: str, decode: Callable[[bytes], Any], messages: tuple[msgspec.Struct, ...]
) -> Target:
    def check(data: bytes) -> None:
        with suppress(MalformedMessage):
            message = decode(data)
            assert isinstance(message, msgspec.Struct)
            encoded = samples.encode(message)
            assert samples.encode(decode(encoded)) == encoded

    return Target(name, tuple(map(samples.encode, messages)), check)


def _check_changes(data: bytes) -> None:
    with suppress(MalformedMessage):
        encoded = encode_changes(decode_changes(data))
        assert encode_changes(decode_changes(encoded)) == encoded


def _check_frames(data: bytes) -> None:
    """Compare the payloads of the whole data with those of its single bytes."""
    whole, pieces = list[bytes](), list[bytes]()
    for payloads, step in ((whole, max(1, len(data))), (pieces, 1)):
        decoder = wire.FrameDecoder(FRAME_BYTES_MAX)
        with suppress(MalformedMessage):
            for at in range(0, len(data), step):
                payloads += decoder.feed(data[at : at + step])
    assert whole == pieces
    assert all(len(payload) <= FRAME_BYTES_MAX for payload in whole)
    assert b"".join(map(wire.frame_payload, whole)) == data[: sum(map(len, whole)) + 4 * len(whole)]


def _check_dev_control(data: bytes) -> None:
    with suppress(MalformedMessage):
        control = decode_dev_control(data)
        assert decode_dev_control(encode_dev_control(control)) == control


# --- snapshots in parts -----------------------------------------------------------------------


@cache
def snapshot_frames() -> bytes:
    """Return the frames of a snapshot in parts."""
    checkpoint = samples.CHECKPOINT
    live, deleted = ArrayEncoder(), ArrayEncoder()
    for item in checkpoint.state:
        live.extend((item,))
    for key in checkpoint.deleted:
        deleted.extend((key,))
    bare = Snapshot(msgspec.structs.replace(checkpoint, state=(), deleted=()))
    payloads = snapshot_payloads(EncodedSnapshot(1, bare, live, deleted), 2**20, part_bytes=1)
    return b"".join(map(wire.frame_payload, payloads))


def assembled_checkpoint(payloads: list[bytes], registers_max: int = 100) -> Checkpoint | None:
    """Return the first snapshot that the payloads contain, or None."""
    loaders: list[StateLoader] = []

    def new_loader() -> StateLoader:
        loaders.append(StateLoader(EmptyBase(), with_digest=True))
        return loaders[-1]

    assembler = SnapshotAssembler(new_loader, registers_max)
    for payload in payloads:
        message = wire.decode_peer_message(payload)
        if isinstance(message, wire.SnapshotPart):
            assembler.add(message)
            assert len(loaders[-1].registers) <= registers_max
        elif isinstance(message, Snapshot):
            assembled = assembler.assemble(message)
            if isinstance(assembled, Snapshot):
                return assembled.checkpoint
            assert assembled.live.count + assembled.deleted.count <= registers_max
            if not assembled.loader.has_unique_keys():
                return None  # rejected by `protocol.validation`
            container = msgspec.msgpack.decode(
                b"".join(assembled.live.chunks()), type=tuple[tuple[Key, Any], ...]
            )
            deleted = msgspec.msgpack.decode(
                b"".join(assembled.deleted.chunks()), type=tuple[Any, ...]
            )
            return msgspec.structs.replace(assembled.checkpoint, state=container, deleted=deleted)
    return None


def _check_snapshot(data: bytes) -> None:
    with suppress(MalformedMessage):
        assembled_checkpoint(list(wire.FrameDecoder(FRAME_BYTES_MAX).feed(data)))


# --- files ------------------------------------------------------------------------------------


def read_backup(data: bytes) -> tuple[Any, ...]:
    """Return the whole content of a backup."""
    path = scratch_directory() / "one.backup"
    overwrite(path, data)
    header = read_header(path)
    return header, samples.encode(read_checkpoint(path, header)), tuple(read_requests(path))


@cache
def backup_content() -> tuple[Any, ...]:
    return read_backup(samples.backup_bytes())


def _check_backup(data: bytes) -> None:
    with suppress(StorageFault, UsageError):
        assert read_backup(data) == backup_content()


def backup_blocks() -> list[Any]:
    """Return the blocks of the sample, decoded without a type."""
    data = samples.backup_bytes()[_BACKUP_START_BYTES:-_CHECKSUM_BYTES]
    return [msgspec.msgpack.decode(body) for body in wire.FrameDecoder(10**6).feed(data) if body]


def seal_backup(blocks: list[Any]) -> bytes:
    """Return the bytes of a backup with these blocks, without its checksum."""
    start = samples.backup_bytes()[:_BACKUP_START_BYTES]
    bodies = [samples.encode(block) for block in blocks] + [b""]
    return start + b"".join(map(wire.frame_payload, bodies))


def _check_sealed_backup(body: bytes) -> None:
    """Read a backup that has any body and a valid checksum."""
    with suppress(StorageFault, UsageError):
        read_backup(body + hashlib.sha256(body).digest())


def _check_sealed_group(payload: bytes) -> None:
    """Read a journal whose only record is `payload`, with valid checksums."""
    directory = scratch_directory() / "sealed-group"
    directory.mkdir(exist_ok=True)
    header = encode_segment_header(SegmentHeader(1, 0, False, 7))
    overwrite(directory / segment_file_name(1), header + encode_group(0, 7, (payload,)))
    with suppress(StorageFault):
        records = read_segment_chain(directory).records
        assert samples.encode(records[0]) == samples.encode(decode_record(payload))
        assert isinstance(replay_records(records), RecoveredState)


TICKET: Final = JoinTicket(
    replica=2, address="h:3", epoch=1, members=((0, "h:1"), (1, "h:2")), former=(3,)
)
OWNER: Final = DataDirOwner(cluster="shop", replica=2, datatype="kv")


def _check_ticket(data: bytes) -> None:
    directory = scratch_directory()
    overwrite(directory / "member.json", data)
    with suppress(StorageFault):
        ticket = read_ticket(directory)
        assert ticket is not None
        assert ticket.replica in ticket.addresses
        assert ticket.configuration.epoch == ticket.epoch


def _check_owner(data: bytes) -> None:
    path = scratch_directory() / "fuzzed-owner.json"
    overwrite(path, data)
    with suppress(StorageFault):
        assert isinstance(read_json_file(path, DataDirOwner), DataDirOwner)


EVIDENCE: Final = DirectoryEvidence(
    history=DirectoryHistory(4, (ReplicaStart(1, 4, True, ReportedState(5, 6)),)),
    sightings=(
        Sighting(1, DirectoryHistory(7, (ReplicaStart(2, 8, False, ReportedState(1, 2)),)), None),
    ),
)


def _check_evidence(data: bytes) -> None:
    path = scratch_directory() / "fuzzed-evidence.json"
    overwrite(path, data)
    with suppress(StorageFault):
        evidence = read_json_file(path, DirectoryEvidence)
        assert isinstance(evidence, DirectoryEvidence)
        assert evidence.history.last in evidence.history.starts


CALLS: Final = (
    b'{"client": "a", "operation": "put", "arguments": ["x", {"$bytes": "YQ=="}], '
    b'"invoked_us": 0, "responded_us": 7, "value": null}\n'
    b'{"client": 1, "operation": "get", "invoked_us": 1, "final": {"responded_us": 9}}\n'
)
EVENTS: Final = (
    b"{:process 0, :type :invoke, :f :cas, :value [1 nil], :time 5}\n"
    b'{:process 0, :type :ok, :f :cas, :value #{"a" 2.5}}\n'
)
EVENT_LOG: Final = (
    b"INFO  jepsen.util - 1\t:invoke\t:cas\t[3 4]\nINFO  jepsen.util - 1\t:ok\t:cas\t3\n"
)


def _check_calls(data: bytes) -> None:
    path = scratch_directory() / "fuzzed-calls"
    overwrite(path, data)
    with suppress(UsageError):
        assert all(isinstance(each, ObservedCall) for each in read_calls(path))


@cache
def _json_samples() -> tuple[bytes, ...]:
    directory = scratch_directory() / "json"
    directory.mkdir()
    write_ticket(TICKET, directory)
    write_json_file(directory / "owner.json", OWNER)
    write_json_file(directory / "evidence.json", EVIDENCE)
    names = ("member.json", "owner.json", "evidence.json")
    return tuple([(directory / name).read_bytes() for name in names])


CONFIG_FILE_TEXT: Final = """\
cluster = "shop"
replica = 1
clients = "[::1]:7100"
datatype = "kv"
data = "d"
tick_ms = 20
busy_after = 2.5
fresh = true
durability = "memory"
[members]
0 = "h:1"
1 = "h:2"
[security]
plain = true
tokens = { a = "x" }
admins = ["a"]
"""


def _check_config(data: bytes) -> None:
    path = scratch_directory() / "creek.toml"
    overwrite(path, data)
    with suppress(UsageError, StorageFault):
        config = read_config(path, {}, {})
        assert isinstance(config, ServerConfig)
        assert config.replica in config.peers
        assert isinstance(config.client_address + config.page_url, str)


@cache
def small_history() -> History:
    builder = HistoryBuilder(members=2, datatype="kv")
    builder.respond(builder.invoke_weak(0, "put", "a", {"b": (1, b"x")}))
    builder.invoke_strong(1, "get", "a")
    builder.quiesce()
    return builder.history()


@cache
def run_directory() -> tuple[Path, bytes, bytes]:
    """Return a run directory with the bytes of its two files."""
    directory = scratch_directory() / "run"
    save_run(small_history(), directory)
    config, history = directory / CONFIG_FILE, directory / HISTORY_FILE
    return directory, config.read_bytes(), history.read_bytes()


def _check_run_history(data: bytes) -> None:
    directory, config, _ = run_directory()
    overwrite(directory / CONFIG_FILE, config)
    overwrite(directory / HISTORY_FILE, data)
    with suppress(StorageFault):
        assert load_run(directory) == small_history()


def _check_sealed_run_history(body: bytes) -> None:
    """Read a history that has any body and a valid checksum."""
    directory, config, _ = run_directory()
    overwrite(directory / CONFIG_FILE, config)
    overwrite(directory / HISTORY_FILE, zlib.compress(body, 1))
    with suppress(StorageFault):
        assert isinstance(load_run(directory), History)


def _check_run_config(data: bytes) -> None:
    directory, _, history = run_directory()
    overwrite(directory / CONFIG_FILE, data)
    overwrite(directory / HISTORY_FILE, history)
    with suppress(StorageFault, UsageError):
        assert isinstance(load_run(directory).config, dict)


@cache
def recording_bytes() -> bytes:
    id = Dot(0, 1)
    operation = Operation("put", ("a", 1))
    frames: tuple[RecordingFrame, ...] = (
        RecordingStarted(
            RECORDING_VERSION, "shop", 0, 0, (0,), "kv", "kv", "creek", "disk",
            SchemeGuarantees(), 5, 6, "boot", 2,
        ),
        VisibleEvents(0),
        CallInvoked(7, id, 1, False, None),
        EventsRecorded((encode_event(7, RbCast(Request(1, id, operation, False))),)),
        ResponseSent(8, id, ResponseKind.TENTATIVE, Outcome(None), False, None),
        ReplicaStopped(9, 0, (id,), (), True, (("a", 1),)),
    )  # fmt: skip
    payloads = map(samples.encode, frames)
    return b"".join(FRAME_LENGTH.pack(len(payload)) + payload for payload in payloads)


def _check_recording(data: bytes) -> None:
    directory = scratch_directory() / "recordings"
    directory.mkdir(exist_ok=True)
    overwrite(directory / "0-0.recording", data)
    with suppress(StorageFault, UsageError):
        merge_recordings(directory)


@cache
def targets() -> dict[str, Target]:
    """Return all decoders by name."""
    ticket, owner, evidence = _json_samples()
    dev_control = DevControl(control="http://h", secret="s", pages={0: "http://p"}, cut=(1,))
    all_targets = (
        _message_target("peer-hello", wire.decode_peer_hello, samples.PEER_HELLOS),
        _message_target("peer-message", wire.decode_peer_message, samples.PEER_MESSAGES),
        _message_target("client-message", wire.decode_client_message, samples.CLIENT_MESSAGES),
        _message_target("server-message", wire.decode_server_message, samples.SERVER_MESSAGES),
        _message_target("feed-peer-message", wire.decode_peer_message, samples.FEED_PEER_MESSAGES),
        _message_target(
            "feed-client-message", wire.decode_client_message, samples.FEED_CLIENT_MESSAGES
        ),
        _message_target(
            "feed-server-message", wire.decode_server_message, samples.FEED_SERVER_MESSAGES
        ),
        _message_target(
            "piece-peer-message", wire.decode_peer_message, samples.PIECE_PEER_MESSAGES
        ),
        _message_target(
            "piece-client-message", wire.decode_client_message, samples.PIECE_CLIENT_MESSAGES
        ),
        _message_target(
            "piece-server-message", wire.decode_server_message, samples.PIECE_SERVER_MESSAGES
        ),
        Target("changes", (encode_changes(samples.CHANGES),), _check_changes),
        _message_target("protocol-message", decode_message, samples.PROTOCOL_MESSAGES),
        _message_target("record", decode_record, samples.RECORDS),
        Target(
            "frames", (b"".join(map(wire.encode_frame, samples.CLIENT_MESSAGES)),), _check_frames
        ),
        Target("dev-control", (encode_dev_control(dev_control),), _check_dev_control),
        Target("snapshot", (snapshot_frames(),), _check_snapshot),
        Target("backup", (samples.backup_bytes(),), _check_backup),
        Target("sealed-backup", (samples.backup_bytes()[:-_CHECKSUM_BYTES],), _check_sealed_backup),
        Target("sealed-group", tuple(map(samples.encode, samples.RECORDS)), _check_sealed_group),
        Target("join-ticket", (ticket,), _check_ticket),
        Target("data-dir-owner", (owner,), _check_owner),
        Target("evidence", (evidence,), _check_evidence),
        Target("calls", (CALLS, EVENTS, EVENT_LOG), _check_calls),
        Target("config", (CONFIG_FILE_TEXT.encode(),), _check_config),
        Target("run-history", (run_directory()[2],), _check_run_history),
        Target(
            "sealed-run-history", (zlib.decompress(run_directory()[2]),), _check_sealed_run_history
        ),
        Target("run-config", (run_directory()[1],), _check_run_config),
        Target("recording", (recording_bytes(),), _check_recording),
    )
    return {target.name: target for target in all_targets}
