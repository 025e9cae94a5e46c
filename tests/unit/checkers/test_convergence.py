import pytest
from msgspec.structs import replace

from creekdb.checkers.convergence import check
from creekdb.history import BallotPromised, Dot, FinalState, History, Outcome, ResponseKind
from tests.unit.checkers.history_builder import (
    BALLOT,
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    typical_run,
    with_final_state,
    with_memory_durability,
    with_operation,
)


def test_a_quiescent_run_is_legal() -> None:
    assert_ok(check, typical_run().history())


def test_a_run_that_is_not_quiescent_is_illegal() -> None:
    assert_illegal(
        check, typical_run().history(quiescent=False), "liveness: the run did not become quiescent"
    )


def test_a_run_that_ends_without_replicas_is_illegal() -> None:
    history = replace(typical_run().history(), final_states=())
    assert_illegal(check, history, "liveness: the run did not become quiescent")


def test_a_request_that_remains_tentative_is_illegal() -> None:
    builder = HistoryBuilder()
    builder.rb_deliver(builder.invoke_weak(0, "append", 1))
    assert_illegal(check, builder.history(), "liveness: 1 requests never stabilised")


def test_a_replica_with_fewer_committed_requests_is_illegal() -> None:
    def behind(final: FinalState) -> FinalState:
        return replace(final, committed=final.committed[:-1])

    history = with_final_state(typical_run().history(), 1, behind)
    verdict = assert_illegal(check, history, "committed, but not at every replica")
    assert len(verdict.counterexample) == 3


def test_different_final_orders_are_illegal() -> None:
    def reverse(final: FinalState) -> FinalState:
        return replace(final, committed=final.committed[::-1])

    assert_illegal(
        check, with_final_state(typical_run().history(), 1, reverse), "the committed orders differ"
    )


def test_different_states_are_illegal() -> None:
    def change_state(final: FinalState) -> FinalState:
        (key, _), *rest = final.state
        return replace(final, state=((key, "z"), *rest))

    verdict = assert_illegal(
        check, with_final_state(typical_run().history(), 1, change_state), "the states differ"
    )
    assert "'z'" in verdict.describe()


def test_the_state_of_the_last_replica_counts() -> None:
    history = with_final_state(typical_run().history(), 2, lambda each: replace(each, state=()))
    verdict = assert_illegal(check, history, "the states differ")
    assert "no value" in verdict.describe()


def test_states_are_equal_in_any_order_of_keys() -> None:
    history = with_final_state(
        typical_run().history(), 1, lambda each: replace(each, state=each.state[::-1])
    )
    assert_ok(check, history)


def test_a_lost_operation_with_a_response_is_illegal() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", "gone")
    builder.respond(weak)
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    assert_illegal(check, builder.history(), f"{weak} got a response and was then lost")


def test_a_lost_operation_with_a_response_and_a_reused_identifier_is_illegal() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", "gone")
    builder.respond(weak)
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    builder.invoke_weak(0, "append", "other")
    builder.quiesce()
    assert_illegal(check, builder.history(), f"{weak} got a response and was then lost")


def test_an_operation_without_a_response_may_be_lost_in_a_crash() -> None:
    builder = HistoryBuilder()
    builder.invoke_weak(0, "append", "gone")
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    assert_ok(check, builder.history())


def test_an_operation_with_a_tentative_response_may_be_lost_with_its_replica() -> None:
    builder = HistoryBuilder()
    builder.respond(builder.invoke_weak(2, "append", "gone"))
    builder.crash(2)
    assert_ok(check, builder.history())


def test_an_operation_with_a_stable_response_must_survive_its_replica() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(2, "append", "gone")
    builder.respond(strong, ResponseKind.STABLE, Outcome(1))
    builder.crash(2)
    assert_illegal(check, builder.history(), f"{strong} got a response and was then lost")


def test_a_local_read_is_not_committed() -> None:
    """Section 4.4, read-only operations."""
    builder = HistoryBuilder()
    read = builder.invoke_weak(0, "get_all")
    builder.respond(read)
    builder.quiesce()
    local = with_operation(builder.history(), read, lambda each: replace(each, id=Dot(0, -1)))
    assert_ok(check, local)


def test_an_operation_with_a_response_must_survive_the_removal_of_its_replica() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(2, "append", "gone")
    builder.respond(weak)
    builder.crash(2)
    history = builder.history()
    logs = tuple(replace(log, is_removed=log.replica == 2) for log in history.logs)
    assert_illegal(check, replace(history, logs=logs), f"{weak} got a response and was then lost")


def test_a_lost_request_that_was_delivered_is_illegal() -> None:
    def empty(final: FinalState) -> FinalState:
        return replace(final, tentative=(), state=())

    builder = HistoryBuilder()
    builder.rb_deliver(builder.cast_noop(0))
    history = builder.history()
    for replica in range(3):
        history = with_final_state(history, replica, empty)
    assert_illegal(check, history, f"{Dot(0, 1)} was delivered and then lost")


# --- durability "memory" ------------------------------------------------------------------------


def test_a_volatile_request_with_a_tentative_response_may_be_lost_from_memory() -> None:
    builder = HistoryBuilder()
    builder.respond(builder.invoke_weak(0, "append", "gone"))
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    assert_ok(check, with_memory_durability(builder.history()))


def test_the_identifier_of_a_request_lost_from_memory_may_be_reused() -> None:
    builder = HistoryBuilder()
    builder.respond(builder.invoke_weak(0, "append", "gone"))
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    builder.invoke_weak(0, "append", "other")
    builder.quiesce()
    assert_ok(check, with_memory_durability(builder.history()))


@pytest.mark.parametrize("kind", [ResponseKind.STABLE, ResponseKind.FINAL])
def test_a_request_with_a_stable_or_final_response_is_never_lost(kind: ResponseKind) -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", "gone")
    builder.respond(strong)
    builder.respond(strong, kind, Outcome(1))
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    history = with_memory_durability(builder.history())
    assert_illegal(check, history, f"{strong} got a response and was then lost")


def test_a_durable_request_is_not_lost_from_memory() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", "gone")
    builder.respond(weak)
    builder.log(0, BallotPromised(BALLOT, 0, 0, ()))  # visible, so the cast before it is durable
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    history = with_memory_durability(builder.history())
    assert_illegal(check, history, f"{weak} got a response and was then lost")


# --- requests that responses count --------------------------------------------------------------


def _local_read_of_lost_request(
    durable: bool = False, noop: bool = False, reuse: bool = False
) -> History:
    """Return a run in which a local read of replica 0 counts request 0.1, which is then lost."""
    builder = HistoryBuilder()
    if noop:
        builder.cast_noop(0)
    else:
        builder.invoke_weak(0, "append", "gone")
    read = builder.invoke_weak(0, "get_all", session=1)
    builder.respond(read)
    if durable:
        builder.log(0, BallotPromised(BALLOT, 0, 0, ()))
    builder.crash(0)
    builder.restart(0, lost_requests=2)
    if reuse:
        builder.invoke_weak(0, "append", "other")
        builder.quiesce()
    return with_operation(builder.history(), read, lambda each: replace(each, id=Dot(0, -1)))


def test_a_lost_request_that_a_response_counts_is_illegal() -> None:
    message = f"a response to {Dot(0, -1)} counts {Dot(0, 1)}, which was then lost"
    assert_illegal(check, _local_read_of_lost_request(), message)


def test_a_counted_request_is_lost_even_if_its_identifier_is_reused() -> None:
    message = f"a response to {Dot(0, -1)} counts {Dot(0, 1)}, which was then lost"
    assert_illegal(check, _local_read_of_lost_request(reuse=True), message)


def test_a_counted_volatile_request_may_be_lost_from_memory() -> None:
    assert_ok(check, with_memory_durability(_local_read_of_lost_request()))
    assert_ok(check, with_memory_durability(_local_read_of_lost_request(reuse=True)))


def test_a_counted_durable_request_is_not_lost_from_memory() -> None:
    history = with_memory_durability(_local_read_of_lost_request(durable=True))
    assert_illegal(check, history, f"counts {Dot(0, 1)}, which was then lost")


def test_a_counted_noop_may_be_lost() -> None:
    assert_ok(check, _local_read_of_lost_request(noop=True))


def test_a_counted_request_may_be_lost_with_its_replica() -> None:
    builder = HistoryBuilder()
    builder.invoke_weak(2, "append", "gone")
    read = builder.invoke_weak(2, "get_all", session=1)
    builder.respond(read)
    builder.crash(2)
    history = with_operation(builder.history(), read, lambda each: replace(each, id=Dot(2, -1)))
    assert_ok(check, history)


def test_a_counted_request_that_is_committed_is_legal() -> None:
    builder = HistoryBuilder()
    builder.invoke_weak(0, "append", "kept")
    read = builder.invoke_weak(0, "get_all", session=1)
    builder.respond(read)
    builder.quiesce()
    assert_ok(check, builder.history())
