"""Who the members are, and how that changes while the cluster runs.

A *configuration* is the members, with where each is found, and its number: the *epoch*. A change is
a strong request with the operation `MEMBERS`, which adds or removes one replica. It is based on one
epoch and leads to the next: when another change was committed in between, it is refused. So a
change is judged alike wherever it is committed, by its arguments and the epoch it finds.

Rules kept here:
- a configuration and the next one differ by one replica, so each majority of one meets each
  majority of the other;
- a number is never given a second time: it is a part of identifiers, ballots and promises.

`docs/decisions/0018-members-change-by-ballot.md` has the argument.
"""

from typing import Any, Final, Literal, TypeAlias

import msgspec

from creekdb.errors import BadValue
from creekdb.protocol.request import Operation
from creekdb.protocol.values import Key

MEMBERSHIP_OPERATION: Final = "creek.members"
"""The operation that every data type has, for the cluster itself."""
MEMBERSHIP_KEY: Final[Key] = (MEMBERSHIP_OPERATION,)
"""Where the state holds the configuration, once it was changed; so checkpoints hold it, too."""

Member: TypeAlias = tuple[int, str]
"""A replica's number, and where the others find it."""


class Configuration(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    epoch: int
    """How often the members have been changed."""
    members: tuple[Member, ...]
    """By number, ascending."""
    former: tuple[int, ...] = ()
    """The numbers of those that were removed."""

    @property
    def replica_ids(self) -> tuple[int, ...]:
        return tuple(replica for replica, _ in self.members)

    @property
    def next_replica_id(self) -> int:
        return max((*self.replica_ids, *self.former)) + 1

    def add_operation(self, replica: int, address: str) -> Operation:
        """The strong operation to ask for; `BadValue` when it could not work."""
        return self._change_operation("add", replica, address)

    def remove_operation(self, replica: int) -> Operation:
        return self._change_operation("remove", replica, "")

    def apply(self, operation: Operation) -> "Configuration":
        """The configuration once the change is committed, or `BadValue` with why it is refused."""
        return _next_configuration(self.epoch, operation.arguments)

    def register_value(self) -> tuple[Any, ...]:
        """As a register holds it."""
        return self.epoch, self.members, self.former

    def _change_operation(self, change: str, replica: int, address: str) -> Operation:
        arguments = *self.register_value(), change, replica, address
        _next_configuration(self.epoch, arguments)
        return Operation(MEMBERSHIP_OPERATION, arguments)


class _MembershipChange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The arguments of the operation: the configuration it is based on, and what is to change."""

    epoch: int
    members: tuple[Member, ...]
    former: tuple[int, ...]
    change: Literal["add", "remove"]
    replica: int
    address: str


def apply_to_register(held: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the register holds after the operation; `held` is what it holds before, or None."""
    return _next_configuration(0 if held is None else held[0], arguments).register_value()


def find_configuration(state: tuple[tuple[Key, Any], ...]) -> Configuration | None:
    """The configuration that a checkpoint's state holds, if the members were ever changed."""
    for key, value in reversed(state):
        if key == MEMBERSHIP_KEY:
            try:
                return msgspec.convert(value, Configuration)
            except msgspec.ValidationError as error:
                raise BadValue(f"no configuration is kept in {MEMBERSHIP_KEY}: {error}") from error
    return None


def _next_configuration(epoch: int, arguments: tuple[Any, ...]) -> Configuration:
    try:
        change = msgspec.convert(arguments, _MembershipChange)
    except msgspec.ValidationError as error:
        raise BadValue(f"not a change of members: {error}") from error
    if change.epoch != epoch:
        raise BadValue(
            f"the members were changed meanwhile: this is change {change.epoch + 1}, and "
            f"{epoch} were made; look at the members and ask again"
        )
    numbers = [replica for replica, _ in change.members]
    if not numbers:
        raise BadValue("not a change of members: there are none")
    if change.change == "add":
        return _add_member(change, numbers)
    return _remove_member(change, numbers)


def _add_member(change: _MembershipChange, numbers: list[int]) -> Configuration:
    replica = change.replica
    if replica in numbers:
        raise BadValue(f"replica {replica} is a member already")
    if replica <= max((*numbers, *change.former)):
        raise BadValue(
            f"{replica} cannot be added: a number is never given twice, and "
            f"{max((*numbers, *change.former)) + 1} is the next"
        )
    members = (*change.members, (replica, change.address))
    return Configuration(change.epoch + 1, members, change.former)


def _remove_member(change: _MembershipChange, numbers: list[int]) -> Configuration:
    replica = change.replica
    if replica not in numbers:
        known = ", ".join(map(str, numbers))
        raise BadValue(f"replica {replica} is no member: members are {known}")
    if len(numbers) == 1:
        raise BadValue(f"replica {replica} is the last one: without it there is no cluster")
    members = tuple(each for each in change.members if each[0] != replica)
    former = tuple(sorted((*change.former, replica)))
    return Configuration(change.epoch + 1, members, former)
