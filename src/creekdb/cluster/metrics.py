"""Numbers for who watches a replica, as Prometheus reads them.

What the replica counts anyway is read when somebody asks. The text is that of Prometheus'
exposition format 0.0.4.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from creekdb.cluster.timing import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


class Family(NamedTuple):
    """One metric, with a value for each set of labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Iterable[tuple[Labels, float | Histogram]]


def gauge(name: str, help: str, value: float) -> Family:
    return Family(name, "gauge", help, [({}, value)])


def counter(name: str, help: str, value: float) -> Family:
    return Family(name, "counter", help, [({}, value)])


def text_of(families: Iterable[Family]) -> str:
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
