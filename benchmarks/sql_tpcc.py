"""TPC-C in SQL, relative to the same transactions in Python.

The layouts `sql` and `rows` execute the same inputs on the version store, without protocol and
disk. All initial rows are computed beforehand. Results of both are compared.
"""

from collections.abc import Iterator
from functools import partial
from itertools import cycle, islice

from benchmarks.execution import VersionStoreSubject
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import Timed, ratio
from creekdb.execution.datatype import DataType
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.tpcc import (
    Population,
    TransactionInputs,
)
from creekdb.tpcc.datatype import datatype_on_population

SEED = 1
WAREHOUSES = 5
BAR = 4.0


def requests(datatype: DataType, population: Population, count: int) -> list[Request]:
    """Return requests of all terminals in turn."""
    terminals = [
        TransactionInputs(datatype, population, SEED, client) for client in range(10 * WAREHOUSES)
    ]
    return [
        Request(event, Dot(0, event), next(terminal).operation, strong=False)
        for event, terminal in enumerate(islice(cycle(terminals), count), 1)
    ]


def _prepare(datatype: DataType, batch: list[Request]) -> Timed:
    subject = VersionStoreSubject({}, datatype=datatype)
    return Timed(len(batch), lambda: subject.run(batch))


def measure(scale: Scale) -> Iterator[Result]:
    population = Population(SEED, WAREHOUSES)
    sql, rows = (datatype_on_population(population, layout) for layout in ("sql", "rows"))
    batch = requests(rows, population, scale.timed)
    responses = []
    for datatype in (sql, rows):
        subject = VersionStoreSubject({}, datatype=datatype)
        subject.run(batch)  # computes the initial rows
        responses.append(subject.responses)
    assert responses[0] == responses[1], "both layouts give the same responses"
    assert responses[0].count(None) < len(batch) / 10, "few transactions roll back"
    yield Result(
        what="TPC-C in SQL",
        explanation="Processor time of a transaction of TPC-C as SQL statements on the version "
        "store, relative to the same transaction in Python.",
        value=ratio(
            partial(_prepare, sql, batch), partial(_prepare, rows, batch), scale.repeats, BAR
        ),
        bar=BAR,
    )


BENCHMARK = Benchmark("sql-tpcc", 1, measure)
