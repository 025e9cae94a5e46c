"""`db.weak.name(…)`: how a call is put into words."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from creek.client.given import seconds
from creek.protocol.dots import Dot

Result = TypeVar("Result")


class Issued(Protocol):
    @property
    def id(self) -> Dot | None: ...


Earlier: TypeAlias = Issued | Dot | Sequence[int] | str
"""A call, or its identifier, as `creek.client.given.issued` takes it."""


class How(NamedTuple):
    """How something is to be called."""

    strong: bool
    session: int = 0
    after: tuple[Earlier, ...] = ()
    timeout: float | None = None


Ask: TypeAlias = Callable[..., Result]
"""Takes how to call, the name of the operation, and its arguments."""


class Caller(Generic[Result]):
    """`caller.name(…)` calls the operation of that name; `caller("name", …)` is the same, for names
    that are not Python's or that mean something here."""

    def __init__(self, ask: Ask[Result], how: How) -> None:
        self._ask = ask
        self._how = how

    def __call__(self, name: str, /, *arguments: Any, **named: Any) -> Result:
        return self._ask(self._how, name, *arguments, **named)

    def __getattr__(self, name: str) -> Callable[..., Result]:
        if name.startswith("__"):
            raise AttributeError(name)
        return partial(self._ask, self._how, name)

    def after(self, *calls: Earlier) -> Self:
        """Only where these have been seen (the paper's remark on ESDS in Section 2)."""
        return self._with(self._how._replace(after=(*self._how.after, *calls)))

    def within(self, timeout: float) -> Self:
        """Wait for the answer so many seconds, and no longer."""
        return self._with(self._how._replace(timeout=seconds("within", timeout)))

    def _with(self, how: How) -> Self:
        other = copy.copy(self)
        other._how = how
        return other


class Chooses:
    """Whoever writes `db.name(…)` has not chosen yet, and is told how."""

    if not TYPE_CHECKING:  # a type checker is to go on knowing what there is

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"there is no '{name}' here: operations are called weakly or strongly,"
                f" as db.weak.{name}(…) or db.strong.{name}(…)"
            )


class Session(Generic[Result]):
    """What `db.session()` gives: one user's calls, where one connection serves many."""

    def __init__(self, ask: Ask[Result], number: int) -> None:
        self._ask = ask
        self._number = number

    @property
    def weak(self) -> Caller[Result]:
        """As of the database, in this session."""
        return Caller(self._ask, How(strong=False, session=self._number))

    @property
    def strong(self) -> Caller[Result]:
        """As of the database, in this session."""
        return Caller(self._ask, How(strong=True, session=self._number))
