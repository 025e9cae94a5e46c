"""The measuring window: what the models had counted when it began, and when it ended.

It ends when clients stop to ask. What came before it, the warm-up, and what comes after it, until
everything is at rest, is not what a system under load looks like.
"""

from collections.abc import Sequence

import msgspec

from creekdb.simulation.cpu import Cpu
from creekdb.simulation.network import Network


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Over all replicas, since the beginning of the run."""

    at_us: int = 0
    busy_us: int = 0
    """An execution counts as a whole when it begins."""
    executions: int = 0
    rollbacks: int = 0
    messages: dict[str, int] = {}
    bytes: dict[str, int] = {}


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What happened from `begin_us` to `end_us`."""

    begin_us: int
    end_us: int
    busy_us: int
    executions: int
    rollbacks: int
    messages: dict[str, int]
    bytes: dict[str, int]

    @property
    def length_us(self) -> int:
        return self.end_us - self.begin_us


def count(now_us: int, cpus: Sequence[Cpu], network: Network) -> Counts:
    sent = network.statistics()
    return Counts(
        at_us=now_us,
        busy_us=sum(cpu.busy_us for cpu in cpus),
        executions=sum(cpu.executions for cpu in cpus),
        rollbacks=sum(cpu.rollbacks for cpu in cpus),
        messages=sent.messages,
        bytes=sent.bytes,
    )


def between(begin: Counts, end: Counts) -> Window:
    return Window(
        begin_us=begin.at_us,
        end_us=end.at_us,
        busy_us=end.busy_us - begin.busy_us,
        executions=end.executions - begin.executions,
        rollbacks=end.rollbacks - begin.rollbacks,
        messages=_difference(begin.messages, end.messages),
        bytes=_difference(begin.bytes, end.bytes),
    )


def _difference(begin: dict[str, int], end: dict[str, int]) -> dict[str, int]:
    return {kind: total - begin.get(kind, 0) for kind, total in end.items()}
