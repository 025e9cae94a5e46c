"""Calls of a torture: of a ready-made data type, of a user's function, or drawn from signatures.

The calls of the key-value store and of transactions let clients identify the writes in responses
and in the final states (`creekdb.checkers.blackbox`). Keys are replaced over time, so that each has
a short history, which can be checked quickly.
"""

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from creekdb import datatypes
from creekdb.checkers.blackbox import Model
from creekdb.datatypes import OperationSampler
from creekdb.datatypes.transactions import draw_micro_operation
from creekdb.errors import BadValue, UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.module_loader import import_user_module
from creekdb.http.operations import OperationCatalog, OperationSpec
from creekdb.http.schema import BYTES_SCHEMA, Schema
from creekdb.load.workload import WorkloadCall, tpcc_workload

STRONG_FRACTION: Final = 0.35
"""Fraction of strong calls, unless the workload decides."""
TEXTS: Final = ("a", "b", "c", "ann", "bob", "")
NUMBERS: Final = (0, 1, 1, 2, 3, 5, 10, 100, -1)
ITEMS_MAX: Final = 3
"""Upper bound for the length of drawn arrays."""
TPCC_REPLICAS: Final = 1
CALLS_PER_KEY: Final = 100
"""Number of calls of all clients after which other keys are used."""
SHARED_KEYS: Final = 3
"""Number of shared keys at a time."""
SHARED_PREFIX: Final = "shared "
"""Prefix of the keys that all clients use."""
MICRO_OPERATIONS_MAX: Final = 4
STRONG_TRANSACTION_FRACTION: Final = 0.7

CallSource: TypeAlias = Callable[[Random, str], WorkloadCall]
"""Function that draws the next call of the named client."""


class Subject(NamedTuple):
    """Data type under torture, with its workload."""

    name: str
    """Name or import path of the data type."""
    datatype: DataType
    source: CallSource
    model: Model | None = None
    """Model by which the strong calls are searched for a linearization. None for the usual one."""


def workload_of(name: str, datatype: DataType, function: str | None = None) -> CallSource:
    """Return the workload of the data type `name`, or of the user's `function` if there is one."""
    if function is not None:
        return _user_workload(function, datatype)
    if name == "kv":
        return KvCalls()
    if name == "transactions":
        return TransactionCalls()
    if name.startswith("tpcc"):
        transactions = tpcc_workload(name, TPCC_REPLICAS, None, seed=0)
        return lambda random, client: transactions(0)
    if name in datatypes.SAMPLERS:
        return _sampled_workload(datatype, datatypes.SAMPLERS[name])
    return _signature_workload(datatype)


def _sampled_workload(datatype: DataType, sample: OperationSampler) -> CallSource:
    """Return a workload of the drawn calls that clients can send: HTTP rejects other types."""

    def next_call(random: Random, client: str) -> WorkloadCall:
        while True:
            operation, arguments = sample(random)
            try:
                datatype.checked_arguments(operation, arguments)
            except BadValue:
                continue
            return WorkloadCall(operation, arguments, _is_strong(random))

    return next_call


def _is_strong(random: Random) -> bool:
    return random.random() < STRONG_FRACTION


class KvCalls:
    """Calls of the key-value store by all clients of a torture.

    A log has keys that are written once, by different clients, which scan it. Each client counts
    in a counter of its own. All clients overwrite and read the shared keys, with unique values.
    """

    def __init__(self) -> None:
        self._drawn = count()

    def __call__(self, random: Random, client: str) -> WorkloadCall:
        number, strong = next(self._drawn), _is_strong(random)
        log = f"log {number // CALLS_PER_KEY}"
        shared = f"{SHARED_PREFIX}{number // CALLS_PER_KEY}.{random.randrange(SHARED_KEYS)}"
        kinds = ("log", "increment", "get", "scan", "put shared", "get shared")
        match random.choices(kinds, (4, 4, 1, 2, 2, 2))[0]:
            case "log":
                return WorkloadCall("put", (f"{log} {client} {number}", number), strong)
            case "increment":
                return WorkloadCall("increment", (f"{client} count",), strong)
            case "get":
                return WorkloadCall("get", (f"{client} count",), strong)
            case "scan":
                return WorkloadCall("scan", (random.choice((f"{log} ", f"{client} c")),), strong)
            case "put shared":
                return WorkloadCall("put", (shared, number), strong)
            case _:
                return WorkloadCall("get", (shared,), strong)


class TransactionCalls:
    """Transactions on lists and registers by all clients of a torture, most of them strong."""

    def __init__(self) -> None:
        self._drawn = count()

    def __call__(self, random: Random, client: str) -> WorkloadCall:
        drawn = (self._draw(random) for _ in range(random.randint(1, MICRO_OPERATIONS_MAX)))
        is_strong = random.random() < STRONG_TRANSACTION_FRACTION
        return WorkloadCall("run", tuple(drawn), is_strong)

    def _draw(self, random: Random) -> tuple[str, str, Any]:
        number, is_list = next(self._drawn), random.random() < 0.7
        kind = "list" if is_list else "register"
        key = f"{kind} {number // CALLS_PER_KEY}.{random.randrange(SHARED_KEYS)}"
        return draw_micro_operation(random, key, is_list, number)


# --- a user's function ------------------------------------------------------------------------


def _user_workload(name: str, datatype: DataType) -> CallSource:
    module, variable = import_user_module("workload", name)
    function = getattr(module, variable, None)
    if not callable(function):
        raise UsageError(
            f"workload {name}: {module.__name__} has no function '{variable}'; "
            "write module:function"
        )

    def next_call(random: Random, client: str) -> WorkloadCall:
        drawn = function(random)
        try:
            operation, arguments, strong = drawn
            call = WorkloadCall(operation, tuple(arguments), bool(strong))
            datatype.call(call.operation, *call.arguments)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"workload {name}: it returned {drawn!r}; "
                "return the name of the operation, its arguments and whether it is strong"
            ) from error
        except UsageError as error:
            raise UsageError(f"workload {name}: {error}") from error
        return call

    next_call(Random(0), "trial")
    return next_call


# --- signatures -------------------------------------------------------------------------------


def _signature_workload(datatype: DataType) -> CallSource:
    operations = tuple(OperationCatalog(datatype).by_name.values())
    if not operations:
        raise UsageError(f"data type '{datatype.name}' has no operation; declare one")

    def next_call(random: Random, client: str) -> WorkloadCall:
        operation = random.choice(operations)
        return WorkloadCall(operation.name, draw_arguments(operation, random), _is_strong(random))

    return next_call


def draw_arguments(operation: OperationSpec, random: Random) -> tuple[Any, ...]:
    """Draw arguments that match the annotations. Parameters with a default may be left out."""
    arguments: list[Any] = []
    for parameter in operation.parameters:
        if parameter.is_variadic:
            arguments += draw_value(parameter.schema, random)
        elif parameter.is_required or random.random() < 0.5:
            arguments.append(draw_value(parameter.schema, random))
        else:
            break
    return tuple(arguments)


def draw_value(schema: Schema, random: Random) -> Any:
    """Draw a value of the schema from a small set, so that calls meet on the same registers."""
    if "anyOf" in schema:
        return draw_value(random.choice(schema["anyOf"]), random)
    if "enum" in schema:
        return random.choice(schema["enum"])
    if schema is BYTES_SCHEMA:
        return random.choice(TEXTS).encode()
    match schema.get("type"):
        case "null":
            return None
        case "boolean":
            return random.random() < 0.5
        case "integer":
            return random.choice(NUMBERS)
        case "number":
            return random.choice(NUMBERS) / 4
        case "string":
            return random.choice(TEXTS)
        case "array":
            return tuple(draw_value(each, random) for each in _item_schemas(schema, random))
        case "object":
            values = schema.get("additionalProperties", {})
            return {key: draw_value(values, random) for key in random.sample(TEXTS[:3], 2)}
        case None:
            return random.choice((*TEXTS, *NUMBERS))
        case other:
            raise BadValue(f"cannot draw a value of the type {other}")


def _item_schemas(schema: Schema, random: Random) -> list[Schema]:
    if "prefixItems" in schema:
        items: list[Schema] = schema["prefixItems"]
        return items
    return [schema.get("items", {})] * random.randint(0, ITEMS_MAX)
