"""Where no cluster runs, who looks for one here is told how to start it."""

from creek.cli.call import HERE, why
from creek.client import NotDone


def test_who_finds_nobody_here_is_told_of_up() -> None:
    nobody = NotDone("unreachable", "no replica can be reached")
    assert why(nobody, HERE) == "no replica can be reached ('creek up' starts a cluster)"
    assert why(nobody, ("10.0.0.1:7100",)) == "no replica can be reached"
    assert why(NotDone("closed", "not connected"), HERE) == "not connected"
