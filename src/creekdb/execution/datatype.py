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
- An operation that leaves its declared footprint is stopped in the same way.
- `call` rejects an invalid call before it is sent. `run` turns the same faults into responses,
  because every replica must process a request from another replica alike.

A data type does not depend on the replica that runs it, nor on the store.
"""

import dis
import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

from creekdb.errors import BadValue, UnknownName
from creekdb.execution.base_state import BaseState, EmptyBase, changes
from creekdb.execution.footprint import Footprint, make_footprint
from creekdb.execution.operation_errors import ErrorObserver, error_text
from creekdb.execution.parameters import Parameter, ParameterList
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
Prefixes: TypeAlias = Callable[..., list[Any]]
"""Function of a call's arguments that returns key prefixes."""

RECURSION_MAX = 1000
"""Maximum recursion depth of an operation, independent of the stack depth of the replica."""
_RAISE = bytes([dis.opmap["RAISE_VARARGS"]])


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
        self.error_observer: ErrorObserver | None = None
        """Observer of exceptions in operations, which keep their tracebacks there."""
        # Not read-only: it writes nothing, but its purpose is to be ordered.
        self._declare(Declaration(NOOP.name, _noop, readonly=False, touches=_nothing))

    def __repr__(self) -> str:
        return f"<DataType '{self.name}': {', '.join(self.operations)}>"

    @overload
    def operation(self, function: Function, /) -> Function: ...

    @overload
    def operation(
        self,
        /,
        *,
        readonly: bool = False,
        name: str | None = None,
        touches: Prefixes | None = None,
        reads: Prefixes | None = None,
        stores: bool = False,
    ) -> Callable[[Function], Function]: ...

    def operation(
        self,
        function: Function | None = None,
        /,
        *,
        readonly: bool = False,
        name: str | None = None,
        touches: Prefixes | None = None,
        reads: Prefixes | None = None,
        stores: bool = False,
    ) -> Function | Callable[[Function], Function]:
        """Declare an operation, as a decorator. `name` defaults to the name of the function.

        `stores` is True if the only effect of a call is that its second argument is stored under
        its first one, a string. Loads of many rows then need not call the function.

        `touches` takes the arguments of a call and returns its footprint, a list of key prefixes
        (`creekdb.execution.footprint`). `reads` returns further ones that the call only reads.
        Without `touches`, a call may touch every register.
        """

        def declare(declared: Function) -> Function:
            if not callable(declared):
                raise BadValue(f"an operation of {self.name} is a function, not {declared!r}")
            self._declare(
                Declaration(name or declared.__name__, declared, readonly, touches, reads, stores)
            )
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

    def parameters(self, name: str) -> tuple[Parameter, ...]:
        """Return the parameters of the operation, without the transaction."""
        return self._find(name).parameters.items

    def name_of(self, operation: str | Callable[..., Any]) -> str:
        """Return the name of an operation that is given by its name or its function."""
        if isinstance(operation, str):
            return operation
        for name, declaration in self._declarations.items():
            if declaration.function is operation:
                return name
        function = getattr(operation, "__name__", repr(operation))
        raise UnknownName(f"operation of {self.name}", function, self.operations)

    def function(self, name: str) -> Callable[..., Any]:
        """Return the function of the operation, for introspection."""
        return self._find(name).function

    def functions(self, name: str) -> tuple[Callable[..., Any], ...]:
        """Return the function of the operation, followed by those of its footprint."""
        found = self._find(name)
        return tuple(filter(None, (found.function, found.touches, found.reads)))

    def call(self, name: str, /, *arguments: Any, **named: Any) -> Operation:
        """Return the operation to send. Raise `UnknownName` or `BadValue` for an invalid call."""
        declaration = self._find(name)
        if named:
            arguments = declaration.parameters.bind(arguments, named)
        if not declaration.arity.accepts(len(arguments)):
            raise declaration.arity_error(len(arguments))
        if not is_row(arguments):
            for index, argument in enumerate(arguments):
                reject_unserializable(argument, declaration.parameters.argument_text(index))
        return Operation(name, arguments)

    def called_operation(self, operation: Operation) -> Operation:
        """Return the operation that the client called. A wrapper may have put it into another."""
        return operation

    def footprint(self, operation: Operation) -> Footprint | None:
        """Return the registers that an execution of `operation` can touch, or None for all.

        The result is None for an operation that is unknown, or whose footprint is invalid.
        """
        name, arguments = operation.name, operation.arguments
        declaration = self._declarations.get(name) or _CLUSTER_OPERATIONS.get(name)
        if declaration is None or declaration.touches is None:
            return None
        try:
            return declaration.footprint(copy_out(arguments))
        except BaseException as error:
            if _is_interrupt(error):
                raise
            return None  # the execution responds with the error

    def checked_call(self, name: str, /, *arguments: Any, **named: Any) -> Operation:
        """Return the operation of a client's call, as `call`, with the annotated types.

        Raise `BadValue` for arguments of other types (`creekdb.execution.argument_types`).
        """
        operation = self.call(name, *arguments, **named)
        typed = self._find(name).parameters.checked(operation.arguments)
        return operation if typed is operation.arguments else Operation(name, typed)

    def checked_arguments(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a call as `checked_call` does."""
        declaration = self._find(name)
        if not declaration.arity.accepts(len(arguments)):
            raise declaration.arity_error(len(arguments))
        if not is_row(arguments):
            for index, argument in enumerate(arguments):
                reject_unserializable(argument, declaration.parameters.argument_text(index))
        return declaration.parameters.checked(arguments)

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
            if declaration.touches is not None:
                transaction.restrict(declaration.footprint(call_arguments))
            if self.count_lines:
                value = declaration.call_counting_lines(transaction, call_arguments)
            else:
                value = declaration.function(transaction, *call_arguments)
            if not is_row(value):
                reject_unserializable(value, f"the response of '{name}'")
            outcome = Outcome(value)
        except BaseException as error:
            if _is_interrupt(error):
                raise
            outcome = Outcome(error=error_text(error))
            if self.error_observer is not None and declaration is not None:
                self.error_observer(name, error)
        finally:
            sys.setrecursionlimit(recursion_limit)
        return transaction.close(outcome)

    def run_rows(
        self,
        request: Request,
        name: str,
        leading: tuple[Any, ...],
        rows: tuple[tuple[Any, ...], ...],
        view: View,
    ) -> ExecutionResult:
        """Run the operation once per row, with the leading arguments and those of the row.

        All executions share one transaction, and therefore its step limit. They take effect
        together, or none does if one raises. The outcome has no value.
        """
        declaration = self._declarations.get(name)
        if declaration is not None and declaration.stores and not leading:
            stored = _stored_registers(rows)
            if stored is not None and len(rows) <= self.steps:
                return ExecutionResult(Outcome(), stored)
        readonly = declaration is not None and declaration.readonly
        transaction = Transaction(request, view, readonly, self.steps, name, self.sql_engine)
        recursion_limit = sys.getrecursionlimit()
        sys.setrecursionlimit(self._stack_depth() + RECURSION_MAX)
        try:
            if declaration is None:
                declaration = self._find(name)
            accepts, touches = declaration.arity.accepts, declaration.touches
            call = declaration.function
            if self.count_lines:
                call = declaration.function_counting_lines
            for row in rows:
                arguments = leading + row
                if not accepts(len(arguments)):
                    raise declaration.arity_error(len(arguments))
                arguments = copy_out(arguments)
                if touches is not None:
                    transaction.restrict(declaration.footprint(arguments))
                call(transaction, *arguments)
            outcome = Outcome()
        except BaseException as error:
            if _is_interrupt(error):
                raise
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

    def _declare(self, declaration: "Declaration") -> None:
        if declaration.name in self._declarations:
            raise BadValue(f"{self.name} has an operation '{declaration.name}' already")
        self._declarations[declaration.name] = declaration

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
        self._wrapped = datatype
        self.error_observer = datatype.error_observer

    def called_operation(self, operation: Operation) -> Operation:
        return self._wrapped.called_operation(operation)

    def footprint(self, operation: Operation) -> Footprint | None:
        return self._wrapped.footprint(operation)


class Declaration:
    """Function, arity, signature and footprint of one operation."""

    __slots__ = (
        "arity",
        "function",
        "name",
        "parameters",
        "readonly",
        "reads",
        "signature",
        "stores",
        "touches",
    )

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        readonly: bool,
        touches: Prefixes | None = None,
        reads: Prefixes | None = None,
        stores: bool = False,
    ) -> None:
        self.name = name
        self.stores = stores
        self.function = function
        self.readonly = readonly
        self.touches = touches
        self.reads = reads
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
        self.arity = _arity_of(arguments)
        self.signature = name + str(inspect.Signature(arguments))
        self.parameters = ParameterList(function, self.signature, arguments)
        if reads is not None and touches is None:
            raise BadValue(f"operation '{name}' declares 'reads' without 'touches': declare both")
        for parameter, prefixes in (("touches", touches), ("reads", reads)):
            if prefixes is not None:
                self._check_prefixes(parameter, prefixes)

    def footprint(self, arguments: tuple[Any, ...]) -> Footprint:
        """Return the footprint of a call. Raise `BadValue` if it is not a list of prefixes."""
        assert self.touches is not None
        reads = [] if self.reads is None else self.reads(*arguments)
        return make_footprint(self.name, self.touches(*arguments), reads)

    def call_counting_lines(self, transaction: Transaction, arguments: tuple[Any, ...]) -> Any:
        """Call the function and count lines as steps. Restore the previous tracer afterwards."""
        previous_tracer = sys.gettrace()
        module = str(getattr(self.function, "__module__", ""))
        sys.settrace(line_counter(module, transaction.step))
        try:
            return self.function(transaction, *arguments)
        finally:
            sys.settrace(previous_tracer)

    def function_counting_lines(self, transaction: Transaction, *arguments: Any) -> Any:
        """Call the function like `call_counting_lines`, with its arguments by position."""
        return self.call_counting_lines(transaction, arguments)

    def _check_prefixes(self, parameter: str, prefixes: Prefixes) -> None:
        if not callable(prefixes):
            raise BadValue(
                f"'{parameter}' of operation '{self.name}' is {prefixes!r}: it must be a function "
                "of the arguments that returns a list of key prefixes"
            )
        arity = _arity_of(list(inspect.signature(prefixes).parameters.values()))
        if not arity.covers(self.arity):
            raise BadValue(
                f"'{parameter}' of operation '{self.name}' must take the arguments of "
                f"{self.signature}"
            )

    def arity_error(self, count: int) -> BadValue:
        """Return the error for a call with `count` arguments."""
        if count < self.arity.minimum:
            return self.parameters.missing_error(count)
        count_text = f"{count} argument" + ("" if count == 1 else "s")
        return BadValue(f"{self.signature} cannot take {count_text}")


_SINGLE_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_POSITIONAL = (*_SINGLE_POSITIONAL, inspect.Parameter.VAR_POSITIONAL)


def _arity_of(parameters: list[inspect.Parameter]) -> Arity:
    plain = [each for each in parameters if each.kind in _SINGLE_POSITIONAL]
    required = sum(each.default is inspect.Parameter.empty for each in plain)
    return Arity(required, len(plain) if len(plain) == len(parameters) else None)


def _is_interrupt(error: BaseException) -> bool:
    """True for Ctrl-C at the terminal, which is no error of the operation."""
    return isinstance(error, KeyboardInterrupt) and not _is_raised_explicitly(error)


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


def _stored_registers(rows: tuple[tuple[Any, ...], ...]) -> dict[Key, Any] | None:
    """Return the values by key, or None if a row is no pair of a string and a value."""
    for row in rows:
        if len(row) != 2 or type(row[0]) is not str:
            return None
    return dict(rows)


def _noop(tx: Transaction) -> None:
    pass


def _nothing() -> list[Any]:
    return []


def _change_members(tx: Transaction, *arguments: Any) -> Any:
    value = apply_to_register(tx.get(MEMBERSHIP_KEY), arguments)
    tx.put(MEMBERSHIP_KEY, value)
    return value


_CLUSTER_OPERATIONS = {
    MEMBERSHIP_OPERATION: Declaration(
        MEMBERSHIP_OPERATION,
        _change_members,
        readonly=False,
        touches=lambda *arguments: [MEMBERSHIP_KEY],
    )
}
"""Operations that replicas issue on every data type. `call` rejects their names from clients."""
