"""The walkthrough is short, and every line of it is derived from the run."""

import re

import pytest

from creekdb.checkers import check_all
from creekdb.cli import main
from creekdb.cli.options import DEFAULT_SCHEME
from creekdb.cli.views.walkthrough import (
    committed_operations,
    walkthrough_lines,
    walkthrough_scenario,
)
from creekdb.simulation.fuzz.campaign import build_fuzz_simulation


@pytest.fixture(scope="module")
def walkthrough() -> str:
    history = build_fuzz_simulation(walkthrough_scenario(0, DEFAULT_SCHEME)).run().history
    return "\n".join(line.plain for line in walkthrough_lines(history, check_all(history)))


def rows(walkthrough: str, operation: str) -> list[str]:
    return [line for line in walkthrough.splitlines() if operation in line and "──" not in line]


def test_the_walkthrough_is_short_and_narrow(walkthrough: str) -> None:
    lines = walkthrough.splitlines()

    assert len(lines) <= 46
    assert max(map(len, lines)) <= 79


def test_the_introduction_explains_weak_and_strong(walkthrough: str) -> None:
    opening = walkthrough[: walkthrough.index("── all replicas")]

    assert "weak    one response at once" in opening
    assert "tentative" in opening
    assert "stable" in opening
    assert "any number of such responses (tentative)" in opening
    assert "after ms" in opening


def test_a_changed_strong_response_is_corrected(walkthrough: str) -> None:
    assert re.search(r"5 +✗ ann has 30, not 35 +corrected", walkthrough)


def test_the_network_splits_and_heals(walkthrough: str) -> None:
    splits = walkthrough.index("the network splits into 0,1 and 2,3,4; only 2,3,4 has a majority")
    heals = walkthrough.index("the network heals; not yet stable: withdraw ann 35")

    assert splits < heals


def test_weak_operations_on_both_sides_respond_at_once(walkthrough: str) -> None:
    for call in ("withdraw ann 80", "withdraw ann 70"):
        first = rows(walkthrough, call)[0]
        assert re.search(r"×.*weak .* \d+ +tentative +0\.\d\d$", first)


def test_strong_operations_become_stable_in_the_majority_and_elsewhere_after_healing(
    walkthrough: str,
) -> None:
    majority, minority = rows(walkthrough, "withdraw ann 20"), rows(walkthrough, "withdraw ann 35")
    majority_stable = next(line for line in majority if "stable" in line)
    minority_stable = next(line for line in minority if "stable" in line)

    assert "×" in majority_stable
    assert "×" in minority[0]
    assert "tentative" in minority[0]
    assert "×" not in minority_stable
    assert int(minority_stable.split()[0]) > 300


def test_a_changed_weak_response_requires_an_apology(walkthrough: str) -> None:
    final = rows(walkthrough, "withdraw ann 80")[-1]

    assert re.search(r"40 +✗ ann has 30, not 80 +apology due", final)
    assert "1 of 5 weak responses changed; 0 of 4 stable responses changed" in walkthrough


def test_all_replicas_converge_and_every_checker_passes(walkthrough: str) -> None:
    assert "✓ all 5 replicas ended with this order: ann has 35" in walkthrough
    assert "✓ 12 of 12 checkers passed" in walkthrough


@pytest.mark.parametrize("seed", range(1, 20))
def test_the_walkthrough_is_the_same_with_every_seed(seed: int) -> None:
    run = build_fuzz_simulation(walkthrough_scenario(seed, DEFAULT_SCHEME)).run()
    finals = committed_operations(run.history)
    changed = [final.request.operation.arguments[1] for final in finals if final.changed]

    assert run.quiescence_failure is None
    assert changed == [80, 35]
    assert len(finals) == len(run.history.operations), "no no-op was needed"


def test_the_piped_output_is_plain_text(
    capsys: pytest.CaptureFixture[str], walkthrough: str
) -> None:
    assert main(["simulate", "--story"]) == 0

    assert capsys.readouterr().out.rstrip("\n") == walkthrough
