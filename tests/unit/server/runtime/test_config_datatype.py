"""Data types by import path: an error in the module is reported in one line."""

from pathlib import Path

import pytest

from creekdb.errors import UsageError
from creekdb.server.runtime.config import load_datatype

HEAD = "import creekdb\nshop = creekdb.DataType('shop')\n@shop.operation\n"


@pytest.fixture(autouse=True)
def module_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    return tmp_path


def test_datatype_is_loaded_by_import_path(module_dir: Path) -> None:
    (module_dir / "shop_found.py").write_text(f"{HEAD}def buy(tx): pass\n")
    assert load_datatype("shop_found:shop").operations == ("buy", "noop")


@pytest.mark.parametrize(
    ("module", "text", "variable", "error"),
    [
        ("shop_none", None, "shop", "no module 'shop_none' in this directory, on PYTHONPATH"),
        ("shop_file.py", None, "shop", "write shop_file, without '.py'"),
        (
            "shop_needs",
            "import nowhere_at_all",
            "shop",
            "imports 'nowhere_at_all', which does not exist",
        ),
        ("shop_open", "import creekdb\nshop = (", "shop", r"shop_open.py, line 2: '\(' was"),
        ("shop_raises", "\n1 / 0", "shop", r"ZeroDivisionError: division by zero \(.*, line 2\)"),
        (
            "shop_name",
            f"{HEAD}def buy(tx): pass",
            "shpo",
            "has no 'shpo'; available: shop_name:shop",
        ),
        ("shop_other", "shop = 3", "shop", "'shop' is a int, not a creekdb.DataType$"),
        (
            "shop_empty",
            HEAD.partition("@")[0],
            "shop",
            "no operations; declare some with @shop.operation",
        ),
        ("shop_async", f"{HEAD}async def buy(tx): pass", "shop", r"without 'async' \(.*shop_async"),
        ("shop_yields", f"{HEAD}def buy(tx): yield", "shop", "use 'return', not 'yield'"),
    ],
)
def test_error_names_the_defect_of_the_module(
    module: str, text: str | None, variable: str, error: str, module_dir: Path
) -> None:
    if text is not None:
        (module_dir / f"{module}.py").write_text(text)
    with pytest.raises(UsageError, match=error):
        load_datatype(f"{module}:{variable}")
