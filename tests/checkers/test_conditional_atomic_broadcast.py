from msgspec.structs import replace

from creekdb.checkers.broadcast.conditional_atomic_broadcast import check
from creekdb.history import (
    CabDelivered,
    Committed,
    Dot,
    Dots,
    History,
    Operation,
    RbCast,
    RbDelivered,
)
from creekdb.history import Request as Req
from creekdb.protocol.ids.version_vector import DotSet
from tests.checkers.story import (
    STABLE_ONLY,
    Story,
    accepts,
    everyday,
    random_story,
    refuses,
    two_delivered,
    with_event,
)


def _recast(story: Story, dot: Dot, context: Dots | None) -> History:
    """The same run, but the strong `dot` was cast with this causal context."""
    old = story.requests[dot]
    new = replace(old, context=context)
    return with_event(story.history(), dot.replica, RbCast(old), RbCast(new))


def test_deliveries_in_one_order_with_true_predicates_are_fine() -> None:
    accepts(check, everyday().history())


def test_a_request_delivered_twice_is_caught() -> None:
    story = Story()
    dot = story.strong(0, "append", 1)
    story.settle()
    story.log(0, CabDelivered(dot, 1))
    refuses(check, story.history(), f"{dot} was CAB-delivered twice")


def test_a_delivery_of_what_a_checkpoint_covers_is_caught() -> None:
    story = Story()
    dot = story.strong(0, "append", 1)
    story.settle()
    story.crash(0)
    story.restart(0, checkpoint=1)
    story.log(0, CabDelivered(dot, 1))
    refuses(check, story.history(), "after a checkpoint that covers it")


def test_a_weak_request_is_never_cab_delivered() -> None:
    story = Story()
    dot = story.weak(0, "append", 1)
    story.log(0, CabDelivered(dot, 0))
    refuses(check, story.history(), f"{dot} was CAB-delivered, but nobody had CAB-cast it")


def test_a_delivery_before_the_request_itself_arrived_is_caught() -> None:
    story = Story()
    dot = story.strong(0, "append", 1)
    story.log(1, CabDelivered(dot, 0))
    refuses(check, story.history(), f"{dot} was CAB-delivered before it was RB-delivered")


def test_a_delivery_before_the_causal_context_arrived_is_caught() -> None:
    story = Story()
    weak = story.weak(0, "append", 1)
    story.gossip(weak, 2)
    strong = story.strong(2, "append", 2)
    story.gossip(strong, 1)
    story.log(1, CabDelivered(strong, 0))
    verdict = refuses(check, story.history(), f"CAB-delivered without {weak} of its context")
    assert verdict.counterexample[0].id == weak


def test_a_causal_context_that_a_checkpoint_covers_has_arrived() -> None:
    story = Story()
    first = story.strong(0, "append", 1)
    story.gossip(first, 1)
    story.order(first)
    story.deliver(0, 1)
    second = story.strong(0, "append", 2)
    story.install(2, 1)
    story.gossip(second)
    story.order(second)
    story.deliver()
    accepts(check, story.history())


def test_a_strong_request_committed_without_a_delivery_is_caught() -> None:
    story, one, _ = two_delivered()
    history = with_event(story.history(), 2, CabDelivered(one, 0), None)
    refuses(check, history, f"strong {one} was committed, but not CAB-delivered")


def test_a_strong_request_without_a_causal_context_is_caught() -> None:
    story = Story()
    dot = story.strong(0, "append", 1)
    refuses(check, _recast(story, dot, None), "cast without a causal context")


def test_an_uncommitted_strong_request_in_a_causal_context_is_caught() -> None:
    story = Story()
    first = story.strong(0, "append", 1)
    second = story.strong(0, "append", 2)
    history = _recast(story, second, DotSet([first]).freeze())
    refuses(check, history, f"has {first}, a strong request not committed where it was cast")


def test_a_causal_context_of_what_the_origin_had_not_delivered_is_caught() -> None:
    story = Story()
    weak = story.weak(1, "append", 1)
    strong = story.strong(0, "append", 2)
    history = _recast(story, strong, DotSet([weak]).freeze())
    refuses(check, history, f"has {weak}, not delivered where it was cast")


def test_a_causal_context_that_lacks_a_weak_request_is_caught() -> None:
    story = Story()
    weak = story.weak(1, "append", 1)
    story.gossip(weak)
    strong = story.strong(0, "append", 2)
    refuses(check, _recast(story, strong, Dots()), f"lacks {weak}, which comes before it")


def test_a_causal_context_that_lacks_a_committed_request_is_caught() -> None:
    story = Story()
    first = story.strong(0, "append", 1)
    story.settle()
    second = story.strong(0, "append", 2)
    refuses(check, _recast(story, second, Dots()), f"lacks {first}, which comes before it")


def _ahead(context: Dots) -> Story:
    """Replica 1's clock is ahead: its weak request comes after a strong one that 0 casts later."""
    story = Story()
    weak = Req(10**9, Dot(1, 1), Operation("append", (1,)), False)
    strong = Req(100, Dot(0, 1), Operation("append", (2,)), True, context)
    story.log(1, RbCast(weak))
    story.log(0, RbDelivered(weak.id))
    story.log(0, RbCast(strong))
    return story


def test_a_causal_context_leaves_out_tentative_requests_with_a_later_timestamp() -> None:
    accepts(check, _ahead(Dots()).history(quiescent=False))


def test_a_causal_context_with_a_later_timestamp_is_caught() -> None:
    story = _ahead(DotSet([Dot(1, 1)]).freeze())
    refuses(check, story.history(quiescent=False), "has 1.1, which comes after it")


def test_deliveries_in_different_orders_are_caught() -> None:
    story, one, two = two_delivered()
    history = with_event(story.history(), 2, CabDelivered(one, 0), CabDelivered(two, 0))
    history = with_event(history, 2, CabDelivered(two, 1), CabDelivered(one, 1))
    history = with_event(history, 2, Committed(one, 0), Committed(two, 0))
    history = with_event(history, 2, Committed(two, 1), Committed(one, 1))
    refuses(check, history, "CAB deliveries out of order: 0.1 of instance 0 comes next")


def test_an_incarnation_that_delivers_otherwise_than_the_one_before_is_caught() -> None:
    story, one, two = two_delivered()
    story.crash(2)
    story.restart(2)
    history = with_event(
        story.history(False), 2, CabDelivered(one, 0), CabDelivered(two, 0), incarnation=1
    )
    history = with_event(history, 2, CabDelivered(two, 1), None, incarnation=1)
    history = with_event(history, 2, Committed(one, 0), None, incarnation=1)
    refuses(check, history, "CAB deliveries out of order")


def test_a_skipped_delivery_is_caught() -> None:
    story, one, _ = two_delivered()
    history = with_event(story.history(), 2, CabDelivered(one, 0), None)
    history = with_event(history, 2, Committed(one, 0), None)
    verdict = refuses(check, history, "CAB deliveries out of order: 0.1")
    assert verdict.counterexample[-1].who == "replica 2 (incarnation 0)"


def test_one_request_delivered_in_two_instances_is_caught() -> None:
    story, _, two = two_delivered()
    history = with_event(story.history(), 2, CabDelivered(two, 1), CabDelivered(two, 5))
    refuses(check, history, f"{two} was CAB-delivered in two instances, 1 and 5")


def test_a_crash_in_the_middle_of_an_instance_is_fine() -> None:
    story = Story()
    one, two = story.strong(0, "append", 1), story.strong(1, "append", 2)
    for dot in (one, two):
        story.gossip(dot)
    story.order(one, two)
    story.deliver(0, 1)
    story.log(2, CabDelivered(one, 0))
    story.crash(2)
    accepts(check, story.history())


def test_a_strong_request_that_is_never_delivered_is_caught_at_the_end() -> None:
    story = Story()
    dot = story.strong(0, "append", 1)
    accepts(check, story.history(quiescent=False))
    refuses(check, story.history(), f"strong {dot} was CAB-cast and never CAB-delivered")


def test_a_delivery_that_only_a_crashed_replica_made_is_caught_at_the_end() -> None:
    story = Story()
    dot = story.strong(0, "append", 1)
    story.gossip(dot)
    story.order(dot)
    story.deliver(0)
    story.crash(0)
    accepts(check, story.history(quiescent=False))
    verdict = refuses(check, story.history(), f"replica 1 never CAB-delivered {dot}")
    assert verdict.counterexample[0].who == "replica 0 (incarnation 0)"


def test_a_restart_that_forgets_a_delivery_is_found() -> None:
    story = Story()
    strong = story.strong(0, "append", "a")
    story.gossip(strong)
    story.order(strong)
    story.deliver()
    story.crash(2)
    story.restart(2)
    forgotten = with_event(story.history(), 2, CabDelivered(strong, 0), None, incarnation=1)
    forgotten = with_event(forgotten, 2, Committed(strong, 0), None, incarnation=1)

    accepts(check, story.history())
    refuses(check, forgotten, f"replica 2 restarted without {strong} of instance 0")
    lost = [replace(log, has_empty_disk=log.incarnation == 1) for log in forgotten.logs]
    accepts(check, replace(forgotten, logs=tuple(lost), quiescent=False))


def test_requests_that_are_ordered_for_themselves_need_no_context() -> None:
    story = Story(terms=STABLE_ONLY)
    one = story.weak(0, "append", 1)
    story.gossip(one, 1)
    two = story.strong(1, "append", 2)
    for dot in (two, one):
        story.gossip(dot)
        story.order(dot)
    story.deliver()
    accepts(check, story.history(quiescent=False))
    for seed in range(20):
        accepts(check, random_story(seed, STABLE_ONLY).history())


def test_a_request_ordered_for_itself_that_takes_another_along_is_caught() -> None:
    story = Story(terms=STABLE_ONLY)
    one, two = story.weak(0, "append", 1), story.strong(0, "append", 2)
    history = _recast(story, two, DotSet([one]).freeze())
    refuses(check, history, f"{two}, which is ordered for itself, has {one} in its causal context")


def test_a_request_that_nobody_will_order_is_caught() -> None:
    story = Story(terms=STABLE_ONLY)
    one = story.weak(0, "append", 1)
    history = _recast(story, one, None)
    refuses(check, history, f"{one} was cast, but not to be ordered")


def test_order_and_predicate_are_asked_for_without_contexts_too() -> None:
    story = Story(terms=STABLE_ONLY)
    one, two = story.weak(0, "append", 1), story.weak(0, "append", 2)
    story.gossip(one, 1)
    story.gossip(two, 1)
    story.order(one)
    story.order(two)
    story.deliver(0)
    story.log(1, CabDelivered(two, 1))
    refuses(check, story.history(quiescent=False), f"out of order: {one} of instance 0 comes next")
    story.log(2, CabDelivered(one, 0))
    refuses(check, story.history(quiescent=False), f"{one} was CAB-delivered before it was RB-")
