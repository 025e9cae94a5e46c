"""Tables of an output directory, and lookups in them.

Reading: the tables are small, a few rows per run. A non-finite number counts as null, and a missing
table as empty. A damaged table, or one whose columns differ from `schemas`, is rejected by name.

Lookups: the default setup is the paper's environment, that is the defaults of an experiment. Each
lookup names its differences from that setup: `curve("creek", "accuracy", warehouses=1)`. Of several
runs of an experiment at one load, the longest counts. Other modules format the results.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from math import inf, isfinite
from statistics import fmean
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from creekdb.errors import StorageFault, UsageError
from creekdb.evaluation import EXTENSIONS, Experiment
from creekdb.evaluation.measures import SATURATION_SHARE
from creekdb.history import LIVE_SOURCE
from creekdb.pipeline import schemas
from creekdb.pipeline.schemas import ALL_KINDS, EXPERIMENT_COLUMNS, RESULT_SCHEMAS
from creekdb.pipeline.stages.output_dir import FAILED_DIR
from creekdb.pipeline.storage import Location

ReportRow = dict[str, Any]


class ReportTables(NamedTuple):
    """Rows of all tables as plain values.

    `runs` covers measured runs only. `samples` covers live runs and runs with faults.
    """

    measures: list[ReportRow]
    latencies: list[ReportRow]
    summary: list[ReportRow]
    peaks: list[ReportRow]
    verdicts: list[ReportRow]
    runs: list[ReportRow]
    samples: list[ReportRow]
    over_time: list[ReportRow]
    failed: list[ReportRow]
    """Cells without a run: `cell`, and the recorded `detail` of the failure."""


def read_report_tables(out: Location) -> ReportTables:
    """Read all tables of an output directory."""
    if not out.is_directory():
        raise UsageError(
            f"cannot read {out}: not a directory; name an output of 'creek pipeline simulate'"
        )
    if not (out / "summary").names() or not (out / "measures").names():
        raise UsageError(f"{out} holds no measures: run 'creek pipeline measure {out}' first")
    results = {name: _read_rows(out / name, schema) for name, schema in RESULT_SCHEMAS.items()}
    measured = {row["run"] for row in results["measures"]}
    runs = [row for row in _read_rows(out / "runs", schemas.RUNS) if row["run"] in measured]
    sampled = pa.array(
        [row["run"] for row in runs if row["faults"] or row["source"] == LIVE_SOURCE], pa.string()
    )
    return ReportTables(
        **results,
        runs=runs,
        samples=_read_rows(out / "samples", schemas.SAMPLES, pc.field("run").isin(sampled)),
        failed=[
            {
                "cell": name.removesuffix(".txt"),
                "detail": (out / FAILED_DIR / name).read_bytes().decode(errors="replace"),
            }
            for name in (out / FAILED_DIR).names()
        ],
    )


def _read_rows(table: Location, schema: pa.Schema, filters: Any = None) -> list[ReportRow]:
    """Read the rows of a table; a missing table is empty."""
    return [row for name in table.names() for row in _read_file_rows(table / name, schema, filters)]


def _read_file_rows(file: Location, schema: pa.Schema, filters: Any) -> Iterable[ReportRow]:
    actual = file.read_schema()
    for field in schema:
        kind = actual.field(field.name).type if field.name in actual.names else "missing"
        if kind != field.type:
            raise StorageFault(
                f"cannot read {file}: column '{field.name}' must be {field.type} and is {kind}; "
                "another version of Creek wrote it"
            )
    for row in file.read_table(schema.names, filters=filters).to_pylist():
        yield {name: None if _is_not_finite(value) else value for name, value in row.items()}


def _is_not_finite(value: object) -> bool:
    return isinstance(value, float) and not isfinite(value)


SETUP_COLUMNS: Final = tuple(
    name for name in EXPERIMENT_COLUMNS if name not in ("scheme", "load_tps", "duration_us")
)
"""Columns that the points of one curve share."""


_EXTENSIONS_COLUMN: Final = SETUP_COLUMNS.index("extensions")
MEASURES_ROW: Final = "measures"


class CurvePoint(NamedTuple):
    """A measure at one load, over all seeds."""

    load_tps: float
    throughput_tps: float
    mean: float
    low: float | None
    high: float | None
    """Confidence interval of 95 %; None with a single seed."""
    seeds: int
    is_saturated: bool


class MeasuredPeak(NamedTuple):
    """Throughput at the highest load below saturation, over all seeds."""

    mean: float
    seeds: int
    bound_tps: float
    """Upper bound of the true peak, mean over seeds; infinite if a seed has no saturating load."""


class Evidence:
    """Lookups in the tables by scheme, setup and measure."""

    def __init__(self, tables: ReportTables) -> None:
        self.tables = tables
        self._curve_rows = _curve_rows(tables.summary)
        self._saturated_loads = _saturated_loads(tables.measures)

    @cached_property
    def default_setup(self) -> dict[str, Any]:
        """Environment of the paper; its source is `simulated` unless all runs are live."""
        sources = {row["source"] for row in self.tables.measures}
        source = LIVE_SOURCE if sources == {LIVE_SOURCE} else "simulated"
        # Live replicas have the extensions of their configuration, which are on by default.
        extensions = self.tables.measures[0]["extensions"] if source == LIVE_SOURCE else ""
        texts = {"source": source, "faults": "", "extensions": extensions}
        defaults = msgspec.structs.asdict(Experiment()) | texts
        return {name: defaults[name] for name in SETUP_COLUMNS}

    @property
    def source(self) -> str:
        """Source of the default setup: `simulated` or `live`."""
        return str(self.default_setup["source"])

    @cached_property
    def schemes(self) -> list[str]:
        return sorted({row["scheme"] for row in self.tables.measures})

    def extension_sets(self, **differing: Any) -> list[str]:
        """Return the sets of extensions among runs of a setup: fewer first, then by EXTENSIONS."""
        names = list(EXTENSIONS)
        found = {
            str(setup[_EXTENSIONS_COLUMN])
            for _, setup, _ in self._curve_rows
            if setup == self.setup(**differing, extensions=setup[_EXTENSIONS_COLUMN])
        }

        def rank(text: str) -> tuple[int, list[int]]:
            chosen = text.split(",") if text else []
            return len(chosen), [names.index(each) for each in chosen if each in names]

        return sorted(found, key=rank)

    def setup(self, **differing: Any) -> tuple[Any, ...]:
        """Return the default setup with some values replaced, in the order of SETUP_COLUMNS."""
        assert set(differing) <= set(SETUP_COLUMNS), differing
        return tuple((self.default_setup | differing)[name] for name in SETUP_COLUMNS)

    def values(self, parameter: str, **differing: Any) -> list[Any]:
        """Return the values of a parameter among runs of the otherwise equal setup.

        None sorts first.
        """
        column = SETUP_COLUMNS.index(parameter)
        default = self.setup(**differing)
        values = {
            setup[column]
            for _, setup, _ in self._curve_rows
            if setup[:column] + setup[column + 1 :] == default[:column] + default[column + 1 :]
        }
        return sorted(values, key=lambda value: (value is not None, value))

    def curve(self, scheme: str, measure: str, **differing: Any) -> list[CurvePoint]:
        """Return a measure at all loads, in ascending order of load."""
        setup = self.setup(**differing)
        rows = self._curve_rows.get((scheme, setup, measure), {})
        throughputs = self._curve_rows.get((scheme, setup, "throughput_tps"), {})
        points: dict[float, CurvePoint] = {}
        # Of several durations at one load, the longest counts: it comes last.
        for (load_tps, duration_us), row in sorted(rows.items(), key=lambda item: item[0][1]):
            throughput_tps = throughputs.get((load_tps, duration_us), {}).get("mean")
            if throughput_tps is not None and row["mean"] is not None:
                point = CurvePoint(
                    load_tps=throughput_tps if load_tps is None else load_tps,
                    throughput_tps=throughput_tps,
                    mean=row["mean"],
                    low=row["low"],
                    high=row["high"],
                    seeds=row["seeds"],
                    is_saturated=self._saturated_loads[(scheme, setup, load_tps, duration_us)],
                )
                points[point.load_tps] = point
        return [points[load_tps] for load_tps in sorted(points)]

    def peak(self, scheme: str, **differing: Any) -> MeasuredPeak | None:
        """Return the peak throughput of a scheme, or None without an unsaturated run.

        A seed does not count if it had no saturating load, and lower loads than another seed.
        """
        setup = self.setup(**differing)
        rows = _rows_of(self.tables.peaks, scheme, setup)
        if not rows:
            return None
        runs = _rows_of(self.tables.measures, scheme, setup)
        highest_tps = max(row["load_tps"] for row in rows)
        rows = [row for row in rows if row["saturating_tps"] or row["load_tps"] == highest_tps]
        return MeasuredPeak(
            mean=fmean(row["peak_tps"] for row in rows),
            seeds=len({row["seed"] for row in rows}),
            bound_tps=fmean(_peak_bound(row, runs) for row in rows),
        )

    def typical_run(self, scheme: str) -> ReportRow | None:
        """Return the default-setup run with the load closest to half the peak, or None."""
        peak, setup = self.peak(scheme), self.setup()
        runs = [
            row
            for row in _rows_of(self.tables.measures, scheme, setup)
            if row["load_tps"] is not None
        ]
        if peak is None or not runs:
            return None
        return min(runs, key=lambda row: (abs(row["load_tps"] - peak.mean / 2), row["seed"]))

    def figures_of_run(self, run: str) -> dict[str, ReportRow]:
        """Return the measures of one run as MEASURES_ROW, and its latencies by response kind."""
        rows = [row for row in self._latency_rows(run) if row["kind"] == ALL_KINDS]
        figures = {row["answer"]: row for row in rows}
        for row in self.tables.measures:
            if row["run"] == run:
                figures[MEASURES_ROW] = row
        return figures

    def _latency_rows(self, run: str) -> list[ReportRow]:
        return [row for row in self.tables.latencies if row["run"] == run]

    def latencies_by_kind(self, run: str) -> dict[str, dict[str, ReportRow]]:
        """Return the latencies of one run by kind of operation and kind of response."""
        latencies: dict[str, dict[str, ReportRow]] = defaultdict(dict)
        for row in self._latency_rows(run):
            if row["kind"] != ALL_KINDS:
                latencies[row["kind"]][row["answer"]] = row
        return dict(sorted(latencies.items()))


def _setup_of(row: ReportRow) -> tuple[Any, ...]:
    return tuple(row[name] for name in SETUP_COLUMNS)


def _rows_of(rows: list[ReportRow], scheme: str, setup: tuple[Any, ...]) -> list[ReportRow]:
    return [row for row in rows if row["scheme"] == scheme and _setup_of(row) == setup]


def _peak_bound(peak: ReportRow, runs: list[ReportRow]) -> float:
    """Return an upper bound of the throughput that one seed can sustain.

    A saturated system works at its capacity. So its throughput at the lowest saturating load is a
    bound, and not the load, of which it falls short. A system whose throughput collapses shows no
    capacity. The load is then the only bound.
    """
    load_tps, peak_tps = peak["saturating_tps"], peak["peak_tps"]
    if load_tps is None:
        return inf
    saturated_tps = max(
        (
            row["throughput_tps"] or 0.0
            for row in runs
            if row["seed"] == peak["seed"] and row["load_tps"] == load_tps and row["saturated"]
        ),
        default=0.0,
    )
    has_collapsed = saturated_tps < SATURATION_SHARE * peak_tps
    return float(load_tps if has_collapsed else max(saturated_tps, peak_tps))


_CurveKey = tuple[str, tuple[Any, ...], str]


def _curve_rows(
    summary: Iterable[ReportRow],
) -> dict[_CurveKey, dict[tuple[float | None, int], ReportRow]]:
    """Index the summary by scheme, setup and measure, then by load and duration."""
    points: dict[_CurveKey, dict[tuple[float | None, int], ReportRow]] = defaultdict(dict)
    for row in summary:
        key = row["scheme"], _setup_of(row), row["measure"]
        points[key][row["load_tps"], row["duration_us"]] = row
    return dict(points)


def _saturated_loads(measures: Iterable[ReportRow]) -> dict[tuple[Any, ...], bool]:
    """Map scheme, setup, load and duration to True if any seed was saturated."""
    saturated: dict[tuple[Any, ...], bool] = defaultdict(bool)
    for row in measures:
        key = row["scheme"], _setup_of(row), row["load_tps"], row["duration_us"]
        saturated[key] |= bool(row["saturated"])
    return saturated
