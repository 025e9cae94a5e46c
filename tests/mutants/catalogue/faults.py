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
NEMESIS = "torture/faults/nemesis.py"
NEMESIS_TESTS = "tests/unit/torture/faults/test_nemesis.py"

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
    # --- nemesis ----------------------------------------------------------------------------------
    tested(
        "nemesis_kills_no_replica",
        "a killed replica ends",
        NEMESIS_TESTS,
        NEMESIS,
        "self._processes.kill(*(each for each in replicas if",
        "self._processes.kill(*(each for each in () if",
    ),
    tested(
        "nemesis_claims_no_target",
        "no other fault heals a replica early",
        NEMESIS_TESTS,
        NEMESIS,
        "        self._claimed.update(replicas)\n",
        "        pass\n",
    ),
    tested(
        "nemesis_never_releases_a_target",
        "a healed replica is a target again",
        NEMESIS_TESTS,
        NEMESIS,
        "        finally:\n            self._claimed.difference_update(replicas)\n",
        "        finally:\n            pass\n",
    ),
    tested(
        "nemesis_spares_the_leader",
        "the leader is killed",
        NEMESIS_TESTS,
        NEMESIS,
        'leader = status and status["leader"]',
        "leader = None",
    ),
    tested(
        "nemesis_pauses_no_replica",
        "a paused replica does not run",
        NEMESIS_TESTS,
        NEMESIS,
        "            self._processes.freeze(victim)\n",
        "            pass\n",
    ),
    tested(
        "nemesis_cuts_the_other_direction",
        "a one-way cut has the reported direction",
        NEMESIS_TESTS,
        NEMESIS,
        "self._links.cut(sender, receiver, silently)",
        "self._links.cut(receiver, sender, silently)",
    ),
    tested(
        "nemesis_heals_no_links",
        "a fault of links is healed",
        NEMESIS_TESTS,
        NEMESIS,
        "            finally:\n                self._links.heal()\n\n    def _draw_side",
        "            finally:\n                pass\n\n    def _draw_side",
    ),
    tested(
        "nemesis_overlaps_faults_of_links",
        "faults of links share one claim",
        NEMESIS_TESTS,
        NEMESIS,
        "        async with self._link_claim:\n            if",
        "        async with asyncio.Lock():\n            if",
    ),
    tested(
        "nemesis_lets_writes_succeed",
        "writes to a failing disk fail",
        NEMESIS_TESTS,
        NEMESIS,
        "        disk_faults.fail_writes(process)\n",
        "        pass\n",
    ),
    tested(
        "nemesis_never_ends_a_simulated_fault",
        "a clock is set back after a step",
        NEMESIS_TESTS,
        NEMESIS,
        "                self._control(victim, ReplicaControl())\n",
        "                pass\n",
    ),
    tested(
        "nemesis_restarts_without_stopping",
        "every replica restarts in turn",
        NEMESIS_TESTS,
        NEMESIS,
        "                await self._stop(replica)\n",
        "                pass\n",
    ),
    tested(
        "nemesis_accepts_any_exit_code",
        "a stopped replica exits cleanly",
        NEMESIS_TESTS,
        NEMESIS,
        "if code not in STOPPED_CODES:",
        "if code is None:",
    ),
)
