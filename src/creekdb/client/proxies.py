"""Call proxies: the attribute syntax `db.weak.name(…)`, its options and its error messages."""

import copy
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Final,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
)

from creekdb.client.arguments import (
    call_by_name_hint,
    call_id_or_none,
    checked_operation_name,
    checked_seconds,
    operations_hint,
)
from creekdb.client.operations import OperationDirectory
from creekdb.errors import BadValue, UsageError
from creekdb.execution.transaction import Transaction
from creekdb.protocol.ids.version_vector import Dot

BEGIN: Final = "begin"
"""Attribute of the blocking proxies; without a meaning in the asyncio client."""

CallResult = TypeVar("CallResult")


class HasCallId(Protocol):
    """Object with the id of a call, such as `Call` and `BlockingCall`."""

    @property
    def id(self) -> Dot | None: ...


CallReference: TypeAlias = HasCallId | Dot | Sequence[int] | str
"""A call or its id, in any form that `creekdb.client.arguments.call_id` accepts."""


class CallOptions(NamedTuple):
    """Options of a call: consistency level, session, dependencies and timeout."""

    strong: bool
    session: int = 0
    after: tuple[CallReference, ...] = ()
    timeout_s: float | None = None


CallFunction: TypeAlias = Callable[..., CallResult]
"""Function that takes call options, the name of an operation, and its arguments."""
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
TypedOperation: TypeAlias = Callable[Concatenate[Transaction, Parameters], Result]
"""Function of an operation. Type checkers derive the types of its calls from it."""
AnyOperation: TypeAlias = str | Callable[..., Any]
"""An operation, given by its name or its function."""


class CallProxy(Generic[CallResult]):
    """Proxy that calls operations, with one consistency level.

    - `proxy.name(…)` calls the operation of that name.
    - `proxy(function, …)` calls the operation that the function defines. Type checkers verify the
      arguments and derive the type of the response.
    - `proxy("name", …)` calls an operation whose name is not a Python identifier, or is `after` or
      `within`.

    Arguments are given by position or by name. `dir(proxy)` lists the operations.
    """

    def __init__(
        self,
        call: CallFunction[CallResult],
        options: CallOptions,
        operations: OperationDirectory,
    ) -> None:
        self._call = call
        self._options = options
        self._operations = operations

    def _invoke(self, operation: AnyOperation, *arguments: Any, **named: Any) -> CallResult:
        name = checked_operation_name(operation, self._operations)
        return self._call(self._options, name, *arguments, **named)

    def __getattr__(self, name: str) -> Callable[..., CallResult]:
        if name.startswith("_") and (name.startswith("__") or name not in self._operations.names()):
            raise AttributeError(name)
        proxy = OperationProxy(self._call, self._options, name)
        proxy.operations = self._operations
        return proxy

    def __dir__(self) -> list[str]:
        names = [name for name in self._operations.names() if name.isidentifier()]
        return sorted({*super().__dir__(), *names})

    def __repr__(self) -> str:
        operations = self._operations
        texts = ", ".join(map(operations.signature_text, operations.names()))
        return f"<{_level(self._options)} calls of {texts or 'operations, once connected'}>"

    if not TYPE_CHECKING:  # type checkers must still reject `await proxy`

        def __await__(self) -> Any:
            hint = operations_hint(self._operations.names())
            raise UsageError(f"no operation was called; {hint}")

    def after(self, *calls: CallReference) -> Self:
        """Return a proxy whose calls depend on `calls`.

        A replica executes such a call only once it has these calls in its causal context (the
        paper's remark on ESDS in Section 2). `calls` may come from other clients. Each is a call
        or its id: a pair of numbers, or a string such as `"0.17"`.
        """
        for call in calls:
            call_id_or_none(call)
        return self._with_options(self._options._replace(after=(*self._options.after, *calls)))

    def within(self, timeout: float) -> Self:
        """Return a proxy whose calls wait at most `timeout` seconds for their response."""
        try:
            timeout_s = checked_seconds("within", timeout)
        except BadValue as error:
            raise BadValue(f"{error}; {call_by_name_hint('within')}") from None
        return self._with_options(self._options._replace(timeout_s=timeout_s))

    def _with_options(self, options: CallOptions) -> Self:
        other = copy.copy(self)
        other._options = options
        return other


class OperationProxy(partial[CallResult]):
    """Operation that has been named but not called. Any other use raises an error with a hint."""

    operations: OperationDirectory

    def __repr__(self) -> str:
        options, name = self.args
        return f"<{_level(options)} operation {self.operations.signature_text(name)}>"

    if not TYPE_CHECKING:

        @property
        def __signature__(self) -> inspect.Signature:
            signature = self.operations.signature(self.args[1])
            if signature is None:
                raise AttributeError("__signature__")
            return signature

        @property
        def __doc__(self) -> str:
            return self.operations.documentation(self.args[1])

        @property
        def __name__(self) -> str:
            return self.args[1]

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(f"'{self.args[1]}' has no '{name}': {self._usage_hint()}")

        def __await__(self) -> Any:
            raise UsageError(f"'{self.args[1]}' was not called: {self._usage_hint()}")

    def _usage_hint(self) -> str:
        name, operation_names = self.args[1], self.operations.names()
        if name in operation_names:
            return f"it is an operation; call it with its arguments, as {name}(…)"
        begin_hint = "with asyncio, db.weak.name(…) begins a call without waiting; "
        return (
            f"it is not an operation; {begin_hint if name == BEGIN else ''}"
            f"{operations_hint(operation_names)}"
        )


def _level(options: CallOptions) -> str:
    return "strong" if options.strong else "weak"


Proxy = TypeVar("Proxy", bound=CallProxy[Any])


class ConsistencyLevels(Generic[Proxy]):
    """Proxies for weak and strong calls of one session: base class of connections.

    Missing attributes raise an error that points to the proxies, because `db.name(…)` chooses no
    consistency level.
    """

    _variable_name: ClassVar = "db"

    def __init__(self, make_proxy: Callable[[CallOptions], Proxy], session: int = 0) -> None:
        self.weak: Final = make_proxy(CallOptions(strong=False, session=session))
        """Proxy for weak calls: the result of `db.weak.name(…)` is the tentative response.

        It arrives immediately. The final response follows once the call has its final position.
        """
        self.strong: Final = make_proxy(CallOptions(strong=True, session=session))
        """Proxy for strong calls: the result of `db.strong.name(…)` is the stable response.

        The call waits until a majority has fixed its position in the order.
        """

    if not TYPE_CHECKING:  # type checkers must still reject unknown attributes

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            variable = self._variable_name
            raise AttributeError(
                f"{variable} has no '{name}': call an operation weakly or strongly,"
                f" as {variable}.weak.{name}(…) or {variable}.strong.{name}(…)"
            )


class Session(ConsistencyLevels[Proxy]):
    """Calls of one user on a shared connection: the result of `db.session()`.

    A session sees the effects of all its own earlier calls, also after a change of replica.
    """

    _variable_name = "session"
