import pytest

from creekdb.checkers.blackbox.history_files.jepsen import EventPairing, decode_event
from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall
from creekdb.errors import BadValue
from tests.unit.checkers.blackbox.observed_histories import call


def calls_of(*lines: str) -> list[ObservedCall]:
    pairing = EventPairing()
    for line in lines:
        event = decode_event(line)
        if event is not None:
            pairing.add(event)
    return pairing.calls()


def test_reads_writes_and_compare_and_set() -> None:
    found = calls_of(
        '{"process": 0, "type": "invoke", "f": "write", "value": 3}',
        '{"process": 1, "type": "invoke", "f": "read", "value": null}',
        '{"process": 0, "type": "ok", "f": "write", "value": 3}',
        '{"process": 1, "type": "ok", "f": "read", "value": 3}',
        '{"process": 0, "type": "invoke", "f": "cas", "value": [3, 4]}',
        '{"process": 0, "type": "ok", "f": "cas", "value": [3, 4]}',
    )
    assert found == [
        call("0", "write", 3, at=(1, 3), value=ANY_VALUE),
        call("1", "read", at=(2, 4), value=3),
        call("0", "cas", 3, 4, at=(5, 6), value=True),
    ]


def test_fail_is_rejected_and_info_is_unknown() -> None:
    found = calls_of(
        "{:process 0, :type :invoke, :f :cas, :value [1 2]}",
        "{:process 1, :type :invoke, :f :write, :value 1}",
        "{:process 2, :type :invoke, :f :write, :value 2}",
        "{:process 0, :type :fail, :f :cas, :value [1 2]}",
        "{:process 1, :type :info, :f :write, :value 1, :error :timeout}",
    )
    assert [each.status for each in found] == [
        CallStatus.REJECTED,
        CallStatus.UNKNOWN,
        CallStatus.UNKNOWN,
    ]
    assert [each.responded_us for each in found] == [4, None, None]


def test_keys_are_the_first_argument() -> None:
    found = calls_of(
        '{:process 0, :type :invoke, :f :append, :key "x", :value "a b"}',
        '{:process 0, :type :ok, :f :append, :key "x", :value "a b"}',
        '{:process 0, :type :invoke, :f :get, :key "x", :value nil}',
        '{:process 0, :type :ok, :f :get, :key "x", :value "a b"}',
    )
    assert [each.arguments for each in found] == [("x", "a b"), ("x",)]
    assert found[1].value == "a b"


@pytest.mark.parametrize("begin", ['{"process"', '{ "process"', '{\t"process"'])
def test_objects_may_contain_spaces(begin: str) -> None:
    (found,) = calls_of(begin + ': 0, "type": "invoke", "f": "write", "value": [1, [2]]}')
    assert found.arguments == ((1, (2,)),)


def test_a_failed_cas_of_a_log_compared_its_values() -> None:
    found = calls_of(
        "INFO  jepsen.core - Worker 0 starting",
        "INFO  jepsen.util - 0\t:invoke\t:cas\t[1 2]",
        "INFO  jepsen.util - :nemesis\t:info\t:start\tnil",
        "INFO  jepsen.util - 0\t:fail\t:cas\t[1 2]",
        "INFO  jepsen.util - 0\t:invoke\t:read\tnil",
        "INFO  jepsen.util - 0\t:fail\t:read\t:timed-out",
    )
    assert found[0] == call("0", "cas", 1, 2, at=(1, 2), value=False)
    assert found[1].status is CallStatus.REJECTED


def test_times_keep_the_order_of_the_lines() -> None:
    found = calls_of(
        "{:process 0, :type :invoke, :f :read, :value nil, :time 5000000}",
        "{:process 1, :type :invoke, :f :read, :value nil, :time 5000001}",
        "{:process 0, :type :ok, :f :read, :value 1, :time 7000000}",
        "{:process :nemesis, :type :info, :f :kill, :value nil, :time 7100000}",
        "{:process 1, :type :ok, :f :read, :value 1, :time 7000002}",
    )
    assert [(each.invoked_us, each.responded_us) for each in found] == [(5000, 7000), (5001, 7001)]


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["{:process 0}"], "it needs 'process', 'type' and 'f'"),
        (["{:process 0, :type :done, :f :read}"], "unknown type 'done'"),
        (["{:process 0, :type :ok, :f :read}"], "process 0 has no call in progress"),
        (["{:process 0, :type :invoke, :f :read}"] * 2, "process 0 has a call in progress"),
        (['{"process": 0,'], "not an event"),
    ],
)
def test_invalid_events_are_rejected(lines: list[str], cause: str) -> None:
    with pytest.raises(BadValue, match=cause):
        calls_of(*lines)
