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

from collections.abc import Callable
from typing import Any, TypeVar, overload

from creekdb.errors import BadValue, UnknownName
from creekdb.execution.base_state import BaseState, EmptyBase, changes
from creekdb.execution.declaration import Arity as Arity
from creekdb.execution.declaration import Declaration
from creekdb.execution.declaration import Prefixes as Prefixes
from creekdb.execution.footprint import Footprint
from creekdb.execution.operation_errors import ErrorObserver, error_text, is_interrupt
from creekdb.execution.parameters import Parameter
from creekdb.execution.result import ExecutionResult
from creekdb.execution.sequential import Sequential
from creekdb.execution.serializable import copy_out
from creekdb.execution.sql_engine import load_sql_engine
from creekdb.execution.step_limit import STEPS_MAX
from creekdb.execution.transaction import Transaction, View
from creekdb.protocol.membership.configuration import (
    MEMBERSHIP_KEY,
    MEMBERSHIP_OPERATION,
    apply_to_register,
)
from creekdb.protocol.request import NOOP, Operation, Outcome, Request
from creekdb.protocol.values import Key

Function = TypeVar("Function", bound=Callable[..., Any])


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
                Declaration(
                    name or declared.__name__,
                    declared,
                    bool(readonly),
                    touches,
                    reads,
                    bool(stores),
                )
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
        declaration.check(arguments)
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
            if self.count_lines:
                return declaration.footprint_within(copy_out(arguments), self.steps)
            return declaration.footprint(copy_out(arguments))
        except BaseException as error:
            if is_interrupt(error):
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
        return self._find(name).checked(arguments)

    def run(self, request: Request, view: View) -> ExecutionResult:
        """Run the request against `view` without changing it."""
        operation = request.operation
        return self.run_as(request, operation.name, operation.arguments, view)

    def run_as(
        self, request: Request, name: str, arguments: tuple[Any, ...], view: View
    ) -> ExecutionResult:
        """Run the request as if it called the operation `name` with `arguments`."""
        declaration = self._declarations.get(name) or _CLUSTER_OPERATIONS.get(name)
        if declaration is None:
            return self._unknown_operation(name)
        transaction = Transaction(
            request, view, declaration.readonly, self.steps, name, self.sql_engine
        )
        return declaration.run(transaction, arguments, self.count_lines, self.error_observer)

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
        if declaration is None:
            return self._unknown_operation(name)
        if declaration.stores and not leading and len(rows) <= self.steps and not self.count_lines:
            for row in rows:
                if not declaration.stores_row(row):
                    break
            else:
                return ExecutionResult(Outcome(), dict(rows))
        transaction = Transaction(
            request, view, declaration.readonly, self.steps, name, self.sql_engine
        )
        return declaration.run_rows(
            transaction, leading, rows, self.count_lines, self.error_observer
        )

    def changes(self, registers: dict[Key, Any]) -> dict[Key, Any]:
        """Return the registers that differ from the base, with None for deleted registers.

        The result must not be modified.
        """
        return changes(registers.items(), self.base)

    def sequential(self) -> Sequential:
        """Return a new sequential machine for this data type."""
        return Sequential(self)

    def _declare(self, declaration: Declaration) -> None:
        if declaration.name in self._declarations:
            raise BadValue(f"{self.name} has an operation '{declaration.name}' already")
        self._declarations[declaration.name] = declaration

    def _unknown_operation(self, name: str) -> ExecutionResult:
        """Return the result of a request whose operation this data type does not have."""
        error = UnknownName(f"operation of {self.name}", name, self.operations)
        return ExecutionResult(Outcome(error=error_text(error)))

    def _find(self, name: str) -> Declaration:
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
