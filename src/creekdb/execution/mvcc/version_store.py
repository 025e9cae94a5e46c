"""Version store (Section 4.4): the writes of every executed request, side by side.

An operation runs on a `StoreSnapshot`: the state after all requests before it. The store keeps the
reads of the operation. An executed request is *valid*: each of its reads would return the same
value again.

A change is a new version, a rollback or a move. The store follows it to exactly those later
requests whose reads it may affect. A request that would read another value is *rolled back*, to be
executed again. A request that would read an equal value stays valid. If it picked some items of a
value, it stays valid if these are equal.

The versions of a rolled-back request are hidden from new snapshots. Their readers stay valid at
first, because the request may write the same again. Until it is re-executed, no response may be
sent that depends on these versions (`PendingRollbacks`). Afterwards their readers are validated.

A scan reads every key that it passes, present or not, and the range itself. A key that is new to
the store is a change for every later request that scanned past it (no phantoms).

The store works with positions, not with lists. Other modules decide on the commit order and on the
next request to execute.
"""

from typing import Final

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
from creekdb.execution.mvcc.register_table import RegisterTable
from creekdb.execution.mvcc.snapshot import StoreSnapshot
from creekdb.execution.mvcc.state_loader import StateDigest, StateLoader
from creekdb.execution.mvcc.version_chain import FROM_BASE, SuspectReads, VersionChain, is_same_read
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key


class PendingRollbacks:
    """Index of rolled-back requests that await re-execution, and of their dependents."""

    def __init__(self, table: RegisterTable) -> None:
        self._table = table
        self._positions: SortedList[Position] = SortedList()
        """Positions of the entries that have hidden versions."""
        self.first_position: Position | None = None
        """First of these positions, or None, as is common."""

    def add(self, position: Position) -> None:
        self._positions.add(position)
        self.first_position = self._positions[0]

    def remove(self, position: Position) -> None:
        self._positions.remove(position)
        self.first_position = self._positions[0] if self._positions else None

    def find_pending_writer(self, reads: dict[Key, Read]) -> RequestEntry | None:
        """Return a rolled-back request that the reads depend on, or None.

        A dependency is a read of a hidden version, directly or through other requests.
        """
        first = self.first_position
        if first is None:
            return None
        visited: set[RequestEntry] = set()
        unvisited = [reads]
        while unvisited:
            for key, (read, _) in unvisited.pop().items():
                for version in self._summands(key, read):
                    writer = version.writer
                    if writer is None or writer.position < first or writer in visited:
                        continue
                    if writer.hidden_versions.get(key) is version:
                        return writer
                    visited.add(writer)
                    unvisited.append(writer.reads)
        return None

    def _summands(self, key: Key, read: Version | None) -> list[Version]:
        """Return the versions that a value is computed from. A sum has several."""
        if read is None:
            return []
        if not read.is_delta or read.writer is None or read.writer.hidden_versions.get(key) is read:
            return [read]
        return self._table.chain(key).summands(read)


RECENT_READERS_MAX: Final = 32
"""Maximum number of executed requests, not yet stable, whose reads are searched one by one."""


class VersionStore:
    """Registers of a replica, with the versions and reads of all requests that are not stable."""

    def __init__(
        self,
        base: BaseState | None = None,
        digest: StateDigest | None = None,
        recent_max: int = RECENT_READERS_MAX,
        with_cursors: bool = False,
    ) -> None:
        """`digest` is updated with every stable write. `with_cursors` enables checkpoint cursors
        and keeps the keys in order from the start."""
        self.table = RegisterTable(base or EmptyBase(), digest, with_cursors)
        self._recent_max = recent_max
        self._read_index = ReadIndex(recent_max)
        self.merged_runs = MergedRuns(self.table, self._read_index)
        self.pending_rollbacks = PendingRollbacks(self.table)
        self._suspect_reads: SuspectReads = []
        self._rolled_back: list[RequestEntry] = []

    # --- reading ---------------------------------------------------------------------------------

    def snapshot(self, position: Position) -> StoreSnapshot:
        return StoreSnapshot(self.table, position)

    def is_valid_up_to(self, position: Position) -> bool:
        """True if every executed request up to `position` is currently valid."""
        first = self.pending_rollbacks.first_position
        return first is None or position < first

    # --- changing --------------------------------------------------------------------------------

    def install(
        self, entry: RequestEntry, snapshot: StoreSnapshot, execution: ExecutionResult
    ) -> bool:
        """Install the result of an execution. Return False if it is invalid at its position."""
        if not snapshot.is_valid_at(entry.position, entry.has_moved_ahead):
            return False
        if self.merged_runs.intact_runs:
            run = self.merged_runs.find_conflict(entry, execution)
            if run is not None:
                self.split(run)
                return False
        entry.phase = ExecutionPhase.EXECUTED
        entry.base_reads, entry.reads, entry.picks = (
            snapshot.base_reads,
            snapshot.reads,
            snapshot.picks,
        )
        versions = {key: Version(entry, value) for key, value in execution.writes.items()}
        for key, amount in execution.blind_adds.items():
            versions[key] = Version(entry, amount, is_delta=True)
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
        """Give the entry another position, without a change of its order among the others."""
        if entry.hidden_versions:
            self.pending_rollbacks.remove(entry.position)
            self.pending_rollbacks.add(position)
        entry.position = position

    def move(self, entry: RequestEntry, position: Position) -> None:
        """Move the entry to an earlier position, before others that it used to follow."""
        assert position < entry.position
        if entry.phase is not ExecutionPhase.EXECUTED:
            entry.has_moved_ahead = True
            self.renumber(entry, position)
            return
        table, read_index = self.table, self._read_index
        registers = table.registers
        indices = {
            key: chain.index_of(version)
            for key, version in entry.versions.items()
            if isinstance(chain := registers[key], VersionChain)
        }
        entry.position = position
        read_index.mark_unsorted(entry)
        table.record_change(entry.versions)
        recent = read_index.recent_readers_after(position, entry.versions)
        for key in table.written_keys(entry.base_reads):
            if key not in entry.reads and table.has_versions(key):
                self._suspect_reads.append((entry, key))
        for key, (version, _) in entry.reads.items():
            if version is not None or table.has_versions(key):
                self._suspect_reads.append((entry, key))
        for key in entry.versions:
            if key in indices:
                chain = table.chain(key)
                if not chain.reposition(indices[key], self._suspect_reads):
                    continue
                self._suspect_second_writer(chain, key)
            self._suspect_stable_readers(key, position, recent)
        if read_index.blind_adders:
            for key in entry.versions:  # after all chains are in order: rollbacks modify chains
                self._roll_back_blind_adders(key, position)
        self._revalidate_suspects()

    def stabilise(self, entry: RequestEntry) -> None:
        """Make the entry stable: it and all entries before it are committed and executed."""
        assert entry.phase is ExecutionPhase.EXECUTED
        entry.phase = ExecutionPhase.STABLE
        if isinstance(entry, MergedRun):
            self.merged_runs.intact_runs.remove(entry)
        table = self.table
        for key, version in entry.versions.items():
            table.stabilise(key, version)
            version.writer = None
            if version.readers is not None:
                self._read_index.transfer_readers(key, version)
            if version.value is ABSENT:
                table.drop_if_absent(key)
        self._read_index.remove(entry)

    def take_rolled_back(self) -> list[RequestEntry]:
        """Return the entries that were rolled back since the last call, for re-execution."""
        rolled_back, self._rolled_back = self._rolled_back, []
        return rolled_back

    # --- merged runs -----------------------------------------------------------------------------

    def split(self, run: MergedRun) -> None:
        """Roll back a merged run, so that its members are executed again one by one."""
        if run.phase is ExecutionPhase.EXECUTED:
            self._roll_back(run)
            self._revalidate_suspects()

    def finish_split(self, run: MergedRun) -> None:
        """Validate the readers of a split run, after all its members were executed again."""
        if run.hidden_versions:
            self._suspect_hidden_readers(run)
            self._revalidate_suspects()

    # --- whole state -----------------------------------------------------------------------------

    def load(self, loader: StateLoader) -> None:
        """Install the state of a checkpoint. All previous entries become invalid."""
        self.table.load(loader)
        self._read_index = ReadIndex(self._recent_max)
        self.merged_runs = MergedRuns(self.table, self._read_index)
        self.pending_rollbacks = PendingRollbacks(self.table)
        self._suspect_reads = []
        self._rolled_back = []

    # --- internals -------------------------------------------------------------------------------

    def _insert_versions(self, entry: RequestEntry, versions: dict[Key, Version]) -> None:
        table, read_index, position = self.table, self._read_index, entry.position
        registers, stable_readers = table.registers, read_index.stable_readers
        table.record_change(versions)
        recent = read_index.recent_readers_after(position, versions)
        for key, version in versions.items():
            content = registers.setdefault(key, version)
            if content is version:
                version.stable_value = FROM_BASE
                table.add_key(key)
                if read_index.scanned_ranges:
                    self._suspect_scans(key)
                    recent = read_index.recent_readers_after(position, versions)
            elif isinstance(content, Version) or isinstance(content, VersionChain):  # noqa: SIM101 - compiled
                chain = table.chain(key)
                if not chain.insert(version, self._suspect_reads):
                    continue
                self._suspect_second_writer(chain, key)
            else:
                version.stable_value = content
                registers[key] = version
            if recent or stable_readers.get(key, entry) is not entry:
                self._suspect_stable_readers(key, position, recent)
        if read_index.blind_adders:
            for key in versions:
                self._roll_back_blind_adders(key, position)

    def _roll_back_blind_adders(self, key: Key, position: Position) -> None:
        """Roll back later blind adders if the register may hold no integer, or one too large."""
        adders = self._read_index.blind_adders.get(key)
        if adders and not self.table.is_addable(key):
            for adder in [each for each in adders if each.position > position]:
                self._roll_back(adder)

    def _suspect_stable_readers(
        self, key: Key, position: Position, recent: list[RequestEntry]
    ) -> None:
        """Suspect the readers of the stable value, which a version at `position` now follows.

        `recent` holds the recent entries that may have read it.
        """
        if recent or self._read_index.stable_readers:
            for reader in self._read_index.stable_readers_after(key, position, recent):
                self._suspect_reads.append((reader, key))

    def _suspect_second_writer(self, chain: VersionChain, key: Key) -> None:
        """Suspect the writer of the version before which another one was inserted."""
        writer = chain.second_writer()
        if writer is not None and reads_version(writer, key, None):
            self._suspect_reads.append((writer, key))

    def _suspect_scans(self, key: Key) -> None:
        for reader in self._read_index.scanned_ranges.readers_at(collation_key(key)):
            if reader.find_read(key) is None:
                # The scan passed the missing key, which is a read of its absence.
                self._read_index.record_read(reader, key, None, self.table.stable_value(key))
            self._suspect_reads.append((reader, key))

    def _suspect_hidden_readers(self, entry: RequestEntry) -> None:
        """Drop the hidden versions of the entry, and suspect their readers."""
        self.pending_rollbacks.remove(entry.position)
        for key, version in entry.hidden_versions.items():
            for reader in readers_after(version.readers, key, version, ()):
                self._suspect_reads.append((reader, key))
        entry.hidden_versions = NO_VERSIONS

    def _revalidate_suspects(self) -> None:
        suspects = self._suspect_reads
        while suspects:
            entry, key = suspects.pop()
            read = entry.find_read(key) if entry.phase is ExecutionPhase.EXECUTED else None
            if read is None or _may_be_restored(read[0], key, entry):
                continue
            version, value = self.table.read_at(key, entry.position)
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
        """Roll back the entry and hide its versions, so that it is executed again."""
        if entry.phase is not ExecutionPhase.EXECUTED:
            return
        entry.phase = ExecutionPhase.WAITING
        if isinstance(entry, MergedRun):
            self.merged_runs.intact_runs.remove(entry)
        table = self.table
        table.record_change(entry.versions)
        hidden: dict[Key, Version] = {}
        for key, version in entry.versions.items():
            chain = table.chain(key)
            if chain.remove(version, self._suspect_reads):
                hidden[key] = version
            if chain.is_empty:
                table.remove_chain(key, chain)
        if hidden:
            entry.hidden_versions = hidden
            self.pending_rollbacks.add(entry.position)
        self._read_index.mark_unsorted(entry)
        self._read_index.remove(entry)
        self._rolled_back.append(entry)


def _may_be_restored(version: Version | None, key: Key, reader: RequestEntry) -> bool:
    """True if the version is hidden and its writer, before the reader, may write it again."""
    writer = version.writer if version is not None else None
    return (
        writer is not None
        and writer.hidden_versions.get(key) is version
        and writer.position < reader.position
    )


def _is_inside_run(version: Version | None, entry: RequestEntry) -> bool:
    """True if a late request wrote the version inside a run: some members do not read it."""
    return (
        isinstance(entry, MergedRun)
        and version is not None
        and version.writer is not None
        and version.writer.position > entry.start_position
    )
