"""Reading the tables that the other stages left in an output folder.

By now they are small: a few rows for each run. What is no finite number counts as null. A table
that is not there is empty; one that is damaged, or whose columns are not those of `schemas`, is
named and refused.

What the tables say, as questions and answers.

`usual` is the paper's environment, the defaults of an experiment; every question names what
differs from it: `curve("creek", "accuracy", warehouses=1)`. Where an experiment was run more than
once with one load, the longest run counts. Nothing here knows how an answer is shown.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from creekdb.errors import StorageFault, UsageError
from creekdb.evaluation import Experiment
from creekdb.history import LIVE_SOURCE
from creekdb.pipeline import schemas
from creekdb.pipeline.schemas import ALL_KINDS, EXPERIMENT_COLUMNS
from creekdb.pipeline.stages import output_dir, run_tables

ReportRow = dict[str, Any]


class ReportTables(NamedTuple):
    """The rows of every table, as plain values; RUNS of those that were measured, and SAMPLES of
    live ones and those with faults."""

    measures: list[ReportRow]
    latencies: list[ReportRow]
    summary: list[ReportRow]
    peaks: list[ReportRow]
    verdicts: list[ReportRow]
    runs: list[ReportRow]
    samples: list[ReportRow]
    over_time: list[ReportRow]
    failed: list[ReportRow]
    """Cells of which there is no run: `cell`, and `detail`, what was written down about it."""


def read_report_tables(out: Path) -> ReportTables:
    if not out.is_dir():
        raise UsageError(f"{out} is no folder: name one that 'creek pipeline simulate' has made")
    if not _parquet_files(out / "summary") or not _parquet_files(out / "measures"):
        raise UsageError(f"{out} holds no measures yet: run 'creek pipeline measure {out}' first")
    measures = _read_rows(_parquet_files(out / "measures"), schemas.MEASURES)
    measured = {row["run"] for row in measures}
    folders = [
        folder for folder in output_dir.run_directories(out) if folder.resolve().name in measured
    ]
    runs = _read_rows(_existing_files(folders, "runs"), schemas.RUNS)
    watched = {row["run"] for row in runs if row["faults"] or row["source"] == LIVE_SOURCE}
    return ReportTables(
        measures=measures,
        latencies=_read_rows(_parquet_files(out / "latencies"), schemas.LATENCIES),
        summary=_read_rows(_parquet_files(out / "summary"), schemas.SUMMARY),
        peaks=_read_rows(_parquet_files(out / "peaks"), schemas.PEAKS),
        verdicts=_read_rows(_parquet_files(out / "verdicts"), schemas.VERDICTS),
        runs=runs,
        samples=_read_rows(
            _existing_files(
                [each for each in folders if each.resolve().name in watched], "samples"
            ),
            schemas.SAMPLES,
        ),
        over_time=_read_rows(_parquet_files(out / "over_time"), schemas.OVER_TIME),
        failed=[
            {"cell": path.stem, "detail": path.read_text(encoding="utf-8", errors="replace")}
            for path in sorted((out / output_dir.FAILED_DIR).glob("*.txt"))
        ],
    )


def _parquet_files(table: Path) -> list[Path]:
    """What a stage wrote, without the marks that Spark leaves beside it."""
    found = table.rglob("*.parquet") if table.is_dir() else iter([table.with_suffix(".parquet")])
    return sorted(path for path in found if path.is_file() and not path.name.startswith(("_", ".")))


def _existing_files(folders: Sequence[Path], table: str) -> list[Path]:
    files = (folder / run_tables.TABLE_FILES[table] for folder in folders)
    return [file for file in files if file.is_file()]


def _read_rows(paths: Sequence[Path], schema: pa.Schema) -> list[ReportRow]:
    return [row for path in paths for row in _read_file_rows(path, schema)]


def _read_file_rows(path: Path, schema: pa.Schema) -> Iterable[ReportRow]:
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise StorageFault(f"{path} cannot be read as Parquet: {error}") from error
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    for field in schema:
        if kinds.get(field.name) != field.type:
            found = kinds.get(field.name, "missing")
            raise StorageFault(
                f"{path} is of another version: its column '{field.name}' should be {field.type} "
                f"and is {found}"
            )
    for row in table.select(schema.names).to_pylist():
        yield {name: None if _is_not_finite(value) else value for name, value in row.items()}


def _is_not_finite(value: object) -> bool:
    return isinstance(value, float) and not isfinite(value)


SETUP_COLUMNS: Final = tuple(
    name for name in EXPERIMENT_COLUMNS if name not in ("scheme", "load_tps", "duration_us")
)
"""What the points of one curve have in common."""


class CurvePoint(NamedTuple):
    """A measure at one load, over all seeds."""

    load_tps: float
    throughput_tps: float
    mean: float
    low: float | None
    high: float | None
    """The interval of confidence; None with a single seed."""
    seeds: int
    is_saturated: bool


class MeasuredPeak(NamedTuple):
    """The highest load that was kept up with, over all seeds."""

    mean: float
    seeds: int
    saturating_tps: float
    """The lowest load that was too much, on average; infinite if, for some seed, none was."""


class Evidence:
    def __init__(self, tables: ReportTables) -> None:
        self.tables = tables
        self._curve_rows = _curve_rows(tables.summary)
        self._saturated_loads = _saturated_loads(tables.measures)

    @cached_property
    def default_setup(self) -> dict[str, Any]:
        """The paper's environment. Simulated, unless there are only live runs."""
        defaults = msgspec.structs.asdict(Experiment())
        sources = {row["source"] for row in self.tables.measures}
        source = "live" if sources == {"live"} else "simulated"
        return {name: defaults.get(name) for name in SETUP_COLUMNS} | {
            "source": source,
            "faults": "",
        }

    @cached_property
    def schemes(self) -> list[str]:
        return sorted({row["scheme"] for row in self.tables.measures})

    def setup(self, **differing: Any) -> tuple[Any, ...]:
        assert set(differing) <= set(SETUP_COLUMNS), differing
        return tuple((self.default_setup | differing)[name] for name in SETUP_COLUMNS)

    def values(self, parameter: str) -> list[Any]:
        """Of one parameter, all that were tried with the others as usual; None comes first."""
        place = SETUP_COLUMNS.index(parameter)
        usual = self.setup()
        found = {
            setup[place]
            for _, setup, _ in self._curve_rows
            if setup[:place] + setup[place + 1 :] == usual[:place] + usual[place + 1 :]
        }
        return sorted(found, key=lambda value: (value is not None, value))

    def curve(self, scheme: str, measure: str, **differing: Any) -> list[CurvePoint]:
        """A measure at all loads, by load."""
        setup = self.setup(**differing)
        throughputs = self._curve_rows.get((scheme, setup, "throughput_tps"), {})
        found = []
        for (load_tps, duration_us), row in self._curve_rows.get(
            (scheme, setup, measure), {}
        ).items():
            throughput = throughputs.get((load_tps, duration_us))
            if throughput is None or row["mean"] is None or throughput["mean"] is None:
                continue
            saturated = self._saturated_loads[(scheme, setup, load_tps, duration_us)]
            found.append(
                (
                    duration_us,
                    CurvePoint(
                        load_tps=throughput["mean"] if load_tps is None else load_tps,
                        throughput_tps=throughput["mean"],
                        mean=row["mean"],
                        low=row["low"],
                        high=row["high"],
                        seeds=row["seeds"],
                        is_saturated=saturated,
                    ),
                )
            )
        longest = {point.load_tps: point for _, point in sorted(found)}
        return [longest[load_tps] for load_tps in sorted(longest)]

    def below_saturation(self, scheme: str, measure: str, **differing: Any) -> list[CurvePoint]:
        """The loads that the system kept up with, with every seed."""
        return [
            point for point in self.curve(scheme, measure, **differing) if not point.is_saturated
        ]

    def peak(self, scheme: str, **differing: Any) -> MeasuredPeak | None:
        setup = self.setup(**differing)
        rows = [
            row
            for row in self.tables.peaks
            if row["scheme"] == scheme and tuple(row[name] for name in SETUP_COLUMNS) == setup
        ]
        if not rows:
            return None
        saturating = [row["saturating_tps"] for row in rows]
        return MeasuredPeak(
            mean=fmean(row["peak_tps"] for row in rows),
            seeds=len({row["seed"] for row in rows}),
            saturating_tps=fmean(inf if load is None else load for load in saturating),
        )

    def typical_run(self, scheme: str) -> ReportRow | None:
        """Of the usual runs the one whose load is closest to half the peak."""
        peak, setup = self.peak(scheme), self.setup()
        runs = [
            row
            for row in self.tables.measures
            if row["scheme"] == scheme
            and tuple(row[name] for name in SETUP_COLUMNS) == setup
            and row["load_tps"] is not None
        ]
        if peak is None or not runs:
            return None
        return min(runs, key=lambda row: (abs(row["load_tps"] - peak.mean / 2), row["seed"]))

    def latencies_by_kind(self, run: str) -> dict[str, dict[str, ReportRow]]:
        """The latencies of one run, by kind of operation and answer."""
        found: dict[str, dict[str, ReportRow]] = defaultdict(dict)
        for row in self.tables.latencies:
            if row["run"] == run and row["kind"] != ALL_KINDS:
                found[row["kind"]][row["answer"]] = row
        return dict(sorted(found.items()))


_CurveKey = tuple[str, tuple[Any, ...], str]


def _curve_rows(
    summary: Iterable[ReportRow],
) -> dict[_CurveKey, dict[tuple[float | None, int], ReportRow]]:
    """By scheme, setup and measure: the rows by load and duration."""
    points: dict[_CurveKey, dict[tuple[float | None, int], ReportRow]] = defaultdict(dict)
    for row in summary:
        key = row["scheme"], tuple(row[name] for name in SETUP_COLUMNS), row["measure"]
        points[key][row["load_tps"], row["duration_us"]] = row
    return dict(points)


def _saturated_loads(measures: Iterable[ReportRow]) -> dict[tuple[Any, ...], bool]:
    """By scheme, setup, load and duration: was it too much with any seed?"""
    found: dict[tuple[Any, ...], bool] = defaultdict(bool)
    for row in measures:
        setup = tuple(row[name] for name in SETUP_COLUMNS)
        found[row["scheme"], setup, row["load_tps"], row["duration_us"]] |= bool(row["saturated"])
    return found
