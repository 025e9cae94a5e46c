"""Deliberate faults of the version store, the scheduler and the scheme on top of them.

They are run with `basic` beside `creek`, so that the one can be held against the other. Some are
not listed, because no operation of the ready-made data types gets there, and are held by unit tests
instead: a blind addition to a text, values that are equal but for their type, and a sum that is
read inside a stretch. So are two that hundreds of seeds did not tell: an answer that stays held for
what it has overtaken on its way to `committed`, and one that is held for that later.
"""

from tests.mutants.catalogue import Edit, Mutant

CHAINS = "execution/mvcc/version_chain.py"
RANGES = "execution/mvcc/read_index.py"
READERSHIP = "execution/mvcc/read_index.py"
SNAPSHOTS = "execution/mvcc/snapshot.py"
VERSIONS = "execution/mvcc/version_store.py"
STRETCHES = "execution/mvcc/merged_runs.py"
UNSURE = "execution/mvcc/version_store.py"
SCHEDULER = "execution/mvcc/scheduler.py"
CREEK = "schemes/creek.py"
VERSIONED = "schemes/core/versioned.py"


def _mutant(name: str, rule: str, seeds: int, *edits: Edit, scheme: str = "both") -> Mutant:
    return Mutant(name, rule, seeds, edits, scheme)


MUTANTS: tuple[Mutant, ...] = (
    # --- snapshots: all and only what comes before ------------------------------------------------
    _mutant(
        "snapshot_of_everything",
        "Section 4.4: a snapshot includes only what appears before op",
        100,
        Edit(VERSIONED, "self._store.snapshot(entry.position)", "self._store.snapshot(TAIL)"),
        Edit(
            VERSIONED,
            "    NO_VERSIONS,\n    ExecutionPhase,\n",
            "    NO_VERSIONS,\n    TAIL,\n    ExecutionPhase,\n",
        ),
    ),
    _mutant(
        "collected_too_early",
        "Section 4.4: all versions of tentative requests are maintained",
        100,
        Edit(
            CHAINS,
            "            versions.append(version)\n            if last.readers",
            "            versions[:] = [version]\n            if last.readers",
        ),
    ),
    _mutant(
        "register_forgotten_with_its_readers",
        "who has looked at a register is remembered, also when it holds nothing",
        400,
        Edit(
            VERSIONS,
            "                contents.drop_if_absent(key)\n",
            (
                "                contents.drop_if_absent(key)\n"
                "                self._read_index.stable_readers.pop(key, None)\n"
            ),
        ),
        Edit(
            VERSIONS,
            "                contents.remove_chain(key, chain)\n",
            (
                "                contents.remove_chain(key, chain)\n"
                "                if key not in contents.registers:\n"
                "                    self._read_index.stable_readers.pop(key, None)\n"
            ),
        ),
    ),
    _mutant(
        "settled_version_forgets_its_readers",
        "who has read a version has read the ground, once it is settled",
        200,
        Edit(
            VERSIONS,
            "                self._read_index.transfer_readers(key, version)\n",
            "                pass\n",
        ),
    ),
    _mutant(
        "write_on_settled_ground_troubles_nobody",
        "who has read the ground, and comes after what is written on it, is in doubt",
        100,
        Edit(
            VERSIONS,
            "version\n            if fresh or of_ground.get(key, entry) is not entry:\n",
            "version\n            if False:\n",
        ),
    ),
    _mutant(
        "write_below_a_version_troubles_nobody",
        "who has read the ground, and has written on it, is in doubt when others write in between",
        100,
        Edit(
            VERSIONS,
            ("                self._suspect_second_writer(chain, key)\n            else:\n"),
            "            else:\n",
        ),
    ),
    _mutant(
        "move_below_a_version_troubles_nobody",
        "who has read the ground, and has written on it, is in doubt when others move in between",
        400,
        Edit(
            VERSIONS,
            (
                "                self._suspect_second_writer(chain, key)\n"
                "            self._suspect_stable_readers"
            ),
            "            self._suspect_stable_readers",
        ),
    ),
    # --- validity: what was read would be read again ----------------------------------------------
    _mutant(
        "installed_without_a_look",
        "Section 4.4: versions are added only after checking for conflicts",
        100,
        Edit(
            VERSIONS,
            "if not snapshot.is_valid_at(entry.position, entry.has_moved_ahead):",
            "if False:",
        ),
    ),
    _mutant(
        "changed_behind_its_back",
        "what was written while an operation ran is looked at again",
        100,
        Edit(
            VERSIONS,
            "        contents.record_change(versions)\n",
            "",
        ),
    ),
    _mutant(
        "withdrawn_behind_its_back",
        "what was rolled back while an operation ran is looked at again",
        200,
        Edit(
            VERSIONS,
            ("        contents.record_change(entry.versions)\n        hidden"),
            "        hidden_versions",
        ),
    ),
    _mutant(
        "settled_behind_its_back",
        "who has read what was settled while it ran, has read the ground",
        200,
        Edit(
            READERSHIP, "                entry.reads[key] = None, value\n", "                pass\n"
        ),
    ),
    _mutant(
        "phantom_at_completion",
        "a key that appeared in a scanned range while the operation ran is a conflict",
        400,
        Edit(
            SNAPSHOTS,
            "                    if read[1] is not ABSENT:\n                        return False",
            "                    pass",
        ),
    ),
    _mutant(
        "missed_phantom",
        "a key that is new in a scanned range is a change for everyone who scanned past it",
        100,
        Edit(VERSIONS, "if readership.scanned_ranges:", "if False:"),
    ),
    _mutant(
        "phantom_near_by",
        "a new key is held against every range around it",
        200,
        Edit(RANGES, "for length in range(len(here) + 1):", "for length in range(2):"),
    ),
    _mutant(
        "backward_scan_reads_no_range",
        "a scan in reverse has read what it went through",
        400,
        Edit(SNAPSHOTS, "passed.start = here", "pass"),
    ),
    _mutant(
        "lost_reader_registration",
        "a version knows who has read it",
        100,
        Edit(READERSHIP, "                version.readers = entry\n", "                pass\n"),
    ),
    _mutant(
        "reader_lost_when_its_read_is_renewed",
        "who reads an equal value elsewhere now is a reader of that version",
        300,
        Edit(
            VERSIONS,
            "                self._read_index.record_read(entry, key, version, value)\n",
            "                entry.reads[key] = version, value\n",
        ),
    ),
    _mutant(
        "late_version_troubles_nobody",
        "who read the version before a new one, and comes after it, is in doubt",
        100,
        Edit(
            CHAINS,
            (
                "            self._suspect_readers(versions[index - 1], position, doubts)\n"
                "        self._suspect_deltas(index + 1, doubts)"
            ),
            ("            pass\n        self._suspect_deltas(index_of + 1, doubts)"),
        ),
    ),
    # --- rollbacks ------------------------------------------------------------------------------
    _mutant(
        "withdrawn_version_stays",
        "Section 4.4: versions of a rolled back request are in no later snapshot",
        100,
        Edit(
            VERSIONS,
            ("            if chain.remove(version, self._suspect_reads):\n                hidden"),
            ("            if version.readers_at is not None:\n                hidden_versions"),
        ),
    ),
    _mutant(
        "readers_of_the_hidden_forgotten",
        "who read a version that did not come back the same is withdrawn",
        100,
        Edit(
            VERSIONS,
            (
                "            for reader in readers_after(version.readers, key, version, ()):\n"
                "                self._suspect_reads.append((reader, key))\n"
            ),
            "            pass\n",
        ),
    ),
    _mutant(
        "answers_from_behind_the_unsure",
        "no answer leaves that rests on what was withdrawn and may come back otherwise",
        300,
        Edit(
            UNSURE,
            "                        return writer\n",
            "                        continue\n",
        ),
    ),
    # --- moves ------------------------------------------------------------------------------------
    _mutant(
        "jump_taken_for_a_name",
        "who is committed before what stays tentative has to be looked at",
        100,
        Edit(
            CREEK,
            "all_in_order = stays is None or _is_before(moved[-1], stays)",
            "all_in_order = True",
        ),
    ),
    _mutant(
        "jump_within_an_instance_taken_for_a_name",
        "so has who is delivered before one of the same instance that stood before it",
        200,
        Edit(
            CREEK,
            "if self._newly_committed and _is_before(moved[0], self._newly_committed[-1]):",
            "if False:",
        ),
    ),
    _mutant(
        "overtaken_one_is_not_told_of",
        "it stands before them until it has its own place",
        200,
        Edit(
            CREEK,
            "if overtaken is not None and (stays is None or _is_before(overtaken, stays)):",
            "if False:",
        ),
    ),
    _mutant(
        "stale_version_after_a_move",
        "a version stands where its writer stands",
        100,
        Edit(CHAINS, "        if new != old:\n", "        if False:\n"),
    ),
    _mutant(
        "reads_kept_after_a_move",
        "who moves has to read again",
        200,
        Edit(
            VERSIONS,
            (
                "                self._suspect_reads.append((entry, key))\n"
                "        for key in entry.versions"
            ),
            "                pass\n        for key in entry.versions",
        ),
    ),
    _mutant(
        "former_readers_kept_after_a_move",
        "who read a version that moved, and who now comes after it, is in doubt",
        200,
        Edit(
            CHAINS,
            "            self._suspect_readers(versions[new - 1], position, doubts)\n",
            "            pass\n",
        ),
        Edit(
            VERSIONS,
            (
                "                self._suspect_second_writer(chain, key)\n"
                "            self._suspect_stable_readers(key, position, fresh)\n"
            ),
            "",
        ),
    ),
    # --- additions that nobody looked at ----------------------------------------------------------
    _mutant(
        "sum_not_renewed",
        "a sum stands on what comes before it now",
        400,
        Edit(CHAINS, "            versions[index].running_total = None\n", ""),
    ),
    _mutant(
        "sum_read_and_kept",
        "who read a sum is in doubt when a part of it changes",
        400,
        Edit(
            CHAINS,
            (
                "            self._suspect_readers(versions[index], (), doubts)\n"
                "            index += 1"
            ),
            "            index_of += 1",
        ),
    ),
    _mutant(
        "amount_taken_for_a_sum",
        "an addition that is settled leaves the sum",
        100,
        Edit(
            CHAINS,
            (
                "            _resolve_delta(version, self._total_at(index))\n"
                "        self.stable_value"
            ),
            ("            version.is_delta = False\n        self.stable_value"),
        ),
    ),
    # --- stretches --------------------------------------------------------------------------------
    _mutant(
        "late_request_inside_a_stretch",
        "what a stretch wrote cannot be read or written in its midst",
        300,
        Edit(
            VERSIONS,
            ("                self.split(stretch)\n                return False\n"),
            "                pass\n",
        ),
    ),
    _mutant(
        "stretch_has_read_nothing",
        "a stretch has read what its members read from before it",
        200,
        Edit(STRETCHES, "            self._absorb_reads(entry, stretch, inside)\n", ""),
    ),
    _mutant(
        "stretch_has_scanned_nothing",
        "a stretch has scanned what its members scanned",
        600,
        Edit(
            STRETCHES,
            "        self._read_index.add_ranges(stretch, ranges)\n",
            "",
        ),
    ),
    _mutant(
        "stretch_adds_its_last_amount",
        "a stretch adds what all of its members added",
        400,
        Edit(
            CHAINS,
            "last.value = sum(version.value for version in versions[begin : end + 1])",
            "pass",
        ),
    ),
    _mutant(
        "stretch_taken_apart_and_gone",
        "who read what a stretch left is looked at when its members are executed again",
        300,
        Edit(
            CREEK,
            ("            self._store.finish_split(stretch)\n            self._handle_rollbacks()"),
            "            self._handle_rollbacks()",
        ),
    ),
    # --- answers ----------------------------------------------------------------------------------
    _mutant(
        "stable_before_it_is_executed",
        "a stable answer leaves when everything before it is executed",
        100,
        Edit(
            VERSIONED,
            ("            if entry.is_executed:\n                self._respond_stable"),
            ("            if entry.outcome is not None:\n                self._respond_stable"),
        ),
    ),
    _mutant(
        "stable_before_a_write_is_executed",
        "a stable answer waits for everything before it, but for what only reads",
        300,
        Edit(VERSIONED, "elif request.operation.name not in self._readonly:", "elif False:"),
    ),
    _mutant(
        "session_does_not_see_itself",
        "a session's own earlier operations are visible to it",
        300,
        Edit(
            SCHEDULER,
            "if after is not None and not after.is_executed and after.position < entry.position:",
            "if False:",
        ),
        Edit(CREEK, "        if not before.is_executed:\n", "        if False:\n"),
    ),
    _mutant(
        "session_overtaken_by_itself",
        "an answer waits for what its session did before to be executed again",
        300,
        Edit(CREEK, "        if not before.is_executed:\n", "        if False:\n"),
    ),
    _mutant(
        "held_answer_of_a_withdrawn_execution",
        "an answer that was held back is forgotten when its request is withdrawn",
        300,
        Edit(
            CREEK,
            (
                "    def _count_rolled_back(self, entry: RequestEntry) -> None:\n"
                "        self._blocker_of.pop(entry, None)\n"
            ),
            "    def _count_rolled_back(self, entry: RequestEntry) -> None:\n",
        ),
    ),
)
