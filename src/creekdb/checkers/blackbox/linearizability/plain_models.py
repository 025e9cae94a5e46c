"""Models by name: those of the built-in data types, and those written by hand.

`list` is written by hand because a scan of its data type sorts all elements: an append to 5,000
elements takes 10 ms there and 10 µs here. It also accepts `shuffle`, whose response is the new
state. `register` adds `cas`. `text-kv` has the operations of the tests of porcupine. `kv` accepts
integers as keys, as histories of Jepsen have them.
"""

from collections import Counter
from functools import partial
from typing import Any, Final

from creekdb.checkers.blackbox.anomalies.transactions import check_transaction
from creekdb.checkers.blackbox.linearizability.models import (
    ANY_VALUE,
    IMPOSSIBLE,
    Arguments,
    Execute,
    KeyRange,
    Keys,
    Model,
    NotModelled,
    Registers,
    UnknownOperation,
    Value,
    datatype_model,
    exact,
    require_operation,
    step_of,
)
from creekdb.checkers.blackbox.observations import CallStatus
from creekdb.checkers.replay import equal_exactly
from creekdb.checkers.verdict import short_text
from creekdb.datatypes import bank, counter, kv, transactions
from creekdb.datatypes.lists import DUPLICATE_LENGTH_MAX
from creekdb.errors import BadValue, UnknownName

# --- register -----------------------------------------------------------------------------------

REGISTER_OPERATIONS: Final = ("cas", "noop", "read", "write")


def _execute_register(state: Value, operation: str, arguments: Arguments) -> tuple[Value, Any]:
    match operation, arguments:
        case "read", ():
            return state, state.value
        case "write", (value,):
            return Value(value), None
        case "cas", (expected, value):
            if equal_exactly(state.value, expected):
                return Value(value), True
            return state, False
        case "noop", ():
            return state, None
        case _:
            raise _mismatch(operation, arguments, REGISTER_OPERATIONS)


# --- list ---------------------------------------------------------------------------------------

LIST_OPERATIONS: Final = (
    "append",
    "duplicate",
    "get_all",
    "get_first",
    "get_last",
    "length",
    "noop",
    "pop_first",
    "read",
    "shuffle",
)


def _step_list(
    state: Value, operation: str, arguments: Arguments, status: CallStatus, got: Any
) -> Any:
    if operation == "shuffle" and not arguments:
        return _shuffle(state, status, got)
    return _step_deterministic_list(state, operation, arguments, status, got)


def _execute_list(state: Value, operation: str, arguments: Arguments) -> tuple[Value, Any]:
    elements: tuple[Any, ...] = state.value
    match operation, arguments:
        case "append", (value,):
            return Value((*elements, value)), len(elements) + 1
        case "pop_first", ():
            return Value(elements[1:]), _element(elements, 0)
        case "duplicate", ():
            if len(elements) > DUPLICATE_LENGTH_MAX:
                raise OverflowError(f"duplicate accepts at most {DUPLICATE_LENGTH_MAX} elements")
            return Value(elements * 2), elements * 2
        case "get_first", ():
            return state, _element(elements, 0)
        case "get_last", ():
            return state, _element(elements, -1)
        case (("get_all" | "read"), ()):
            return state, elements
        case "length", ():
            return state, len(elements)
        case "noop", ():
            return state, None
        case _:
            raise _mismatch(operation, arguments, LIST_OPERATIONS)


_step_deterministic_list: Final = step_of(_execute_list)


def _check_list(operation: str, arguments: Arguments) -> None:
    if operation != "shuffle" or arguments:
        _check_call(_execute_list, Value(()), LIST_OPERATIONS, operation, arguments)


def _element(elements: tuple[Any, ...], index: int) -> Any:
    if not elements:
        raise IndexError("the list is empty")
    return elements[index]


def _shuffle(state: Value, status: CallStatus, got: Any) -> Any:
    """Return the state that the response reveals."""
    if status is CallStatus.ERROR:
        return IMPOSSIBLE
    if len(state.value) < 2 and status is CallStatus.UNKNOWN:
        return state
    if status is CallStatus.UNKNOWN or got is ANY_VALUE:
        raise NotModelled("a 'shuffle' without a recorded response leaves an unknown order")
    if type(got) is not tuple or Counter(map(exact, got)) != Counter(map(exact, state.value)):
        return IMPOSSIBLE
    return Value(got)


# --- texts by key -------------------------------------------------------------------------------

TEXT_OPERATIONS: Final = ("get", "put", "append")


def _execute_text_kv(
    state: Registers, operation: str, arguments: Arguments
) -> tuple[Registers, Any]:
    texts = state.registers
    match operation, arguments:
        case "get", (str() as key,):
            return state, texts.get(key, "")
        case "put", (str() as key, str() as text):
            return Registers({**texts, key: text}), None
        case "append", (str() as key, str() as text):
            return Registers({**texts, key: texts.get(key, "") + text}), None
        case _:
            raise _mismatch(operation, arguments, TEXT_OPERATIONS)


def _mismatch(operation: str, arguments: Arguments, known: tuple[str, ...]) -> NotModelled:
    if operation not in known:
        return UnknownOperation(operation, known)
    return NotModelled(f"'{operation}' does not take the arguments {arguments!r}")


def _check_call(
    execute: Execute, initial: Any, known: tuple[str, ...], operation: str, arguments: Arguments
) -> None:
    require_operation(operation, known)
    try:
        execute(initial, operation, arguments)
    except NotModelled as error:
        raise BadValue(f"'arguments': {error}") from error
    except LookupError:
        return  # the error response of an empty list


# --- integers as keys ---------------------------------------------------------------------------

_datatype_kv: Final = datatype_model(kv.KV)
_RANGES: Final = ("scan", "range")
_ONLY_KEY: Final = ""


def _step_kv(
    state: Registers, operation: str, arguments: Arguments, status: CallStatus, got: Any
) -> Any:
    """Execute a call on an integer as on a text. In Creek, such a call has an error response."""
    if not _has_integer_key(operation, arguments):
        if operation in _RANGES and _shows_integers(got):
            raise NotModelled(f"a '{operation}' of integers as keys has no defined order")
        return _datatype_kv.step(state, operation, arguments, status, got)
    if status is CallStatus.ERROR:
        after = _datatype_kv.step(state, operation, arguments, status, got)
        if after is not IMPOSSIBLE:
            return after
    key, registers = arguments[0], state.registers
    before = Registers({_ONLY_KEY: registers[key]} if key in registers else {})
    after = _datatype_kv.step(before, operation, (_ONLY_KEY, *arguments[1:]), status, got)
    if after is IMPOSSIBLE:
        return IMPOSSIBLE
    if after is before:
        return state
    changed = {other: value for other, value in registers.items() if other != key}
    if _ONLY_KEY in after.registers:
        changed[key] = after.registers[_ONLY_KEY]
    return Registers(changed)


def _has_integer_key(operation: str, arguments: Arguments) -> bool:
    return operation not in _RANGES and bool(arguments) and type(arguments[0]) is int


def _shows_integers(rows: Any) -> bool:
    return type(rows) is tuple and any(
        type(row) is tuple and len(row) == 2 and type(row[0]) is int for row in rows
    )


def _check_kv(operation: str, arguments: Arguments) -> None:
    _datatype_kv.check(operation, arguments)
    if _has_integer_key(operation, arguments):
        return
    for key in arguments[: 2 if operation == "range" else 1]:
        if type(key) is not str:
            expected = "a text" if operation in _RANGES else "a text or an integer"
            shown = short_text(key)
            raise BadValue(f"'arguments': the key of {operation} is {shown}; expected {expected}")


# --- keys ---------------------------------------------------------------------------------------


def _kv_keys(operation: str, arguments: Arguments) -> Keys:
    if operation == "scan" and not arguments:
        return frozenset([KeyRange()])
    if _has_integer_key(operation, arguments):
        return frozenset(arguments[:1])
    count = 2 if operation == "range" else 1
    keys = [each for each in arguments[:count] if type(each) is str]
    if len(keys) < count:
        return frozenset()  # a key of another type uses no register, since the call raises
    match operation, keys:
        case "scan", [prefix]:
            return frozenset([KeyRange(prefix)])
        case "range", [start, stop]:
            return frozenset([KeyRange(start=start, stop=stop)])
        case _:
            return frozenset(keys)


def _bank_keys(operation: str, arguments: Arguments) -> Keys:
    names = arguments[: 2 if operation == "transfer" else 1]
    if operation in ("accrue", "total") or any(type(each) is not str for each in names):
        return None
    return frozenset(names)


def _transaction_keys(operation: str, arguments: Arguments) -> Keys:
    # A malformed micro-operation makes the call raise, whatever the state is.
    triples = [each for each in arguments if type(each) is tuple and len(each) == 3]
    return frozenset(key for _, key, _ in triples if type(key) is str)


MODELS: Final = {
    each.name: each
    for each in (
        Model(
            "register",
            Value(None),
            step_of(_execute_register),
            readonly=frozenset({"read"}),
            check=partial(_check_call, _execute_register, Value(None), REGISTER_OPERATIONS),
        ),
        datatype_model(counter.COUNTER),
        Model(
            "list",
            Value(()),
            _step_list,
            readonly=frozenset({"get_first", "get_last", "get_all", "length", "read"}),
            check=_check_list,
        ),
        _datatype_kv._replace(step=_step_kv, keys=_kv_keys, check=_check_kv),
        datatype_model(bank.BANK, _bank_keys),
        datatype_model(transactions.TRANSACTIONS, _transaction_keys)._replace(
            check=check_transaction
        ),
        Model(
            "text-kv",
            Registers({}),
            step_of(_execute_text_kv),
            _kv_keys,
            frozenset({"get"}),
            partial(_check_call, _execute_text_kv, Registers({}), TEXT_OPERATIONS),
        ),
    )
}


def get_model(name: str) -> Model:
    """Return the model with this name, or raise `UnknownName`."""
    if name not in MODELS:
        raise UnknownName("model", name, [*MODELS, "package.module:variable"])
    return MODELS[name]
