"""A data type by its import path; whatever is wrong with the module is told in a line."""

from pathlib import Path

import pytest

from creekdb.errors import UsageError
from creekdb.server.runtime.config import load_datatype

HEAD = "import creekdb\nshop = creekdb.DataType('shop')\n@shop.operation\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    return tmp_path


def test_it_is_found_where_it_is_said_to_be(here: Path) -> None:
    (here / "shop_found.py").write_text(f"{HEAD}def buy(tx): pass\n")
    assert load_datatype("shop_found:shop").operations == ("buy", "noop")


@pytest.mark.parametrize(
    ("module", "text", "variable", "says"),
    [
        ("shop_none", None, "shop", "no module 'shop_none' in this folder, on PYTHONPATH"),
        ("shop_file.py", None, "shop", "write shop_file, without '.py'"),
        ("shop_needs", "import nowhere_at_all", "shop", "imports 'nowhere_at_all', and there"),
        ("shop_open", "import creekdb\nshop = (", "shop", r"shop_open.py, line 2: '\(' was"),
        ("shop_raises", "\n1 / 0", "shop", r"ZeroDivisionError: division by zero \(.*, line 2\)"),
        ("shop_name", f"{HEAD}def buy(tx): pass", "shpo", "has no 'shpo'; there is shop_name:shop"),
        ("shop_other", "shop = 3", "shop", "'shop' is a int, no creekdb.DataType$"),
        (
            "shop_empty",
            HEAD.partition("@")[0],
            "shop",
            "no operations: declare some with @shop.operation",
        ),
        ("shop_async", f"{HEAD}async def buy(tx): pass", "shop", r"without 'async' \(.*shop_async"),
        ("shop_yields", f"{HEAD}def buy(tx): yield", "shop", "write 'return', not 'yield'"),
    ],
)
def test_what_is_wrong_with_it_is_told(
    module: str, text: str | None, variable: str, says: str, here: Path
) -> None:
    if text is not None:
        (here / f"{module}.py").write_text(text)
    with pytest.raises(UsageError, match=says):
        load_datatype(f"{module}:{variable}")
