"""What the tables say, and how the paper's statements are judged by it."""

from math import inf

import pytest

from creekdb.evaluation import Experiment
from creekdb.pipeline.report.claims import ClaimResult, ClaimStatus, evaluate_claims
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.paper import CLAIMS
from creekdb.pipeline.report.paper.claim import STRONG_STABLE
from creekdb.pipeline.report.quantities import Band, band_around, rounding_band
from creekdb.pipeline.report.queries import (
    CurveComparison,
    MeasureMaximum,
    MeasureRange,
    PeakThroughput,
    QueryResult,
)
from tests.pipeline.made_up import SPLIT, experiments, tables

LOADS = (1_000.0, 10_000.0, 20_000.0, 30_000.0, 36_000.0)


def creek(seeds: int = 2, loads: tuple[float, ...] = LOADS, **varied: object) -> list[Experiment]:
    return [
        Experiment(seed=seed, load_tps=load, **varied)  # type: ignore[arg-type]
        for load in loads
        for seed in range(seeds)
    ]


def judged(evidence: Evidence, what: str) -> ClaimResult:
    return next(each for each in evaluate_claims(evidence) if each.claim.subject == what)


def test_a_curve_goes_from_low_to_high_load_and_tells_where_it_was_too_much() -> None:
    points = Evidence(tables(creek())).curve("creek", "accuracy")

    assert [point.load_tps for point in points] == list(LOADS)
    assert [point.is_saturated for point in points] == [False, False, False, False, True]
    assert all(point.low is not None and point.low <= point.mean for point in points)


def test_one_seed_gives_a_mean_without_an_interval() -> None:
    points = Evidence(tables(creek(seeds=1))).curve("creek", "accuracy")

    assert {(point.seeds, point.low, point.high) for point in points} == {(1, None, None)}


def test_runs_of_another_setup_are_not_part_of_a_curve() -> None:
    evidence = Evidence(tables(creek() + creek(warehouses=1, loads=(500.0,))))

    assert len(evidence.curve("creek", "accuracy")) == len(LOADS)
    assert len(evidence.curve("creek", "accuracy", warehouses=1)) == 1
    assert evidence.values("warehouses") == [1, 5]


def test_of_two_runs_with_one_load_the_longer_one_counts() -> None:
    made = tables(creek(loads=(1_000.0,)) + creek(loads=(1_000.0,), duration_us=9_000_000))
    longer = {row["mean"] for row in made.summary if row["duration_us"] == 9_000_000}

    (point,) = Evidence(made).curve("creek", STRONG_STABLE)

    assert point.mean in longer


def test_a_scheme_that_was_not_run_has_nothing() -> None:
    evidence = Evidence(tables(creek()))

    assert evidence.curve("smr", "accuracy") == []
    assert evidence.peak("smr") is None
    assert evidence.peak("creek", warehouses=20) is None


def test_a_value_that_is_null_is_left_out() -> None:
    made = tables(creek())
    for row in made.summary:
        if row["measure"] == "throughput_tps" and row["load_tps"] == LOADS[0]:
            row["mean"] = None

    assert len(Evidence(made).curve("creek", "accuracy")) == len(LOADS) - 1


def test_a_peak_without_a_load_that_is_too_high_is_a_lower_bound() -> None:
    found = PeakThroughput("creek").evaluate(Evidence(tables(creek(loads=LOADS[:3]))))

    assert found is not None
    assert found.is_lower_bound


def test_live_runs_alone_are_the_usual_ones() -> None:
    made = tables(creek())
    for table in (made.measures, made.summary, made.peaks, made.runs):
        for row in table:
            row["source"] = "live"

    assert len(Evidence(made).curve("creek", "accuracy")) == len(LOADS)


def test_curves_are_compared_at_equal_loads() -> None:
    archie = [Experiment(scheme="archie", load_tps=load) for load in (500.0, 25_000.0)]
    evidence = Evidence(tables(creek() + archie))
    ratio = CurveComparison(
        MeasureRange("creek", STRONG_STABLE),
        MeasureRange("archie", STRONG_STABLE),
        lambda one, two: one / two,
        "",
    )

    found = ratio.evaluate(evidence)

    assert found is not None
    assert 0.8 < found.low <= found.high < 0.9


def test_curves_that_do_not_meet_are_not_compared() -> None:
    archie = [Experiment(scheme="archie", load_tps=load) for load in (100.0, 200.0)]
    ratio = CurveComparison(
        MeasureRange("creek", STRONG_STABLE),
        MeasureRange("archie", STRONG_STABLE),
        lambda one, two: one / two,
        "",
    )

    assert ratio.evaluate(Evidence(tables(creek() + archie))) is None


def test_a_lower_share_of_the_loads_leaves_out_where_latency_strikes_up() -> None:
    evidence = Evidence(tables(creek(loads=(1_000.0, 30_000.0, 31_500.0, 40_000.0))))

    everywhere = MeasureRange("creek", STRONG_STABLE).evaluate(evidence)
    calm = MeasureRange("creek", STRONG_STABLE, load_share_max=0.5).evaluate(evidence)

    assert everywhere is not None
    assert calm is not None
    assert calm.high < everywhere.high


def test_what_the_runs_do_not_tell_is_not_measured() -> None:
    evidence = Evidence(tables(creek()))

    marks = {each.claim.subject: each.status for each in evaluate_claims(evidence)}

    assert marks["Peak throughput of SMR, 5 warehouses"] is ClaimStatus.NOT_MEASURED
    assert marks["Peak throughput of Creek, 5 warehouses"] is ClaimStatus.HOLDS


def test_a_lower_bound_is_no_measurement_unless_it_is_already_too_much() -> None:
    low = judged(Evidence(tables(creek(loads=LOADS[:3]))), "Peak throughput of Creek, 5 warehouses")
    made = tables(creek(loads=LOADS[:3]))
    for row in made.peaks:
        row["peak_tps"] = 90_000.0
    high = judged(Evidence(made), "Peak throughput of Creek, 5 warehouses")

    assert low.status is ClaimStatus.NOT_MEASURED
    assert high.status is ClaimStatus.DIFFERS


def test_a_value_outside_of_its_band_differs() -> None:
    made = tables(creek())
    for row in made.summary:
        if row["measure"] == "accuracy":
            row["mean"] = 0.5

    accuracy = judged(Evidence(made), "Accuracy of speculation, Creek, 5 warehouses")

    assert accuracy.status is ClaimStatus.DIFFERS
    assert accuracy.result == QueryResult(0.5, 0.5, 2, mean=0.5)


def test_a_partition_is_judged_by_what_was_sampled_while_it_lasted() -> None:
    faults = tuple(SPLIT.split("; "))
    evidence = Evidence(tables([Experiment(load_tps=1e4, duration_us=5_000_000, faults=faults)]))

    within_majority = judged(evidence, "Operations that the majority commits meanwhile, Creek")
    beyond = judged(evidence, "Operations that a minority commits meanwhile, Creek")
    taken_in = judged(
        evidence, "Operations that a minority takes in while the network is split, Creek"
    )

    assert [each.status for each in (within_majority, beyond, taken_in)] == [ClaimStatus.HOLDS] * 3


def test_every_statement_says_where_it_is_from_and_what_is_accepted() -> None:
    for statement in CLAIMS:
        assert statement.section in ("6.2", "6.3", "6.4")
        assert -inf <= statement.band.low <= statement.band.high <= inf
        assert statement.paper_text
        assert (
            statement.not_measured_reason
            if statement.query is None
            else statement.query.description
        )
    assert len({statement.subject for statement in CLAIMS}) == len(CLAIMS)


def test_all_statements_but_one_can_be_told_from_a_whole_grid() -> None:
    marks = [
        each.status
        for each in evaluate_claims(
            Evidence(tables(experiments(("creek", "archie", "smr", "bayou"))))
        )
    ]

    assert marks.count(ClaimStatus.NOT_MEASURED) == 1


@pytest.mark.parametrize(
    ("band", "expected"),
    [(band_around(100, 0.1), Band(90, 110)), (rounding_band(1.8, 0.4), Band(1.6, 2.0))],
)
def test_a_band_is_around_the_number_of_the_paper(band: Band, expected: Band) -> None:
    assert band == pytest.approx(expected)


def test_the_highest_is_one_number() -> None:
    found = MeasureMaximum("creek", "execution_ratio").evaluate(Evidence(tables(creek())))

    assert found is not None
    assert found.low == found.high > 1


def test_loads_too_far_apart_tell_nothing_of_a_peak_between_them() -> None:
    far_apart = Evidence(tables(creek(loads=(15_000.0, 44_000.0))))
    far_below = Evidence(tables(creek(loads=(1_000.0, 32_000.0))))
    for row in far_below.tables.peaks:
        row["saturating_tps"] = 2_000.0

    what = "Peak throughput of Creek, 5 warehouses"
    assert judged(far_apart, what).status is ClaimStatus.NOT_MEASURED
    assert judged(far_below, what).status is ClaimStatus.DIFFERS


def test_a_typical_run_is_that_with_half_of_the_highest_load() -> None:
    evidence = Evidence(tables(creek(loads=(1_000.0, 16_000.0, 30_000.0, 36_000.0))))

    run = evidence.typical_run("creek")

    assert run is not None
    assert (run["load_tps"], run["seed"]) == (16_000.0, 0)
    assert set(evidence.latencies_by_kind(run["run"])) == {"payment", "new_order"}


@pytest.mark.parametrize(
    ("measured", "mark"), [(1_204.9, ClaimStatus.HOLDS), (1_205.1, ClaimStatus.DIFFERS)]
)
def test_a_value_is_rounded_as_the_paper_rounds(measured: float, mark: ClaimStatus) -> None:
    made = tables(creek(loads=(1_000.0,)))
    for row in made.summary:
        if row["measure"] == STRONG_STABLE:
            row["mean"] = measured

    assert judged(Evidence(made), "Stable latency of Payment, Creek").status is mark


def test_a_lower_bound_is_enough_where_more_is_all_that_is_asked_for() -> None:
    more = creek(cores=32, loads=(48_000.0,))

    higher = judged(Evidence(tables(creek() + more)), "Peak of Creek with more cores ÷ with 16")
    unknown = judged(
        Evidence(tables(creek() + creek(cores=32, loads=(30_000.0,)))),
        "Peak of Creek with more cores ÷ with 16",
    )

    assert higher.status is ClaimStatus.HOLDS
    assert higher.result is not None
    assert higher.result.is_lower_bound
    assert unknown.status is ClaimStatus.NOT_MEASURED
