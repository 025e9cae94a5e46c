"""Mutants of injected faults, in the simulator and in real processes.

A fault that is weaker than it claims lets every run pass, so tests must detect it.
"""

from tests.mutants.catalogue import MutantWithTests, tested

FAULT_TYPES = "simulation/faults/fault_types.py"
INJECTOR = "simulation/faults/injector.py"
INJECTOR_TESTS = "tests/unit/simulation/faults/test_injector.py"
LINKS = "torture/faults/links.py"
LINK_TESTS = "tests/unit/torture/faults/test_links.py"
DISK_FAULTS = "torture/faults/disk_faults.py"
DISK_FAULT_TESTS = "tests/unit/torture/faults/test_disk_faults.py"
CONTROL = "torture/faults/replica_control.py"
CONTROL_TESTS = "tests/unit/torture/faults/test_replica_control.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    # --- simulated faults -------------------------------------------------------------------------
    tested(
        "slow_disk_is_not_slow",
        "a slow disk delays every sync",
        INJECTOR_TESTS,
        FAULT_TYPES,
        '"extra_fsync_us", self.by_us',
        '"extra_fsync_us", 0',
    ),
    tested(
        "failing_disk_does_not_fail",
        "writes to a failing disk fail",
        INJECTOR_TESTS,
        FAULT_TYPES,
        '"failing", 1)',
        '"failing", 0)',
    ),
    tested(
        "severed_link_heals",
        "a severed link never heals",
        INJECTOR_TESTS,
        FAULT_TYPES,
        "network.sever(",
        "network.cut(",
    ),
    tested(
        "corruption_flips_no_bits",
        "corruption flips bits if the entry says so",
        INJECTOR_TESTS,
        FAULT_TYPES,
        "can_flip_bits = self.flips",
        "can_flip_bits = False",
    ),
    tested(
        "reordering_keeps_the_order",
        "reordering delays messages by up to the stated time",
        INJECTOR_TESTS,
        FAULT_TYPES,
        "reordering_us = self.by_us",
        "reordering_us = 0",
    ),
    tested(
        "mildest_of_overlapping_faults_applies",
        "the worst of overlapping faults applies",
        INJECTOR_TESTS,
        INJECTOR,
        "max(self.active",
        "min(self.active",
    ),
    # --- faults of real processes -----------------------------------------------------------------
    tested(
        "silent_cut_keeps_open_connections",
        "a silent cut delays the bytes of open connections",
        LINK_TESTS,
        LINKS,
        "            await self._is_open.wait()\n            if self._delay_s:",
        "            if self._delay_s:",
    ),
    tested(
        "reset_follows_a_whole_chunk",
        "a resetting link breaks within a frame",
        LINK_TESTS,
        LINKS,
        "chunk[: len(chunk) // 2]",
        "chunk",
    ),
    tested(
        "cut_link_accepts_connections",
        "a cut link refuses new connections",
        LINK_TESTS,
        LINKS,
        "            self._is_refusing = True\n",
        "",
    ),
    tested(
        "slow_link_is_not_slow",
        "a slow link delays every chunk",
        LINK_TESTS,
        LINKS,
        "sleep(self._delay_s)",
        "sleep(0)",
    ),
    tested(
        "torn_write_writes_nothing",
        "a torn write leaves the first half of a group",
        DISK_FAULT_TESTS,
        DISK_FAULTS,
        "group[: len(group) // 2]",
        "group[:0]",
    ),
    tested(
        "full_disk_has_space",
        "a full disk accepts no byte",
        DISK_FAULT_TESTS,
        DISK_FAULTS,
        "(0, resource.RLIM_INFINITY)",
        "(2**30, resource.RLIM_INFINITY)",
    ),
    tested(
        "flipped_byte_is_the_last_one",
        "a flipped byte precedes valid records",
        DISK_FAULT_TESTS,
        DISK_FAULTS,
        "data[SEGMENT_HEADER_BYTES + 40]",
        "data[-1]",
    ),
    tested(
        "slow_sync_lasts_nanoseconds",
        "the delay of a sync is in microseconds",
        CONTROL_TESTS,
        CONTROL,
        "/ 1e6",
        "/ 1e9",
    ),
    tested(
        "clock_steps_by_nanoseconds",
        "a step of the clock is in microseconds",
        CONTROL_TESTS,
        CONTROL,
        "+ 1000 * control",
        "+ control",
    ),
)
