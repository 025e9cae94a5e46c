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
from creekdb.history import LIVE
from creekdb.pipeline import schemas
from creekdb.pipeline.schemas import ALL_KINDS, EXPERIMENT
from creekdb.pipeline.stages import output_dir, run_tables

Row = dict[str, Any]


class Tables(NamedTuple):
    """The rows of every table, as plain values; RUNS of those that were measured, and SAMPLES of
    live ones and those with faults."""

    measures: list[Row]
    latencies: list[Row]
    summary: list[Row]
    peaks: list[Row]
    verdicts: list[Row]
    runs: list[Row]
    samples: list[Row]
    over_time: list[Row]
    failed: list[Row]
    """Cells of which there is no run: `cell`, and `detail`, what was written down about it."""


def read_tables(out: Path) -> Tables:
    if not out.is_dir():
        raise UsageError(f"{out} is no folder: name one that 'creek pipeline simulate' has made")
    if not _files(out / "summary") or not _files(out / "measures"):
        raise UsageError(f"{out} holds no measures yet: run 'creek pipeline measure {out}' first")
    measures = _rows(_files(out / "measures"), schemas.MEASURES)
    measured = {row["run"] for row in measures}
    folders = [
        folder for folder in output_dir.run_folders(out) if folder.resolve().name in measured
    ]
    runs = _rows(_present(folders, "runs"), schemas.RUNS)
    watched = {row["run"] for row in runs if row["faults"] or row["source"] == LIVE}
    return Tables(
        measures=measures,
        latencies=_rows(_files(out / "latencies"), schemas.LATENCIES),
        summary=_rows(_files(out / "summary"), schemas.SUMMARY),
        peaks=_rows(_files(out / "peaks"), schemas.PEAKS),
        verdicts=_rows(_files(out / "verdicts"), schemas.VERDICTS),
        runs=runs,
        samples=_rows(
            _present([each for each in folders if each.resolve().name in watched], "samples"),
            schemas.SAMPLES,
        ),
        over_time=_rows(_files(out / "over_time"), schemas.OVER_TIME),
        failed=[
            {"cell": path.stem, "detail": path.read_text(encoding="utf-8", errors="replace")}
            for path in sorted((out / output_dir.FAILED).glob("*.txt"))
        ],
    )


def _files(table: Path) -> list[Path]:
    """What a stage wrote, without the marks that Spark leaves beside it."""
    found = table.rglob("*.parquet") if table.is_dir() else iter([table.with_suffix(".parquet")])
    return sorted(path for path in found if path.is_file() and not path.name.startswith(("_", ".")))


def _present(folders: Sequence[Path], table: str) -> list[Path]:
    files = (folder / run_tables.FILES[table] for folder in folders)
    return [file for file in files if file.is_file()]


def _rows(paths: Sequence[Path], schema: pa.Schema) -> list[Row]:
    return [row for path in paths for row in _rows_of(path, schema)]


def _rows_of(path: Path, schema: pa.Schema) -> Iterable[Row]:
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
        yield {name: None if _is_no_number(value) else value for name, value in row.items()}


def _is_no_number(value: object) -> bool:
    return isinstance(value, float) and not isfinite(value)


SETUP: Final = tuple(
    name for name in EXPERIMENT if name not in ("scheme", "load_tps", "duration_us")
)
"""What the points of one curve have in common."""


class Point(NamedTuple):
    """A measure at one load, over all seeds."""

    load_tps: float
    throughput_tps: float
    mean: float
    low: float | None
    high: float | None
    """The interval of confidence; None with a single seed."""
    seeds: int
    saturated: bool


class Peak(NamedTuple):
    """The highest load that was kept up with, over all seeds."""

    mean: float
    seeds: int
    too_much: float
    """The lowest load that was too much, on average; infinite if, for some seed, none was."""


class Evidence:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._points = _points(tables.summary)
        self._saturated = _saturated(tables.measures)

    @cached_property
    def usual(self) -> dict[str, Any]:
        """The paper's environment. Simulated, unless there are only live runs."""
        defaults = msgspec.structs.asdict(Experiment())
        sources = {row["source"] for row in self.tables.measures}
        source = "live" if sources == {"live"} else "simulated"
        return {name: defaults.get(name) for name in SETUP} | {"source": source, "faults": ""}

    @cached_property
    def schemes(self) -> list[str]:
        return sorted({row["scheme"] for row in self.tables.measures})

    def setup(self, **differing: Any) -> tuple[Any, ...]:
        assert set(differing) <= set(SETUP), differing
        return tuple((self.usual | differing)[name] for name in SETUP)

    def values(self, parameter: str) -> list[Any]:
        """Of one parameter, all that were tried with the others as usual; None comes first."""
        place = SETUP.index(parameter)
        usual = self.setup()
        found = {
            setup[place]
            for _, setup, _ in self._points
            if setup[:place] + setup[place + 1 :] == usual[:place] + usual[place + 1 :]
        }
        return sorted(found, key=lambda value: (value is not None, value))

    def curve(self, scheme: str, measure: str, **differing: Any) -> list[Point]:
        """A measure at all loads, by load."""
        setup = self.setup(**differing)
        throughputs = self._points.get((scheme, setup, "throughput_tps"), {})
        found = []
        for (load_tps, duration_us), row in self._points.get((scheme, setup, measure), {}).items():
            throughput = throughputs.get((load_tps, duration_us))
            if throughput is None or row["mean"] is None or throughput["mean"] is None:
                continue
            saturated = self._saturated[(scheme, setup, load_tps, duration_us)]
            found.append(
                (
                    duration_us,
                    Point(
                        load_tps=throughput["mean"] if load_tps is None else load_tps,
                        throughput_tps=throughput["mean"],
                        mean=row["mean"],
                        low=row["low"],
                        high=row["high"],
                        seeds=row["seeds"],
                        saturated=saturated,
                    ),
                )
            )
        longest = {point.load_tps: point for _, point in sorted(found)}
        return [longest[load_tps] for load_tps in sorted(longest)]

    def below_saturation(self, scheme: str, measure: str, **differing: Any) -> list[Point]:
        """The loads that the system kept up with, with every seed."""
        return [point for point in self.curve(scheme, measure, **differing) if not point.saturated]

    def peak(self, scheme: str, **differing: Any) -> Peak | None:
        setup = self.setup(**differing)
        rows = [
            row
            for row in self.tables.peaks
            if row["scheme"] == scheme and tuple(row[name] for name in SETUP) == setup
        ]
        if not rows:
            return None
        saturating = [row["saturating_tps"] for row in rows]
        return Peak(
            mean=fmean(row["peak_tps"] for row in rows),
            seeds=len({row["seed"] for row in rows}),
            too_much=fmean(inf if load is None else load for load in saturating),
        )

    def typical_run(self, scheme: str) -> Row | None:
        """Of the usual runs the one whose load is closest to half the peak."""
        peak, setup = self.peak(scheme), self.setup()
        runs = [
            row
            for row in self.tables.measures
            if row["scheme"] == scheme
            and tuple(row[name] for name in SETUP) == setup
            and row["load_tps"] is not None
        ]
        if peak is None or not runs:
            return None
        return min(runs, key=lambda row: (abs(row["load_tps"] - peak.mean / 2), row["seed"]))

    def by_kind(self, run: str) -> dict[str, dict[str, Row]]:
        """The latencies of one run, by kind of operation and answer."""
        found: dict[str, dict[str, Row]] = defaultdict(dict)
        for row in self.tables.latencies:
            if row["run"] == run and row["kind"] != ALL_KINDS:
                found[row["kind"]][row["answer"]] = row
        return dict(sorted(found.items()))


_Key = tuple[str, tuple[Any, ...], str]


def _points(summary: Iterable[Row]) -> dict[_Key, dict[tuple[float | None, int], Row]]:
    """By scheme, setup and measure: the rows by load and duration."""
    points: dict[_Key, dict[tuple[float | None, int], Row]] = defaultdict(dict)
    for row in summary:
        key = row["scheme"], tuple(row[name] for name in SETUP), row["measure"]
        points[key][row["load_tps"], row["duration_us"]] = row
    return dict(points)


def _saturated(measures: Iterable[Row]) -> dict[tuple[Any, ...], bool]:
    """By scheme, setup, load and duration: was it too much with any seed?"""
    found: dict[tuple[Any, ...], bool] = defaultdict(bool)
    for row in measures:
        setup = tuple(row[name] for name in SETUP)
        found[row["scheme"], setup, row["load_tps"], row["duration_us"]] |= bool(row["saturated"])
    return found
