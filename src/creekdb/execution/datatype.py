"""How many arguments an operation takes.

The replicated data type F: a name and its operations, plain functions of a transaction.

    >>> greeter = DataType("greeter")
    >>> @greeter.operation
    ... def greet(tx: Transaction, name: str) -> str:
    ...     tx.add(name, 1)
    ...     return f"hello, {name}, for the {tx.get(name)}. time"
    >>> machine = greeter.sequential()
    >>> machine.call("greet", "ann"), machine.call("greet", "ann")
    ('hello, ann, for the 1. time', 'hello, ann, for the 2. time')

Rules: an operation is a deterministic function of its transaction and its arguments; whatever it
raises is its answer, with its writes dropped, and reads the same in every process, but for Ctrl-C,
which is not its own; one that takes more steps than its data type allows is stopped, and that is
its answer. `call` refuses what could not work before it is sent; `run` turns the same faults into
answers, for by then they come from elsewhere and every replica must digest them alike. Must not
know which replica it is on, nor which store it runs against.
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
from creekdb.execution.step_limit import STEPS_MAX, CountedCode, LineCounter
from creekdb.execution.transaction import Transaction, View
from creekdb.protocol.membership.configuration import (
    MEMBERSHIP_KEY,
    MEMBERSHIP_OPERATION,
    apply_to_register,
)
from creekdb.protocol.request import NOOP, Operation, Outcome, Request
from creekdb.protocol.values import Key


class Arity(NamedTuple):
    least: int
    most: int | None
    """None: any number."""

    def accepts(self, count: int) -> bool:
        return count >= self.least and (self.most is None or count <= self.most)

    def covers(self, other: "Arity") -> bool:
        """Does it take whatever the other one takes?"""
        if other.most is None:
            return self.most is None and self.accepts(other.least)
        return self.accepts(other.least) and self.accepts(other.most)


Function = TypeVar("Function", bound=Callable[..., Any])

ERROR_LENGTH_MAX = 1000
RECURSION_MAX = 1000
"""How deep an operation may recurse, wherever the replica stands itself when it runs it."""
_RAISE = bytes([dis.opmap["RAISE_VARARGS"]])
_MEMORY_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class DataType:
    """A name and its operations: what is replicated."""

    def __init__(
        self,
        name: str,
        *,
        steps: int = STEPS_MAX,
        count_lines: bool = False,
        base: BaseState | None = None,
    ) -> None:
        """`base`: what the registers hold before any operation. `steps`: how many an operation may
        take (`creekdb.execution.step_limit`); the same on every replica, like the operations. With
        `count_lines`, loops that never touch the transaction are stopped as well; operations then
        take about five times as long."""
        if type(name) is not str or not name:
            raise BadValue(f"the name of a data type is a text, not {name!r}")
        if type(steps) is not int or steps < 1:
            raise BadValue(f"steps of {name} are {steps!r}: an int from 1 is needed")
        self.name = name
        self.base = base or EmptyBase()
        self.steps = steps
        self.count_lines = count_lines
        self._declarations: dict[str, Declaration] = {}
        self._last_stack_depth = 0
        # Not read-only: although it writes nothing, it is there to be ordered.
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
        """Declare an operation, as a decorator. Its name is the function's unless one is given."""

        def declare(declared: Function) -> Function:
            if not callable(declared):
                raise BadValue(f"an operation of {self.name} is a function, not {declared!r}")
            self._declare(name or declared.__name__, declared, readonly)
            return declared

        return declare if function is None else declare(function)

    @property
    def operations(self) -> tuple[str, ...]:
        """Their names, sorted; `noop` is one of them everywhere."""
        return tuple(sorted(self._declarations))

    def is_readonly(self, name: str) -> bool:
        """Does the operation promise not to write?"""
        return self._find(name).readonly

    def signature(self, name: str) -> str:
        """How to call the operation, for people."""
        return self._find(name).signature

    def arity(self, name: str) -> Arity:
        """How many arguments the operation takes."""
        return self._find(name).arity

    def can_run(self, name: str, count: int) -> bool:
        """Is there such an operation, and does it take so many arguments?"""
        declaration = self._declarations.get(name)
        return declaration is not None and declaration.arity.accepts(count)

    def function(self, name: str) -> Callable[..., Any]:
        """What the operation runs, for who describes it."""
        return self._find(name).function

    def call(self, name: str, *arguments: Any) -> Operation:
        """The operation to send, or `UnknownName` or `BadValue` if it could not work anywhere."""
        declaration = self._find(name)
        if not declaration.arity.accepts(len(arguments)):
            raise declaration.arity_error(len(arguments))
        if not is_row(arguments):
            for index, argument in enumerate(arguments):
                what = f"argument '{declaration.parameter(index)}' of {declaration.signature}"
                reject_unserializable(argument, what)
        return Operation(name, arguments)

    def run(self, request: Request, view: View) -> ExecutionResult:
        """Run the request against `view`, which it does not change."""
        operation = request.operation
        return self.run_as(request, operation.name, operation.arguments, view)

    def run_as(
        self, request: Request, name: str, arguments: tuple[Any, ...], view: View
    ) -> ExecutionResult:
        """The same, as if that were the operation that the request asks for."""
        declaration = self._declarations.get(name)
        readonly = declaration is not None and declaration.readonly
        transaction = Transaction(request, view, readonly, self.steps, name)
        recursion_limit = sys.getrecursionlimit()
        sys.setrecursionlimit(self._stack_depth() + RECURSION_MAX)
        try:
            if declaration is None:
                declaration = _CLUSTER_OPERATIONS.get(name) or self._find(name)
            if not declaration.arity.accepts(len(arguments)):
                raise declaration.arity_error(len(arguments))
            given = copy_out(arguments)
            if self.count_lines:
                value = declaration.call_counting_lines(transaction, given)
            else:
                value = declaration.function(transaction, *given)
            if not is_row(value):
                reject_unserializable(value, f"the answer of '{name}'")
            outcome = Outcome(value)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not _is_raised_explicitly(error):
                raise  # the person at this machine, not the operation
            outcome = Outcome(error=error_text(error))
        finally:
            sys.setrecursionlimit(recursion_limit)
        return transaction.close(outcome)

    def changes(self, registers: dict[Key, Any]) -> dict[Key, Any]:
        """What of the registers differs from the base, with None for what was deleted: not to be
        written to."""
        return changes(registers.items(), self.base)

    def sequential(self) -> Sequential:
        """A fresh machine that runs this data type alone."""
        return Sequential(self)

    def _stack_depth(self) -> int:
        """How many frames there are already. Mostly as many as the last time, which is told at
        once; to count them costs more than a small operation."""
        try:
            if sys._getframe(self._last_stack_depth).f_back is None:
                return self._last_stack_depth
        except ValueError:  # there are fewer
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
    """A data type in the place of another: of its name, with its operations, limits and initial
    data. What it makes of running them is its own."""

    def __init__(self, datatype: DataType, *, count_lines: bool = False) -> None:
        super().__init__(
            datatype.name,
            steps=datatype.steps,
            count_lines=count_lines or datatype.count_lines,
            base=datatype.base,
        )
        self._declarations = datatype._declarations


class Declaration:
    """One operation of a data type: the function and how it may be called."""

    __slots__ = ("_counted", "arity", "function", "parameter_names", "readonly", "signature")

    def __init__(self, name: str, function: Callable[..., Any], readonly: bool) -> None:
        self.function = function
        self._counted = CountedCode(str(getattr(function, "__module__", "")))
        self.readonly = readonly
        parameters = list(inspect.signature(function).parameters.values())
        kinds = [each.kind for each in parameters]
        if not parameters or kinds[0] not in _SINGLE_POSITIONAL:
            raise BadValue(f"operation '{name}' must take the transaction as its first parameter")
        if any(each not in _POSITIONAL for each in kinds):
            raise BadValue(f"operation '{name}' must take its arguments by position")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise BadValue(f"operation '{name}' is carried out at once: write it without 'async'")
        if inspect.isgeneratorfunction(function):
            raise BadValue(f"operation '{name}' has one answer: write 'return', not 'yield'")
        arguments = parameters[1:]
        plain = [each for each in arguments if each.kind in _SINGLE_POSITIONAL]
        self.parameter_names = tuple(each.name for each in arguments)
        required = sum(each.default is inspect.Parameter.empty for each in plain)
        self.arity = Arity(required, len(plain) if len(plain) == len(arguments) else None)
        self.signature = name + str(inspect.Signature(arguments))

    def parameter(self, index: int) -> str:
        """The name of the parameter that takes the argument at `index`."""
        return self.parameter_names[min(index, len(self.parameter_names) - 1)]

    def call_counting_lines(self, transaction: Transaction, arguments: tuple[Any, ...]) -> Any:
        """Whoever traces already, such as a debugger, does so again afterwards."""
        before = sys.gettrace()
        sys.settrace(LineCounter(self._counted, transaction.step).trace_call)
        try:
            return self.function(transaction, *arguments)
        finally:
            sys.settrace(before)

    def arity_error(self, count: int) -> BadValue:
        """What is raised where it does not take so many."""
        given = f"{count} argument" + ("" if count == 1 else "s")
        return BadValue(f"{self.signature} cannot take {given}")


_SINGLE_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_POSITIONAL = (*_SINGLE_POSITIONAL, inspect.Parameter.VAR_POSITIONAL)


def error_text(error: BaseException) -> str:
    """`TypeName: message`, the same in every process: without addresses, valid Unicode, bounded."""
    kind = type(error).__name__
    if isinstance(error, RecursionError):
        return f"{kind}: maximum recursion depth exceeded"  # where exactly, differs
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a __str__ that raises is a part of the answer, too
        return kind
    message = _MEMORY_ADDRESS.sub("", message)
    message = message.encode(errors="backslashreplace").decode()
    return (f"{kind}: {message}" if message else kind)[:ERROR_LENGTH_MAX]


def _is_raised_explicitly(error: BaseException) -> bool:
    """Was there a `raise` where it began? Ctrl-C comes between two steps of whatever is run, and is
    never seen at that one."""
    traceback = error.__traceback__
    assert traceback is not None, "it was caught"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    at = traceback.tb_lasti
    return traceback.tb_frame.f_code.co_code[at : at + 1] == _RAISE


def _noop(tx: Transaction) -> None:
    pass


def _change_members(tx: Transaction, *arguments: Any) -> Any:
    value = apply_to_register(tx.get(MEMBERSHIP_KEY), arguments)
    tx.put(MEMBERSHIP_KEY, value)
    return value


_CLUSTER_OPERATIONS = {
    MEMBERSHIP_OPERATION: Declaration(MEMBERSHIP_OPERATION, _change_members, readonly=False)
}
"""What replicas ask of every data type, and clients cannot: `call` does not know it."""
