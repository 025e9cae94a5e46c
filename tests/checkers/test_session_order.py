from msgspec.structs import replace

from creekdb.checkers.session_order import check
from creekdb.history import Committed, Dot, Outcome, ResponseKind
from tests.checkers.story import PRIMARY, STABLE_ONLY, Story, accepts, everyday, refuses


def _committed(story: Story, *order: Dot) -> Story:
    """Everybody commits in this order, whatever Algorithm 1 says."""
    for replica in range(3):
        for index, dot in enumerate(order):
            story.log(replica, Committed(dot, index))
    return story


def test_an_order_that_follows_the_sessions_is_fine() -> None:
    accepts(check, everyday().history())


def test_two_weak_operations_of_a_session_the_wrong_way_round_are_caught() -> None:
    story = Story()
    one, two = story.weak(0, "append", 1), story.weak(0, "append", 2)
    history = _committed(story, two, one).history()
    verdict = refuses(check, history, f"{two} is committed at 0 without the weak {one} before it")
    assert [each.id for each in verdict.counterexample] == [one, two]


def test_a_strong_operation_before_an_earlier_weak_one_is_caught() -> None:
    story = Story()
    weak, strong = story.weak(0, "append", 1), story.strong(0, "append", 2)
    refuses(check, _committed(story, strong, weak).history(), f"without the weak {weak}")


def test_weak_operations_of_different_sessions_of_one_replica_keep_their_order_too() -> None:
    story = Story()
    one, two = story.weak(0, "append", 1, session=1), story.weak(0, "append", 2, session=2)
    refuses(check, _committed(story, two, one).history(), f"without the weak {one}")


def test_a_weak_operation_that_is_missing_before_a_later_one_is_caught() -> None:
    story = Story()
    one, two = story.weak(0, "append", 1), story.strong(0, "append", 2)
    refuses(check, _committed(story, two).history(), f"without the weak {one}")


def test_weak_operations_of_different_replicas_may_be_committed_either_way() -> None:
    story = Story()
    one, two = story.weak(0, "append", 1), story.weak(1, "append", 2)
    accepts(check, _committed(story, two, one).history())


def test_a_strong_operation_may_be_overtaken_until_its_stable_answer() -> None:
    story = Story()
    strong, weak = story.strong(0, "append", 1), story.weak(0, "append", 2)
    accepts(check, _committed(story, weak, strong).history())


def test_a_strong_operation_overtaken_after_its_stable_answer_is_caught() -> None:
    story = Story()
    strong = story.strong(0, "append", 1)
    story.answer(strong, ResponseKind.STABLE, Outcome(1))
    weak = story.weak(0, "append", 2)
    history = _committed(story, weak, strong).history()
    refuses(check, history, "whose stable answer its session had seen earlier")


def test_the_stable_answer_of_another_session_binds_nobody() -> None:
    story = Story()
    strong = story.strong(0, "append", 1, session=1)
    story.answer(strong, ResponseKind.STABLE, Outcome(1))
    weak = story.weak(0, "append", 2, session=2)
    accepts(check, _committed(story, weak, strong).history())


def test_an_identifier_out_of_line_with_the_session_is_caught() -> None:
    story = Story()
    one, two = story.weak(0, "append", 1), story.weak(0, "append", 2)
    history = _committed(story, one, two).history()
    first, second = history.operations
    late = replace(first, invoked_us=second.invoked_us + 5)
    history = replace(history, operations=(late, second))
    refuses(check, history, f"before the weak {two} at 1, which its session invoked earlier")


def test_what_is_not_committed_yet_is_behind_everything() -> None:
    story = Story()
    one = story.weak(0, "append", 1)
    story.strong(0, "append", 2)
    story.weak(0, "append", 3)
    accepts(check, _committed(story, one).history(quiescent=False))


def test_a_request_lost_in_a_crash_leaves_no_gap() -> None:
    story = Story()
    story.weak(0, "append", "lost")
    story.crash(0)
    story.restart(0, lost=1)
    story.weak(0, "append", "kept")
    story.settle()
    accepts(check, story.history())


def test_a_weak_operation_that_is_ordered_for_itself_keeps_its_place_too() -> None:
    story = Story(terms=PRIMARY)
    one, two = story.weak(0, "append", 1, session=1), story.weak(0, "append", 2, session=2)
    accepts(check, _committed(story, one, two).history())

    story = Story(terms=PRIMARY)
    one, two = story.weak(0, "append", 1, session=1), story.weak(0, "append", 2, session=2)
    refuses(check, _committed(story, two, one).history(), f"without the weak {one}")


def test_where_all_answers_are_stable_a_weak_one_promises_nothing_before_it() -> None:
    story = Story(terms=STABLE_ONLY)
    one, two = story.weak(0, "append", 1), story.weak(0, "append", 2)
    accepts(check, _committed(story, two, one).history())


def test_where_all_answers_are_stable_a_weak_one_is_not_overtaken_after_it() -> None:
    story = Story(terms=STABLE_ONLY)
    one = story.weak(0, "append", 1)
    story.answer(one, ResponseKind.STABLE, Outcome(1))
    two = story.weak(0, "append", 2)
    history = _committed(story, two, one).history()
    refuses(check, history, "whose stable answer its session had seen earlier")
