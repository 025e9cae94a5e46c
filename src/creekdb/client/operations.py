"""Operations that a client can call: their names and signatures.

They come from the data type, if the program passes it to `connect`, or else from the replica.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from creekdb.errors import BadValue, UnknownName
from creekdb.execution.datatype import DataType
from creekdb.execution.parameters import Parameter, bind_arguments
from creekdb.execution.serializable import is_row, reject_unserializable
from creekdb.protocol.values import freeze
from creekdb.wire.deduplication import INTERNAL_PREFIX
from creekdb.wire.messages import Welcome


class OperationDirectory:
    """Operations of the cluster that a client calls."""

    def __init__(self, datatype: DataType | None) -> None:
        self.datatype = datatype
        self._announced: tuple[str, ...] = ()
        self._readonly: frozenset[str] = frozenset()
        self._signatures: dict[str, tuple[str, tuple[Parameter, ...]]] = {}
        self._datatype_name = "" if datatype is None else datatype.name

    def update(self, welcome: Welcome) -> None:
        """Replace the operations that the last replica announced."""
        self._announced = tuple(name for name, _ in welcome.operations)
        self._readonly = frozenset(name for name, is_readonly in welcome.operations if is_readonly)
        self._datatype_name = welcome.datatype
        self._signatures = {
            name: (text, tuple(Parameter(*freeze(each)) for each in parameters))
            for name, text, parameters in welcome.signatures
        }

    def names(self) -> tuple[str, ...]:
        """Return the names of all operations. Empty before a connection without a data type."""
        return self._announced if self.datatype is None else self.datatype.operations

    def is_readonly(self, name: str) -> bool:
        """True if the replica announced that the operation only reads."""
        return name in self._readonly

    def name_of(self, operation: Callable[..., Any]) -> str:
        """Return the name of the operation that this function defines."""
        if self.datatype is not None:
            return self.datatype.name_of(operation)
        name = getattr(operation, "__name__", None)
        if not isinstance(name, str):
            raise BadValue(f"{operation!r} has no name; pass the data type to connect(…)")
        return name

    def positional(
        self, name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Return all arguments of a valid call by position.

        Raises `UnknownName` or `BadValue` for another call, as far as a client can detect it.
        """
        if self.datatype is not None:
            return self.datatype.checked_call(name, *arguments, **named).arguments
        if name not in self._announced:
            raise UnknownName(f"operation of {self._datatype_name}", name, self._announced)
        if named:
            if name not in self._signatures:
                raise BadValue(
                    f"{name}: the replica does not report the names of parameters; pass the data "
                    "type to connect(…), or all arguments by position"
                )
            arguments = bind_arguments(*self._signatures[name], arguments, named)
        if not is_row(arguments):
            for position, argument in enumerate(arguments, 1):
                reject_unserializable(argument, f"argument {position} of {name}")
        return arguments

    def batched_arguments(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a call in a batch, as `positional` does."""
        if name.startswith(INTERNAL_PREFIX):
            return arguments  # the replica rejects the call
        return self.positional(name, arguments, {})

    def signature_text(self, name: str) -> str:
        """Return the signature of an operation for display, or its name if it is not known."""
        if name not in self.names():
            return name
        if self.datatype is not None:
            return self.datatype.signature(name)
        return self._signatures[name][0] if name in self._signatures else f"{name}(…)"

    def signature(self, name: str) -> inspect.Signature | None:
        """Return the signature of an operation, without the transaction, or None."""
        if name not in self.names():
            return None
        if self.datatype is not None:
            signature = inspect.signature(self.datatype.function(name))
            return signature.replace(parameters=list(signature.parameters.values())[1:])
        if name not in self._signatures:
            return None
        _, parameters = self._signatures[name]
        return inspect.Signature([_inspected(each) for each in parameters])

    def parameters(self, name: str) -> tuple[Parameter, ...]:
        """Return the parameters of an operation, without the transaction. Raise `UnknownName`."""
        if self.datatype is not None:
            return self.datatype.parameters(name)
        if name not in self._signatures:
            raise UnknownName(f"operation of {self._datatype_name}", name, self._announced)
        return self._signatures[name][1]

    def documentation(self, name: str) -> str:
        """Return the signature of an operation, and its docstring if it is known."""
        text = self.signature_text(name)
        if self.datatype is None or name not in self.names():
            return text
        docstring = inspect.getdoc(self.datatype.function(name))
        return text if docstring is None else f"{text}\n\n{docstring}"


def _inspected(parameter: Parameter) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    if parameter.is_variadic:
        return inspect.Parameter(parameter.name, inspect.Parameter.VAR_POSITIONAL)
    default = inspect.Parameter.empty if parameter.is_required else parameter.default
    return inspect.Parameter(parameter.name, kind, default=default)
