from msgspec.structs import replace

from creekdb.checkers.convergence import check
from creekdb.history import Dot, FinalState, Outcome, ResponseKind
from tests.checkers.story import Story, accepts, everyday, refuses, with_final, with_operation


def test_a_run_that_settled_is_fine() -> None:
    accepts(check, everyday().history())


def test_a_run_that_did_not_settle_is_caught() -> None:
    refuses(check, everyday().history(quiescent=False), "liveness: did not settle")


def test_a_run_that_ends_with_nobody_up_did_not_settle() -> None:
    history = replace(everyday().history(), final_states=())
    refuses(check, history, "liveness: did not settle")


def test_a_request_that_stays_tentative_is_caught() -> None:
    story = Story()
    story.gossip(story.weak(0, "append", 1))
    refuses(check, story.history(), "liveness: 1 requests never stabilised")


def test_a_replica_that_stays_behind_is_caught() -> None:
    def behind(final: FinalState) -> FinalState:
        return replace(final, committed=final.committed[:-1])

    history = with_final(everyday().history(), 1, behind)
    verdict = refuses(check, history, "committed, but not everywhere")
    assert len(verdict.counterexample) == 3


def test_final_orders_that_differ_are_caught() -> None:
    def turned(final: FinalState) -> FinalState:
        return replace(final, committed=final.committed[::-1])

    refuses(check, with_final(everyday().history(), 1, turned), "the committed orders differ")


def test_states_that_differ_are_caught() -> None:
    def changed(final: FinalState) -> FinalState:
        (key, _), *rest = final.state
        return replace(final, state=((key, "z"), *rest))

    verdict = refuses(check, with_final(everyday().history(), 1, changed), "the states differ")
    assert "'z'" in verdict.describe()


def test_states_listed_in_another_order_are_equal() -> None:
    history = with_final(
        everyday().history(), 1, lambda each: replace(each, state=each.state[::-1])
    )
    accepts(check, history)


def test_an_answered_operation_that_is_lost_is_caught() -> None:
    story = Story()
    weak = story.weak(0, "append", "gone")
    story.answer(weak)
    story.crash(0)
    story.restart(0, lost=1)
    refuses(check, story.history(), f"{weak} was answered and then lost")


def test_an_answered_operation_whose_identifier_a_later_one_took_is_caught() -> None:
    story = Story()
    weak = story.weak(0, "append", "gone")
    story.answer(weak)
    story.crash(0)
    story.restart(0, lost=1)
    story.weak(0, "append", "usurper")
    story.settle()
    refuses(check, story.history(), f"{weak} was answered and then lost")


def test_an_unanswered_operation_may_be_lost_with_its_replica() -> None:
    story = Story()
    story.weak(0, "append", "gone")
    story.crash(0)
    story.restart(0, lost=1)
    accepts(check, story.history())


def test_what_a_replica_that_stays_down_had_for_itself_may_be_lost() -> None:
    story = Story()
    story.answer(story.weak(2, "append", "gone"))
    story.crash(2)
    accepts(check, story.history())


def test_what_a_replica_that_stays_down_has_answered_stably_must_not_be_lost() -> None:
    story = Story()
    strong = story.strong(2, "append", "gone")
    story.answer(strong, ResponseKind.STABLE, Outcome(1))
    story.crash(2)
    refuses(check, story.history(), f"{strong} was answered and then lost")


def test_what_a_replica_answered_by_itself_is_on_no_order() -> None:
    """Section 4.4, read-only operations."""
    story = Story()
    read = story.weak(0, "get_all")
    story.answer(read)
    story.settle()
    local = with_operation(story.history(), read, lambda each: replace(each, id=Dot(0, -1)))
    accepts(check, local)


def test_what_one_that_was_dismissed_has_answered_must_not_be_lost() -> None:
    story = Story()
    weak = story.weak(2, "append", "gone")
    story.answer(weak)
    story.crash(2)
    history = story.history()
    logs = tuple(replace(log, is_removed=log.replica == 2) for log in history.logs)
    refuses(check, replace(history, logs=logs), f"{weak} was answered and then lost")


def test_a_delivered_request_that_is_lost_is_caught() -> None:
    def emptied(final: FinalState) -> FinalState:
        return replace(final, tentative=(), state=())

    story = Story()
    story.gossip(story.noop(0))
    history = story.history()
    for replica in range(3):
        history = with_final(history, replica, emptied)
    refuses(check, history, f"{Dot(0, 1)} was delivered and then lost")
