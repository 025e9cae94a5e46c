"""Parameters of an operation, and the order of arguments that a call gives by name.

Requests carry arguments by position. Every caller resolves names by this module: Python clients,
`sequential` and HTTP.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from creekdb.errors import BadValue
from creekdb.execution.argument_types import (
    ANY_TYPE,
    ValueType,
    accepted_types,
    annotated_types,
    checked,
)
from creekdb.protocol.values import is_same_value


class Parameter(NamedTuple):
    """Parameter of an operation, without the transaction."""

    name: str
    is_required: bool = True
    is_variadic: bool = False
    """True if the parameter takes all remaining arguments. By name they are an array."""
    default: Any = None


def bind_arguments(
    signature: str,
    parameters: Sequence[Parameter],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
) -> tuple[Any, ...]:
    """Return all arguments by position. Raise `BadValue` for an unknown, repeated or missing one.

    Parameters after the last given one keep the defaults of the replica that executes the call.
    """
    names = [each.name for each in parameters]
    for name in named:
        if name not in names:
            raise BadValue(f"{signature} has no parameter '{name}'")
        if names.index(name) < len(arguments):
            raise BadValue(f"{signature} received the argument '{name}' twice")
    last = max((names.index(name) for name in named), default=-1)
    values = list(arguments)
    for position, each in enumerate(parameters[len(arguments) :], len(arguments)):
        if each.name in named:
            given = named[each.name]
            values += _variadic_items(each, given, signature) if each.is_variadic else [given]
        elif each.is_required:
            raise _missing_error(signature, each)
        elif position < last:
            values.append(each.default)
    return tuple(values)


class ParameterList:
    """Parameters of one operation, with the types of their annotations."""

    __slots__ = ("_function", "_signature", "_types", "items")

    def __init__(
        self,
        function: Callable[..., Any],
        signature: str,
        parameters: Sequence[inspect.Parameter],
    ) -> None:
        self._function = function
        self._signature = signature
        self.items = tuple(map(_parameter, parameters))
        self._types: tuple[tuple[frozenset[type], ValueType], ...] | None = None
        """Types of the parameters, with the Python types whose values need no further check."""

    def bind(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return all arguments by position."""
        return bind_arguments(self._signature, self.items, arguments, named)

    def checked(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments with the annotated types. Raise `BadValue` for other types.

        Annotations are resolved at the first call, because they may name a later definition.
        """
        types = self._types
        if types is None:
            types = self._types = self._annotated_types()
        last = len(types) - 1
        for index, argument in enumerate(arguments):
            python_types, type_ = types[min(index, last)]
            if type(argument) not in python_types and type_ is not ANY_TYPE:
                return tuple([self._checked(*each) for each in enumerate(arguments)])
        return arguments

    def argument_text(self, index: int) -> str:
        """Return the text for the argument at `index` in an error."""
        return f"argument '{self._item(index).name}' of {self._signature}"

    def missing_error(self, index: int) -> BadValue:
        """Return the error for a call without the required argument at `index`."""
        return _missing_error(self._signature, self.items[index])

    def _item(self, index: int) -> Parameter:
        """Return the parameter that receives the argument at `index`."""
        return self.items[min(index, len(self.items) - 1)]

    def _annotated_types(self) -> tuple[tuple[frozenset[type], ValueType], ...]:
        by_name = annotated_types(self._function)
        types = [by_name.get(each.name, ANY_TYPE) for each in self.items]
        return tuple([(accepted_types(each), each) for each in types])

    def _checked(self, index: int, argument: Any) -> Any:
        assert self._types is not None, "`checked` has resolved the types"
        parameter = self._item(index)
        is_optional = not parameter.is_required and not parameter.is_variadic
        if is_optional and is_same_value(argument, parameter.default):
            return argument  # the default may be outside of the annotation
        _, type_ = self._types[min(index, len(self._types) - 1)]
        return checked(argument, type_, self.argument_text(index))


def _parameter(parameter: inspect.Parameter) -> Parameter:
    is_variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    if is_variadic or parameter.default is inspect.Parameter.empty:
        return Parameter(parameter.name, not is_variadic, is_variadic)
    return Parameter(parameter.name, False, False, parameter.default)


def _missing_error(signature: str, parameter: Parameter) -> BadValue:
    return BadValue(f"{signature} requires the argument '{parameter.name}'")


def _variadic_items(parameter: Parameter, given: Any, signature: str) -> Sequence[Any]:
    if type(given) not in (tuple, list):
        raise BadValue(f"argument '{parameter.name}' of {signature} must be an array")
    items: Sequence[Any] = given
    return items
