"""Mutants of the version store, the scheduler and the `creek` scheme.

They run `basic` and `creek`, so that both can be compared. Unit tests cover some mutants that
are not listed. No operation of the built-in data types reaches these three:

- a blind addition to a text,
- values that differ only in their type,
- a total that is read inside a merged run.

Hundreds of seeds missed two more, in which a request overtakes another one on its way to
`committed`. Its response stays blocked by the other request, or becomes blocked by it later.
"""

from tests.mutants.catalogue import Edit, Mutant

VERSION_CHAIN = "execution/mvcc/version_chain.py"
READ_INDEX = "execution/mvcc/read_index.py"
SNAPSHOT = "execution/mvcc/snapshot.py"
VERSION_STORE = "execution/mvcc/version_store.py"
MERGED_RUNS = "execution/mvcc/merged_runs.py"
SCHEDULER = "execution/mvcc/scheduler.py"
CREEK = "schemes/creek.py"
RUN_MERGING = "schemes/core/run_merging.py"
TENTATIVE_RESPONSES = "schemes/core/tentative_responses.py"
VERSIONED = "schemes/core/versioned.py"


def _mutant(name: str, rule: str, seeds: int, *edits: Edit, scheme: str = "differential") -> Mutant:
    return Mutant(name, rule, seeds, edits, scheme)


MUTANTS: tuple[Mutant, ...] = (
    # --- snapshots: exactly the effects of preceding requests -------------------------------------
    _mutant(
        "snapshot_includes_later_writes",
        "Section 4.4: a snapshot includes only the effects of requests before op",
        100,
        Edit(VERSIONED, "self.store.snapshot(entry.position)", "self.store.snapshot(END_POSITION)"),
        Edit(
            VERSIONED,
            "    NO_VERSIONS,\n    ExecutionPhase,\n",
            "    END_POSITION,\n    NO_VERSIONS,\n    ExecutionPhase,\n",
        ),
    ),
    _mutant(
        "discards_versions_of_tentative_requests",
        "Section 4.4: all versions of tentative requests are maintained",
        100,
        Edit(
            VERSION_CHAIN,
            "            versions.append(version)\n            if last.readers",
            "            versions[:] = [version]\n            if last.readers",
        ),
    ),
    _mutant(
        "drops_readers_of_absent_register",
        "the readers of a register stay recorded while it is absent",
        400,
        Edit(
            VERSION_STORE,
            "                table.drop_if_absent(key)\n",
            (
                "                table.drop_if_absent(key)\n"
                "                self._read_index.stable_readers.pop(key, None)\n"
            ),
        ),
        Edit(
            VERSION_STORE,
            "                table.remove_chain(key, chain)\n",
            (
                "                table.remove_chain(key, chain)\n"
                "                if key not in table.registers:\n"
                "                    self._read_index.stable_readers.pop(key, None)\n"
            ),
        ),
    ),
    _mutant(
        "drops_readers_of_stable_version",
        "readers of a version become readers of the stable value with it",
        200,
        Edit(
            VERSION_STORE,
            "                self._read_index.transfer_readers(key, version)\n",
            "                pass\n",
        ),
    ),
    _mutant(
        "write_ignores_readers_of_stable_value",
        "readers of the stable value are validated again if a version is written before them",
        100,
        Edit(
            VERSION_STORE,
            "version\n            if recent or stable_readers.get(key, entry) is not entry:\n",
            "version\n            if False:\n",
        ),
    ),
    _mutant(
        "write_below_version_ignores_its_writer",
        "a writer that read the stable value is validated again after a write in between",
        100,
        Edit(
            VERSION_STORE,
            ("                self._suspect_second_writer(chain, key)\n            else:\n"),
            "            else:\n",
        ),
    ),
    _mutant(
        "move_below_version_ignores_its_writer",
        "a writer that read the stable value is validated again after a move in between",
        400,
        Edit(
            VERSION_STORE,
            (
                "                self._suspect_second_writer(chain, key)\n"
                "            self._suspect_stable_readers"
            ),
            "            self._suspect_stable_readers",
        ),
    ),
    # --- validity: repeated reads give the same values --------------------------------------------
    _mutant(
        "installs_without_validation",
        "Section 4.4: versions are added only after checking for conflicts",
        100,
        Edit(
            VERSION_STORE,
            "if not snapshot.is_valid_at(entry.position, entry.has_moved_ahead):",
            "if False:",
        ),
    ),
    _mutant(
        "ignores_writes_during_execution",
        "an execution is validated against versions written during it",
        100,
        Edit(
            VERSION_STORE,
            "        table.record_change(versions)\n",
            "",
        ),
    ),
    _mutant(
        "ignores_rollbacks_during_execution",
        "an execution is validated against versions rolled back during it",
        200,
        Edit(
            VERSION_STORE,
            ("        table.record_change(entry.versions)\n        hidden"),
            "        hidden",
        ),
    ),
    _mutant(
        "ignores_stabilisation_during_execution",
        "a version read by an execution and stabilised during it counts as the stable value",
        200,
        Edit(
            READ_INDEX, "                entry.reads[key] = None, value\n", "                pass\n"
        ),
    ),
    _mutant(
        "ignores_phantoms_during_execution",
        "a key inserted into a scanned range during the execution is a conflict",
        400,
        Edit(
            SNAPSHOT,
            "                    if read[1] is not ABSENT:\n                        return False",
            "                    pass",
        ),
    ),
    _mutant(
        "ignores_phantoms_after_execution",
        "a new key in a scanned range is a change for every scan that passed it",
        100,
        Edit(VERSION_STORE, "if read_index.scanned_ranges:", "if False:"),
    ),
    _mutant(
        "checks_phantoms_in_short_prefixes_only",
        "a new key is checked against every range that contains it",
        200,
        Edit(READ_INDEX, "for length in range(len(collation) + 1):", "for length in range(2):"),
    ),
    _mutant(
        "reverse_scan_records_no_range",
        "a reverse scan records the range that it passed",
        400,
        Edit(SNAPSHOT, "scanned.start = current", "pass"),
    ),
    _mutant(
        "records_no_readers",
        "a version records its readers",
        100,
        Edit(READ_INDEX, "                version.readers = entry\n", "                pass\n"),
    ),
    _mutant(
        "loses_reader_of_equal_value",
        "an entry that reads an equal value from another version becomes a reader of that version",
        300,
        Edit(
            VERSION_STORE,
            "                self._read_index.record_read(entry, key, version, value)\n",
            "                entry.reads[key] = version, value\n",
        ),
    ),
    _mutant(
        "late_version_ignores_readers",
        "readers of the preceding version are validated again if a version is inserted before them",
        100,
        Edit(
            VERSION_CHAIN,
            (
                "            self._suspect_readers(versions[index - 1], position, suspects)\n"
                "        self._suspect_deltas(index + 1, suspects)"
            ),
            ("            pass\n        self._suspect_deltas(index + 1, suspects)"),
        ),
    ),
    # --- rollbacks ------------------------------------------------------------------------------
    _mutant(
        "keeps_rolled_back_version",
        "Section 4.4: versions of a rolled-back request are in no later snapshot",
        100,
        Edit(
            VERSION_STORE,
            ("            if chain.remove(version, self._suspect_reads):\n                hidden"),
            ("            if version.readers is not None:\n                hidden"),
        ),
    ),
    _mutant(
        "ignores_readers_of_hidden_version",
        "readers of a hidden version are rolled back unless the re-execution writes the same value",
        100,
        Edit(
            VERSION_STORE,
            (
                "            for reader in readers_after(version.readers, key, version, ()):\n"
                "                self._suspect_reads.append((reader, key))\n"
            ),
            "            pass\n",
        ),
    ),
    _mutant(
        "responds_despite_pending_rollback",
        "no response depends on a rolled-back request that awaits re-execution",
        300,
        Edit(
            VERSION_STORE,
            "                        return writer\n",
            "                        continue\n",
        ),
    ),
    # --- moves ------------------------------------------------------------------------------------
    _mutant(
        "renumbers_request_that_overtakes_tentative",
        "a request committed ahead of one that stays tentative is validated again",
        100,
        Edit(
            CREEK,
            "all_in_order = barrier is None or _is_before(moved[-1], barrier)",
            "all_in_order = True",
        ),
    ),
    _mutant(
        "renumbers_request_that_overtakes_within_instance",
        "a request delivered ahead of an earlier one of its instance is validated again",
        200,
        Edit(
            CREEK,
            "if self._newly_committed and _is_before(moved[0], self._newly_committed[-1]):",
            "if False:",
        ),
    ),
    _mutant(
        "ignores_overtaken_request",
        "an overtaken request precedes the overtaking ones until it is committed",
        200,
        Edit(
            CREEK,
            "if overtaken is not None and (barrier is None or _is_before(overtaken, barrier)):",
            "if False:",
        ),
    ),
    _mutant(
        "leaves_version_at_old_position",
        "a version has the position of its writer",
        100,
        Edit(VERSION_CHAIN, "        if new_index != old_index:\n", "        if False:\n"),
    ),
    _mutant(
        "skips_validation_after_move",
        "the reads of a moved entry are validated again",
        200,
        Edit(
            VERSION_STORE,
            (
                "                self._suspect_reads.append((entry, key))\n"
                "        for key in entry.versions"
            ),
            "                pass\n        for key in entry.versions",
        ),
    ),
    _mutant(
        "ignores_readers_after_move",
        "readers of a moved version, and readers that now follow it, are validated again",
        200,
        Edit(
            VERSION_CHAIN,
            "            self._suspect_readers(versions[new_index - 1], position, suspects)\n",
            "            pass\n",
        ),
        Edit(
            VERSION_STORE,
            (
                "                self._suspect_second_writer(chain, key)\n"
                "            self._suspect_stable_readers(key, position, recent)\n"
            ),
            "",
        ),
    ),
    # --- blind additions --------------------------------------------------------------------------
    _mutant(
        "keeps_stale_running_total",
        "a running total is recomputed when a preceding version changes",
        400,
        Edit(VERSION_CHAIN, "            versions[index].running_total = None\n", ""),
    ),
    _mutant(
        "ignores_readers_of_changed_total",
        "readers of a total are validated again when one of its parts changes",
        400,
        Edit(
            VERSION_CHAIN,
            (
                "            self._suspect_readers(versions[index], (), suspects)\n"
                "            index += 1"
            ),
            "            index += 1",
        ),
    ),
    _mutant(
        "stabilises_delta_as_value",
        "a stable addition is resolved to its total",
        100,
        Edit(
            VERSION_CHAIN,
            (
                "            _resolve_delta(version, self._total_at(index))\n"
                "        self.stable_value"
            ),
            ("            version.is_delta = False\n        self.stable_value"),
        ),
    ),
    # --- merged runs ------------------------------------------------------------------------------
    _mutant(
        "executes_inside_merged_run",
        "registers that a merged run wrote are neither read nor written inside it",
        300,
        Edit(
            VERSION_STORE,
            ("                self.split(run)\n                return False\n"),
            "                pass\n",
        ),
    ),
    _mutant(
        "merged_run_omits_reads",
        "a merged run has the external reads of its entries",
        200,
        Edit(MERGED_RUNS, "            self._absorb_reads(entry, run, member_set)\n", ""),
    ),
    _mutant(
        "merged_run_omits_scans",
        "a merged run has the scanned ranges of its entries",
        600,
        Edit(
            MERGED_RUNS,
            "        self._read_index.add_ranges(run, ranges)\n",
            "",
        ),
    ),
    _mutant(
        "merged_run_omits_additions",
        "a merged run adds the sum of its entries' additions",
        400,
        Edit(
            VERSION_CHAIN,
            "last.value = sum(version.value for version in versions[begin : end + 1])",
            "pass",
        ),
    ),
    _mutant(
        "split_run_ignores_its_readers",
        "readers of a split run are validated again after its entries are executed",
        300,
        Edit(
            RUN_MERGING,
            "            if not run.pending_entries:\n                self._finish_split(run)\n",
            (
                "            if not run.pending_entries:\n"
                "                self.reschedule_rolled_back()\n"
                "                self._tentative_responses.respond_blocked_by(run)\n"
            ),
        ),
    ),
    # --- responses --------------------------------------------------------------------------------
    _mutant(
        "stable_response_before_reexecution",
        "a stable response waits for the execution of its request and its predecessors",
        100,
        Edit(
            VERSIONED,
            ("            if entry.is_executed:\n                self._respond_stable"),
            ("            if entry.outcome is not None:\n                self._respond_stable"),
        ),
    ),
    _mutant(
        "stable_response_before_preceding_write",
        "a stable response waits for every preceding request that may write",
        300,
        Edit(
            VERSIONED,
            "elif request.operation.name not in self.readonly or entry.merged_run is not None:",
            "elif False:",
        ),
    ),
    _mutant(
        "session_misses_its_own_writes",
        "a session's earlier operations are visible to it",
        300,
        Edit(
            SCHEDULER,
            "if prior is not None and not prior.is_executed and prior.position < entry.position:",
            "if False:",
        ),
        Edit(
            TENTATIVE_RESPONSES, "        if not predecessor.is_executed:\n", "        if False:\n"
        ),
    ),
    _mutant(
        "responds_before_session_predecessor",
        "a response waits for the re-execution of its session's earlier requests",
        300,
        Edit(
            TENTATIVE_RESPONSES, "        if not predecessor.is_executed:\n", "        if False:\n"
        ),
    ),
    _mutant(
        "sends_blocked_response_after_rollback",
        "a blocked response is discarded when its request is rolled back",
        300,
        Edit(
            TENTATIVE_RESPONSES,
            ("        self.blocker_of.pop(entry, None)\n        if entry.session is not None:\n"),
            "        if entry.session is not None:\n",
        ),
    ),
)
