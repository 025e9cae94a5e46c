"""The summary of a scenario fits the console and contains the faults that take effect."""

import pytest

from creekdb.cli.output import pluralize
from creekdb.cli.views import run_summary
from creekdb.cli.views.run_summary import scenario_lines
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.kernel.scenario import ClientModel, Scenario


class StubConsole:
    def __init__(self, width: int) -> None:
        self.width = width


def describe(scenario: Scenario) -> str:
    return "\n".join(line.plain for line in scenario_lines(scenario))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_summary_is_as_wide_as_the_console(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_summary, "stdout_console", lambda: StubConsole(width))
    faults = parse_faults(";".join(f"partition 0,1|2,3,4 at {each}ms" for each in range(20)))
    lines = describe(Scenario(faults=faults)).splitlines()

    assert max(map(len, lines)) <= width
    assert max(map(len, lines)) > width - 20


def test_faults_are_rounded_and_sorted_and_late_ones_are_counted() -> None:
    faults = parse_faults("heal at 1s; slow-cpu 1 x100 for 700851us at 53312us; heal at 3s")
    shown = describe(Scenario(faults=faults, duration_us=1_000_000))

    assert "faults   slow-cpu 1 x100 for 701ms at 53.3ms; heal at 1s; (1 more after" in shown
    assert "3s" not in shown


def test_nouns_agree_with_their_number() -> None:
    shown = describe(Scenario(replicas=1, clients=ClientModel(operations_per_session=1)))

    assert "on 1 replica, " in shown
    assert "1 operation each" in shown
    assert [pluralize(number, "seed") for number in (0, 1, 2)] == ["0 seeds", "1 seed", "2 seeds"]
