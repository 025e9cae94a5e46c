"""Models: sequential specifications against which observed calls are judged.

A model is an initial state and a step, which is a pure function. The models of most built-in data
types are the data types themselves, executed one call at a time (`datatype_model`). The others are
in `plain_models`.

    >>> def execute(state: Any, operation: str, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    ...     match operation:
    ...         case "push":
    ...             return (*state, arguments[0]), None
    ...         case "pop":
    ...             return state[:-1], state[-1]  # an IndexError is an error response
    ...         case _:
    ...             raise UnknownOperation(operation)
    >>> STACK = Model("stack", initial=(), step=step_of(execute))
    >>> STACK.step((1, 2), "pop", (), CallStatus.OK, 2)
    (1,)
    >>> STACK.step((1, 2), "pop", (), CallStatus.OK, 1)
    IMPOSSIBLE
"""

from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall
from creekdb.checkers.replay import equal_exactly
from creekdb.datatypes import DataType
from creekdb.errors import BadValue
from creekdb.history import Dot, Operation, Outcome, Request


class _Sentinel(Enum):
    IMPOSSIBLE = 0
    ANY_VALUE = 1

    def __repr__(self) -> str:
        return self.name


IMPOSSIBLE: Final = _Sentinel.IMPOSSIBLE
"""Result of a step whose call cannot have its response in the state."""
ANY_VALUE: Final = _Sentinel.ANY_VALUE
"""Value of a response that was not recorded. It stands for every value."""


class NotModelled(Exception):
    """The model cannot determine the effect of a call. The verdict is then inconclusive."""


class UnknownOperation(NotModelled):
    """Operation that the model does not have."""

    def __init__(self, operation: str, known: Iterable[str] = ()) -> None:
        names = ", ".join(known)
        expected = f"; expected one of {names}" if names else ""
        super().__init__(f"the model has no operation '{operation}'{expected}")


Arguments: TypeAlias = tuple[Any, ...]
Step: TypeAlias = Callable[[Any, str, Arguments, CallStatus, Any], Any]
Execute: TypeAlias = Callable[[Any, str, Arguments], tuple[Any, Any]]
"""Returns the state after a call and its value. A raised exception is an error response."""


class KeyRange(NamedTuple):
    """Texts that start with `prefix`, from `start` up to but excluding `stop`."""

    prefix: str = ""
    start: str = ""
    stop: str | None = None

    def covers(self, key: Hashable) -> bool:
        """True if the key is in the range."""
        return (
            isinstance(key, str)
            and key.startswith(self.prefix)
            and self.start <= key
            and (self.stop is None or key < self.stop)
        )


Keys: TypeAlias = frozenset[str | int | KeyRange] | None
"""Keys and ranges of keys that a call may use, or None if it may use all."""


def all_keys(operation: str, arguments: Arguments) -> Keys:
    """Return the keys of a call of an object without independent parts."""
    return None


def any_call(operation: str, arguments: Arguments) -> None:
    """Accept every call."""


class Model(NamedTuple):
    """Sequential specification of an object. A call with an error has no effect."""

    name: str
    initial: Any
    """State before the first call. States are hashable and immutable."""
    step: Step
    """Returns the state after a call, or IMPOSSIBLE if the response does not fit the state.

    Parameters: state, operation, arguments, status and value. The status is `ok`, `error`, or
    `unknown` if every response fits. `step_of` creates a step from a plain function.
    """
    keys: Callable[[str, Arguments], Keys] = all_keys
    """Returns the keys that a call may use. Calls without common keys are judged separately."""
    readonly: frozenset[str] = frozenset()
    """Operations that never change the state."""
    check: Callable[[str, Arguments], None] = any_call
    """Raises `BadValue`, with the name of the field, for a call that the model does not have."""


def require_call(model: Model, call: ObservedCall) -> None:
    """Raise `BadValue` if the call may have had an effect, and the model does not have it."""
    if call.status not in (CallStatus.ERROR, CallStatus.REJECTED):
        model.check(call.operation, call.arguments)


def step_of(execute: Execute) -> Step:
    """Return the step of an object whose operations are deterministic."""
    return partial(_checked_step, execute)


def _checked_step(
    execute: Execute, state: Any, operation: str, arguments: Arguments, status: CallStatus, got: Any
) -> Any:
    expected = CallStatus.OK
    try:
        after, value = execute(state, operation, arguments)
    except NotModelled:
        raise
    except Exception as error:  # noqa: BLE001 - an error is a response
        after, value, expected = state, f"{type(error).__name__}: {error}", CallStatus.ERROR
    return after if fits(status, got, expected, value) else IMPOSSIBLE


def fits(status: CallStatus, got: Any, expected_status: CallStatus, expected: Any) -> bool:
    """True if a client may have observed this status and value."""
    if status is CallStatus.UNKNOWN:
        return True
    return status is expected_status and (got is ANY_VALUE or equal_exactly(got, expected))


# --- data types ---------------------------------------------------------------------------------


def datatype_model(datatype: DataType, keys: Callable[[str, Arguments], Keys] = all_keys) -> Model:
    """Return the model that executes the operations of a data type sequentially."""
    return Model(
        datatype.name,
        Registers({}),
        partial(_datatype_step, datatype),
        keys,
        frozenset(each for each in datatype.operations if datatype.is_readonly(each)),
        partial(_check_datatype_call, datatype),
    )


def _check_datatype_call(datatype: DataType, operation: str, arguments: Arguments) -> None:
    require_operation(operation, datatype.operations)
    if not datatype.can_run(operation, len(arguments)):
        signature = datatype.signature(operation)
        raise BadValue(f"'arguments': {signature} does not take {len(arguments)} of them")


def require_operation(operation: str, known: Iterable[str]) -> None:
    """Raise `BadValue` unless the operation is known."""
    if operation not in known:
        raise BadValue(f"'operation': {UnknownOperation(operation, known)}")


class Value:
    """Immutable value. Values of different types are different values."""

    __slots__ = ("_identity", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._identity = exact(value)

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self._identity == other._identity

    def __repr__(self) -> str:
        return repr(self.value)


class Registers:
    """Immutable registers of a data type. Values of different types are different values."""

    __slots__ = ("_hash", "_identity", "registers")

    def __init__(self, registers: dict[Any, Any]) -> None:
        self.registers = registers
        self._identity = frozenset([(key, exact(value)) for key, value in registers.items()])
        self._hash = hash(self._identity)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Registers) and self._identity == other._identity

    def __repr__(self) -> str:
        return ", ".join(f"{key} = {value!r}" for key, value in self.registers.items()) or "empty"


def exact(value: Any) -> Hashable:
    """Return a hashable equivalent: equal for equal values of equal types only."""
    if type(value) is int or type(value) is str or value is None:
        return value
    try:
        return (_encode(value),)
    except (OverflowError, TypeError, ValueError):  # a large integer, or a marker of the store
        return (repr(value),)


_encode: Final = msgspec.msgpack.Encoder(order="sorted").encode


class _WatchedRequest(Request, frozen=True):
    """Request that reports the use of its timestamp, from which random numbers are derived too."""

    uses: list[str] = msgspec.field(default_factory=list)

    @property  # type: ignore[misc]
    def timestamp(self) -> int:
        self.uses.append("timestamp")
        return 0


def _datatype_step(
    datatype: DataType,
    state: Registers,
    operation: str,
    arguments: Arguments,
    status: CallStatus,
    got: Any,
) -> Any:
    if operation not in datatype.operations:
        raise UnknownOperation(operation, datatype.operations)
    machine = datatype.sequential()
    machine.state = dict(state.registers)
    request = _WatchedRequest(0, Dot(0, 1), Operation(operation, arguments), True)
    outcome = machine.apply(request)
    if request.uses:
        raise NotModelled(
            f"'{operation}' uses its timestamp or random numbers, which clients do not observe"
        )
    if not outcome_fits(status, got, outcome):
        return IMPOSSIBLE
    return state if outcome.error or datatype.is_readonly(operation) else Registers(machine.state)


def outcome_fits(status: CallStatus, got: Any, outcome: Outcome) -> bool:
    """True if a client may have observed the outcome with this status and value."""
    if outcome.error is not None:
        return fits(status, got, CallStatus.ERROR, outcome.error)
    return fits(status, got, CallStatus.OK, outcome.value)
