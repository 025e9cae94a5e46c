"""The story tells what happened, in a few lines, and everything in it comes from the run."""

import re

import pytest

from creekdb.checkers import check_all
from creekdb.cli import main
from creekdb.cli.options import DEFAULT_SCHEME
from creekdb.cli.views.timeline import committed_operations
from creekdb.cli.views.walkthrough import walkthrough_lines, walkthrough_scenario
from creekdb.simulation.fuzz.campaign import build_fuzz_simulation


@pytest.fixture(scope="module")
def story() -> str:
    history = build_fuzz_simulation(walkthrough_scenario(0, DEFAULT_SCHEME)).run().history
    return "\n".join(line.plain for line in walkthrough_lines(history, check_all(history)))


def rows(story: str, operation: str) -> list[str]:
    return [line for line in story.splitlines() if operation in line and "──" not in line]


def test_it_is_short_and_narrow(story: str) -> None:
    lines = story.splitlines()

    assert len(lines) <= 46
    assert max(map(len, lines)) <= 79


def test_a_newcomer_is_told_what_weak_and_strong_mean(story: str) -> None:
    opening = story[: story.index("── every replica")]

    assert "weak    one answer, at once" in opening
    assert "tentative" in opening
    assert "stable" in opening
    assert "such an answer (tentative), or several, or none, before" in opening
    assert "after ms" in opening


def test_a_strong_answer_that_changed_was_corrected(story: str) -> None:
    assert re.search(r"5 +✗ ann has 30, not 35 +corrected", story)


def test_the_network_breaks_and_heals(story: str) -> None:
    breaks = story.index("the network breaks into 0,1 and 2,3,4; only 2,3,4 are a majority")
    heals = story.index("the network heals; still waiting to be stable: withdraw ann 35")

    assert breaks < heals


def test_weak_operations_on_both_sides_are_answered_at_once(story: str) -> None:
    for call in ("withdraw ann 80", "withdraw ann 70"):
        asked = rows(story, call)[0]
        assert re.search(r"×.*weak .* \d+ +tentative +0\.\d\d$", asked)


def test_strong_operations_become_stable_in_the_majority_and_elsewhere_after_healing(
    story: str,
) -> None:
    majority, minority = rows(story, "withdraw ann 20"), rows(story, "withdraw ann 35")
    stable_there = next(line for line in majority if "stable" in line)
    stable_here = next(line for line in minority if "stable" in line)

    assert "×" in stable_there
    assert "×" in minority[0]
    assert "tentative" in minority[0]
    assert "×" not in stable_here
    assert int(stable_here.split()[0]) > 300


def test_the_answer_that_changed_is_owed_an_apology(story: str) -> None:
    final = rows(story, "withdraw ann 80")[-1]

    assert re.search(r"40 +✗ ann has 30, not 80 +apology due", final)
    assert "1 of 5 weak answers changed; 0 of 4 stable ones did" in story


def test_all_replicas_end_alike_and_every_checker_agrees(story: str) -> None:
    assert "✓ all 5 replicas ended with this order: ann has 35" in story
    assert "✓ 12 of 12 checkers say ok" in story


@pytest.mark.parametrize("seed", range(1, 20))
def test_it_is_the_same_story_with_any_seed(seed: int) -> None:
    run = build_fuzz_simulation(walkthrough_scenario(seed, DEFAULT_SCHEME)).run()
    finals = committed_operations(run.history)
    changed = [final.request.operation.arguments[1] for final in finals if final.changed]

    assert run.quiescence_failure is None
    assert changed == [80, 35]
    assert len(finals) == len(run.history.operations), "no no-op was needed"


def test_the_command_tells_it_in_plain_text_when_piped(
    capsys: pytest.CaptureFixture[str], story: str
) -> None:
    assert main(["simulate", "--story"]) == 0

    assert capsys.readouterr().out.rstrip("\n") == story
