"""Thousands of mixed transactions, one after another."""

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
from creekdb.tpcc import TRANSACTION_SHARES, find_violations, tpcc_datatype
from tests.unit.tpcc.terminal import Terminal, base, mixed

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("warehouses", [1, 3])
def test_both_layouts_answer_the_same_and_keep_the_conditions(warehouses: int) -> None:
    rows, fine = Terminal("rows", warehouses), Terminal("fine", warehouses)
    kinds: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for each in mixed(rows, seed=8, count=2000):
        kinds[each.kind] += 1
        answer = rows.apply(each.operation)
        assert fine.apply(each.operation) == answer
        if answer.error is not None:
            errors[answer.error] += 1

    assert set(kinds) == set(TRANSACTION_SHARES)
    assert set(errors) == {"UnusedItem: Item number is not valid"}
    assert 0.002 < errors.total() / kinds["new_order"] < 0.03
    for terminal in (rows, fine):
        assert find_violations(terminal.base, terminal.state.overrides, only_touched=True) == []


def test_when_more_is_delivered_than_ordered_districts_run_empty_and_conditions_hold() -> None:
    for layout in ("rows", "fine"):
        terminal = Terminal(layout, warehouses=1)
        for _ in range(905):
            terminal.call("delivery", 1, 1)
        for each in mixed(terminal, seed=9, count=80):
            terminal.apply(each.operation)
            terminal.call("delivery", 1, 2)
        assert find_violations(terminal.base, terminal.state.overrides, only_touched=True) == []


@pytest.mark.parametrize("layout", ["rows", "fine"])
def test_the_version_store_gives_the_same_answers(layout: str) -> None:
    """The base below a version store, and additions that are put off."""
    terminal = Terminal(layout)
    store = VersionStore(base(layout))
    declared = tpcc_datatype(layout)
    for number, each in enumerate(mixed(terminal, seed=10, count=300), 1):
        wanted = terminal.apply(each.operation)
        request = Request(terminal.now, Dot(0, number), each.operation, strong=False)
        entry = RequestEntry(request, tentative_position(request))
        snapshot = store.snapshot(entry.position)
        execution = declared.run(request, snapshot)
        assert store.install(entry, snapshot, execution)
        assert execution.outcome == wanted
    for key, value in store.values().items():
        assert terminal.state.read(key) == value


def test_a_run_is_the_same_under_any_hash_seed() -> None:
    digests = {digest_under(seed) for seed in ("0", "1", "4711")}

    assert digests == {digest()}


def digest() -> str:
    hashed = hashlib.sha256()
    for layout in ("rows", "fine"):
        terminal = Terminal(layout)
        for each in mixed(terminal, seed=11, count=300):
            hashed.update(repr((each, terminal.apply(each.operation))).encode())
        hashed.update(repr(list(terminal.state.overrides.items())).encode())
    return hashed.hexdigest()


def digest_under(seed: str) -> str:
    told = subprocess.run(
        [sys.executable, "-c", "from tests.unit.tpcc.test_runs import digest; print(digest())"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.strip()
