"""Declaration of one operation, and its invocation.

A fault of a call is its response, because every replica must process a request alike. Ctrl-C at the
terminal is no fault of the operation and propagates.
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from creekdb.errors import BadValue
from creekdb.execution.footprint import Footprint, make_footprint
from creekdb.execution.operation_errors import ErrorObserver, error_text, is_interrupt
from creekdb.execution.parameters import ParameterList
from creekdb.execution.recursion_limit import RecursionLimit
from creekdb.execution.result import ExecutionResult
from creekdb.execution.serializable import copy_out, is_row, reject_unserializable
from creekdb.execution.step_limit import StepCounter, Tracer, line_counter
from creekdb.execution.transaction import Transaction
from creekdb.protocol.request import Outcome

Prefixes: TypeAlias = Callable[..., list[Any]]
"""Function of a call's arguments that returns key prefixes."""

RECURSION_LIMIT: Final = RecursionLimit()
_SINGLE_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_POSITIONAL: Final = (*_SINGLE_POSITIONAL, inspect.Parameter.VAR_POSITIONAL)


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


class Declaration:
    """Function, arity, signature and footprint of one operation."""

    __slots__ = (
        "_count_max",
        "_count_min",
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
        self.touches: Callable[..., Any] | None = touches
        self.reads: Callable[..., Any] | None = reads
        parameters = list(inspect.signature(function).parameters.values())
        kinds = [each.kind for each in parameters]
        if not parameters or kinds[0] not in _SINGLE_POSITIONAL:
            raise BadValue(f"operation '{name}' must take the transaction as its first parameter")
        for each in parameters:
            if each.kind not in _POSITIONAL:
                raise BadValue(
                    f"operation '{name}' must take its arguments by position, unlike "
                    f"'{each.name}'; {_remedy_of(each, parameters)}"
                )
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise BadValue(f"operation '{name}' must be synchronous: declare it without 'async'")
        if inspect.isgeneratorfunction(function):
            raise BadValue(f"operation '{name}' must have one response: use 'return', not 'yield'")
        arguments = parameters[1:]
        self.arity = _arity_of(arguments)
        self._count_min = self.arity.minimum
        self._count_max = sys.maxsize if self.arity.maximum is None else self.arity.maximum
        self.signature = name + str(inspect.Signature(arguments))
        self.parameters = ParameterList(function, self.signature, arguments)
        if reads is not None and touches is None:
            raise BadValue(f"operation '{name}' declares 'reads' without 'touches': declare both")
        for parameter, prefixes in (("touches", touches), ("reads", reads)):
            if prefixes is not None:
                self._check_prefixes(parameter, prefixes)

    def checked(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments with the annotated types. Raise `BadValue` for an invalid call."""
        self.check(arguments)
        return self.parameters.checked(arguments)

    def check(self, arguments: tuple[Any, ...]) -> None:
        """Raise `BadValue` for arguments that no replica can receive."""
        if not self.accepts(arguments):
            raise self.arity_error(len(arguments))
        if not is_row(arguments):
            for index, argument in enumerate(arguments):
                reject_unserializable(argument, self.parameters.argument_text(index))

    def accepts(self, arguments: tuple[Any, ...]) -> bool:
        """True if the operation takes that many arguments."""
        return self._count_min <= len(arguments) <= self._count_max

    def run(
        self,
        transaction: Transaction,
        arguments: tuple[Any, ...],
        count_lines: bool,
        observer: ErrorObserver | None,
    ) -> ExecutionResult:
        """Run the operation in this transaction. `observer` receives the error that it raises."""
        previous_limit = RECURSION_LIMIT.apply()
        try:
            value = self._call(transaction, arguments, count_lines)
            if not is_row(value):
                reject_unserializable(value, f"the response of '{self.name}'")
            outcome = Outcome(value)
        except BaseException as error:
            if is_interrupt(error):
                raise
            outcome = self._failure(error, observer)
        finally:
            sys.setrecursionlimit(previous_limit)
        return transaction.close(outcome)

    def run_rows(
        self,
        transaction: Transaction,
        leading: tuple[Any, ...],
        rows: tuple[tuple[Any, ...], ...],
        count_lines: bool,
        observer: ErrorObserver | None,
    ) -> ExecutionResult:
        """Run the operation once per row, with the leading arguments and those of the row.

        `observer` receives the error that it raises.
        """
        previous_limit = RECURSION_LIMIT.apply()
        try:
            for row in rows:
                self._call(transaction, leading + row, count_lines)
            outcome = Outcome()
        except BaseException as error:
            if is_interrupt(error):
                raise
            outcome = self._failure(error, observer)
        finally:
            sys.setrecursionlimit(previous_limit)
        return transaction.close(outcome)

    def _failure(self, error: BaseException, observer: ErrorObserver | None) -> Outcome:
        """Return the error as a response. `observer` receives the error, with its traceback."""
        if observer is not None:
            observer(self.name, error)
        return Outcome(error=error_text(error))

    def _call(self, transaction: Transaction, arguments: tuple[Any, ...], count_lines: bool) -> Any:
        if not self.accepts(arguments):
            raise self.arity_error(len(arguments))
        copied = copy_out(arguments)
        if count_lines:
            return self._call_counting_lines(transaction, copied)
        if self.touches is not None:
            transaction.restrict(self.footprint(copied))
        return self.function(transaction, *copied)

    def stores_row(self, row: tuple[Any, ...]) -> bool:
        """True if a call with these arguments stores the second one under the first one.

        False if the call may fail, so that only an execution shows its effect.
        """
        if len(row) != 2 or type(row[0]) is not str:
            return False
        if self.touches is None:
            return True
        try:
            prefixes = self.touches(*copy_out(row))
        except BaseException as error:
            if is_interrupt(error):
                raise
            return False
        return self.reads is None and type(prefixes) is list and row[0] in prefixes

    def footprint(self, arguments: tuple[Any, ...]) -> Footprint:
        """Return the footprint of a call. Raise `BadValue` if it is not a list of prefixes."""
        assert self.touches is not None
        reads: Any = [] if self.reads is None else self.reads(*arguments)
        return make_footprint(self.name, self.touches(*arguments), reads)

    def _call_counting_lines(self, transaction: Transaction, arguments: tuple[Any, ...]) -> Any:
        """Call the functions and count lines as steps. Restore the previous tracer afterwards."""
        previous_tracer = sys.gettrace()
        sys.settrace(self._line_counter(transaction.step))
        try:
            if self.touches is not None:
                transaction.restrict(self.footprint(arguments))
            return self.function(transaction, *arguments)
        finally:
            sys.settrace(previous_tracer)

    def footprint_within(self, arguments: tuple[Any, ...], steps: int) -> Footprint:
        """Return the footprint of a call, and count lines as steps. Raise `OperationStopped` above
        the limit."""
        counter = StepCounter(steps)
        previous_tracer = sys.gettrace()
        sys.settrace(self._line_counter(counter.step))
        try:
            return self.footprint(arguments)
        finally:
            sys.settrace(previous_tracer)

    def _line_counter(self, step: Callable[[], None]) -> Tracer:
        return line_counter(str(getattr(self.function, "__module__", "")), step)

    def arity_error(self, count: int) -> BadValue:
        """Return the error for a call with `count` arguments."""
        if count < self.arity.minimum:
            return self.parameters.missing_error(count)
        count_text = f"{count} argument" + ("" if count == 1 else "s")
        return BadValue(f"{self.signature} cannot take {count_text}")

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


def _remedy_of(by_name_only: inspect.Parameter, parameters: Sequence[inspect.Parameter]) -> str:
    """Return how to declare a parameter that takes no argument by position so that it does."""
    name = by_name_only.name
    if by_name_only.kind is inspect.Parameter.VAR_KEYWORD:
        return f"replace '**{name}' by named parameters"
    for each in parameters:
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            return f"move '{name}' before '*{each.name}'"
    return f"remove the '*' before '{name}'"


def _arity_of(parameters: list[inspect.Parameter]) -> Arity:
    plain = [each for each in parameters if each.kind in _SINGLE_POSITIONAL]
    required = sum(each.default is inspect.Parameter.empty for each in plain)
    return Arity(required, len(plain) if len(plain) == len(parameters) else None)
