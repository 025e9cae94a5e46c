"""What the gateway asks of the replica that it stands before."""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, Protocol, TypeAlias

from creekdb.execution.datatype import DataType
from creekdb.execution.keys import Place
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.values import Key
from creekdb.wire.messages import Answer, Issued, Refused

Items: TypeAlias = Generator[tuple[Key, Any], None, None]
Said: TypeAlias = Issued | Answer | Refused
"""First that a call has its place, and then its answers; or that it is refused."""


class Asked(NamedTuple):
    operation: str
    arguments: tuple[Any, ...]
    strong: bool
    client: str = ""
    """With a name and a number, asked again it is the same call; without, it is another one."""
    number: int = 0
    after: tuple[Dot, ...] = ()
    wait_ms: int = 0
    """How long those before it may take to arrive."""


class Behind(Protocol):
    datatype: DataType

    def invoke(self, asked: Asked, hear: Callable[[Said], None]) -> Callable[[], None]:
        """`hear` is told what comes of it, from now on and until the last answer. Call what is
        returned to hear no more."""

    def allows(self, token: str) -> bool:
        """May one with this token, or with none, ask for anything?"""

    def trusts_this_machine(self) -> bool:
        """May everybody on this machine ask, and nobody else?"""

    def count(self, reason: str) -> None:
        """Something was refused."""

    def status(self) -> dict[str, Any]: ...

    def unready(self) -> list[str]:
        """Why it should not be asked for anything at present."""

    def readable_lengths(self) -> range: ...

    def committed_items(self, length: int, start: Place, stop: Place) -> Items:
        """As `creekdb.schemes.core.replica.Replica` has it, without what is not the data type's. To
        be closed: meanwhile nothing is executed."""

    async def is_durable(self) -> bool:
        """Is what was committed so far on disk? If not, it is waited for, but not for long: what is
        not may come to nothing."""

    async def is_kept(self) -> bool:
        """Is what was called so far as safe as what was answered? If not, the same."""

    def metrics(self) -> str: ...
