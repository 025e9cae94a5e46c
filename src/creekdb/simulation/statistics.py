"""What the models of a run counted, from its beginning to its end."""

import msgspec


class NetworkStatistics(msgspec.Struct, frozen=True, kw_only=True):
    messages: dict[str, int]
    """Sent, by type; a message to three replicas counts three times."""
    bytes: dict[str, int]
    lost: int
    duplicated: int
    reordered: int
    forged: int


class CpuStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """By replica, over all incarnations."""

    busy_us: tuple[int, ...]
    executions: tuple[int, ...]
    rollbacks: tuple[int, ...]


class DiskStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Over all replicas. `lost` and `torn` count records that crashes cost."""

    records: int
    bytes: int
    fsyncs: int
    lost: int
    torn: int
