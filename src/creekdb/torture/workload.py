"""Calls of a torture: of a ready-made data type, of a user's function, or drawn from signatures.

For the key-value store, every client has keys of its own. The number of acknowledged increments and
the acknowledged puts can thus be compared with the final state (`accounting`).
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeAlias

from creekdb import datatypes
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

CallSource: TypeAlias = Callable[[Random, str], WorkloadCall]
"""Function that draws the next call of the named client."""


def workload_of(name: str, datatype: DataType, function: str | None = None) -> CallSource:
    """Return the workload of the data type `name`, or of the user's `function` if there is one."""
    if function is not None:
        return _user_workload(function, datatype)
    if name == "kv":
        return accountable_kv_call
    if name.startswith("tpcc"):
        transactions = tpcc_workload(name, TPCC_REPLICAS, None, seed=0)
        return lambda random, client: transactions(0)
    if name in datatypes.SAMPLERS:
        sample = datatypes.SAMPLERS[name]
        return lambda random, client: WorkloadCall(*sample(random), _is_strong(random))
    return _signature_workload(datatype)


def _is_strong(random: Random) -> bool:
    return random.random() < STRONG_FRACTION


def accountable_kv_call(random: Random, client: str) -> WorkloadCall:
    """Draw a call of the key-value store on keys of this client."""
    strong = _is_strong(random)
    match random.choices(("put", "increment", "get", "scan"), (4, 4, 1, 1))[0]:
        case "put":
            number = random.randrange(2**48)
            return WorkloadCall("put", (f"{client} put {number}", number), strong)
        case "increment":
            return WorkloadCall("increment", (f"{client} count",), strong)
        case "get":
            return WorkloadCall("get", (f"{client} count",), strong)
        case _:
            return WorkloadCall("scan", (f"{client} c",), strong)


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
