"""Members of a cluster, and their changes at run time.

A *configuration* consists of the members with their addresses, and of its number, the *epoch*. A
change is a strong request with the operation `MEMBERSHIP_OPERATION`, which adds or removes one
replica. It is based on one epoch and leads to the next. If another change was committed in between,
it is rejected. So every replica judges a change alike, by its arguments and the epoch at its
commit.

Invariants:
- Two successive configurations differ by one replica, so each majority of one intersects each
  majority of the other.
- The number of a replica is never reused, because identifiers, ballots and promises contain it.

`docs/decisions/0018-membership-epochs-in-ballots.md` has the argument.
"""

from typing import Any, Final, Literal, TypeAlias

import msgspec

from creekdb.errors import BadValue
from creekdb.protocol.request import Operation
from creekdb.protocol.values import Key

MEMBERSHIP_OPERATION: Final = "creek.members"
"""Operation of every data type that changes the members of the cluster."""
MEMBERSHIP_KEY: Final[Key] = (MEMBERSHIP_OPERATION,)
"""Key of the register with the configuration, once it has changed. Checkpoints contain it too."""

Member: TypeAlias = tuple[int, str]
"""Number and address of a replica."""


class Configuration(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    epoch: int
    """Number of membership changes so far."""
    members: tuple[Member, ...]
    """Members, in ascending order of their numbers."""
    former: tuple[int, ...] = ()
    """Numbers of the removed replicas."""

    @property
    def replica_ids(self) -> tuple[int, ...]:
        return tuple(replica for replica, _ in self.members)

    @property
    def next_replica_id(self) -> int:
        return max((*self.replica_ids, *self.former)) + 1

    def add_operation(self, replica: int, address: str) -> Operation:
        """Return the strong operation that adds the replica; raise `BadValue` if it would fail."""
        return self._change_operation("add", replica, address)

    def remove_operation(self, replica: int) -> Operation:
        return self._change_operation("remove", replica, "")

    def apply(self, operation: Operation) -> "Configuration":
        """Return the configuration after the change, or raise `BadValue` if it is rejected."""
        return _next_configuration(self.epoch, operation.arguments)

    def register_value(self) -> tuple[Any, ...]:
        """Return the value of the membership register."""
        return self.epoch, self.members, self.former

    def _change_operation(self, change: str, replica: int, address: str) -> Operation:
        arguments = *self.register_value(), change, replica, address
        _next_configuration(self.epoch, arguments)
        return Operation(MEMBERSHIP_OPERATION, arguments)


class _MembershipChange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Arguments of the operation: the configuration that it is based on, and the change."""

    epoch: int
    members: tuple[Member, ...]
    former: tuple[int, ...]
    change: Literal["add", "remove"]
    replica: int
    address: str


def apply_to_register(current: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the register's value after the operation; `current` is its value before, or None."""
    return _next_configuration(0 if current is None else current[0], arguments).register_value()


def find_configuration(state: tuple[tuple[Key, Any], ...]) -> Configuration | None:
    """Return the configuration in a checkpoint's state, or None if the members never changed."""
    for key, value in reversed(state):
        if key == MEMBERSHIP_KEY:
            try:
                return msgspec.convert(value, Configuration)
            except msgspec.ValidationError as error:
                raise BadValue(f"invalid configuration in {MEMBERSHIP_KEY}: {error}") from error
    return None


def _next_configuration(epoch: int, arguments: tuple[Any, ...]) -> Configuration:
    try:
        change = msgspec.convert(arguments, _MembershipChange)
    except msgspec.ValidationError as error:
        raise BadValue(f"invalid membership change: {error}") from error
    if change.epoch != epoch:
        raise BadValue(
            f"the members have changed: the change is based on epoch {change.epoch}, "
            f"the current epoch is {epoch}; list the members and retry"
        )
    replica_ids = [replica for replica, _ in change.members]
    if not replica_ids:
        raise BadValue("invalid membership change: the list of members is empty")
    if change.change == "add":
        return _add_member(change, replica_ids)
    return _remove_member(change, replica_ids)


def _add_member(change: _MembershipChange, replica_ids: list[int]) -> Configuration:
    replica = change.replica
    if replica in replica_ids:
        raise BadValue(f"replica {replica} is already a member")
    if replica <= max((*replica_ids, *change.former)):
        raise BadValue(
            f"replica {replica} cannot be added: numbers are never reused; use "
            f"{max((*replica_ids, *change.former)) + 1}"
        )
    members = (*change.members, (replica, change.address))
    return Configuration(change.epoch + 1, members, change.former)


def _remove_member(change: _MembershipChange, replica_ids: list[int]) -> Configuration:
    replica = change.replica
    if replica not in replica_ids:
        listed = ", ".join(map(str, replica_ids))
        raise BadValue(f"replica {replica} is not a member: the members are {listed}")
    if len(replica_ids) == 1:
        raise BadValue(f"replica {replica} cannot be removed: it is the last member")
    members = tuple(each for each in change.members if each[0] != replica)
    former = tuple(sorted((*change.former, replica)))
    return Configuration(change.epoch + 1, members, former)
