"""Placement of terminals: every replica serves every warehouse."""

from random import Random

import pytest

from creekdb.errors import BadValue, UnknownName
from creekdb.tpcc import Terminals, populated_datatype, populated_datatype_name
from creekdb.tpcc.workload import client_numbers


@pytest.mark.parametrize("replicas", [1, 2, 3, 5, 7, 10, 12, 30])
@pytest.mark.parametrize("warehouses", [1, 5, 20])
def test_terminals_are_spread_and_every_replica_serves_every_warehouse(
    replicas: int, warehouses: int
) -> None:
    clients = [client_numbers(each, replicas, warehouses) for each in range(replicas)]

    every = [client for each in clients for client in each]
    assert len(set(every)) == len(every) == warehouses * max(10, replicas)
    for each in clients:
        assert {client % warehouses for client in each} == set(range(warehouses))
    sizes = {len(each) for each in clients}
    assert max(sizes) - min(sizes) <= warehouses


def test_calls_come_from_all_terminals_of_a_replica_and_are_repeatable() -> None:
    datatype = populated_datatype(populated_datatype_name("rows", 2, 0))

    def operations() -> list[object]:
        terminals = Terminals(datatype, datatype.base.population, 3, 5)  # type: ignore[attr-defined]
        random = Random(1)
        return [terminals(number % 5, random) for number in range(200)]

    first = operations()
    assert first == operations()
    assert {operation.arguments[0] for operation in first} == {1, 2}  # type: ignore[attr-defined]


def test_a_data_type_is_rebuilt_from_its_name() -> None:
    name = populated_datatype_name("fine", 3, 7)
    datatype = populated_datatype(name)

    assert datatype.name == name == "tpcc-fine-3-7"
    population = datatype.base.population  # type: ignore[attr-defined]
    assert (population.warehouses, population.seed) == (3, 7)
    assert populated_datatype(name) is datatype


@pytest.mark.parametrize("name", ["tpcc", "tpcc-rows", "tpcc-rows-x-1", "tpcc-rows-1", "bank"])
def test_incomplete_names_are_rejected(name: str) -> None:
    with pytest.raises(UnknownName):
        populated_datatype(name)


def test_invalid_populations_are_rejected() -> None:
    with pytest.raises(UnknownName, match="layout"):
        populated_datatype_name("columns", 1, 0)
    with pytest.raises(BadValue, match="warehouses"):
        populated_datatype(populated_datatype_name("rows", 0, 0))
