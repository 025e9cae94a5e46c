"""The live cluster that a command calls."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import NamedTuple

import click

from creekdb.cli.declaration import option
from creekdb.cli.exit_codes import CommandFailed
from creekdb.cli.options import command_limits
from creekdb.client import Database, NotDone, connect
from creekdb.wire.reject_reason import RejectReason

DEFAULT_ADDRESSES = ("127.0.0.1:7100", "127.0.0.1:7101", "127.0.0.1:7102")
"""Client addresses of the first replicas of `creek up`.

With up to five replicas, at least one of these is up if a majority is.
"""

TOKEN = option(
    "Token of the client.", "", envvar="CREEK_TOKEN", show_envvar=True, show_default=False
)
AUTHORITY = option(
    "File with the trusted certificates, in PEM format.",
    envvar="CREEK_AUTHORITY",
    show_envvar=True,
)


@contextmanager
def pending_notice(text: Callable[[], str]) -> Iterator[None]:
    """Print the notice if the body takes long."""
    notice = asyncio.get_running_loop().call_later(
        command_limits().notice_delay_s, lambda: click.echo(f"creek: {text()}", err=True)
    )
    try:
        yield
    finally:
        notice.cancel()


class ClusterTarget(NamedTuple):
    addresses: tuple[str, ...] = option(
        "Client address of a replica; with several, the first reachable one is used.  "
        "[default: the first three replicas of 'creek up']",
        DEFAULT_ADDRESSES,
        flag="--at",
        metavar="HOST:PORT",
        envvar="CREEK_AT",
        show_envvar=True,
        show_default=False,
    )
    token: str = TOKEN
    authority: str | None = AUTHORITY

    def connection(
        self, timeout: float, refused: float | None = None, datatype: str = ""
    ) -> Database:
        """Return a connection that is not open yet. Arguments: as for `creekdb.connect`."""
        addresses, token, authority = self
        return connect(
            ",".join(addresses),  # each may be a list, as in CREEK_AT
            datatype,
            token=token,
            authority=authority,
            timeout=timeout,
            patience=timeout,
            refused=refused,
        )

    @asynccontextmanager
    async def open(self, timeout: float) -> AsyncIterator[Database]:
        """Connect to the cluster; print a notice if that takes long."""
        db = self.connection(timeout, command_limits().refused_retry_s)

        def notice() -> str:
            progress = db.discovery.progress_text()
            return f"no replica responds yet: {progress}; retrying for a few seconds"

        async with AsyncExitStack() as stack:
            with pending_notice(notice):
                await stack.enter_async_context(db)
            yield db

    def failure(self, what: str, error: Exception) -> CommandFailed:
        """Return the failure of the command, with a hint if no cluster is reachable."""
        return CommandFailed(f"{what}: {error}{self.hint_for(error)}")

    def hint_for(self, error: BaseException | None) -> str:
        """Return the remedy in parentheses if no cluster is reachable, or else an empty text."""
        is_unreachable = isinstance(error, NotDone) and error.reason == RejectReason.UNREACHABLE
        return f" ({self.unreachable_hint()})" if is_unreachable else ""

    def unreachable_hint(self) -> str:
        if self.addresses == DEFAULT_ADDRESSES:
            return (
                "start a cluster here with 'creek up', or set its address with --at, "
                "such as --at 127.0.0.1:7500"
            )
        return "start the cluster, or set another address with --at"
