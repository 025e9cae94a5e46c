"""Catalogue of the operations that clients can call, with the names and schemas of parameters."""

import inspect
from itertools import chain
from typing import Any, NamedTuple, get_type_hints

from creekdb.errors import BadValue, UnknownName
from creekdb.execution.datatype import DataType
from creekdb.http.schema import ANY_SCHEMA, Schema, SchemaMismatch, coerce, schema_of
from creekdb.wire.deduplication import INTERNAL_PREFIX
from creekdb.wire.json_values import from_json


class OperationParameter(NamedTuple):
    name: str
    schema: Schema
    is_required: bool
    default: Any
    is_variadic: bool
    """True if the parameter takes all remaining arguments, as an array."""


class OperationSpec:
    """Signature, schemas and documentation of one operation."""

    def __init__(self, datatype: DataType, name: str) -> None:
        function = datatype.function(name)
        self.name = name
        self.is_readonly = datatype.is_readonly(name)
        self.signature = datatype.signature(name)
        self.documentation = inspect.getdoc(function) or ""
        self.source_line = _source_line(function)
        hints = _type_hints(function)
        self.response_schema = schema_of(hints["return"]) if "return" in hints else ANY_SCHEMA
        parameters = list(inspect.signature(function).parameters.values())[1:]
        self.parameters = tuple(_operation_parameter(each, hints) for each in parameters)
        self._by_name = {each.name: each for each in self.parameters}

    def arguments(self, body: Any) -> tuple[Any, ...]:
        """Return the positional arguments for an object of named ones. Raises `BadValue`."""
        if type(body) is not dict:
            raise BadValue(f"the arguments of {self.signature} must be an object, keyed by name")
        unknown = [name for name in body if name not in self._by_name]
        if unknown:
            raise BadValue(f"{self.signature} has no parameter '{unknown[0]}'")
        missing = [
            each.name for each in self.parameters if each.is_required and each.name not in body
        ]
        if missing:
            raise BadValue(f"{self.signature} requires the argument '{missing[0]}'")
        last = max(
            (position for position, each in enumerate(self.parameters, 1) if each.name in body),
            default=0,
        )
        values = (self._argument_values(each, body) for each in self.parameters[:last])
        return tuple(chain.from_iterable(values))

    def _argument_values(
        self, parameter: OperationParameter, body: dict[str, Any]
    ) -> tuple[Any, ...]:
        name = parameter.name
        if name not in body:
            return (parameter.default,)
        path = f"argument '{name}' of {self.signature}"
        try:
            value = from_json(coerce(body[name], parameter.schema, path))
        except SchemaMismatch as error:
            raise BadValue(str(error)) from error
        except BadValue as error:
            raise BadValue(f"{path}: {error}") from error
        return value if parameter.is_variadic else (value,)


class OperationCatalog:
    def __init__(self, datatype: DataType) -> None:
        self.datatype = datatype
        self.by_name = {
            name: OperationSpec(datatype, name)
            for name in datatype.operations
            if not name.startswith(INTERNAL_PREFIX)
        }

    def find(self, name: str) -> OperationSpec:
        operation = self.by_name.get(name)
        if operation is None:
            raise UnknownName(f"operation of {self.datatype.name}", name, tuple(self.by_name))
        return operation


def _operation_parameter(parameter: inspect.Parameter, hints: dict[str, Any]) -> OperationParameter:
    schema = schema_of(hints[parameter.name]) if parameter.name in hints else ANY_SCHEMA
    is_variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    if is_variadic:
        schema = {"type": "array", "items": schema}
    is_required = parameter.default is inspect.Parameter.empty and not is_variadic
    default = None if is_required or is_variadic else parameter.default
    return OperationParameter(parameter.name, schema, is_required, default, is_variadic)


def _source_line(function: Any) -> int:
    """Return the first line of the function in its file, or 0 for other callables."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return 0 if code is None else int(code.co_firstlineno)


def _type_hints(function: Any) -> dict[str, Any]:
    """Return the annotations, or an empty dict if one of them cannot be resolved."""
    try:
        return get_type_hints(function)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}
