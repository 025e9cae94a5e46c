"""The replicated data type F: a name and its operations, plain functions of a transaction.

    >>> greeter = DataType("greeter")
    >>> @greeter.operation
    ... def greet(tx: Transaction, name: str) -> str:
    ...     tx.add(name, 1)
    ...     return f"hello, {name}, for the {tx.get(name)}. time"
    >>> machine = greeter.sequential()
    >>> machine.call("greet", "ann"), machine.call("greet", "ann")
    ('hello, ann, for the 1. time', 'hello, ann, for the 2. time')

Rules:
- An operation is a deterministic function of its transaction and its arguments.
- An exception is the operation's response. Its writes are dropped, and its text is equal in every
  process. Ctrl-C at the terminal is no error of the operation and propagates.
- An operation that exceeds the step limit of its data type is stopped, with an error as response.
- `call` rejects an invalid call before it is sent. `run` turns the same faults into responses,
  because every replica must process a request from another replica alike.

A data type does not depend on the replica that runs it, nor on the store.
"""

import dis
import inspect
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, overload

from creekdb.errors import BadValue, UnknownName
from creekdb.execution.base_state import BaseState, EmptyBase, changes
from creekdb.execution.result import ExecutionResult
from creekdb.execution.sequential import Sequential
from creekdb.execution.serializable import copy_out, is_row, reject_unserializable
from creekdb.execution.sql_engine import load_sql_engine
from creekdb.execution.step_limit import STEPS_MAX, line_counter
from creekdb.execution.transaction import Transaction, View
from creekdb.protocol.membership.configuration import (
    MEMBERSHIP_KEY,
    MEMBERSHIP_OPERATION,
    apply_to_register,
)
from creekdb.protocol.request import NOOP, Operation, Outcome, Request
from creekdb.protocol.values import Key


class Arity(NamedTuple):
    """Number of arguments that an operation accepts."""

    minimum: int
    maximum: int | None
    """None if the number is unlimited."""

    def accepts(self, count: int) -> bool:
        return count >= self.minimum and (self.maximum is None or count <= self.maximum)

    def covers(self, other: "Arity") -> bool:
        """True if every number of arguments that `other` accepts is accepted."""
        if other.maximum is None:
            return self.maximum is None and self.accepts(other.minimum)
        return self.accepts(other.minimum) and self.accepts(other.maximum)


Function = TypeVar("Function", bound=Callable[..., Any])

ERROR_LENGTH_MAX = 1000
RECURSION_MAX = 1000
"""Maximum recursion depth of an operation, independent of the stack depth of the replica."""
_RAISE = bytes([dis.opmap["RAISE_VARARGS"]])
_MEMORY_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class DataType:
    """Name, operations and initial data of a replicated object."""

    def __init__(
        self,
        name: str,
        *,
        steps: int = STEPS_MAX,
        count_lines: bool = False,
        base: BaseState | None = None,
        sql: bool = False,
    ) -> None:
        """`base` holds the initial registers. `steps` is the step limit of one operation
        (`creekdb.execution.step_limit`). It must be equal on every replica, like the operations.

        `count_lines` also stops loops that never use the transaction. Operations then take about
        five times as long.

        `sql` permits `tx.sql` in operations. It requires the package of `creekdb[sql]`.
        """
        if type(name) is not str or not name:
            raise BadValue(f"the name of a data type must be a non-empty str, not {name!r}")
        if type(steps) is not int or steps < 1:
            raise BadValue(f"the step limit of {name} must be an int from 1, not {steps!r}")
        self.name = name
        self.base = base or EmptyBase()
        self.steps = steps
        self.count_lines = count_lines
        self.sql_engine = load_sql_engine(name) if sql else None
        """Engine of `tx.sql`, or None. Its version must be equal on every replica."""
        self._declarations: dict[str, Declaration] = {}
        self._last_stack_depth = 0
        # Not read-only: it writes nothing, but its purpose is to be ordered.
        self._declare(NOOP.name, _noop, readonly=False)

    def __repr__(self) -> str:
        return f"<DataType '{self.name}': {', '.join(self.operations)}>"

    @overload
    def operation(self, function: Function, /) -> Function: ...

    @overload
    def operation(
        self, /, *, readonly: bool = False, name: str | None = None
    ) -> Callable[[Function], Function]: ...

    def operation(
        self,
        function: Function | None = None,
        /,
        *,
        readonly: bool = False,
        name: str | None = None,
    ) -> Function | Callable[[Function], Function]:
        """Declare an operation, as a decorator. `name` defaults to the name of the function."""

        def declare(declared: Function) -> Function:
            if not callable(declared):
                raise BadValue(f"an operation of {self.name} is a function, not {declared!r}")
            self._declare(name or declared.__name__, declared, readonly)
            return declared

        return declare if function is None else declare(function)

    @property
    def operations(self) -> tuple[str, ...]:
        """Names of the operations, sorted. Every data type includes `noop`."""
        return tuple(sorted(self._declarations))

    def is_readonly(self, name: str) -> bool:
        """True if the operation is declared read-only."""
        return self._find(name).readonly

    def signature(self, name: str) -> str:
        """Return the signature of the operation, for display."""
        return self._find(name).signature

    def arity(self, name: str) -> Arity:
        """Return the number of arguments that the operation accepts."""
        return self._find(name).arity

    def can_run(self, name: str, count: int) -> bool:
        """True if the operation exists and accepts `count` arguments."""
        declaration = self._declarations.get(name)
        return declaration is not None and declaration.arity.accepts(count)

    def function(self, name: str) -> Callable[..., Any]:
        """Return the function of the operation, for introspection."""
        return self._find(name).function

    def call(self, name: str, *arguments: Any) -> Operation:
        """Return the operation to send. Raise `UnknownName` or `BadValue` for an invalid call."""
        declaration = self._find(name)
        if not declaration.arity.accepts(len(arguments)):
            raise declaration.arity_error(len(arguments))
        if not is_row(arguments):
            for index, argument in enumerate(arguments):
                subject = f"argument '{declaration.parameter(index)}' of {declaration.signature}"
                reject_unserializable(argument, subject)
        return Operation(name, arguments)

    def run(self, request: Request, view: View) -> ExecutionResult:
        """Run the request against `view` without changing it."""
        operation = request.operation
        return self.run_as(request, operation.name, operation.arguments, view)

    def run_as(
        self, request: Request, name: str, arguments: tuple[Any, ...], view: View
    ) -> ExecutionResult:
        """Run the request as if it called the operation `name` with `arguments`."""
        declaration = self._declarations.get(name)
        readonly = declaration is not None and declaration.readonly
        transaction = Transaction(request, view, readonly, self.steps, name, self.sql_engine)
        recursion_limit = sys.getrecursionlimit()
        sys.setrecursionlimit(self._stack_depth() + RECURSION_MAX)
        try:
            if declaration is None:
                declaration = _CLUSTER_OPERATIONS.get(name) or self._find(name)
            if not declaration.arity.accepts(len(arguments)):
                raise declaration.arity_error(len(arguments))
            call_arguments = copy_out(arguments)
            if self.count_lines:
                value = declaration.call_counting_lines(transaction, call_arguments)
            else:
                value = declaration.function(transaction, *call_arguments)
            if not is_row(value):
                reject_unserializable(value, f"the response of '{name}'")
            outcome = Outcome(value)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not _is_raised_explicitly(error):
                raise  # Ctrl-C at the terminal, not an error of the operation
            outcome = Outcome(error=error_text(error))
        finally:
            sys.setrecursionlimit(recursion_limit)
        return transaction.close(outcome)

    def changes(self, registers: dict[Key, Any]) -> dict[Key, Any]:
        """Return the registers that differ from the base, with None for deleted registers.

        The result must not be modified.
        """
        return changes(registers.items(), self.base)

    def sequential(self) -> Sequential:
        """Return a new sequential machine for this data type."""
        return Sequential(self)

    def _stack_depth(self) -> int:
        """Return the number of frames on the stack.

        The depth is mostly that of the last call, which a single lookup confirms. Counting the
        frames costs more than a small operation.
        """
        try:
            if sys._getframe(self._last_stack_depth).f_back is None:
                return self._last_stack_depth
        except ValueError:  # the stack is shallower
            self._last_stack_depth = 0
        frame = sys._getframe()
        depth = 0
        while (caller := frame.f_back) is not None:
            frame = caller
            depth += 1
        self._last_stack_depth = depth
        return depth

    def _declare(self, name: str, function: Callable[..., Any], readonly: bool) -> None:
        if name in self._declarations:
            raise BadValue(f"{self.name} has an operation '{name}' already")
        self._declarations[name] = Declaration(name, function, readonly)

    def _find(self, name: str) -> "Declaration":
        declaration = self._declarations.get(name)
        if declaration is None:
            raise UnknownName(f"operation of {self.name}", name, self.operations)
        return declaration


class DataTypeWrapper(DataType):
    """Data type that replaces another one, with its name, operations, limits and initial data.

    A subclass changes how operations run.
    """

    def __init__(self, datatype: DataType, *, count_lines: bool = False) -> None:
        super().__init__(
            datatype.name,
            steps=datatype.steps,
            count_lines=count_lines or datatype.count_lines,
            base=datatype.base,
        )
        self.sql_engine = datatype.sql_engine
        self._declarations = datatype._declarations


class Declaration:
    """Function, arity and signature of one operation."""

    __slots__ = ("arity", "function", "parameter_names", "readonly", "signature")

    def __init__(self, name: str, function: Callable[..., Any], readonly: bool) -> None:
        self.function = function
        self.readonly = readonly
        parameters = list(inspect.signature(function).parameters.values())
        kinds = [each.kind for each in parameters]
        if not parameters or kinds[0] not in _SINGLE_POSITIONAL:
            raise BadValue(f"operation '{name}' must take the transaction as its first parameter")
        if any(each not in _POSITIONAL for each in kinds):
            raise BadValue(f"operation '{name}' must take its arguments by position")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise BadValue(f"operation '{name}' must be synchronous: declare it without 'async'")
        if inspect.isgeneratorfunction(function):
            raise BadValue(f"operation '{name}' must have one response: use 'return', not 'yield'")
        arguments = parameters[1:]
        plain = [each for each in arguments if each.kind in _SINGLE_POSITIONAL]
        self.parameter_names = tuple(each.name for each in arguments)
        required = sum(each.default is inspect.Parameter.empty for each in plain)
        self.arity = Arity(required, len(plain) if len(plain) == len(arguments) else None)
        self.signature = name + str(inspect.Signature(arguments))

    def parameter(self, index: int) -> str:
        """Return the name of the parameter that receives the argument at `index`."""
        return self.parameter_names[min(index, len(self.parameter_names) - 1)]

    def call_counting_lines(self, transaction: Transaction, arguments: tuple[Any, ...]) -> Any:
        """Call the function and count lines as steps. Restore the previous tracer afterwards."""
        previous_tracer = sys.gettrace()
        module = str(getattr(self.function, "__module__", ""))
        sys.settrace(line_counter(module, transaction.step))
        try:
            return self.function(transaction, *arguments)
        finally:
            sys.settrace(previous_tracer)

    def arity_error(self, count: int) -> BadValue:
        """Return the error for a call with `count` arguments."""
        count_text = f"{count} argument" + ("" if count == 1 else "s")
        return BadValue(f"{self.signature} cannot take {count_text}")


_SINGLE_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_POSITIONAL = (*_SINGLE_POSITIONAL, inspect.Parameter.VAR_POSITIONAL)


def error_text(error: BaseException) -> str:
    """Return `TypeName: message`, equal in every process: no addresses, valid Unicode, bounded."""
    kind = type(error).__name__
    if isinstance(error, RecursionError):
        return f"{kind}: maximum recursion depth exceeded"  # the original text varies
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a __str__ that raises is a part of the response
        return kind
    message = _MEMORY_ADDRESS.sub("", message)
    message = message.encode(errors="backslashreplace").decode()
    return (f"{kind}: {message}" if message else kind)[:ERROR_LENGTH_MAX]


def _is_raised_explicitly(error: BaseException) -> bool:
    """True if a `raise` statement raised the error.

    Ctrl-C interrupts between two instructions and is never attributed to a `raise`.
    """
    traceback = error.__traceback__
    assert traceback is not None, "a caught exception has a traceback"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    index = traceback.tb_lasti
    return traceback.tb_frame.f_code.co_code[index : index + 1] == _RAISE


def _noop(tx: Transaction) -> None:
    pass


def _change_members(tx: Transaction, *arguments: Any) -> Any:
    value = apply_to_register(tx.get(MEMBERSHIP_KEY), arguments)
    tx.put(MEMBERSHIP_KEY, value)
    return value


_CLUSTER_OPERATIONS = {
    MEMBERSHIP_OPERATION: Declaration(MEMBERSHIP_OPERATION, _change_members, readonly=False)
}
"""Operations that replicas issue on every data type. `call` rejects their names from clients."""
