"""Comparison with the verdicts that the tests of porcupine require."""

from pathlib import Path

import pytest

from tests.unit.checkers.blackbox.porcupine import main

TESTS = """
func TestEtcdJepsen007(t *testing.T) {
	checkJepsen(t, 7, true)
}
func TestKv1ClientOk(t *testing.T) {
	checkKv(t, "c01-ok", true, true)
}
func TestKvNoPartition1ClientOk(t *testing.T) {
	checkKv(t, "c01-ok", true, false)
}
"""
LOG = """
INFO  jepsen.util - 0\t:invoke\t:write\t3
INFO  jepsen.util - 0\t:ok\t:write\t3
INFO  jepsen.util - 1\t:invoke\t:read\tnil
INFO  jepsen.util - 1\t:ok\t:read\t3
"""
TEXTS = """
{:process 0, :type :invoke, :f :append, :key "0", :value "a"}
{:process 0, :type :ok, :f :append, :key "0", :value "a"}
{:process 0, :type :invoke, :f :get, :key "0", :value nil}
{:process 0, :type :ok, :f :get, :key "0", :value "SEEN"}
"""


@pytest.mark.parametrize(("seen", "code"), [("a", 0), ("", 1)])
def test_verdicts_are_compared(
    tmp_path: Path, seen: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for directory in ("jepsen", "kv"):
        (tmp_path / "test_data" / directory).mkdir(parents=True)
    (tmp_path / "porcupine_test.go").write_text(TESTS)
    (tmp_path / "test_data" / "jepsen" / "etcd_007.log").write_text(LOG)
    (tmp_path / "test_data" / "kv" / "c01-ok.txt").write_text(TEXTS.replace("SEEN", seen))

    assert main(tmp_path) == code
    assert f"{2 - code} of 2 verdicts are those of porcupine" in capsys.readouterr().out
