"""Properties of every ready-made data type."""

import subprocess
import sys
from collections import Counter
from random import Random

import msgspec
import pytest

from creekdb.datatypes import DATATYPES, SAMPLERS, DataTypeTable, get_datatype
from creekdb.errors import UnknownName
from creekdb.execution.undo import StateObject
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key
from tests.unit.execution.strategies import sample_operation

NAMES = tuple(DATATYPES)
each_datatype = pytest.mark.parametrize("name", NAMES)


def sampled(name: str, count: int, seed: int = 1) -> list[Request]:
    random = Random(seed)
    return [
        Request(1000 * event, Dot(event % 3, event), sample_operation(name, random), strong=False)
        for event in range(1, count + 1)
    ]


def test_the_registry_has_every_data_type_under_its_own_name() -> None:
    assert NAMES == ("register", "counter", "list", "kv", "bank", "transactions", "sql")
    assert tuple(SAMPLERS) == NAMES
    assert all(get_datatype(name).name == name for name in NAMES)


def test_the_sql_engine_is_imported_at_its_first_use() -> None:
    program = (
        "import sys; from creekdb.cli import main; from creekdb.datatypes import get_datatype\n"
        "print('apsw' in sys.modules); get_datatype('sql'); print('apsw' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert run.stdout.split() == [b"False", b"True"]


def test_a_missing_package_of_a_data_type_is_named_with_its_extra() -> None:
    program = (
        "import importlib.util, sys\n"
        "find_spec = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'apsw' else find_spec(name)\n"
        "sys.modules['apsw'] = None\n"
        "from creekdb.errors import UsageError\n"
        "from creekdb.server.runtime.config import load_datatype\n"
        "try:\n"
        "    load_datatype('sql')\n"
        "except UsageError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"install creekdb[sql]" in run.stdout


def test_a_data_type_can_be_added_and_removed() -> None:
    table = DataTypeTable(get_datatype("bank"))
    table["second"] = get_datatype("kv")
    assert (list(table), len(table), "second" in table) == (["bank", "second"], 2, True)
    del table["bank"]
    assert list(table) == ["second"]


def test_an_unknown_data_type_lists_the_known_ones() -> None:
    with pytest.raises(
        UnknownName, match="unknown data type 'tree': expected one of register, counter"
    ):
        get_datatype("tree")
    with pytest.raises(UnknownName):
        sample_operation("tree", Random(1))


@each_datatype
def test_the_same_seed_samples_the_same_operations(name: str) -> None:
    assert sampled(name, 200) == sampled(name, 200)
    assert sampled(name, 200, seed=2) != sampled(name, 200)


@each_datatype
def test_samples_reach_every_operation_but_the_noop(name: str) -> None:
    seen = {each.operation.name for each in sampled(name, 1000)}
    assert seen == set(get_datatype(name).operations) - {"noop"}


@each_datatype
def test_samples_mostly_succeed_and_sometimes_raise(name: str) -> None:
    machine = get_datatype(name).sequential()
    outcomes = [machine.apply(each) for each in sampled(name, 1000)]
    errors = Counter((each.error or "value").partition(":")[0] for each in outcomes)
    assert errors["value"] > 500
    if name not in ("register", "transactions"):
        assert len(errors) > 1


@each_datatype
def test_outcomes_and_operations_survive_encoding(name: str) -> None:
    machine = get_datatype(name).sequential()
    for each in sampled(name, 300):
        outcome = machine.apply(each)
        wire = msgspec.msgpack.encode((outcome, each.operation))
        assert msgspec.msgpack.decode(wire, type=tuple[Outcome, Operation]) == (
            outcome,
            each.operation,
        )


@each_datatype
def test_readonly_operations_write_nothing(name: str) -> None:
    datatype, machine = get_datatype(name), get_datatype(name).sequential()
    for each in sampled(name, 500):
        if datatype.is_readonly(each.operation.name):
            assert datatype.run(each, machine).writes == {}
            assert "read-only" not in (machine.apply(each).error or "")
        else:
            machine.apply(each)


@each_datatype
def test_executing_and_rolling_back_agrees_with_the_sequential_machine(name: str) -> None:
    state, machine, random = (
        StateObject(get_datatype(name)),
        get_datatype(name).sequential(),
        Random(3),
    )
    todo = sampled(name, 400)
    history: list[tuple[Request, dict[Key, object]]] = []
    for each in todo:
        for _ in range(random.choice((0, 0, 0, 1, 3))):  # a detour, undone and done again
            if history:
                undone, before = history.pop()
                state.rollback(undone)
                assert state.db == before
        for again in todo[len(history) : todo.index(each)]:
            history.append((again, dict(state.db)))
            state.execute(again)
        history.append((each, dict(state.db)))
        assert state.execute(each) == machine.apply(each)
        assert state.db == machine.state


@pytest.mark.parametrize(("name", "share"), [("list", 0.5), ("bank", 0.25)])
def test_swapping_two_operations_often_changes_a_response(name: str, share: float) -> None:
    todo = sampled(name, 100)

    def outcomes(order: list[Request]) -> dict[Dot, Outcome]:
        machine = get_datatype(name).sequential()
        return {each.id: machine.apply(each) for each in order}

    expected = outcomes(todo)
    swaps = range(len(todo) - 1)
    noticed = sum(
        outcomes([*todo[:at], todo[at + 1], todo[at], *todo[at + 2 :]]) != expected for at in swaps
    )
    assert noticed > share * len(swaps)
