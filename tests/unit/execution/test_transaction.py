import copy
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import BadValue, UsageError
from creekdb.execution.keys import collation_key
from creekdb.execution.result import ExecutionResult
from creekdb.execution.sequential import Sequential
from creekdb.execution.transaction import ABSENT, Transaction
from creekdb.protocol.request import NOOP, Outcome
from creekdb.protocol.values import Key
from tests.unit.execution.strategies import HOT_KEYS, KEYS, SCRIPT, request


def transaction(state: dict[Key, Any] | None = None, readonly: bool = False) -> Transaction:
    view = Sequential(SCRIPT)
    view.state = state or {}
    return Transaction(request(NOOP, event=4, timestamp=77), view, readonly)


def test_absent_is_identical_after_copying() -> None:
    assert copy.deepcopy({"a": ABSENT})["a"] is ABSENT


def test_get_returns_the_default_for_an_absent_register() -> None:
    tx = transaction({"none": None})
    assert tx.get("a") is None
    assert tx.get("a", 5) == 5
    assert tx.get("none", 5) is None


def test_pick_returns_the_items_and_none_for_missing_ones() -> None:
    tx = transaction({"row": (1, {"x": 2}), "named": {"a": 1}, "number": 7, "text": "word"})
    assert tx.pick("row", 1, 0) == ({"x": 2}, 1)
    assert tx.pick("row", 2, -1, "a") == (None, None, None)
    assert tx.pick("named", "a", "b", 0) == (1, None, None)
    assert tx.pick("number", 0) == tx.pick("text", 0) == (None,)
    assert tx.pick("absent", 0) is None
    tx.put("row", (5,))
    assert tx.pick("row", 0) == (5,)
    tx.delete("row")
    assert tx.pick("row", 0) is None
    assert tx.close(Outcome()).read_count == 8


def test_modifying_a_picked_item_does_not_change_the_store() -> None:
    state: dict[Key, Any] = {"row": ({"x": 2},)}
    picked = transaction(state).pick("row", 0)
    assert picked is not None
    picked[0]["x"] = 3
    assert state == {"row": ({"x": 2},)}


@pytest.mark.parametrize("item", [None, 1.0, True, (0,)])
def test_an_item_that_is_neither_index_nor_name_is_rejected(item: Any) -> None:
    with pytest.raises(BadValue, match="index or a name"):
        transaction({"row": (1,)}).pick("row", item)


def test_a_transaction_reads_its_own_writes() -> None:
    tx = transaction({"a": 1})
    tx.put("a", 2)
    assert tx.get("a") == 2
    tx.delete("a")
    assert tx.get("a", "gone") == "gone"


def test_writes_stay_in_the_transaction_until_it_is_closed() -> None:
    state: dict[Key, Any] = {"a": 1, "b": 1}
    tx = transaction(state)
    tx.put("a", 2)
    tx.put("a", 3)
    tx.delete("b")
    assert state == {"a": 1, "b": 1}
    assert tx.close(Outcome("done")).writes == {"a": 3, "b": ABSENT}


def test_a_failed_transaction_reports_its_reads_but_no_writes() -> None:
    tx = transaction({"a": 1})
    tx.put("a", tx.get("a") + 1)
    assert tx.close(Outcome(error="no")) == ExecutionResult(
        Outcome(error="no"), {}, read_count=1, scan_count=0
    )


def test_reads_and_scanned_registers_are_counted() -> None:
    tx = transaction({"a": 1, "b": 2, "c": 3})
    tx.get("a")
    tx.get("missing")
    list(tx.scan(limit=2))
    execution = tx.close(Outcome())
    assert (execution.read_count, execution.scan_count) == (2, 2)


def test_lists_are_frozen_when_they_are_put() -> None:
    tx = transaction()
    value = [1, [2]]
    tx.put("a", value)
    value.append(3)
    assert tx.get("a") == (1, (2,))


def test_modifying_a_read_value_does_not_change_the_store() -> None:
    state: dict[Key, Any] = {"a": {"x": 1}}
    tx = transaction(state)
    tx.get("a")["x"] = 2
    dict(tx.scan())["a"]["x"] = 3
    assert state == {"a": {"x": 1}}


def test_add_starts_from_zero_and_rejects_other_types() -> None:
    tx = transaction({"text": "t"})
    tx.add("n", 2)
    tx.add("n", -5)
    assert tx.get("n") == -3
    with pytest.raises(BadValue, match="'text' holds a str"):
        tx.add("text", 1)
    with pytest.raises(BadValue, match="can only add an int to 'n', not a float"):
        tx.add("n", 1.5)


@pytest.mark.parametrize("value", [{1}, object(), 2**64, float("nan")])
def test_put_rejects_a_value_that_cannot_be_serialised(value: Any) -> None:
    with pytest.raises(BadValue, match="the value under 'a' holds"):
        transaction().put("a", value)


def test_every_method_rejects_an_invalid_key() -> None:
    tx = transaction()
    bad: Any = True
    with pytest.raises(BadValue, match="a key is"):
        tx.get(bad)
    with pytest.raises(BadValue, match="a key is"):
        tx.put(bad, 1)
    with pytest.raises(BadValue, match="a key is"):
        tx.delete(bad)
    for bound in ({"start": bad}, {"stop": bad}, {"prefix": (bad,)}):
        with pytest.raises(BadValue, match="a key is"):
            tx.scan(**bound)


def test_a_readonly_transaction_rejects_writes() -> None:
    tx = transaction({"a": 1}, readonly=True)
    with pytest.raises(UsageError, match="declared read-only"):
        tx.put("a", 1)
    with pytest.raises(UsageError, match="declared read-only"):
        tx.delete("a")
    with pytest.raises(UsageError, match="declared read-only"):
        tx.add("a", 1)
    assert tx.get("a") == 1


def test_time_and_random_numbers_derive_from_the_request() -> None:
    assert transaction().timestamp == 77
    assert transaction().random.random() == transaction().random.random()
    tx = transaction()
    assert tx.random.random() != tx.random.random()


def test_a_prefix_selects_tuples_or_strings_that_start_with_it() -> None:
    tx = transaction({("a", 1): 1, ("a", 2): 2, ("b", 1): 3, "a": 4, "ab": 5, "b": 6})
    assert list(tx.scan(("a",))) == [(("a", 1), 1), (("a", 2), 2)]
    assert list(tx.scan("a", reverse=True)) == [("ab", 5), ("a", 4)]
    assert list(tx.scan(("a",), start=("a", 2))) == [(("a", 2), 2)]
    assert list(tx.scan(("a",), stop=("a", 2))) == [(("a", 1), 1)]
    assert list(tx.scan(("a",), start=("b",))) == []


@pytest.mark.parametrize("limit", [-1, True, 1.0, "1"])
def test_an_invalid_scan_limit_is_rejected(limit: Any) -> None:
    with pytest.raises(BadValue, match="the limit of a scan"):
        transaction().scan(limit=limit)


def test_a_prefix_that_is_neither_string_nor_tuple_is_rejected() -> None:
    wrong: Any = 5
    with pytest.raises(BadValue, match="a prefix is a str or a tuple, not a int"):
        transaction().scan(wrong)


def test_a_scan_excludes_writes_that_follow_its_call() -> None:
    tx = transaction({"a": 1, "c": 3})
    tx.put("b", 2)
    scan = tx.scan()
    tx.put("aa", 0)
    tx.delete("b")
    items = []
    for key, value in scan:
        tx.delete(key)
        tx.put("z", value)
        items.append((key, value))
    assert items == [("a", 1), ("b", 2), ("c", 3)]


@given(
    stored=st.dictionaries(KEYS, st.integers(0, 9)),
    written=st.dictionaries(KEYS, st.integers(0, 9) | st.just(ABSENT)),
    start=st.none() | KEYS,
    stop=st.none() | KEYS,
    prefix=st.none() | st.sampled_from(("", "a", (), ("a",))),
    reverse=st.booleans(),
    limit=st.none() | st.integers(0, 4),
)
def test_a_scan_merges_stored_registers_and_own_writes_in_order(
    stored: dict[Key, Any],
    written: dict[Key, Any],
    start: Key | None,
    stop: Key | None,
    prefix: str | tuple[str | int, ...] | None,
    reverse: bool,
    limit: int | None,
) -> None:
    tx = transaction(stored)
    for key, value in written.items():
        if value is ABSENT:
            tx.delete(key)
        else:
            tx.put(key, value)

    def inside(key: Key) -> bool:
        if prefix is not None:
            if isinstance(prefix, str):
                if not (isinstance(key, str) and key.startswith(prefix)):
                    return False
            elif not (isinstance(key, tuple) and key[: len(prefix)] == prefix):
                return False
        after = start is None or collation_key(start) <= collation_key(key)
        before = stop is None or collation_key(key) < collation_key(stop)
        return after and before

    merged = {**stored, **written}
    expected = [
        (key, merged[key])
        for key in sorted(HOT_KEYS, key=collation_key, reverse=reverse)
        if merged.get(key, ABSENT) is not ABSENT and inside(key)
    ][:limit]
    scanned = tx.scan(prefix, start=start, stop=stop, reverse=reverse, limit=limit)
    assert list(scanned) == expected


class AddableView(Sequential):
    """View of a store that defers additions."""

    def is_addable(self, key: Key) -> bool:
        return True


def deferring_transaction(state: dict[Key, Any]) -> Transaction:
    view = AddableView(SCRIPT)
    view.state = state
    return Transaction(request(NOOP, event=4, timestamp=77), view)


def test_a_write_replaces_a_deferred_addition() -> None:
    tx = deferring_transaction({"a": 1, "b": 2})
    tx.add("a", 5)
    tx.put("a", 7)
    tx.add("b", 5)
    tx.delete("b")
    result = tx.close(Outcome())

    assert result.writes == {"a": 7, "b": ABSENT}
    assert result.blind_adds == {}


def test_reads_and_scans_include_deferred_additions() -> None:
    tx = deferring_transaction({"a": 1, "b": 2})
    for key in ("a", "b", "c"):
        tx.add(key, 5)
    assert tx.get("a") == 6
    assert list(tx.scan()) == [("a", 6), ("b", 7), ("c", 5)]
    assert tx.close(Outcome()).writes == {"a": 6, "b": 7, "c": 5}


@pytest.mark.parametrize("amount", [True, 1.0, "1", None])
def test_only_integers_can_be_added(amount: Any) -> None:
    with pytest.raises(BadValue, match="can only add an int"):
        transaction({"a": 1}).add("a", amount)


def test_a_rollback_restores_writes_deletions_and_additions() -> None:
    tx = transaction({"a": 1, "b": 2, "n": 3})
    tx.put("a", 5)
    tx.add("n", 1)
    savepoint = tx.savepoint()
    tx.put("a", 6)
    tx.delete("b")
    tx.put("c", 7)
    assert tx.get("n") == 4  # the addition becomes a write
    tx.add("n", 10)
    tx.roll_back_to(savepoint)
    assert [tx.get(key) for key in "abcn"] == [5, 2, None, 4]
    tx.put("c", 8)
    tx.roll_back_to(savepoint)
    assert tx.get("c") is None


def test_a_scratch_transaction_reads_the_same_state_as_another_request() -> None:
    tx = transaction({"a": 1})
    scratch = tx.begin_scratch(request(NOOP, event=9, timestamp=5), "scratch")
    scratch.put("a", 2)
    assert (scratch.get("a"), scratch.timestamp, tx.get("a"), tx.timestamp) == (2, 5, 1, 77)
    tx.put("a", 3)
    with pytest.raises(UsageError, match="scratch"):
        tx.begin_scratch(request(NOOP, event=9, timestamp=5), "scratch")


@pytest.mark.parametrize("stop", [None, ""])
def test_scans_have_a_type_with_the_same_name_in_both_builds(stop: Any) -> None:
    tx = transaction({"a": (1,)})
    scans = (
        tx.scan("a", stop=stop),
        tx.scan_picked((0,), "a", stop=stop),
        tx.scan_batches((0,), "a", stop=stop),
    )
    assert [type(each) for each in scans] == [chain] * 3
