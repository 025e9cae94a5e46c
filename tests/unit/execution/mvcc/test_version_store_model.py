"""Version store against a model that is obviously correct.

The model keeps the writes of each executed request, and folds them over a plain dict up to a given
position. Requests are installed, moved, merged, split and stabilised in any order. Every snapshot
must equal the fold, and every valid execution must have the same result when it is repeated. A
checkpoint cursor that is advanced meanwhile must return the stable state at its opening.
"""

from typing import Any, TypeVar

from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.keys import FIRST_COLLATION_KEY, LAST_COLLATION_KEY, collation_key
from creekdb.execution.mvcc.entry import ExecutionPhase, MergedRun, RequestEntry
from creekdb.execution.mvcc.register_table import CheckpointCursor
from creekdb.execution.result import ExecutionResult
from creekdb.execution.sequential import Sequential
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from tests.unit.execution.mvcc.store_fixture import STEPWISE, Attempt, StoreFixture, loaded_state

KEYS = ("n", "n1", "n2", "m", ("t", 1), ("t", 2), "z")
POSITION_MAX = 120

READS = ("get", "scan", "prefix", "total", "copy", "put_unless", "put", "delete")
PICKS = (*READS[:-1], "pick", "pick", "draw")
ADDS = (*READS, "add", "add", "add", "shift", "raise")

Step = tuple[Any, ...]
Program = list[tuple[str, int, tuple[Step, ...]]]


def steps(
    verbs: tuple[str, ...], values: st.SearchStrategy[Any], of_keys: tuple[Key, ...]
) -> st.SearchStrategy[Step]:
    keys = st.sampled_from(of_keys)
    items = st.sampled_from((0, 1, "a"))
    limits = st.none() | st.integers(0, 2)
    strategies: dict[str, st.SearchStrategy[Step]] = {
        "get": st.tuples(st.just("get"), keys),
        "pick": st.tuples(st.just("pick"), keys, items),
        "draw": st.tuples(st.just("draw"), keys, items, keys),
        "scan": st.tuples(st.just("scan"), keys, st.none() | keys, st.booleans(), limits),
        "prefix": st.tuples(st.just("prefix"), st.sampled_from(("n", ("t",)))),
        "total": st.tuples(st.just("total"), st.sampled_from(("m", "z"))),
        "copy": st.tuples(st.just("copy"), keys, keys),
        "shift": st.tuples(st.just("shift"), keys, keys),
        "put_unless": st.tuples(st.just("put_unless"), keys, keys, values),
        "put": st.tuples(st.just("put"), keys, values),
        "delete": st.tuples(st.just("delete"), keys),
        "add": st.tuples(st.just("add"), keys, st.integers(0, 2)),
        "raise": st.just(("raise",)),
    }
    return st.one_of([strategies[verb] for verb in verbs])


FREQUENT = (
    "execute",
    "execute",
    "execute",
    "re-execute",
    "re-execute",
    "re-execute",
    "merge",
    "merge",
)
RARE = ("add", "begin", "finish", "move", "renumber", "stabilise", "split", "load")
CURSORS = ("open cursor", "advance cursor", "advance cursor", "close cursor")
ACTIONS = (*FREQUENT, *RARE, *CURSORS)


def programs(
    verbs: tuple[str, ...],
    values: st.SearchStrategy[Any],
    actions: tuple[str, ...] = ACTIONS,
    keys: tuple[Key, ...] = KEYS,
    sizes: tuple[int, int] = (10, 50),
) -> st.SearchStrategy[Program]:
    return st.lists(
        st.tuples(
            st.sampled_from(actions),
            st.integers(0, 9999),
            st.lists(steps(verbs, values, keys), min_size=1, max_size=3).map(tuple),
        ),
        min_size=sizes[0],
        max_size=sizes[1],
    )


class Model:
    """Version store, and the expected result of every action on it."""

    def __init__(self) -> None:
        self.fixture = StoreFixture()
        self.entries: list[RequestEntry] = []
        """Requests that are not stable, in any order."""
        self.installed: dict[RequestEntry, ExecutionResult] = {}
        self.stable: dict[Key, Any] = {}
        self.floor = 0
        """Last stable position. No request can be inserted before it."""
        self.attempts: list[Attempt] = []
        self.runs: list[MergedRun] = []
        self.cursors: list[tuple[CheckpointCursor, dict[Key, Any], dict[Key, Any]]] = []
        """Open cursors, each with its expected result and its result so far."""
        self.entry_count = 0

    # --- actions ------------------------------------------------------------------------------

    def act(self, action: str, choice: int, script: tuple[Step, ...]) -> None:
        match action:
            case "execute" | "add":
                self._add(choice, script, execute=action == "execute")
            case "begin":
                self.attempts += [
                    self.fixture.begin(each) for each in pick(self._waiting(), choice)
                ]
            case "finish" if self.attempts:
                self._finish(self.attempts.pop(choice % len(self.attempts)))
            case "re-execute":
                for each in pick(self._waiting(), choice):
                    self._execute(each)
            case "move":
                self._move(choice)
            case "renumber":
                self._renumber(choice)
            case "stabilise":
                self._stabilise(1 + choice % 6)
            case "merge":
                self._merge(choice)
            case "split":
                for each in pick(self._intact_runs(), choice):
                    self.fixture.store.split(each)
            case "open cursor":
                self.cursors.append((self.fixture.store.table.open_cursor(), dict(self.stable), {}))
            case "advance cursor" if self.cursors:
                self._advance(choice % len(self.cursors), 1 + choice % 3)
            case "close cursor" if self.cursors:
                self.cursors.pop(choice % len(self.cursors))[0].close()
            case "load" if choice % 5 == 0:
                self._load()
        self._handle_rollbacks()

    def _add(self, choice: int, script: tuple[Step, ...], execute: bool) -> None:
        at = self._free_position(self.floor, POSITION_MAX, choice)
        if at is not None:
            self.entry_count += 1
            entry = self.fixture.add(self.entry_count, *script)
            entry.position = (at,)
            self.entries.append(entry)
            if execute:
                self._execute(entry)

    def _move(self, choice: int) -> None:
        for entry in pick(self._single(), choice):
            at = self._free_position(self.floor, entry.position[0], choice // 7)
            if at is not None and not self._inside(at):
                self._abandon_run(entry)
                self.fixture.store.move(entry, (at,))

    def _renumber(self, choice: int) -> None:
        for entry in pick(self._single(), choice):
            before = [each.position[0] for each in self.entries if each.position < entry.position]
            at = self._free_position(max([self.floor, *before]), entry.position[0], choice)
            if at is not None and entry.merged_run is None and not self._inside(at):
                self.fixture.store.renumber(entry, (at,))

    def _execute(self, entry: RequestEntry) -> None:
        self._finish(self.fixture.begin(entry))

    def _finish(self, attempt: Attempt) -> None:
        entry = attempt.entry
        if entry not in self.entries or entry.phase is not ExecutionPhase.WAITING:
            return  # stable, or executed by another attempt; impossible in a replica
        if self.fixture.finish(attempt):
            self.installed[entry] = attempt.execution
            run, entry.merged_run = entry.merged_run, None
            if run is not None:
                run.pending_entries.pop(entry)
                if not run.pending_entries:
                    self.fixture.store.finish_split(run)

    def _handle_rollbacks(self) -> None:
        for entry in self.fixture.store.take_rolled_back():
            if isinstance(entry, MergedRun):
                for member in entry.entries:
                    member.phase = ExecutionPhase.WAITING
                    entry.pending_entries[member] = None
                    del self.installed[member]
            else:
                del self.installed[entry]

    def _abandon_run(self, entry: RequestEntry) -> None:
        """Finish a split early: a commit does not wait for the re-execution of all members."""
        run = entry.merged_run
        if run is not None:
            for member in run.pending_entries:
                member.merged_run = None
            self.fixture.store.finish_split(run)
            self._handle_rollbacks()

    def _stabilise(self, limit: int) -> None:
        """Stabilise a prefix of the order, all executed, that does not end inside a run."""
        prefix: list[RequestEntry] = []
        for entry in self.ordered():
            if not entry.is_executed or len(prefix) == limit:
                break
            prefix.append(entry)
        while prefix and self._inside(prefix[-1].position[0] + 1):
            prefix.pop()
        for entry in prefix:
            self._apply(self.stable, self.installed.pop(entry))
            self.entries.remove(entry)
            self.floor = entry.position[0]
            run = entry.merged_run
            if run is None:
                self.fixture.store.stabilise(entry)
            elif entry is run.entries[-1]:
                self.fixture.store.stabilise(run)

    def _merge(self, choice: int) -> None:
        order = self.ordered()
        start = choice % (len(order) + 1)
        members: list[RequestEntry] = []
        for entry in order[start : start + 2 + choice % 3]:
            if entry.phase is not ExecutionPhase.EXECUTED or self._inside(entry.position[0]):
                break
            members.append(entry)
        if len(members) > 1 and self.fixture.store.is_valid_up_to(members[-1].position):
            self.runs.append(self.fixture.store.merged_runs.merge(members))

    def _load(self) -> None:
        self.fixture.store.load(loaded_state(*self.stable.items()))
        self.entries, self.attempts, self.runs = [], [], []
        self.installed.clear()

    def _advance(self, number: int, count: int) -> None:
        cursor, expected, result = self.cursors[number]
        batch = cursor.take(count)
        if batch is None:
            assert result == expected
            assert cursor.is_closed
            del self.cursors[number]
            return
        items, deleted = batch
        assert len(items) + len(deleted) <= count
        assert not result.keys() & dict(items).keys()
        assert not deleted, "the base is empty"
        result.update(items)

    # --- checks -------------------------------------------------------------------------------

    def check(self) -> None:
        machine = Sequential(STEPWISE)
        machine.state = dict(self.stable)
        assert dict(self.fixture.store.table.stable_items()) == self.stable
        keys = self.fixture.store.table._key_list
        assert keys is not None
        assert len(set(keys.keys)) == len(keys.keys)
        assert set(keys.keys) - keys.removed == self.fixture.store.table.registers.keys()
        for entry in self.ordered():
            if not self._inside(entry.position[0]):
                self._check_snapshot(entry, machine.state)
            if entry not in self.installed:
                continue
            installed = self.installed[entry]
            if self._is_valid(entry):
                repetition = Sequential(STEPWISE)
                repetition.state = dict(machine.state)
                assert repetition.apply(entry.request) == installed.outcome == entry.outcome
                self._apply(machine.state, installed)
                assert repetition.state == machine.state
            else:
                self._apply(machine.state, installed)
        assert self.fixture.state() == machine.state

    def _check_snapshot(self, entry: RequestEntry, state: dict[Key, Any]) -> None:
        snapshot = self.fixture.store.snapshot(entry.position)
        present = sorted(state, key=collation_key)
        assert list(snapshot.keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, False)) == present
        assert list(snapshot.keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, True)) == present[::-1]
        for key in KEYS:
            value, expected = snapshot.read(key), state.get(key, ABSENT)
            assert value == expected
            assert type(value) is type(expected)

    def check_end(self) -> None:
        """Execute and stabilise everything. Only the state must be left."""
        self.attempts.clear()
        for _ in range(len(self.entries) ** 2 + 1):
            for entry in sorted(self._waiting(), key=lambda each: each.position)[:1]:
                self._execute(entry)
                self._handle_rollbacks()
        assert not self._waiting(), "the re-executions do not terminate"
        assert self.fixture.store.is_valid_up_to((POSITION_MAX,))
        self.check()
        self._stabilise(len(self.entries))
        while self.cursors:
            self._advance(0, 2)
        assert not self.entries
        self.check()
        assert set(self.fixture.store.table.registers) == set(self.stable)
        assert not self.fixture.unstable_keys()
        assert not self.fixture.store._read_index.blind_adders

    # --- helpers ------------------------------------------------------------------------------

    def ordered(self) -> list[RequestEntry]:
        return sorted(self.entries, key=lambda entry: entry.position)

    def _waiting(self) -> list[RequestEntry]:
        return [each for each in self.entries if each.phase is ExecutionPhase.WAITING]

    def _single(self) -> list[RequestEntry]:
        return [each for each in self.entries if each.phase is not ExecutionPhase.MERGED]

    def _intact_runs(self) -> list[MergedRun]:
        return [each for each in self.runs if each.phase is ExecutionPhase.EXECUTED]

    def _inside(self, at: int) -> bool:
        return any(
            each.start_position < (at,) <= each.position
            for each in self.runs
            if each.phase is ExecutionPhase.EXECUTED
        )

    def _is_valid(self, entry: RequestEntry) -> bool:
        unit = entry.merged_run if entry.phase is ExecutionPhase.MERGED else entry
        assert unit is not None
        return self.fixture.store.is_valid_up_to(unit.position)

    def _free_position(self, above: int, below: int, choice: int) -> int | None:
        occupied = {each.position[0] for each in self.entries}
        free = [at for at in range(above + 1, below) if at not in occupied]
        return free[choice % len(free)] if free else None

    def _apply(self, state: dict[Key, Any], execution: ExecutionResult) -> None:
        for key, value in execution.writes.items():
            if value is ABSENT:
                state.pop(key, None)
            else:
                state[key] = value
        for key, amount in execution.blind_adds.items():
            state[key] = state.get(key, 0) + amount


Kind = TypeVar("Kind", bound=RequestEntry)


def pick(entries: list[Kind], choice: int) -> list[Kind]:
    """Return a list of the chosen entry, or an empty list if there are none."""
    return [entries[choice % len(entries)]] if entries else []


READING = programs(READS, st.integers(0, 2))
PICKING = programs(
    tuple(verb for verb in PICKS if verb != "total"),
    st.tuples(st.integers(0, 1), st.integers(0, 1))
    | st.fixed_dictionaries({"a": st.integers(0, 1), "b": st.integers(0, 1)})
    | st.just(0),
)
ADDING = programs(ADDS, st.integers(0, 2))
REORDERED_ADDS = programs(
    ("get", "add"), st.nothing(), ("execute", "execute", "move", "re-execute"), ("n",), (4, 12)
)
NOT_ADDABLE = programs(ADDS, st.sampled_from((0, 1, True, "text", None, 1.0, 2**61)))


def run_program(program: Program) -> None:
    """Run the program twice: with a check after every action, and with one at the end.

    A check reads every register at every position, and the store keeps the sums that it computes
    for these reads. A fault in sums that are kept may show only where nothing else has read them.
    """
    model, unobserved = Model(), Model()
    for action, choice, script in program:
        model.act(action, choice, script)
        model.check()
        unobserved.act(action, choice, script)
    unobserved.check()
    unobserved.check_end()
    model.check_end()


@given(READING)
def test_the_store_equals_the_fold_of_the_executed_requests(program: Program) -> None:
    run_program(program)


@given(PICKING)
def test_partial_reads_validate_like_full_reads(program: Program) -> None:
    run_program(program)


@given(ADDING)
def test_blind_additions_are_in_the_fold(program: Program) -> None:
    run_program(program)


@given(REORDERED_ADDS)
def test_readers_of_reordered_additions_read_the_fold(program: Program) -> None:
    run_program(program)


@given(NOT_ADDABLE)
def test_additions_to_values_that_are_not_addable_are_in_the_fold(program: Program) -> None:
    run_program(program)


@given(READING)
def test_no_request_with_unchanged_reads_is_rolled_back(program: Program) -> None:
    model = Model()
    for action, choice, script in program:
        reads = {
            entry: {key: value for key, (_, value) in entry.reads.items()}
            for entry in model.entries
            if entry.phase is ExecutionPhase.EXECUTED
        }
        model.act(action, choice, script)
        rolled_back = [
            entry
            for entry in reads
            if entry.phase is ExecutionPhase.WAITING
            and entry.merged_run is None
            and entry in model.entries
        ]
        if len(rolled_back) == 1:  # one of several may have changed the reads of another
            (entry,) = rolled_back
            snapshot = model.fixture.store.snapshot(entry.position)
            before = reads[entry]
            current = {key: snapshot.read(key) for key in KEYS}
            assert any(current[key] != before.get(key, ABSENT) for key in KEYS)
