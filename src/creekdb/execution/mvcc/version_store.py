"""What was withdrawn and may come back otherwise, and who rests on it.

The versions of a withdrawn request are hidden from new snapshots, but who has read them is not in
doubt yet: executed again, the request may write the same. Until then what rests on them is not
*sure*, and must not be answered.

The version store (Section 4.4): every executed request's writes, side by side.

An operation runs on a `StoreSnapshot`: the state as all requests before it left it. What it read is
kept. A request that counts as executed is *valid*: each of its reads would give the same value
again. A change, be it a new version, a rollback or a move, is followed to exactly those later
requests whose reads it may have changed; one that would read something else is *withdrawn*, to be
executed again. One that would read an equal value is kept; and one that picked some items of a
value, if these are equal.

The versions of a withdrawn request are hidden from new snapshots; who has read them is in doubt
when it is executed again (`unsure`).

A scan reads every key it passes, present or not, and the range itself: a key that is new to the
store is a change for every later request that scanned past it (no phantoms).

The store knows positions, not lists: what is committed and what runs next is decided elsewhere.
"""

from collections.abc import Iterator
from typing import Any, Final

from sortedcontainers import SortedList

from creekdb.execution.base_state import BaseState, EmptyBase
from creekdb.execution.keys import collation_key
from creekdb.execution.mvcc.entry import (
    NO_VERSIONS,
    ExecutionPhase,
    MergedRun,
    Position,
    Read,
    RequestEntry,
    Version,
    readers_after,
    reads_version,
)
from creekdb.execution.mvcc.merged_runs import MergedRuns
from creekdb.execution.mvcc.read_index import ReadIndex
from creekdb.execution.mvcc.register_table import CheckpointCursor, RegisterTable
from creekdb.execution.mvcc.snapshot import StoreSnapshot
from creekdb.execution.mvcc.state_loader import StateDigest, StateLoader
from creekdb.execution.mvcc.version_chain import FROM_BASE, SuspectReads, VersionChain, is_same_read
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key


class PendingRollbacks:
    __slots__ = ("_first_position", "_positions", "_table")

    def __init__(self, contents: RegisterTable) -> None:
        self._table = contents
        self._positions: SortedList[Position] = SortedList()
        """Where the entries stand that have hidden versions."""
        self._first_position: Position | None = None
        """Of these; mostly there are none."""

    def add(self, position: Position) -> None:
        self._positions.add(position)
        self._first_position = self._positions[0]

    def remove(self, position: Position) -> None:
        self._positions.remove(position)
        self._first_position = self._positions[0] if self._positions else None

    def clear(self) -> None:
        self._positions.clear()
        self._first_position = None

    def is_clear_up_to(self, position: Position) -> bool:
        """Is everything that counts as executed up to here valid for now?"""
        return self._first_position is None or position < self._first_position

    def find_pending_writer(self, reads: dict[Key, Read]) -> RequestEntry | None:
        """Whose hidden version was read, or is behind what others wrote that was read; None when
        all of it is sure."""
        first = self._first_position
        if first is None:
            return None
        seen: set[RequestEntry] = set()
        reading = [reads]
        while reading:
            for key, (read, _) in reading.pop().items():
                for version in self._summands(key, read):
                    writer = version.writer
                    if writer is None or writer.position < first or writer in seen:
                        continue
                    if writer.hidden_versions.get(key) is version:
                        return writer
                    seen.add(writer)
                    reading.append(writer.reads)
        return None

    def _summands(self, key: Key, read: Version | None) -> list[Version]:
        """The versions that a value comes from: of a sum, more than one."""
        if read is None:
            return []
        if not read.is_delta or read.writer is None or read.writer.hidden_versions.get(key) is read:
            return [read]
        return self._table.chain(key).summands(read)


RECENT_READERS_MAX: Final = 32
"""Executed and not settled: if there are no more, they are asked one by one what they read."""


class VersionStore:
    def __init__(
        self,
        base: BaseState | None = None,
        digest: StateDigest | None = None,
        fresh_max: int = RECENT_READERS_MAX,
        images: bool = False,
    ) -> None:
        """`digest` is kept up with what is settled. `images`: can they be taken, and
        are keys in order before somebody asks?"""
        self._table = RegisterTable(base or EmptyBase(), digest, images)
        self._read_index = ReadIndex(fresh_max)
        self._merged_runs = MergedRuns(self._table, self._read_index)
        self._pending_rollbacks = PendingRollbacks(self._table)
        self._suspect_reads: SuspectReads = []
        self._rolled_back: list[RequestEntry] = []

    # --- reading ---------------------------------------------------------------------------------

    def snapshot(self, position: Position) -> StoreSnapshot:
        return StoreSnapshot(self._table, position)

    def is_valid_up_to(self, position: Position) -> bool:
        """Is everything that counts as executed up to here valid for now?"""
        return self._pending_rollbacks.is_clear_up_to(position)

    def find_pending_writer(self, reads: dict[Key, Read]) -> RequestEntry | None:
        """Whose hidden version was read, or is behind what others wrote that was read; None when
        all of it is sure."""
        return self._pending_rollbacks.find_pending_writer(reads)

    # --- changing --------------------------------------------------------------------------------

    def install(
        self, entry: RequestEntry, snapshot: StoreSnapshot, execution: ExecutionResult
    ) -> bool:
        """Take over what an execution gave, if it is still valid where `entry` stands now."""
        if not snapshot.is_valid_at(entry.position, entry.has_moved_ahead):
            return False
        if self._merged_runs.intact_runs:
            stretch = self._merged_runs.find_conflict(entry, execution)
            if stretch is not None:
                self.split(stretch)
                return False
        entry.phase = ExecutionPhase.EXECUTED
        entry.base_reads, entry.reads, entry.picks = (
            snapshot.base_reads,
            snapshot.reads,
            snapshot.picks,
        )
        versions = {key: Version(entry, value) for key, value in execution.writes.items()}
        for key, amount in execution.blind_adds.items():
            versions[key] = Version(entry, amount, delta=True)
        if versions:
            entry.versions = versions
        self._read_index.add(entry, snapshot)
        if versions:
            self._insert_versions(entry, versions)
        if entry.hidden_versions:
            self._suspect_hidden_readers(entry)
        if self._suspect_reads:
            self._revalidate_suspects()
        return True

    def renumber(self, entry: RequestEntry, position: Position) -> None:
        """The entry has another position now, but stands where it stood among the others."""
        if entry.hidden_versions:
            self._pending_rollbacks.remove(entry.position)
            self._pending_rollbacks.add(position)
        entry.position = position

    def move(self, entry: RequestEntry, position: Position) -> None:
        """The entry now stands at an earlier position, before others that it used to follow."""
        assert position < entry.position
        if entry.phase is not ExecutionPhase.EXECUTED:
            entry.has_moved_ahead = True
            self.renumber(entry, position)
            return
        contents, readership = self._table, self._read_index
        held = contents.registers
        places = {
            key: chain.index_of(version)
            for key, version in entry.versions.items()
            if isinstance(chain := held[key], VersionChain)
        }
        entry.position = position
        readership.mark_unsorted(entry)
        contents.record_change(entry.versions)
        fresh = readership.recent_readers_after(position, entry.versions)
        for key in contents.written_keys(entry.base_reads):
            if key not in entry.reads and contents.has_versions(key):
                self._suspect_reads.append((entry, key))
        for key, (version, _) in entry.reads.items():
            if version is not None or contents.has_versions(key):
                self._suspect_reads.append((entry, key))
        for key in entry.versions:
            if key in places:
                chain = contents.chain(key)
                if not chain.reposition(places[key], self._suspect_reads):
                    continue
                self._suspect_second_writer(chain, key)
            self._suspect_stable_readers(key, position, fresh)
        if readership.blind_adders:
            for key in entry.versions:  # all in order again: who is withdrawn, leaves its chains
                self._roll_back_blind_adders(key, position)
        self._revalidate_suspects()

    def stabilise(self, entry: RequestEntry) -> None:
        """The entry and all before it are committed and executed: nothing there can change."""
        assert entry.phase is ExecutionPhase.EXECUTED
        entry.phase = ExecutionPhase.STABLE
        if isinstance(entry, MergedRun):
            self._merged_runs.intact_runs.remove(entry)
        contents = self._table
        for key, version in entry.versions.items():
            contents.stabilise(key, version)
            version.writer = None
            if version.readers is not None:
                self._read_index.transfer_readers(key, version)
            if version.value is ABSENT:
                contents.drop_if_absent(key)
        self._read_index.remove(entry)

    def take_rolled_back(self) -> list[RequestEntry]:
        """The entries that lost their validity since the last time, to be executed again."""
        withdrawn, self._rolled_back = self._rolled_back, []
        return withdrawn

    # --- stretches -------------------------------------------------------------------------------

    def merge(self, members: list[RequestEntry]) -> MergedRun:
        """Let one entry stand for these. All are executed and sure, and no other is among them."""
        return self._merged_runs.merge(members)

    def split(self, stretch: MergedRun) -> None:
        """Its members have to be executed again, each for itself."""
        if stretch.phase is ExecutionPhase.EXECUTED:
            self._roll_back(stretch)
            self._revalidate_suspects()

    def finish_split(self, stretch: MergedRun) -> None:
        """The members of a stretch that was taken apart have been executed again."""
        if stretch.hidden_versions:
            self._suspect_hidden_readers(stretch)
            self._revalidate_suspects()

    # --- as a whole ------------------------------------------------------------------------------

    def stable_items(self) -> Iterator[tuple[Key, Any]]:
        """The registers as the settled requests left them, in the order of their keys; with
        `ABSENT` for what was deleted."""
        return self._table.stable_items()

    def open_cursor(self) -> CheckpointCursor:
        """The registers as the settled requests left them, now: to be gone through in time."""
        return self._table.open_cursor()

    def values(self) -> dict[Key, Any]:
        """The registers as all executed requests left them, with `ABSENT` for what was deleted, and
        perhaps some that are as the base has them."""
        return self._table.values()

    def register_count(self) -> int:
        return len(self._table.registers)

    def load(self, arrived: StateLoader) -> None:
        """Start anew from a checkpoint's state: every entry of before is void."""
        self._table.load(arrived)
        self._read_index.clear()
        self._merged_runs.intact_runs = []
        self._pending_rollbacks.clear()
        self._suspect_reads = []
        self._rolled_back = []

    # --- inside -----------------------------------------------------------------------------------

    def _insert_versions(self, entry: RequestEntry, versions: dict[Key, Version]) -> None:
        contents, readership, position = self._table, self._read_index, entry.position
        held, of_ground = contents.registers, readership.stable_readers
        contents.record_change(versions)
        fresh = readership.recent_readers_after(position, versions)
        for key, version in versions.items():
            found = held.setdefault(key, version)
            if found is version:
                version.stable_value = FROM_BASE
                contents.add_key(key)
                if readership.scanned_ranges:
                    self._suspect_scans(key)
                    fresh = readership.recent_readers_after(position, versions)
            elif isinstance(found, Version) or isinstance(found, VersionChain):  # noqa: SIM101 - compiled
                chain = contents.chain(key)
                if not chain.insert(version, self._suspect_reads):
                    continue
                self._suspect_second_writer(chain, key)
            else:
                version.stable_value = found
                held[key] = version
            if fresh or of_ground.get(key, entry) is not entry:
                self._suspect_stable_readers(key, position, fresh)
        if readership.blind_adders:
            for key in versions:
                self._roll_back_blind_adders(key, position)

    def _roll_back_blind_adders(self, key: Key, position: Position) -> None:
        """Who added blindly to what may be no integer, or too large a one, has to look."""
        adders = self._read_index.blind_adders.get(key)
        if adders and not self._table.is_addable(key):
            for adder in [each for each in adders if each.position > position]:
                self._roll_back(adder)

    def _suspect_stable_readers(
        self, key: Key, position: Position, fresh: list[RequestEntry]
    ) -> None:
        """Something stands right on the ground now, at `position`. `fresh`: which of the fresh ones
        may have read it."""
        if fresh or self._read_index.stable_readers:
            for reader in self._read_index.stable_readers_after(key, position, fresh):
                self._suspect_reads.append((reader, key))

    def _suspect_second_writer(self, chain: VersionChain, key: Key) -> None:
        """Another version stands right on the ground now, before the one that did."""
        writer = chain.second_writer()
        if writer is not None and reads_version(writer, key, None):
            self._suspect_reads.append((writer, key))

    def _suspect_scans(self, key: Key) -> None:
        for reader in self._read_index.scanned_ranges.readers_at(collation_key(key)):
            if reader.find_read(key) is None:
                # It passed where the key was not: that is a read of its absence.
                self._read_index.record_read(reader, key, None, self._table.stable_value(key))
            self._suspect_reads.append((reader, key))

    def _suspect_hidden_readers(self, entry: RequestEntry) -> None:
        """What it wrote before it was withdrawn is gone for good."""
        self._pending_rollbacks.remove(entry.position)
        for key, version in entry.hidden_versions.items():
            for reader in readers_after(version.readers, key, version, ()):
                self._suspect_reads.append((reader, key))
        entry.hidden_versions = NO_VERSIONS

    def _revalidate_suspects(self) -> None:
        doubts = self._suspect_reads
        while doubts:
            entry, key = doubts.pop()
            read = entry.find_read(key) if entry.phase is ExecutionPhase.EXECUTED else None
            if read is None or _may_be_restored(read[0], key, entry):
                continue
            version, value = self._table.read_at(key, entry.position)
            if version is read[0] and value is read[1]:
                continue
            if is_same_read(value, read[1], entry.picks.get(key)) and not _is_inside_run(
                version, entry
            ):
                self._read_index.mark_readers_unsorted(key, read[0])
                self._read_index.record_read(entry, key, version, value)
            else:
                self._roll_back(entry)

    def _roll_back(self, entry: RequestEntry) -> None:
        """Hide what the entry wrote: it has to be executed again."""
        if entry.phase is not ExecutionPhase.EXECUTED:
            return
        entry.phase = ExecutionPhase.WAITING
        if isinstance(entry, MergedRun):
            self._merged_runs.intact_runs.remove(entry)
        contents = self._table
        contents.record_change(entry.versions)
        hidden: dict[Key, Version] = {}
        for key, version in entry.versions.items():
            chain = contents.chain(key)
            if chain.remove(version, self._suspect_reads):
                hidden[key] = version
            if chain.is_empty:
                contents.remove_chain(key, chain)
        if hidden:
            entry.hidden_versions = hidden
            self._pending_rollbacks.add(entry.position)
        self._read_index.mark_unsorted(entry)
        self._read_index.remove(entry)
        self._rolled_back.append(entry)


def _may_be_restored(version: Version | None, key: Key, reader: RequestEntry) -> bool:
    """Is the version hidden, by a writer before the reader that may yet write it again?"""
    writer = version.writer if version is not None else None
    return (
        writer is not None
        and writer.hidden_versions.get(key) is version
        and writer.position < reader.position
    )


def _is_inside_run(version: Version | None, entry: RequestEntry) -> bool:
    """Is it a late one's, in the midst of a stretch? Some of its members do not read it."""
    return (
        isinstance(entry, MergedRun)
        and version is not None
        and version.writer is not None
        and version.writer.position > entry.start_position
    )
