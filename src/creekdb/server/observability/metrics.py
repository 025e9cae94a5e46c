"""Metrics of one replica for `GET /metrics`, in Prometheus exposition format 0.0.4.

The values are counters that the replica maintains anyway. They are read on each request.
"""

import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from creekdb.protocol.probes import Probe
from creekdb.server.observability.latency import Histogram
from creekdb.server.observability.status import ReplicaSources

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


class MetricFamily(NamedTuple):
    """Metric with one value for each set of labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Iterable[tuple[Labels, float | Histogram]]


def gauge(name: str, help: str, value: float) -> MetricFamily:
    return MetricFamily(name, "gauge", help, [({}, value)])


def counter(name: str, help: str, value: float) -> MetricFamily:
    return MetricFamily(name, "counter", help, [({}, value)])


def render_metrics(families: Iterable[MetricFamily]) -> str:
    lines: list[str] = []
    for name, kind, help, samples in families:
        lines += (f"# HELP {name} {_escape(help)}", f"# TYPE {name} {kind}")
        for labels, value in samples:
            if isinstance(value, Histogram):
                lines += _render_histogram(name, labels, value)
            else:
                lines.append(f"{name}{_format_labels(labels)} {_format_number(value)}")
    return "\n".join(lines) + "\n"


def _render_histogram(name: str, labels: Labels, histogram: Histogram) -> Iterable[str]:
    """Yield the cumulative buckets of a histogram, its sum and its count."""
    count = 0
    for bound, in_bucket in zip((*histogram.bounds, "+Inf"), tuple(histogram.counts), strict=True):
        count += in_bucket
        yield f"{name}_bucket{_format_labels({**labels, 'le': str(bound)})} {count}"
    yield f"{name}_sum{_format_labels(labels)} {_format_number(histogram.total)}"
    yield f"{name}_count{_format_labels(labels)} {count}"


def _format_number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(value)


def _format_labels(labels: Labels) -> str:
    pairs = ",".join(
        f'{name}="{_escape(value).replace(chr(34), chr(92) + chr(34))}"'
        for name, value in labels.items()
    )
    return f"{{{pairs}}}" if pairs else ""


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


_STATM_PATH: Final = Path("/proc/self/statm")
_STARTED_S: Final = time.time()


def metric_families(sources: ReplicaSources) -> Iterator[MetricFamily]:
    config = sources.config
    labels = {
        "cluster": config.cluster,
        "replica": str(config.replica),
        "datatype": config.datatype,
        "scheme": config.scheme,
    }
    yield MetricFamily("creek_info", "gauge", "Configuration of the replica.", [(labels, 1)])
    yield from _call_metrics(sources)
    yield from _order_metrics(sources)
    yield from _peer_metrics(sources)
    yield from _certificate_metrics(sources)
    yield from _disk_metrics(sources)
    yield from _change_metrics(sources)
    yield from _process_metrics()


def _call_metrics(sources: ReplicaSources) -> Iterator[MetricFamily]:
    dispatcher = sources.dispatcher
    yield MetricFamily(
        "creek_call_seconds",
        "histogram",
        "Time from the invocation of a call to its first and last response, by kind of response.",
        [({"answer": kind}, each) for kind, each in dispatcher.latencies.by_response().items()],
    )
    queues = {
        "backlog": sources.driver.backlog,
        "calls": dispatcher.in_flight,
        "after": dispatcher.queued_count,
    }
    yield MetricFamily(
        "creek_queue_length",
        "gauge",
        "Tasks and batches that wait for execution or the disk (backlog), calls that await a "
        "response (calls), and calls that wait for a dependency (after).",
        [({"queue": name}, length) for name, length in queues.items()],
    )
    yield gauge("creek_clients", "Connected clients.", len(sources.clients.connections))
    yield MetricFamily(
        "creek_rejected_total",
        "counter",
        "Rejected or dropped calls, messages and connections, by reason.",
        [({"reason": reason}, count) for reason, count in sources.rejections_by_reason().items()],
    )


def _change_metrics(sources: ReplicaSources) -> Iterator[MetricFamily]:
    feed = sources.changes
    if feed is None:
        return
    for name, help, value in (
        (
            "index",
            "Last commit index that readers of the change feed can read.",
            feed.written_index,
        ),
        ("first_index", "First commit index from which on all are kept.", feed.log.first_index),
        ("bytes", "Size of the change feed on disk.", feed.log.size_bytes),
        ("pending", "Changes that are not written yet.", feed.unwritten_count),
        (
            "readers",
            "Requests and streams of readers in progress.",
            sources.clients.changes.active_count,
        ),
    ):
        yield gauge(f"creek_changes_{name}", help, value)
    yield counter("creek_changes_total", "Changes written to the feed.", feed.changes_written)
    yield counter("creek_changes_gaps_total", "Gaps in the feed of this replica.", feed.gaps)
    yield counter(
        "creek_changes_filled_total",
        "Commit indices whose changes were copied from peers.",
        feed.filled_count,
    )


def _order_metrics(sources: ReplicaSources) -> Iterator[MetricFamily]:
    replica, driver = sources.driver.replica.view, sources.driver
    probe_counts = replica.probes.counts
    committed, tentative = replica.committed_length(), replica.tentative_length()
    yield gauge("creek_committed_length", "Committed requests.", committed)
    yield gauge("creek_tentative_length", "Tentative requests.", tentative)
    yield counter("creek_executions_total", "Executed tasks.", driver.executor.executions)
    yield counter(
        "creek_execution_seconds_total",
        "Time spent on execution and on applying its results.",
        driver.executor.execution_time_s,
    )
    for name, probe, help in (
        ("reexecutions", Probe.REEXECUTED, "Re-executed requests."),
        ("rollbacks", Probe.ROLLED_BACK, "Rolled-back requests."),
        (
            "apologies",
            Probe.APOLOGY,
            "Weak calls whose final response differed from the tentative one.",
        ),
        ("campaigns", Probe.CAMPAIGN, "Ballots that this replica started."),
    ):
        yield counter(f"creek_{name}_total", help, probe_counts.get(probe, 0))


def _peer_metrics(sources: ReplicaSources) -> Iterator[MetricFamily]:
    own, replica, peers = sources.config.replica, sources.driver.replica.view, sources.peers
    leader = replica.leader()
    yield gauge(
        "creek_leader",
        "Number of the replica that this replica trusts as leader, or -1 for none.",
        -1 if leader is None else leader,
    )
    yield gauge("creek_leading", "1 if this replica is the leader, otherwise 0.", leader == own)
    members = len(sources.membership.configuration.members)
    yield gauge("creek_members", "Members of the cluster, as this replica sees them.", members)
    progress = replica.stable_instances()
    yield gauge(
        "creek_lag_instances",
        "Instances that this replica lags behind the replica with the longest stable prefix.",
        sources.lag_instances(),
    )
    peer_lag = [
        ({"peer": str(peer)}, max(0, progress[own] - instance))
        for peer, instance in sorted(progress.items())
        if peer != own
    ]
    yield MetricFamily(
        "creek_peer_lag_instances",
        "gauge",
        "Instances that each peer lags behind this replica, by the peer's last report.",
        peer_lag,
    )
    connected = peers.connected_members()
    yield MetricFamily(
        "creek_peer_up",
        "gauge",
        "1 if there is a connection to the peer, otherwise 0.",
        [({"peer": str(peer)}, peer in connected) for peer in sorted(peers.links)],
    )
    yield counter("creek_peer_sent_bytes_total", "Bytes sent to peers.", peers.sent_bytes)
    yield counter("creek_peer_sent_messages_total", "Messages sent to peers.", peers.sent_messages)
    yield MetricFamily(
        "creek_clock_ahead_seconds",
        "gauge",
        "Largest observed lead of a peer's clock, if above the tolerated drift.",
        [({"peer": str(peer)}, us / 1e6) for peer, us in sorted(replica.drift_us.items())],
    )
    yield gauge(
        "creek_peers_differing",
        "Peers whose state differs from the state of this replica.",
        len(sources.divergence.differing_peers()),
    )
    differing = sources.differing_operations()
    yield MetricFamily(
        "creek_differing_operations",
        "gauge",
        "Operations whose code differs between this replica and the peer, if it is connected.",
        [({"peer": str(peer)}, len(differing.get(str(peer), ()))) for peer in connected],
    )


def _certificate_metrics(sources: ReplicaSources) -> Iterator[MetricFamily]:
    expiry_s = sources.certificate_expiry_s()
    yield MetricFamily(
        "creek_certificate_expires_seconds",
        "gauge",
        "Expiry time of the certificate, in seconds since 1970. Absent without a certificate.",
        [] if expiry_s is None else [({}, expiry_s)],
    )


def _disk_metrics(sources: ReplicaSources) -> Iterator[MetricFamily]:
    journal = sources.journal
    yield MetricFamily(
        "creek_fsync_seconds",
        "histogram",
        "Time from a write until the replica is notified that it is durable.",
        [({}, sources.fsync_latency)],
    )
    yield gauge("creek_journal_pending_bytes", "Bytes not yet on disk.", journal.pending_bytes)
    yield gauge("creek_disk_failed", "1 if writes fail, otherwise 0.", journal.fault is not None)


def _process_metrics() -> Iterator[MetricFamily]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield counter(
        "process_cpu_seconds_total", "User and system CPU time.", usage.ru_utime + usage.ru_stime
    )
    yield gauge("process_start_time_seconds", "Start time, in seconds since 1970.", _STARTED_S)
    if _STATM_PATH.exists():
        pages = int(_STATM_PATH.read_text(encoding="ascii").split()[1])
        size = pages * resource.getpagesize()
        yield gauge("process_resident_memory_bytes", "Resident memory size.", size)
