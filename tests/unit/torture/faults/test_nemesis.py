"""Faults that the nemesis can inject."""

from creekdb.torture.faults.nemesis import Nemesis
from creekdb.torture.faults.plan import DECK


def test_every_fault_of_the_deck_has_an_injection() -> None:
    assert set(Nemesis._injections) == set(DECK)
