"""The terminals of a cluster: ten for each warehouse, spread evenly over the replicas.

A terminal stands in a district, and each replica serves the same districts of every warehouse: so
every warehouse is in use at every replica. (Were whole warehouses given to replicas, transactions
of different replicas would hardly ever meet.) More than ten replicas get a district each, some of
them the same, with a terminal of its own.
"""

from random import Random

from creekdb.execution.datatype import DataType
from creekdb.protocol.request import Operation
from creekdb.tpcc.inputs import Inputs
from creekdb.tpcc.population import Population
from creekdb.tpcc.schema import DISTRICTS


def clients_of(replica: int, replicas: int, warehouses: int) -> list[int]:
    """The numbers of its clients; `Inputs` says where a client with a number sits."""
    return [
        district * warehouses + warehouse
        for district in range(max(DISTRICTS, replicas))
        if district % replicas == replica
        for warehouse in range(warehouses)
    ]


class Terminals:
    """What is asked for at each replica: whoever comes next sits down at any of its terminals."""

    def __init__(
        self, datatype: DataType, population: Population, seed: int, replicas: int
    ) -> None:
        self._terminals = [
            [
                Inputs(datatype, population, seed, client)
                for client in clients_of(replica, replicas, population.warehouses)
            ]
            for replica in range(replicas)
        ]

    def __call__(self, replica: int, random: Random) -> Operation:
        terminals = self._terminals[replica]
        return next(terminals[int(random.random() * len(terminals))]).operation
