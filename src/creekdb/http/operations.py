"""Catalogue of the operations that clients can call, with the names and schemas of parameters."""

import inspect
from functools import partial
from typing import Any, NamedTuple

from creekdb.errors import BadValue, UnknownName
from creekdb.execution.argument_types import ANY_TYPE, ValueType, annotated_types
from creekdb.execution.datatype import DataType
from creekdb.execution.parameters import Parameter
from creekdb.http.schema import Schema, schema_of
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
        types = annotated_types(function)
        self.response_schema = schema_of(types.get("return", ANY_TYPE))
        self.parameters = tuple(
            _operation_parameter(each, types.get(each.name, ANY_TYPE))
            for each in datatype.parameters(name)
        )
        self._call = partial(datatype.checked_call, name)

    def arguments(self, body: Any) -> tuple[Any, ...]:
        """Return the positional arguments for an object of named ones. Raises `BadValue`."""
        if type(body) is not dict:
            raise BadValue(f"the arguments of {self.signature} must be an object, keyed by name")
        named = {}
        for name, value in body.items():
            try:
                named[name] = from_json(value)
            except BadValue as error:
                raise BadValue(f"argument '{name}' of {self.signature}: {error}") from error
        return self._call(**named).arguments


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


def _operation_parameter(parameter: Parameter, type_: ValueType) -> OperationParameter:
    schema = schema_of(type_)
    if parameter.is_variadic:
        schema = {"type": "array", "items": schema}
    name, is_required, is_variadic, default = parameter
    return OperationParameter(name, schema, is_required, default, is_variadic)


def _source_line(function: Any) -> int:
    """Return the first line of the function in its file, or 0 for other callables."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return 0 if code is None else int(code.co_firstlineno)
