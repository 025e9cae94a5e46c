"""How Creek runs here: the times that it takes depend on that, and nothing else does."""

from creekdb.execution import versions


def how_it_runs() -> str:
    """`compiled` (by `make compiled`) or `interpreted`."""
    return "interpreted" if str(versions.__file__).endswith(".py") else "compiled"
