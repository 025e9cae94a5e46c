"""Configurations of the cluster and their changes."""

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
ONE = Configuration(4, ((0, ""),), (1,))


def test_replicas_are_added_and_removed() -> None:
    added = THREE.apply(THREE.add_operation(3, "d"))
    replaced = added.apply(added.remove_operation(1))

    assert added == Configuration(1, ((0, "a"), (1, "b"), (2, "c"), (3, "d")))
    assert replaced == Configuration(2, ((0, "a"), (2, "c"), (3, "d")), (1,))
    assert replaced.next_replica_id == 4


def test_second_of_two_concurrent_changes_is_rejected() -> None:
    first, second = THREE.add_operation(3, "d"), THREE.remove_operation(0)
    changed = THREE.apply(first)

    with pytest.raises(BadValue, match="the members have changed: the change is based on epoch 0"):
        changed.apply(second)


@pytest.mark.parametrize(
    ("configuration", "change", "replica", "reason"),
    [
        (THREE, "add", 2, "replica 2 is already a member"),
        (THREE, "remove", 7, "replica 7 is not a member: the members are 0, 1, 2"),
        (ONE, "remove", 0, "replica 0 cannot be removed: it is the last member"),
        (ONE, "add", 1, "replica 1 cannot be added: numbers are never reused; use 2"),
    ],
)
def test_impossible_changes_are_rejected_at_the_call_and_at_the_commit(
    configuration: Configuration, change: str, replica: int, reason: str
) -> None:
    operation = Operation(
        MEMBERSHIP_OPERATION, (*configuration.register_value(), change, replica, "")
    )

    with pytest.raises(BadValue, match=reason):
        configuration.apply(operation)
    with pytest.raises(BadValue, match=reason):
        configuration.add_operation(
            replica, ""
        ) if change == "add" else configuration.remove_operation(replica)


@pytest.mark.parametrize(
    "arguments",
    [(), (0,), (0, (), (), "add", 0, ""), (*THREE.register_value(), "grow", 3, ""), ("x",) * 6],
)
def test_malformed_changes_are_rejected(arguments: tuple[object, ...]) -> None:
    with pytest.raises(BadValue, match="invalid membership change"):
        THREE.apply(Operation(MEMBERSHIP_OPERATION, arguments))


def test_register_and_configuration_apply_changes_alike() -> None:
    operation = THREE.add_operation(3, "d")
    value = apply_to_register(None, operation.arguments)

    assert value == THREE.apply(operation).register_value()
    assert find_configuration((("a", 1), (MEMBERSHIP_KEY, value))) == THREE.apply(operation)
    assert find_configuration((("a", 1),)) is None
    with pytest.raises(BadValue, match="the members have changed"):
        apply_to_register(value, operation.arguments)
    with pytest.raises(BadValue, match="invalid configuration"):
        find_configuration(((MEMBERSHIP_KEY, "five"),))


def test_each_epoch_has_its_own_ballot_rounds() -> None:
    settings = Settings(members=(0, 1, 2), window=7)
    reconfigured = settings.with_configuration(THREE.apply(THREE.remove_operation(1)))

    assert (settings.first_round, settings.end_round) == (1, ROUNDS_PER_EPOCH)
    assert (reconfigured.first_round, reconfigured.end_round) == (
        ROUNDS_PER_EPOCH,
        2 * ROUNDS_PER_EPOCH,
    )
    assert (reconfigured.members, reconfigured.former, reconfigured.all_replicas) == (
        (0, 2),
        (1,),
        (0, 1, 2),
    )
    assert (reconfigured.majority, reconfigured.window) == (2, 7)
    assert settings.configuration.epoch == 0
