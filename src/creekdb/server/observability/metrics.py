"""Numbers for who watches a replica, as Prometheus reads them.

What the replica counts anyway is read when somebody asks. The text is that of Prometheus'
exposition format 0.0.4.

All that is counted at one replica, for `GET /metrics`.
"""

import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from creekdb.protocol.probes import Probe
from creekdb.server.observability.latency import Histogram
from creekdb.server.runtime.server import Server

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


class MetricFamily(NamedTuple):
    """One metric, with a value for each set of labels."""

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
        lines += (f"# HELP {name} {_escaped(help)}", f"# TYPE {name} {kind}")
        for labels, value in samples:
            if isinstance(value, Histogram):
                lines += _buckets(name, labels, value)
            else:
                lines.append(f"{name}{_labels(labels)} {_number(value)}")
    return "\n".join(lines) + "\n"


def _buckets(name: str, labels: Labels, histogram: Histogram) -> Iterable[str]:
    """Each counts all that is not above its bound."""
    count = 0
    for bound, here in zip((*histogram.bounds, "+Inf"), tuple(histogram.counts), strict=True):
        count += here
        yield f"{name}_bucket{_labels({**labels, 'le': str(bound)})} {count}"
    yield f"{name}_sum{_labels(labels)} {_number(histogram.total)}"
    yield f"{name}_count{_labels(labels)} {count}"


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(value)


def _labels(labels: Labels) -> str:
    inside = ",".join(
        f'{name}="{_escaped(value).replace(chr(34), chr(92) + chr(34))}"'
        for name, value in labels.items()
    )
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


_STATM_PATH: Final = Path("/proc/self/statm")
_STARTED_S: Final = time.time()


def lag_instances(progress: dict[int, int], replica: int) -> int:
    """How many instances this replica is behind the one that has settled most."""
    return max(progress.values()) - progress[replica]


def metric_families(server: Server) -> Iterator[MetricFamily]:
    config = server.config
    about = {
        "cluster": config.cluster,
        "replica": str(config.replica),
        "datatype": config.datatype,
        "scheme": config.scheme,
    }
    yield MetricFamily("creek_info", "gauge", "What is replicated here, and how.", [(about, 1)])
    yield from _calls(server)
    yield from _order(server)
    yield from _peers(server)
    yield from _certificate(server)
    yield from _disk(server)
    yield from _process()


def _calls(server: Server) -> Iterator[MetricFamily]:
    yield MetricFamily(
        "creek_call_seconds",
        "histogram",
        "From the invocation of a call at this replica to its first answer, and to its last.",
        [({"answer": kind}, each) for kind, each in server.latencies.by_response().items()],
    )
    desk = server.dispatcher
    queues = {
        "backlog": server.driver.backlog,
        "calls": desk.in_flight,
        "after": len(desk.dependency_queue),
    }
    yield MetricFamily(
        "creek_queue_length",
        "gauge",
        "What waits: for execution or the disk (backlog), for answers (calls), for requests that "
        "have not arrived here (after).",
        [({"queue": name}, length) for name, length in queues.items()],
    )
    yield gauge("creek_clients", "Clients that are connected.", len(desk.connections))
    yield MetricFamily(
        "creek_refused_total",
        "counter",
        "Calls, messages and connections that were refused or dropped, by reason.",
        [({"reason": reason}, count) for reason, count in server.rejections_by_reason().items()],
    )


def _order(server: Server) -> Iterator[MetricFamily]:
    replica, driver = server.driver.replica, server.driver
    hits = replica.probes.counts
    committed, tentative = replica.committed_length(), replica.tentative_length()
    yield gauge("creek_committed_length", "Requests whose place is final.", committed)
    yield gauge("creek_tentative_length", "Requests whose place may change.", tentative)
    yield counter("creek_executions_total", "Tasks of execution.", driver.executions)
    yield counter(
        "creek_execution_seconds_total",
        "Time for executing, and for what follows from it.",
        driver.execution_time_s,
    )
    for name, probe, help in (
        ("reexecutions", Probe.REEXECUTED, "Requests that were executed again."),
        ("rollbacks", Probe.ROLLED_BACK, "Requests that were rolled back."),
        ("apologies", Probe.APOLOGY, "Weak calls that ended otherwise than their clients knew."),
        ("campaigns", Probe.CAMPAIGN, "Ballots that this replica began."),
    ):
        yield counter(f"creek_{name}_total", help, hits.get(probe, 0))


def _peers(server: Server) -> Iterator[MetricFamily]:
    own, replica, peers = server.config.replica, server.driver.replica, server.peers
    leader = replica.leader()
    yield gauge(
        "creek_leader",
        "Whom this replica trusts to lead; -1: none.",
        -1 if leader is None else leader,
    )
    yield gauge("creek_leading", "Is it this replica?", leader == own)
    members = len(server.membership.configuration.members)
    yield gauge("creek_members", "Members of the cluster, as far as it knows.", members)
    progress = replica.stable_instances()
    yield gauge(
        "creek_lag_instances",
        "Decisions that this replica is behind the one that has settled most.",
        lag_instances(progress, own),
    )
    settled = [
        ({"peer": str(peer)}, max(0, progress[own] - instance))
        for peer, instance in sorted(progress.items())
        if peer != own
    ]
    yield MetricFamily(
        "creek_peer_lag_instances",
        "gauge",
        "Decisions that each other replica is behind this one, as far as it has told.",
        settled,
    )
    up = peers.connected_members()
    yield MetricFamily(
        "creek_peer_up",
        "gauge",
        "Is there a connection to this peer?",
        [({"peer": str(peer)}, peer in up) for peer in sorted(peers.links)],
    )
    yield counter("creek_peer_sent_bytes_total", "Bytes to other replicas.", peers.sent_bytes)
    yield counter(
        "creek_peer_sent_messages_total", "Messages to other replicas.", peers.sent_messages
    )
    yield MetricFamily(
        "creek_clock_ahead_seconds",
        "gauge",
        "How far ahead a replica's clock has been seen, where that was too far.",
        [({"peer": str(peer)}, us / 1e6) for peer, us in sorted(replica.drift_us.items())],
    )
    yield gauge(
        "creek_peers_differing",
        "Other replicas that have come to another state than this one.",
        len(server.divergence.differing_peers()),
    )


def _certificate(server: Server) -> Iterator[MetricFamily]:
    yield MetricFamily(
        "creek_certificate_expires_seconds",
        "gauge",
        "When its certificate expires, since 1970, if it has one.",
        [] if server.certificate_expires_s is None else [({}, server.certificate_expires_s)],
    )


def _disk(server: Server) -> Iterator[MetricFamily]:
    journal = server.journal
    yield MetricFamily(
        "creek_fsync_seconds",
        "histogram",
        "Until the disk had what was written, and the replica knew.",
        [({}, server.fsync_latency)],
    )
    yield gauge("creek_journal_pending_bytes", "What is not on disk yet.", journal.pending_bytes)
    yield gauge("creek_disk_failed", "Does the disk refuse to write?", journal.fault is not None)


def _process() -> Iterator[MetricFamily]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield counter(
        "process_cpu_seconds_total", "User and system time.", used.ru_utime + used.ru_stime
    )
    yield gauge("process_start_time_seconds", "When it was started, since 1970.", _STARTED_S)
    if _STATM_PATH.exists():
        pages = int(_STATM_PATH.read_text(encoding="ascii").split()[1])
        size = pages * resource.getpagesize()
        yield gauge("process_resident_memory_bytes", "Memory that it occupies.", size)
