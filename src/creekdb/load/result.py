"""What came out of a load, as one value."""

from collections.abc import Mapping

import msgspec

from creekdb.load.meter import KINDS, Latency, Meter, latency


class Result(msgspec.Struct, frozen=True, kw_only=True):
    throughput_per_s: float
    """Calls that had what they asked for."""
    weak_per_s: float
    strong_per_s: float
    latency_ms: dict[str, Latency]
    """By kind of answer, of those that there were."""
    late_ms: Latency | None
    """How late calls of an open loop were made."""
    raised: int
    """Operations that answered with an error."""
    errors: dict[str, int]
    """Calls without an answer, by the reason."""
    cpu_us: dict[str, float]
    """That a call took of each process: microseconds on a core."""


def result_of(meter: Meter, cpu_s: Mapping[str, float]) -> Result:
    """`cpu_s`: what each process used while it was measured."""
    seconds = meter.seconds
    found = {kind: meter.latency(each) for each, kind in enumerate(KINDS)}
    return Result(
        throughput_per_s=meter.done / seconds,
        weak_per_s=meter.weak_done / seconds,
        strong_per_s=meter.strong_done / seconds,
        latency_ms={kind: each for kind, each in found.items() if each is not None},
        late_ms=latency(meter.late_ns),
        raised=meter.raised,
        errors=dict(sorted(meter.errors.items())),
        cpu_us={name: each * 1e6 / max(1, meter.done) for name, each in cpu_s.items()},
    )
