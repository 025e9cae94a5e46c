"""Versions of each key in the order that reads prove, and the anomalies that need no cycle.

The longest list that was read is the order of the appends to a list. Every other read must be a
prefix of it. A certain append that no read contains follows all of them. For a register, the order
is partial. The initial value is first. A transaction that reads a version and then writes creates a
later version. A write that begins after another one has ended creates a later version, if the
system respects real time.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from creekdb.checkers.blackbox.anomalies.dependency_graph import DependencyGraph, EdgeKind
from creekdb.checkers.blackbox.anomalies.transactions import (
    Transaction,
    TransactionOutcome,
    UnusableTransactions,
    text_of,
)

ReportAnomaly = Callable[[str, str, Iterable[Transaction]], None]
"""Receives the name, the description and the transactions of an anomaly."""


class Read(NamedTuple):
    """Version of a key that a committed transaction read, without its own writes."""

    reader: Transaction
    version: Any


class Write(NamedTuple):
    writer: Transaction
    value: Any
    is_last: bool
    """True if the transaction writes the key no more."""


class KeyHistory:
    """Reads and writes of one key."""

    def __init__(self, key: Any) -> None:
        self.key = key
        self.name = text_of(key)
        self.is_list = False
        self.reads: list[Read] = []
        self.writes: dict[Any, Write] = {}

    def add_writes(self, writer: Transaction, values: list[Any]) -> None:
        for value in values:
            if value in self.writes:
                raise UnusableTransactions(
                    f"{text_of(value)} is written twice under {self.name}; "
                    "use a new value for each write"
                )
            self.writes[value] = Write(writer, value, value == values[-1])


def key_histories(
    transactions: Sequence[Transaction], report: ReportAnomaly
) -> dict[Any, KeyHistory]:
    """Return the history of each key. Reports reads that contradict their own transaction."""
    lists = _list_keys(transactions)
    histories: dict[Any, KeyHistory] = {}
    for transaction in transactions:
        written: defaultdict[Any, list[Any]] = defaultdict(list)
        versions: dict[Any, Any] = {}
        for function, key, value in transaction.operations:
            if key not in histories:
                histories[key] = KeyHistory(key)
                histories[key].is_list = key in lists
            if function != "r":
                written[key].append(value)
            elif transaction.is_committed and key in lists and not _is_list(value):
                detail = f"{transaction.name} read {text_of(value)} from the list {text_of(key)}"
                report("garbage read", detail, (transaction,))
            elif transaction.is_committed:
                own = tuple(written[key])
                version = _list_version if key in lists else _register_version
                if not version(versions, key, value, own):
                    text = f"{transaction.name} read {text_of(value)} from {text_of(key)}"
                    detail = f"{text}, which contradicts its own earlier operations"
                    report("internal", detail, (transaction,))
        for key, values in written.items():
            histories[key].add_writes(transaction, values)
        for key, version in versions.items():
            histories[key].reads.append(Read(transaction, version))
    return histories


def _list_keys(transactions: Sequence[Transaction]) -> set[Any]:
    operations = [each for transaction in transactions for each in transaction.operations]
    appended = {each.key for each in operations if each.function == "append"}
    mixed = appended & {each.key for each in operations if each.function == "w"}
    if mixed:
        raise UnusableTransactions(f"{text_of(mixed.pop())} is both a list and a register")
    return appended


def _is_list(value: Any) -> bool:
    return value is None or isinstance(value, tuple)


def _list_version(versions: dict[Any, Any], key: Any, value: Any, own: tuple[Any, ...]) -> bool:
    """Derive the version below the own appends. Return False if the read contradicts itself."""
    value = value or ()
    kept = len(value) - len(own)
    if key in versions:
        return bool(value == versions[key] + own)
    versions[key] = value[: max(kept, 0)]
    return bool(value[max(kept, 0) :] == own)


def _register_version(versions: dict[Any, Any], key: Any, value: Any, own: tuple[Any, ...]) -> bool:
    if own or key in versions:
        return bool(value == (own[-1] if own else versions[key]))
    versions[key] = value
    return True


class VersionOrder:
    """Adds the dependencies of one key to the graph, and reports the anomalies of its reads."""

    def __init__(
        self,
        history: KeyHistory,
        certain: set[int],
        graph: DependencyGraph,
        report: ReportAnomaly,
    ) -> None:
        """`certain` holds the transactions that took effect."""
        self._history = history
        self._certain = certain
        self._graph = graph
        self._report = report

    def infer(self) -> None:
        if self._history.is_list:
            self._infer_list()
        else:
            self._infer_register()

    def _check_observed(self, read: Read, value: Any) -> None:
        """Report a value without a writer, or of a transaction that did not take effect."""
        name = self._history.name
        write = self._history.writes.get(value)
        text = f"{read.reader.name} read {text_of(value)} from {name}"
        if write is None:
            self._report("garbage read", f"{text}, which no transaction wrote", (read.reader,))
        elif write.writer.outcome is TransactionOutcome.ABORTED:
            detail = f"{text}, which {write.writer.name} wrote before it was aborted"
            self._report("G1a", detail, (write.writer, read.reader))

    def _check_intermediate(self, read: Read, value: Any) -> None:
        write = self._history.writes.get(value)
        if write is not None and not write.is_last and write.writer is not read.reader:
            detail = (
                f"{read.reader.name} read {self._history.name} as of {text_of(value)}, "
                f"which {write.writer.name} wrote before its last write of that key"
            )
            self._report("G1b", detail, (write.writer, read.reader))

    def _add(self, source: Transaction, target: Transaction, kind: EdgeKind, reason: str) -> None:
        self._graph.add(source.number, target.number, kind, reason)

    def _report_lost_update(self, version: Any, updates: list[Write]) -> None:
        first, second = (each.writer for each in updates[:2])
        detail = (
            f"{first.name} and {second.name} both read {text_of(version)} from "
            f"{self._history.name} and then wrote it"
        )
        self._report("lost update", detail, (first, second))

    # --- lists ----------------------------------------------------------------------------------

    def _infer_list(self) -> None:
        history = self._history
        longest = max(history.reads, key=lambda each: len(each.version), default=None)
        if longest is None:
            return
        for value in longest.version:
            self._check_observed(longest, value)
        self._check_duplicates(longest)
        self._check_dirty_update(longest)
        reads = [each for each in history.reads if self._is_prefix(each, longest)]
        for read in reads:
            if read.version:
                self._check_intermediate(read, read.version[-1])
        self._add_list_edges(longest.version, reads)
        self._add_unread_appends(longest.version, reads)

    def _check_duplicates(self, read: Read) -> None:
        if len(set(read.version)) < len(read.version):
            twice = next(each for each in read.version if read.version.count(each) > 1)
            detail = f"{read.reader.name} read {text_of(twice)} twice from {self._history.name}"
            self._report("duplicate append", detail, (read.reader,))

    def _check_dirty_update(self, read: Read) -> None:
        """Report a committed append that follows one of an aborted transaction."""
        aborted: Transaction | None = None
        for value in read.version:
            write = self._history.writes.get(value)
            if write is None:
                continue
            if write.writer.outcome is TransactionOutcome.ABORTED:
                aborted = write.writer
            elif aborted is not None and write.writer.is_committed:
                detail = (
                    f"{write.writer.name} appended {text_of(value)} to {self._history.name} "
                    f"after {aborted.name}, which was aborted"
                )
                self._report("dirty update", detail, (aborted, write.writer, read.reader))
                return

    def _is_prefix(self, read: Read, longest: Read) -> bool:
        if read.version == longest.version[: len(read.version)]:
            return True
        detail = (
            f"{read.reader.name} read {text_of(read.version)} from {self._history.name}, and "
            f"{longest.reader.name} read {text_of(longest.version)}"
        )
        self._report("incompatible order", detail, (read.reader, longest.reader))
        return False

    def _add_list_edges(self, order: tuple[Any, ...], reads: list[Read]) -> None:
        name = self._history.name
        writers = [
            write.writer if (write := self._history.writes.get(each)) else None for each in order
        ]
        for index in range(1, len(order)):
            earlier, later = writers[index - 1], writers[index]
            if earlier is not None and later is not None:
                appended = f"{later.name} appended {text_of(order[index])} to {name}"
                reason = f"{appended} directly after {text_of(order[index - 1])} of {earlier.name}"
                self._add(earlier, later, EdgeKind.WW, reason)
        for reader, version in reads:
            seen = len(version)
            if seen and (writer := writers[seen - 1]) is not None:
                reason = f"{reader.name} read {text_of(version[-1])} of {writer.name} from {name}"
                self._add(writer, reader, EdgeKind.WR, reason)
            if seen < len(order) and (writer := writers[seen]) is not None:
                reason = f"{reader.name} read {name} before {writer.name} appended"
                self._add(reader, writer, EdgeKind.RW, f"{reason} {text_of(order[seen])}")

    def _add_unread_appends(self, order: tuple[Any, ...], reads: list[Read]) -> None:
        """Order the certain appends that no read contains after all reads."""
        name, read = self._history.name, {*order}
        unread = {
            write.writer.number: write
            for value, write in self._history.writes.items()
            if value not in read and write.writer.number in self._certain
        }
        if not unread:
            return
        last_readers = [each.reader.number for each in reads if len(each.version) == len(order)]
        updates = sorted(unread.keys() & {*last_readers})
        if len(updates) > 1:
            self._report_lost_update(order, [unread[each] for each in updates])
        reason = f"the read of {name} lacks a later append"
        others = [each for each in unread if each not in {*last_readers}]
        self._graph.add_all(last_readers, others, EdgeKind.RW, reason)
        for target in updates[:2]:
            sources = [each for each in last_readers if each != target]
            self._graph.add_all(sources, (target,), EdgeKind.RW, reason)
        if order and (last := self._history.writes.get(order[-1])) is not None:
            targets = [each for each in unread if each != last.writer.number]
            reason = f"an append to {name} followed {text_of(order[-1])} of {last.writer.name}"
            self._graph.add_all((last.writer.number,), targets, EdgeKind.WW, reason)
        self._check_lost_append(unread.values())

    def _check_lost_append(self, unread: Iterable[Write]) -> None:
        latest = max(self._history.reads, key=lambda each: each.reader.invoked_us).reader
        for write in unread:
            completed_us = write.writer.completed_us
            if completed_us is not None and completed_us < latest.invoked_us:
                detail = (
                    f"{write.writer.name} appended {text_of(write.value)} to "
                    f"{self._history.name}, and no read contains it, not even that of "
                    f"{latest.name}, which began later"
                )
                self._report("lost append", detail, (write.writer, latest))
                return

    # --- registers ------------------------------------------------------------------------------

    def _infer_register(self) -> None:
        readers: defaultdict[Any, list[Transaction]] = defaultdict(list)
        for read in self._history.reads:
            readers[read.version].append(read.reader)
            if read.version is None and None not in self._history.writes:
                continue  # the initial value
            self._check_observed(read, read.version)
            self._check_intermediate(read, read.version)
            if (write := self._history.writes.get(read.version)) is not None:
                reason = f"{read.reader.name} read {text_of(read.version)} of {write.writer.name}"
                reason = f"{reason} from {self._history.name}"
                self._add(write.writer, read.reader, EdgeKind.WR, reason)
        last_writes = {
            write.writer.number: write
            for write in self._history.writes.values()
            if write.is_last and write.writer.number in self._certain
        }
        for version, transactions in readers.items():
            updates = [
                last_writes[each.number] for each in transactions if each.number in last_writes
            ]
            self._add_updates(version, transactions, updates)
        self._add_initial_reads(readers[None], last_writes)
        self._add_real_time_order(readers, last_writes)

    def _add_updates(self, version: Any, readers: list[Transaction], updates: list[Write]) -> None:
        """Order the transactions that read the version and then wrote after all its readers."""
        name = self._history.name
        if len(updates) > 1:
            self._report_lost_update(version, updates)
        for update in updates[:2]:
            written = f"{update.writer.name} overwrote {text_of(version)} of {name}"
            for reader in readers:
                reason = f"{reader.name} read {name} before {written}"
                self._add(reader, update.writer, EdgeKind.RW, reason)
            if (write := self._history.writes.get(version)) is not None:
                reason = f"{written}, which {write.writer.name} wrote"
                self._add(write.writer, update.writer, EdgeKind.WW, reason)

    def _add_initial_reads(self, readers: list[Transaction], last_writes: dict[int, Write]) -> None:
        if None in self._history.writes:
            return
        numbers = {each.number for each in readers}
        targets = [each for each in last_writes if each not in numbers]
        reason = f"the read of {self._history.name} precedes every write of it"
        self._graph.add_all(sorted(numbers), targets, EdgeKind.RW, reason)

    def _add_real_time_order(
        self, readers: dict[Any, list[Transaction]], last_writes: dict[int, Write]
    ) -> None:
        """Order the readers of a version before the writes that began after it was written."""
        writes = sorted(last_writes.values(), key=lambda each: each.writer.invoked_us)
        invoked_us = [each.writer.invoked_us for each in writes]
        for write in writes:
            numbers = {each.number for each in readers.get(write.value, ())}
            if not numbers or write.writer.completed_us is None:
                continue
            index, end_us = bisect_right(invoked_us, write.writer.completed_us), float("inf")
            targets = []
            while index < len(writes) and invoked_us[index] <= end_us:
                later = writes[index].writer
                end_us = min(
                    end_us, float("inf") if later.completed_us is None else later.completed_us
                )
                if later.number not in numbers:
                    targets.append(later.number)
                index += 1
            read = f"read {text_of(write.value)} of {write.writer.name} from {self._history.name}"
            reason = f"the transaction {read}, which a later write had replaced"
            self._graph.add_all(sorted(numbers), targets, EdgeKind.RW_RT, reason)
