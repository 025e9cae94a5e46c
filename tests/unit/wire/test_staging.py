"""Staged rows, and the ledgers of sinks that apply them exactly once."""

from itertools import pairwise
from typing import Any

import pytest

from creekdb.datatypes.kv import KV
from creekdb.errors import BadValue, MissingOperation
from creekdb.execution.datatype import DataType
from creekdb.execution.keys import CALLS_PREFIX, SINKS_PREFIX
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT, Transaction
from creekdb.execution.undo import StateObject
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.wire.sink_ledgers import APPLICATION_BYTES_MAX, ROWS_MAX, ApplicationResult
from creekdb.wire.staging import (
    APPLY,
    CLEAR_REJECTED,
    DISCARD,
    LOAD,
    READ_LEDGER,
    READ_REJECTED,
    STAGE,
    bounded_application,
    describe_bad_arguments,
    expire_staged,
)

Plan = tuple[tuple[str, int], ...]

TALLY = DataType("tally", steps=40)


@TALLY.operation
def count(tx: Transaction, key: str, amount: int = 1) -> None:
    if amount < 0:
        raise BadValue(f"cannot count {amount}")
    tx.add(key, amount)


@TALLY.operation
def forge(tx: Transaction, sink: str) -> None:
    tx.put((SINKS_PREFIX, "ledgers", sink), 1)


@TALLY.operation
def names(tx: Transaction) -> tuple[Any, ...]:
    return tuple(tx.scan())


class Cluster:
    """State of one replica, on which requests are executed one after another."""

    def __init__(self, datatype: DataType = TALLY) -> None:
        self.datatype = DeduplicatingDataType(datatype)
        self.state = StateObject(self.datatype)
        self._now = 0

    def execute(self, operation: Operation, timestamp: int | None = None) -> ExecutionResult:
        self._now += 1
        request = Request(timestamp or self._now, Dot(0, self._now), operation, True)
        execution = self.datatype.run(request, self.state)
        self.state.install(request, execution)
        return execution

    def call(self, name: str, *arguments: Any, timestamp: int | None = None) -> Any:
        outcome = self.execute(Operation(name, arguments), timestamp).outcome
        assert outcome.error is None, outcome.error
        return outcome.value

    def stage(self, token: str, *chunks: tuple[Any, ...], timestamp: int = 1) -> tuple[str, int]:
        for number, rows in enumerate(chunks):
            self.call(STAGE, token, number, "count", (), rows, (), timestamp=timestamp)
        return token, len(chunks)

    def apply(
        self,
        batch: int,
        *plan: tuple[str, int],
        rows_max: int = ROWS_MAX,
        atomic: bool = False,
        keep: bool = False,
        query: str = "",
        sink: str = "totals",
        bytes_max: int = 0,
    ) -> ApplicationResult:
        arguments = (sink, query, batch, plan, rows_max, atomic, keep)
        application = bounded_application(Operation(APPLY, arguments), bytes_max)
        return ApplicationResult(*self.call(APPLY, *application.arguments))

    def failure(self, batch: int, *plan: tuple[str, int], **options: Any) -> str:
        with pytest.raises(AssertionError) as raised:
            self.apply(batch, *plan, **options)
        return str(raised.value)

    def registers(self) -> dict[Key, Any]:
        return {key: value for key, value in self.state.items() if isinstance(key, str)}

    def staged(self) -> list[Key]:
        keys = (key for key, _ in self.state.items())
        return [key for key in keys if isinstance(key, tuple) and key[1] == "rows"]


ROWS = (("a",), ("b", 2), ("a", 3))


def test_staged_rows_have_no_effect_before_their_batch_is_applied() -> None:
    cluster = Cluster()
    token = cluster.stage("t", ROWS)
    assert cluster.call("names") == ()
    assert cluster.apply(0, token) == (True, True, 3, 0)
    assert cluster.call("names") == (("a", 4), ("b", 2))
    assert cluster.staged() == []


def test_a_repeated_batch_is_applied_once() -> None:
    cluster = Cluster()
    cluster.apply(5, cluster.stage("first", ROWS))
    again = cluster.stage("second", ROWS)
    assert cluster.apply(5, again) == (True, False, 3, 0)
    assert cluster.apply(4, again).is_own_plan is False
    assert cluster.registers() == {"a": 4, "b": 2}
    assert cluster.apply(6, again).is_own_plan
    assert cluster.registers() == {"a": 8, "b": 4}


def test_a_batch_with_many_rows_is_applied_in_parts_and_each_row_once() -> None:
    cluster = Cluster()
    plan = cluster.stage("t", ROWS, ROWS), cluster.stage("u", ROWS)
    sums = []
    while not (result := cluster.apply(0, *plan, rows_max=2)).is_complete:
        sums.append(result.applied)
    assert sums == [2, 4, 6, 8]
    assert result.applied == 9
    assert cluster.registers() == {"a": 12, "b": 6}
    assert cluster.staged() == []


def test_a_started_batch_is_completed_with_its_first_plan() -> None:
    cluster = Cluster()
    first, second = cluster.stage("first", ROWS), cluster.stage("second", (("z", 9),))
    assert cluster.apply(0, first, rows_max=1).is_complete is False
    result = cluster.apply(0, second)
    assert result == (True, False, 3, 0)
    assert cluster.registers() == {"a": 4, "b": 2}


def test_no_other_batch_is_applied_before_a_started_one_is_complete() -> None:
    cluster = Cluster()
    first = cluster.stage("first", ROWS)
    cluster.apply(0, first, rows_max=1)
    assert "repeat that batch" in cluster.failure(1, cluster.stage("second", ROWS))
    cluster.apply(0, first)
    assert cluster.apply(1, ("second", 1)).applied == 3


def test_an_application_executes_no_more_steps_than_one_operation_may() -> None:
    cluster = Cluster()
    rows = tuple((f"k{number}",) for number in range(200))
    token = cluster.stage("t", rows)
    applied = [0]
    while applied[-1] < 200:
        applied.append(cluster.apply(0, token).applied)
    assert max(later - earlier for earlier, later in pairwise(applied)) <= TALLY.steps
    assert len(cluster.registers()) == 200


@TALLY.operation
def fill(tx: Transaction, key: str, size: int) -> None:
    tx.put(key, "x" * size)


def fill_rows(cluster: Cluster, *chunks: tuple[tuple[str, int], ...]) -> tuple[str, int]:
    for number, rows in enumerate(chunks):
        cluster.call(STAGE, "t", number, "fill", (), rows, ())
    return "t", len(chunks)


def test_an_application_writes_a_bounded_number_of_bytes() -> None:
    """A row may write more than it has, so the writes are measured, not the rows."""
    cluster = Cluster()
    rows = [(f"k{number}", 1_000) for number in range(12)]
    token = fill_rows(cluster, (*rows[:6], ("large", 9_000)), tuple(rows[6:]))
    sizes: list[int] = []
    while sum(sizes) < 13:
        before = cluster.registers()
        result = cluster.apply(0, token, bytes_max=3_000)
        written = {key: each for key, each in cluster.registers().items() if key not in before}
        sizes.append(len(written))
        assert sum(map(len, list(written.values())[:-1])) <= 3_000, "beyond the last row"
    assert sizes == [3, 3, 1, 3, 3]
    assert result == (True, True, 13, 0)
    assert cluster.staged() == []


def test_an_application_keeps_rejected_rows_of_bounded_size() -> None:
    cluster = Cluster()
    rows = tuple((f"{number}" * 1_000, -1) for number in range(6))
    token = cluster.stage("t", rows)
    rejected = [cluster.apply(0, token, keep=True, bytes_max=2_500).rejected for _ in range(3)]
    assert rejected == [3, 6, 6]


def test_an_atomic_batch_that_writes_too_much_fails_without_effect() -> None:
    cluster = Cluster()
    token = fill_rows(cluster, (("a", 2_000), ("b", 2_000), ("c", 1)))
    error = cluster.failure(0, token, bytes_max=3_000, atomic=True)
    assert "TooManyRows" in error
    assert "or 3000 bytes; make batches smaller" in error
    assert cluster.registers() == {}
    assert cluster.apply(0, token, bytes_max=9_000, atomic=True).applied == 3


def test_an_application_of_an_earlier_release_has_no_bound_in_bytes() -> None:
    """Replicas of an earlier release execute it so, and all replicas must agree."""
    cluster = Cluster()
    token = fill_rows(cluster, (("a", APPLICATION_BYTES_MAX), ("b", 1)))
    assert cluster.apply(0, token).is_complete


def test_an_atomic_batch_that_needs_several_applications_fails_without_effect() -> None:
    cluster = Cluster()
    token = cluster.stage("t", ROWS)
    assert "make batches smaller" in cluster.failure(0, token, rows_max=2, atomic=True)
    assert cluster.registers() == {}
    assert cluster.call(READ_LEDGER, "totals") is None
    assert cluster.apply(0, token, rows_max=3, atomic=True).applied == 3


def test_a_rejected_row_fails_the_application_and_is_named() -> None:
    cluster = Cluster()
    plan = cluster.stage("t", (("a",),), (("b",), ("c", -1), ("d",)))
    error = cluster.failure(0, plan)
    assert error.startswith("BadValue: cannot count -1 (row 3 of the batch: ('c', -1))")
    assert cluster.registers() == {}
    assert cluster.call(READ_LEDGER, "totals") is None


def test_rejected_rows_are_kept_until_they_are_cleared() -> None:
    cluster = Cluster()
    bad = (("x", -1), "too small")
    cluster.call(STAGE, "t", 0, "count", (), (("a",), ("b", -2), ("c",), ("d", -3)), (bad,))
    assert cluster.apply(3, ("t", 1), keep=True) == (True, True, 2, 3)
    assert cluster.registers() == {"a": 1, "c": 1}
    kept = cluster.call(READ_REJECTED, "totals", 10)
    assert kept == (
        (3, 0, ("x", -1), "too small"),
        (3, 1, ("b", -2), "BadValue: cannot count -2"),
        (3, 2, ("d", -3), "BadValue: cannot count -3"),
    )
    assert cluster.call(READ_REJECTED, "totals", 1) == kept[:1]
    assert cluster.call(CLEAR_REJECTED, "totals", 3, 1) == 2
    assert cluster.call(READ_REJECTED, "totals", 10) == kept[2:]


def test_rejected_rows_are_kept_once_if_their_chunk_is_applied_in_parts() -> None:
    cluster = Cluster()
    bad = (("x", -1), "too small")
    cluster.call(STAGE, "t", 0, "count", (), (("a",), ("b", -2), ("c",)), (bad,))
    while not (result := cluster.apply(0, ("t", 1), rows_max=1, keep=True)).is_complete:
        pass
    assert result == (True, True, 2, 2)
    assert len(cluster.call(READ_REJECTED, "totals", 10)) == 2


def test_batches_of_another_query_are_rejected() -> None:
    cluster = Cluster()
    token = cluster.stage("t", ROWS)
    cluster.apply(7, token, query="first")
    assert "choose another name" in cluster.failure(0, token, query="second")
    assert cluster.apply(0, cluster.stage("t", ROWS), query="second", sink="other").applied == 3


def test_rows_cannot_write_reserved_registers() -> None:
    cluster = Cluster()
    cluster.call(STAGE, "t", 0, "forge", (), (("totals",),), ())
    assert "belongs to Creek" in cluster.failure(0, ("t", 1))
    outcome = cluster.execute(Operation(LOAD, ("forge", (), (("totals",),)))).outcome
    assert outcome.error is not None
    assert "belongs to Creek" in outcome.error
    assert cluster.call(READ_LEDGER, "totals") is None


def test_missing_rows_fail_the_application() -> None:
    cluster = Cluster()
    token = cluster.stage("t", ROWS)
    cluster.call(DISCARD, "t", 0, 1)
    assert "write the batch again" in cluster.failure(0, token)


def test_old_staged_rows_expire_unless_a_batch_needs_them() -> None:
    cluster = Cluster()
    old = cluster.stage("old", ROWS, timestamp=10)
    started = cluster.stage("started", ROWS, ROWS, timestamp=10)
    cluster.stage("new", ROWS, timestamp=90)
    cluster.apply(0, started, rows_max=1)
    cluster.apply(0, old, sink="~unnamed", rows_max=3)
    cluster.stage("old", ROWS, timestamp=10)
    value = cluster.execute(expire_staged(50)).outcome.value
    assert value == (2,)  # the chunk of 'old', and the ledger of the sink without a name
    assert {key[2] for key in cluster.staged() if isinstance(key, tuple)} == {"started", "new"}
    assert cluster.call(READ_LEDGER, "~unnamed") is None
    assert cluster.apply(0, started) == (True, True, 6, 0)


def test_tokens_in_use_are_not_discarded() -> None:
    cluster = Cluster()
    token = cluster.stage("t", ROWS)
    cluster.apply(0, token, rows_max=1)
    assert cluster.call(DISCARD, "t", 0, 1) == 0
    assert cluster.apply(0, token).is_complete


def test_expiry_continues_at_the_register_that_it_returns() -> None:
    cluster = Cluster()
    for number in range(300):
        cluster.stage(f"t{number:03}", ROWS, timestamp=10)
    count, *cursor = cluster.execute(expire_staged(50)).outcome.value
    assert count == 256
    assert cluster.execute(expire_staged(50, *cursor)).outcome.value == (44,)
    assert cluster.staged() == []


def test_a_load_takes_effect_as_a_whole() -> None:
    cluster = Cluster()
    assert cluster.call(LOAD, "count", (), ROWS) == 3
    failed = cluster.execute(Operation(LOAD, ("count", (), (("z",), ("y", -1)))))
    assert failed.outcome.error == "BadValue: cannot count -1"
    assert failed.writes == {}
    assert cluster.registers() == {"a": 4, "b": 2}


def test_leading_arguments_precede_those_of_each_row() -> None:
    cluster = Cluster(KV)
    cluster.call(LOAD, "put", ("lamp",), ((1,), (2,)))
    assert cluster.registers() == {"lamp": 2}


def test_a_footprint_holds_every_register_that_is_touched() -> None:
    cluster = Cluster()
    cluster.stage("t", ROWS)
    operations = [
        Operation(STAGE, ("t", 1, "count", (), ROWS, ())),
        Operation(DISCARD, ("t", 0, 1)),
        Operation(READ_LEDGER, ("totals",)),
        Operation(CLEAR_REJECTED, ("totals", 1, 1)),
        expire_staged(50),
    ]
    for operation in operations:
        footprint = cluster.datatype.footprint(operation)
        assert footprint is not None
        assert all(footprint.can_write(key) for key in cluster.execute(operation).writes)
    assert cluster.datatype.footprint(Operation(APPLY, ("totals", "", 0, (), 1, False, False))) is (
        None
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (STAGE, ("t", 0, "count", (), ROWS)),
        (STAGE, ("t", -1, "count", (), ROWS, ())),
        (STAGE, ("t", 0, "count", (), ("a",), ())),
        (STAGE, ("t", 0, "count", (), (), ("a",))),
        (APPLY, ("", "", 0, (), 1, False, False)),
        (APPLY, ("s", "", -1, (), 1, False, False)),
        (APPLY, ("s", "", 0, (), 0, False, False)),
        (APPLY, ("s", "", 0, (), ROWS_MAX + 1, False, False)),
        (APPLY, ("s", "", 0, (("t",),), 1, False, False)),
        (APPLY, ("s", "", True, (), 1, False, False)),
        (LOAD, ("count", (), ())),
        (LOAD, ("count", (), (1,))),
        (DISCARD, ("t", 0)),
    ],
)
def test_invalid_arguments_are_an_error_on_every_replica(
    name: str, arguments: tuple[Any, ...]
) -> None:
    operation = Operation(name, arguments)
    assert describe_bad_arguments(operation) is not None
    cluster = Cluster()
    execution = cluster.execute(operation)
    assert execution.outcome.error is not None
    assert execution.outcome.error.startswith(f"BadValue: {name}: ")
    assert execution.writes == {}


def test_deduplicated_calls_and_staged_rows_do_not_meet() -> None:
    cluster = Cluster()
    cluster.stage("t", ROWS)
    assert all(key[0] != CALLS_PREFIX for key, _ in cluster.state.items() if type(key) is tuple)
    assert cluster.state.read((SINKS_PREFIX, "rows", "t", 0)) is not ABSENT


@pytest.mark.parametrize("leading", [(), ("a",)])
def test_stored_rows_have_the_effect_of_single_puts(leading: tuple[Any, ...]) -> None:
    rows: tuple[Any, ...] = (("a", 1), ("b", {"n": (1, 2)}), ("a", None))
    if leading:
        rows = tuple((row[1],) for row in rows)
    loaded, single = Cluster(KV), Cluster(KV)
    loaded.call(LOAD, "put", leading, rows)
    for row in rows:
        single.call("put", *leading, *row)
    assert loaded.registers() == single.registers()


@pytest.mark.parametrize("row", [(1, 2), (None, 2)])
def test_stored_rows_have_the_errors_of_single_puts(row: tuple[Any, ...]) -> None:
    cluster = Cluster(KV)
    load = cluster.execute(Operation(LOAD, ("put", (), (("b", 1), row))))
    assert load.outcome.error == cluster.execute(Operation("put", row)).outcome.error is not None
    assert load.writes == {}


def test_a_replica_without_the_operation_of_a_row_stops() -> None:
    cluster = Cluster()
    with pytest.raises(MissingOperation, match=r"cannot execute sell\('a'\)"):
        cluster.execute(Operation(LOAD, ("sell", (), (("a",),))))
    cluster.call(STAGE, "t", 0, "count", (), (("a", 1, 2),), ())
    with pytest.raises(MissingOperation, match="cannot execute count"):
        cluster.apply(0, ("t", 1))
