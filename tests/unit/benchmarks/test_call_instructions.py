"""Output of callgrind."""

from benchmarks.call_instructions import read_profile

OUTPUT = """\
version: 1
positions: line
events: Ir
summary: 100

fl=(1) main.c
fn=(1) main
16 20
cfn=(2) helper
calls=2 3
17 50
+1 5

fn=(2)
3 40
fi=(2) inlined.h
* 10
cfn=(3) CPyDef_leaf
calls=1 9
4 25

fn=(3)
9 25
totals: 150
"""


def test_costs_of_calls_count_for_the_caller_only_inclusively() -> None:
    profile = read_profile(OUTPUT.splitlines(keepends=True))

    assert profile.own == {"main": 25, "helper": 50, "CPyDef_leaf": 25}
    assert profile.inclusive == {"main": 75, "helper": 75, "CPyDef_leaf": 25}
    assert profile.total == 100


def test_the_difference_belongs_to_the_additional_calls() -> None:
    shorter = read_profile(OUTPUT.splitlines(keepends=True))
    longer = read_profile(OUTPUT.replace("3 40", "3 70").splitlines(keepends=True))

    assert longer.minus(shorter).own["helper"] == 30
    assert longer.minus(shorter).total == 30
