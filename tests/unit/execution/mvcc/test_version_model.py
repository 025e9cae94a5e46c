"""The version store against a store that is obviously right.

The model remembers what each executed request wrote, and folds it over a plain dict up to the place
in question. Whatever is installed, moved, merged, taken apart and settled in whatever order: every
snapshot is that fold, and whatever counts as executed and sure would give the same again. An image
of what is settled, gone through in the midst of all this, shows the moment when it was taken.
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
from tests.unit.execution.mvcc.store_fixture import STEPWISE, Attempt, Shelf, arrived

KEYS = ("n", "n1", "n2", "m", ("t", 1), ("t", 2), "z")
PLACES_MAX = 120

LOOKS = ("get", "scan", "prefix", "total", "copy", "put_unless", "put", "delete")
PICKS = (*LOOKS[:-1], "pick", "pick", "draw")
ADDS = (*LOOKS, "add", "add", "add", "shift", "raise")

Step = tuple[Any, ...]
Program = list[tuple[str, int, tuple[Step, ...]]]


def steps(verbs: tuple[str, ...], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    keys = st.sampled_from(KEYS)
    items = st.sampled_from((0, 1, "a"))
    limits = st.none() | st.integers(0, 2)
    made: dict[str, st.SearchStrategy[Step]] = {
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
    return st.one_of([made[verb] for verb in verbs])


OFTEN = ("do", "do", "do", "again", "again", "again", "merge", "merge")
RARELY = ("put", "begin", "finish", "move", "rename", "settle", "take apart", "load")
IMAGES = ("image", "look", "look", "leave")
ACTIONS = (*OFTEN, *RARELY, *IMAGES)


def programs(verbs: tuple[str, ...], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Program]:
    return st.lists(
        st.tuples(
            st.sampled_from(ACTIONS),
            st.integers(0, 9999),
            st.lists(steps(verbs, values), min_size=1, max_size=3).map(tuple),
        ),
        min_size=10,
        max_size=50,
    )


class Model:
    def __init__(self) -> None:
        self.shelf = Shelf()
        self.entries: list[RequestEntry] = []
        """What is not settled, in no order."""
        self.installed: dict[RequestEntry, ExecutionResult] = {}
        self.settled: dict[Key, Any] = {}
        self.floor = 0
        """Nothing goes before it any more."""
        self.attempts: list[Attempt] = []
        self.stretches: list[MergedRun] = []
        self.images: list[tuple[CheckpointCursor, dict[Key, Any], dict[Key, Any]]] = []
        """With what each must show, and what it has shown so far."""
        self.made = 0

    # --- what can happen ----------------------------------------------------------------------

    def act(self, action: str, choice: int, script: tuple[Step, ...]) -> None:
        match action:
            case "do" | "put":
                self._put(choice, script, execute=action == "do")
            case "begin":
                self.attempts += [self.shelf.begin(each) for each in pick(self._waiting(), choice)]
            case "finish" if self.attempts:
                self._finish(self.attempts.pop(choice % len(self.attempts)))
            case "again":
                for each in pick(self._waiting(), choice):
                    self._execute(each)
            case "move":
                self._move(choice)
            case "rename":
                self._rename(choice)
            case "settle":
                self._settle(1 + choice % 6)
            case "merge":
                self._merge(choice)
            case "take apart":
                for each in pick(self._whole(), choice):
                    self.shelf.store.split(each)
            case "image":
                self.images.append((self.shelf.store.open_cursor(), dict(self.settled), {}))
            case "look" if self.images:
                self._look(choice % len(self.images), 1 + choice % 3)
            case "leave" if self.images:
                self.images.pop(choice % len(self.images))[0].close()
            case "load" if choice % 5 == 0:
                self._load()
        self._follow_withdrawn()

    def _put(self, choice: int, script: tuple[Step, ...], execute: bool) -> None:
        at = self._free(self.floor, PLACES_MAX, choice)
        if at is not None:
            self.made += 1
            entry = self.shelf.put(self.made, *script)
            entry.position = (at,)
            self.entries.append(entry)
            if execute:
                self._execute(entry)

    def _move(self, choice: int) -> None:
        for entry in pick(self._single(), choice):
            at = self._free(self.floor, entry.position[0], choice // 7)
            if at is not None and not self._inside(at):
                self._leave_stretch(entry)
                self.shelf.store.move(entry, (at,))

    def _rename(self, choice: int) -> None:
        for entry in pick(self._single(), choice):
            before = [each.position[0] for each in self.entries if each.position < entry.position]
            at = self._free(max([self.floor, *before]), entry.position[0], choice)
            if at is not None and entry.merged_run is None and not self._inside(at):
                self.shelf.store.renumber(entry, (at,))

    def _execute(self, entry: RequestEntry) -> None:
        self._finish(self.shelf.begin(entry))

    def _finish(self, attempt: Attempt) -> None:
        entry = attempt.entry
        if entry not in self.entries or entry.phase is not ExecutionPhase.WAITING:
            return  # settled or executed by another attempt, as no replica would have it
        if self.shelf.finish(attempt):
            self.installed[entry] = attempt.execution
            stretch, entry.merged_run = entry.merged_run, None
            if stretch is not None:
                stretch.pending_entries.pop(entry)
                if not stretch.pending_entries:
                    self.shelf.store.finish_split(stretch)

    def _follow_withdrawn(self) -> None:
        for entry in self.shelf.store.take_rolled_back():
            if isinstance(entry, MergedRun):
                for member in entry.entries:
                    member.phase = ExecutionPhase.WAITING
                    entry.pending_entries[member] = None
                    del self.installed[member]
            else:
                del self.installed[entry]

    def _leave_stretch(self, entry: RequestEntry) -> None:
        """A commit does not wait until the members of a stretch are all executed again."""
        stretch = entry.merged_run
        if stretch is not None:
            for member in stretch.pending_entries:
                member.merged_run = None
            self.shelf.store.finish_split(stretch)
            self._follow_withdrawn()

    def _settle(self, limit: int) -> None:
        """A beginning of the order, all of it executed, that does not end inside a stretch."""
        settling: list[RequestEntry] = []
        for entry in self.ordered():
            if not entry.is_executed or len(settling) == limit:
                break
            settling.append(entry)
        while settling and self._inside(settling[-1].position[0] + 1):
            settling.pop()
        for entry in settling:
            self._apply(self.settled, self.installed.pop(entry))
            self.entries.remove(entry)
            self.floor = entry.position[0]
            stretch = entry.merged_run
            if stretch is None:
                self.shelf.store.stabilise(entry)
            elif entry is stretch.entries[-1]:
                self.shelf.store.stabilise(stretch)

    def _merge(self, choice: int) -> None:
        order = self.ordered()
        start = choice % (len(order) + 1)
        members: list[RequestEntry] = []
        for entry in order[start : start + 2 + choice % 3]:
            if entry.phase is not ExecutionPhase.EXECUTED or self._inside(entry.position[0]):
                break
            members.append(entry)
        if len(members) > 1 and self.shelf.store.is_valid_up_to(members[-1].position):
            self.stretches.append(self.shelf.store.merge(members))

    def _load(self) -> None:
        self.shelf.store.load(arrived(*self.settled.items()))
        self.entries, self.attempts, self.stretches = [], [], []
        self.installed.clear()

    def _look(self, number: int, most: int) -> None:
        image, expected, shown = self.images[number]
        found = image.take(most)
        if found is None:
            assert shown == expected
            assert image.is_closed
            del self.images[number]
            return
        held, deleted = found
        assert len(held) + len(deleted) <= most
        assert not shown.keys() & dict(held).keys()
        assert not deleted, "nothing lies below"
        shown.update(held)

    # --- what must hold -----------------------------------------------------------------------

    def check(self) -> None:
        machine = Sequential(STEPWISE)
        machine.state = dict(self.settled)
        assert dict(self.shelf.store.stable_items()) == self.settled
        keys = self.shelf.store._table._key_list
        assert keys is not None
        assert len(set(keys.keys)) == len(keys.keys)
        assert set(keys.keys) - keys.removed == self.shelf.store._table.registers.keys()
        for entry in self.ordered():
            if not self._inside(entry.position[0]):
                self._check_snapshot(entry, machine.state)
            if entry not in self.installed:
                continue
            installed = self.installed[entry]
            if self._is_sure(entry):
                again = Sequential(STEPWISE)
                again.state = dict(machine.state)
                assert again.apply(entry.request) == installed.outcome == entry.outcome
                self._apply(machine.state, installed)
                assert again.state == machine.state
            else:
                self._apply(machine.state, installed)
        assert self.shelf.state() == machine.state

    def _check_snapshot(self, entry: RequestEntry, state: dict[Key, Any]) -> None:
        snapshot = self.shelf.store.snapshot(entry.position)
        present = sorted(state, key=collation_key)
        assert list(snapshot.keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, False)) == present
        assert list(snapshot.keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, True)) == present[::-1]
        for key in KEYS:
            value, expected = snapshot.read(key), state.get(key, ABSENT)
            assert value == expected
            assert type(value) is type(expected)

    def check_end(self) -> None:
        """Once everything is executed and settled, there is nothing left but the state."""
        self.attempts.clear()
        for _ in range(len(self.entries) ** 2 + 1):
            for entry in sorted(self._waiting(), key=lambda each: each.position)[:1]:
                self._execute(entry)
                self._follow_withdrawn()
        assert not self._waiting(), "it does not come to an end"
        assert self.shelf.store.is_valid_up_to((PLACES_MAX,))
        self.check()
        self._settle(len(self.entries))
        while self.images:
            self._look(0, 2)
        assert not self.entries
        self.check()
        assert set(self.shelf.store._table.registers) == set(self.settled)
        assert not self.shelf.unsettled()
        assert not self.shelf.store._read_index.blind_adders

    # --- inside -------------------------------------------------------------------------------

    def ordered(self) -> list[RequestEntry]:
        return sorted(self.entries, key=lambda entry: entry.position)

    def _waiting(self) -> list[RequestEntry]:
        return [each for each in self.entries if each.phase is ExecutionPhase.WAITING]

    def _single(self) -> list[RequestEntry]:
        return [each for each in self.entries if each.phase is not ExecutionPhase.MERGED]

    def _whole(self) -> list[MergedRun]:
        return [each for each in self.stretches if each.phase is ExecutionPhase.EXECUTED]

    def _inside(self, at: int) -> bool:
        return any(
            each.start_position < (at,) <= each.position
            for each in self.stretches
            if each.phase is ExecutionPhase.EXECUTED
        )

    def _is_sure(self, entry: RequestEntry) -> bool:
        whole = entry.merged_run if entry.phase is ExecutionPhase.MERGED else entry
        assert whole is not None
        return self.shelf.store.is_valid_up_to(whole.position)

    def _free(self, above: int, below: int, choice: int) -> int | None:
        taken = {each.position[0] for each in self.entries}
        free = [at for at in range(above + 1, below) if at not in taken]
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
    """One of them, if there is one."""
    return [entries[choice % len(entries)]] if entries else []


LOOKING = programs(LOOKS, st.integers(0, 2))
PICKING = programs(
    tuple(verb for verb in PICKS if verb != "total"),
    st.tuples(st.integers(0, 1), st.integers(0, 1))
    | st.fixed_dictionaries({"a": st.integers(0, 1), "b": st.integers(0, 1)})
    | st.just(0),
)
ADDING = programs(ADDS, st.integers(0, 2))
IRREGULAR = programs(ADDS, st.sampled_from((0, 1, True, "text", None, 1.0, 2**61)))


def follow(program: Program) -> None:
    model = Model()
    for action, choice, script in program:
        model.act(action, choice, script)
        model.check()
    model.check_end()


@given(LOOKING)
def test_the_store_is_the_fold_of_what_was_executed(program: Program) -> None:
    follow(program)


@given(PICKING)
def test_who_picked_some_items_is_as_right_as_who_read_the_whole(program: Program) -> None:
    follow(program)


@given(ADDING)
def test_additions_that_nobody_has_looked_at_are_in_the_fold(program: Program) -> None:
    follow(program)


@given(IRREGULAR)
def test_additions_to_what_cannot_be_added_to_are_in_the_fold(program: Program) -> None:
    follow(program)


@given(LOOKING)
def test_nobody_is_withdrawn_whose_reads_have_not_changed(program: Program) -> None:
    model = Model()
    for action, choice, script in program:
        reads = {
            entry: {key: value for key, (_, value) in entry.reads.items()}
            for entry in model.entries
            if entry.phase is ExecutionPhase.EXECUTED
        }
        model.act(action, choice, script)
        withdrawn = [
            entry
            for entry in reads
            if entry.phase is ExecutionPhase.WAITING
            and entry.merged_run is None
            and entry in model.entries
        ]
        if len(withdrawn) == 1:  # of several, one may have changed what another reads
            (entry,) = withdrawn
            snapshot = model.shelf.store.snapshot(entry.position)
            before = reads[entry]
            now = {key: snapshot.read(key) for key in KEYS}
            assert any(now[key] != before.get(key, ABSENT) for key in KEYS)
