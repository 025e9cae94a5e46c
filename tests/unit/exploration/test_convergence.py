"""Convergence of a cluster after one strong call, and the faults that it reveals."""

import pytest

from creekdb.datatypes import get_datatype
from creekdb.execution.python_runtime import build_kind
from creekdb.exploration.convergence import Convergence
from creekdb.exploration.local_states import LocalStates
from creekdb.exploration.node import Invoke, PropertyViolated, Witness
from creekdb.exploration.properties import Properties
from creekdb.exploration.scope import get_scope, with_calls
from creekdb.schemes.core.view import ReplicaView
from creekdb.schemes.registry import get_spec

pytestmark = pytest.mark.skipif(
    build_kind() != "interpreted", reason="methods of compiled classes are fixed"
)


def converge() -> None:
    scope = with_calls(get_scope("two-strong"), 1)
    datatype = get_datatype(scope.datatype)
    states = LocalStates(scope, get_spec("creek").create, datatype)
    numbers, caller = list(states.initial_states()), scope.calls[0].replica
    invoked = states.step(numbers[caller], Invoke(0))
    assert invoked is not None
    numbers[caller] = invoked.state
    properties = Properties(scope, datatype)
    Convergence(scope, datatype, states, properties).check(numbers, frozenset())


def test_a_correct_cluster_converges() -> None:
    converge()


@pytest.mark.parametrize(
    ("owner", "method", "result", "message"),
    [
        (ReplicaView, "committed_ids", (), "is lost, the request of call 0"),
        (Witness, "has_stable", False, "has no stable response"),
        (ReplicaView, "state", {}, "ends with another state than a sequential execution"),
    ],
)
def test_a_cluster_that_lost_a_part_of_its_state_is_reported(
    owner: type, method: str, result: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, method, lambda *_: result)

    with pytest.raises(PropertyViolated, match=message):
        converge()
