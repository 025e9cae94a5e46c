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

from creekdb.client.arguments import by_its_name, earlier, named, seconds, told
from creekdb.errors import BadValue, UsageError
from creekdb.protocol.ids.version_vector import Dot

BEGIN: Final = "begin"
"""Means something without asyncio, and nothing with it."""

Result = TypeVar("Result")


class Issued(Protocol):
    @property
    def id(self) -> Dot | None: ...


Earlier: TypeAlias = Issued | Dot | Sequence[int] | str
"""A call, or its identifier, as `creekdb.client.arguments.issued` takes it."""


class How(NamedTuple):
    """How something is to be called."""

    strong: bool
    session: int = 0
    after: tuple[Earlier, ...] = ()
    timeout: float | None = None


Ask: TypeAlias = Callable[..., Result]
"""Takes how to call, the name of the operation, and its arguments."""
Known: TypeAlias = Callable[[], Sequence[str]]
"""Which operations there are."""


class Caller(Generic[Result]):
    """`caller.name(…)` calls the operation of that name; `caller("name", …)` is the same, for names
    that are not Python's or that mean something here."""

    def __init__(self, ask: Ask[Result], how: How, known: Known) -> None:
        self._ask = ask
        self._how = how
        self._known = known

    def __call__(self, name: str = "", /, *arguments: Any, **by_name: Any) -> Result:
        return self._ask(self._how, named(name, self._known), *arguments, **by_name)

    def __getattr__(self, name: str) -> Callable[..., Result]:
        if name.startswith("__"):
            raise AttributeError(name)
        return Named(self._ask, self._how, name, known=self._known)

    if not TYPE_CHECKING:  # a type checker is to go on knowing that it cannot be awaited

        def __await__(self) -> Any:
            raise UsageError(f"nothing is called yet: {told(self._known())}")

    def after(self, *calls: Earlier) -> Self:
        """Only where these have been seen (the paper's remark on ESDS in Section 2)."""
        for each in calls:
            earlier(each)
        return self._with(self._how._replace(after=(*self._how.after, *calls)))

    def within(self, timeout: float) -> Self:
        """Wait for the answer so many seconds, and no longer."""
        try:
            until = seconds("within", timeout)
        except BadValue as error:
            raise BadValue(f"{error}; {by_its_name('within')}") from None
        return self._with(self._how._replace(timeout=until))

    def _with(self, how: How) -> Self:
        other = copy.copy(self)
        other._how = how
        return other


class Named(partial[Result]):
    """An operation, by its name, to be called. Whoever does something else with it is told what
    there is to do."""

    def __new__(cls, ask: Ask[Result], how: How, name: str, *, known: Known) -> "Named[Result]":
        made = super().__new__(cls, ask, how, name)
        made.known = known
        return made

    known: Known

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(f"'{self.args[1]}' has no '{name}': {self._advice()}")

        def __await__(self) -> Any:
            raise UsageError(f"'{self.args[1]}' was not called: {self._advice()}")

    def _advice(self) -> str:
        name, known = self.args[1], self.known()
        if name in known:
            return f"it is an operation, and is called with its arguments, as {name}(…)"
        begun = "with asyncio each call is begun and not waited for, as db.weak.name(…); "
        return f"it is no operation; {begun if name == BEGIN else ''}{told(known)}"


class Chooses:
    """Whoever writes `db.name(…)` has not chosen yet, and is told how."""

    _is_called: ClassVar = "db"

    if not TYPE_CHECKING:  # a type checker is to go on knowing what there is

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"there is no '{name}' here: operations are called weakly or strongly,"
                f" as {self._is_called}.weak.{name}(…) or {self._is_called}.strong.{name}(…)"
            )


class Session(Chooses, Generic[Result]):
    """What `db.session()` gives: one user's calls, where one connection serves many."""

    _is_called = "session"

    def __init__(self, ask: Ask[Result], number: int, known: Known) -> None:
        self._ask = ask
        self._number = number
        self._known = known

    @property
    def weak(self) -> Caller[Result]:
        """As of the database, in this session."""
        return Caller(self._ask, How(strong=False, session=self._number), self._known)

    @property
    def strong(self) -> Caller[Result]:
        """As of the database, in this session."""
        return Caller(self._ask, How(strong=True, session=self._number), self._known)
