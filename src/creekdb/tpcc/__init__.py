"""TPC-C: the data type, its initial data, what its clients ask for, and what must always hold.

    datatype(layout)              the five transactions; layout is `rows` or `fine`
    populated(name)               the same with its initial data; `populated_name` makes the name
    Population(seed, warehouses)  the initial rows, computed when they are asked for
    PopulationBase(population, layout)   the same as registers, to put below a version store
    Inputs(datatype, population, seed, client)   what a client asks for, without end
    Terminals(datatype, population, seed, replicas)   what is asked for at each replica
    problems(base, overrides)     the consistency conditions that a state violates
    without_numbers(operation, answer)   an answer, but for the numbers that orders got
    Overlay(base)                 a state to run transactions on, one after another

Clauses are those of the TPC-C specification, revision 5.11. `creekdb.tpcc.population.column_arrays`
computes the initial rows in bulk; it is not imported here, for it needs numpy.

The room must not know how the data type is replicated, nor who draws the time that passes.
"""

from creekdb.tpcc.consistency import CONDITIONS as CONDITIONS
from creekdb.tpcc.consistency import ConsistencyViolation as ConsistencyViolation
from creekdb.tpcc.consistency import find_violations as find_violations
from creekdb.tpcc.datatype import datatype_on_population as datatype_on_population
from creekdb.tpcc.datatype import populated_datatype as populated_datatype
from creekdb.tpcc.datatype import populated_datatype_name as populated_datatype_name
from creekdb.tpcc.datatype import tpcc_datatype as tpcc_datatype
from creekdb.tpcc.datatype import without_order_numbers as without_order_numbers
from creekdb.tpcc.layout import LAYOUTS as LAYOUTS
from creekdb.tpcc.overlay import OverlayState as OverlayState
from creekdb.tpcc.population.registers import PopulationBase as PopulationBase
from creekdb.tpcc.population.rows import Population as Population
from creekdb.tpcc.workload import STRONG_KINDS as STRONG_KINDS
from creekdb.tpcc.workload import TRANSACTION_SHARES as TRANSACTION_SHARES
from creekdb.tpcc.workload import Terminals as Terminals
from creekdb.tpcc.workload import TransactionInput as TransactionInput
from creekdb.tpcc.workload import TransactionInputs as TransactionInputs
