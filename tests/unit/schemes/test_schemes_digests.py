"""State digests: maintained with each write, and equal after equal committed prefixes."""

from itertools import combinations

import msgspec
import pytest

from creekdb import datatypes
from creekdb.datatypes import SAMPLERS
from creekdb.execution.mvcc.state_loader import StateDigest
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.effects import Digest, Effects
from creekdb.protocol.settings import Settings
from creekdb.schemes.archie import ArchieReplica
from creekdb.schemes.creek import CreekReplica
from creekdb.simulation import Scenario, Simulation, parse_faults

FAULTS = "partition 0|1,2 at 100ms; heal at 400ms; crash 1 at 500ms; restart 1 at 700ms"


class RecordingCreek(CreekReplica):
    """Creek replica that records its digests."""

    recorded: dict[int, list[Digest]]

    def take_effects(self) -> Effects:
        effects = super().take_effects()
        self.recorded.setdefault(self.index, []).extend(effects.digests)
        return effects


class RecordingArchie(ArchieReplica):
    recorded: dict[int, list[Digest]]

    def take_effects(self) -> Effects:
        effects = super().take_effects()
        self.recorded.setdefault(self.index, []).extend(effects.digests)
        return effects


def recompute_digest(replica: CreekReplica | ArchieReplica) -> int:
    digest = StateDigest()
    for key, value in replica._execution.stable_items():
        digest.replace(key, replica._execution.datatype.base.read(key), value)
    return digest.value


@pytest.mark.parametrize(
    ("scheme", "datatype", "kept_apart"),
    [
        (RecordingCreek, "kv", 4),
        (RecordingCreek, "list", 65_536),
        (RecordingArchie, "bank", 65_536),
    ],
)
def test_replicas_agree_on_the_digest_at_every_common_length(
    scheme: type[RecordingCreek] | type[RecordingArchie], datatype: str, kept_apart: int
) -> None:
    scenario = Scenario(
        datatype=datatype, replicas=3, seed=5, duration_us=800_000, faults=parse_faults(FAULTS)
    )
    settings = msgspec.structs.replace(
        scenario.protocol_settings(),
        digest_every=4,
        kept_apart=kept_apart,
        checkpoint_every=50,
    )
    recorded: dict[int, list[Digest]] = {}
    created: dict[int, RecordingCreek | RecordingArchie] = {}

    def make(index: int) -> RecordingCreek | RecordingArchie:
        replica = scheme(index, settings, datatypes.get_datatype(datatype))
        replica.recorded = recorded
        created[index] = replica
        return replica

    Simulation(scenario, make, SAMPLERS[datatype]).run()
    by_length: dict[int, set[int]] = {}
    for digests in recorded.values():
        for digest in digests:
            by_length.setdefault(digest.length, set()).add(digest.value)
    assert len(by_length) > 10
    assert all(len(values) == 1 for values in by_length.values())
    assert len({value for values in by_length.values() for value in values}) > 5
    for index, replica in created.items():
        assert recompute_digest(replica) == recorded[index][-1].value
        assert replica._stable_prefix.length == recorded[index][-1].length


def test_a_digest_carries_the_requests_since_the_previous_one() -> None:
    replica = CreekReplica(0, Settings(members=(0,), digest_every=2), datatypes.get_datatype("kv"))
    replica.tick(0)
    digests: list[Digest] = []
    for number in range(5):
        replica.invoke(datatypes.get_datatype("kv").call("put", "a", number), True, 0, number)
        while (effects := replica.take_effects()) != Effects():
            digests += effects.digests
            for task in effects.tasks:
                replica.completed(task, replica.run(task), number)
    assert [digest.length for digest in digests] == [1, 2, 3, 4, 5]
    names = [[each.operation.arguments for each in digest.requests] for digest in digests]
    assert names == [[("a", number)] for number in range(5)]


def test_a_digest_depends_on_the_state_alone() -> None:
    one, other = StateDigest(), StateDigest()
    one.replace("a", ABSENT, 1)
    one.replace("b", ABSENT, (2, 3))
    other.replace("b", ABSENT, 5)
    other.replace("b", 5, (2, 3))
    other.replace("a", ABSENT, 1)
    assert one.value == other.value
    other.replace("a", 1, True)
    assert one.value != other.value, "1 and True are two values"
    other.replace("a", True, ABSENT)
    other.replace("b", (2, 3), ABSENT)
    assert other.value == 0


def test_swapped_values_change_the_digest() -> None:
    """Keys and values have equal lengths: the plain sum of their checksums often stays equal."""
    for first, second in combinations(range(60), 2):
        one, other = StateDigest(), StateDigest()
        for digest, left, right in ((one, first, second), (other, second, first)):
            digest.replace("a", ABSENT, left)
            digest.replace("b", ABSENT, right)
        assert one.value != other.value
