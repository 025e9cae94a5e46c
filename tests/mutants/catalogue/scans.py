"""Mutants of the sorted keys, and so of scans.

They run `basic`, which sorts its keys in another way, and `creek`. Fuzzed runs have few keys and
few removals. Unit tests cover faults in the division of groups and in the deferred removal of keys.
"""

from tests.mutants.catalogue import Edit, Mutant

SORTED_KEYS = "execution/keys.py"


def _mutant(name: str, rule: str, seeds: int, *edits: Edit) -> Mutant:
    return Mutant(name, rule, seeds, edits, "differential")


MUTANTS: tuple[Mutant, ...] = (
    _mutant(
        "scan_returns_removed_key",
        "a scan skips removed keys",
        50,
        Edit(
            SORTED_KEYS,
            "return filterfalse(self._removed.__contains__, keys) if self._removed else keys",
            "return keys",
        ),
    ),
    _mutant(
        "scan_skips_restored_key",
        "a scan returns a key that was removed and added again",
        50,
        Edit(SORTED_KEYS, "            del self._removed[key]\n", "            pass\n"),
    ),
    _mutant(
        "scan_in_insertion_order",
        "keys are scanned in key order, independent of their insertion order",
        50,
        Edit(SORTED_KEYS, "        self._is_sorted[number] = False\n", ""),
    ),
    _mutant(
        "reverse_scan_ascends",
        "a reverse scan starts at the last key",
        50,
        Edit(
            SORTED_KEYS,
            "self._present(reversed(group) if reverse else group)",
            "self._present(group)",
        ),
    ),
)
