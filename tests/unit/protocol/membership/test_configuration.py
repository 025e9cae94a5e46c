"""Configurations and their changes: what is allowed, what is refused and why."""

import pytest

from creekdb.errors import BadValue
from creekdb.protocol.membership.configuration import (
    MEMBERSHIP_KEY,
    MEMBERSHIP_OPERATION,
    Configuration,
    apply_to_register,
    find_configuration,
)
from creekdb.protocol.request import Operation
from creekdb.protocol.settings import ROUNDS_PER_EPOCH, Settings

THREE = Configuration(0, ((0, "a"), (1, "b"), (2, "c")))


def test_a_replica_is_added_and_another_one_removed() -> None:
    added = THREE.apply(THREE.add_operation(3, "d"))
    replaced = added.apply(added.remove_operation(1))

    assert added == Configuration(1, ((0, "a"), (1, "b"), (2, "c"), (3, "d")))
    assert replaced == Configuration(2, ((0, "a"), (2, "c"), (3, "d")), (1,))
    assert replaced.next_replica_id == 4


def test_of_two_changes_at_once_the_second_is_refused() -> None:
    first, second = THREE.add_operation(3, "d"), THREE.remove_operation(0)
    changed = THREE.apply(first)

    with pytest.raises(BadValue, match="the members were changed meanwhile: this is change 1"):
        changed.apply(second)


@pytest.mark.parametrize(
    ("configuration", "change", "replica", "reason"),
    [
        (THREE, "add", 2, "replica 2 is a member already"),
        (THREE, "remove", 7, "replica 7 is no member: members are 0, 1, 2"),
        (Configuration(4, ((0, ""),), (1,)), "remove", 0, "replica 0 is the last one"),
        (Configuration(4, ((0, ""),), (1,)), "add", 1, "never given twice, and 2 is the next"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason_before_it_is_asked_and_when_it_is_committed(
    configuration: Configuration, change: str, replica: int, reason: str
) -> None:
    asked = Operation(MEMBERSHIP_OPERATION, (*configuration.register_value(), change, replica, ""))

    with pytest.raises(BadValue, match=reason):
        configuration.apply(asked)
    with pytest.raises(BadValue, match=reason):
        configuration.add_operation(
            replica, ""
        ) if change == "add" else configuration.remove_operation(replica)


@pytest.mark.parametrize(
    "arguments",
    [(), (0,), (0, (), (), "add", 0, ""), (*THREE.register_value(), "grow", 3, ""), ("x",) * 6],
)
def test_what_is_no_change_is_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(BadValue, match="not a change of members"):
        THREE.apply(Operation(MEMBERSHIP_OPERATION, arguments))


def test_the_register_and_the_order_judge_alike() -> None:
    operation = THREE.add_operation(3, "d")
    after = apply_to_register(None, operation.arguments)

    assert after == THREE.apply(operation).register_value()
    assert find_configuration((("a", 1), (MEMBERSHIP_KEY, after))) == THREE.apply(operation)
    assert find_configuration((("a", 1),)) is None
    with pytest.raises(BadValue, match="changed meanwhile"):
        apply_to_register(after, operation.arguments)
    with pytest.raises(BadValue, match="no configuration"):
        find_configuration(((MEMBERSHIP_KEY, "five"),))


def test_members_of_each_epoch_have_ballots_of_their_own() -> None:
    settings = Settings(members=(0, 1, 2), window=7)
    later = settings.with_configuration(THREE.apply(THREE.remove_operation(1)))

    assert (settings.first_round, settings.end_round) == (1, ROUNDS_PER_EPOCH)
    assert (later.first_round, later.end_round) == (ROUNDS_PER_EPOCH, 2 * ROUNDS_PER_EPOCH)
    assert (later.members, later.former, later.all_replicas) == ((0, 2), (1,), (0, 1, 2))
    assert (later.majority, later.window) == (2, 7)
    assert settings.configuration.epoch == 0
