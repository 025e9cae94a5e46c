"""Figures of a run between distant sites: medians of each system, by site."""

from statistics import median
from typing import Final

import msgspec

NAMES: Final = {"weak": "Creek, weak", "strong": "Creek, strong", "etcd": "etcd"}
"""Systems in the order of the table, with their names in it."""


class Medians(msgspec.Struct, frozen=True, kw_only=True):
    """Median latencies in one situation, in milliseconds."""

    p50_ms: float
    """Median over all sites."""
    sites_ms: list[float]
    """Median at each site."""


class SiteLatencies(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies of one system."""

    system: str
    local: Medians
    """Without latency between the sites."""
    distant: Medians

    @property
    def ratio(self) -> float:
        """Median with latency between the sites, relative to that without."""
        return self.distant.p50_ms / max(1e-9, self.local.p50_ms)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one run."""

    how_it_ran: str
    """Whether Creek ran compiled."""
    cores: int
    latency_ms: float
    """Latency between two sites, one way."""
    load_per_site: float
    value_bytes: int
    rounds: int
    round_s: float
    systems: list[SiteLatencies]


def summarise(latencies_ns: list[list[int]]) -> Medians:
    """Return the medians of the latencies at each site."""
    together = [each for site in latencies_ns for each in site]
    return Medians(
        p50_ms=median(together) / 1e6, sites_ms=[median(site) / 1e6 for site in latencies_ns]
    )
