from pathlib import Path

import pytest

from creekdb.checkers import Illegal, Ok
from creekdb.checkers.blackbox.history_files.reader import read_calls
from creekdb.checkers.blackbox.linearizability.checker import check_linearizability
from creekdb.checkers.blackbox.linearizability.plain_models import get_model
from creekdb.checkers.blackbox.observations import ObservedRun
from creekdb.checkers.blackbox.registry import judge
from creekdb.errors import StorageFault, UsageError

ETCD_LOG = """
INFO  jepsen.util - 0\t:invoke\t:write\t{written}
INFO  jepsen.util - 1\t:invoke\t:read\tnil
INFO  jepsen.util - 0\t:ok\t:write\t{written}
INFO  jepsen.util - 1\t:ok\t:read\tnil
INFO  jepsen.util - 1\t:invoke\t:cas\t[3 4]
INFO  jepsen.util - 2\t:invoke\t:write\t7
INFO  jepsen.util - 1\t:{outcome}\t:cas\t[3 4]
INFO  jepsen.util - 2\t:info\t:write\t:timed-out
INFO  jepsen.util - 3\t:invoke\t:read\tnil
INFO  jepsen.util - 3\t:ok\t:read\t{read}
"""

TEXTS = """
{{:process 0, :type :invoke, :f :put, :key "x", :value "a"}}
{{:process 0, :type :ok, :f :put, :key "x", :value "a"}}
{{:process 1, :type :invoke, :f :append, :key "x", :value "b"}}
{{:process 0, :type :invoke, :f :get, :key "x", :value nil}}
{{:process 0, :type :ok, :f :get, :key "x", :value "{first}"}}
{{:process 0, :type :invoke, :f :get, :key "x", :value nil}}
{{:process 0, :type :ok, :f :get, :key "x", :value "{second}"}}
{{:process 1, :type :ok, :f :append, :key "x", :value "b"}}
"""


@pytest.mark.parametrize(
    ("model", "text", "expected"),
    [
        ("register", ETCD_LOG.format(written=3, outcome="ok", read=4), Ok),
        ("register", ETCD_LOG.format(written=3, outcome="ok", read=7), Ok),
        ("register", ETCD_LOG.format(written=2, outcome="fail", read=2), Ok),
        ("register", ETCD_LOG.format(written=3, outcome="ok", read=3), Illegal),
        ("register", ETCD_LOG.format(written=2, outcome="ok", read=4), Illegal),
        ("register", ETCD_LOG.format(written=3, outcome="fail", read=7), Ok),
        ("register", ETCD_LOG.format(written=3, outcome="fail", read=3), Illegal),
        ("text-kv", TEXTS.format(first="a", second="ab"), Ok),
        ("text-kv", TEXTS.format(first="ab", second="a"), Illegal),
        ("text-kv", TEXTS.format(first="b", second="b"), Illegal),
    ],
)
def test_verdicts_on_histories_of_other_systems(
    tmp_path: Path, model: str, text: str, expected: type
) -> None:
    path = tmp_path / "history"
    path.write_text(text)
    run = ObservedRun(datatype=model, calls=read_calls(path))
    verdict = check_linearizability(run, get_model(model)).verdict
    assert isinstance(verdict, expected), verdict.describe()


def test_calls_are_sorted_by_their_invocations(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    lines = [f'{{"client": "a", "operation": "noop", "invoked_us": {us}}}' for us in (5, 1, 3)]
    path.write_text("\n".join(lines))
    assert [each.invoked_us for each in read_calls(path)] == [1, 3, 5]


@pytest.mark.parametrize("begin", ["{:process", "{ :process", "#jepsen.history.Op{:process"])
def test_maps_of_edn_are_events(tmp_path: Path, begin: str) -> None:
    path = tmp_path / "history.edn"
    path.write_text(begin + " 0, :type :invoke, :f :read, :value nil}\n")
    assert [each.operation for each in read_calls(path)] == ["read"]


KEYS = """
{{"process": 0, "type": "invoke", "f": "put", "key": 1, "value": 5}}
{{"process": 0, "type": "ok", "f": "put", "key": 1, "value": 5}}
{{"process": 1, "type": "invoke", "f": "put", "key": "1", "value": 6}}
{{"process": 1, "type": "ok", "f": "put", "key": "1", "value": 6}}
{{"process": 1, "type": "invoke", "f": "get", "key": 1}}
{{"process": 1, "type": "ok", "f": "get", "value": {seen}}}
"""


@pytest.mark.parametrize(("seen", "expected"), [(5, Ok), (6, Illegal), ("null", Illegal)])
def test_integers_are_keys_of_the_store(tmp_path: Path, seen: object, expected: type) -> None:
    path = tmp_path / "history"
    path.write_text(KEYS.format(seen=seen))
    model = get_model("kv")
    linearizability, *others = judge(
        ObservedRun(datatype="kv", calls=read_calls(path, model)), model
    )
    assert isinstance(linearizability.verdict, expected)
    assert [type(each.verdict) for each in others] == [Ok, Ok]


def test_an_operation_that_the_model_lacks_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("\n{:process 0, :type :invoke, :f :appendd, :value [1]}\n")
    with pytest.raises(UsageError, match=r"line 2: 'operation': .* no operation 'appendd'"):
        read_calls(path, get_model("transactions"))


def test_errors_name_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"client": "a", "operation": "noop", "invoked_us": 1}\n\n{"client": "a"}\n')
    with pytest.raises(UsageError, match=r"calls.jsonl, line 3: not a call: .*operation"):
        read_calls(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"calls.jsonl, line 1: 'utf-8' codec"):
        read_calls(path)
    path.write_text("\n")
    with pytest.raises(UsageError, match="contains no calls"):
        read_calls(path)
    for text in ("[" * 100_000, "9" * 5_000, "INFO  jepsen.util - 1\t:done\t:read\tnil"):
        path.write_text(f"INFO  other\n{text}")
        with pytest.raises(UsageError, match=r"calls.jsonl, line 2"):
            read_calls(path)
    with pytest.raises(StorageFault, match="cannot read"):
        read_calls(tmp_path / "missing")
