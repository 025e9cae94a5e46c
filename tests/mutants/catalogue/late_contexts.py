"""Mutants of contexts that the leader extends: cuts, deadlines and wakes."""

from tests.mutants.catalogue import CAB, ORDER, AnyMutant, Edit, Mutant, MutantWithTests, tested

CUTS = "protocol/broadcast/cuts.py"
CUT_TESTS = "tests/unit/protocol/broadcast/test_cuts.py"
DELAYS = "protocol/consensus/delays.py"
DELAY_TESTS = "tests/unit/protocol/consensus/test_delays.py"
QUEUE = "protocol/consensus/proposal_queue.py"
QUEUE_TESTS = "tests/unit/protocol/consensus/test_proposal_queue.py"
VALIDATION = "protocol/validation.py"
PAPER_TESTS = "tests/paper/test_late_contexts.py"

MUTANTS: tuple[AnyMutant, ...] = (
    # --- cuts -----------------------------------------------------------------------------------
    Mutant(
        "votes_before_the_cut_is_received",
        "Section 5: an acceptor votes only once it has every request that the batch names",
        120,
        (
            Edit(
                CAB,
                "            if id in self._ready:\n                continue\n",
                "            if id in self._ready or id != batch[-1]:\n                continue\n",
            ),
        ),
    ),
    Mutant(
        "delivers_before_the_cut_is_received",
        "a strong request is CAB-delivered once its cut is received",
        120,
        (
            Edit(
                CAB,
                "            elif self._is_delivered(id):\n",
                "            elif self._is_delivered(id) or not learner.is_at_batch_end():\n",
            ),
        ),
    ),
    Mutant(
        "cut_has_later_requests",
        "a cut has no request later than its strong request",
        120,
        (
            Edit(
                CUTS,
                "if request.timestamp < timestamp or (",
                "if request.timestamp < timestamp + 1_000_000 or (",
            ),
        ),
    ),
    Mutant(
        "cut_is_committed_out_of_order",
        "line 49: context and cut are committed in the order of their timestamps",
        120,
        (
            Edit(
                ORDER,
                "        for replica, event in ends.items():\n"
                "            moved += self._tentative_weak_up_to(replica, event, request.context)\n"
                "        if len(moved) > 1:\n            moved.sort(key=_order_key)\n",
                "        if len(moved) > 1:\n            moved.sort(key=_order_key)\n"
                "        for replica, event in ends.items():\n"
                "            moved += "
                "self._tentative_weak_up_to(replica, event, request.context)\n",
            ),
        ),
    ),
    Mutant(
        "cut_commits_only_the_named_request",
        "the dot of a cut stands for all earlier weak requests of its origin",
        120,
        (Edit(ORDER, "Dots({replica: (1, event + 1)})", "Dots({replica: (event, event + 1)})"),),
    ),
    tested(
        "proposes_a_request_that_was_delivered_while_held",
        "a held request that was delivered meanwhile is not proposed",
        QUEUE_TESTS,
        QUEUE,
        "while self._heap and self._requests.is_committed(self._heap[0].id):",
        "while False:",
    ),
    MutantWithTests(
        "cut_is_a_delta",
        "a cut does not depend on instances in flight, which may come to nothing",
        (QUEUE_TESTS,),
        (
            Edit(
                QUEUE,
                "        self._heap: list[_HeldRequest] = []\n        self._wake_at: ",
                "        self._named: set[Dot] = set()\n"
                "        self._heap: list[_HeldRequest] = []\n        self._wake_at: ",
            ),
            Edit(
                QUEUE,
                "                batch[dot] = None\n",
                "                if dot not in self._named:\n"
                "                    batch[dot] = None\n"
                "                    self._named.add(dot)\n",
            ),
        ),
    ),
    tested(
        "cut_retains_committed_requests",
        "of the committed weak requests of an origin, only the last is retained",
        CUT_TESTS,
        CUTS,
        "            requests.popleft()\n",
        "            break\n",
    ),
    tested(
        "trailing_cut_extends_the_next_batch",
        "a cut belongs to a strong request of its own batch",
        PAPER_TESTS,
        "schemes/core/ordering.py",
        "cut = self._cut if self._cut_instance == instance else ()",
        "cut = self._cut",
    ),
    tested(
        "validation_accepts_later_requests_in_a_cut",
        "a proposal whose cut has a later request is rejected",
        "tests/unit/schemes/test_basic_rejected_messages.py",
        VALIDATION,
        "            if timestamp_max > requests.timestamp_of(id):\n",
        "            if timestamp_max < 0:\n",
    ),
    # --- deadlines ------------------------------------------------------------------------------
    tested(
        "hold_is_ignored",
        "a strong request is not proposed before its deadline",
        QUEUE_TESTS,
        QUEUE,
        "        return first.deadline_ticks <= shared.ticks\n",
        "        return True\n",
    ),
    tested(
        "hold_depends_on_the_clock_alone",
        "ticks end a hold if the clock goes back",
        QUEUE_TESTS,
        QUEUE,
        "        return first.deadline_ticks <= shared.ticks\n",
        "        return False\n",
    ),
    tested(
        "one_slow_replica_sets_the_hold",
        "the hold is bounded by the median delay",
        DELAY_TESTS,
        DELAYS,
        "min(int(longest), int(bound), self._shared.settings.hold_us_max)",
        "min(int(longest), self._shared.settings.hold_us_max)",
    ),
    tested(
        "long_delays_are_not_forgotten",
        "the hold follows recent delays",
        DELAY_TESTS,
        DELAYS,
        "            self.peak -= (self.peak - delay) * PEAK_DECAY\n",
        "            pass\n",
    ),
    # --- wakes ----------------------------------------------------------------------------------
    tested(
        "wake_spins",
        "no wake is requested for a request that is due",
        QUEUE_TESTS,
        QUEUE,
        "        if self.has_due() or not self._heap:\n",
        "        if not self._heap:\n",
    ),
    tested(
        "wake_is_lost_if_the_clock_goes_back",
        "a wake before the deadline is requested again",
        QUEUE_TESTS,
        QUEUE,
        'so that a clock that went back gets another."""\n        self._wake_at = None\n',
        'so that a clock that went back gets another."""\n',
    ),
    tested(
        "wake_outlives_the_leader",
        "a replica that no longer leads asks for no wake",
        QUEUE_TESTS,
        QUEUE,
        "    def clear(self) -> None:\n        self._heap = []\n",
        "    def clear(self) -> None:\n",
    ),
    tested(
        "simulated_driver_keeps_an_outdated_wake",
        "a wake replaces an earlier one",
        "tests/unit/simulation/kernel/test_node.py",
        "simulation/kernel/node.py",
        "        if self._wake_timer is not None:\n"
        "            self._heap.cancel(self._wake_timer)\n"
        "        delay_us",
        "        delay_us",
    ),
)
