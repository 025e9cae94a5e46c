"""Every command finds user-defined schemes and data types in the working directory."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from creekdb.errors import UsageError
from creekdb.schemes.registry import get_scheme

AS_INSTALLED = "import sys; sys.path.remove(''); from creekdb.cli import main; sys.exit(main())"
"""The script that pip installs does not search the working directory for modules."""
SCHEME = "from creekdb.schemes.basic import BasicReplica\nclass Mine(BasicReplica):\n    pass\n"
DATATYPE = """
import creekdb
shop = creekdb.DataType("shop")
@shop.operation
def stock(tx, thing, count):
    tx.write(thing, count)
"""
SHORT = "--duration 50ms --replicas 3"


@pytest.mark.parametrize(
    "command",
    [
        f"simulate --scheme mine:Mine {SHORT}",
        f"simulate --workload tpcc --warehouses 1 --scheme mine:Mine {SHORT}",
        "simulate --replay 1 --scheme mine:Mine",
        f"simulate --datatype shop:shop --call 'stock lamp 3 on 0 at 1ms' {SHORT}",
        "fuzz --seeds 2 --jobs 2 --scheme mine:Mine",
    ],
)
def test_a_user_module_is_found_in_the_working_directory(command: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCHEME)
    (tmp_path / "shop.py").write_text(DATATYPE)
    process = subprocess.run(
        [sys.executable, "-c", AS_INSTALLED, *shlex.split(command)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def x(:", r"broken\.py, line 1: invalid syntax"),
        ("1 / 0", "ZeroDivisionError: division by zero \\(.*broken.py, line 1"),
        ("Other = 1", "broken has no 'Mine'"),
        ("import nowhere_at_all", "broken imports 'nowhere_at_all', which does not exist"),
        (None, "there is no module 'broken' in this directory, on PYTHONPATH or installed"),
    ],
)
def test_an_error_in_a_user_module_is_reported_in_one_line(
    text: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    if text is not None:
        (tmp_path / "broken.py").write_text(text)
    with pytest.raises(UsageError, match=f"^scheme broken:Mine: .*{message}"):
        get_scheme("broken:Mine")
