"""TPC-C: the data type, its initial data, the client workload and the consistency conditions.

    populated_datatype(name)      the five transactions and their initial data
    populated_datatype_name(layout, warehouses, seed)   the name of such a data type
    Population(seed, warehouses)  the initial rows, computed on demand
    PopulationBase(population, layout)   the initial rows as registers, below a version store
    TransactionInputs(datatype, population, seed, client)   endless stream of one client's calls
    Terminals(datatype, population, seed, replicas)   the calls at each replica
    find_violations(base, overrides)     the consistency conditions that a state violates
    without_order_numbers(operation, response)   a response without the order numbers it assigned

Clauses are those of the TPC-C specification, revision 5.11. This package does not import
`creekdb.tpcc.population.column_arrays`, which computes the initial rows in bulk and needs numpy.

Modules of this package depend neither on the replication of the data type nor on the arrival times
of the workload.
"""

from creekdb.tpcc.consistency import CONDITIONS as CONDITIONS
from creekdb.tpcc.consistency import ConsistencyViolation as ConsistencyViolation
from creekdb.tpcc.consistency import find_violations as find_violations
from creekdb.tpcc.datatype import datatype_on_population as datatype_on_population
from creekdb.tpcc.datatype import populated_datatype as populated_datatype
from creekdb.tpcc.datatype import populated_datatype_name as populated_datatype_name
from creekdb.tpcc.datatype import without_order_numbers as without_order_numbers
from creekdb.tpcc.layout import LAYOUTS as LAYOUTS
from creekdb.tpcc.population.registers import PopulationBase as PopulationBase
from creekdb.tpcc.population.rows import Population as Population
from creekdb.tpcc.workload import STRONG_KINDS as STRONG_KINDS
from creekdb.tpcc.workload import TRANSACTION_SHARES as TRANSACTION_SHARES
from creekdb.tpcc.workload import Terminals as Terminals
from creekdb.tpcc.workload import TransactionInput as TransactionInput
from creekdb.tpcc.workload import TransactionInputs as TransactionInputs
