"""Execute the cells of the notebook, and print the value of each, like a notebook does."""

import ast
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).with_name("birds.ipynb")


def run(source: str, names: dict[str, Any]) -> Any:
    """Execute a cell. Returns the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102
    return None if last is None else eval(ast.unparse(last), names)  # noqa: S307


names: dict[str, Any] = {}
for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        value = run("".join(cell["source"]), names)
        if value is not None:
            print(value)
