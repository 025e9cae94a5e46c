"""Stable responses by footprints: a request waits only for those that it may depend on."""

from typing import Any

from creekdb.datatypes.bank import BANK
from creekdb.datatypes.kv import KV
from creekdb.datatypes.transactions import TRANSACTIONS
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from tests.unit.schemes.single_replica import SingleReplica, dots


def replica(datatype: DataType = BANK, **settings: int) -> SingleReplica:
    return SingleReplica(datatype, **({"footprints": 1} | settings))


def commit(single: SingleReplica, *ids: Dot) -> None:
    for id in ids:
        single.decide(id)


def is_stable(single: SingleReplica, id: Dot) -> bool:
    return any(kind is ResponseKind.STABLE for kind, _ in single.responses_to(id))


def probe_count(single: SingleReplica) -> int:
    return single.replica.view.probes.counts.get(Probe.STABLE_BEFORE_PREDECESSOR, 0)


def strong(single: SingleReplica, name: str, *arguments: Any) -> Dot:
    return single.invoke(name, *arguments, strong=True, session=single.now)


def test_a_request_does_not_wait_for_a_disjoint_predecessor() -> None:
    single = replica()
    first, second = strong(single, "open", "ann", 1), strong(single, "open", "bob", 2)
    single.execute(second)
    commit(single, first, second)

    assert is_stable(single, second)
    assert not is_stable(single, first)
    assert probe_count(single) == 1
    single.execute_all()
    assert is_stable(single, first)


def test_without_footprints_a_request_waits_for_every_predecessor() -> None:
    single = replica(footprints=0)
    first, second = strong(single, "open", "ann", 1), strong(single, "open", "bob", 2)
    single.execute(second)
    commit(single, first, second)

    assert not is_stable(single, second)


def test_a_request_waits_for_an_overlapping_predecessor() -> None:
    single = replica()
    first, second = strong(single, "open", "ann", 1), strong(single, "total")
    single.execute(second)
    commit(single, first, second)
    assert not is_stable(single, second)

    single.execute_all()
    assert single.responses_to(second)[-1] == (ResponseKind.STABLE, 1)
    assert probe_count(single) == 0


def test_a_request_waits_for_a_predecessor_that_overlaps_through_another() -> None:
    single = replica()
    opened = [strong(single, "open", name, 10) for name in ("ann", "bob", "cat")]
    commit(single, *opened)
    single.execute_all()
    single.receive_request(single.now + 5, "deposit", "ann", 90)
    late = Dot(1, 1)
    transfer = strong(single, "transfer", "ann", "bob", 50)
    check = strong(single, "deposit", "bob", 1)
    other = strong(single, "deposit", "cat", 1)
    for id in (transfer, check, other):
        single.execute(id)
    single.stabilise(late)
    commit(single, transfer, check, other)

    assert is_stable(single, other)
    assert not is_stable(single, transfer)
    assert not is_stable(single, check), "the transfer will succeed after the deposit"
    single.execute_all()
    assert single.responses_to(check)[-1] == (ResponseKind.STABLE, 61)


def test_no_request_waits_for_an_unexecuted_read() -> None:
    single = replica()
    read, write = strong(single, "total"), strong(single, "open", "ann", 1)
    single.execute(write)
    commit(single, read, write)

    assert is_stable(single, write)
    assert not is_stable(single, read)
    single.execute_all()
    assert single.responses_to(read)[-1] == (ResponseKind.STABLE, 0)


def test_an_operation_without_a_footprint_waits_for_all_and_all_wait_for_it() -> None:
    shop = DataType("shop")

    @shop.operation
    def clear(tx: Transaction) -> None:
        tx.put("cleared", True)

    @shop.operation(touches=lambda seat: [("seat", seat)])
    def reserve(tx: Transaction, seat: int) -> None:
        tx.put(("seat", seat), True)

    single = replica(shop)
    ids = [
        strong(single, "reserve", 1),
        strong(single, "clear"),
        strong(single, "reserve", 2),
    ]
    single.execute(ids[1])
    single.execute(ids[2])
    commit(single, *ids)
    assert not any(is_stable(single, each) for each in ids)

    single.execute_all()
    assert all(is_stable(single, each) for each in ids)


def test_no_request_waits_for_a_noop() -> None:
    single = replica()
    noop = single.receive_request(single.now + 1, "noop", context=dots())
    total = strong(single, "total")
    single.execute(total)
    commit(single, noop, total)

    assert is_stable(single, total)


def test_a_long_chain_of_overlaps_ends_with_one_execution() -> None:
    single = replica(KV, parallelism=2_000)
    ids = [strong(single, "increment", "a") for _ in range(1_500)]
    for id in ids[1:]:
        single.execute(id)
    commit(single, *ids)
    single.execute_all()

    assert [single.responses_to(each)[-1] for each in ids] == [
        (ResponseKind.STABLE, number) for number in range(1, 1_501)
    ]


def test_a_snapshot_drops_all_open_requests() -> None:
    single = replica()
    first, second = strong(single, "open", "ann", 1), strong(single, "open", "ann", 2)
    commit(single, first, second)
    execution = single.replica._execution
    finality = execution._finality
    assert finality is not None
    assert len(finality._open) == 2

    execution.load(execution.new_state_loader())
    assert not finality._open
    assert not finality._writers.has_before((10,))


def test_a_reader_of_a_split_run_waits_for_its_last_member() -> None:
    """The reader is validated only then, although it overlaps with one member alone."""
    single = replica(TRANSACTIONS, kept_apart=8)
    members = [
        single.invoke("run", ("w", key, 1), session=session) for session, key in enumerate("abcd")
    ]
    reader = strong(single, "run", ("r", "b", None), ("r", "x", None))
    while not any(single.entry(each).merged_run for each in members):
        single.execute_all()
        single.invoke("run", ("w", "filler", 0))
    run = single.entry(members[0]).merged_run
    assert run is not None
    late = single.receive_request(1_015, "run", ("w", "c", 5))
    pending = single.receive_request(1_045, "run", ("r", "x", None), origin=2)
    single.stabilise(late, pending, *members)
    commit(single, reader)
    for id in (late, members[1], pending):
        assert not is_stable(single, reader)
        single.execute(id)
    assert run.pending_entries
    assert not is_stable(single, reader)

    single.execute_all()
    assert single.responses_to(reader)[-1] == (
        ResponseKind.STABLE,
        (("r", "b", 1), ("r", "x", None)),
    )


def test_a_final_request_of_a_split_run_is_open_again() -> None:
    """Its versions are missing until it is executed again."""
    single = replica(KV, kept_apart=8)
    members = [single.invoke("put", key, 1) for key in "abcd"]
    while not any(single.entry(each).merged_run for each in members):
        single.execute_all()
        single.invoke("put", "filler", 0)
    late = single.receive_request(1_015, "put", "c", 5)
    single.stabilise(late, *members)
    finality = single.replica._execution._finality
    assert finality is not None
    first = single.entry(members[0])
    assert first not in finality._open, "it precedes the late request"

    single.execute(late)
    assert first in finality._open
    single.execute_all()
    assert not finality._open
