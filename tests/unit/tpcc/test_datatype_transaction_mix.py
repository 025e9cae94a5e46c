"""Thousands of mixed transactions, executed one after another."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from creekdb.execution.mvcc.entry import RequestEntry, tentative_position
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.tpcc import LAYOUTS, TRANSACTION_SHARES, find_violations
from tests.unit.tpcc.tpcc_database import TpccDatabase, base, transaction_mix

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("warehouses", [1, 3])
def test_all_layouts_respond_equally_and_stay_consistent(warehouses: int) -> None:
    rows, *others = [TpccDatabase(layout, warehouses) for layout in LAYOUTS]
    kinds: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for each in transaction_mix(rows, seed=8, count=2000):
        kinds[each.kind] += 1
        outcome = rows.apply(each.operation)
        for other in others:
            assert other.apply(each.operation) == outcome
        if outcome.error is not None:
            errors[outcome.error] += 1

    assert set(kinds) == set(TRANSACTION_SHARES)
    assert set(errors) == {"UnusedItem: Item number is not valid"}
    assert 0.002 < errors.total() / kinds["new_order"] < 0.03
    for database in (rows, *others):
        assert find_violations(database.base, database.overrides, only_touched=True) == []


def test_states_stay_consistent_when_deliveries_exhaust_the_new_orders() -> None:
    for layout in LAYOUTS:
        database = TpccDatabase(layout, warehouses=1)
        for _ in range(905):
            database.call("delivery", 1, 1)
        for each in transaction_mix(database, seed=9, count=80):
            database.apply(each.operation)
            database.call("delivery", 1, 2)
        assert find_violations(database.base, database.overrides, only_touched=True) == []


@pytest.mark.parametrize("layout", ["rows", "fine", "sql"])
def test_the_version_store_produces_the_same_outcomes(layout: str) -> None:
    """Covers a base below a version store, and blind additions."""
    database = TpccDatabase(layout)
    store = VersionStore(base(layout))
    for number, each in enumerate(transaction_mix(database, seed=10, count=300), 1):
        expected = database.apply(each.operation)
        request = Request(database.now, Dot(0, number), each.operation, strong=False)
        entry = RequestEntry(request, tentative_position(request))
        snapshot = store.snapshot(entry.position)
        execution = database.datatype.run(request, snapshot)
        assert store.install(entry, snapshot, execution)
        assert execution.outcome == expected
    for key, value in store.table.values().items():
        assert database.state.read(key) == value


def test_a_run_does_not_depend_on_the_hash_seed() -> None:
    digests = {digest_with_hash_seed(seed) for seed in ("0", "1", "4711")}

    assert digests == {digest()}


def digest() -> str:
    hashed = hashlib.sha256()
    for layout in LAYOUTS:
        database = TpccDatabase(layout)
        for each in transaction_mix(database, seed=11, count=300):
            hashed.update(repr((each, database.apply(each.operation))).encode())
        hashed.update(repr(list(database.overrides.items())).encode())
    return hashed.hexdigest()


def digest_with_hash_seed(seed: str) -> str:
    completed = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tests.unit.tpcc.test_datatype_transaction_mix import digest; print(digest())",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return completed.stdout.strip()
