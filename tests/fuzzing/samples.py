"""Small samples of everything that Creek decodes."""

from pathlib import Path
from typing import Final

import msgspec

from creekdb.protocol.checkpoint.stream import InMemoryRegisterCursor
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    AcceptedValue,
    Ballot,
    Cast,
    CatchUp,
    Checkpoint,
    CheckpointRecord,
    Decided,
    Decisions,
    Heartbeat,
    Message,
    Prepare,
    Progress,
    Promise,
    Promised,
    Pull,
    PullResponse,
    Received,
    Record,
    RecoveryQuery,
    RecoveryResponse,
    Reject,
    Snapshot,
    Summary,
    Vote,
)
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.server.backup.format import BackupHeader, encode_backup
from creekdb.sql.table_rows import KeyPart, TableColumn
from creekdb.wire import messages as wire
from creekdb.wire.changes import Change
from creekdb.wire.pieces import Piece
from creekdb.wire.reject_reason import RejectReason

_BALLOT: Final = Ballot(3, 1)
_IDS: Final = Dots({0: (1, 4), 2: (1, 2, 5, 9)})
_BATCH: Final = (Dot(0, 3), Dot(2, 1))
_WEAK: Final = Request(5, Dot(0, 4), Operation("put", ("a", {"b": (1, 2.5, None, b"x")})), False)
_STRONG: Final = Request(6, Dot(2, 9), Operation("get", ("a",)), True, _IDS)
_ACCEPTED: Final = AcceptedValue(7, _BALLOT, _BATCH)
CHECKPOINT: Final = Checkpoint(
    4,
    3,
    _IDS,
    9,
    (("a", (1, "é")), (MEMBERSHIP_KEY, (1, ((0, "h:1"), (2, "h:2")), ())), (("b", 2), True)),
    ((Dot(0, 3), Outcome((1,))), (Dot(2, 1), Outcome(None, "ValueError: no"))),
    ("c",),
)

PROTOCOL_MESSAGES: Final[tuple[Message, ...]] = (
    Cast((_WEAK, _STRONG)),
    Summary(_IDS),
    Pull(_IDS),
    PullResponse((_WEAK,)),
    Heartbeat(_BALLOT, 1, (0, 1)),
    Prepare(_BALLOT, 3),
    Promise(_BALLOT, 2, (_ACCEPTED,)),
    Accept(_BALLOT, 8, _BATCH),
    Vote(_BALLOT, 8),
    Reject(_BALLOT),
    Progress(8, 7),
    CatchUp(4),
    Decisions(4, (_BATCH, ())),
    Snapshot(CHECKPOINT),
    RecoveryQuery(_BALLOT, 3),
    RecoveryResponse(_BALLOT, _BALLOT, False, 3, (_ACCEPTED,), _IDS),
)
PEER_MESSAGES: Final[tuple[wire.PeerMessage, ...]] = (
    *PROTOCOL_MESSAGES,
    wire.StateDigests(((3, 2**60), (4, -1))),
    wire.SnapshotPart(0, 1, (("a", (1,)),), ("b",)),
)
PEER_HELLOS: Final = (
    wire.PeerHello(1, "creek", 0, (0, 1), "kv"),
    wire.PeerHello(1, "c", 0, (0, 1), "kv", "h:1", 2, "h:2", "http://h", 1, (("get", 1, None),)),
)
CLIENT_MESSAGES: Final[tuple[wire.ClientMessage, ...]] = (
    wire.ClientHello(1, "me", "secret", "kv", 1),
    wire.CallRequest(7, "put", ("a", {"b": (1, 2.5, None, b"x")}), True, 3, (Dot(0, 1),), 50, True),
    wire.CancelResponses(7),
    wire.StatusRequest(8),
    wire.BackupRequest(9, True),
    wire.BackupPartRequest(9),
)
SERVER_MESSAGES: Final[tuple[wire.ServerMessage, ...]] = (
    wire.Welcome(1, "creek", 2, "kv", (("get", True), ("put", False)), "recovering"),
    wire.CallIssued(7, Dot(2, 10)),
    wire.CallResponse(7, "final", ("a", {"b": 1}), None, True),
    wire.Rejected(7, RejectReason.BUSY, "later", False),
    wire.StatusResponse(8, {"committed": 3, "refused": {RejectReason.BUSY: 1}}),
    wire.ConnectionRejected(RejectReason.TOKEN, "unknown token"),
    wire.BackupStarted(9, 3, 4),
    wire.BackupPart(9, b"CREEK", 2, False),
)
FEED_PEER_MESSAGES: Final[tuple[wire.PeerMessage, ...]] = (
    wire.FeedFramesRequest(1, 2, 9, 100),
    wire.FeedFrames(1, 5, 10**15, ((2, 5, b"\x90"),)),
)
FEED_CLIENT_MESSAGES: Final[tuple[wire.ClientMessage, ...]] = (
    wire.ChangesRequest(1, 5, "creek:1", ("a",), 100),
    wire.ChangesRequest(1, 5, "creek:1", None, 100, "account", "tentative", 7),
    wire.SnapshotRequest(1, 100, 8, "a"),
    wire.SnapshotRequest(1, 100, 8, None, "account"),
    wire.SnapshotRead(2, "id", "a", ("b", 1), "a"),
    wire.SnapshotRelease("id"),
)
_TABLE: Final = wire.TableDescription(
    "t",
    "t 2",
    (TableColumn("c", "INT", "INTEGER", True, 0, 7),),
    (KeyPart(None, "text", True),),
    True,
)
FEED_SERVER_MESSAGES: Final[tuple[wire.ServerMessage, ...]] = (
    wire.ChangesPart(1, "creek:1", 5, 7, 8, (b"\x90",)),
    wire.ChangesPart(1, "creek:1", 5, 7, 8, (), _TABLE),
    wire.ChangesPart(1, "c", 5, 5, 8, (), None, wire.TentativeImage(7, b"\x90", (Dot(0, 1),))),
    wire.ChangesRejected(1, RejectReason.CHANGES_EXPIRED, "gone", 3, 8),
    wire.SnapshotOpened(1, "id", "creek:1", 8, 100, ("a", ("b", 1)), _TABLE),
    wire.SnapshotPage(2, (("a", 1), (("b", 1), "x")), ("c",)),
)
_PIECE: Final = Piece(2, 5, 7, b"ab")
PIECE_PEER_MESSAGES: Final[tuple[wire.PeerMessage, ...]] = (
    wire.FeedFramesRequest(1, 2, 9, 100, 2),
    wire.FeedFrames(1, 5, 10**15, ((2, 5, b""),), _PIECE),
)
PIECE_CLIENT_MESSAGES: Final[tuple[wire.ClientMessage, ...]] = (
    wire.ChangesRequest(1, 5, "creek:1", None, 100, "", "", -1, 2),
)
PIECE_SERVER_MESSAGES: Final[tuple[wire.ServerMessage, ...]] = (
    wire.ChangesPart(1, "creek:1", 5, 7, 8, (), None, None, _PIECE),
)
CHANGES: Final = (
    Change(5, Dot(0, 1), 9, "put", ("a", {"b": 1}), True, False, 1, None, (("a", 1),), ("b",)),
    Change(6, Dot(1, 2), 9, "get", (), False, None, None, "e", (), (), ((("b", 1), 2.5),), "c", 3),
)
RECORDS: Final[tuple[Record, ...]] = (
    Received(_WEAK),
    Promised(_BALLOT),
    Received(_STRONG),
    Accepted(_ACCEPTED),
    Decided(7, _BATCH),
    CheckpointRecord(CHECKPOINT, _BALLOT, (_ACCEPTED,), ((7, _BATCH),), (_WEAK,)),
)
EMPTY_CHECKPOINT: Final = CheckpointRecord(
    Checkpoint(0, 0, Dots(), 0, (), ()), NO_BALLOT, (), (), ()
)

encode: Final = msgspec.msgpack.Encoder().encode


def backup_bytes() -> bytes:
    """Return a whole backup of `CHECKPOINT`."""
    header = BackupHeader(
        cluster="shop",
        replica=0,
        members=(0, 2),
        datatype="kv",
        imported="kv",
        scheme="creek",
        release="0",
        taken_us=1,
        length=CHECKPOINT.length,
        instance=CHECKPOINT.instance,
        ids=CHECKPOINT.ids,
        timestamp=CHECKPOINT.timestamp,
        first=1,
    )
    cursor = InMemoryRegisterCursor(CHECKPOINT)
    return b"".join(chunk.data for chunk in encode_backup(header, cursor, (_WEAK, _STRONG)))


def segment_paths(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.journal"))
