"""The constants of the cost model follow from two facts and the accesses of transactions."""

from functools import lru_cache
from itertools import cycle, islice

import pytest

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.simulation.models.parameters import (
    ACCESS_US,
    EXECUTION_US,
    REGION_POSITIONS_US,
    ClockModel,
    NetworkModel,
    calibrated_cpu,
    distances_on_a_line,
    evenly_skewed_clocks,
)
from creekdb.tpcc import (
    TRANSACTION_SHARES,
    Population,
    TransactionInputs,
    datatype_on_population,
)

SEED = 1
WAREHOUSES = 5
TRANSACTIONS = 4_000
SEQUENTIAL_PEAK_TPS = 2_700
PAYMENT_US = 100.0


@lru_cache(1)
def mean_accesses() -> dict[str, float]:
    """Return the mean number of registers that each kind accesses, in layout `rows`."""
    population = Population(SEED, WAREHOUSES)
    declared = datatype_on_population(population, "rows")
    state = declared.sequential()
    clients = [
        TransactionInputs(declared, population, SEED, each) for each in range(10 * WAREHOUSES)
    ]
    touched: dict[str, list[int]] = {kind: [] for kind in TRANSACTION_SHARES}
    for event, client in enumerate(islice(cycle(clients), TRANSACTIONS), 1):
        inputs = next(client)
        execution = declared.run(Request(event, Dot(0, event), inputs.operation, False), state)
        state.state.update(execution.writes)
        written = len(execution.writes) + len(execution.blind_adds)
        touched[inputs.kind].append(execution.read_count + execution.scan_count + written)
    return {kind: sum(each) / len(each) for kind, each in touched.items()}


def mean_mix_accesses() -> float:
    return sum(TRANSACTION_SHARES[kind] * each for kind, each in mean_accesses().items()) / 100


def solve_costs(mix_accesses: float, payment_accesses: float) -> tuple[float, float]:
    """Return EXECUTION_US and ACCESS_US for the given mean numbers of register accesses."""
    mix_us = 1_000_000 / SEQUENTIAL_PEAK_TPS
    access_us = (mix_us - PAYMENT_US) / (mix_accesses - payment_accesses)
    return PAYMENT_US - access_us * payment_accesses, access_us


def test_the_frozen_constants_follow_from_the_accesses_of_transactions() -> None:
    execution_us, access_us = solve_costs(mean_mix_accesses(), mean_accesses()["payment"])

    assert execution_us == pytest.approx(EXECUTION_US, rel=0.01)
    assert access_us == pytest.approx(ACCESS_US, rel=0.01)


def test_the_frozen_constants_satisfy_both_facts() -> None:
    assert EXECUTION_US + ACCESS_US * mean_mix_accesses() == pytest.approx(
        1e6 / SEQUENTIAL_PEAK_TPS, rel=0.01
    )
    assert EXECUTION_US + ACCESS_US * mean_accesses()["payment"] == pytest.approx(
        PAYMENT_US, rel=0.01
    )


def test_the_predicted_duration_of_other_kinds_matches_the_paper() -> None:
    weak = {kind: share for kind, share in TRANSACTION_SHARES.items() if kind != "payment"}
    touched = sum(share * mean_accesses()[kind] for kind, share in weak.items()) / sum(
        weak.values()
    )

    assert 500 <= EXECUTION_US + ACCESS_US * touched <= 600


def test_the_calibrated_model_uses_the_frozen_constants() -> None:
    model = calibrated_cpu(cores=3, scale=5.0)

    assert (model.execution_us, model.access_us) == (EXECUTION_US, ACCESS_US)
    assert (model.cores, model.scale, model.rollback_us) == (3, 5.0, 0.0)


def test_regions_are_20_to_80_ms_apart() -> None:
    for count, positions_us in REGION_POSITIONS_US.items():
        distances_us = distances_on_a_line(positions_us)
        model = NetworkModel(distances_us=distances_us)
        apart = {each for row in distances_us for each in row if each}

        assert model.region_count == count
        assert all(row[index] == 0 for index, row in enumerate(distances_us))
        assert count == 1 or (min(apart), max(apart)) == (20_000, 80_000)


def test_clocks_are_skewed_evenly() -> None:
    clocks = evenly_skewed_clocks(900, 4)

    assert clocks.skews_us == (0, 300, 600, 900)
    assert clocks.skew_us_max == 900
    assert evenly_skewed_clocks(0, 4) == evenly_skewed_clocks(900, 1) == ClockModel()
    assert ClockModel(skews_us=(-5, 7)).skew_us_max == 12
    assert ClockModel(skews_us=(5,)).skew_us_max == 5
