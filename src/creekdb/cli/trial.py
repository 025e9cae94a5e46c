"""What `creek up` lets people do to its replicas, on their page: kill and start them, cut links."""

import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from creekdb.errors import UsageError
from creekdb.load.local_cluster import LocalCluster
from creekdb.wire.dev_control import Trial, line_of


class Breaking:
    """`tell` is told what was done."""

    def __init__(self, cluster: LocalCluster, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._tell = tell
        self._cut: set[tuple[int, int]] = set()
        self._control = ""
        self._secret = secrets.token_urlsafe(16)
        self._pages = {replica: f"http://{at}" for replica, at in enumerate(cluster.http)}

    @asynccontextmanager
    async def asked(self) -> AsyncIterator[None]:
        """By pages, for so long."""
        from creekdb.http.page.fault_control import Control  # noqa: PLC0415 - it takes its time

        control = Control(self, self._pages.values(), self._secret)
        await control.start()
        self._control = control.address
        self._cluster.tells = self._line
        self._tell_all()
        try:
            yield
        finally:
            await control.stop()

    def kill(self, replica: int) -> None:
        self._check(replica)
        if self._cluster.is_running(replica):
            self._cluster.kill(replica)
            self._tell(f"replica {replica} was killed, on the page")

    def start(self, replica: int) -> None:
        self._check(replica)
        if not self._cluster.is_running(replica):
            self._cluster.start(replica)
            self._tell(f"replica {replica} is started again")

    def cut(self, links: Iterable[tuple[int, int]]) -> None:
        wanted = self._checked(links)
        self._change(self._cut | wanted, "cut", wanted - self._cut)

    def heal(self, links: Iterable[tuple[int, int]]) -> None:
        wanted = self._checked(links)
        self._change(self._cut - wanted, "healed", wanted & self._cut)

    def _change(self, cut: set[tuple[int, int]], done: str, to: Iterable[tuple[int, int]]) -> None:
        self._cut = cut
        self._tell_all()
        for one, other in sorted(to):
            self._tell(f"the link between {one} and {other} is {done}")

    def _checked(self, links: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Each with the smaller number first. One of both must be ours: it does without the link to
        the other, which may have joined later."""
        found = set()
        for one, other in links:
            if one == other:
                raise UsageError(f"replica {one} has no link to itself")
            if not self._pages.keys() & {one, other}:
                self._check(one)
            found.add((min(one, other), max(one, other)))
        return found

    def _check(self, replica: int) -> None:
        if replica not in self._pages:
            raise UsageError(f"there is no replica {replica}: they are {sorted(self._pages)}")

    def _tell_all(self) -> None:
        for replica in self._pages:
            self._cluster.tell(replica)

    def _line(self, replica: int) -> bytes:
        others = [each for link in self._cut if replica in link for each in link if each != replica]
        return line_of(
            Trial(
                control=self._control,
                secret=self._secret,
                pages=self._pages,
                cut=tuple(sorted(others)),
            )
        )
