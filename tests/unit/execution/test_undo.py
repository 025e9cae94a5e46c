from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.keys import collation_key
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT
from creekdb.execution.undo import StateObject
from creekdb.protocol.request import Outcome
from creekdb.protocol.values import Key
from tests.unit.execution.strategies import KEYS, SCRIPT, STEPS, request, requests

STATES = st.dictionaries(KEYS, st.integers(0, 5))


def put(key: Key, value: Any) -> tuple[Any, ...]:
    return (("put", key, value),)


def model(db: dict[Key, Any], steps: tuple[Any, ...]) -> dict[Key, Any]:
    """Return `db` after `steps`, computed on a plain dict and without a transaction."""
    after = dict(db)
    for verb, key, value in steps:
        if verb == "put":
            after[key] = value
        elif verb == "delete":
            after.pop(key, None)
        elif verb == "add":
            after[key] = after.get(key, 0) + value
        elif verb == "raise":
            return db
    return after


def assert_ordered(state: StateObject) -> None:
    assert list(state.items()) == sorted(state.db.items(), key=lambda item: collation_key(item[0]))


@given(STATES, st.lists(STEPS, max_size=8))
def test_rollbacks_restore_every_previous_state(
    initial: dict[Key, Any], scripts: list[tuple[Any, ...]]
) -> None:
    state = StateObject(SCRIPT, initial)
    before: list[dict[Key, Any]] = []
    for each, steps in zip(requests(scripts), scripts, strict=True):
        before.append(dict(state.db))
        state.execute(each)
        assert state.db == model(before[-1], steps)
        assert_ordered(state)
        assert state.committed_state() == initial
    for each in reversed(requests(scripts)):
        state.rollback(each)
        assert state.db == before.pop()
        assert_ordered(state)
    assert state.db == initial
    assert not state.undo_log


@given(st.lists(STEPS, max_size=8))
def test_the_state_object_and_the_sequential_machine_agree(scripts: list[tuple[Any, ...]]) -> None:
    state, machine = StateObject(SCRIPT), SCRIPT.sequential()
    for each in requests(scripts):
        assert state.execute(each) == machine.apply(each)
        assert state.db == machine.state


@given(st.lists(STEPS, min_size=1, max_size=8), st.data())
def test_the_committed_state_excludes_the_requests_of_the_undo_log(
    scripts: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    state, machine = StateObject(SCRIPT), SCRIPT.sequential()
    pending = requests(scripts)
    for each in pending:
        state.execute(each)
    for each in pending[: data.draw(st.integers(0, len(pending)))]:
        state.truncate(each)
        machine.apply(each)
        assert state.committed_state() == machine.state


@given(STATES, STEPS)
def test_a_run_without_install_changes_nothing(
    initial: dict[Key, Any], steps: tuple[Any, ...]
) -> None:
    state = StateObject(SCRIPT, initial)
    call = request(SCRIPT.call("play", steps))
    assert state.run(call) == state.run(call)
    assert state.db == initial
    assert not state.undo_log
    assert_ordered(state)


def test_an_absent_register_is_restored_as_absent() -> None:
    state = StateObject(SCRIPT)
    (first,) = requests([put("a", 1)])
    state.execute(first)
    assert state.undo_log == {first.id: {"a": ABSENT}}
    state.rollback(first)
    assert "a" not in state.db
    assert list(state.items()) == []


def test_a_request_that_raises_has_an_empty_undo_map() -> None:
    state = StateObject(SCRIPT)
    (first,) = requests([(("put", "a", 1), ("raise", "a", 9))])
    assert state.execute(first) == Outcome(error="ValueError: step 9")
    assert state.undo_log == {first.id: {}}
    assert state.db == {}
    state.rollback(first)
    assert not state.undo_log


def test_only_the_newest_request_can_be_rolled_back() -> None:
    state = StateObject(SCRIPT)
    first, second = requests([put("a", 1), put("a", 2)])
    state.execute(first)
    state.execute(second)
    with pytest.raises(AssertionError, match=r"rolling back 0\.1, but 0\.2 is newer"):
        state.rollback(first)
    assert state.db == {"a": 2}


def test_only_the_oldest_request_can_be_truncated() -> None:
    state = StateObject(SCRIPT)
    first, second = requests([put("a", 1), put("a", 2)])
    state.execute(first)
    state.execute(second)
    with pytest.raises(AssertionError, match=r"truncating 0\.2, but 0\.1 is older"):
        state.truncate(second)
    state.truncate(first)
    state.rollback(second)
    assert state.db == {"a": 1}
    with pytest.raises(AssertionError, match="the undo log is empty"):
        state.rollback(first)
    with pytest.raises(AssertionError, match="the undo log is empty"):
        state.truncate(first)


def test_a_request_is_not_executed_twice() -> None:
    state = StateObject(SCRIPT)
    (first,) = requests([put("a", 1)])
    state.execute(first)
    with pytest.raises(AssertionError, match=r"0\.1 has already been executed"):
        state.install(first, ExecutionResult(Outcome()))


def test_loading_replaces_the_state_without_modifying_its_argument() -> None:
    state = StateObject(SCRIPT, {"old": 1})
    first, second = requests([put("a", 1), put("b", 2)])
    state.execute(first)
    checkpoint: dict[Key, Any] = {"b": 0, 3: 1}
    state.load(checkpoint)
    assert state.db == checkpoint
    assert not state.undo_log
    assert list(state.items()) == [(3, 1), ("b", 0)]
    state.execute(second)
    assert state.db == {"b": 2, 3: 1}
    assert checkpoint == {"b": 0, 3: 1}


def test_the_committed_state_is_a_copy() -> None:
    state = StateObject(SCRIPT, {"a": 1})
    state.committed_state()["a"] = 2
    assert state.db == {"a": 1}
