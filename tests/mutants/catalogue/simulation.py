"""Mutants of the simulator: models of time, network, disk, cores and clients, and fault entries.

A fault that is weaker than it claims lets the fuzzer pass, so tests of the models must detect it.
"""

from tests.mutants.catalogue import MutantWithTests, tested

NETWORK = "simulation/models/network.py"
NETWORK_TESTS = "tests/unit/simulation/models/test_network.py"
DISK = "simulation/models/disk.py"
DISK_TESTS = "tests/unit/simulation/models/test_disk.py"
CPU = "simulation/models/cpu.py"
CPU_TESTS = "tests/unit/simulation/models/test_cpu.py"
CLIENTS = "simulation/models/clients.py"
CLIENT_TESTS = "tests/unit/simulation/models/test_clients.py"
TIME = "simulation/kernel/simulated_time.py"
TIME_TESTS = (
    "tests/unit/simulation/kernel/test_simulated_time.py",
    "tests/unit/simulation/kernel/test_simulated_time_clock.py",
)
FIELDS = "simulation/faults/fields.py"
LANGUAGE = "simulation/faults/language.py"
FAULT_TESTS = "tests/unit/simulation/faults/test_fault_types.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    tested(
        "network_heals_severed_links",
        "a severed link never heals",
        NETWORK_TESTS,
        NETWORK,
        "        self._cuts.clear()\n",
        "        self._cuts.clear()\n        self._severed.clear()\n",
    ),
    tested(
        "network_cuts_both_directions",
        "a cut blocks one direction",
        NETWORK_TESTS,
        NETWORK,
        "            self.blocked[sender * self._replicas + receiver] = True",
        "            self.blocked[sender * self._replicas + receiver] = True\n"
        "            self.blocked[receiver * self._replicas + sender] = True",
    ),
    tested(
        "network_delivers_after_a_lost_disk",
        "messages in flight are lost with the disk of their receiver",
        NETWORK_TESTS,
        NETWORK,
        "            or disk_losses < self._last_disk_loss[receiver]\n",
        "",
    ),
    tested(
        "network_reorders_without_noise",
        "messages of a pair arrive in order",
        NETWORK_TESTS,
        NETWORK,
        "max(leaves_ns // 1000 + self._delay_us(pair), self._last_arrival_us[pair])",
        "leaves_ns // 1000 + self._delay_us(pair)",
    ),
    tested(
        "network_has_infinite_bandwidth",
        "a message occupies the link of its sender",
        NETWORK_TESTS,
        NETWORK,
        "            leaves_ns += transfer_ns\n",
        "",
    ),
    tested(
        "network_partition_admits_unnamed_replicas",
        "replicas that a partition does not name form one group",
        NETWORK_TESTS,
        NETWORK,
        "            sender_group != receiver_group\n",
        "            sender_group != receiver_group and receiver_group >= 0\n",
    ),
    tested(
        "disk_keeps_all_records_in_a_crash",
        "a crash may lose records that are not durable",
        DISK_TESTS,
        DISK,
        "survivors = self._random.randint(0, pending) if pending else 0",
        "survivors = pending",
    ),
    tested(
        "disk_loses_durable_records",
        "a crash keeps durable records",
        DISK_TESTS,
        DISK,
        "            del self._log[self.durable_position + survivors - self._dropped :]",
        "            del self._log[max(0, self.durable_position - 1 - self._dropped) :]",
    ),
    tested(
        "disk_fails_without_notice",
        "a failed write is reported",
        DISK_TESTS,
        DISK,
        "            self._on_failure()\n",
        "",
    ),
    tested(
        "disk_is_erased_partially",
        "an erased disk has no records",
        DISK_TESTS,
        DISK,
        "self._dropped, self._log = self.end_position, []",
        "self._dropped, self._log = self.end_position - 1, self._log[-1:]",
    ),
    tested(
        "cpu_ignores_a_slowdown",
        "a slow replica executes longer",
        CPU_TESTS,
        CPU,
        "int(self._cost(task, execution) * self.slowdown_factor)",
        "int(self._cost(task, execution))",
    ),
    tested(
        "cpu_finishes_tasks_after_a_crash",
        "a crash drops running tasks",
        CPU_TESTS,
        CPU,
        "        if epoch != self._epoch:\n            return\n",
        "",
    ),
    tested(
        "cpu_has_one_core_more",
        "tasks wait for a free core",
        CPU_TESTS,
        CPU,
        "self._cores = self._free_cores = cores",
        "self._cores = self._free_cores = cores + 1",
    ),
    tested(
        "cpu_does_not_count_rollbacks",
        "a rollback takes CPU time",
        CPU_TESTS,
        CPU,
        "self.busy_us += duration_us",
        "self.busy_us += duration_us if task.kind is TaskKind.EXECUTE else 0",
    ),
    tested(
        "clients_ignore_the_limit_of_a_session",
        "a session issues a limited number of operations",
        CLIENT_TESTS,
        CLIENTS,
        "if limit and session.issued_calls == limit:",
        "if limit and session.issued_calls > limit:",
    ),
    tested(
        "clients_wait_for_the_tentative_response_only",
        "a strong call ends with its stable response",
        CLIENT_TESTS,
        CLIENTS,
        "kind = ResponseKind.STABLE if strong and not tentative_only else ResponseKind.TENTATIVE",
        "kind = ResponseKind.TENTATIVE",
    ),
    tested(
        "clients_have_infinite_patience",
        "a call times out after the patience of its client",
        CLIENT_TESTS,
        CLIENTS,
        "if session.issued_calls == call_number and session.awaited_kind is not None:",
        "if session.issued_calls < call_number and session.awaited_kind is not None:",
    ),
    tested(
        "events_of_one_instant_run_in_reverse",
        "events of one instant run in the order in which they were scheduled",
        TIME_TESTS,
        TIME,
        "handle: EventHandle = [time_us, self._sequence, callback, arguments]",
        "handle: EventHandle = [time_us, -self._sequence, callback, arguments]",
    ),
    tested(
        "clock_does_not_drift",
        "a clock drifts by parts per million",
        TIME_TESTS,
        TIME,
        "+ true_us * self.drift_ppm // 1_000_000",
        "+ true_us * self.drift_ppm // 1_000_000_000",
    ),
    tested(
        "fault_accepts_probabilities_above_one",
        "a probability is at most 1",
        FAULT_TESTS,
        FIELDS,
        "lambda value: 0 <= value <= 1,",
        "lambda value: 0 <= value,",
    ),
    tested(
        "fault_ignores_unexpected_words",
        "an entry contains no other words",
        FAULT_TESTS,
        LANGUAGE,
        "        unused = [*self.subjects, *self.clauses]",
        "        unused = [*self.clauses]",
    ),
    tested(
        "fault_reads_percentages_as_shares",
        "10% is a probability of 0.1",
        FAULT_TESTS,
        FIELDS,
        'return value / 100 if text.endswith("%") else value',
        "return value",
    ),
)
