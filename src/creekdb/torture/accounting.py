"""Comparison of the calls of the key-value workload with the final state.

No acknowledged put is lost, no call is executed twice, and no rejected call is executed. The check
uses the observations of the clients and the final state only.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from creekdb.checkers import Illegal, Ok, Verdict
from creekdb.torture.clients import CallRecord, CallStatus

CHECKER = "acknowledged calls"


def check_accounts(records: Iterable[CallRecord], state: Mapping[Any, Any]) -> Verdict:
    """Return the verdict on calls of `accountable_kv_call`. `state` holds the user's registers."""
    by_client: dict[str, list[CallRecord]] = defaultdict(list)
    for record in records:
        by_client[record.client].append(record)
    for client, calls in by_client.items():
        cause = _violation(client, calls, state)
        if cause is not None:
            return Illegal(CHECKER, cause)
    return Ok(CHECKER)


def _violation(client: str, calls: list[CallRecord], state: Mapping[Any, Any]) -> str | None:
    for call in calls:
        if call.operation != "put":
            continue
        key, value = call.arguments
        if call.status is CallStatus.OK and state.get(key) != value:
            return f"put {key} was acknowledged, and the final state has {state.get(key)!r}"
        if call.status is CallStatus.REJECTED and key in state:
            return f"put {key} was rejected, and the final state has it"
    increments = [call for call in calls if call.operation == "increment"]
    acknowledged = sum(call.status is CallStatus.OK for call in increments)
    unknown = sum(call.status is CallStatus.UNKNOWN for call in increments)
    count = state.get(f"{client} count", 0)
    if not acknowledged <= count <= acknowledged + unknown:
        return (
            f"{client} has {acknowledged} acknowledged increments and {unknown} of unknown "
            f"outcome, and the final count is {count}"
        )
    return None
