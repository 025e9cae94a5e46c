"""Synthetic report tables: latency curves of a queue, with a given peak for each scheme.

`write_tables` writes them like the stages of the pipeline. All values depend only on the arguments.
"""

import sys
from collections.abc import Iterable, Sequence
from math import sqrt
from pathlib import Path
from random import Random
from statistics import fmean, stdev
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from creekdb.evaluation import Experiment
from creekdb.pipeline import schemas
from creekdb.pipeline.report.evidence import ReportRow, ReportTables
from creekdb.pipeline.stages import output_dir
from creekdb.protocol.extensions import join_extensions

PEAKS_TPS = {"smr": 2_750.0, "bayou": 2_680.0, "creek": 31_800.0, "archie": 34_600.0}
EXECUTION_US = {"smr": 370.0, "bayou": 370.0, "creek": 540.0, "archie": 540.0}
CONTENTION = {1: 0.34, 5: 1.0, 20: 1.22}
LOADS = (0.08, 0.2, 0.4, 0.6, 0.75, 0.85, 0.93, 0.98, 1.02, 1.1)
CHECKERS = (
    "session_order",
    "commit_order",
    "real_time",
    "convergence",
    "replay",
    "fluctuating",
)
PARTITION_FAULTS = "partition 0,1|2,3,4 at 1s; heal at 3s"
STATISTICS = {"mean_us": 1.0, "p50_us": 0.93, "p95_us": 1.9, "p99_us": 2.8}


def experiments(schemes: Iterable[str], seeds: int = 3) -> list[Experiment]:
    """Return the experiments of Figure 1, the variations of Section 6.3, and a partition."""
    return [
        Experiment(scheme=scheme, seed=seed, load_tps=round(_peak(scheme, each) * load, 1), **each)
        for scheme in schemes
        for each in _variations(scheme)
        for load in ((0.3,) if each.get("faults") else LOADS)
        for seed in range(seeds)
    ]


def _variations(scheme: str) -> list[dict[str, Any]]:
    varied: list[dict[str, Any]] = [{}]
    varied += [{"warehouses": 1}, {"warehouses": 20}]
    varied += [{"exec_scale": 5.0}, {"replicas": 9}, {"cores": 32}]
    if scheme in ("creek", "archie"):
        varied += [{"strong_share": share} for share in (0.1, 0.5)]
        varied += [{"layout": "fine", "warehouses": warehouses} for warehouses in (1, 5, 20)]
        varied += [{"strong_share": share, "exec_scale": 5.0} for share in (0.1, 0.5)]
    if scheme == "creek":
        varied += [{"faults": tuple(PARTITION_FAULTS.split("; ")), "duration_us": 5_000_000}]
    return varied


def _peak(scheme: str, varied: dict[str, Any]) -> float:
    parallel = scheme not in ("smr", "bayou")
    peak = PEAKS_TPS.get(scheme, 20_000.0) / float(varied.get("exec_scale", 1.0))
    if parallel:
        peak *= CONTENTION[varied.get("warehouses", 5)]
        peak *= 1.25 if varied.get("layout") == "fine" else 1
        peak *= 1.6 if varied.get("cores", 16) > 16 else 1
    return peak


def report_tables(
    chosen: Sequence[Experiment] | None = None, illegal: Sequence[str] = (), verified: bool = True
) -> ReportTables:
    """Return the tables of some experiments, or of all.

    `illegal` lists illegal verdicts as `run:checker`.
    """
    tables = ReportTables([], [], [], [], [], [], [], [], [])
    for number, experiment in enumerate(experiments(PEAKS_TPS) if chosen is None else chosen):
        _add_run(tables, f"{experiment.scheme}-{number:04}", experiment)
        if verified:
            tables.verdicts.extend(_verdicts(tables.runs[-1], illegal))
    tables.summary.extend(summary(tables))
    tables.peaks.extend(peaks(tables))
    return tables


def add_live_run(tables: ReportTables, weak_us: int, strong_us: int, accuracy: float) -> None:
    """Add a live run of Creek with these median latencies and this accuracy."""
    names = {"run": "live", "source": "live"}
    tables.runs.append(tables.runs[0] | names | {"replicas": 3, "faults": LIVE_FAULTS})
    tables.measures.append(tables.measures[0] | names | {"replicas": 3, "accuracy": accuracy})
    for answer, p50_us in (("weak_tentative", weak_us), ("strong_stable", strong_us)):
        columns = {"run": "live", "answer": answer, "kind": schemas.ALL_KINDS, "answers": 100}
        tables.latencies.append(columns | dict.fromkeys(STATISTICS, p50_us))
    tables.verdicts.extend(_verdicts(tables.runs[-1], ()))


LIVE_FAULTS = "crash 2 at 300ms; restart 2 at 700ms"


def _add_run(tables: ReportTables, run: str, experiment: Experiment) -> None:
    random = Random(f"{experiment}")
    scheme = experiment.scheme
    varied = {
        name: getattr(experiment, name) for name in ("warehouses", "exec_scale", "layout", "cores")
    }
    peak = _peak(scheme, varied) * random.gauss(1, 0.004)
    utilisation = experiment.load_tps / peak
    parallel = scheme not in ("smr", "bayou")
    saturated = utilisation >= 1
    contention = utilisation / CONTENTION[experiment.warehouses]
    common = _experiment_columns(experiment) | {"seed": experiment.seed, "run": run}
    replicas, duration_us = experiment.replicas, experiment.duration_us
    rerun_share = random.gauss(0.05 if scheme == "archie" else 0.08, 0.003)
    ratio = 1 + rerun_share * min(contention, 2.4) ** 3
    tables.runs.append(
        common
        | {
            "begin_us": experiment.warm_up_end_us,
            "end_us": duration_us,
            "executions": int(experiment.load_tps * replicas * ratio),
            "to_execute": int(experiment.load_tps * replicas),
            "busy_us": 1,
            "core_us": 1,
            "bytes": 1,
            "capacity_bytes": 1,
            "messages": 1,
            "trace_hash": f"{random.getrandbits(64):016x}",
            "unsettled": None,
            "violated": "",
            "command": experiment.to_command(),
        }
    )
    tables.measures.append(
        common
        | {
            "asked": int(experiment.load_tps * duration_us / 1e6),
            "throughput_tps": min(experiment.load_tps, peak) * random.gauss(1, 0.002),
            "saturated": saturated,
            "backlog": int(utilisation * 40),
            "accuracy": _accuracy(scheme, contention, random),
            "exact_accuracy": _accuracy(scheme, contention, random) - 0.01,
            "execution_ratio": ratio if parallel else 1.0,
            "cpu_utilisation": min(utilisation, 1.0) * (0.96 if parallel else 0.06),
            "network_utilisation": min(utilisation, 1.0) * 0.21,
            "messages_per_operation": 12.0,
        }
    )
    times = dict(_latencies(scheme, utilisation, experiment.exec_scale, random))
    for answer, mean_us in times.items():
        for kind, factor in ((schemas.ALL_KINDS, 1.0), ("payment", 0.4), ("new_order", 1.3)):
            tables.latencies.append(
                {"run": run, "answer": answer, "kind": kind, "answers": 100}
                | {name: _statistic(name, mean_us * factor * by) for name, by in STATISTICS.items()}
            )
    if experiment.faults:
        tables.samples.extend(_samples(run, experiment))


def _statistic(name: str, value: float) -> float | int:
    return value if name == "mean_us" else int(value)


def _experiment_columns(experiment: Experiment) -> ReportRow:
    values = msgspec.structs.asdict(experiment) | {"source": "simulated"}
    values["faults"] = "; ".join(experiment.faults)
    values["extensions"] = join_extensions(experiment.extensions)
    return {name: values[name] for name in schemas.EXPERIMENT_COLUMNS}


def _accuracy(scheme: str, contention: float, random: Random) -> float:
    lost = abs(random.gauss(0.004, 0.001)) * min(contention, 2.5) ** 2
    return 1 - lost if scheme == "creek" else 1.0


def _latencies(
    scheme: str, utilisation: float, scale: float, random: Random
) -> Iterable[tuple[str, float]]:
    queue = 0.02 * utilisation / (1 - utilisation) if utilisation < 0.995 else 6.0 * utilisation
    weak = EXECUTION_US.get(scheme, 540) * scale * (1 + queue) * random.gauss(1, 0.004)
    short = 105 * scale * (1 + queue)
    agreed = 790 * random.gauss(1, 0.004)
    match scheme:
        case "smr":
            yield "weak_tentative", agreed + weak * (1 + utilisation)
            yield "strong_stable", agreed + weak * (1 + utilisation)
            yield "all_done", agreed + weak * (1 + utilisation)
        case "bayou":
            yield "weak_tentative", weak * (1 + utilisation)
            yield "strong_tentative", weak * (1 + utilisation)
            yield "strong_stable", 500 + weak * (1 + utilisation)
            yield "all_done", 250 + weak * (1 + utilisation)
        case "archie":
            yield "weak_tentative", agreed * 0.75 + weak
            yield "weak_speculated", agreed * 0.7 + weak
            yield "strong_stable", agreed * 1.2 + short
            yield "strong_speculated", agreed * 0.7 + short
            yield "all_done", agreed + weak * 0.6
        case _:
            yield "weak_tentative", weak
            yield "weak_stable", agreed + weak
            yield "strong_tentative", short
            yield "strong_stable", agreed + short
            yield "all_done", agreed * 0.5 + weak * 0.6


def _samples(run: str, experiment: Experiment) -> Iterable[ReportRow]:
    rate = experiment.load_tps
    for step in range(101):
        at_us = step * experiment.duration_us // 100
        at_s = at_us / 1e6
        for replica in range(experiment.replicas):
            is_minority = replica < 2
            behind = min(max(at_s - 1, 0), 2) * rate if is_minority else 0.0
            tentative = 12 + behind * 0.4
            committed = rate * at_s - behind
            if at_s >= 3:
                healed = min((at_s - 3) / 0.4, 1)
                committed = rate * at_s - behind * (1 - healed)
                tentative = 12 + behind * 0.4 * (1 - healed)
            yield {
                "run": run,
                "replica": replica,
                "at_us": at_us,
                "committed": int(committed),
                "tentative": int(tentative) + (step * 7 + replica) % 9,
                "executions": int(rate * at_s),
                "busy_us": 0,
                "bytes": 0,
            }


def _verdicts(run: ReportRow, illegal: Sequence[str]) -> Iterable[ReportRow]:
    for checker in CHECKERS:
        wrong = f"{run['run']}:{checker}" in illegal
        unknown = checker == "fluctuating" and run["seed"] == 2
        verdict = "illegal" if wrong else "unknown" if unknown else "ok"
        detail = "w 1:4 came before w 1:3" if wrong else "too long to search" if unknown else ""
        yield {
            "run": run["run"],
            "checker": checker,
            "verdict": verdict,
            "detail": detail,
            "command": run["command"],
        }


def summary(tables: ReportTables) -> list[ReportRow]:
    values: dict[tuple[Any, ...], list[float]] = {}
    experiment_of = {}
    for row in tables.measures:
        experiment_of[row["run"]] = key = tuple(row[name] for name in schemas.EXPERIMENT_COLUMNS)
        for measure in schemas.MEASURES.names[len(schemas.EXPERIMENT_COLUMNS) + 3 :]:
            if row[measure] is not None:
                values.setdefault((*key, measure), []).append(float(row[measure]))
    for row in tables.latencies:
        if row["kind"] == schemas.ALL_KINDS:
            for name in STATISTICS:
                key = (*experiment_of[row["run"]], f"{row['answer']}_{name}")
                values.setdefault(key, []).append(float(row[name]))
    names = (*schemas.EXPERIMENT_COLUMNS, "measure")
    rows = []
    for key, each in values.items():
        margin = 4.3 * stdev(each) / sqrt(len(each)) if len(each) > 1 else None
        mean = fmean(each)
        rows.append(
            dict(zip(names, key, strict=True))
            | {"seeds": len(each), "mean": mean}
            | {"low": None if margin is None else mean - margin}
            | {"high": None if margin is None else mean + margin}
        )
    return rows


def peaks(tables: ReportTables) -> list[ReportRow]:
    names = list(schemas.PEAKS.names[:-3])
    groups: dict[tuple[Any, ...], list[ReportRow]] = {}
    for row in tables.measures:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    peak_rows = []
    for key, rows in groups.items():
        unsaturated = [row for row in rows if not row["saturated"]]
        saturating = [row["load_tps"] for row in rows if row["saturated"]]
        if unsaturated:
            best = max(unsaturated, key=lambda row: float(row["load_tps"]))
            peak_rows.append(
                dict(zip(names, key, strict=True))
                | {"peak_tps": best["throughput_tps"], "load_tps": best["load_tps"]}
                | {"saturating_tps": min(saturating, default=None)}
            )
    return peak_rows


def write_tables(tables: ReportTables, out: Path) -> Path:
    for name, schema in (
        ("measures", schemas.MEASURES),
        ("latencies", schemas.LATENCIES),
        ("summary", schemas.SUMMARY),
        ("peaks", schemas.PEAKS),
        ("verdicts", schemas.VERDICTS),
    ):
        rows = getattr(tables, name)
        if rows:
            _write_table(rows, schema, out / name / "part-00000.parquet")
            (out / name / "_SUCCESS").touch()
    (out / output_dir.MANIFEST_FILE).write_text("{}")
    _write_table(tables.runs, schemas.RUNS, out / "runs" / "part-all.parquet")
    _write_table(tables.samples, schemas.SAMPLES, out / "samples" / "part-all.parquet")
    return out


def _write_table(rows: list[ReportRow], schema: pa.Schema, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), path)


if __name__ == "__main__":
    print(write_tables(report_tables(), Path(sys.argv[1])))
