"""`db.weak.name(…)`: how a call is put into words."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
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
from creekdb.errors import BadValue, UsageError
from creekdb.protocol.ids.version_vector import Dot

BEGIN: Final = "begin"
"""Means something without asyncio, and nothing with it."""

CallResult = TypeVar("CallResult")


class HasCallId(Protocol):
    @property
    def id(self) -> Dot | None: ...


CallReference: TypeAlias = HasCallId | Dot | Sequence[int] | str
"""A call, or its identifier, as `creekdb.client.arguments.issued` takes it."""


class CallOptions(NamedTuple):
    """How something is to be called."""

    strong: bool
    session: int = 0
    after: tuple[CallReference, ...] = ()
    timeout_s: float | None = None


CallFunction: TypeAlias = Callable[..., CallResult]
"""Takes how to call, the name of the operation, and its arguments."""
OperationNames: TypeAlias = Callable[[], Sequence[str]]
"""Which operations there are."""


class CallProxy(Generic[CallResult]):
    """`caller.name(…)` calls the operation of that name; `caller("name", …)` is the same, for names
    that are not Python's or that mean something here."""

    def __init__(
        self, ask: CallFunction[CallResult], how: CallOptions, known: OperationNames
    ) -> None:
        self._call = ask
        self._options = how
        self._operation_names = known

    def __call__(self, name: str = "", /, *arguments: Any, **by_name: Any) -> CallResult:
        return self._call(
            self._options,
            checked_operation_name(name, self._operation_names),
            *arguments,
            **by_name,
        )

    def __getattr__(self, name: str) -> Callable[..., CallResult]:
        if name.startswith("__"):
            raise AttributeError(name)
        return OperationProxy(self._call, self._options, name, known=self._operation_names)

    if not TYPE_CHECKING:  # a type checker is to go on knowing that it cannot be awaited

        def __await__(self) -> Any:
            raise UsageError(f"nothing is called yet: {operations_hint(self._operation_names())}")

    def after(self, *calls: CallReference) -> Self:
        """Only where these have been seen (the paper's remark on ESDS in Section 2)."""
        for each in calls:
            call_id_or_none(each)
        return self._with_options(self._options._replace(after=(*self._options.after, *calls)))

    def within(self, timeout: float) -> Self:
        """Wait for the answer so many seconds, and no longer."""
        try:
            until = checked_seconds("within", timeout)
        except BadValue as error:
            raise BadValue(f"{error}; {call_by_name_hint('within')}") from None
        return self._with_options(self._options._replace(timeout_s=until))

    def _with_options(self, how: CallOptions) -> Self:
        other = copy.copy(self)
        other._options = how
        return other


class OperationProxy(partial[CallResult]):
    """An operation, by its name, to be called. Whoever does something else with it is told what
    there is to do."""

    def __new__(
        cls, ask: CallFunction[CallResult], how: CallOptions, name: str, *, known: OperationNames
    ) -> "OperationProxy[CallResult]":
        made = super().__new__(cls, ask, how, name)
        made.operation_names = known
        return made

    operation_names: OperationNames

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(f"'{self.args[1]}' has no '{name}': {self._usage_hint()}")

        def __await__(self) -> Any:
            raise UsageError(f"'{self.args[1]}' was not called: {self._usage_hint()}")

    def _usage_hint(self) -> str:
        name, known = self.args[1], self.operation_names()
        if name in known:
            return f"it is an operation, and is called with its arguments, as {name}(…)"
        begun = "with asyncio each call is begun and not waited for, as db.weak.name(…); "
        return f"it is no operation; {begun if name == BEGIN else ''}{operations_hint(known)}"


class ConsistencyHints:
    """Whoever writes `db.name(…)` has not chosen yet, and is told how."""

    _variable_name: ClassVar = "db"

    if not TYPE_CHECKING:  # a type checker is to go on knowing what there is

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"there is no '{name}' here: operations are called weakly or strongly,"
                f" as {self._variable_name}.weak.{name}(…) or "
                f"{self._variable_name}.strong.{name}(…)"
            )


class Session(ConsistencyHints, Generic[CallResult]):
    """What `db.session()` gives: one user's calls, where one connection serves many."""

    _variable_name = "session"

    def __init__(self, ask: CallFunction[CallResult], number: int, known: OperationNames) -> None:
        self._call = ask
        self._number = number
        self._operation_names = known

    @property
    def weak(self) -> CallProxy[CallResult]:
        """As of the database, in this session."""
        return CallProxy(
            self._call, CallOptions(strong=False, session=self._number), self._operation_names
        )

    @property
    def strong(self) -> CallProxy[CallResult]:
        """As of the database, in this session."""
        return CallProxy(
            self._call, CallOptions(strong=True, session=self._number), self._operation_names
        )
