"""Deliberate faults of the keys that stand in order, and so of what scans come upon.

They are run with `basic` beside `creek`, which has its keys in order in another way. Fuzzed runs
have few keys, and remove few at once: what goes wrong only where groups are divided, or a key is
taken out of one at last, is held by unit tests.
"""

from tests.mutants.catalogue import Edit, Mutant

SORTED_KEYS = "execution/keys.py"


def _mutant(name: str, rule: str, seeds: int, *edits: Edit) -> Mutant:
    return Mutant(name, rule, seeds, edits, "both")


MUTANTS: tuple[Mutant, ...] = (
    _mutant(
        "key_not_passed_over",
        "a key that was removed is passed over",
        50,
        Edit(
            SORTED_KEYS,
            "return filterfalse(self._removed.__contains__, keys) if self._removed else keys",
            "return keys",
        ),
    ),
    _mutant(
        "key_back_and_passed_over",
        "a key that was removed and is added again is there",
        50,
        Edit(SORTED_KEYS, "            del self._removed[key]\n", "            pass\n"),
    ),
    _mutant(
        "new_key_stays_last",
        "keys are gone through in their order, whenever they came",
        50,
        Edit(SORTED_KEYS, "        self._is_sorted[number] = False\n", ""),
    ),
    _mutant(
        "reverse_scan_goes_forward",
        "a scan in reverse begins with the last key",
        50,
        Edit(
            SORTED_KEYS,
            "self._present(reversed(group) if reverse else group)",
            "self._present(group)",
        ),
    ),
)
