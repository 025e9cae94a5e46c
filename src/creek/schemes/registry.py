"""The schemes by name: how drivers and commands make replicas without importing each scheme."""

from collections.abc import Callable
from typing import TypeAlias

from creek.errors import UnknownName
from creek.execution.datatype import DataType
from creek.protocol.probes import Probe
from creek.protocol.settings import Settings
from creek.schemes.archie import ArchieReplica
from creek.schemes.basic import BasicReplica
from creek.schemes.bayou import BayouReplica
from creek.schemes.both import BothReplica
from creek.schemes.contract import Replica
from creek.schemes.creek import CreekReplica
from creek.schemes.smr import SmrReplica

Scheme: TypeAlias = Callable[[int, Settings, DataType], Replica]
"""Makes the replica with that index."""

SCHEMES: dict[str, Scheme] = {
    "basic": BasicReplica,
    "creek": CreekReplica,
    "both": BothReplica,
    "smr": SmrReplica,
    "bayou": BayouReplica,
    "archie": ArchieReplica,
}

_PROBES_OUT_OF_REACH: dict[str, tuple[Probe, ...]] = {
    "basic": (Probe.ANSWERED_LOCALLY, Probe.STRETCH_MERGED, Probe.STRETCH_TAKEN_APART),
}


def named(name: str) -> Scheme:
    """The scheme of that name, or `UnknownName`."""
    if name not in SCHEMES:
        raise UnknownName("scheme", name, list(SCHEMES))
    return SCHEMES[name]


def probes(name: str) -> tuple[Probe, ...]:
    """The probes that replicas of that scheme can fire."""
    out_of_reach = _PROBES_OUT_OF_REACH.get(name, ())
    return tuple(probe for probe in Probe if probe not in out_of_reach)
