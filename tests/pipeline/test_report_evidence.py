"""Lookups in the evidence, and the status of the paper's statements."""

from math import inf

import pytest

from creekdb.evaluation import Experiment
from creekdb.pipeline.report.beyond import compared_systems
from creekdb.pipeline.report.claims import ClaimResult, ClaimStatus, evaluate_claims
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.paper import CLAIMS
from creekdb.pipeline.report.quantities import Band, Unit, band_around, rounding_band
from creekdb.pipeline.report.queries import (
    STRONG_STABLE,
    Curve,
    QueryResult,
    compare_curves,
    curve_maximum,
    curve_range,
    peak_throughput,
)
from tests.pipeline.synthetic_tables import PARTITION_FAULTS, experiments, report_tables

LOADS = (1_000.0, 10_000.0, 20_000.0, 30_000.0, 36_000.0)


def creek(seeds: int = 2, loads: tuple[float, ...] = LOADS, **fields: object) -> list[Experiment]:
    return [
        Experiment(seed=seed, load_tps=load, **fields)  # type: ignore[arg-type]
        for load in loads
        for seed in range(seeds)
    ]


def claim_result(evidence: Evidence, subject: str) -> ClaimResult:
    return next(each for each in evaluate_claims(evidence) if each.claim.subject == subject)


def test_a_curve_is_sorted_by_load_and_marks_saturated_points() -> None:
    points = Evidence(report_tables(creek())).curve("creek", "accuracy")

    assert [point.load_tps for point in points] == list(LOADS)
    assert [point.is_saturated for point in points] == [False, False, False, False, True]
    assert all(point.low is not None and point.low <= point.mean for point in points)


def test_a_single_seed_has_no_interval() -> None:
    points = Evidence(report_tables(creek(seeds=1))).curve("creek", "accuracy")

    assert {(point.seeds, point.low, point.high) for point in points} == {(1, None, None)}


def test_a_curve_excludes_runs_of_other_setups() -> None:
    evidence = Evidence(report_tables(creek() + creek(warehouses=1, loads=(500.0,))))

    assert len(evidence.curve("creek", "accuracy")) == len(LOADS)
    assert len(evidence.curve("creek", "accuracy", warehouses=1)) == 1
    assert evidence.values("warehouses") == [1, 5]


def test_the_longest_of_several_runs_at_one_load_counts() -> None:
    tables = report_tables(creek(loads=(1_000.0,)) + creek(loads=(1_000.0,), duration_us=9_000_000))
    longer = {row["mean"] for row in tables.summary if row["duration_us"] == 9_000_000}

    (point,) = Evidence(tables).curve("creek", STRONG_STABLE)

    assert point.mean in longer


def test_a_scheme_without_runs_has_no_curve_and_no_peak() -> None:
    evidence = Evidence(report_tables(creek()))

    assert evidence.curve("smr", "accuracy") == []
    assert evidence.peak("smr") is None
    assert evidence.peak("creek", warehouses=20) is None


def test_a_null_is_no_point_of_a_curve() -> None:
    tables = report_tables(creek())
    for row in tables.summary:
        if row["measure"] == "throughput_tps" and row["load_tps"] == LOADS[0]:
            row["mean"] = None

    assert len(Evidence(tables).curve("creek", "accuracy")) == len(LOADS) - 1


def test_a_peak_without_a_saturating_load_is_a_lower_bound() -> None:
    result = peak_throughput("creek").evaluate(Evidence(report_tables(creek(loads=LOADS[:3]))))

    assert result is not None
    assert result.is_lower_bound


def test_live_runs_alone_form_the_default_setup() -> None:
    tables = report_tables(creek())
    for table in (tables.measures, tables.summary, tables.peaks, tables.runs):
        for row in table:
            row |= {"source": "live", "extensions": "estimates,footprints"}

    assert Evidence(tables).source == "live"
    assert len(Evidence(tables).curve("creek", "accuracy")) == len(LOADS)
    assert compared_systems(Evidence(tables)) == [], "live runs have no counterparts"


def test_curves_are_compared_at_equal_loads() -> None:
    archie = [Experiment(scheme="archie", load_tps=load) for load in (500.0, 25_000.0)]
    evidence = Evidence(report_tables(creek() + archie))
    ratio = compare_curves(
        Unit.RATIO,
        Curve("creek", STRONG_STABLE),
        Curve("archie", STRONG_STABLE),
        lambda left, right: left / right,
        "",
    )

    result = ratio.evaluate(evidence)

    assert result is not None
    assert 0.8 < result.low <= result.high < 0.9


def test_curves_without_common_loads_are_not_compared() -> None:
    archie = [Experiment(scheme="archie", load_tps=load) for load in (100.0, 200.0)]
    ratio = compare_curves(
        Unit.RATIO,
        Curve("creek", STRONG_STABLE),
        Curve("archie", STRONG_STABLE),
        lambda left, right: left / right,
        "",
    )

    assert ratio.evaluate(Evidence(report_tables(creek() + archie))) is None


def test_a_lower_load_share_excludes_the_steep_end_of_a_curve() -> None:
    evidence = Evidence(report_tables(creek(loads=(1_000.0, 30_000.0, 31_500.0, 40_000.0))))

    all_loads = curve_range(Curve("creek", STRONG_STABLE)).evaluate(evidence)
    low_loads = curve_range(Curve("creek", STRONG_STABLE, load_share_max=0.5)).evaluate(evidence)

    assert all_loads is not None
    assert low_loads is not None
    assert low_loads.high < all_loads.high


def test_a_claim_without_runs_is_not_measured() -> None:
    evidence = Evidence(report_tables(creek()))

    statuses = {each.claim.subject: each.status for each in evaluate_claims(evidence)}

    assert statuses["Peak throughput of SMR, 5 warehouses"] is ClaimStatus.NOT_MEASURED
    assert statuses["Peak throughput of Creek, 5 warehouses"] is ClaimStatus.HOLDS


def test_a_lower_bound_is_not_measured_unless_it_exceeds_the_band() -> None:
    subject = "Peak throughput of Creek, 5 warehouses"
    low = claim_result(Evidence(report_tables(creek(loads=LOADS[:3]))), subject)
    tables = report_tables(creek(loads=LOADS[:3]))
    for row in tables.peaks:
        row["peak_tps"] = 90_000.0
    high = claim_result(Evidence(tables), subject)

    assert low.status is ClaimStatus.NOT_MEASURED
    assert high.status is ClaimStatus.DIFFERS


def test_a_value_outside_its_band_differs() -> None:
    tables = report_tables(creek())
    for row in tables.summary:
        if row["measure"] == "accuracy":
            row["mean"] = 0.5

    accuracy = claim_result(Evidence(tables), "Accuracy of speculation, Creek, 5 warehouses")

    assert accuracy.status is ClaimStatus.DIFFERS
    assert accuracy.result == QueryResult(0.5, 0.5, 2, mean=0.5)


def test_partition_claims_use_samples_taken_during_the_partition() -> None:
    faults = tuple(PARTITION_FAULTS.split("; "))
    experiment = Experiment(load_tps=1e4, duration_us=5_000_000, faults=faults)
    evidence = Evidence(report_tables([experiment]))

    statuses = [
        claim_result(evidence, f"Operations that {subject} during a partition, Creek").status
        for subject in ("the majority commits", "a minority commits", "a minority accepts")
    ]

    assert statuses == [ClaimStatus.HOLDS] * 3


def test_every_claim_has_a_section_a_band_and_a_method() -> None:
    for claim in CLAIMS:
        assert claim.section in ("6.2", "6.3", "6.4")
        assert -inf <= claim.band.low <= claim.band.high <= inf
        assert claim.paper_text
        assert claim.query.description
    assert len({claim.subject for claim in CLAIMS}) == len(CLAIMS)


def test_a_complete_grid_measures_all_claims_but_one() -> None:
    evidence = Evidence(report_tables(experiments(("creek", "archie", "smr", "bayou"))))
    statuses = [each.status for each in evaluate_claims(evidence)]

    assert statuses.count(ClaimStatus.NOT_MEASURED) == 1


@pytest.mark.parametrize(
    ("band", "expected"),
    [(band_around(100, 0.1), Band(90, 110)), (rounding_band(1.8, 0.4), Band(1.6, 2.0))],
)
def test_a_band_surrounds_the_number_of_the_paper(band: Band, expected: Band) -> None:
    assert band == pytest.approx(expected)


def test_a_maximum_is_one_number() -> None:
    evidence = Evidence(report_tables(creek()))
    result = curve_maximum("creek", "execution_ratio").evaluate(evidence)

    assert result is not None
    assert result.low == result.high > 1


def test_a_peak_between_distant_loads_is_not_measured() -> None:
    far_apart = Evidence(report_tables(creek(loads=(15_000.0, 44_000.0))))
    far_below = Evidence(report_tables(creek(loads=(1_000.0, 32_000.0))))
    for row in far_below.tables.peaks:
        row["saturating_tps"] = 2_000.0

    subject = "Peak throughput of Creek, 5 warehouses"
    assert claim_result(far_apart, subject).status is ClaimStatus.NOT_MEASURED
    assert claim_result(far_below, subject).status is ClaimStatus.DIFFERS


def test_a_peak_is_bounded_by_the_throughput_of_a_saturated_system() -> None:
    tables = report_tables(creek(loads=(30_000.0, 44_000.0)))
    for row in tables.measures:
        if row["saturated"]:
            row["throughput_tps"] = 31_000.0 + row["seed"] * 1_000
    peak = Evidence(tables).peak("creek")
    assert peak is not None
    assert peak.bound_tps == pytest.approx(31_500.0)
    assert peak.mean < peak.bound_tps

    for row in tables.measures:
        if row["saturated"] and row["seed"] == 0:
            row["throughput_tps"] = 20_000.0  # beyond its capacity, it did less
    peak = Evidence(tables).peak("creek")
    assert peak is not None
    assert peak.bound_tps == pytest.approx((44_000 + 32_000) / 2)


def test_a_seed_with_low_loads_only_does_not_count_for_a_peak() -> None:
    tables = report_tables(creek(loads=(1_000.0, 30_000.0, 44_000.0)))
    complete = Evidence(tables).peak("creek")
    other = next(row for row in tables.peaks if row["seed"] == 1)
    other |= {"peak_tps": 1_000.0, "load_tps": 1_000.0, "saturating_tps": None}
    peak = Evidence(tables).peak("creek")

    assert complete is not None
    assert peak is not None
    assert (complete.seeds, peak.seeds) == (2, 1)
    assert peak.mean == next(row["peak_tps"] for row in tables.peaks if row["seed"] == 0)


def test_a_saturated_system_with_the_throughput_of_the_peak_bounds_it() -> None:
    tables = report_tables(creek(seeds=1, loads=(30_000.0, 44_000.0)))
    for row in tables.measures:
        if row["saturated"]:
            row["throughput_tps"] = 0.99 * tables.peaks[0]["peak_tps"]
    peak = Evidence(tables).peak("creek")

    assert peak is not None
    assert peak.bound_tps == peak.mean


def test_the_typical_run_has_half_of_the_peak_load() -> None:
    evidence = Evidence(report_tables(creek(loads=(1_000.0, 16_000.0, 30_000.0, 36_000.0))))

    run = evidence.typical_run("creek")

    assert run is not None
    assert (run["load_tps"], run["seed"]) == (16_000.0, 0)
    assert set(evidence.latencies_by_kind(run["run"])) == {"payment", "new_order"}


@pytest.mark.parametrize(
    ("measured", "status"), [(1_204.9, ClaimStatus.HOLDS), (1_205.1, ClaimStatus.DIFFERS)]
)
def test_a_value_is_rounded_like_those_of_the_paper(measured: float, status: ClaimStatus) -> None:
    tables = report_tables(creek(loads=(1_000.0,)))
    for row in tables.summary:
        if row["measure"] == STRONG_STABLE:
            row["mean"] = measured

    assert claim_result(Evidence(tables), "Stable latency of Payment, Creek").status is status


def test_a_lower_bound_satisfies_an_open_band() -> None:
    subject = "Peak of Creek with more cores ÷ with 16"
    high_loads = creek(cores=32, loads=(48_000.0,))
    low_loads = creek(cores=32, loads=(30_000.0,))

    higher = claim_result(Evidence(report_tables(creek() + high_loads)), subject)
    unknown = claim_result(Evidence(report_tables(creek() + low_loads)), subject)

    assert higher.status is ClaimStatus.HOLDS
    assert higher.result is not None
    assert higher.result.is_lower_bound
    assert unknown.status is ClaimStatus.NOT_MEASURED
