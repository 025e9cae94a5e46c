"""The schemes by name: how drivers and commands make replicas without importing each scheme."""

from collections.abc import Callable
from typing import TypeAlias

from creek.errors import UnknownName
from creek.execution.datatype import DataType
from creek.protocol.settings import Settings
from creek.schemes.basic import BasicReplica
from creek.schemes.contract import Replica
from creek.schemes.creek import CreekReplica

Scheme: TypeAlias = Callable[[int, Settings, DataType], Replica]
"""Makes the replica with that index."""

SCHEMES: dict[str, Scheme] = {"basic": BasicReplica, "creek": CreekReplica}


def named(name: str) -> Scheme:
    """The scheme of that name, or `UnknownName`."""
    if name not in SCHEMES:
        raise UnknownName("scheme", name, list(SCHEMES))
    return SCHEMES[name]
