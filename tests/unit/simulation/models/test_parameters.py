"""The constants of the cost model follow from two facts and what transactions touch."""

from functools import lru_cache
from itertools import cycle, islice

import pytest

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.simulation.models.parameters import (
    ACCESS_US,
    EXECUTION_US,
    PAYMENT_US,
    SEQUENTIAL_PEAK_TPS,
    calibrated_cpu,
    solve_costs,
)
from creekdb.tpcc import (
    TRANSACTION_SHARES,
    OverlayState,
    Population,
    PopulationBase,
    TransactionInputs,
    tpcc_datatype,
)

SEED = 1
WAREHOUSES = 5
TRANSACTIONS = 4_000


@lru_cache(1)
def accesses() -> dict[str, float]:
    """How many registers a transaction of each kind touches on average, in layout `rows`."""
    declared, population = tpcc_datatype("rows"), Population(SEED, WAREHOUSES)
    state = OverlayState(PopulationBase(population, "rows"))
    clients = [
        TransactionInputs(declared, population, SEED, each) for each in range(10 * WAREHOUSES)
    ]
    touched: dict[str, list[int]] = {kind: [] for kind in TRANSACTION_SHARES}
    for event, client in enumerate(islice(cycle(clients), TRANSACTIONS), 1):
        asked = next(client)
        execution = declared.run(Request(event, Dot(0, event), asked.operation, False), state)
        for key, value in execution.writes.items():
            state.write(key, value)
        written = len(execution.writes) + len(execution.blind_adds)
        touched[asked.kind].append(execution.read_count + execution.scan_count + written)
    return {kind: sum(each) / len(each) for kind, each in touched.items()}


def mix() -> float:
    return sum(TRANSACTION_SHARES[kind] * each for kind, each in accesses().items()) / 100


def test_the_frozen_constants_follow_from_what_transactions_touch() -> None:
    execution_us, access_us = solve_costs(mix(), accesses()["payment"])

    assert execution_us == pytest.approx(EXECUTION_US, rel=0.01)
    assert access_us == pytest.approx(ACCESS_US, rel=0.01)


def test_with_them_the_two_facts_hold() -> None:
    assert EXECUTION_US + ACCESS_US * mix() == pytest.approx(1e6 / SEQUENTIAL_PEAK_TPS, rel=0.01)
    assert EXECUTION_US + ACCESS_US * accesses()["payment"] == pytest.approx(PAYMENT_US, rel=0.01)


def test_what_was_not_put_in_comes_out_as_the_paper_says() -> None:
    weak = {kind: share for kind, share in TRANSACTION_SHARES.items() if kind != "payment"}
    touched = sum(share * accesses()[kind] for kind, share in weak.items()) / sum(weak.values())

    assert 500 <= EXECUTION_US + ACCESS_US * touched <= 600


def test_a_measuring_run_charges_the_frozen_constants() -> None:
    model = calibrated_cpu(cores=3, scale=5.0)

    assert (model.execution_us, model.access_us) == (EXECUTION_US, ACCESS_US)
    assert (model.cores, model.scale, model.rollback_us) == (3, 5.0, 0.0)
